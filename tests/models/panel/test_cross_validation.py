"""Models of the folds do not depend on held-out rows."""

import numpy as np
from factor_models import random_model, simulate

from prosparse.data import DenseOperator, standardise
from prosparse.models.panel.cross_validation import cross_validate, fold_model_tasks
from prosparse.models.panel.factors import FactorModel


def test_fold_models_do_not_depend_on_held_out_rows(rng):
    """Changing the held-out rows of the first fold changes the models of the others only."""
    W, psi = random_model(rng, 30)
    X = simulate(FactorModel(W, 0.3 * psi), 24, rng)
    op, _ = standardise(X, True)
    cross_validated = cross_validate(op, np.ones(30), None, 0)
    before = [task() for task in fold_model_tasks(op, np.ones(30), None, cross_validated, 0)]
    fold = cross_validated.folds[0]
    other = op.X.copy()
    other[fold.held_out] = rng.standard_normal((int(fold.held_out.sum()), 30))
    changed = DenseOperator(other)
    changed.remember_column_squares(op.column_squares())
    again = cross_validate(changed, np.ones(30), None, 0)
    after = [task() for task in fold_model_tasks(changed, np.ones(30), None, again, 0)]
    for number in (0, 1):
        one, other = (models[number].model.W for models in (before, after))
        differ = float(np.max(np.abs(one @ one.T - other @ other.T)))
        assert differ < 1e-8 if number == 0 else differ > 1e-3
    assert np.max(np.abs(cross_validated.communality - again.communality)) > 1e-3
