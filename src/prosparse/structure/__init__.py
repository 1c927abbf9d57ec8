"""Test whether the components of other variables explain a variable.

`StandardisedData` wraps the data matrix, and `equalise_rows` divides its rows by their scale.
`select_shared_variables` selects variables with false discovery rate control, `count_components`
counts their components, `component_pvalues` tests each variable against each component, and
`compute_communalities` measures how much of each variable the components explain.
"""

from .communality import compute_communalities
from .component_count import count_components
from .component_test import component_pvalues, component_qvalues, count_supported_components
from .false_discoveries import adjust_pvalues
from .leading_components import FIT_TOLERANCE, StandardisedData
from .leave_one_out_pvalues import MIN_DOF
from .observed_data import ObservedData
from .row_scale import EqualisedRows, equalise_rows, estimate_row_scale
from .shared_variables import SharedVariables, select_shared_variables

__all__ = [
    "FIT_TOLERANCE",
    "MIN_DOF",
    "EqualisedRows",
    "ObservedData",
    "SharedVariables",
    "StandardisedData",
    "adjust_pvalues",
    "component_pvalues",
    "component_qvalues",
    "compute_communalities",
    "count_components",
    "count_supported_components",
    "equalise_rows",
    "estimate_row_scale",
    "select_shared_variables",
]
