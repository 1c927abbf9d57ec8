"""Every estimator passes scikit-learn's own checks, with no expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from prosparse import GSPPCA, SPPCA, Panel


# The checks fit pure noise, of which GSPPCA and Panel rightly say that nothing is there.
@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.filterwarnings("ignore::prosparse.ShortPanelWarning")
@parametrize_with_checks(
    [
        GSPPCA(),
        GSPPCA(n_components=1, scale=True),
        GSPPCA(n_components=1, n_features_to_select=1, evidence="noisy"),
        Panel(),
        Panel(1, criterion="information"),
        SPPCA(penalty=1.0),
        SPPCA(n_components=1, penalty="bic", penalties=[0.0, 1.0, 3.0]),
    ]
)
def test_sklearn_checks(estimator, check):
    check(estimator)
