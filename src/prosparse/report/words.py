"""A plain reading of what was found, in sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..findings import Findings, Shared

_FEW = 5  # variables to name in a sentence


def reading(found: Findings, *, warnings: list[str] | None = None) -> list[str]:
    """Sentences for someone who knows the table, not the method."""
    p, q, d = len(found.names), found.n_selected, found.loadings.shape[0]
    if found.shared is not None:
        return [*_tested(found, found.shared), *_with_care(warnings if q else None)]
    if q == 0:
        return [f"None of the {p:,} variables carries structure that could be told from noise."]
    if not np.any(found.relevance):
        return [
            f"No common structure of the {p:,} variables stands out from noise.",
            f"{q:,} of them are listed as chosen only because some had to be: do not read this as "
            "a finding. Fewer components or more rows may help.",
        ]
    if found.regression:
        said = [f"{q:,} of {p:,} variables predict the response."]
    else:
        carry = "carries" if q == 1 else "carry"
        what = "structure of one component" if d == 1 else f"common structure, in {d} components"
        said = [f"{q:,} of {p:,} variables {carry} the {what}."]
    if found.retained is not None:
        subject = "This component holds" if d == 1 else "Together these components hold"
        said.append(
            f"{subject} {found.retained:.0%} of the variance of all {p:,} variables; the rest is "
            "noise, or structure that they leave out."
        )
    said.append(f"Why {q:,}: {found.why}.")
    first = [found.names[k] for k in found.chosen[:_FEW]]
    if q > 1:
        lead = "The most relevant" if q > _FEW else "Most relevant first"
        said.append(f"{lead}: {', '.join(map(quoted, first))}.")
    if not found.regression:
        said += _components(found)
    return [*said, *_with_care(warnings)]


def _tested(found: Findings, shared: Shared) -> list[str]:
    """What a test of every variable by itself has to say: how many, how much, which."""
    p, q, d = len(found.names), found.n_selected, found.loadings.shape[0]
    if q == 0:
        return [
            f"None of the {p:,} variables is chosen: {found.why}.",
            "The table may have no common structure, or too few rows to show it.",
        ]
    half = int(np.sum(shared.communality[found.support] >= 0.5))
    least = float(found.parameters["min_communality"])
    vary, share, their = ("varies", "shares", "its") if q == 1 else ("vary", "share", "their")
    first = f"{q:,} of {p:,} variables {vary} with others beyond chance"
    if least:
        first += f" and {share} at least {least:.3g} of {their} variance"
    said = [f"{first}."]
    if q > 1 and least < 0.5:
        said[0] += f" {half:,} of them share at least half of their variance."
    what = "One component holds" if d == 1 else f"Their {d} components hold"
    said.append(
        f"{what} {percent(found.retained)} of the variance of all {p:,} variables, each scaled to "
        f"unit variance. Chance alone would explain {percent(shared.chance)} of a variable."
    )
    rate = float(found.parameters["fdr"])
    said.append(
        f"Variables are chosen at a false discovery rate of {rate:.3g}: on average, at most "
        f"{100 * rate:.3g} of a hundred chosen ones are there by chance."
    )
    if q > 1:
        said.append(f"Those that share most: {', '.join(sharing_most(found, shared, _FEW))}.")
    if half < q and not least:
        said.append(
            "Beyond chance is not yet much: a least share of the variance can be asked for "
            "(min_communality)."
        )
    return said + _components(found)


def sharing_most(found: Findings, shared: Shared, most: int) -> list[str]:
    """The chosen variables that share most of their variance with others, and how much."""
    chosen = found.chosen
    first = chosen[np.argsort(-shared.communality[chosen], kind="stable")][:most]
    return [f"{quoted(found.names[k])} ({shared.communality[k]:.0%})" for k in first]


def _components(found: Findings) -> list[str]:
    few = range(min(found.loadings.shape[0], 3))
    return [_component(found, k) for k in few if np.any(found.loadings[k])]


def _with_care(warnings: list[str] | None) -> list[str]:
    return ["Read this with care: see the warnings below."] if warnings else []


def _component(found: Findings, k: int) -> str:
    """Which variables a component is made of, and which pull against each other."""
    w = found.loadings[k]
    big = np.argsort(-np.abs(w), kind="stable")[:_FEW]
    big = big[np.abs(w[big]) >= 0.3 * np.abs(w).max()]
    sides: list[list[str]] = [[], []]
    for j in big:
        sides[int(w[j] < 0)].append(quoted(found.names[j]))
    together, against = sides if w[big[0]] > 0 else sides[::-1]
    text = f"Component {k + 1} is mostly {', '.join(together)}"
    if against:
        return f"{text}, against {', '.join(against)}."
    return f"{text}{', which rise and fall together' if len(together) > 1 else ''}."


def quoted(name: Any) -> str:
    """A name in a sentence; one with spaces or commas in quotation marks."""
    text = str(name)
    return (
        text if text.replace("_", "").replace("-", "").replace(".", "").isalnum() else f"“{text}”"
    )


def percent(value: float | None) -> str:
    return "not known" if value is None else f"{value:.1%}"
