"""Warnings refer to the line of user code that called the library."""

import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from prosparse import EMPCA, GSPPCA, SCA, SPPCA, SpinyRegressor, errors

pytestmark = pytest.mark.quick

X = np.random.default_rng(0).standard_normal((60, 8))
Y = np.random.default_rng(1).standard_normal(60)
COUNTS = np.random.default_rng(2).poisson(np.geomspace(1e-2, 1e3, 250), (400, 250)).astype(float)


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (GSPPCA(2, max_iter=1), X),
        (GSPPCA("auto"), COUNTS),
        (SCA(2, max_iter=1), X),
        (SPPCA(2, penalty=1e9), X),
        (EMPCA(2, n_nonzero=4, max_iter=1, random_state=0), X),
        (SpinyRegressor(), X),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("call", ["fit", "pipeline"])
def test_warnings_refer_to_the_calling_line(model, data, call):
    estimator = model if call == "fit" else make_pipeline(StandardScaler(with_std=False), model)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        line = inspect.currentframe().f_lineno + 1
        estimator.fit(data, Y if data is X else None)
    assert seen
    assert {(warning.filename, warning.lineno) for warning in seen} == {(__file__, line)}


def test_warnings_of_cross_validation_refer_to_the_calling_line():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        line = inspect.currentframe().f_lineno + 1
        cross_val_score(SpinyRegressor(), X, Y, cv=2)
    assert {(warning.filename, warning.lineno) for warning in seen} == {(__file__, line)}


def test_files_next_to_the_package_are_user_code():
    """A file prosparse_study.py in the same folder is not part of the library."""
    namespace = {"SpinyRegressor": SpinyRegressor, "X": X, "Y": Y}
    name = str(Path(errors.__file__).parent) + "_study.py"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        exec(compile("SpinyRegressor().fit(X, Y)", name, "exec"), namespace)
    assert {warning.filename for warning in seen} == {name}
