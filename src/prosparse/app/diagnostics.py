"""How sure is the answer of the command: what it looks at besides the fit, and for how long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, ParameterError
from ..findings import Findings
from ..models._base import VariableSelector
from ..report.redundancy import alike
from ..stability import permutation_null, stability_selection

FEW_SHUFFLES = 5  # where nobody said how many
_CHEAP = 2.0  # seconds of a fit, up to which a few shuffled tables are looked at unasked
_PATIENCE = 6.0  # seconds for these


class Looked(NamedTuple):
    """What was looked at, as plain JSON for the report, and what to say of what was not."""

    about: dict[str, Any]
    notes: list[str]


def look(
    model: VariableSelector,
    found: Findings,
    X: Any,
    *,
    y: np.ndarray | None = None,
    groups: Sequence[Any] | None,
    seconds: float,
    shuffles: int | None,
    halves: int,
) -> Looked:
    """Shuffled tables, halves of the rows, and variables that stand for each other.

    Parameters
    ----------
    model : fitted estimator
    found : Findings
        Of the model.
    X : table
        What it was fitted to.
    y : array or None
        The response of a regression.
    groups : sequence or None
        Labels of rows that belong together.
    seconds : float
        What the fit took.
    shuffles : int or None
        How many shuffled tables; None: a few, if a fit is quick.
    halves : int
        How many halves of the rows; 0: none.

    Returns
    -------
    Looked
    """
    about: dict[str, Any] = {}
    notes: list[str] = []
    if shuffles is None and seconds > _CHEAP and found.n_selected:
        notes.append(
            f"what chance would choose was not looked at, as a fit takes {seconds:.0f} s: "
            f"--shuffles {FEW_SHUFFLES} does"
        )
    elif (shuffles is None or shuffles > 0) and found.n_selected:
        patience = _PATIENCE if shuffles is None else math.inf
        count = FEW_SHUFFLES if shuffles is None else shuffles
        chance = permutation_null(
            model, X, count, y=y, groups=groups, random_state=0, max_seconds=patience
        )
        about["shuffled"] = chance.to_json()
    if halves:
        try:
            stability = stability_selection(model, X, halves, y=y, groups=groups, random_state=0)
        except (InputError, ParameterError) as error:
            notes.append(
                f"how often variables are chosen on half of the rows is not known: {error}"
            )
        else:
            about["stability"] = stability.to_json()
    same = alike(found, X, groups=groups)
    if same is not None:
        about["alike"] = same.to_json()
    return Looked(about, notes)
