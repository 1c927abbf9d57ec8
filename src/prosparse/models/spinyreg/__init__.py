"""SpinyRegressor; see `estimator`."""

from .estimator import SpinyRegressor

__all__ = ["SpinyRegressor"]
