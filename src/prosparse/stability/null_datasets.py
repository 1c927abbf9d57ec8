"""Selection on datasets without shared variance.

Each column is permuted independently, which preserves its values and removes its association with
the other columns. For a regression the response is permuted. If the rows have groups, values are
permuted within groups.
"""

from __future__ import annotations

import functools
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from ..errors import InputError, check_integer, check_jobs, check_non_negative
from ..findings import Findings, findings_of
from ..models._base import SparseProjection, VariableSelector, seed_of
from ..parallel import in_processes
from ..phrases import format_mean, percent
from ..registry import method_of
from .refitting import Refitter, refit_parameters

Item = TypeVar("Item")

PREDICTION_LEVEL = 0.99  # level of the one-sided prediction limit
MIN_FOR_STANDARD_DEVIATION = 4  # minimum number of datasets to estimate a standard deviation

# Sentences that compare the statistic with its mean over the permuted datasets.
_COMPARISONS = {
    "explained_variance": (
        "The components explain {observed} of the total variance, compared with {null} on average "
        "in the permuted datasets."
    ),
    "attainable_r2": (
        "On held-out rows, all other variables together explain {observed} of the variance of a "
        "variable, compared with {null} in the permuted datasets."
    ),
    "response_r2": (
        "The model explains {observed} of the variance of the response in these rows, compared "
        "with {null} on average for a permuted response."
    ),
    "accuracy": (
        "The model classifies {observed} of these rows correctly, compared with {null} on average "
        "for permuted classes."
    ),
}


@dataclass(frozen=True, repr=False, eq=False)
class PermutationNull:
    """Selections on permuted datasets.

    Parameters
    ----------
    method : str
        Name of the estimator's class.
    n_features : int
        Number of variables.
    n_selected : int
        Number of variables selected on the data.
    size_given : bool
        Whether the user set the number of variables.
    null_n_selected : ndarray of int, shape (n_permutations,)
        Number of variables selected in each permuted dataset.
    statistic : float or None
        Statistic of the model on the data; None if it is unknown.
    null_statistic : ndarray of shape (n_permutations,)
        Statistic of each permuted dataset. It is 0 if no variable was selected, unless the model
        predicts without variables, and NaN if it is unknown.
    statistic_name : {"explained_variance", "attainable_r2", "response_r2", "accuracy"}
        Proportion of the total variance that the components explain, held-out R2 of a variable
        given all others, R2 of the response, or accuracy of the classification.
    """

    method: str
    n_features: int
    n_selected: int
    size_given: bool
    null_n_selected: np.ndarray
    statistic: float | None
    null_statistic: np.ndarray
    statistic_name: str

    @property
    def n_permutations(self) -> int:
        """Number of permuted datasets."""
        return int(self.null_n_selected.size)

    @property
    def expected_n_selected(self) -> float:
        """Mean number of variables selected in permuted datasets."""
        return float(np.mean(self.null_n_selected))

    @property
    def expected_statistic(self) -> float | None:
        """Mean statistic of the permuted datasets, at least 0; None if it is unknown."""
        known = self.null_statistic[np.isfinite(self.null_statistic)]
        return max(float(np.mean(known)), 0.0) if known.size else None

    @property
    def selects_under_null(self) -> bool:
        """Whether the method selects variables in permuted datasets.

        The value is False if the user set the number of variables.
        """
        return not self.size_given and self.expected_n_selected > 0

    @property
    def consistent_with_null(self) -> bool:
        """Whether the statistic is within the range expected under the null.

        The limit is Student's one-sided 99 % prediction limit for one more permuted dataset,
        mean + t s sqrt(1 + 1/m), with m datasets of standard deviation s. With fewer than four
        datasets it is their maximum. The value is False if the statistic is unknown, because the
        number of selected variables alone is not sufficient.
        """
        known = self.null_statistic[np.isfinite(self.null_statistic)]
        if self.n_selected == 0 or self.statistic is None or known.size == 0:
            return False
        return bool(np.any(self.null_n_selected > 0) and self.statistic <= _prediction_limit(known))

    def headline(self) -> str:
        """Return the observed and expected number of variables, without a period."""
        return (
            f"{self.method} selected {self.n_selected:,} of {self.n_features:,} variables; "
            f"{format_mean(self.expected_n_selected)} are expected under the null"
        )

    def summary(self) -> list[str]:
        """Return sentences for a report."""
        datasets = "1 dataset" if self.n_permutations == 1 else f"{self.n_permutations} datasets"
        permuted = (
            "a permuted response"
            if self.statistic_name in ("response_r2", "accuracy")
            else "independently permuted columns"
        )
        sentences = []
        if self.selects_under_null:
            low, high = int(self.null_n_selected.min()), int(self.null_n_selected.max())
            interval = "" if low == high else f" ({low:,} to {high:,})"
            sentences.append(
                f"{self.method} selected {format_mean(self.expected_n_selected)} variables on "
                f"average{interval} in {datasets} with {permuted}."
            )
        elif not self.size_given:
            sentences.append(f"{self.method} selected no variables in {datasets} with {permuted}.")
        expected = self.expected_statistic
        if self.statistic is not None and expected is not None and np.any(self.null_n_selected > 0):
            comparison = _COMPARISONS[self.statistic_name]
            sentences.append(
                comparison.format(observed=percent(self.statistic), null=percent(expected))
            )
        return sentences

    def __repr__(self) -> str:
        low, high = int(self.null_n_selected.min()), int(self.null_n_selected.max())
        requested = " (as requested)" if self.size_given else ""
        lines = [
            ("selected", f"{self.n_selected:,} of {self.n_features:,}{requested}"),
            ("  under the null", f"{format_mean(self.expected_n_selected)}, {low:,} to {high:,}"),
        ]
        if self.statistic is not None and self.expected_statistic is not None:
            lines.append((self.statistic_name.replace("_", " "), percent(self.statistic)))
            lines.append(("  under the null", percent(self.expected_statistic)))
        datasets = "dataset" if self.n_permutations == 1 else "datasets"
        head = f"{self.method} on {self.n_permutations} permuted {datasets}"
        return "\n".join([head, *(f"  {key:<20}{value}" for key, value in lines)])

    def to_json(self) -> dict[str, Any]:
        """Return all fields as plain JSON."""
        return {
            "method": self.method,
            "n_features": self.n_features,
            "n_selected": self.n_selected,
            "size_given": self.size_given,
            "null_n_selected": self.null_n_selected.tolist(),
            "statistic": self.statistic,
            "null_statistic": [float(v) if math.isfinite(v) else None for v in self.null_statistic],
            "statistic_name": self.statistic_name,
        }

    @classmethod
    def from_json(cls, saved: Any) -> PermutationNull | None:
        """Restore the output of `to_json`; return None if it is not valid."""
        try:
            null_n_selected = np.array(saved["null_n_selected"], dtype=int)
            statistic = saved["statistic"]
            null_statistic = [math.nan if v is None else float(v) for v in saved["null_statistic"]]
            restored = cls(
                str(saved["method"]),
                int(saved["n_features"]),
                int(saved["n_selected"]),
                saved["size_given"] is True,
                null_n_selected,
                None if statistic is None else float(statistic),
                np.array(null_statistic),
                str(saved["statistic_name"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        valid = (
            null_n_selected.ndim == 1
            and null_n_selected.size == len(null_statistic) > 0
            and restored.statistic_name in _COMPARISONS
        )
        return restored if valid else None


def _prediction_limit(values: np.ndarray) -> float:
    """Return Student's upper prediction limit for one more value."""
    m = values.size
    if m < MIN_FOR_STANDARD_DEVIATION:
        return float(np.max(values))
    quantile = float(student.ppf(PREDICTION_LEVEL, m - 1))
    return float(np.mean(values) + quantile * np.std(values, ddof=1) * math.sqrt(1.0 + 1.0 / m))


def permutation_null(
    model: VariableSelector,
    X: Any,
    n_permutations: int = 10,
    *,
    y: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
    max_seconds: float = math.inf,
    n_jobs: int | None = None,
) -> PermutationNull:
    """Refit the model to permuted datasets, which have no shared variance.

    Parameters
    ----------
    model : fitted estimator
        Estimator of any method. If the data determined the number of components, the permuted
        datasets use the number of this fit.
    X : data matrix of shape (n_samples, n_features)
        Data that the model was fitted to, in memory.
    n_permutations : int, default=10
        Number of permuted datasets.
    y : array-like of shape (n_samples,) or None, default=None
        Response of a regression, which is permuted instead of the columns.
    groups : array-like of shape (n_samples,) or None, default=None
        Group labels of the rows; values are permuted within groups.
    random_state : int, RandomState or None, default=None
        Seed for the permutations.
    max_seconds : float, default=inf
        Time after which no further dataset is started; at least one is fitted.
    n_jobs : int or None, default=None
        Number of processes, as in scikit-learn: None is 1 unless ``joblib.parallel_config`` sets
        another number, and -1 uses all cores. The result does not depend on it, unless
        ``max_seconds`` is reached.

    Returns
    -------
    PermutationNull

    Raises
    ------
    InputError
        If the model was fitted to other data, or the fit fails on every permuted dataset.

    Examples
    --------
    >>> from prosparse import GSPPCA, datasets
    >>> from prosparse.stability import permutation_null
    >>> X = datasets.make_globally_sparse(60, 30, random_state=0).X
    >>> permutation_null(GSPPCA(5).fit(X), X, 5, random_state=0).n_permutations
    5
    """
    check_jobs(n_jobs)
    check_integer("n_permutations", n_permutations, 1)
    check_non_negative("max_seconds", max_seconds, infinite=True)
    refitter = Refitter(model, X, y, groups)
    rng = np.random.default_rng(seed_of(random_state))
    found = findings_of(model)
    statistic_name, statistic = _compute_statistic(found, model, refitter.X, refitter.y)
    refit = functools.partial(_refit_permuted, refitter, refit_parameters(model, refitter.n_rows))
    datasets = _until(max_seconds, (refitter.permute(rng) for _ in range(n_permutations)))
    results = in_processes(refit, datasets, n_jobs, n_permutations)
    if all(result.error is not None for result in results):
        raise InputError(f"{found.method} cannot be fitted to permuted data: {results[0].error}")
    return PermutationNull(
        method=found.method,
        n_features=len(found.names),
        n_selected=found.n_selected,
        size_given=found.size_given,
        null_n_selected=np.array([result.n_selected for result in results]),
        statistic=statistic,
        null_statistic=np.array([result.statistic for result in results]),
        statistic_name=statistic_name,
    )


def _until(max_seconds: float, items: Iterator[Item]) -> Iterator[Item]:
    """Yield the first item, and further items until the time limit."""
    started = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - started > max_seconds:
            return


class _NullResult(NamedTuple):
    """Result of one permuted dataset."""

    n_selected: int
    statistic: float  # see `PermutationNull.null_statistic`
    error: Exception | None = None  # error of the fit


def _refit_permuted(
    refitter: Refitter, parameters: dict[str, Any], permuted: tuple[list[Any], np.ndarray | None]
) -> _NullResult:
    views, y = permuted
    # Without variables the components explain nothing, but a classifier still has an accuracy.
    without_variables = math.nan if refitter.method.classifies else 0.0
    model = refitter.refit_permuted(views, y, parameters)
    if isinstance(model, Exception):
        return _NullResult(0, without_variables, model)
    found = findings_of(model)
    statistic = _compute_statistic(found, model, views if refitter.has_views else views[0], y)[1]
    if statistic is None:
        return _NullResult(found.n_selected, math.nan if found.n_selected else without_variables)
    return _NullResult(found.n_selected, statistic)


def _compute_statistic(
    found: Findings, model: Any, X: Any, y: np.ndarray | None
) -> tuple[str, float | None]:
    """Return the name and the value of the statistic of a model."""
    if found.reconstruction is not None:
        return "attainable_r2", found.reconstruction.attainable_r2
    if found.regression:
        name = "accuracy" if method_of(model).classifies else "response_r2"
        return name, None if y is None else _score(model.score, X, y)
    if found.explained is not None or found.n_selected == 0:
        return "explained_variance", found.explained
    # Correlated factors have no separate proportions; the score is that of their span.
    score = functools.partial(SparseProjection.score, model)
    return "explained_variance", None if isinstance(X, list) else _score(score, X)


def _score(score: Callable[..., float], *data: Any) -> float | None:
    """Return the score, or None if it is not finite because of missing values."""
    with warnings.catch_warnings():
        # Column names may have been added after the fit, or removed by the permutation.
        warnings.filterwarnings("ignore", message="X (does not have valid|has) feature names")
        value = float(score(*data))
    return value if math.isfinite(value) else None
