"""SPPCA; see `estimator`."""

from .estimator import SPPCA

__all__ = ["SPPCA"]
