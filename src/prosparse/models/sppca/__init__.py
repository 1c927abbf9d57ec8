"""Sparse probabilistic PCA: `model`, `path`, `solve`, and the `estimator`."""

from .estimator import SPPCA

__all__ = ["SPPCA"]
