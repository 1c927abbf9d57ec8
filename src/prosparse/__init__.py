"""prosparse: sparse PCA, PCA that chooses its variables."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
    from . import baselines, datasets, metrics, plot, stability
    from .errors import (
        CheckpointError,
        FewerComponentsWarning,
        FewVariablesWarning,
        InputError,
        ManyComponentsWarning,
        ModelFileError,
        NoStructureWarning,
        ParameterError,
        RowOrderWarning,
        ShortPanelWarning,
        TableError,
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

__all__ = [
    "EMPCA",
    "FDRPCA",
    "GSPPCA",
    "SCA",
    "SPPCA",
    "Checkpoint",
    "CheckpointError",
    "FewVariablesWarning",
    "FewerComponentsWarning",
    "InputError",
    "ManyComponentsWarning",
    "ModelFileError",
    "NoStructureWarning",
    "Panel",
    "ParameterError",
    "RowOrderWarning",
    "ShortPanelWarning",
    "SpinyClassifier",
    "SpinyRegressor",
    "TableError",
    "__version__",
    "baselines",
    "datasets",
    "load",
    "metrics",
    "plot",
    "save",
    "stability",
]

# Where each name is. All are imported when the first of them is asked for, and not before, so that
# `prosparse --help` need not wait for NumPy and scikit-learn.
_MODULES = {
    "errors": [name for name in __all__ if name.endswith(("Error", "Warning"))],
    "inference.checkpoint": ["Checkpoint"],
    "models.empca": ["EMPCA"],
    "models.fdrpca": ["FDRPCA"],
    "models.gsppca": ["GSPPCA"],
    "models.panel": ["Panel"],
    "models.sca": ["SCA"],
    "models.spinyreg": ["SpinyClassifier", "SpinyRegressor"],
    "models.sppca": ["SPPCA"],
    "persistence": ["load", "save"],
    "baselines": [],
    "datasets": [],
    "metrics": [],
    "plot": [],
    "stability": [],
}


def __getattr__(name: str) -> object:
    if name.startswith("__"):  # asked by Python itself
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module, names in _MODULES.items():
        found = _import_module(f".{module}", __name__)
        globals().update((one, getattr(found, one)) for one in names)
    if name not in globals():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = globals()[name]
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
