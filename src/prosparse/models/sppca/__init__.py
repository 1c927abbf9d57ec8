"""Sparse probabilistic PCA. `model` holds the mathematics, `path` and `solve` the fits."""

from .estimator import SPPCA

__all__ = ["SPPCA"]
