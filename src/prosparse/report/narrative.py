"""A plain reading of what was found, in sentences.

Every number in a sentence is one of the fitted arrays or follows from them, and is rounded by one
rule (`phrases`): the tests work each of them out again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..findings import Findings, Reconstruction, VariableTests
from ..phrases import listed, percent, quoted
from ..stability import PermutationNull, Stability, near_optimal_sizes
from .prefixes import carried_by

__all__ = ["Doubts", "headline", "kept", "percent", "quoted", "reading", "sharing_most"]

FEW = 5  # variables to name in a sentence
DESCRIBED = 3  # components to describe
_BESIDE = 0.3  # of the largest loading: smaller ones are not named
_MOST = 0.5  # of the squared loadings of a component: who holds more of it is what it is "mostly"


class Doubts(NamedTuple):
    """What was done to see how sure the choice is; None where it was not."""

    chance: PermutationNull | None = None
    stability: Stability | None = None


def reading(
    found: Findings, *, warnings: list[str] | None = None, doubts: Doubts | None = None
) -> list[str]:
    """Sentences for someone who knows the table, not the method.

    Parameters
    ----------
    found : Findings
    warnings : list of str or None
        Of the fit.
    doubts : Doubts or None
        What shuffled tables and halves of the rows say.

    Returns
    -------
    list of str
        The first is the headline.
    """
    chance, stability = doubts or Doubts()
    q = found.n_selected
    said = [headline(found, chance)]
    if q == 0:
        return [*said, *_nothing_chosen(found)]
    if _nothing_stands_out(found, chance):
        return [*said, *_not_a_finding(found, chance)]
    if chance is not None and chance.telling:
        said.append(_what_is_chosen(found))
    if found.tests is not None:
        said += _tested(found, found.tests)
    else:
        said += _held(found)
        said.append(f"Why {q:,}: {found.reason}.")
        said += _near_evidence(found)
        said += _most_relevant(found)
    if found.reconstruction is not None:
        said += _told(found, found.reconstruction)
    elif not found.regression:
        said += _components(found)
    if chance is not None:
        said += chance.summary()
    if stability is not None:
        said += stability.summary()
    return said + (["Read this with care: see the warnings below."] if warnings else [])


# --- the headline


def headline(found: Findings, chance: PermutationNull | None = None) -> str:
    """What was found, in one sentence: that nothing was, if so; what chance would choose beside
    it, if that is anything; else what the chosen variables are."""
    p, q = len(found.names), found.n_selected
    if q == 0:
        return _none_selected(found)
    if _nothing_stands_out(found, chance):
        if found.regression:
            return f"None of the {p:,} variables predicts the response better than chance would."
        return f"No common structure of the {p:,} variables stands out from noise."
    if chance is not None and chance.telling:
        return f"{chance.headline()}."
    return _what_is_chosen(found)


def _none_selected(found: Findings) -> str:
    p = len(found.names)
    if found.tests is not None:
        return f"None of the {p:,} variables is chosen: {found.reason}."
    if found.regression:
        return f"None of the {p:,} variables is shown to predict the response."
    return f"None of the {p:,} variables carries structure that could be told from noise."


def kept(found: Findings, chance: PermutationNull | None = None) -> str:
    """How many variables, and how many chance would choose, in few words."""
    text = f"{found.n_selected:,} of {len(found.names):,}"
    if found.size_given:
        text += ", as asked"
    if found.n_selected and _nothing_stands_out(found, chance):
        return f"{text}, but nothing stands out from noise"
    return f"{text}; {chance.by_chance} would be by chance" if chance and chance.telling else text


def _nothing_stands_out(found: Findings, chance: PermutationNull | None) -> bool:
    return not np.any(found.relevance) or (chance is not None and chance.nothing_more)


def _what_is_chosen(found: Findings) -> str:
    p, q, d = len(found.names), found.n_selected, found.loadings.shape[0]
    if found.tests is not None:
        return _beyond_chance(found, found.tests)
    if found.regression:
        return f"{q:,} of {p:,} variables {'predicts' if q == 1 else 'predict'} the response."
    if found.reconstruction is not None:
        return _told_of_all(found, found.reconstruction)
    what = "structure of one component" if d == 1 else f"common structure, in {d} components"
    if found.size_given:
        return f"The {q:,} of {p:,} variables that carry most of the {what}, as asked."
    return f"{q:,} of {p:,} variables {'carries' if q == 1 else 'carry'} the {what}."


def _told_of_all(found: Findings, told: Reconstruction) -> str:
    p, q = len(found.names), found.n_selected
    if found.size_given:
        return f"The {q:,} of {p:,} variables that tell most of all others, as asked."
    attained = float(told.relative_r2_path[q - 1])
    if attained >= 1.0:
        return f"{q:,} of {p:,} variables tell as much of the others as all of them do."
    return (
        f"{q:,} of {p:,} variables tell {percent(attained)} of what all of them tell of the others."
    )


def _beyond_chance(found: Findings, shared: VariableTests) -> str:
    p, q = len(found.names), found.n_selected
    half = int(np.sum(shared.communality[found.support] >= 0.5))
    least = float(found.parameters["min_communality"])
    vary, share, their = ("varies", "shares", "its") if q == 1 else ("vary", "share", "their")
    said = f"{q:,} of {p:,} variables {vary} with others beyond chance"
    if least:
        said += f" and {share} at least {least:.3g} of {their} variance"
    if q > 1 and least < 0.5:
        said += f". {half:,} of them share at least half of their variance"
    return f"{said}."


# --- where there is nothing to find


def _nothing_chosen(found: Findings) -> list[str]:
    if found.tests is None:
        return []
    return ["The table may have no common structure, or too few rows to show it."]


def _not_a_finding(found: Findings, chance: PermutationNull | None) -> list[str]:
    q = found.n_selected
    listed_as = "is listed as chosen" if q == 1 else "are listed as chosen"
    if chance is None or not chance.nothing_more:
        return [
            f"{q:,} of them {listed_as} only because some had to be: do not read this as a "
            "finding. Fewer components or more rows may help."
        ]
    return [
        f"{q:,} of them {listed_as}, but tables that share nothing give as much: do not read "
        "this as a finding.",
        *chance.summary(),
    ]


# --- what the chosen variables hold, and why so many


def _held(found: Findings) -> list[str]:
    p, d = len(found.names), found.loadings.shape[0]
    if found.explained is None or found.reconstruction is not None:
        return []
    subject = "This component holds" if d == 1 else "Together these components hold"
    said = f"{subject} {percent(found.explained)} of the variance of all {p:,} variables"
    if found.explained < 1.0:
        said += "; the rest is noise, or structure that they leave out"
    return [f"{said}."]


def _tested(found: Findings, shared: VariableTests) -> list[str]:
    """What a test of every variable by itself has to say: how much, how sure, which."""
    p, q, d = len(found.names), found.n_selected, found.loadings.shape[0]
    rate, least = float(found.parameters["fdr"]), float(found.parameters["min_communality"])
    what = "One component holds" if d == 1 else f"Their {d} components hold"
    said = [
        f"{what} {percent(found.explained)} of the variance of all {p:,} variables, each scaled to "
        f"unit variance. The null expectation of the communality is "
        f"{percent(shared.null_communality)}.",
        f"Variables are chosen at a false discovery rate of {rate:.3g}: on average, at most "
        f"{100 * rate:.3g} of a hundred chosen ones are there by chance.",
    ]
    if q > 1:
        said.append(f"Those that share most: {', '.join(sharing_most(found, shared, FEW))}.")
    if not least and np.any(shared.communality[found.support] < 0.5):
        said.append(
            "Beyond chance is not yet much: a least share of the variance can be asked for "
            "(min_communality)."
        )
    return said


def _near_evidence(found: Findings) -> list[str]:
    return [near_optimal_sizes(found).summary()] if found.by_evidence else []


def _most_relevant(found: Findings) -> list[str]:
    first = [quoted(found.names[k]) for k in found.selected[:FEW]]
    if found.n_selected < 2:
        return []
    lead = "The most relevant" if found.n_selected > FEW else "Most relevant first"
    return [f"{lead}: {', '.join(first)}."]


def sharing_most(found: Findings, shared: VariableTests, most: int) -> list[str]:
    """The chosen variables that share most of their variance with others, and how much."""
    chosen = found.selected
    first = chosen[np.argsort(-shared.communality[chosen], kind="stable")][:most]
    return [f"{quoted(found.names[k])} ({percent(shared.communality[k], 0)})" for k in first]


def _told(found: Findings, told: Reconstruction) -> list[str]:
    """What a panel tells of all variables, and for how many others its first ones stand."""
    recovered = float(told.heldout_r2_path[found.n_selected - 1])
    said = [
        f"In rows that were held out, they tell {percent(max(recovered, 0.0))} of the variance of "
        "all variables, themselves included; of a variable, all others together tell "
        f"{percent(max(told.attainable_r2, 0.0))}."
    ]
    first = [
        f"{quoted(found.names[k])} for {int(np.sum((told.proxy == k) & ~found.support)):,}"
        for k in told.order[:FEW]
    ]
    return [*said, f"So many others each of the first stands for: {', '.join(first)}."]


# --- components


def _components(found: Findings) -> list[str]:
    d = found.loadings.shape[0]
    held = [k for k in range(d) if np.any(found.loadings[k])]
    shown = held[:DESCRIBED]
    said = [_component(found, k) for k in shown]
    if len(held) > len(shown):
        said.insert(0, f"These are the first {len(shown)} of {len(held)} components.")
    return said + [note for k in shown for note in carried_by(found, k)]


def _component(found: Findings, k: int) -> str:
    """Which variables a component is made of, or, if none are most of it, which are the largest;
    and which pull against each other."""
    w = found.loadings[k]
    squares = w**2 / np.sum(w**2)
    order = np.argsort(-np.abs(w), kind="stable")
    n_loadings = int(np.count_nonzero(w))
    if n_loadings == 1:
        return f"Component {k + 1} is {quoted(found.names[order[0]])} alone."
    big = order[:FEW]
    big = big[np.abs(w[big]) >= _BESIDE * np.abs(w[order[0]])]
    sides: list[list[str]] = [[], []]
    for j in big:
        sides[int(w[j] < 0)].append(quoted(found.names[j]))
    together, against = sides if w[big[0]] > 0 else sides[::-1]
    share = float(np.sum(squares[big]))
    if share > _MOST:
        text = f"Component {k + 1} is mostly {listed(together)}"
        if against:
            return f"{text}, against {listed(against)}."
        return f"{text}{', which rise and fall together' if len(together) > 1 else ''}."
    names = f"{listed(together)}, against {listed(against)}" if against else listed(together)
    return (
        f"Component {k + 1} is spread over many: the largest of its {n_loadings:,} loadings are "
        f"those of {names}, together {percent(share)} of it (in squares)."
    )
