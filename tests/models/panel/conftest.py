"""Fixtures: cross-validation of simulated data."""

import numpy as np
import pytest
from factor_models import random_model, simulate

from prosparse.data import standardise
from prosparse.models.panel.cross_validation import cross_validate, fold_model_tasks
from prosparse.models.panel.factors import FactorModel


@pytest.fixture(params=[(24, 30), (70, 15)], ids=["wide", "tall"])
def case(request, rng, monkeypatch):
    """Cross-validation without repetition, in which each row is held out once."""
    monkeypatch.setattr("prosparse.models.panel.cross_validation.N_REPEATS", 1)
    n, p = request.param
    W, psi = random_model(rng, p)
    X = simulate(FactorModel(W, 0.3 * psi), n, rng)
    op, columns = standardise(X, True)
    Z = (X - X.mean(axis=0)) / X.std(axis=0) / columns.unit
    return op, Z, cross_validate(op, X.std(axis=0), None, 0)


@pytest.fixture
def fold_models(case):
    op, Z, cross_validated = case
    return [task() for task in fold_model_tasks(op, np.ones(Z.shape[1]), None, cross_validated, 0)]
