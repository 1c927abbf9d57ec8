"""scikit-learn's estimator checks, without expected failures."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from prosparse import EMPCA, GSPPCA, SCA, SPPCA, Selector, SpinyClassifier, SpinyRegressor
from prosparse.registry import METHODS

# Parameters that lead to other code than the defaults, which the checks use as well.
VARIANTS = [
    EMPCA(2, n_nonzero=2, random_state=0),
    EMPCA(2, n_nonzero=2, nonnegative=True, scale=True, random_state=0),
    EMPCA(2, n_nonzero=1, orthogonality="disjoint", random_state=0),
    EMPCA(2, orthogonality="quasi", min_angle=60, n_restarts=1, random_state=0),
    EMPCA("auto", n_nonzero=1, renormalize=False, random_state=0),
    GSPPCA(n_components=1, scale=True),
    GSPPCA(n_components=1, n_features_to_select=1, evidence="noisy"),
    SCA(2, prior="hyperbolic"),
    SCA(1, prior="hyperbolic", shape=2.0, rate=1.0, n_private=1),
    SPPCA(penalty=1.0),
    SPPCA(n_components=1, penalty="bic", penalties=[0.0, 1.0, 3.0]),
    SpinyRegressor(refit="ols"),
    SpinyRegressor(fit_intercept=False),
    SpinyRegressor(scale=False),
    SpinyRegressor(noise="student", average=False),
    SpinyClassifier(selection_rule="map", average=False, scale=False, fit_intercept=False),
]


# The checks fit pure noise, matrices of rank one and a single iteration: the warnings are right.
@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.filterwarnings("ignore::prosparse.ShortPanelWarning")
@pytest.mark.filterwarnings("ignore::prosparse.FewerComponentsWarning")
@pytest.mark.filterwarnings("ignore::prosparse.FewVariablesWarning")
@pytest.mark.filterwarnings("ignore::prosparse.RowOrderWarning")
@pytest.mark.filterwarnings("ignore::prosparse.DuplicateRowsWarning")
@pytest.mark.filterwarnings("ignore::prosparse.OutlyingRowsWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        *(method.estimator() for method in METHODS.values()),
        *VARIANTS,
        # The checks of transformers use more than the two classes that classifiers accept. A fit of
        # Panel takes half a second even to small tables.
        *(
            Selector(method.estimator())
            for name, method in METHODS.items()
            if name != "Panel" and not method.classifies
        ),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)
