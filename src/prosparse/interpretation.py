"""Interpretation of factors by gene sets and covariates.

The functions do not refit the model. Results are lists of named tuples, which ``pandas.DataFrame``
accepts. Factors are numbered from 0, like the rows of ``components_``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.stats import false_discovery_control, kruskal, mannwhitneyu, spearmanr

from .data.arrays import to_numpy
from .data.row_groups import is_missing, row_groups
from .errors import InputError, ParameterError, check_choice, check_integer
from .findings import Findings, findings_of
from .models._base import VariableSelector

__all__ = ["Association", "Enrichment", "associations", "enrichment"]

Sign = Literal["both", "positive", "negative"]


class Enrichment(NamedTuple):
    """Enrichment test of one gene set on one factor.

    Attributes
    ----------
    factor : int
        Row of ``components_``.
    gene_set : str
        Name of the set.
    size : int
        Number of variables of the model in the set.
    n_nonzero : int
        Number of variables in the set with a nonzero loading of the requested sign.
    effect : float
        Probability that a variable in the set has a larger loading than a variable outside the set;
        0.5 under the null hypothesis.
    p_value : float
        Unadjusted p-value.
    q_value : float
        P-value adjusted for all sets and factors (Benjamini-Hochberg).
    """

    factor: int
    gene_set: str
    size: int
    n_nonzero: int
    effect: float
    p_value: float
    q_value: float


class Association(NamedTuple):
    """Association test of one covariate with one factor.

    Attributes
    ----------
    factor : int
        Column of the scores.
    covariate : str
        Name of the covariate.
    kind : {"number", "category"}
        Type of the covariate: numbers are tested by Spearman correlation, and categories by the
        Kruskal-Wallis test.
    effect : float
        Correlation, or proportion of the variance of the ranks explained by the categories.
    p_value : float
        Unadjusted p-value.
    q_value : float
        P-value adjusted for all covariates and factors (Benjamini-Hochberg).
    n : int
        Number of samples with a known value of the covariate.
    """

    factor: int
    covariate: str
    kind: str
    effect: float
    p_value: float
    q_value: float
    n: int


def enrichment(
    model: VariableSelector,
    gene_sets: Mapping[str, Iterable[str]],
    *,
    sign: Sign = "both",
    view: int | None = None,
    min_size: int = 5,
) -> list[Enrichment]:
    """Test gene sets for enrichment among the loadings of each factor.

    The loadings of each set are compared with all other loadings by the Mann-Whitney test.

    Parameters
    ----------
    model : fitted estimator
        Estimator with ``components_``, fitted to data with column names.
    gene_sets : mapping of str to iterable of str
        Names of the variables in each set.
    sign : {"both", "positive", "negative"}, default="both"
        Sign of the loadings to test; "both" uses absolute values.
    view : int or None, default=None
        View whose variables are tested; None for all variables.
    min_size : int, default=5
        Minimum number of variables of the model in a set; smaller sets are omitted.

    Returns
    -------
    list of Enrichment
        Tests in increasing order of the p-value.

    Notes
    -----
    The test assumes that the variables are independent given the factor. Because genes in a set are
    often correlated, the p-values are too small and should only be used to rank the sets.
    """
    check_choice("sign", sign, get_args(Sign))
    check_integer("min_size", min_size, 1)
    found = _require_factors(model)
    names, loadings = _select_background(model, found, view)
    members = _find_members(gene_sets, {name: k for k, name in enumerate(names)}, min_size)
    tests = []
    for factor, w in enumerate(loadings):
        size = np.abs(w) if sign == "both" else np.clip(w if sign == "positive" else -w, 0, None)
        for name, inside in members.items():
            n_nonzero = int(np.count_nonzero(size[inside]))
            effect, p_value = _test_ranks(size, inside)
            tests.append(
                Enrichment(factor, name, int(inside.sum()), n_nonzero, effect, p_value, np.nan)
            )
    return sorted(_adjust_p_values(tests), key=lambda row: row.p_value)


def associations(
    scores: Any, covariates: Mapping[str, Any], groups: Any = None
) -> list[Association]:
    """Test the association of factors with covariates of the samples.

    Parameters
    ----------
    scores : array of shape (n_samples, n_factors)
        Scores, the output of ``transform``.
    covariates : mapping of str to array-like of shape (n_samples,), or data frame
        Values of each covariate. Numbers are tested by Spearman correlation, and other values by
        the Kruskal-Wallis test. Missing values (None or NaN) are omitted.
    groups : array-like of shape (n_samples,) or None, default=None
        Groups of dependent samples, such as visits of one patient. A covariate that is constant
        within groups is tested on group means, and any other covariate on the deviations from group
        means.

    Returns
    -------
    list of Association
        Tests in increasing order of the p-value.

    Examples
    --------
    >>> import numpy as np
    >>> from prosparse.interpretation import associations
    >>> scores = np.arange(20.0)[:, None]
    >>> found = associations(scores, {"age": np.arange(20), "sex": ["f", "m"] * 10})
    >>> [(row.covariate, round(row.effect, 2), row.q_value < 0.05) for row in found]
    [('age', 1.0, True), ('sex', 0.01, False)]
    """
    scores = np.asarray(to_numpy(scores), dtype=float)
    if scores.ndim != 2:
        raise InputError(
            "`scores` must have one row per sample and one column per factor, got shape "
            f"{scores.shape}."
        )
    row_group = row_groups(groups, scores.shape[0])
    codes = None if row_group is None else row_group.codes
    tests = []
    for name in covariates:
        values = np.asarray(covariates[name])
        if values.shape != (scores.shape[0],):
            raise InputError(
                f"covariate {name!r} must have one value for each of the {scores.shape[0]} "
                f"samples, got shape {values.shape}."
            )
        tested, values = (scores, values) if codes is None else _by_group(scores, values, codes)
        known = np.array([not is_missing(value) for value in values.tolist()], dtype=bool)
        is_numeric = all(_is_number(value) for value in values[known].tolist())
        kind = "number" if is_numeric else "category"
        test = _test_correlation if is_numeric else _test_categories
        for factor in range(scores.shape[1]):
            effect, p_value = test(tested[known, factor], values[known])
            tests.append(
                Association(factor, str(name), kind, effect, p_value, np.nan, int(known.sum()))
            )
    return sorted(_adjust_p_values(tests), key=lambda row: row.p_value)


# --- tests, which return the effect and the p-value


def _test_ranks(size: np.ndarray, inside: np.ndarray) -> tuple[float, float]:
    outside = ~inside
    if not outside.any():
        return 0.5, 1.0
    result = mannwhitneyu(size[inside], size[outside], alternative="greater", method="asymptotic")
    n_pairs = float(inside.sum()) * float(outside.sum())
    p_value = float(result.pvalue)
    return float(result.statistic) / n_pairs, p_value if np.isfinite(p_value) else 1.0


def _test_correlation(score: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    if score.size < 3 or np.ptp(score) == 0 or np.ptp(values.astype(float)) == 0:
        return 0.0, 1.0
    result = spearmanr(score, values.astype(float))
    return float(result.statistic), float(result.pvalue)


def _test_categories(score: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    labels = values.astype(str)
    groups = [score[labels == label] for label in np.unique(labels)]
    if len(groups) < 2 or np.ptp(score) == 0:
        return 0.0, 1.0
    result = kruskal(*groups)
    return float(result.statistic) / (score.size - 1), float(result.pvalue)


# --- helpers


def _by_group(
    scores: np.ndarray, values: np.ndarray, codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Average the scores by group, or subtract the group means.

    A covariate that is constant within groups is tested on group means, and other covariates on
    deviations from these. A covariate that identifies the groups is tested on all scores.
    """
    counts = np.bincount(codes)[:, None]
    means = np.stack([np.bincount(codes, weights=score) for score in scores.T], axis=1) / counts
    texts = values.astype(str)
    first = np.unique(codes, return_index=True)[1]
    if np.unique(texts[first]).size == first.size and np.array_equal(texts, texts[first][codes]):
        return scores, values
    if np.array_equal(texts, texts[first][codes]):
        return means, values[first]
    return scores - means[codes], values


def _adjust_p_values(tests: list[Any]) -> list[Any]:
    """Add the q-values of all tests (Benjamini-Hochberg)."""
    if not tests:
        return tests
    q_values = false_discovery_control([test.p_value for test in tests])
    return [test._replace(q_value=float(q)) for test, q in zip(tests, q_values, strict=True)]


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _require_factors(model: VariableSelector) -> Findings:
    found = findings_of(model)
    if found.regression:
        raise InputError(f"{found.method} has coefficients but no factors; use a PCA estimator.")
    return found


def _select_background(
    model: VariableSelector, found: Findings, view: int | None
) -> tuple[list[str], np.ndarray]:
    """Return the names and loadings of the variables to compare."""
    if view is None:
        if not found.named:
            raise InputError(
                "the variables of this model have no unique names; fit it to a data frame, or set "
                "`view` to a view with column names."
            )
        return found.names, found.loadings
    views = [] if found.views is None else found.views.columns
    check_integer("view", view, 0)
    if view >= max(1, len(views)):
        raise ParameterError(
            f"`view` must be below the number of views, {max(1, len(views))}, got {view}."
        )
    if not views:
        return _select_background(model, found, None)
    columns = views[view]
    view_names = getattr(model, "view_names_", [None] * len(views))[view]
    if view_names is None and not found.named:
        raise InputError(f"view {view} has no variable names; fit the model to data frames.")
    names = [found.names[k] for k in columns] if view_names is None else [*map(str, view_names)]
    return names, found.loadings[:, columns]


def _find_members(
    gene_sets: Mapping[str, Iterable[str]], columns: Mapping[str, int], min_size: int
) -> dict[str, np.ndarray]:
    """Return masks of the variables in each set of sufficient size."""
    if not isinstance(gene_sets, Mapping):
        raise InputError(
            "`gene_sets` must map the names of sets to the names of their variables, got "
            f"{type(gene_sets).__name__}."
        )
    members = {}
    for name, genes in gene_sets.items():
        if isinstance(genes, str):
            raise InputError(f"gene set {name!r} must be a list of names, got {genes!r}.")
        inside = np.zeros(len(columns), dtype=bool)
        inside[[columns[gene] for gene in map(str, genes) if gene in columns]] = True
        if inside.sum() >= min_size:
            members[str(name)] = inside
    if not members:
        raise InputError(
            f"`gene_sets` has no set with at least {min_size} variables of the model; compare the "
            "names with the column names, or reduce `min_size`."
        )
    return members
