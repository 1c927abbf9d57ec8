"""What a table is: its kinds, its columns and their units, and the operator a model sees.

`kinds` knows every kind of table, `columns` means, scales and units, `operators` the ways of
keeping rows, `arrays` the way between array libraries, `identity` which table is which.
"""

from .arrays import Array
from .columns import Columns
from .containers import (
    Container,
    container_of,
    fingerprint,
    is_lazy,
    operator_of,
    reweighted,
    side_by_side,
    standardise,
    take_columns,
)
from .operators.base import Operator
from .operators.dense import DenseOperator

__all__ = [
    "Array",
    "Columns",
    "Container",
    "DenseOperator",
    "Operator",
    "container_of",
    "fingerprint",
    "is_lazy",
    "operator_of",
    "reweighted",
    "side_by_side",
    "standardise",
    "take_columns",
]
