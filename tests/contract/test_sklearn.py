"""Every estimator passes scikit-learn's own checks, with no expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from prosparse import GSPPCA


# The checks fit pure noise, of which GSPPCA rightly says that nothing is there.
@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@parametrize_with_checks([GSPPCA(), GSPPCA(n_components=1, scale=True), GSPPCA(evidence="noisy")])
def test_sklearn_checks(estimator, check):
    check(estimator)
