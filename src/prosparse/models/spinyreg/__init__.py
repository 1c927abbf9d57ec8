"""Regression and classification that choose their variables: `model` and `logistic` have the
mathematics, `solve` and `logistic_solve` the way from a table to a choice."""

from .classifier import SpinyClassifier
from .estimator import SpinyRegressor

__all__ = ["SpinyClassifier", "SpinyRegressor"]
