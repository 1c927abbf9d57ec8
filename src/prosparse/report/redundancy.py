"""Which chosen variables stand for each other?

Variables that correlate nearly perfectly say the same thing twice: whoever measures again, or reads
the list, needs one of each group. Groups are those of complete linkage, so that *every* two
variables of a group correlate that much, whatever their signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from ..data import container_of, take_columns
from ..data.row_groups import row_groups
from ..findings import Findings
from ..phrases import quoted

LEAST = 0.9  # absolute correlation of every two variables of a group
MOST = 1000  # of the chosen variables that are looked at, the most relevant ones


class Group(NamedTuple):
    """Variables of which one could stand for all."""

    first: int  # position of the most relevant chosen one
    others: list[int]  # positions, most relevant first


class Alike(NamedTuple):
    """Groups of variables that stand for each other, the largest first."""

    groups: list[Group]
    looked_at: int  # chosen variables
    least: float | None  # correlation within groups; None if a method told who stands for whom

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        made = [[group.first, *group.others] for group in self.groups]
        return {"groups": made, "looked_at": self.looked_at, "least": self.least}

    @classmethod
    def from_json(cls, saved: Any, n_features: int) -> Alike | None:
        """What `to_json` gave, of that many variables; None for anything else."""
        try:
            made = [Group(int(one[0]), [int(k) for k in one[1:]]) for one in saved["groups"]]
            least = saved["least"]
            whole = cls(made, int(saved["looked_at"]), None if least is None else float(least))
        except (KeyError, TypeError, ValueError, IndexError, OverflowError):
            return None
        places = [k for group in made for k in (group.first, *group.others)]
        return whole if all(0 <= k < n_features for k in places) else None

    def summary(self, found: Findings) -> str:
        """What there is, in one sentence."""
        if self.least is None:
            return (
                f"Each of the {len(self.groups):,} chosen variables below stands for others, which "
                "it tells more of than any other chosen one does."
            )
        which = f"the {found.n_selected:,} chosen variables"
        if self.looked_at < found.n_selected:
            which = f"the {self.looked_at:,} most relevant of {which}"
        if not self.groups:
            return f"Of {which}, no two correlate at {self.least:.2g} or more."
        inside = sum(1 + len(group.others) for group in self.groups)
        count = "1 group" if len(self.groups) == 1 else f"{len(self.groups):,} groups"
        return (
            f"Of {which}, {inside:,} are in {count} in which every two correlate at "
            f"{self.least:.2g} or more: one of each could stand for all of its group."
        )


def alike(
    found: Findings, X: Any, *, groups: Sequence[Any] | None = None, least: float = LEAST
) -> Alike | None:
    """Groups of chosen variables that stand for each other.

    Parameters
    ----------
    found : Findings
    X : table or None
        What the model was fitted to, for its correlations.
    groups : sequence or None
        Labels of rows that belong together: correlations are then those within groups.
    least : float, default=0.9
        The absolute correlation of every two variables of a group.

    Returns
    -------
    Alike or None
        None where nothing can be said: without a table, or fewer than two chosen variables.
    """
    if found.reconstruction is not None:
        return _stand_ins(found)
    looked_at = found.selected[:MOST]
    if X is None or looked_at.size < 2 or container_of(X).stays_in_place:
        return None
    places = np.sort(looked_at)
    some = take_columns(X, places)
    values = some.toarray() if container_of(some).is_sparse else np.asarray(some, dtype=float)
    rows = row_groups(groups, values.shape[0])
    if np.isnan(values).any():
        return None
    correlation = np.clip(np.abs(_correlations(values, None if rows is None else rows.codes)), 0, 1)
    distances = squareform(1.0 - correlation, checks=False)
    labels = fcluster(linkage(distances, "complete"), 1.0 - least + 1e-12, "distance")
    made = []
    for label in np.flatnonzero(np.bincount(labels) > 1):
        members = places[labels == label]
        ranked = members[np.argsort(found.ranking[members], kind="stable")]
        made.append(Group(int(ranked[0]), [int(k) for k in ranked[1:]]))
    made.sort(key=lambda group: (-len(group.others), found.ranking[group.first]))
    return Alike(made, int(places.size), least)


def _correlations(values: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
    values = values - values.mean(axis=0)
    for code in [] if codes is None else np.unique(codes):
        values[codes == code] -= values[codes == code].mean(axis=0)
    lengths = np.linalg.norm(values, axis=0)
    values = values / np.where(lengths > 0, lengths, 1.0)
    return np.asarray(values.T @ values)


def _stand_ins(found: Findings) -> Alike | None:
    assert found.reconstruction is not None
    made = []
    for k in found.reconstruction.order:
        others = np.flatnonzero((found.reconstruction.proxy == k) & ~found.support)
        if others.size:
            best = others[np.argsort(-found.reconstruction.heldout_r2[others], kind="stable")]
            made.append(Group(int(k), [int(j) for j in best]))
    return Alike(made, found.n_selected, None) if made else None


def named(group: Group, found: Findings, most: int = 12) -> str:
    """The other members of a group by name, as many as are worth reading."""
    shown = ", ".join(quoted(found.names[k]) for k in group.others[:most])
    rest = len(group.others) - most
    return f"{shown} and {rest:,} more" if rest > 0 else shown
