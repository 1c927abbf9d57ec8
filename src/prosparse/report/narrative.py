"""Sentences about the results of a fitted model.

Numbers are read from the fitted attributes and rounded by the functions of `phrases`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..findings import MIN_SHARED, CovariateEffects, Findings, Reconstruction, VariableTests
from ..phrases import format_mean, join_items, percent, quote_name
from ..stability import PermutationNull, Stability, near_optimal_sizes
from .robustness import Robustness

MAX_NAMED = 5  # maximum number of variables in a sentence
MAX_DESCRIBED = 3  # maximum number of described components
MIN_RELATIVE_LOADING = 0.3  # minimum loading to be named, relative to the largest
MIN_DOMINANT = 0.5  # minimum proportion of the squared loadings of dominant variables
HIGH_COMMUNALITY = 0.5
MIN_NULL_PROPORTION = 0.1  # number selected under the null that qualifies the headline
MIN_MANY = 100  # minimum number of variables of a large table, such as gene expression
MAX_SPECIFIC = 0.5  # proportion of selected variables above which a selection is not specific


def narrate(
    found: Findings,
    *,
    warnings: list[str] | None = None,
    null: PermutationNull | None = None,
    stability: Stability | None = None,
    robustness: Robustness | None = None,
    view_names: Sequence[str] = (),
    shared_null: Sequence[int] = (),
) -> list[str]:
    """Describe the results for readers unfamiliar with the method.

    The result is a list of sentences, of which the first is the headline.
    """
    shared = describe_shared(found, view_names, shared_null)
    sentences = [headline(found, null, robustness), *shared]
    if found.n_selected == 0:
        if found.tests is not None:
            sentences.append("The variables may be unrelated, or there are too few rows.")
        return sentences
    if _is_noise(found, null):
        return [*sentences, *_describe_noise(null)]
    if _describe_result(found) not in sentences:
        sentences.append(_describe_result(found))
    if found.tests is not None:
        sentences += _describe_tests(found, found.tests)
    else:
        sentences += _describe_explained_variance(found)
        sentences.append(f"Reason for the number of variables: {found.reason}.")
        if found.by_evidence:
            sentences.append(near_optimal_sizes(found).summary())
        sentences += _list_most_relevant(found)
    if found.reconstruction is not None:
        sentences += _describe_reconstruction(found, found.reconstruction)
    elif not found.regression:
        sentences += _describe_components(found)
    for diagnostic in (robustness, null, stability):
        sentences += [] if diagnostic is None else diagnostic.summary()
    if warnings:
        sentences.append("The fit issued warnings, which are listed below.")
    return sentences


# --- headline


def headline(
    found: Findings, null: PermutationNull | None = None, robustness: Robustness | None = None
) -> str:
    """Return the main result in one or two sentences."""
    p = len(found.names)
    if found.n_selected == 0:
        reason = "" if found.regression else f": {found.reason}"
        return f"{found.method} selected none of the {p:,} variables{reason}."
    if _is_noise(found, null):
        if found.regression:
            return (
                f"The {p:,} variables predict the response no better than expected under the null."
            )
        return f"The {p:,} variables have no shared variance that is distinguishable from noise."
    if selects_many_under_null(found, null):
        assert null is not None
        return f"{null.headline()}."
    qualification = None if robustness is None else robustness.headline()
    return qualification or _describe_result(found)


def selects_many_under_null(found: Findings, null: PermutationNull | None) -> bool:
    """Return whether null datasets account for much of the selection."""
    if null is None or not null.selects_under_null:
        return False
    return null.expected_n_selected >= MIN_NULL_PROPORTION * found.n_selected


def name_views(found: Findings, names: Sequence[str] = ()) -> list[str]:
    """Return the names of the views; numbers if no names were given."""
    n_views = 0 if found.views is None else len(found.views.columns)
    if len(names) == n_views:
        return [*map(str, names)]
    return [f"view {view + 1}" for view in range(n_views)]


def describe_shared(
    found: Findings, view_names: Sequence[str] = (), null: Sequence[int] = ()
) -> list[str]:
    """Describe the components that explain variance in several views.

    ``null`` contains the numbers of such components after permutations of the rows of the views.
    """
    if found.views is None or len(found.views.columns) < 2:
        return []
    names = [quote_name(name) for name in name_views(found, view_names)]
    explained = found.views.explained
    shared = found.views.shared
    d = explained.shape[1]
    if not shared.size:
        return [f"{join_items(names)} share no component."]
    number = "The component" if d == 1 else f"{shared.size:,} of the {d:,} components"
    verb = "is" if shared.size == 1 or d == 1 else "are"
    total = [
        f"{percent(float(explained[view, shared].sum()))} of the variance of {name}"
        for view, name in enumerate(names)
    ]
    subject = "It explains" if shared.size == 1 else "They explain"
    sentences = [f"{number} {verb} shared by several tables. {subject} {join_items(total)}."]
    for k in shared[:MAX_DESCRIBED] if shared.size > 1 else ():
        parts = [
            f"{percent(float(explained[view, k]))} of {name}"
            for view, name in enumerate(names)
            if explained[view, k] >= MIN_SHARED
        ]
        sentences.append(f"Component {k + 1} explains {join_items(parts)}.")
    if null:
        sentences.append(
            "If the rows of the tables are permuted, so that they share nothing, "
            f"{format_mean(float(np.mean(null)))} components are shared on average "
            f"({len(null)} datasets)."
        )
    return sentences


def describe_selection(found: Findings, null: PermutationNull | None = None) -> str:
    """Describe the observed and expected numbers of selected variables."""
    text = f"{found.n_selected:,} of {len(found.names):,}"
    if found.size_given:
        text += ", as requested"
    if found.n_selected and _is_noise(found, null):
        return f"{text}, not distinguishable from noise"
    if null is not None and null.selects_under_null:
        return f"{text}; {null.describe_expected()} expected under the null"
    return text


def _is_noise(found: Findings, null: PermutationNull | None) -> bool:
    return not np.any(found.relevance) or (null is not None and null.consistent_with_null)


def _describe_result(found: Findings) -> str:
    p, q, d = len(found.names), found.n_selected, found.loadings.shape[0]
    if found.tests is not None:
        return _count_significant(found, found.tests)
    if found.regression:
        return f"{q:,} of {p:,} variables {'predicts' if q == 1 else 'predict'} the response."
    if found.reconstruction is not None:
        return _count_explained(found, found.reconstruction)
    requested = ", as requested" if found.size_given else ""
    components = "1 component" if d == 1 else f"{d} components"
    return f"{found.method} selected {q:,} of {p:,} variables{requested}, with {components}."


def _count_significant(found: Findings, tests: VariableTests) -> str:
    p, q = len(found.names), found.n_selected
    minimum = float(found.parameters["min_communality"])
    share, have = ("shares", "has") if q == 1 else ("share", "have")
    text = f"{q:,} of {p:,} variables {share} significant variance with other variables"
    if minimum:
        text += f" and {have} a communality of at least {minimum:.3g}"
    if q > 1 and minimum < HIGH_COMMUNALITY:
        n_high = int(np.sum(tests.communality[found.support] >= HIGH_COMMUNALITY))
        number, has = f"{n_high:,}" if n_high else "None", "has" if n_high <= 1 else "have"
        text += f". {number} of them {has} a communality of at least"
        text += f" {HIGH_COMMUNALITY:g} (null expectation: {tests.null_communality:.2g})"
    return f"{text}."


def _count_explained(found: Findings, reconstruction: Reconstruction) -> str:
    p, q = len(found.names), found.n_selected
    subject = f"{q:,} of {p:,} variables{', as requested,' if found.size_given else ''}"
    explain = "explains" if q == 1 else "explain"
    relative = float(reconstruction.relative_r2_path[q - 1])
    if relative >= 1.0:
        return f"{subject} {explain} as much held-out variance as all variables together."
    return (
        f"{subject} {explain} {percent(max(relative, 0.0))} of the held-out variance that all "
        "variables together explain."
    )


# --- results that are not distinguishable from noise


def _describe_noise(null: PermutationNull | None) -> list[str]:
    if null is None or not null.consistent_with_null:
        return [
            "The selection is arbitrary and should not be interpreted. Use fewer components or "
            "collect more rows."
        ]
    return [
        "Null datasets give similar results, so the selection should not be interpreted.",
        *null.summary(),
    ]


# --- selected variables


def _describe_explained_variance(found: Findings) -> list[str]:
    d = found.loadings.shape[0]
    if found.explained is None or found.reconstruction is not None:
        return []
    subject = "The component explains" if d == 1 else f"The {d} components explain"
    return [
        f"{subject} {percent(found.explained)} of the total variance of all {len(found.names):,} "
        "variables."
    ]


def _describe_tests(found: Findings, tests: VariableTests) -> list[str]:
    p, d = len(found.names), found.loadings.shape[0]
    fdr, minimum = float(found.parameters["fdr"]), float(found.parameters["min_communality"])
    subject = "One component explains" if d == 1 else f"{d} components explain"
    robust = found.parameters.get("null") != "exchangeable"
    assumption = (
        "If the rows are independent"
        if robust
        else "If the rows are independent and have equal noise"
    )
    sentences = [
        f"{subject} {percent(found.explained)} of the total variance of the {p:,} standardised "
        f"variables. The null expectation of the communality is {percent(tests.null_communality)}.",
        f"{assumption}, the false discovery rate is at most {fdr:.3g}: on average, at most "
        f"{100 * fdr:.3g} of 100 selected variables are false discoveries.",
    ]
    if found.covariates is not None:
        sentences.append(describe_covariates(found.covariates))
    if found.n_selected > 1:
        communalities = ", ".join(list_communalities(found, tests, MAX_NAMED))
        sentences.append(f"Largest communalities: {communalities}.")
    if p >= MIN_MANY and found.n_selected > MAX_SPECIFIC * p:
        sentences.append(
            "Most variables are selected, as is common if few causes, such as the composition of "
            "tissues, affect many variables. In this case, selection is uninformative "
            "about single variables. A panel (Panel, or the command `panel`) selects a few that "
            "represent all."
        )
    if not minimum and np.any(tests.communality[found.support] < HIGH_COMMUNALITY):
        sentences.append(
            "Statistical significance does not imply a large effect. Set min_communality "
            "(--min-communality) to require a minimum communality."
        )
    return sentences


def describe_covariates(covariates: CovariateEffects) -> str:
    """Describe the proportion of variance explained by the covariates."""
    names = join_items([quote_name(name) for name in covariates.names])
    r2 = covariates.r2
    is_one = len(covariates.names) == 1
    subject = f"The covariate {names} explains" if is_one else f"The covariates {names} explain"
    return (
        f"{subject} {percent(float(np.median(r2)))} of the variance of a variable (median; maximum "
        f"{percent(float(np.max(r2)))}). This variance was removed before the test."
    )


def _list_most_relevant(found: Findings) -> list[str]:
    if found.n_selected < 2:
        return []
    names = ", ".join(quote_name(found.names[k]) for k in found.selected[:MAX_NAMED])
    if found.n_selected > MAX_NAMED:
        return [f"Most relevant variables: {names}."]
    return [f"Variables in order of relevance: {names}."]


def list_communalities(found: Findings, tests: VariableTests, max_named: int) -> list[str]:
    """List the selected variables with the largest communalities."""
    selected = found.selected
    first = selected[np.argsort(-tests.communality[selected], kind="stable")][:max_named]
    return [f"{quote_name(found.names[k])} ({percent(tests.communality[k], 0)})" for k in first]


def _describe_reconstruction(found: Findings, reconstruction: Reconstruction) -> list[str]:
    explained = float(reconstruction.heldout_r2_path[found.n_selected - 1])
    represented = [
        f"{quote_name(found.names[k])} ({np.sum((reconstruction.proxy == k) & ~found.support):,})"
        for k in reconstruction.order[:MAX_NAMED]
    ]
    return [
        f"On held-out rows, the selected variables explain {percent(max(explained, 0.0))} of the "
        "variance of all variables, including their own.",
        f"All other variables together explain {percent(max(reconstruction.attainable_r2, 0.0))} "
        "of the variance of a variable on average.",
        f"Selected variables, with the numbers of variables they represent: "
        f"{', '.join(represented)}.",
    ]


# --- components


def _describe_components(found: Findings) -> list[str]:
    nonzero = np.flatnonzero(np.any(found.loadings, axis=1)).tolist()
    sentences = [_describe_component(found, k) for k in nonzero[:MAX_DESCRIBED]]
    if len(nonzero) > MAX_DESCRIBED:
        sentences.insert(
            0, f"The first {MAX_DESCRIBED} of {len(nonzero)} components are described here."
        )
    return sentences


def _describe_component(found: Findings, component: int) -> str:
    """Name the variables with the largest loadings, separated by sign."""
    w = found.loadings[component]
    order = np.argsort(-np.abs(w), kind="stable")
    if np.count_nonzero(w) == 1:
        name = quote_name(found.names[order[0]])
        return f"Component {component + 1} has one nonzero loading: {name}."
    large = order[:MAX_NAMED]
    large = large[np.abs(w[large]) >= MIN_RELATIVE_LOADING * np.abs(w[order[0]])]
    same_sign, opposite = (
        join_items([quote_name(found.names[j]) for j in large if sign * w[j] * w[order[0]] > 0])
        for sign in (1, -1)
    )
    proportion = float(np.sum(w[large] ** 2) / np.sum(w**2))
    if proportion <= MIN_DOMINANT:
        names = same_sign + (f" and, with the opposite sign, {opposite}" if opposite else "")
        return (
            f"Component {component + 1} has {np.count_nonzero(w):,} nonzero loadings. The largest, "
            f"with {percent(proportion)} of the sum of squares, are those of {names}."
        )
    if opposite:
        return f"Component {component + 1} contrasts {same_sign} with {opposite}."
    return f"Component {component + 1} is dominated by {same_sign}" + (
        ", with loadings of the same sign." if large.size > 1 else "."
    )
