"""Numbers of variables whose evidence is close to the maximum."""

import numpy as np
import pytest

from prosparse import FDRPCA, GSPPCA, InputError, SpinyRegressor
from prosparse.datasets import make_globally_sparse, make_sparse_regression
from prosparse.stability import NearOptimalSizes, near_optimal_sizes

pytestmark = pytest.mark.quick

X = make_globally_sparse(40, 30, noise=1.5, random_state=2).X


def test_sizes_within_a_factor_of_the_maximum():
    model = GSPPCA(3).fit(X)
    found = near_optimal_sizes(model, 3.0)
    path = model.log_evidence_path_
    near = model.cardinalities_[path >= path.max() - 3.0]
    assert found.sizes == tuple(near)
    assert found.best == model.n_selected_
    assert (found.lowest, found.highest) == (near.min(), near.max())
    assert len(near_optimal_sizes(model, 0.0).sizes) == 1


def test_posterior_is_used_if_sets_have_a_prior():
    data = make_sparse_regression(60, 15, random_state=0)
    model = SpinyRegressor().fit(data.X, data.y)
    path = np.asarray(model.log_posterior_path_)
    near = np.asarray(model.cardinalities_)[path >= path.max() - 3.0]
    assert near_optimal_sizes(model).sizes == tuple(near)


@pytest.mark.parametrize(
    ("sizes", "n_compared", "start"),
    [
        ((5,), 1, "No other number of variables has evidence within a factor of 20 of the best."),
        ((5, 6, 7), 3, "Any number of variables from 5 to 7 has evidence within a factor of 20"),
        ((5, 7), 3, "2 of the numbers of variables from 5 to 7 have evidence within"),
        ((5, 9), 2, "2 of the 2 compared numbers of variables from 5 to 9 have"),
    ],
)
def test_summary(sizes, n_compared, start):
    assert NearOptimalSizes(5, sizes, 3.0, n_compared).summary().startswith(start)


def test_error_without_evidence():
    for model in (FDRPCA(), GSPPCA(2, n_features_to_select=5)):
        with pytest.raises(InputError, match="did not select its number of variables by evidence"):
            near_optimal_sizes(model.fit(X))


def test_unknown_evidence():
    """Sizes of unknown evidence are omitted, except the selected one."""
    model = GSPPCA(3).fit(X)
    every = near_optimal_sizes(model, 1e6)
    model.log_evidence_path_[np.flatnonzero(model.cardinalities_ == every.lowest)] = np.nan
    assert near_optimal_sizes(model, 1e6).sizes == every.sizes[1:]
    model.log_evidence_path_[:] = np.nan
    assert near_optimal_sizes(model).sizes == (model.n_selected_,)


def test_factor_larger_than_the_largest_float():
    assert (
        "within a factor of exp(1000) of the best"
        in NearOptimalSizes(5, (5, 6), 1000.0, 2).summary()
    )
