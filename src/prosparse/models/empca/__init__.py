"""Sparse and non-negative PCA by EM; `model` lists the modules."""

from .estimator import EMPCA

__all__ = ["EMPCA"]
