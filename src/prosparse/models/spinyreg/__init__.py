"""Regression that chooses its variables: `model`, `solve`, and the `estimator`."""

from .estimator import SpinyRegressor

__all__ = ["SpinyRegressor"]
