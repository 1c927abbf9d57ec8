"""What a selection should not be read without: doubts about it, in words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...data import Operator
from ...data.arrays import to_numpy
from ...errors import FewVariablesWarning, NoStructureWarning
from ...inference.loop import StopReason
from ...numerics.spectrum import Spectrum, spectrum
from ...selection.dimension import count_signals

# Rows nearer to the mean than this share of the noise have a density of their own, the pole of
# the noiseless model; with more than that share of them it decides the evidence.
NEAR = 0.1
MOST_NEAR = 0.1
# Rows to look at, of a table that has many more.
SAMPLE = 4096


class Doubt(NamedTuple):
    """A warning to be given once the fit is whole."""

    category: type[UserWarning]
    text: str


def nothing_left() -> Doubt:
    """The relaxed model gave up all variables."""
    return Doubt(
        NoStructureWarning,
        f"{StopReason.NOTHING_LEFT}. `relevance_` is zero everywhere; `ranking_` orders the "
        "variables by how soon they would come in, and `support_` is the best of that order: do "
        "not read it as a finding. Fewer components or more samples may help.",
    )


def nothing_shared(rate: float) -> Doubt:
    """No column varies with the others beyond chance."""
    return Doubt(
        NoStructureWarning,
        f"no variable shares structure with others beyond chance (false discovery rate {rate:g}): "
        "what is chosen here is no more than what chance makes most alike, with one component. "
        "More samples would tell.",
    )


def doubts_about_structure(
    op: Operator,
    parts: Spectrum,
    chosen: np.ndarray,
    d: int,
    noise: float,
    white: float | None,
    smallest: bool,
) -> list[Doubt]:
    """Is there structure at all in the columns ``chosen`` for d components?

    Parameters
    ----------
    op : Operator
        The table.
    parts : Spectrum
        Its spectrum.
    chosen : int array
        The chosen columns.
    d : int
        The number of components.
    noise : float
        The variance of inactive columns.
    white : float or None
        The variance of all columns, where it is known.
    smallest : bool
        Whether fewer columns could not be tried.

    Returns
    -------
    list of Doubt
    """
    n, p = op.shape
    if not count_signals(to_numpy(parts.eigenvalues), n, p, white):
        inside = spectrum(op.take_columns(chosen)).eigenvalues if chosen.size > 1 else np.empty(0)
        if smallest or not count_signals(to_numpy(inside), n, chosen.size, noise):
            text = (
                "no principal component stands out from white noise: the chosen variables may "
                "merely be those that happen to look alike in this sample. With more samples that "
                "would show."
            )
            return [Doubt(NoStructureWarning, text)]
    elif smallest and d > 1:
        text = (
            f"the evidence is largest at the fewest variables that {d} components can have, "
            f"{chosen.size}. Fewer components may do (`n_components`), or the variables may differ "
            "in more than the model knows, such as their noise."
        )
        return [Doubt(FewVariablesWarning, text)]
    return []


def doubts_about_rows(op: Operator, noise: float) -> list[Doubt]:
    """Do rows at the mean, where the noiseless density is infinite, decide the evidence?"""
    squares = to_numpy(op.sample_rows(SAMPLE).row_squares())
    share = float(np.mean(squares <= NEAR**2 * noise * op.shape[1]))
    if share <= MOST_NEAR:
        return []
    text = (
        f"{share:.0%} of the rows lie at the mean of all rows, where the density of the "
        "noiseless model is infinite, so that it keeps too many variables. Leave these "
        'rows out, or set `evidence="noisy"`.'
    )
    return [Doubt(NoStructureWarning, text)]
