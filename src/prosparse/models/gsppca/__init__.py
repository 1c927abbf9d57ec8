"""Globally sparse probabilistic PCA."""

from .estimator import GSPPCA

__all__ = ["GSPPCA"]
