"""Sparse regression and classification by Bayesian model averaging.

`set_model` is the protocol of a marginal likelihood over sets of variables, implemented by `linear`
and `logistic`. `solve` contains the steps from a standardised data matrix to the selected set.
"""

from .classifier import SpinyClassifier
from .estimator import SpinyRegressor

__all__ = ["SpinyClassifier", "SpinyRegressor"]
