"""EMPCA and the baselines pass scikit-learn's own checks, with no expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from prosparse import EMPCA
from prosparse.baselines import DSPCA, NSPCA, SPCA, SSPCA, PathSPCA, ThresholdedPCA

ESTIMATORS = [
    EMPCA(),
    EMPCA(2, n_nonzero=2, random_state=0),
    EMPCA(2, n_nonzero=2, nonnegative=True, scale=True, random_state=0),
    EMPCA(2, n_nonzero=1, orthogonality="disjoint", random_state=0),
    EMPCA(2, orthogonality="quasi", min_angle=60, n_restarts=1, random_state=0),
    EMPCA("auto", n_nonzero=1, renormalize=False, random_state=0),
    ThresholdedPCA(n_nonzero=1),
    PathSPCA(n_nonzero=1),
    NSPCA(random_state=0),
    DSPCA(penalty=0.3),
    SPCA(n_nonzero=1),
    SPCA(penalty=0.1, ridge=float("inf"), scale=True),
    SSPCA(penalty=0.1),
    SSPCA(n_features_to_select=1),
    SSPCA(penalty="cv-refit", n_penalties=3, cv=2, random_state=0),
]


# Some checks fit tables with a single direction, of which there is no second component.
@pytest.mark.filterwarnings("ignore::prosparse.FewerComponentsWarning")
@parametrize_with_checks(ESTIMATORS)
def test_sklearn_checks(estimator, check):
    check(estimator)
