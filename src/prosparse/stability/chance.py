"""What would have been chosen if nothing were shared?

Every column is put in a random order of its own: the same values, and nothing in common but by
chance. Of a regression, the response is put in random order. Where rows belong to groups, values
change places within their group.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import check_integer
from ..findings import Findings, findings_of
from ..models._base import VariableSelector, seed_of
from ..phrases import number, percent
from .refits import Rows, settled


@dataclass(frozen=True, repr=False, eq=False)
class Chance:
    """What a method chooses of tables in which nothing is shared.

    Parameters
    ----------
    method : str
        Name of the estimator's class.
    n_features : int
        Of the table.
    n_selected : int
        What the model chose of the table itself.
    asked : bool
        Whether the user gave the number, so that it says nothing.
    counts : int array (n_shuffles,)
        How many variables are chosen of each shuffled table.
    held : float or None
        A size that the method is after, of the table itself; see ``what``.
    chance_held : array (n_shuffles,)
        The same of each shuffled table; NaN where there is none.
    what : str
        What ``held`` is, in words that begin with "of".
    """

    method: str
    n_features: int
    n_selected: int
    asked: bool
    counts: np.ndarray
    held: float | None
    chance_held: np.ndarray
    what: str

    @property
    def n_shuffles(self) -> int:
        """The number of shuffled tables."""
        return int(self.counts.size)

    @property
    def expected(self) -> float:
        """The mean number chosen of shuffled tables."""
        return float(np.mean(self.counts))

    @property
    def telling(self) -> bool:
        """Whether chance alone leads to a choice: a finding must be read against it."""
        return not self.asked and self.expected > 0

    @property
    def nothing_more(self) -> bool:
        """Whether chance chooses as many as were chosen, or, where the number was asked for, gives
        as much of what the method is after."""
        if not self.asked:
            return bool(self.n_selected > 0 and np.max(self.counts) >= self.n_selected)
        known = self.chance_held[np.isfinite(self.chance_held)]
        return bool(self.held is not None and known.size and np.max(known) >= self.held)

    def headline(self) -> str:
        """The numbers side by side, where chance chooses anything."""
        return f"{self.n_selected:,} chosen; {number(self.expected)} would be by chance"

    @property
    def _share(self) -> str:
        return "shares" if self.n_shuffles == 1 else "share"

    def words(self) -> list[str]:
        """What it says, in sentences."""
        tables = "a table" if self.n_shuffles == 1 else f"{self.n_shuffles} tables"
        shuffled = (
            "with the response in random order"
            if self.what == RESPONSE
            else "with every column shuffled on its own"
        )
        said = []
        if not self.asked and self.expected > 0:
            least, most = int(self.counts.min()), int(self.counts.max())
            spread = "" if least == most else f", {least:,} to {most:,}"
            said.append(
                f"Of {tables} {shuffled}, which {self._share} nothing, {self.method} chooses "
                f"{number(self.expected)} variables on average{spread}."
            )
        elif not self.asked:
            said.append(
                f"Of {tables} {shuffled}, which {self._share} nothing, {self.method} chooses no "
                "variable."
            )
        known = self.chance_held[np.isfinite(self.chance_held)]
        if self.held is not None and known.size:
            said.append(
                f"What is chosen holds {percent(self.held)} {self.what}; by chance it would be "
                f"{percent(float(np.mean(known)))}."
            )
        return said

    def __repr__(self) -> str:
        least, most = int(self.counts.min()), int(self.counts.max())
        rows = [
            ("chosen", f"{self.n_selected:,} of {self.n_features:,}" + " (as asked)" * self.asked),
            ("by chance", f"{number(self.expected)} on average, {least:,} to {most:,}"),
        ]
        known = self.chance_held[np.isfinite(self.chance_held)]
        if self.held is not None and known.size:
            rows.append(("holds", f"{percent(self.held)} {self.what}"))
            rows.append(("by chance", percent(float(np.mean(known)))))
        head = f"{self.method} on {self.n_shuffles} shuffled table(s)"
        return "\n".join([head, *(f"  {key:<12}{value}" for key, value in rows)])

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "method": self.method,
            "n_features": self.n_features,
            "n_selected": self.n_selected,
            "asked": self.asked,
            "counts": self.counts.tolist(),
            "held": self.held,
            "chance_held": [float(v) if math.isfinite(v) else None for v in self.chance_held],
            "what": self.what,
        }

    @classmethod
    def from_json(cls, saved: Any) -> Chance | None:
        """What `to_json` gave; None for anything else."""
        try:
            counts = np.array(saved["counts"], dtype=int)
            held = saved["held"]
            values = [math.nan if v is None else float(v) for v in saved["chance_held"]]
            whole = cls(
                str(saved["method"]),
                int(saved["n_features"]),
                int(saved["n_selected"]),
                saved["asked"] is True,
                counts,
                None if held is None else float(held),
                np.array(values),
                saved["what"],
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        fits = counts.ndim == 1 and counts.size > 0 and counts.size == len(values)
        return whole if fits and whole.what in (VARIANCE, RECOVERED, RESPONSE) else None


VARIANCE = "of the variance of all variables"
RECOVERED = "of the variance of all variables in rows that were held out"
RESPONSE = "of the variance of the response"


def shuffled(
    model: VariableSelector,
    X: Any,
    n_shuffles: int = 10,
    *,
    y: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
    max_seconds: float = math.inf,
) -> Chance:
    """What the method would choose if nothing were shared.

    Parameters
    ----------
    model : fitted estimator
        Of any method. Where the data decided the number of components, the shuffled tables get
        that of the fit on the table itself.
    X : table (n_samples, n_features)
        What the model was fitted to, in memory.
    n_shuffles : int, default=10
        How many shuffled tables.
    y : array (n_samples,) or None, default=None
        The response of a regression, which is shuffled instead of the columns.
    groups : array (n_samples,) or None, default=None
        Labels of rows that belong together: values are shuffled within each.
    random_state : int, RandomState or None, default=None
        Of the orders.
    max_seconds : float, default=inf
        No further table is begun after so much time; one is always looked at.

    Returns
    -------
    Chance

    Examples
    --------
    >>> from prosparse import GSPPCA, datasets
    >>> from prosparse.stability import shuffled
    >>> X = datasets.make_globally_sparse(60, 30, random_state=0).X
    >>> shuffled(GSPPCA(5).fit(X), X, 5, random_state=0).n_shuffles
    5
    """
    check_integer("n_shuffles", n_shuffles, 1)
    rows = Rows(model, X, y, groups)
    rng = np.random.default_rng(seed_of(random_state))
    parameters = settled(model, rows.n)
    found = findings_of(model)
    what, held = _held(found, model, X, rows.y)
    counts, chance_held = [], []
    started = time.monotonic()
    for _ in range(n_shuffles):
        again, response = rows.shuffled(rng, parameters)
        if again is None:
            counts.append(0)
            chance_held.append(math.nan)
        else:
            other = findings_of(again)
            counts.append(other.n_selected)
            size = _held(other, again, X, response)[1]
            chance_held.append(math.nan if size is None else size)
        if time.monotonic() - started > max_seconds:
            break
    return Chance(
        method=found.method,
        n_features=len(found.names),
        n_selected=found.n_selected,
        asked=found.asked,
        counts=np.array(counts),
        held=held,
        chance_held=np.array(chance_held),
        what=what,
    )


def _held(found: Findings, model: Any, X: Any, y: np.ndarray | None) -> tuple[str, float | None]:
    """What the method is after, and how much of it what was chosen holds."""
    if found.told is not None:
        return RECOVERED, float(found.told.recovered_path[found.n_selected - 1])
    if found.regression:
        return RESPONSE, None if y is None else float(model.score(X, y))
    return VARIANCE, found.retained
