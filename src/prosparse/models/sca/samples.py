"""What the model asks of its samples: the moments of their latents, never a single entry.

`Samples` is the protocol. `CompleteSamples` keeps it for a table in which nothing is missing;
`samples_with_gaps.SamplesWithGaps` for one with missing entries.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ...data import Array, Operator
from ...data.arrays import host, in_kind
from ...numerics.spectrum import EXACT_SIDE, spectrum


class LatentMoments(NamedTuple):
    """The latents given the weights, as far as the weights and the noise need them."""

    A: np.ndarray  # (1 or p, Q, Q) sum of <z z'> over the samples in which variable i was observed
    G: np.ndarray  # (p, Q) sum of (x - mu) <z>
    z_sum: np.ndarray  # (1 or p, Q) sum of <z> over the same samples
    zz: np.ndarray  # (Q, Q) sum of <z z'> over all samples
    log_det: float  # sum over samples of log det S_n
    explained: float  # sum over samples of <z_n>' S_n^-1 <z_n>


class Samples(Protocol):
    """A centred table of n samples and p variables, as the model sees it.

    Attributes
    ----------
    n : int
        Samples.
    p : int
        Variables.
    observed : array (p,)
        How many entries of every variable were observed.
    squares : array (p,)
        The sum of the squares of these entries.
    """

    n: int
    p: int
    observed: np.ndarray
    squares: np.ndarray

    def moments(
        self, L: np.ndarray, C: np.ndarray | None, tau: np.ndarray, mu: np.ndarray
    ) -> LatentMoments:
        """The E step: sums over the samples of the moments of q(z).

        Parameters
        ----------
        L : array (p, Q)
            Weights.
        C : array (p, Q, Q) or None
            Covariances of the rows of the weights; None where the weights are points.
        tau : array (p,)
            The noise precision of every variable.
        mu : array (p,)
            Offsets from the observed means.

        Returns
        -------
        LatentMoments
        """


def fewest_rows(op: Operator) -> Operator:
    """A table of at most as many rows as columns with the same X'X, where that is worth its cost.

    A pass over the factor of X'X does not depend on the number of rows. To find the factor takes
    the square of the columns in memory and their cube in time: of many columns, not.

    Parameters
    ----------
    op : Operator
        The centred table (n, p).

    Returns
    -------
    Operator
        (min(n, p), p), or ``op`` itself.
    """
    n, p = op.shape
    return spectrum(op).table if n > p and p <= EXACT_SIDE else op


class Rest(NamedTuple):
    """What a table of fewer rows lacks of X'X: P diag(squares) P with P = I - V V'."""

    squares: np.ndarray  # (p,) that every column has by itself
    V: np.ndarray  # (p, k) orthonormal directions along which nothing is lacking

    def product(self, F: np.ndarray) -> np.ndarray:
        """The product with F (p, Q)."""
        alone = self.squares[:, None] * self._beside(F)
        return self._beside(alone)

    def _beside(self, F: np.ndarray) -> np.ndarray:
        return F - self.V @ (self.V.T @ F)


class CompleteSamples:
    """Nothing is missing: S_n is the same for all samples, and two products with X suffice.

    Parameters
    ----------
    op : Operator
        The centred table, or a table of fewer rows with the same X'X.
    n : int
        Samples, of which ``op`` may have fewer rows.
    rest : Rest or None, default=None
        What the rows of ``op`` lack. None: nothing.
    """

    def __init__(self, op: Operator, n: int, rest: Rest | None = None):
        self.op = op
        self.n = n
        self.rest = rest
        self.p = op.shape[1]
        self.squares = host(op.column_squares())
        self.observed = np.full(self.p, float(n))

    def moments(
        self, L: np.ndarray, C: np.ndarray | None, tau: np.ndarray, mu: np.ndarray
    ) -> LatentMoments:
        """[AB08] (17) or, with the covariances C of the weights, (25); see `Samples.moments`.

        ``mu`` is zero here: the observed means are those of all samples.
        """
        weighted = tau[:, None] * L
        precision = weighted.T @ L + np.eye(L.shape[1])
        if C is not None:
            precision = precision + np.tensordot(tau, C, axes=1)
        S = np.linalg.inv(precision)
        S = 0.5 * (S + S.T)
        G, ZZ = self.projections(weighted @ S)
        zz = self.n * S + ZZ
        log_det = -self.n * float(np.linalg.slogdet(precision)[1])
        explained = float(np.sum(precision * ZZ))
        return LatentMoments(zz[None], G, np.zeros((1, L.shape[1])), zz, log_det, explained)

    def projections(self, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(X'Y, Y'Y) with Y = X F, for F (p, Q): what the latents are made of, whatever their
        variances."""
        filters = in_kind(F, self.op.column_squares(), self.op.dtype)

        def products(block: Array) -> tuple[Array, Array]:
            Y = block @ filters
            return block.T @ Y, Y.T @ Y

        XY, YY = (host(part).astype(float) for part in self.op.sum_rows(products))
        if self.rest is None:
            return XY, YY
        more = self.rest.product(F)
        return XY + more, YY + F.T @ more
