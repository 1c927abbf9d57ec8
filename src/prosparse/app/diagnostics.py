"""Diagnostics of the command: permuted datasets, stability selection, redundant variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, ParameterError
from ..findings import Findings
from ..models._base import VariableSelector
from ..report.redundancy import find_redundancy
from ..stability import permutation_null, stability_selection

DEFAULT_PERMUTATIONS = 5
MAX_FIT_SECONDS = 2.0  # maximum duration of a fit for permutations by default
MAX_SECONDS = 6.0  # time limit of the permutations by default


class Diagnostics(NamedTuple):
    """Results for the report as plain JSON, and notes on diagnostics that were skipped."""

    about: dict[str, Any]
    notes: list[str]


def run_diagnostics(
    model: VariableSelector,
    found: Findings,
    X: Any,
    *,
    y: np.ndarray | None = None,
    groups: Sequence[Any] | None,
    fit_seconds: float,
    permutations: int | None,
    halves: int,
) -> Diagnostics:
    """Run the diagnostics of a fitted model.

    Parameters
    ----------
    model : VariableSelector
        Fitted estimator.
    found : Findings
        Results of the model.
    X : array-like of shape (n_samples, n_features)
        Data matrix that the model was fitted to.
    y : ndarray of shape (n_samples,) or None, default=None
        Response of a regression.
    groups : sequence or None
        Groups of the rows.
    fit_seconds : float
        Duration of the fit.
    permutations : int or None
        Number of permuted datasets; None for `DEFAULT_PERMUTATIONS` if a fit is fast.
    halves : int
        Number of random halves of the rows; 0 for none.

    Returns
    -------
    Diagnostics
    """
    about: dict[str, Any] = {}
    notes: list[str] = []
    if permutations is None and fit_seconds > MAX_FIT_SECONDS and found.n_selected:
        notes.append(
            f"no permuted datasets were fitted, because a fit takes {fit_seconds:.0f} s; use "
            f"--permutations {DEFAULT_PERMUTATIONS} to fit them"
        )
    elif permutations != 0 and found.n_selected:
        null = permutation_null(
            model,
            X,
            DEFAULT_PERMUTATIONS if permutations is None else permutations,
            y=y,
            groups=groups,
            random_state=0,
            max_seconds=MAX_SECONDS if permutations is None else math.inf,
        )
        about["permutation_null"] = null.to_json()
    if halves:
        try:
            stability = stability_selection(model, X, halves, y=y, groups=groups, random_state=0)
        except (InputError, ParameterError) as error:
            notes.append(f"stability selection was skipped: {error}")
        else:
            about["stability"] = stability.to_json()
    redundancy = find_redundancy(found, X, groups=groups)
    if redundancy is not None:
        about["redundancy"] = redundancy.to_json()
    return Diagnostics(about, notes)
