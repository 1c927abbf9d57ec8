"""E step with point-normal scores, also for data with missing values.

The posterior is a product over all scores (`point_normal`), with a separate variance for each
score. Samples and scores have the roles of columns and loadings.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...data import Operator
from ...data.observation_mask import Observed
from .model import Scores
from .packed import pack_outer, unpack
from .point_normal import PointNormal, initial_posterior, update_unknowns
from .samples import FactorMoments, Samples

# Maximum number of sweeps over the scores of new rows, and change at convergence.
MAX_SWEEPS = 200
SCORE_TOL = 1e-7


class SparseScores(Samples):
    """Centred data with point-normal scores.

    ``op`` (n, p) is zero where the mask ``seen`` is False; None if all entries are observed. With
    row weights w of mean one, the rows of ``op`` are multiplied by w^1/2, ``root`` (n,).
    """

    def __init__(
        self, op: Operator, seen: np.ndarray | None = None, root: np.ndarray | None = None
    ):
        self.op = op
        self.root = np.ones(op.shape[0]) if root is None else root
        self.n, self.p = op.shape
        self.seen = None if seen is None else Observed(seen)
        self.squares = np.asarray(op.column_squares(), dtype=float)
        self.observed = np.full(self.p, float(self.n)) if seen is None else seen.sum(axis=0) * 1.0
        self.view, self.member = np.zeros(self.n, dtype=int), np.ones((1, self.n))

    def initial(self, Z: np.ndarray) -> PointNormal:
        """Initialise the posterior from scores (n, Q)."""
        return initial_posterior(Z, self.member)

    def update(
        self, L: np.ndarray, C: np.ndarray, tau: np.ndarray, mu: np.ndarray, scores: PointNormal
    ) -> PointNormal:
        """Update the posterior of the scores, given the moments of the loadings."""
        return self._updater(L, C, tau, mu)(scores, True)

    def _updater(
        self, L: np.ndarray, C: np.ndarray, tau: np.ndarray, mu: np.ndarray
    ) -> Callable[[PointNormal, bool], PointNormal]:
        """Return the function that updates the scores and optionally the prior."""
        weighted = tau[:, None] * L
        H = np.asarray(self.op.matmul(weighted), dtype=float)
        if self.seen is None:
            B = (weighted.T @ L + np.tensordot(tau, C, axes=1))[None]
            H = H - self.root[:, None] * (mu @ weighted)
        else:
            terms = np.hstack([tau[:, None] * pack_outer(L, C), mu[:, None] * weighted])
            sums, Q = self.seen.sums(slice(None), terms), L.shape[1]
            B, H = unpack(sums[:, :-Q], Q), H - sums[:, -Q:]

        def update(scores: PointNormal, learn: bool) -> PointNormal:
            ones = np.ones(self.n)
            return update_unknowns(scores, ones, B, H, self.view, self.member, learn=learn)

        return update

    def infer(
        self, L: np.ndarray, variance: np.ndarray, tau: np.ndarray, probability: np.ndarray
    ) -> PointNormal:
        """Compute the posterior of the scores given the loadings and the prior.

        The loadings have means L (p, Q) and variances ``variance``; factors have unit variance.
        """
        n, Q = self.n, L.shape[1]
        C, mu = variance[:, :, None] * np.eye(Q), np.zeros(self.p)
        pi = probability[None, :]
        zeros = np.zeros((n, Q))
        scores = PointNormal(zeros, zeros, zeros + probability, pi, 1.0 / pi, 0.0)
        update = self._updater(L, C, tau, mu)
        for _ in range(MAX_SWEEPS):
            before, scores = scores, update(scores, False)
            change = np.max(np.abs(scores.mean - before.mean), initial=0.0)
            if change <= SCORE_TOL:
                break
        return scores

    def moments(
        self,
        L: np.ndarray,
        C: np.ndarray | None,
        tau: np.ndarray,
        mu: np.ndarray,
        scores: Scores | None = None,
    ) -> FactorMoments:
        """Update the scores; return sums over the samples of their moments."""
        assert C is not None
        assert isinstance(scores, PointNormal)
        scores = self.update(L, C, tau, mu, scores)
        Z, variance = scores.mean, scores.variance
        zz = Z.T @ Z + np.diag(variance.sum(axis=0))
        if self.seen is None:
            A, z_sum = zz[None], (self.root @ Z)[None]
        else:
            Q = Z.shape[1]
            terms = np.hstack([pack_outer(Z, variance[:, :, None] * np.eye(Q)), Z])
            sums = self.seen.sums_over_rows(slice(None), terms)
            A, z_sum = unpack(sums[:, :-Q], Q), sums[:, -Q:]
        G = np.asarray(self.op.rmatmul(Z), dtype=float) - mu[:, None] * z_sum
        return FactorMoments(
            A,
            G,
            z_sum,
            zz,
            0.0,
            None,
            np.sum(Z * Z, axis=0),
            scores,
            scores.second_moment[0],
            scores.divergence,
        )
