"""Check of a table before an analysis.

`check` examines a data matrix, and `check_file` a file. Both report problems that would invalidate
an analysis, with the options that fix them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..data.arrays import TableLike
from .frames import split_columns
from .problems import find_number_problems
from .result import Finding, Severity, TableCheck
from .text import find_numeric_roles, find_text_problems, guess_text_roles

if TYPE_CHECKING:
    from .files import FileCheck, check_file, correct_file
    from .tables import check_table

__all__ = [
    "FileCheck",
    "Finding",
    "Severity",
    "TableCheck",
    "check",
    "check_file",
    "check_table",
    "correct_file",
]


def check(X: TableLike) -> TableCheck:
    """Detect problems of a data matrix before an analysis.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
        Data matrix. A DataFrame may contain columns of text. If a matrix has more than 16 million
        entries, a sample of its columns is checked.

    Returns
    -------
    TableCheck
        Findings, the most severe first. Each finding names the columns and rows, and the option of
        the command that fixes the problem.

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
        *(found for _, found in find_numeric_roles(columns.numbers, groups_known=False)),
        *find_number_problems(columns.numbers),
    ]
    return TableCheck(findings, (columns.numbers.X.shape[0], columns.n_columns))


def __getattr__(name: str) -> object:
    # File readers are imported on first use.
    if name in ("FileCheck", "check_file", "correct_file"):
        from . import files

        return getattr(files, name)
    if name == "check_table":
        from .tables import check_table

        return check_table
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
