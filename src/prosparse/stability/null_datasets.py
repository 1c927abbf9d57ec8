"""What would have been chosen if nothing were shared?

Every column is put in a random order of its own: the same values, and nothing in common but by
chance. Of a regression, the response is put in random order. Where rows belong to groups, values
change places within their group.
"""

from __future__ import annotations

import functools
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from ..errors import InputError, check_integer, check_jobs, check_non_negative
from ..findings import Findings, findings_of
from ..models._base import SparseProjection, VariableSelector, seed_of
from ..parallel import in_processes
from ..phrases import number, percent
from ..registry import method_of
from .refits import Rows, settled

Piece = TypeVar("Piece")


@dataclass(frozen=True, repr=False, eq=False)
class PermutationNull:
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
    counts : int array (n_permutations,)
        How many variables are chosen of each shuffled table.
    held : float or None
        A size that the method is after, of the table itself; see ``what``.
    chance_held : array (n_permutations,)
        The same of each shuffled table; 0 where no variable is selected, unless the model
        predicts without variables; NaN where it is not known.
    what : {"variance", "attainable", "response", "classes"}
        What ``held`` is: the share of the variance of all variables that the components hold, the
        share of a variable that all others tell in rows that were held out, or the share of the
        response's variance that the chosen variables explain.
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
    def n_permutations(self) -> int:
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
        """Whether what was chosen holds no more than what is chosen by chance.

        One more shuffled table would hold less than the limit of Student's prediction with a
        probability of 99 %: mean + t s sqrt(1 + 1/m), of m tables with standard deviation s. Of
        fewer than four tables, whose s says little, the largest is the limit. Where what is held
        is not known, nothing is claimed: numbers of variables alone cannot tell.
        """
        known = self.chance_held[np.isfinite(self.chance_held)]
        if self.n_selected == 0 or self.held is None or known.size == 0:
            return False
        return bool(np.any(self.counts > 0) and self.held <= _limit(known))

    def headline(self) -> str:
        """The numbers side by side, where chance chooses anything."""
        return (
            f"{self.n_selected:,} of {self.n_features:,} variables chosen; {self.by_chance} would "
            "be by chance"
        )

    @property
    def by_chance(self) -> str:
        """The mean number that chance chooses, as it is said."""
        return number(self.expected)

    @property
    def _share(self) -> str:
        return "shares" if self.n_permutations == 1 else "share"

    def summary(self) -> list[str]:
        """What it says, in sentences."""
        tables = "a table" if self.n_permutations == 1 else f"{self.n_permutations} tables"
        shuffled = (
            "with the response in random order"
            if self.what in ("response", "classes")
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
        if self.held is not None and self.mean_held is not None and np.any(self.counts > 0):
            given, by_chance = percent(self.held), percent(self.mean_held)
            said.append(_HELD_WORDS[self.what].format(given=given, by_chance=by_chance))
        return said

    @property
    def mean_held(self) -> float | None:
        """The mean of ``chance_held``, at least 0; None where there is none."""
        known = self.chance_held[np.isfinite(self.chance_held)]
        return max(float(np.mean(known)), 0.0) if known.size else None

    def __repr__(self) -> str:
        least, most = int(self.counts.min()), int(self.counts.max())
        rows = [
            ("chosen", f"{self.n_selected:,} of {self.n_features:,}" + " (as asked)" * self.asked),
            ("by chance", f"{number(self.expected)} on average, {least:,} to {most:,}"),
        ]
        if self.held is not None and self.mean_held is not None:
            rows.append((self.what, percent(self.held)))
            rows.append(("by chance", percent(self.mean_held)))
        head = f"{self.method} on {self.n_permutations} shuffled table(s)"
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
    def from_json(cls, saved: Any) -> PermutationNull | None:
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
                str(saved["what"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        fits = counts.ndim == 1 and counts.size > 0 and counts.size == len(values)
        return whole if fits and whole.what in _HELD_WORDS else None


_PREDICTED = 0.99
_FEWEST = 4  # tables, to say how much they differ


def _limit(values: np.ndarray) -> float:
    """What one more value like these exceeds seldom, if they are about Gaussian."""
    m = values.size
    if m < _FEWEST:
        return float(np.max(values))
    quantile = float(student.ppf(_PREDICTED, m - 1))
    return float(np.mean(values) + quantile * np.std(values, ddof=1) * math.sqrt(1.0 + 1.0 / m))


_HELD_WORDS = {
    "variance": (
        "The components hold {given} of the variance of all variables; by chance they would hold "
        "{by_chance}."
    ),
    "attainable": (
        "In rows that were held out, all other variables together tell {given} of a variable; by "
        "chance it would be {by_chance}."
    ),
    "response": (
        "The model explains {given} of the variance of the response in these rows; fitted to the "
        "response in random order, it explains {by_chance} on average, whether or not it selects "
        "variables."
    ),
    "classes": (
        "The model classifies {given} of these rows correctly; fitted to the classes in random "
        "order, it classifies {by_chance} on average, whether or not it selects variables."
    ),
}


def permutation_null(
    model: VariableSelector,
    X: Any,
    n_permutations: int = 10,
    *,
    y: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
    max_seconds: float = math.inf,
    n_jobs: int | None = None,
) -> PermutationNull:
    """What the method would choose if nothing were shared.

    Parameters
    ----------
    model : fitted estimator
        Of any method. Where the data decided the number of components, the shuffled tables get
        that of the fit on the table itself.
    X : table (n_samples, n_features)
        What the model was fitted to, in memory.
    n_permutations : int, default=10
        How many shuffled tables.
    y : array (n_samples,) or None, default=None
        The response of a regression, which is shuffled instead of the columns.
    groups : array (n_samples,) or None, default=None
        Labels of rows that belong together: values are shuffled within each.
    random_state : int, RandomState or None, default=None
        Of the orders.
    max_seconds : float, default=inf
        No further table is begun after so much time; one is always looked at.
    n_jobs : int or None, default=None
        Tables that are fitted at a time, in processes of their own, as in scikit-learn: None is
        one, unless ``joblib.parallel_config`` says otherwise, and -1 as many as there are cores.
        The result is the same, unless ``max_seconds`` ends it.

    Returns
    -------
    PermutationNull

    Examples
    --------
    >>> from prosparse import GSPPCA, datasets
    >>> from prosparse.stability import permutation_null
    >>> X = datasets.make_globally_sparse(60, 30, random_state=0).X
    >>> permutation_null(GSPPCA(5).fit(X), X, 5, random_state=0).n_permutations
    5
    """
    check_jobs(n_jobs)
    check_integer("n_permutations", n_permutations, 1)
    check_non_negative("max_seconds", max_seconds, infinite=True)
    rows = Rows(model, X, y, groups)
    rng = np.random.default_rng(seed_of(random_state))
    parameters = settled(model, rows.n)
    found = findings_of(model)
    what, held = _held(found, model, rows.table, rows.y)
    looked_at = functools.partial(_looked_at, rows, parameters)
    tables = _within(max_seconds, (rows.shuffled(rng) for _ in range(n_permutations)))
    results = in_processes(looked_at, tables, n_jobs, n_permutations)
    if all(result.error is not None for result in results):
        raise InputError(f"{found.method} refuses every permuted table: {results[0].error}")
    return PermutationNull(
        method=found.method,
        n_features=len(found.names),
        n_selected=found.n_selected,
        asked=found.size_given,
        counts=np.array([result.n_selected for result in results]),
        held=held,
        chance_held=np.array([result.held for result in results]),
        what=what,
    )


def _within(max_seconds: float, pieces: Iterator[Piece]) -> Iterator[Piece]:
    """The pieces that are begun in time, and always the first."""
    started = time.monotonic()
    for piece in pieces:
        yield piece
        if time.monotonic() - started > max_seconds:
            return


class _Permuted(NamedTuple):
    """What a permuted table gives."""

    n_selected: int
    held: float  # see `PermutationNull.chance_held`
    error: Exception | None = None  # if the method refuses the table


def _looked_at(
    rows: Rows, parameters: dict[str, Any], shuffled: tuple[list[Any], np.ndarray | None]
) -> _Permuted:
    """How many variables the method chooses in a shuffled table, and how much of what it is after
    it finds there: none in a table that it refuses, or of which it selects no variable."""
    tables, y = shuffled
    nothing = math.nan if rows.method.classifies else 0.0  # without variables, accuracy is not 0
    again = rows.fitted_to_shuffled(tables, y, parameters)
    if isinstance(again, Exception):
        return _Permuted(0, nothing, again)
    found = findings_of(again)
    size = _held(found, again, tables if rows.several else tables[0], y)[1]
    if size is None:
        return _Permuted(found.n_selected, math.nan if found.n_selected else nothing)
    return _Permuted(found.n_selected, size)


def _held(found: Findings, model: Any, X: Any, y: np.ndarray | None) -> tuple[str, float | None]:
    """What the method is after, and how much of it there is."""
    if found.reconstruction is not None:
        return "attainable", found.reconstruction.attainable_r2
    if found.regression:
        what = "classes" if method_of(model).classifies else "response"
        return what, None if y is None else _scored(model.score, X, y)
    if found.explained is not None or found.n_selected == 0:
        return "variance", found.explained
    # components that are correlated have no shares of their own: that of the plane they span
    plane = functools.partial(SparseProjection.score, model)
    return "variance", None if isinstance(X, list) else _scored(plane, X)


def _scored(score: Callable[..., float], *table: Any) -> float | None:
    """A score, if it is a number, which that of a table with gaps is not."""
    with warnings.catch_warnings():
        # a model that was given its names afterwards, or lost them with the shuffled table
        warnings.filterwarnings("ignore", message="X (does not have valid|has) feature names")
        value = float(score(*table))
    return value if math.isfinite(value) else None
