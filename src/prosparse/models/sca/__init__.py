"""Sparse probabilistic projections of one or several views."""

from .estimator import SCA, Prediction

__all__ = ["SCA", "Prediction"]
