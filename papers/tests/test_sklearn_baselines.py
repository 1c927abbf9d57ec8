"""The baselines pass scikit-learn's estimator checks, without expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from papers.baselines import DSPCA, NSPCA, SPCA, SSPCA, PathSPCA, ThresholdedPCA

ESTIMATORS = [
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


# Some checks fit data matrices of rank one, which have no second component.
@pytest.mark.filterwarnings("ignore::prosparse.FewerComponentsWarning")
@parametrize_with_checks(ESTIMATORS)
def test_sklearn_checks(estimator, check):
    check(estimator)
