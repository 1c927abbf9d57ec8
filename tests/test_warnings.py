"""Warnings point to the line of the user's that led to them."""

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
    ("model", "table"),
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
@pytest.mark.parametrize("way", ["fit", "pipeline"])
def test_warnings_point_here(model, table, way):
    whole = model if way == "fit" else make_pipeline(StandardScaler(with_std=False), model)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        line = inspect.currentframe().f_lineno + 1
        whole.fit(table, Y if table is X else None)
    assert seen
    assert {(warning.filename, warning.lineno) for warning in seen} == {(__file__, line)}


def test_warnings_of_a_cross_validation_point_here():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        line = inspect.currentframe().f_lineno + 1
        cross_val_score(SpinyRegressor(), X, Y, cv=2)
    assert {(warning.filename, warning.lineno) for warning in seen} == {(__file__, line)}


def test_a_name_that_begins_as_ours_is_the_users():
    """A caller in prosparse_study.py beside us is not one of ours."""
    namespace = {"SpinyRegressor": SpinyRegressor, "X": X, "Y": Y}
    name = str(Path(errors.__file__).parent) + "_study.py"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        exec(compile("SpinyRegressor().fit(X, Y)", name, "exec"), namespace)
    assert {warning.filename for warning in seen} == {name}
