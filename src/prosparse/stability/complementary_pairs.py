"""Stability selection with complementary pairs of halves of the rows.

As in [SS13] Definition 1, the rows are split B times at random into two halves of n // 2 rows each,
and the method selects variables on each half. If n is odd, one row is left out. A variable is
*stable* if it is selected on at least a proportion tau of the 2B halves. The module `bounds`
contains the error bound.

[SS13] R. D. Shah, R. J. Samworth. Variable selection with error control: another look at
       stability selection. Journal of the Royal Statistical Society B 75, 2013.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..data.frames import data_frame
from ..data.row_groups import RowGroups
from ..errors import (
    InputError,
    ParameterError,
    check_integer,
    check_jobs,
    check_non_negative,
    plural,
)
from ..findings import findings_of
from ..inference.progress import announce_each
from ..models._base import VariableSelector, seed_of
from ..parallel import in_processes
from ..phrases import format_mean, percent
from .bounds import low_probability_bound
from .refitting import Refitter, refit_parameters

MIN_ROWS = 4  # minimum number of rows, two in each half
MIN_GROUPS = 4  # minimum number of groups, two in each half
DEFAULT_THRESHOLD = 0.9


@dataclass(frozen=True, repr=False, eq=False)
class Stability:
    """Selection frequencies on random halves of the rows.

    Parameters
    ----------
    method : str
        Name of the estimator's class.
    names : tuple of str
        Names of all variables.
    selected : ndarray of bool, shape (n_features,)
        Mask of the variables selected on all rows.
    selection_counts : ndarray of int, shape (n_features,)
        Number of halves on which each variable was selected.
    n_selected : ndarray of int, shape (n_subsamples,)
        Number of variables selected on each half.
    n_rows : int
        Number of rows in a half.
    n_failed : int, default=0
        Number of halves on which the fit failed and no variables are regarded as selected.
    threshold : float, default=0.9
        Minimum selection frequency of a stable variable.
    """

    method: str
    names: tuple[str, ...]
    selected: np.ndarray
    selection_counts: np.ndarray
    n_selected: np.ndarray
    n_rows: int
    n_failed: int = 0
    threshold: float = DEFAULT_THRESHOLD

    @property
    def n_subsamples(self) -> int:
        """Number of halves, two for each pair."""
        return int(self.n_selected.size)

    @property
    def frequency(self) -> np.ndarray:
        """Proportion of halves on which each variable was selected."""
        return self.selection_counts / self.n_subsamples

    @property
    def stable(self) -> np.ndarray:
        """Mask of the variables with a frequency of at least ``threshold``."""
        return self.stable_at(self.threshold)

    def stable_at(self, threshold: float) -> np.ndarray:
        """Return the mask of the stable variables at another threshold."""
        check_non_negative("threshold", threshold)
        return np.asarray(self.selection_counts >= threshold * self.n_subsamples - 1e-9)

    @property
    def low_probability(self) -> float:
        """Selection probability of a random variable, q / p, at most 0.5."""
        return min(float(np.mean(self.n_selected)) / len(self.names), 0.5)

    def expected_false(
        self,
        threshold: float | None = None,
        *,
        low_probability: float | None = None,
        unimodal: bool = True,
    ) -> float:
        """Bound the expected number of stable variables of low selection probability.

        The result is the smaller of the bounds of Theorems 1 and 2 of Shah and Samworth (2013).
        Theorem 2 assumes a unimodal distribution of the proportion of pairs in which both halves
        select a variable of low selection probability. With the default ``low_probability``, these
        variables include all uninformative variables if the selection of uninformative variables is
        exchangeable and no more probable than under random selection.

        Parameters
        ----------
        threshold : float or None, default=None
            Threshold above 0.5. By default, the threshold of the stable set.
        low_probability : float or None, default=None
            Maximum selection probability that is regarded as low. By default, the selection
            probability of a random variable.
        unimodal : bool, default=True
            Whether to use Theorem 2.

        Returns
        -------
        float
        """
        if low_probability is not None and not 0.0 <= low_probability <= 1.0:
            raise ParameterError(f"`low_probability` must be in [0, 1], got {low_probability!r}.")
        return low_probability_bound(
            self.threshold if threshold is None else check_threshold(threshold),
            self.n_subsamples // 2,
            self.low_probability if low_probability is None else low_probability,
            float(np.mean(self.n_selected)),
            len(self.names),
            unimodal=unimodal,
        )

    def summary(self) -> list[str]:
        """Describe the result in sentences for a report."""
        p, q = len(self.names), int(self.selected.sum())
        n_stable, n_both = int(self.stable.sum()), int((self.stable & self.selected).sum())
        variables, are = ("variable", "is") if n_stable == 1 else ("variables", "are")
        were = "was" if n_both == 1 else "were"
        sentences = [
            f"{self.method} selected {format_mean(np.mean(self.n_selected))} of {p:,} variables on "
            f"average ({self.n_selected.min():,} to {self.n_selected.max():,}) on "
            f"{self.n_subsamples} random halves of {self.n_rows:,} rows, and {q:,} on all rows.",
            f"{n_stable:,} {variables} {are} stable (selected on at least "
            f"{percent(self.threshold, 0)} of the halves), of which {n_both:,} {were} selected on "
            "all rows.",
        ]
        if n_stable:
            sentences.append(self._describe_bound(n_stable))
        if self.n_failed:
            sentences.append(
                f"The fit failed on {self.n_failed:,} of the {self.n_subsamples:,} halves, which "
                "count as selecting no variables."
            )
        return sentences

    def _describe_bound(self, n_stable: int) -> str:
        bound = self.expected_false()
        if bound >= n_stable:
            return (
                "The bound on the number of false selections (Shah and Samworth 2013) is not "
                f"informative: it is {format_mean(bound)}, and the number of stable variables is "
                f"{n_stable:,}."
            )
        return (
            f"At most {format_mean(bound)} stable variables are expected to be false selections "
            "(Shah and Samworth 2013, for unimodal distributions). A variable is a false "
            "selection if its selection probability on half of the rows is at most "
            f"{self.low_probability:.2g}."
        )

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per variable.

        Returns
        -------
        DataFrame
            Columns ``frequency``, ``stable`` and ``selected``, with the names as index, in
            decreasing order of frequency.
        """
        order = np.argsort(-self.selection_counts, kind="stable")
        columns = {
            "frequency": self.frequency[order],
            "stable": self.stable[order],
            "selected": self.selected[order],
        }
        return data_frame(columns, [self.names[k] for k in order])

    def __repr__(self) -> str:
        return "\n".join(self.summary())

    def to_json(self) -> dict[str, Any]:
        """Convert all fields except the names to objects that JSON supports."""
        return {
            "method": self.method,
            "selected": np.flatnonzero(self.selected).tolist(),
            "selection_counts": self.selection_counts.tolist(),
            "n_selected": self.n_selected.tolist(),
            "n_rows": self.n_rows,
            "n_failed": self.n_failed,
            "threshold": self.threshold,
        }

    @classmethod
    def from_json(cls, saved: Any, names: list[str]) -> Stability | None:
        """Restore the output of `to_json`; return None if it is invalid.

        ``names`` are the names of all variables.
        """
        try:
            selection_counts = np.array(saved["selection_counts"], dtype=int)
            n_selected = np.array(saved["n_selected"], dtype=int)
            selected = np.zeros(len(names), dtype=bool)
            selected[np.array(saved["selected"], dtype=int)] = True
            restored = cls(
                str(saved["method"]),
                tuple(names),
                selected,
                selection_counts,
                n_selected,
                int(saved["n_rows"]),
                int(saved["n_failed"]),
                check_threshold(saved["threshold"]),
            )
        except (KeyError, TypeError, ValueError, IndexError, OverflowError):
            return None
        if selection_counts.shape != selected.shape or n_selected.ndim != 1 or n_selected.size < 2:
            return None
        possible = (
            selection_counts.min() >= 0
            and selection_counts.max() <= n_selected.size
            and n_selected.min() >= 0
            and n_selected.max() <= len(names)
        )
        return restored if possible else None


def check_threshold(value: Any) -> float:
    """Return the threshold; raise `ParameterError` unless it is in (0.5, 1]."""
    if not isinstance(value, int | float | np.number) or not 0.5 < float(value) <= 1.0:
        raise ParameterError(f"`threshold` must be above 0.5 and at most 1, got {value!r}.")
    return float(value)


def stability_selection(
    model: VariableSelector,
    X: Any,
    n_subsamples: int = 50,
    *,
    y: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    covariates: Any = None,
    threshold: float = DEFAULT_THRESHOLD,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> Stability:
    """Estimate selection frequencies on random halves of the rows.

    Parameters
    ----------
    model : fitted estimator
        Fitted estimator of any method. If the number of components was estimated, the halves use
        the number of the fit to all rows.
    X : data matrix of shape (n_samples, n_features)
        Data that the model was fitted to.
    n_subsamples : int, default=50
        Number of halves, which must be even, because halves are drawn in complementary pairs.
    y : array-like of shape (n_samples,) or None, default=None
        Response of a regression.
    groups : array-like of shape (n_samples,) or None, default=None
        Group labels of the rows. All rows of a group are in the same half, and methods that
        accept ``groups`` receive them.
    covariates : DataFrame or array-like of shape (n_samples, n_covariates), default=None
        Covariates of the fit.
    threshold : float, default=0.9
        Minimum selection frequency of a stable variable, above 0.5.
    random_state : int, RandomState or None, default=None
        Seed for the random halves.
    n_jobs : int or None, default=None
        Number of processes, as in scikit-learn: None is 1 unless ``joblib.parallel_config`` sets
        another number, and -1 uses all cores. The result does not depend on ``n_jobs``.

    Returns
    -------
    Stability

    Raises
    ------
    InputError
        If the model was fitted to other data, or the fit fails on every half.

    References
    ----------
    R. D. Shah, R. J. Samworth (2013). Variable selection with error control: another look at
    stability selection. JRSS B 75.

    Examples
    --------
    >>> from prosparse import FDRPCA, datasets
    >>> from prosparse.stability import stability_selection
    >>> X, truth, _ = datasets.make_globally_sparse(100, 50, scale=True, random_state=0)
    >>> found = stability_selection(FDRPCA().fit(X), X, 20, random_state=0)
    >>> bool((found.stable == truth).all())
    True
    """
    check_jobs(n_jobs)
    check_integer("n_subsamples", n_subsamples, 2)
    if n_subsamples % 2:
        raise ParameterError(
            f"`n_subsamples` must be even (complementary pairs of halves), got {n_subsamples}."
        )
    threshold = check_threshold(threshold)
    refitter = Refitter(model, X, y, groups, covariates)
    n = refitter.n_rows
    if n < MIN_ROWS:
        raise InputError(
            f"X has {plural(n, 'row')}: at least {MIN_ROWS} are needed for halves of 2 rows. "
            "Collect more rows."
        )
    rng = np.random.default_rng(seed_of(random_state))
    halves = [half for _ in range(n_subsamples // 2) for half in draw_pair(n, refitter.groups, rng)]
    parameters = refit_parameters(model, n // 2, selection_only=True)
    select = functools.partial(refitter.select_on_rows, parameters=parameters)
    parts = announce_each("halves of the rows", halves, len(halves))
    results = in_processes(select, parts, n_jobs, len(halves))
    errors = [result for result in results if isinstance(result, Exception)]
    if len(errors) == n_subsamples:
        raise InputError(
            f"{type(model).__name__} cannot be fitted to halves of these {n} rows: {errors[0]}"
        )
    found = findings_of(model)
    nothing = np.zeros(len(found.names), dtype=bool)
    supports = np.array([nothing if isinstance(r, Exception) else r for r in results])
    return Stability(
        method=found.method,
        names=tuple(found.names),
        selected=found.support,
        selection_counts=supports.sum(axis=0),
        n_selected=supports.sum(axis=1),
        n_rows=round(float(np.mean([half.size for half in halves]))),
        n_failed=len(errors),
        threshold=threshold,
    )


def draw_pair(
    n: int, groups: RowGroups | None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw two complementary halves of the rows, [SS13] Definition 1.

    Each half has n // 2 rows, or half of the groups.
    """
    if groups is None:
        order = rng.permutation(n)
        return np.sort(order[: n // 2]), np.sort(order[n // 2 : 2 * (n // 2)])
    n_groups = groups.sizes.size
    if n_groups < MIN_GROUPS:
        raise ParameterError(
            f"`groups` has {n_groups} labels: at least {MIN_GROUPS} are needed, because all rows "
            "of a group are in the same half. Omit `groups` to split single rows."
        )
    order = rng.permutation(n_groups)
    first, second = order[: n_groups // 2], order[n_groups // 2 : 2 * (n_groups // 2)]
    return (
        np.flatnonzero(np.isin(groups.codes, first)),
        np.flatnonzero(np.isin(groups.codes, second)),
    )
