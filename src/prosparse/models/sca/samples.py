"""What the model asks of its samples: the moments of their latents, never a single entry.

`Samples` is the protocol. `CompleteSamples` keeps it for a table in which nothing is missing;
`samples_with_gaps.IncompleteSamples` for one with missing entries.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from array_api_compat import array_namespace

from ...data import Array, Operator
from ...data.arrays import as_like, to_numpy
from ...numerics.spectrum import EXACT_SIDE, eye_like, spectrum


class FactorMoments(NamedTuple):
    """The latents given the weights, as far as the weights and the noise need them."""

    A: Array  # (1 or p, Q, Q) sum of <z z'> over the samples in which variable i was observed
    G: Array  # (p, Q) sum of (x - mu) <z>
    z_sum: Array  # (1 or p, Q) sum of <z> over the same samples
    zz: Array  # (Q, Q) sum of <z z'> over all samples
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
    observed: Array
    squares: Array

    def moments(self, L: Array, C: Array | None, tau: Array, mu: Array) -> FactorMoments:
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
        FactorMoments
        """


def reduce_rows(op: Operator) -> Operator:
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


class ResidualSquares(NamedTuple):
    """What a table of fewer rows lacks of X'X: P diag(squares) P with P = I - V V'."""

    squares: Array  # (p,) that every column has by itself
    V: Array  # (p, k) orthonormal directions along which nothing is lacking

    def product(self, F: Array) -> Array:
        """The product with F (p, Q)."""
        alone = self.squares[:, None] * self._project_out(F)
        return self._project_out(alone)

    def _project_out(self, F: Array) -> Array:
        return F - self.V @ (self.V.T @ F)


class CompleteSamples:
    """Nothing is missing: S_n is the same for all samples, and two products with X suffice.

    Parameters
    ----------
    op : Operator
        The centred table, or a table of fewer rows with the same X'X.
    n : int
        Samples, of which ``op`` may have fewer rows.
    rest : ResidualSquares or None, default=None
        What the rows of ``op`` lack. None: nothing.
    on_device : bool, default=False
        Whether weights and moments are arrays of the table's library, on its device, and not on
        the host.
    """

    def __init__(
        self, op: Operator, n: int, rest: ResidualSquares | None = None, on_device: bool = False
    ):
        self.op = op
        self.n = n
        self.p = op.shape[1]
        self.on_device = on_device
        self.squares = self._to_loadings_device(op.column_squares())
        self.observed = array_namespace(self.squares).full_like(self.squares, float(n))
        self.rest = (
            None
            if rest is None
            else ResidualSquares(*(self._to_loadings_device(part) for part in rest))
        )

    def _to_loadings_device(self, part: Array) -> Array:
        """In double precision, where the weights are."""
        if not self.on_device:
            return to_numpy(part).astype(float)
        xp = self.op.xp
        return xp.astype(as_like(part, self.op.column_squares()), xp.float64, copy=False)

    def moments(self, L: Array, C: Array | None, tau: Array, mu: Array) -> FactorMoments:
        """[AB08] (17) or, with the covariances C of the weights, (25); see `Samples.moments`.

        ``mu`` is zero here: the observed means are those of all samples.
        """
        xp, Q = array_namespace(L), L.shape[1]
        weighted = tau[:, None] * L
        precision = weighted.T @ L + eye_like(weighted.T @ L, xp)
        if C is not None:
            precision = precision + xp.reshape(tau @ xp.reshape(C, (self.p, -1)), (Q, Q))
        S = xp.linalg.inv(precision)
        S = 0.5 * (S + S.T)
        G, ZZ = self.projections(weighted @ S)
        zz = self.n * S + ZZ
        log_det = -self.n * float(xp.linalg.slogdet(precision)[1])
        explained = float(xp.sum(precision * ZZ))
        nothing = xp.zeros_like(L[:1, :])
        return FactorMoments(zz[None, ...], G, nothing, zz, log_det, explained)

    def projections(self, F: Array) -> tuple[Array, Array]:
        """(X'Y, Y'Y) with Y = X F, for F (p, Q): what the latents are made of, whatever their
        variances."""
        there = as_like(F, self.op.column_squares())
        filters = self.op.xp.astype(there, self.op.dtype, copy=False)

        def products(block: Array) -> tuple[Array, Array]:
            Y = block @ filters
            return block.T @ Y, Y.T @ Y

        XY, YY = (self._to_loadings_device(part) for part in self.op.sum_rows(products))
        if self.rest is None:
            return XY, YY
        more = self.rest.product(F)
        return XY + more, YY + F.T @ more
