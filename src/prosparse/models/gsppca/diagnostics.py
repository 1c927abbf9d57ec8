"""Diagnostics of a GSPPCA selection, reported as warnings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...data import Operator
from ...data.arrays import to_numpy
from ...errors import FewVariablesWarning, NoStructureWarning, plural
from ...inference.loop import StopReason
from ...numerics.spectrum import Spectrum, spectrum
from ...selection.dimension import count_signals
from .refinement import Refined

# A row is near the mean, where the noiseless density has a pole, if its root mean square is below
# this multiple of the noise standard deviation.
NEAR_MEAN = 0.1
MAX_PROPORTION_NEAR_MEAN = 0.1
MAX_SAMPLED_ROWS = 4096


class Diagnostic(NamedTuple):
    """A warning that is issued after the fit."""

    category: type[UserWarning]
    text: str


def empty_model() -> Diagnostic:
    """Report that the relaxed model contains no variable."""
    return Diagnostic(
        NoStructureWarning,
        f"{StopReason.EMPTY_MODEL}. `relevance_` is zero, and `ranking_` and `support_` "
        "order the variables by variance: do not interpret them. Try fewer components or more "
        "samples.",
    )


def no_shared_variance(rate: float) -> Diagnostic:
    """Report that no variable has significant shared variance."""
    return Diagnostic(
        NoStructureWarning,
        f"no variable shares variance with others at a false discovery rate of {rate:g}. One "
        "component was fitted, and the selection may be due to noise. Collect more samples.",
    )


def diagnose_refined(refined: Refined, given: bool) -> list[Diagnostic]:
    """Check whether the components explain enough variables.

    ``given`` states whether the number of variables was given.
    """
    if refined.n_selected < 2:
        text = (
            "no variable is explained by the components of the others. Do not interpret "
            "`support_`, which contains the best-explained variables. Collect more samples."
        )
        return [Diagnostic(NoStructureWarning, text)]
    if refined.n_selected <= refined.d and not given:
        text = (
            f"the evidence is largest at {plural(refined.n_selected, 'variable')} for "
            f"{plural(refined.d, 'component')}. Reduce `n_components`."
        )
        return [Diagnostic(FewVariablesWarning, text)]
    return []


def diagnose_structure(
    op: Operator,
    parts: Spectrum,
    selected: np.ndarray,
    d: int,
    noise: float,
    white: float | None,
    smallest: bool,
) -> list[Diagnostic]:
    """Check whether the selected columns have common structure.

    ``noise`` is the variance of inactive columns. ``white`` is the known variance of all columns,
    or None.
    """
    n, p = op.shape
    if not count_signals(to_numpy(parts.eigenvalues), n, p, white):
        inside = (
            spectrum(op.take_columns(selected)).eigenvalues if selected.size > 1 else np.empty(0)
        )
        if smallest or not count_signals(to_numpy(inside), n, selected.size, noise):
            text = (
                "no principal component exceeds white noise. The selected variables may be "
                "correlated in this sample only. Collect more samples."
            )
            return [Diagnostic(NoStructureWarning, text)]
    elif smallest and d > 1:
        text = (
            f"the evidence is largest at {selected.size}, the minimum number of variables for {d} "
            "components. Reduce `n_components`, or use `FDRPCA` if noise variances differ."
        )
        return [Diagnostic(FewVariablesWarning, text)]
    return []


def diagnose_rows(op: Operator, noise: float) -> list[Diagnostic]:
    """Check for many rows near the mean, where the noiseless density diverges."""
    squares = to_numpy(op.sample_rows(MAX_SAMPLED_ROWS).row_squares())
    proportion = float(np.mean(squares <= NEAR_MEAN**2 * noise * op.shape[1]))
    if proportion <= MAX_PROPORTION_NEAR_MEAN:
        return []
    text = (
        f"{proportion:.0%} of the rows lie near the mean, where the density of the noiseless model "
        "is infinite. The model then selects too many variables. Drop these rows, or set "
        '`evidence="noisy"`.'
    )
    return [Diagnostic(NoStructureWarning, text)]
