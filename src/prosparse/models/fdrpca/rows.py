"""Rows: which belong together, and whether their order says something that the test must know."""

from __future__ import annotations

import numpy as np

from ...data.row_groups import row_groups
from ...errors import InputError, ParameterError
from ...structure.leading_components import Groups, Sample
from ...structure.search import MIN_FREEDOM

# Columns, and entries in all, that are looked at to judge the order of the rows.
_COLUMNS = 400
_FEWEST_COLUMNS = 8
_ENTRIES = 500_000
# Neighbouring rows are alike if their correlation is that large on average over the columns, and
# that many standard errors away from none.
ALIKE = 0.1
_STANDARD_ERRORS = 4.0
# Or if so large a share, of at least so many components, is alike to that degree.
_FEWEST_SCORES = 5
_SCORE_ALIKE = 0.3
_NEARLY_ALL = 0.9


def grouped_rows(groups: object, n: int) -> Groups | None:
    """The groups of n rows that a user gives as labels.

    Raises
    ------
    ParameterError
        If there is not one label for every row, or they leave too little to test within groups.
    """
    given = row_groups(groups, n)
    if given is None:
        if n - 1 < MIN_FREEDOM:
            raise InputError(
                f"{n} rows (n_samples={n}) are too few to tell structure from chance: at least "
                f"{MIN_FREEDOM + 1} are needed"
            )
        return None
    if n - given.sizes.size < MIN_FREEDOM:
        raise ParameterError(
            f"`groups` has {given.sizes.size} labels for {n} rows: rows are compared within their "
            f"group, and at least {MIN_FREEDOM} more rows than groups are needed"
        )
    return Groups(given.codes, given.sizes)


def likeness_of_neighbours(sample: Sample, scores: np.ndarray) -> float:
    """The mean correlation of a row's value with the next row's, over the columns, in what the
    components leave; 0 where it could be chance.

    Rows sorted by what a few components show (all patients, then all controls) are no fault, and
    the components take that away. What is left of a time series, or of repeated measures one below
    the other, is still alike; or else nearly all of many components go along with the order of
    the rows.

    Parameters
    ----------
    sample : Sample
    scores : array (n, d)
        Orthonormal.

    Returns
    -------
    float
    """
    along = _lagged(scores)
    if along.size >= _FEWEST_SCORES and np.mean(along > _SCORE_ALIKE) > _NEARLY_ALL:
        return float(np.mean(along))
    width = max(_FEWEST_COLUMNS, min(_COLUMNS, _ENTRIES // sample.n))
    which = np.unique(np.linspace(0, sample.p - 1, min(width, sample.p)).astype(int))
    if which.size < _FEWEST_COLUMNS:
        return 0.0
    R = sample.columns(which)
    R = R - scores @ (scores.T @ R)
    total = np.sum(R * R, axis=0)
    present = total > 1e-9 * float(np.max(sample.squares))
    if present.sum() < _FEWEST_COLUMNS:
        return 0.0
    correlation = _lagged(R[:, present])
    mean = float(np.mean(correlation))
    error = float(np.std(correlation, ddof=1)) / np.sqrt(correlation.size)
    return mean if mean > ALIKE and mean > _STANDARD_ERRORS * error else 0.0


def _lagged(columns: np.ndarray) -> np.ndarray:
    """The correlation of every column's entries with the next ones, (k,)."""
    total = np.sum(columns * columns, axis=0)
    return np.asarray(np.sum(columns[1:] * columns[:-1], axis=0) / np.where(total > 0, total, 1.0))
