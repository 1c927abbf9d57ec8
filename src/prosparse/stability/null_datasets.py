"""Selection on datasets without shared variance.

There are two kinds of null datasets. Random signs of the deviations from the column means remove
all correlations and preserve magnitudes, and therefore rows of unequal noise and outlying rows.
Independent permutation of the columns preserves their distributions and makes the rows
exchangeable. Sparse matrices and counts are only permuted, and for a regression, the response is
permuted. With groups, deviations are from group means, and values are permuted within groups.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from ..errors import (
    InputError,
    ParameterError,
    check_choice,
    check_integer,
    check_jobs,
    check_non_negative,
    plural,
)
from ..findings import Findings, findings_of
from ..inference.progress import announce_each
from ..models._base import SparseProjection, VariableSelector, seed_of
from ..parallel import Stopwatch, in_processes
from ..phrases import format_mean, percent
from ..registry import method_of
from .refitting import NullKind, Refitter, refit_parameters

Item = TypeVar("Item")

PREDICTION_LEVEL = 0.99  # level of the one-sided prediction limit
MIN_FOR_STANDARD_DEVIATION = 4  # minimum number of datasets for a standard deviation

# Sentences that compare the statistic with its mean over the null datasets.
_COMPARISONS = {
    "explained_variance": (
        "The components explain {observed} of the total variance, compared with {null} on average "
        "in {datasets}."
    ),
    "attainable_r2": (
        "On held-out rows, all other variables together explain {observed} of the variance of a "
        "variable, compared with {null} on average in {datasets}."
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
_SHORT_NAMES: dict[NullKind, str] = {"signs": "random signs", "permutation": "permuted columns"}
_LONG_NAMES: dict[NullKind, str] = {
    "signs": "random signs of the deviations from the mean",
    "permutation": "independently permuted columns",
}


@dataclass(frozen=True, repr=False, eq=False)
class PermutationNull:
    """Results of a method on null datasets, which have no shared variance.

    Parameters
    ----------
    method : str
        Name of the estimator's class.
    n_features : int
        Number of variables.
    n_selected : int
        Number of variables selected on the data.
    size_given : bool
        Whether the number of variables was given.
    null_n_selected : ndarray of int, shape (n_permutations,)
        Number of variables selected in each null dataset.
    statistic : float or None
        Statistic of the model on the data; None if it is unknown.
    null_statistic : ndarray of shape (n_permutations,)
        Statistic of each null dataset; NaN if unknown. The statistic is 0 if no variable was
        selected, unless the model predicts without variables.
    statistic_name : {"explained_variance", "attainable_r2", "response_r2", "accuracy"}
        Proportion of the total variance that the components explain, held-out R2 of a variable
        given all others, R2 of the response, or accuracy of the classification.
    null_kind : tuple of {"signs", "permutation"}, length n_permutations
        Randomisation of each null dataset: random signs of the deviations from the column means, or
        permuted columns (for a regression, a permuted response).
    """

    method: str
    n_features: int
    n_selected: int
    size_given: bool
    null_n_selected: np.ndarray
    statistic: float | None
    null_statistic: np.ndarray
    statistic_name: str
    null_kind: tuple[NullKind, ...]

    @property
    def n_permutations(self) -> int:
        """Number of null datasets."""
        return int(self.null_n_selected.size)

    @property
    def expected_n_selected_by_kind(self) -> dict[NullKind, float]:
        """Mean number of variables selected in the null datasets of each kind."""
        return {kind: float(np.mean(part.null_n_selected)) for kind, part in self._parts().items()}

    @property
    def expected_n_selected(self) -> float:
        """Mean number of variables selected in the null datasets.

        The value is the maximum over the kinds of null datasets.
        """
        return max(self.expected_n_selected_by_kind.values())

    @property
    def expected_statistic_by_kind(self) -> dict[NullKind, float | None]:
        """Mean statistic of each kind of null datasets, at least 0, or None."""
        means: dict[NullKind, float | None] = {}
        for kind, part in self._parts().items():
            known = part.null_statistic[np.isfinite(part.null_statistic)]
            means[kind] = max(float(np.mean(known)), 0.0) if known.size else None
        return means

    @property
    def expected_statistic(self) -> float | None:
        """Mean statistic of the null datasets; the maximum over the kinds."""
        return max(
            (v for v in self.expected_statistic_by_kind.values() if v is not None), default=None
        )

    @property
    def selects_under_null(self) -> bool:
        """Whether the method selects variables in null datasets.

        The value is False if the number of variables was given.
        """
        return not self.size_given and self.expected_n_selected > 0

    @property
    def consistent_with_null(self) -> bool:
        """Whether the statistic is within the range expected under the null.

        The limit is Student's one-sided 99 % prediction limit for one further null dataset, mean +
        t s sqrt(1 + 1/m), with m datasets of standard deviation s. With fewer than four datasets,
        the limit is their maximum. The explained variance is compared with that of null datasets
        with selected variables. The statistic must exceed the limits of both kinds of null
        datasets. The value is False if the statistic is unknown, because the number of selected
        variables alone is not sufficient.
        """
        parts = self._parts()
        if len(parts) > 1:
            return any(part.consistent_with_null for part in parts.values())
        known = np.isfinite(self.null_statistic)
        if self.statistic_name == "explained_variance":
            # Without selected variables, there are no components, and the zeros would inflate the
            # standard deviation and the limit.
            known &= self.null_n_selected > 0
        if self.n_selected == 0 or self.statistic is None or not known.any():
            return False
        limit = _prediction_limit(self.null_statistic[known])
        return bool(np.any(self.null_n_selected > 0) and self.statistic <= limit)

    def _parts(self) -> dict[NullKind, PermutationNull]:
        """Split the null datasets by kind, in the order of first occurrence."""
        parts = {}
        for kind in dict.fromkeys(self.null_kind):
            index = [k for k, other in enumerate(self.null_kind) if other == kind]
            parts[kind] = replace(
                self,
                null_n_selected=self.null_n_selected[index],
                null_statistic=self.null_statistic[index],
                null_kind=(kind,) * len(index),
            )
        return parts

    def describe_expected(self) -> str:
        """Return the expected number of variables, or a range if kinds differ."""
        means = sorted(self.expected_n_selected_by_kind.values())
        low, high = format_mean(means[0]), format_mean(means[-1])
        return high if low == high else f"{low} to {high}"

    def headline(self) -> str:
        """Return the observed and expected number of variables, without a period."""
        return (
            f"{self.method} selected {self.n_selected:,} of {self.n_features:,} variables; "
            f"{self.describe_expected()} are expected under the null"
        )

    def summary(self) -> list[str]:
        """Return sentences for a report."""
        sentences: list[str] = []
        parts = self._parts()
        if self.selects_under_null:
            sentences += [part._describe_selections() for part in parts.values()]
            if self._rests_on_magnitudes():
                sentences.append(
                    "Random signs remove all correlations but keep magnitudes, so outlying rows or "
                    "rows of unequal scale can cause such selections."
                )
        elif not self.size_given:
            sentences.append(f"{self.method} selected no variables in {self._describe_datasets()}.")
        means = {k: v for k, v in self.expected_statistic_by_kind.items() if v is not None}
        if self.statistic is not None and means and np.any(self.null_n_selected > 0):
            names = {k: f" ({_SHORT_NAMES[k]})" if len(means) > 1 else "" for k in means}
            null = " and ".join(f"{percent(mean)}{names[k]}" for k, mean in means.items())
            comparison = _COMPARISONS[self.statistic_name].format(
                observed=percent(self.statistic),
                null=null,
                datasets=self._refer_to_datasets(described=bool(sentences)),
            )
            sentences.append(comparison)
        return sentences

    def _describe_selections(self) -> str:
        """Describe the numbers of variables selected in one kind of datasets."""
        low, high = int(self.null_n_selected.min()), int(self.null_n_selected.max())
        interval = "" if low == high else f" ({low:,} to {high:,})"
        mean = format_mean(self.expected_n_selected)
        selected = "no variables" if high == 0 else f"{mean} variables on average{interval}"
        return f"{self.method} selected {selected} in {self._describe_datasets()}."

    def _rests_on_magnitudes(self) -> bool:
        """Return whether random signs lead to many more selections.

        The limit is twice the number of selections under permutation.
        """
        means = self.expected_n_selected_by_kind
        return means.get("signs", 0.0) >= max(1.0, 2.0 * means.get("permutation", 0.0))

    def _describe_datasets(self) -> str:
        """Describe the null datasets by number and randomisation."""
        if self.statistic_name in ("response_r2", "accuracy"):
            return f"{plural(self.n_permutations, 'dataset')} with a permuted response"
        first, *others = self._parts().items()
        text = f"{plural(first[1].n_permutations, 'dataset')} with {_LONG_NAMES[first[0]]}"
        for kind, part in others:
            text += f" and {part.n_permutations:,} with {_LONG_NAMES[kind]}"
        return text

    def _refer_to_datasets(self, *, described: bool) -> str:
        """Return a phrase that refers to the null datasets."""
        if described:
            return "these datasets"
        if len(self._parts()) > 1:
            return plural(self.n_permutations, "null dataset")
        return self._describe_datasets()

    def __repr__(self) -> str:
        return "\n".join([f"{self.headline()}.", *self.summary()])

    def to_json(self) -> dict[str, Any]:
        """Convert all fields to objects that JSON supports."""
        return {
            "method": self.method,
            "n_features": self.n_features,
            "n_selected": self.n_selected,
            "size_given": self.size_given,
            "null_n_selected": self.null_n_selected.tolist(),
            "statistic": self.statistic,
            "null_statistic": [float(v) if math.isfinite(v) else None for v in self.null_statistic],
            "statistic_name": self.statistic_name,
            "null_kind": list(self.null_kind),
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
                tuple(saved["null_kind"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        valid = (
            null_n_selected.ndim == 1
            and null_n_selected.size == len(null_statistic) > 0
            and restored.statistic_name in _COMPARISONS
            and len(restored.null_kind) == null_n_selected.size
            and all(kind in get_args(NullKind) for kind in restored.null_kind)
        )
        return restored if valid else None


def _prediction_limit(values: np.ndarray) -> float:
    """Compute Student's upper prediction limit for one further value."""
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
    kind: Literal["auto", "signs", "permutation"] = "auto",
    y: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    covariates: Any = None,
    random_state: int | np.random.RandomState | None = None,
    max_seconds: float = math.inf,
    n_jobs: int | None = None,
) -> PermutationNull:
    """Refit the model to null datasets, which have no shared variance.

    Parameters
    ----------
    model : fitted estimator
        Fitted estimator of any method. If the number of components was estimated, the null datasets
        use the number of this fit.
    X : data matrix of shape (n_samples, n_features)
        Data that the model was fitted to, in memory.
    n_permutations : int, default=10
        Number of null datasets.
    kind : {"auto", "signs", "permutation"}, default="auto"
        Randomisation of the null datasets (see Notes). "signs" randomises the sign of the deviation
        of each entry from the column mean, and "permutation" permutes each column independently.
        "auto" alternates between both, beginning with "signs". Regressions, sparse matrices, counts
        and non-Gaussian likelihoods only allow "permutation".
    y : array-like of shape (n_samples,) or None, default=None
        Response of a regression, which is permuted instead of the columns.
    groups : array-like of shape (n_samples,) or None, default=None
        Group labels of the rows. Deviations are from group means, and values are permuted within
        groups.
    covariates : DataFrame or array-like of shape (n_samples, n_covariates), default=None
        Covariates of the fit. Before randomisation, dense data are replaced by residuals given the
        covariates.
    random_state : int, RandomState or None, default=None
        Seed for the signs or permutations.
    max_seconds : float, default=inf
        Time in seconds after which no further fit is started; at least one dataset is fitted.
    n_jobs : int or None, default=None
        Number of processes, as in scikit-learn: None is 1 unless ``joblib.parallel_config`` sets
        another number, and -1 uses all cores. The result does not depend on ``n_jobs``, unless
        ``max_seconds`` is reached.

    Returns
    -------
    PermutationNull

    Raises
    ------
    InputError
        If the model was fitted to other data, or the fit fails on every null dataset.
    ParameterError
        If ``kind`` is "signs" and the data do not allow random signs.

    Notes
    -----
    Random signs remove all correlations and preserve the magnitude of every deviation. Rows of
    unequal noise and outlying rows therefore remain, and a method that mistakes these for shared
    variance selects variables in the null datasets. Permuted columns have exchangeable rows and
    cannot reveal this error, but preserve the skewness of the columns, which random signs remove.

    Magnitudes also reflect shared variance, because rows with large scores have large deviations in
    all variables of a component. A method that assumes equal noise in all rows may therefore select
    more variables with random signs than with permuted columns, even if the assumption holds.

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
    refitter = Refitter(model, X, y, groups, covariates)
    rng = np.random.default_rng(seed_of(random_state))
    found = findings_of(model)
    statistic_name, statistic = _compute_statistic(found, model, refitter.X, refitter.y)
    kinds = _null_kinds(kind, refitter, n_permutations)
    refit = functools.partial(_refit_randomised, refitter, refit_parameters(model, refitter.n_rows))
    randomised = (refitter.randomise(null_kind, rng) for null_kind in kinds)
    datasets = _until(max_seconds, announce_each("null datasets", randomised, n_permutations))
    results = in_processes(refit, datasets, n_jobs, n_permutations)
    if all(result.error is not None for result in results):
        raise InputError(f"{found.method} cannot be fitted to null datasets: {results[0].error}")
    return PermutationNull(
        method=found.method,
        n_features=len(found.names),
        n_selected=found.n_selected,
        size_given=found.size_given,
        null_n_selected=np.array([result.n_selected for result in results]),
        statistic=statistic,
        null_statistic=np.array([result.statistic for result in results]),
        statistic_name=statistic_name,
        null_kind=kinds[: len(results)],
    )


def _null_kinds(kind: str, refitter: Refitter, count: int) -> tuple[NullKind, ...]:
    """Return the kind of each null dataset.

    An error is raised if the data do not allow it.
    """
    check_choice("kind", kind, ("auto", *get_args(NullKind)))
    obstacle = refitter.obstacle_to_signs
    if kind == "signs" and obstacle is not None:
        raise ParameterError(f'`kind="signs"` is not possible: {obstacle}. Use `kind="auto"`.')
    kinds: tuple[NullKind, ...] = ("signs", "permutation")
    if kind == "signs":
        kinds = ("signs",)
    elif kind == "permutation" or obstacle is not None:
        kinds = ("permutation",)
    return tuple(islice(cycle(kinds), count))


def _until(max_seconds: float, items: Iterator[Item]) -> Iterator[Item]:
    """Yield the first item, and further items until the time limit."""
    stopwatch = Stopwatch()
    for item in items:
        yield item
        if stopwatch.seconds > max_seconds:
            return


class _NullResult(NamedTuple):
    """Result of one null dataset."""

    n_selected: int
    statistic: float  # see `PermutationNull.null_statistic`
    error: Exception | None = None  # error of the fit


def _refit_randomised(
    refitter: Refitter, parameters: dict[str, Any], randomised: tuple[list[Any], np.ndarray | None]
) -> _NullResult:
    views, y = randomised
    # Without variables, the components explain nothing, whereas a classifier still has an accuracy.
    without_variables = math.nan if refitter.method.classifies else 0.0
    model = refitter.refit_randomised(views, y, parameters)
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
    """Compute the statistic of a model; return its name and value."""
    if found.reconstruction is not None:
        return "attainable_r2", found.reconstruction.attainable_r2
    if found.regression:
        name = "accuracy" if method_of(model).classifies else "response_r2"
        return name, None if y is None else _score(model.score, X, y)
    if found.explained is not None or found.n_selected == 0:
        return "explained_variance", found.explained
    # Correlated factors have no separate proportions, and the score refers to their span.
    score = functools.partial(SparseProjection.score, model)
    return "explained_variance", None if isinstance(X, list) else _score(score, X)


def _score(score: Callable[..., float], *data: Any) -> float | None:
    """Return the score, or None if it is not finite because of missing values."""
    with warnings.catch_warnings():
        # Column names may have been added after the fit, or removed by the randomisation.
        warnings.filterwarnings("ignore", message="X (does not have valid|has) feature names")
        value = float(score(*data))
    return value if math.isfinite(value) else None
