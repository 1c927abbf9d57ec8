"""Sparse PCA methods that the papers compare with, as scikit-learn estimators."""

from .dspca import DSPCA
from .nspca import NSPCA
from .pathspca import PathSPCA
from .spca import SPCA
from .sspca import SSPCA
from .thresholded import ThresholdedPCA

__all__ = ["DSPCA", "NSPCA", "SPCA", "SSPCA", "PathSPCA", "ThresholdedPCA"]
