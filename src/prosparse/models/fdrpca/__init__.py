"""PCA on variables selected with false discovery rate control."""

from .estimator import FDRPCA

__all__ = ["FDRPCA"]
