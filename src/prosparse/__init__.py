"""prosparse: sparse probabilistic PCA, PCA that chooses its variables."""

from . import baselines, datasets, metrics, plot
from ._version import __version__
from .engine.checkpoint import Checkpoint
from .errors import (
    CheckpointError,
    FewerComponentsWarning,
    InputError,
    NoStructureWarning,
    ParameterError,
)
from .models.empca import EMPCA
from .models.gsppca import GSPPCA
from .models.sca import SCA
from .models.spinyreg import SpinyRegressor
from .models.sppca import SPPCA

__all__ = [
    "EMPCA",
    "GSPPCA",
    "SCA",
    "SPPCA",
    "Checkpoint",
    "CheckpointError",
    "FewerComponentsWarning",
    "InputError",
    "NoStructureWarning",
    "ParameterError",
    "SpinyRegressor",
    "__version__",
    "baselines",
    "datasets",
    "metrics",
    "plot",
]
