"""EMPCA; see `estimator`."""

from .estimator import EMPCA

__all__ = ["EMPCA"]
