"""Globally sparse probabilistic PCA: `model`, `evidence`, `solve`, and the `estimator`."""

from .estimator import GSPPCA

__all__ = ["GSPPCA"]
