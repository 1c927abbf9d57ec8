"""SpinyRegressor passes scikit-learn's own checks, with no expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from prosparse import SpinyRegressor


# The checks fit pure noise, of which it rightly says that nothing is there.
@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@parametrize_with_checks(
    [
        SpinyRegressor(),
        SpinyRegressor(refit="ols"),
        SpinyRegressor(fit_intercept=False),
        SpinyRegressor(scale=False),
        SpinyRegressor(noise="student", average=False),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)
