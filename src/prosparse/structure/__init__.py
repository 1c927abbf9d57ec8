"""Tests of shared variance: variables explained by components of others.

`StandardisedData` wraps the data matrix, and `equalise_rows` divides its rows by their scale.
`select_shared_variables` selects variables with false discovery rate control;
`select_shared_by_knockoffs` has proven control in finite samples. `count_components` counts the
components of the selected variables, `component_pvalues` tests each variable against each
component, and `compute_communalities` computes the proportion of each variable that the components
explain.
"""

from .communality import compute_communalities
from .component_count import count_components
from .component_test import component_pvalues, component_qvalues, count_supported_components
from .false_discoveries import adjust_pvalues
from .knockoff_selection import (
    Blocks,
    Knockoffs,
    KnockoffSelection,
    SharedByKnockoffs,
    apply_knockoffs,
    select_shared_by_knockoffs,
)
from .leading_components import FIT_TOLERANCE, MIN_DOF, StandardisedData
from .null_distribution import beta_parameters, common_flip_moments
from .observed_data import ObservedData, fill_by_design, observed_data
from .prepared_data import prepare_data
from .row_scale import EqualisedRows, equalise_rows, estimate_row_scale
from .shared_variables import SharedVariables, select_shared_variables

__all__ = [
    "FIT_TOLERANCE",
    "MIN_DOF",
    "Blocks",
    "EqualisedRows",
    "KnockoffSelection",
    "Knockoffs",
    "ObservedData",
    "SharedByKnockoffs",
    "SharedVariables",
    "StandardisedData",
    "adjust_pvalues",
    "apply_knockoffs",
    "beta_parameters",
    "common_flip_moments",
    "component_pvalues",
    "component_qvalues",
    "compute_communalities",
    "count_components",
    "count_supported_components",
    "equalise_rows",
    "estimate_row_scale",
    "fill_by_design",
    "observed_data",
    "prepare_data",
    "select_shared_by_knockoffs",
    "select_shared_variables",
]
