"""SpinyClassifier passes scikit-learn's own checks, with no expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from prosparse import SpinyClassifier


# The checks fit pure noise, of which it rightly says that nothing is there.
@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@parametrize_with_checks(
    [
        SpinyClassifier(),
        SpinyClassifier(selection_rule="map", average=False, scale=False, fit_intercept=False),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)
