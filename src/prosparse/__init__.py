"""prosparse: sparse probabilistic PCA, PCA that chooses its variables."""

from . import datasets, metrics, plot
from ._version import __version__
from .errors import InputError, NoStructureWarning, ParameterError
from .models.gsppca import GSPPCA
from .models.sca import SCA

__all__ = [
    "GSPPCA",
    "SCA",
    "InputError",
    "NoStructureWarning",
    "ParameterError",
    "__version__",
    "datasets",
    "metrics",
    "plot",
]
