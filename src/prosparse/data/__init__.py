"""Representation of the data matrix: containers, columns and operators.

- `containers`: supported types of data matrices.
- `columns`: standardisation of columns by means, scales and units.
- `operators`: sums and maps over rows, one module per storage format.
- `arrays`: conversion between array libraries.
- `fingerprint`: identification of a data matrix by its content.
"""

from .arrays import Array
from .columns import Columns
from .containers import Container, container_of
from .fingerprint import fingerprint
from .operators.base import Operator
from .operators.dense import DenseOperator
from .standardisation import operator_of, restandardise, standardise, take_columns
from .views import stack_columns, stack_rows

__all__ = [
    "Array",
    "Columns",
    "Container",
    "DenseOperator",
    "Operator",
    "container_of",
    "fingerprint",
    "operator_of",
    "restandardise",
    "stack_columns",
    "stack_rows",
    "standardise",
    "take_columns",
]
