"""SCA; see `estimator`."""

from .estimator import SCA

__all__ = ["SCA"]
