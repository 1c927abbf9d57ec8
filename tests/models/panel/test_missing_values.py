"""Completion of rows with missing values."""

import numpy as np
from factor_models import random_model, simulate

from prosparse.data import standardise
from prosparse.models.panel.cross_validation import cross_validate
from prosparse.models.panel.missing_values import complete_rows, held_out_models


def test_no_row_is_completed_by_a_model_of_itself(rng):
    Z = rng.standard_normal((60, 8))
    fitted = cross_validate(standardise(Z, True)[0], np.ones(8), None, 0, n_repeats=1)
    seen = np.zeros(60, dtype=int)
    for number, (rows, model) in enumerate(held_out_models(fitted, 0.0)):
        seen[rows] += 1
        if rows.size:
            assert not fitted.folds[number].training[rows].any()
            expected = fitted.fold_models[number].W
            cosine = np.sum(model.W * expected, axis=1) ** 2
            lengths = np.sum(model.W**2, axis=1) * np.sum(expected**2, axis=1)
            np.testing.assert_allclose(cosine, lengths)
    np.testing.assert_array_equal(seen, 1)


def test_draws_follow_the_factors_with_more_columns_than_rows():
    """Completed by a model of all rows, a row would keep its first draws."""
    rng = np.random.default_rng(0)
    model = random_model(rng, p=300, r=12)
    X = simulate(model._replace(psi=0.1 * model.psi), 24, rng)
    is_missing = rng.random(X.shape) < 0.2
    completed = complete_rows(np.where(is_missing, np.nan, X), 0)
    np.testing.assert_array_equal(completed[~is_missing], X[~is_missing])
    error = np.sum((completed - X)[is_missing] ** 2)
    total = np.sum((X - X.mean(axis=0))[is_missing] ** 2)
    assert error < 0.25 * total
