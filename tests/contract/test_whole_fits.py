"""Fits are complete even if warnings are errors."""

import warnings

import numpy as np
import pytest

from prosparse import EMPCA, GSPPCA, SCA


@pytest.mark.parametrize("model", [GSPPCA(), SCA(), EMPCA("auto", n_nonzero=3)])
def test_a_warning_raised_as_error_leaves_a_complete_fit(model):
    """Very different variances: "auto" warns that there are more components than it uses."""
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
