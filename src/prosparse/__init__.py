"""Sparse PCA with false discovery rate control."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
    from . import datasets, interpretation, knockoffs, metrics, plot, stability
    from .checks import check
    from .errors import (
        BatchWarning,
        CategoriesWarning,
        CheckpointError,
        CovariatesWarning,
        DuplicateRowsWarning,
        FewerComponentsWarning,
        FewVariablesWarning,
        InputError,
        ManyComponentsWarning,
        MissingValuesWarning,
        ModelFileError,
        NoStructureWarning,
        OutlyingRowsWarning,
        ParameterError,
        RawCountsWarning,
        RowOrderWarning,
        ShortPanelWarning,
        TableError,
        UnequalUnitsWarning,
        UnknownVariablesWarning,
    )
    from .inference.checkpoint import Checkpoint
    from .models.empca import EMPCA
    from .models.fdrpca import FDRPCA
    from .models.gsppca import GSPPCA
    from .models.panel import Panel
    from .models.sca import SCA
    from .models.spinyreg import SpinyClassifier, SpinyRegressor
    from .models.sppca import SPPCA
    from .persistence import load, save
    from .selector import Selector

__all__ = [
    "EMPCA",
    "FDRPCA",
    "GSPPCA",
    "SCA",
    "SPPCA",
    "BatchWarning",
    "CategoriesWarning",
    "Checkpoint",
    "CheckpointError",
    "CovariatesWarning",
    "DuplicateRowsWarning",
    "FewVariablesWarning",
    "FewerComponentsWarning",
    "InputError",
    "ManyComponentsWarning",
    "MissingValuesWarning",
    "ModelFileError",
    "NoStructureWarning",
    "OutlyingRowsWarning",
    "Panel",
    "ParameterError",
    "RawCountsWarning",
    "RowOrderWarning",
    "Selector",
    "ShortPanelWarning",
    "SpinyClassifier",
    "SpinyRegressor",
    "TableError",
    "UnequalUnitsWarning",
    "UnknownVariablesWarning",
    "__version__",
    "check",
    "datasets",
    "interpretation",
    "knockoffs",
    "load",
    "metrics",
    "plot",
    "save",
    "stability",
]

# Modules of the public names. Names are imported on first use, so that `prosparse --help` imports
# neither NumPy nor scikit-learn, and the import of one estimator does not import the others.
_MODULES = {
    **{name: "errors" for name in __all__ if name.endswith(("Error", "Warning"))},
    "Checkpoint": "inference.checkpoint",
    "check": "checks",
    "EMPCA": "models.empca",
    "FDRPCA": "models.fdrpca",
    "GSPPCA": "models.gsppca",
    "Panel": "models.panel",
    "SCA": "models.sca",
    "Selector": "selector",
    "SpinyClassifier": "models.spinyreg",
    "SpinyRegressor": "models.spinyreg",
    "SPPCA": "models.sppca",
    "load": "persistence",
    "save": "persistence",
}


def __getattr__(name: str) -> object:
    unknown = AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _MODULES:
        value: object = getattr(_import_module(f".{_MODULES[name]}", __name__), name)
    elif name.startswith("_"):  # requested by Python or a notebook
        raise unknown
    else:
        try:
            value = _import_module(f".{name}", __name__)
        except ModuleNotFoundError as error:
            raise unknown from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
