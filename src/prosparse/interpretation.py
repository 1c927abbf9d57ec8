"""What the latents of a fitted model stand for: their variables, gene sets, and covariates.

Nothing here is fitted again and no gene set is shipped: sets and covariates are the user's own.
Every function answers with a list of named tuples, which ``pandas.DataFrame`` takes as it is.
Latents are numbered from 0, as the rows of ``components_`` are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.stats import false_discovery_control, hypergeom, kruskal, mannwhitneyu, spearmanr

from .data.arrays import to_numpy
from .errors import InputError, ParameterError, check_choice, check_integer
from .findings import Findings, findings_of
from .models._base import VariableSelector

__all__ = ["Association", "Enrichment", "Variable", "associations", "enrichment", "top_variables"]

Sign = Literal["both", "positive", "negative"]
Test = Literal["rank", "overlap"]


class Variable(NamedTuple):
    """A variable and its loading on a latent.

    Attributes
    ----------
    latent : int
        Row of ``components_``.
    view : int
        The view of the variable; 0 where there is one table.
    name : str
        Of the variable.
    loading : float
        On the latent.
    share : float
        Of the latent's variance: the square of the loading over the sum of all squares.
    """

    latent: int
    view: int
    name: str
    loading: float
    share: float


class Enrichment(NamedTuple):
    """A test of one gene set on one latent.

    Attributes
    ----------
    latent : int
        Row of ``components_``.
    gene_set : str
        Name of the set.
    size : int
        Variables of the model that belong to the set.
    with_loading : int
        Of these, those with a loading of the asked sign on the latent.
    effect : float
        "rank": the probability that a variable of the set has a larger loading than one outside
        it, 0.5 by chance. "overlap": how many times as many variables with a loading as by chance.
    p_value : float
        Of this test alone.
    q_value : float
        Corrected for all sets and latents tested together (Benjamini and Hochberg).
    """

    latent: int
    gene_set: str
    size: int
    with_loading: int
    effect: float
    p_value: float
    q_value: float


class Association(NamedTuple):
    """A test of one covariate with one latent.

    Attributes
    ----------
    latent : int
        Column of the scores.
    covariate : str
        Its name.
    kind : str
        "number" (Spearman's rank correlation) or "category" (Kruskal and Wallis' test).
    effect : float
        The correlation; of categories the share of the variance of the ranks between them.
    p_value : float
        Of this test alone.
    q_value : float
        Corrected for all covariates and latents tested together (Benjamini and Hochberg).
    n : int
        Samples with a known value of the covariate.
    """

    latent: int
    covariate: str
    kind: str
    effect: float
    p_value: float
    q_value: float
    n: int


def top_variables(model: VariableSelector, most: int = 10) -> list[Variable]:
    """The variables with the largest loadings on each latent, the largest first.

    Parameters
    ----------
    model : fitted estimator
        One with ``components_``.
    most : int, default=10
        Variables per latent, at most; those without a loading are never listed.

    Returns
    -------
    list of Variable
        Latent after latent.

    Examples
    --------
    >>> import numpy as np
    >>> from prosparse import SCA
    >>> from prosparse.interpretation import top_variables
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 1)) * [3, 2, 0, 0] + rng.normal(size=(100, 4))
    >>> [variable.name for variable in top_variables(SCA(1).fit(X))]
    ['x0', 'x1']
    """
    check_integer("most", most, 1)
    found = _with_components(model)
    view = _view_of_columns(found)
    listed = []
    for latent, row in enumerate(found.loadings):
        total = float(np.sum(row**2)) or 1.0
        order = np.argsort(-np.abs(row), kind="stable")[:most]
        listed += [
            Variable(
                latent, int(view[k]), found.names[k], float(row[k]), float(row[k] ** 2 / total)
            )
            for k in order
            if row[k] != 0
        ]
    return listed


def enrichment(
    model: VariableSelector,
    gene_sets: Mapping[str, Iterable[str]],
    *,
    test: Test = "rank",
    sign: Sign = "both",
    view: int | None = None,
    min_size: int = 5,
) -> list[Enrichment]:
    """Gene sets whose variables load on a latent more than others do.

    Parameters
    ----------
    model : fitted estimator
        One with ``components_``, fitted to a table with column names.
    gene_sets : mapping from name to names of variables
        The user's own.
    test : {"rank", "overlap"}, default="rank"
        "rank": whether the loadings of the set are larger than those of all other variables
        (Mann and Whitney's test). "overlap": whether more of its variables have a loading than
        chance would give (hypergeometric law), for which sparse loadings are needed.
    sign : {"both", "positive", "negative"}, default="both"
        Which loadings count: all by their size, or those of one sign.
    view : int or None, default=None
        The view that the sets are about: only its variables are tested, and compared with each
        other. None: all variables.
    min_size : int, default=5
        Sets with fewer variables in the table are left out.

    Returns
    -------
    list of Enrichment
        The smallest p-value first.

    Notes
    -----
    Both tests take variables to be independent, given the latent. Genes of one set often are not,
    so that small p-values rank sets rather than prove anything.
    """
    check_choice("test", test, get_args(Test))
    check_choice("sign", sign, get_args(Sign))
    check_integer("min_size", min_size, 1)
    found = _with_components(model)
    names, loadings = _background(model, found, view)
    place = {name: k for k, name in enumerate(names)}
    members = _members(gene_sets, place, min_size)
    rows = []
    for latent, row in enumerate(loadings):
        size = (
            np.abs(row) if sign == "both" else np.clip(row if sign == "positive" else -row, 0, None)
        )
        for name, inside in members.items():
            count = int(np.count_nonzero(size[inside]))
            compare = _by_rank if test == "rank" else _by_overlap
            effect, p_value = compare(size, inside)
            total = int(inside.sum())
            rows.append(Enrichment(latent, name, total, count, effect, p_value, np.nan))
    return sorted(_corrected(rows), key=lambda row: row.p_value)


def associations(scores: Any, covariates: Mapping[str, Any]) -> list[Association]:
    """Latents that go with what is known of the samples.

    Parameters
    ----------
    scores : array (n_samples, latents)
        From ``transform``.
    covariates : mapping from name to values (n_samples,), or data frame
        Numbers are correlated by their ranks; anything else is compared between categories.
        Samples without a value (None or NaN) do not count.

    Returns
    -------
    list of Association
        The smallest p-value first.

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
            f"`scores` must have one row per sample and one column per latent, got shape "
            f"{scores.shape}"
        )
    rows = []
    for name in covariates:
        values = np.asarray(covariates[name])
        if values.shape != (scores.shape[0],):
            raise InputError(
                f"covariate {name!r} has shape {values.shape}, but there are {scores.shape[0]} "
                "samples: give one value for each"
            )
        known = np.array([not _is_missing(value) for value in values.tolist()], dtype=bool)
        number = all(_is_number(value) for value in values[known].tolist())
        for latent in range(scores.shape[1]):
            test = _by_correlation if number else _by_category
            effect, p_value = test(scores[known, latent], values[known])
            kind = "number" if number else "category"
            rows.append(
                Association(latent, str(name), kind, effect, p_value, np.nan, int(known.sum()))
            )
    return sorted(_corrected(rows), key=lambda row: row.p_value)


# --- one test each: (effect, p-value)


def _by_rank(size: np.ndarray, inside: np.ndarray) -> tuple[float, float]:
    outside = ~inside
    if not outside.any():
        return 0.5, 1.0
    found = mannwhitneyu(size[inside], size[outside], alternative="greater", method="asymptotic")
    pairs = float(inside.sum()) * float(outside.sum())
    p_value = float(found.pvalue)
    return float(found.statistic) / pairs, p_value if np.isfinite(p_value) else 1.0


def _by_overlap(size: np.ndarray, inside: np.ndarray) -> tuple[float, float]:
    chosen = size > 0
    both = int(np.sum(chosen & inside))
    expected = float(chosen.sum()) * float(inside.sum()) / size.size
    # P(at least as many)
    p_value = hypergeom.sf(both - 1, size.size, int(inside.sum()), int(chosen.sum()))
    return (both / expected if expected else 0.0), float(np.clip(p_value, 0.0, 1.0))


def _by_correlation(score: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    if score.size < 3 or np.ptp(score) == 0 or np.ptp(values.astype(float)) == 0:
        return 0.0, 1.0
    found = spearmanr(score, values.astype(float))
    return float(found.statistic), float(found.pvalue)


def _by_category(score: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    labels = values.astype(str)
    groups = [score[labels == label] for label in np.unique(labels)]
    if len(groups) < 2 or np.ptp(score) == 0:
        return 0.0, 1.0
    found = kruskal(*groups)
    return float(found.statistic) / (score.size - 1), float(found.pvalue)


# --- what they share


def _corrected(rows: list[Any]) -> list[Any]:
    """The same with q-values, over all tests together."""
    if not rows:
        return rows
    q_values = false_discovery_control([row.p_value for row in rows])
    return [row._replace(q_value=float(q)) for row, q in zip(rows, q_values, strict=True)]


def _is_missing(value: object) -> bool:
    """Whether a value stands for none: None, NaN, or pandas' own."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _with_components(model: VariableSelector) -> Findings:
    found = findings_of(model)
    if found.regression:
        raise InputError(f"{found.method} has coefficients, and no latents to interpret")
    return found


def _view_of_columns(found: Findings) -> np.ndarray:
    view = np.zeros(len(found.names), dtype=int)
    if found.views is not None:
        for number, columns in enumerate(found.views.columns):
            view[columns] = number
    return view


def _background(
    model: VariableSelector, found: Findings, view: int | None
) -> tuple[list[str], np.ndarray]:
    """Names and loadings of the variables that are compared with each other."""
    if view is None:
        if not found.named:
            raise InputError(
                "the variables of this model have no names that are all different, so that no "
                "gene set can name them: fit it to a data frame, or give `view` for one whose "
                "columns have names"
            )
        return found.names, found.loadings
    views = [] if found.views is None else found.views.columns
    check_integer("view", view, 0)
    if view >= max(1, len(views)):
        raise ParameterError(
            f"`view` must be below the number of views, {max(1, len(views))}, got {view}"
        )
    if not views:
        return _background(model, found, None)
    columns = views[view]
    known = getattr(model, "view_names_", [None] * len(views))[view]
    if known is None and not found.named:
        raise InputError(
            f"the variables of view {view} have no names, so that no gene set can name them: fit "
            "the model to data frames"
        )
    names = [found.names[k] for k in columns] if known is None else [str(name) for name in known]
    return names, found.loadings[:, columns]


def _members(
    gene_sets: Mapping[str, Iterable[str]], place: Mapping[str, int], min_size: int
) -> dict[str, np.ndarray]:
    """Which variables belong to each set that is large enough, (n_features,) bool each."""
    if not isinstance(gene_sets, Mapping):
        raise InputError(
            "`gene_sets` must be a mapping from the name of a set to the names of its variables, "
            f"got {type(gene_sets).__name__}"
        )
    members = {}
    for name, genes in gene_sets.items():
        if isinstance(genes, str):
            raise InputError(f"gene set {name!r} must be a list of names, got the text {genes!r}")
        inside = np.zeros(len(place), dtype=bool)
        inside[[place[gene] for gene in map(str, genes) if gene in place]] = True
        if inside.sum() >= min_size:
            members[str(name)] = inside
    if not members:
        raise InputError(
            f"none of the {len(gene_sets)} gene sets has {min_size} variables of the table or "
            "more: do their names match, and is `min_size` not too large?"
        )
    return members
