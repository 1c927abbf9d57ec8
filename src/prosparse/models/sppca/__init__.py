"""Sparse probabilistic PCA with an l1 penalty."""

from .estimator import SPPCA

__all__ = ["SPPCA"]
