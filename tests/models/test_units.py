"""Warning about one column that has most of the variance."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine

from prosparse import EMPCA, GSPPCA, SPPCA, UnequalUnitsWarning

pytestmark = pytest.mark.quick

MODELS = [GSPPCA(1), EMPCA(1, n_nonzero=1), SPPCA(1, penalty=1.0)]


@pytest.mark.parametrize("model", MODELS)
def test_one_column_has_most_of_the_variance(model):
    X = load_wine(as_frame=True).data
    with pytest.warns(UnequalUnitsWarning, match="column 'proline' has 100% of the variance"):
        model.fit(X)
    with pytest.warns(UnequalUnitsWarning, match="column 12 has"):
        model.fit(X.to_numpy())


@pytest.mark.parametrize("model", MODELS)
def test_no_warning_if_units_agree(model, rng):
    X = rng.standard_normal((50, 1)) + rng.lognormal(0.0, 0.5, 8) * rng.standard_normal((50, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnequalUnitsWarning)
        model.fit(X)


@pytest.mark.parametrize("model", [GSPPCA(1, scale=True), EMPCA(1, n_nonzero=1, scale=True)])
def test_scaled_columns_give_no_warning(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnequalUnitsWarning)
        model.fit(np.asarray(load_wine().data))
