"""Where warnings are errors, a fit is whole all the same."""

import warnings

import numpy as np
import pytest

from prosparse import EMPCA, GSPPCA, SCA


@pytest.mark.parametrize("model", [GSPPCA(), SCA(), EMPCA("auto", n_nonzero=3)])
def test_a_warning_that_is_an_error_leaves_a_whole_fit(model):
    """Columns of very different size: "auto" counts more components than it takes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 130)) * np.geomspace(1e-6, 1e6, 130)
    if hasattr(model, "max_iter"):
        model.set_params(max_iter=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            model.fit(X)
    assert model.n_components_ >= 1
    assert model.components_.shape[1] == 130
    assert np.isfinite(model.transform(X)).all()
