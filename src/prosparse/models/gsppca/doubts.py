"""What a selection should not be read without: doubts about it, in words."""

from __future__ import annotations

import numpy as np

from ...data import Operator
from ...data.arrays import host
from ...errors import FewVariablesWarning, NoStructureWarning
from ...numerics.spectrum import Spectrum, spectrum
from ...selection.dimension import count_signals

NOTHING_LEFT = (
    "`relevance_` is zero everywhere; `ranking_` orders the variables by how soon they would come "
    "in, and `support_` is the best of that order: do not read it as a finding. Fewer components "
    "or more samples may help."
)
# Rows nearer to the mean than this share of the noise have a density of their own, the pole of
# the noiseless model; with more than that share of them it decides the evidence.
NEAR = 0.1
MOST_NEAR = 0.1
# Rows to look at, of a table that has many more.
SAMPLE = 4096


def doubts(
    op: Operator,
    parts: Spectrum,
    chosen: np.ndarray,
    d: int,
    noise: float,
    white: float | None,
    smallest: bool,
    noiseless: bool,
) -> list[tuple[type[UserWarning], str]]:
    """Doubts about the columns ``chosen`` for d components, where the noise of inactive columns is
    ``noise``, and ``white`` that of all of them if it is known. ``smallest``: fewer columns could
    not be tried."""
    found: list[tuple[type[UserWarning], str]] = []
    n, p = op.shape
    if not count_signals(host(parts.eigenvalues), n, p, white):
        inside = spectrum(op.take_columns(chosen)).eigenvalues if chosen.size > 1 else np.empty(0)
        if smallest or not count_signals(host(inside), n, chosen.size, noise):
            text = (
                "no principal component stands out from white noise: the variables may be no more "
                "than those that chance makes most alike. More samples would tell."
            )
            found.append((NoStructureWarning, text))
    elif smallest and d > 1:
        text = (
            f"the evidence is largest at the fewest variables that {d} components can have, "
            f"{chosen.size}. Fewer components may do (`n_components`), or the variables may differ "
            "in more than the model knows, such as their noise."
        )
        found.append((FewVariablesWarning, text))
    if noiseless:
        squares = host(op.sample_rows(SAMPLE).row_squares())
        share = float(np.mean(squares <= NEAR**2 * noise * p))
        if share > MOST_NEAR:
            text = (
                f"{share:.0%} of the rows lie at the mean of all rows, where the density of the "
                "noiseless model is infinite, so that it keeps too many variables. Leave these "
                'rows out, or set `evidence="noisy"`.'
            )
            found.append((NoStructureWarning, text))
    return found
