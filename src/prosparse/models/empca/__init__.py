"""EM for sparse and non-negative PCA: start at `model`, whose first lines say what is where."""

from .estimator import EMPCA

__all__ = ["EMPCA"]
