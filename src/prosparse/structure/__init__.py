"""Test whether the components of other variables explain a variable.

`StandardisedData` wraps the data matrix. `select_shared_variables` selects variables with false
discovery rate control, `count_components` counts their components, and `compute_communalities`
measures how much of each variable the components explain.
"""

from .communality import compute_communalities
from .component_count import count_components
from .false_discoveries import adjust_pvalues
from .leading_components import FIT_TOLERANCE, StandardisedData
from .leave_one_out_pvalues import MIN_DOF
from .row_scale import EqualisedRows, equalise_rows
from .shared_variables import SharedVariables, select_shared_variables

__all__ = [
    "FIT_TOLERANCE",
    "MIN_DOF",
    "EqualisedRows",
    "SharedVariables",
    "StandardisedData",
    "adjust_pvalues",
    "compute_communalities",
    "count_components",
    "equalise_rows",
    "select_shared_variables",
]
