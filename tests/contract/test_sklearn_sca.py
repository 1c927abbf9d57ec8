"""SCA passes scikit-learn's own checks, with no expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from prosparse import SCA


# The checks fit pure noise and one-sample tables; a model that says so is right.
@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        SCA(),
        SCA(2, prior="hyperbolic"),
        SCA(1, prior="hyperbolic", shape=2.0, rate=1.0, n_private=1),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)
