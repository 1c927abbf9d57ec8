"""Refinement of a selection by the components of the other variables.

The published evidence selects variables by their variance. The refinement starts from such a
selection S and repeats two steps:

1. Compute R2(d) of each variable given the first d principal components of the other variables in S
  (`structure.leave_one_out`). Columns are divided by their noise standard deviations, rows by their
  scales.
2. Compute the posterior probability of each variable (`inclusion`), and rank the variables by their
  Bayes factors. Let f_1 and f_0 be the densities of an active and an inactive variable. The
  evidence of the first q variables is the product of f_1 over these and of f_0 over the others,
  times the prior of a set of q variables. The set with the largest evidence is the next S.

The evidence of all variables given the components of the others is a pseudo-likelihood [B75]. This
pseudo-likelihood is the criterion for the rounds, the initial selections and the number of
components.

[B75]  J. Besag. Statistical analysis of non-lattice data. The Statistician 24, 1975.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...data import Operator
from ...data.arrays import from_numpy, to_numpy
from ...structure import (
    FIT_TOLERANCE,
    StandardisedData,
    beta_parameters,
    common_flip_moments,
    compute_communalities,
    count_components,
    equalise_rows,
    select_shared_variables,
)
from .evidence import MAX_ENTRIES_EXHAUSTIVE
from .inclusion import (
    Explained,
    Inclusion,
    Proportions,
    infer_inclusion,
    initial_proportions,
    log_number_prior,
)

MAX_ROUNDS = 8
FDR = 0.05  # false discovery rate of the variables whose components are counted
REMAINING = 0.5  # proportion of the variables that a step of backward elimination retains
# Backward elimination ends after N_POOR steps with log evidence MIN_DECREASE below the largest.
N_POOR, MIN_DECREASE = 2, 10.0
MAX_FAILURES = 2  # number of dimensions without improvement after which the search ends
SCALED_TOLERANCE = 1e-6  # relative difference of the variances of columns that were scaled
MIN_MEMBERS = 2  # minimum number of variables whose components are computed
_MIN_NOISE = 1e-12  # lower bound of noise variances, relative to the column


class EqualisedData(NamedTuple):
    """Data matrix with rows divided by their scales."""

    op: Operator  # centred, in the units of the data
    standardised: StandardisedData  # the same with columns of equal variance
    squares: np.ndarray  # (p,) sums of squares of the columns of `op`
    log_volume: float  # log of the factor by which densities are smaller in the units of the data


class Refined(NamedTuple):
    """Variables that a round of the refinement selects."""

    d: int
    members: np.ndarray  # (p,) mask of the variables whose components explain the others
    order: np.ndarray  # (p,) variables by decreasing Bayes factor
    log_evidence: np.ndarray  # (p + 1,) of the first 0, ..., p variables, plus log prior
    inclusion: Inclusion
    explained: Explained

    @property
    def relevance(self) -> np.ndarray:
        """R2 with likelihood ratio 1 + Bayes factor, relative to the largest, (p,)."""
        log_ratio = np.logaddexp(0.0, self.inclusion.log_bayes_factor)
        r2 = -np.expm1(-2.0 * log_ratio / self.explained.dof)
        return np.asarray(r2 / max(float(np.max(r2)), np.finfo(float).tiny))

    @property
    def n_selected(self) -> int:
        """Number of variables with the largest evidence; 0 if none is active."""
        return int(np.argmax(self.log_evidence))

    @property
    def selected(self) -> np.ndarray:
        """Mask of the variables in the set of largest evidence, (p,)."""
        mask = np.zeros(self.order.size, dtype=bool)
        mask[self.order[: self.n_selected]] = True
        return mask


class Refinement:
    """Search for variables explained by the components of the others.

    Parameters
    ----------
    op : Operator
        Centred data matrix.
    log_prior_odds : float
        Term added to the log odds of each variable.
    report : callable
        Function called with the log evidence of each round.
    """

    def __init__(
        self,
        op: Operator,
        log_prior_odds: float = 0.0,
        report: Callable[[float], None] = lambda log_evidence: None,
    ):
        self.data = equalise(op)
        squares = to_numpy(op.column_squares())
        # The noise variances of scaled columns differ.
        self.is_scaled = float(np.ptp(squares)) <= SCALED_TOLERANCE * float(np.max(squares))
        self.log_prior_odds, self.report = log_prior_odds, report
        self.dof = op.shape[0] - 1.0
        self.is_large = op.shape[0] * op.shape[1] > MAX_ENTRIES_EXHAUSTIVE

    def select_dimension(self) -> Refined | None:
        """Select the number of components with the largest evidence.

        The search starts from the number of components above white noise of the variables with
        shared variance. The number is decreased until two numbers in succession give no
        improvement. The result is None if no variables share variance. Under random signs, the
        tails of R2 become heavier as more of a variable is explained. Numbers of components are
        therefore compared by the exact distribution.
        """
        shared, count = find_shared_components(self.data.standardised)
        if shared.sum() < MIN_MEMBERS:
            return None
        best = self.run(max(1, count), [shared])
        largest, d = self._exact_log_evidence(best), best.d - 1
        while d >= max(1, best.d - MAX_FAILURES):
            other = self.run(d, [best.selected, shared])
            log_evidence = self._exact_log_evidence(other)
            if log_evidence > largest:
                best, largest = other, log_evidence
            d -= 1
        return best

    def _exact_log_evidence(self, found: Refined) -> float:
        """Return the log evidence with the exact distribution of R2."""
        exact = found.explained.without_flips()
        start = found.inclusion.proportions
        return infer_inclusion(exact, start, self.log_prior_odds).log_evidence

    def run(self, d: int, starts: list[np.ndarray]) -> Refined:
        """Repeat both steps from the best initial selection.

        The best initial selection has the largest evidence after one round. The best round is
        returned.
        """
        rounds = [
            self.evaluate(d, members, *self._initial_noise(members))
            for members in starts
            if members.any()
        ]
        best = current = max(rounds, key=_evidence)
        tried = [current.members]
        for _ in range(MAX_ROUNDS):
            self.report(_evidence(current))
            members = current.selected
            is_known = any(np.array_equal(members, other) for other in tried)
            if is_known or members.sum() < MIN_MEMBERS:
                break
            tried.append(members)
            current = self.evaluate(
                d, members, current.inclusion.noise, current.inclusion.proportions
            )
            best = max(best, current, key=_evidence)
        return best

    def eliminate(self, d: int) -> np.ndarray:
        """Remove variables with small Bayes factors in steps; return a mask, (p,).

        The result is the selection of the step with the largest evidence.
        """
        members = np.ones(self.data.squares.size, dtype=bool)
        noise, proportions = self._initial_noise(members)
        steps: list[Refined] = []
        while True:
            steps.append(self.evaluate(d, members, noise, proportions))
            best = max(steps, key=_evidence)
            is_poor = [_evidence(step) < _evidence(best) - MIN_DECREASE for step in steps]
            remaining = steps[-1].order[: int(REMAINING * members.sum())]
            if all(is_poor[-N_POOR:]) or remaining.size <= max(d + 1, MIN_MEMBERS):
                return best.selected
            members = np.isin(np.arange(members.size), remaining)

    def _initial_noise(self, members: np.ndarray) -> tuple[np.ndarray, Proportions]:
        """Return noise variances and proportions before the first round."""
        variances = self.data.squares / self.dof
        common = float(np.median(variances[members if members.all() else ~members]))
        proportions = initial_proportions(
            (float(members.sum()) + 1.0) / (members.size + 2.0),
            common,
            self.dof,
            common=not self.is_scaled,
        )
        return variances if self.is_scaled else np.full(variances.size, common), proportions

    def evaluate(
        self, d: int, members: np.ndarray, noise: np.ndarray, start: Proportions
    ) -> Refined:
        """Rank all variables given the components of the members."""
        explained = explain(self.data, members, d, noise, self.dof)
        inclusion = infer_inclusion(explained, start, self.log_prior_odds)
        factors, p = inclusion.log_bayes_factor, members.size
        order = np.lexsort((-explained.r2, -factors))
        log_evidence = np.append(0.0, np.cumsum(factors[order]))
        log_evidence += self.data.log_volume + float(np.sum(inclusion.log_inactive))
        log_evidence += log_number_prior(np.arange(p + 1.0), p)
        return Refined(d, members, order, log_evidence, inclusion, explained)


def _evidence(refined: Refined) -> float:
    """Return the log evidence of all variables."""
    return refined.inclusion.log_evidence


def find_shared_components(data: StandardisedData) -> tuple[np.ndarray, int]:
    """Test the variables for shared variance, and count their components."""
    shared = select_shared_variables(data, FDR).selected
    return shared, count_components(data, shared)


def equalise(op: Operator) -> EqualisedData:
    """Divide the rows by their scales."""
    p, like = op.shape[1], op.column_squares()
    equalised = equalise_rows(op.unit_variance())
    scale, adjustment = equalised.row_scale, equalised.adjustment
    divided = adjustment.adjust_operator(op.scale_rows(from_numpy(1.0 / scale, like, op.dtype)))
    return EqualisedData(
        divided,
        StandardisedData(equalised.op, adjustment),
        np.maximum(to_numpy(divided.column_squares()).astype(float), np.finfo(float).tiny),
        -p * float(np.sum(np.log(scale))),
    )


def explain(
    data: EqualisedData, members: np.ndarray, d: int, noise: np.ndarray, dof: float
) -> Explained:
    """Compute R2(d) of each variable with the components of the members.

    ``noise`` (p,) are the noise variances by which the columns are divided.
    """
    squares, adjustment = data.squares, data.standardised.adjustment
    noise = np.maximum(noise, _MIN_NOISE * squares / dof)
    factors = from_numpy(1.0 / np.sqrt(noise), data.op.column_squares(), data.op.dtype)
    whitened = StandardisedData(data.op.scale_columns(factors), adjustment)
    d = min(d, int(members.sum()) - 1)
    r2 = compute_communalities(whitened, members, d)
    found = whitened.principal_components(members, d, FIT_TOLERANCE)
    d = min(d, found.eigenvalues.size)
    # The correction for leverages of `null_distribution` is omitted: because the less favourable of
    # two distributions is used, probabilities would be too small.
    moments = common_flip_moments(data.op, squares, whitened.scores(found, d), d=np.array([d]))
    beta = beta_parameters(moments)  # Beta(d' / 2, (f' - d') / 2)
    d_flips = 2.0 * beta.explained[:, 0]
    dof_flips = d_flips + 2.0 * beta.unexplained[:, 0]
    return Explained(squares, r2, float(d), dof, d_flips, dof_flips)
