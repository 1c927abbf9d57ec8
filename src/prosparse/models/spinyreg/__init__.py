"""Sparse regression and classification by Bayesian model averaging.

`model` and `logistic` hold the evidence of a set of variables; `solve` and `logistic_solve` hold
the steps from a standardised data matrix to the selected set.
"""

from .classifier import SpinyClassifier
from .estimator import SpinyRegressor

__all__ = ["SpinyClassifier", "SpinyRegressor"]
