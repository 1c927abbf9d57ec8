"""EMPCA passes scikit-learn's own checks, with no expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from prosparse import EMPCA

ESTIMATORS = [
    EMPCA(),
    EMPCA(2, n_nonzero=2, random_state=0),
    EMPCA(2, n_nonzero=2, nonnegative=True, scale=True, random_state=0),
    EMPCA(2, n_nonzero=1, orthogonality="disjoint", random_state=0),
    EMPCA(2, orthogonality="quasi", min_angle=60, n_restarts=1, random_state=0),
    EMPCA("auto", n_nonzero=1, renormalize=False, random_state=0),
]


# Some checks fit tables with a single direction, of which there is no second component.
@pytest.mark.filterwarnings("ignore::prosparse.FewerComponentsWarning")
@parametrize_with_checks(ESTIMATORS)
def test_sklearn_checks(estimator, check):
    check(estimator)
