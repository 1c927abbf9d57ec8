"""Groups of redundant variables among the selected ones.

Groups are found by complete-linkage clustering of the absolute correlations, so that every pair of
variables in a group is strongly correlated. For a `Panel`, a group consists of the variables
represented by a selected variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from ..data import container_of, take_columns
from ..data.covariates import row_design
from ..findings import Findings, Reconstruction
from ..phrases import list_items, quote_name

MIN_CORRELATION = 0.9  # minimum absolute correlation of every pair in a group
MAX_COMPARED = 1000  # maximum number of selected variables to compare; the most relevant are used
MAX_LISTED = 12  # maximum number of names in the list of a group


class RedundantGroup(NamedTuple):
    """Group of variables that a single one can represent."""

    representative: int  # index of the most relevant selected variable
    others: list[int]  # indices of the other variables, most relevant first


class Redundancy(NamedTuple):
    """Groups of redundant variables, largest first."""

    groups: list[RedundantGroup]
    n_compared: int  # number of selected variables that were compared
    min_correlation: float | None  # None if the groups are the proxies of a `Panel`

    def to_json(self) -> dict[str, Any]:
        """Convert all fields to types that JSON supports."""
        return {
            "groups": [[group.representative, *group.others] for group in self.groups],
            "n_compared": self.n_compared,
            "min_correlation": self.min_correlation,
        }

    @classmethod
    def from_json(cls, saved: Any, n_features: int) -> Redundancy | None:
        """Restore the output of `to_json`; return None if it is not valid."""
        try:
            groups = [
                RedundantGroup(int(columns[0]), [int(k) for k in columns[1:]])
                for columns in saved["groups"]
            ]
            correlation = saved["min_correlation"]
            restored = cls(
                groups,
                int(saved["n_compared"]),
                None if correlation is None else float(correlation),
            )
        except (KeyError, TypeError, ValueError, IndexError, OverflowError):
            return None
        columns = [k for group in groups for k in (group.representative, *group.others)]
        return restored if all(0 <= k < n_features for k in columns) else None

    def summary(self, found: Findings) -> str:
        """Describe the groups for a report."""
        if self.min_correlation is None:
            return (
                "Each variable below represents others, because it explains more of their variance "
                "than any other selected variable does."
            )
        compared = f"the {found.n_selected:,} selected variables"
        if self.n_compared < found.n_selected:
            compared = f"the {self.n_compared:,} most relevant of {compared}"
        correlated = f"a correlation of at least {self.min_correlation:.2g} in absolute value"
        if not self.groups:
            return (
                f"All pairwise correlations of {compared} are below {self.min_correlation:.2g} in "
                "absolute value."
            )
        n_grouped = sum(1 + len(group.others) for group in self.groups)
        n_groups = "1 group" if len(self.groups) == 1 else f"{len(self.groups):,} groups"
        return (
            f"{n_grouped:,} of {compared} are in {n_groups} in which all pairs have {correlated}. "
            "One variable of each group can represent the others."
        )


def find_redundancy(
    found: Findings,
    X: Any,
    *,
    groups: Sequence[Any] | None = None,
    covariates: Any = None,
    min_correlation: float = MIN_CORRELATION,
) -> Redundancy | None:
    """Find groups of redundant variables among the selected ones.

    Correlations are computed within ``groups`` of rows and given ``covariates``. The result is None
    without data, with missing values, with data on disk, or with fewer than two selected variables.
    """
    if found.reconstruction is not None:
        return _group_by_proxy(found, found.reconstruction)
    columns = np.sort(found.selected[:MAX_COMPARED])
    if X is None or columns.size < 2:
        return None
    # A list of data matrices contains the views of SCA; a list of rows is one data matrix.
    has_views = isinstance(X, list) and all(hasattr(view, "shape") for view in X)
    views = X if has_views else [X]
    if any(container_of(view).stays_in_place for view in views):
        return None
    values = _read_columns(views, columns) if has_views else _to_dense(take_columns(X, columns))
    rows = row_design(groups, covariates, values.shape[0]).adjustment
    if np.isnan(values).any():
        return None
    correlation = np.clip(np.abs(_correlate(rows.residuals(values))), 0, 1)
    distances = squareform(1.0 - correlation, checks=False)
    labels = fcluster(linkage(distances, "complete"), 1.0 - min_correlation + 1e-12, "distance")
    redundant = []
    for label in np.flatnonzero(np.bincount(labels) > 1):
        members = columns[labels == label]
        ranked = members[np.argsort(found.ranking[members], kind="stable")]
        redundant.append(RedundantGroup(int(ranked[0]), [int(k) for k in ranked[1:]]))
    redundant.sort(key=lambda group: (-len(group.others), found.ranking[group.representative]))
    return Redundancy(redundant, int(columns.size), min_correlation)


def _read_columns(views: list[Any], columns: np.ndarray) -> np.ndarray:
    """Read columns of concatenated views, with indices in increasing order."""
    ends = np.cumsum([view.shape[1] for view in views])
    parts = np.split(columns, np.searchsorted(columns, ends[:-1]))
    starts = ends - [view.shape[1] for view in views]
    return np.hstack(
        [
            _to_dense(take_columns(view, part - start))
            for view, part, start in zip(views, parts, starts, strict=True)
        ]
    )


def _to_dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if container_of(X).is_sparse else X, dtype=float)


def _correlate(values: np.ndarray) -> np.ndarray:
    """Compute the correlation matrix of centred columns."""
    norms = np.linalg.norm(values, axis=0)
    values = values / np.where(norms > 0, norms, 1.0)
    return np.asarray(values.T @ values)


def _group_by_proxy(found: Findings, reconstruction: Reconstruction) -> Redundancy | None:
    groups = []
    for k in reconstruction.order:
        others = np.flatnonzero((reconstruction.proxy == k) & ~found.support)
        if others.size:
            best = others[np.argsort(-reconstruction.heldout_r2[others], kind="stable")]
            groups.append(RedundantGroup(int(k), [int(j) for j in best]))
    return Redundancy(groups, found.n_selected, None) if groups else None


def list_others(group: RedundantGroup, found: Findings) -> str:
    """Return the names of the other variables of a group, at most `MAX_LISTED`."""
    return list_items([quote_name(found.names[k]) for k in group.others], MAX_LISTED)
