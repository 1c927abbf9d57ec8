"""GSPPCA; see `estimator`."""

from .estimator import GSPPCA

__all__ = ["GSPPCA"]
