"""Diagnostics by null datasets, stability selection and redundancy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..errors import InputError, ParameterError
from ..findings import Findings, findings_of
from ..inference.progress import announce_each, observe
from ..models._base import VariableSelector
from ..report.redundancy import find_redundancy
from ..stability import permutation_null, stability_selection

DEFAULT_PERMUTATIONS = 10  # five of each kind; a standard deviation requires at least four
MAX_FIT_SECONDS = 2.0  # maximum duration of a fit for which null datasets are the default
N_VIEW_PERMUTATIONS = 10
MAX_SECONDS = 6.0  # default time limit of the null datasets


class Diagnostics(NamedTuple):
    """Results for the report, and notes on skipped diagnostics."""

    about: dict[str, Any]
    notes: list[str]


def run_diagnostics(
    model: VariableSelector,
    found: Findings,
    X: Any,
    *,
    y: np.ndarray | None = None,
    groups: Sequence[Any] | None,
    covariates: Mapping[str, Any] | None = None,
    fit_seconds: float,
    permutations: int | None,
    halves: int,
) -> Diagnostics:
    """Run the diagnostics of a fitted model.

    ``permutations`` is the number of null datasets; None stands for `DEFAULT_PERMUTATIONS` if a fit
    is fast. ``halves`` is the number of random halves of the rows, possibly 0.
    """
    about: dict[str, Any] = {}
    notes: list[str] = []
    if permutations is None and fit_seconds > MAX_FIT_SECONDS and found.n_selected:
        notes.append(
            f"no null datasets were fitted, because a fit takes {fit_seconds:.0f} s; use "
            f"--permutations {DEFAULT_PERMUTATIONS} to fit them"
        )
    elif permutations != 0 and found.n_selected:
        null = permutation_null(
            model,
            X,
            DEFAULT_PERMUTATIONS if permutations is None else permutations,
            y=y,
            groups=groups,
            covariates=covariates,
            random_state=0,
            max_seconds=MAX_SECONDS if permutations is None else math.inf,
        )
        about["permutation_null"] = null.to_json()
    if permutations != 0 and fit_seconds <= MAX_FIT_SECONDS and groups is None:
        about["shared_null"] = count_shared_under_null(model, found, X)
    if halves:
        try:
            stability = stability_selection(
                model, X, halves, y=y, groups=groups, covariates=covariates, random_state=0
            )
        except (InputError, ParameterError) as error:
            notes.append(f"stability selection was skipped: {error}")
        else:
            about["stability"] = stability.to_json()
    redundancy = find_redundancy(found, X, groups=groups, covariates=covariates)
    if redundancy is not None:
        about["redundancy"] = redundancy.to_json()
    return Diagnostics(about, notes)


def count_shared_under_null(model: VariableSelector, found: Findings, X: Any) -> list[int]:
    """Count the factors that views share if their rows are permuted independently.

    The correlations within each view are preserved. The list is empty without several views, or
    if no factor is shared.
    """
    if found.views is None or len(found.views.columns) < 2 or not found.views.shared.size:
        return []
    rng = np.random.default_rng(0)
    counts = []
    for _ in announce_each("permuted tables", range(N_VIEW_PERMUTATIONS), N_VIEW_PERMUTATIONS):
        permuted = np.array(X, dtype=float)
        for columns in found.views.columns[1:]:
            permuted[:, columns] = permuted[rng.permutation(len(permuted))][:, columns]
        with warnings.catch_warnings(), observe(None):
            warnings.simplefilter("ignore")
            refit = findings_of(clone(model).fit(permuted))
        assert refit.views is not None
        counts.append(int(refit.views.shared.size))
    return counts
