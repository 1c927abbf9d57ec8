"""Baselines report numerical failures as non-convergence."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from papers.baselines import DSPCA, NSPCA, dspca, nspca
from prosparse.inference.loop import StopReason


def make_data():
    return np.random.default_rng(0).standard_normal((30, 6))


def test_dspca_reports_a_failed_decomposition(monkeypatch):
    make_step = dspca.make_step

    def breaking(*arguments):
        step, turns = make_step(*arguments), []

        def broken(state):
            turns.append(state)
            if len(turns) == 3:
                raise np.linalg.LinAlgError
            return step(state)

        return broken

    monkeypatch.setattr(dspca, "make_step", breaking)
    with pytest.warns(ConvergenceWarning, match="decomposition failed"):
        model = DSPCA(2, penalty=0.2, tol=0).fit(make_data())
    assert model.stop_reason_ is StopReason.DECOMPOSITION_FAILED
    assert model.n_iter_ == 3


def test_nspca_reports_a_decreasing_objective(monkeypatch):
    monkeypatch.setattr(
        nspca, "make_step", lambda *a: lambda state: state._replace(bound=state.bound - 1.0)
    )
    with pytest.warns(ConvergenceWarning, match="objective decreased"):
        model = NSPCA(random_state=0).fit(make_data())
    assert model.stop_reason_ is StopReason.DECREASED
