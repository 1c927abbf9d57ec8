"""Sparse probabilistic projections of one, two or many views; see `model`."""

from .estimator import SCA, Prediction

__all__ = ["SCA", "Prediction"]
