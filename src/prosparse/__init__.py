"""prosparse: sparse PCA, PCA that chooses its variables."""

from . import baselines, datasets, metrics, plot, stability
from ._version import __version__
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
from .models.spinyreg import SpinyRegressor
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
