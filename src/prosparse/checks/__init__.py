"""Check of a table before an analysis.

`check` examines a data matrix, and `check_file` a file. Both look for what makes an analysis fail
or its result wrong, and name the options that fix it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..data.arrays import TableLike
from .columns import find_column_problems
from .counts import find_count_problems
from .frames import split_columns
from .numbers import Numbers
from .result import Finding, Severity, TableCheck
from .rows import find_row_problems
from .text import find_numeric_roles, find_text_problems, guess_text_roles

if TYPE_CHECKING:
    from .files import FileCheck, check_file

__all__ = ["FileCheck", "Finding", "Severity", "TableCheck", "check", "check_file"]


def check(X: TableLike) -> TableCheck:
    """Find what may be wrong with a table before it is analysed.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Data matrix. A DataFrame may contain columns of text. Of a matrix with more than 16 million
        entries, evenly spaced columns are checked.

    Returns
    -------
    TableCheck
        Findings, the most severe first. Each names columns and rows, and the option of the command
        that fixes it.

    Examples
    --------
    >>> import numpy as np
    >>> import prosparse
    >>> X = np.random.default_rng(0).normal(size=(50, 10))
    >>> X[4, 3] = -999
    >>> for finding in prosparse.check(X).findings:
    ...     print(finding.code, finding.columns, finding.fix)
    missing-codes ('x3',) --na -999
    """
    columns = split_columns(X)
    guesses = guess_text_roles(columns.texts, named=True)
    findings = [
        *find_text_problems(guesses, Severity.WARNING),
        *find_number_problems(columns.numbers),
    ]
    return TableCheck(findings, (columns.numbers.X.shape[0], columns.n_columns))


def find_number_problems(numbers: Numbers) -> Iterator[Finding]:
    """Find problems of the numeric part of a table."""
    for _, finding in find_numeric_roles(numbers, groups_known=False):
        yield finding
    yield from find_count_problems(numbers)
    yield from find_column_problems(numbers)
    yield from find_row_problems(numbers)


def __getattr__(name: str) -> object:
    # Readers of files are imported on first use.
    if name in ("FileCheck", "check_file"):
        from . import files

        return getattr(files, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
