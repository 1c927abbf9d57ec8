"""Sparse and non-negative PCA by EM. `model` describes the modules."""

from .estimator import EMPCA

__all__ = ["EMPCA"]
