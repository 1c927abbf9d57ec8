"""Complementary pairs of halves: how often is each variable chosen on half of the rows?

[SS13] Definition 1: B times, the rows are split at random into two halves of n // 2 rows each (of
an odd number one is left out), the method chooses on each, and a variable is *stable* if it is
chosen on at least a share tau of the 2B halves. The bound on false ones is in `bounds`.

[SS13] R. D. Shah, R. J. Samworth. Variable selection with error control: another look at
       stability selection. Journal of the Royal Statistical Society B 75, 2013.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..data.row_groups import RowGroups
from ..errors import InputError, ParameterError, check_integer, check_jobs, check_non_negative
from ..findings import findings_of
from ..models._base import VariableSelector, seed_of
from ..parallel import in_processes
from ..phrases import number, percent
from .bounds import expected_low
from .refits import Rows, settled

_MIN_ROWS = 4
_FEWEST_GROUPS = 4  # of which two are in each half
THRESHOLD = 0.9


@dataclass(frozen=True, repr=False, eq=False)
class Stability:
    """How often each variable is chosen on half of the rows.

    Parameters
    ----------
    method : str
        Name of the estimator's class.
    names : tuple of str
        Of all variables.
    selected : bool array (n_features,)
        What the model chose on all rows.
    times : int array (n_features,)
        The number of halves on which each variable is chosen.
    counts : int array (n_subsamples,)
        The number of variables chosen on each half.
    n_rows : int
        In a half.
    n_refused : int
        Halves on which the method refused to choose; they count as choosing nothing.
    threshold : float
        The share of the halves from which on a variable is stable.
    """

    method: str
    names: tuple[str, ...]
    selected: np.ndarray
    times: np.ndarray
    counts: np.ndarray
    n_rows: int
    n_refused: int = 0
    threshold: float = THRESHOLD

    @property
    def n_subsamples(self) -> int:
        """The number of halves, two for each pair."""
        return int(self.counts.size)

    @property
    def frequency(self) -> np.ndarray:
        """The share of the halves on which each variable is chosen, (n_features,)."""
        return self.times / self.n_subsamples

    @property
    def stable(self) -> np.ndarray:
        """Which variables are chosen on at least ``threshold`` of the halves, (n_features,)."""
        return self.stable_at(self.threshold)

    def stable_at(self, threshold: float) -> np.ndarray:
        """The stable set at another threshold, (n_features,) bool."""
        check_non_negative("threshold", threshold)
        return np.asarray(self.times >= threshold * self.n_subsamples - 1e-9)

    @property
    def low(self) -> float:
        """The selection probability that counts as low: that of a variable drawn at random, q / p,
        or a half if most are chosen."""
        return min(float(np.mean(self.counts)) / len(self.names), 0.5)

    def expected_false(
        self,
        threshold: float | None = None,
        *,
        low: float | None = None,
        unimodal: bool = True,
    ) -> float:
        """At most so many stable variables have a low selection probability, on average.

        Shah and Samworth (2013), Theorems 1 and 2, the smaller one. Theorem 1 assumes nothing;
        Theorem 2, that for a variable of low selection probability the share of pairs of which
        both halves choose it has a distribution with one peak. That these variables are the false
        ones assumes that the method is no worse on them than drawing variables at random.

        Parameters
        ----------
        threshold : float or None, default=None
            Above a half; None: that of the stable set.
        low : float or None, default=None
            The selection probability that counts as low; None: that of a variable drawn at random.
        unimodal : bool, default=True
            Whether Theorem 2 may be used.

        Returns
        -------
        float
        """
        tau = self.threshold if threshold is None else checked_threshold(threshold)
        theta = self.low if low is None else low
        mean, pairs = float(np.mean(self.counts)), self.n_subsamples // 2
        return expected_low(tau, pairs, theta, mean, len(self.names), unimodal=unimodal)

    def summary(self) -> list[str]:
        """What it says, in sentences."""
        p, q = len(self.names), int(self.selected.sum())
        n_stable, both = int(self.stable.sum()), int((self.stable & self.selected).sum())
        least, most = int(self.counts.min()), int(self.counts.max())
        said = [
            f"On half of the rows, {self.method} chooses {number(np.mean(self.counts))} of {p:,} "
            f"variables on average ({least:,} to {most:,} over {self.n_subsamples} halves of "
            f"{self.n_rows:,} rows); on all rows it chose {q:,}.",
            f"{n_stable:,} {'is' if n_stable == 1 else 'are'} stable: chosen on at least "
            f"{percent(self.threshold, 0)} of the halves; {both:,} of the {q:,} chosen on all rows "
            "are among them.",
        ]
        if n_stable:
            said.append(self._false_words(n_stable))
        if self.n_refused:
            said.append(
                f"On {self.n_refused:,} of the {self.n_subsamples:,} halves the method refused to "
                "choose, as if it had chosen nothing."
            )
        return said

    def _false_words(self, n_stable: int) -> str:
        bound = self.expected_false()
        if bound >= n_stable:
            return (
                f"How many of the {n_stable:,} are false is not known: Shah and Samworth's bound, "
                f"{number(bound)} expected at most, is no smaller than their number."
            )
        return (
            f"Of the {n_stable:,}, at most {number(bound)} are expected to be false: variables "
            "that the method chooses on half of the rows with a probability of "
            f"{self.low:.2g} or less, no more often than one drawn at random (Shah and Samworth's "
            "bound, for distributions with one peak)."
        )

    def to_frame(self) -> Any:
        """A pandas DataFrame: one row a variable, those chosen most often first.

        Returns
        -------
        DataFrame
            ``frequency``, ``stable`` and ``selected``, with the names as index.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        order = np.argsort(-self.times, kind="stable")
        columns = {
            "frequency": self.frequency[order],
            "stable": self.stable[order],
            "selected": self.selected[order],
        }
        return pd.DataFrame(columns, index=[self.names[k] for k in order])

    def __repr__(self) -> str:
        least, most = int(self.counts.min()), int(self.counts.max())
        rows = (
            ("chosen on all rows", f"{int(self.selected.sum()):,} of {len(self.names):,}"),
            (
                "chosen on a half",
                f"{number(np.mean(self.counts))} on average, {least:,} to {most:,}",
            ),
            (
                "stable",
                f"{int(self.stable.sum()):,}, on at least {percent(self.threshold, 0)} of halves",
            ),
            ("expected false", f"at most {number(self.expected_false())} among the stable"),
        )
        head = (
            f"Stability of {self.method}: {self.n_subsamples} halves of {self.n_rows:,} rows, in "
            "complementary pairs"
        )
        return "\n".join([head, *(f"  {key:<20}{value}" for key, value in rows)])

    def to_json(self) -> dict[str, Any]:
        """All but the names, as plain JSON."""
        return {
            "method": self.method,
            "selected": np.flatnonzero(self.selected).tolist(),
            "times": self.times.tolist(),
            "counts": self.counts.tolist(),
            "n_rows": self.n_rows,
            "n_refused": self.n_refused,
            "threshold": self.threshold,
        }

    @classmethod
    def from_json(cls, saved: Any, names: list[str]) -> Stability | None:
        """What `to_json` gave, of that many variables; None for anything else."""
        try:
            times = np.array(saved["times"], dtype=int)
            counts = np.array(saved["counts"], dtype=int)
            selected = np.zeros(len(names), dtype=bool)
            selected[np.array(saved["selected"], dtype=int)] = True
            whole = cls(
                str(saved["method"]),
                tuple(names),
                selected,
                times,
                counts,
                int(saved["n_rows"]),
                int(saved["n_refused"]),
                checked_threshold(saved["threshold"]),
            )
        except (KeyError, TypeError, ValueError, IndexError, OverflowError):
            return None
        fits = times.shape == selected.shape and counts.ndim == 1 and counts.size > 1
        inside = fits and times.min() >= 0 and times.max() <= counts.size
        return whole if inside and counts.min() >= 0 and counts.max() <= len(names) else None


def checked_threshold(value: Any) -> float:
    """A threshold above a half, up to 1."""
    if not isinstance(value, int | float | np.number) or not 0.5 < float(value) <= 1.0:
        raise ParameterError(f"`threshold` must be above 0.5 and at most 1, got {value!r}")
    return float(value)


def stability_selection(
    model: VariableSelector,
    X: Any,
    n_subsamples: int = 50,
    *,
    y: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    threshold: float = THRESHOLD,
    random_state: int | np.random.RandomState | None = None,
    n_jobs: int | None = None,
) -> Stability:
    """How often each variable is chosen on half of the rows.

    Parameters
    ----------
    model : fitted estimator
        Of any method. Where the data decided the number of components, the halves take that of
        the fit on all rows.
    X : table (n_samples, n_features)
        What the model was fitted to.
    n_subsamples : int, default=50
        The number of halves, an even one: they come in complementary pairs.
    y : array (n_samples,) or None, default=None
        The response of a regression.
    groups : array (n_samples,) or None, default=None
        Labels of rows that belong together: all rows of a label are in the same half. Methods that
        compare rows within groups do so within these.
    threshold : float, default=0.9
        The share of the halves, above a half, from which on a variable is stable.
    random_state : int, RandomState or None, default=None
        Of the splits.
    n_jobs : int or None, default=None
        Halves that are fitted at a time, in processes of their own, as in scikit-learn: None is
        one, unless ``joblib.parallel_config`` says otherwise, and -1 as many as there are cores.
        The result is the same.

    Returns
    -------
    Stability

    Raises
    ------
    InputError
        If the table is not that of the model, or the method refuses every half.

    References
    ----------
    R. D. Shah, R. J. Samworth (2013). Variable selection with error control: another look at
    stability selection. JRSS B 75.

    Examples
    --------
    >>> from prosparse import FDRPCA, datasets
    >>> from prosparse.stability import stability_selection
    >>> X, truth, _ = datasets.make_globally_sparse(100, 50, scale=True, random_state=0)
    >>> found = stability_selection(FDRPCA().fit(X), X, 20, random_state=0)
    >>> bool((found.stable == truth).all())
    True
    """
    check_jobs(n_jobs)
    check_integer("n_subsamples", n_subsamples, 2)
    if n_subsamples % 2:
        raise ParameterError(
            "`n_subsamples` must be even, as halves come in complementary pairs, got "
            f"{n_subsamples}"
        )
    threshold = checked_threshold(threshold)
    rows = Rows(model, X, y, groups)
    rng = np.random.default_rng(seed_of(random_state))
    parameters = settled(model, rows.n // 2, choice_alone=True)
    times = np.zeros(int(model.n_features_in_), dtype=int)
    if rows.n < _MIN_ROWS:
        raise InputError(
            f"X has {rows.n} rows: at least {_MIN_ROWS} are needed for halves of 2 rows. Collect "
            "more rows."
        )
    counts, refused = [], []
    halves = [
        half for _ in range(n_subsamples // 2) for half in pair_of_halves(rows.n, rows.groups, rng)
    ]
    part = functools.partial(rows.part, parameters=parameters)
    for chosen in in_processes(part, halves, n_jobs, len(halves)):
        if isinstance(chosen, Exception):
            refused.append(chosen)
            counts.append(0)
        else:
            times += chosen
            counts.append(int(chosen.sum()))
    if len(refused) == n_subsamples:
        raise InputError(
            f"{type(model).__name__} refuses every half of these {rows.n} rows: {refused[0]}"
        )
    found = findings_of(model)
    return Stability(
        method=found.method,
        names=tuple(found.names),
        selected=found.support,
        times=times,
        counts=np.array(counts),
        n_rows=round(float(np.mean([half.size for half in halves]))),
        n_refused=len(refused),
        threshold=threshold,
    )


def pair_of_halves(
    n: int, groups: RowGroups | None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Two halves of n // 2 rows without a common one, [SS13] Definition 1; of groups, n // 2 of
    these, with all their rows."""
    if groups is None:
        order = rng.permutation(n)
        return np.sort(order[: n // 2]), np.sort(order[n // 2 : 2 * (n // 2)])
    count = groups.sizes.size
    if count < _FEWEST_GROUPS:
        raise ParameterError(
            f"`groups` has {count} labels: rows of one label stay together, and at least "
            f"{_FEWEST_GROUPS} are needed for halves that differ. Leave `groups` out to split rows"
        )
    order = rng.permutation(count)
    first, second = order[: count // 2], order[count // 2 : 2 * (count // 2)]
    return (
        np.flatnonzero(np.isin(groups.codes, first)),
        np.flatnonzero(np.isin(groups.codes, second)),
    )
