"""What may be done to a table without changing what is found in it.

`CLAIMS` says for every estimator which changes leave the result alone, and to how many digits.
Where a change is not named there is a reason: signs mean something to a non-negative method, and
a search with random starts need not end in the same place when the variables trade places.
"""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import clone

from prosparse.models.empca import EMPCA
from prosparse.models.fdrpca import FDRPCA
from prosparse.models.gsppca import GSPPCA
from prosparse.models.panel import Panel
from prosparse.models.sca import SCA
from prosparse.models.spinyreg import SpinyClassifier, SpinyRegressor
from prosparse.models.sppca import SPPCA
from prosparse.registry import METHODS


class Claim(NamedTuple):
    """An estimator, and by how much (relative to the largest) its loadings may change when ...;
    None: no claim."""

    estimator: Any
    rows: float | None = 1e-6  # ... samples trade places
    columns: float | None = 1e-6  # ... variables do
    signs: float | None = 1e-6  # ... some variables change their sign
    units: float | None = 1e-6  # ... the table is measured in other units, and penalties with it
    sparse: float | None = 1e-6  # ... it is stored as a sparse matrix
    dask: float | None = None  # ... or as a Dask array


CLAIMS = {
    "FDRPCA": Claim(FDRPCA(2), dask=1e-6),
    "GSPPCA": Claim(GSPPCA(2), dask=1e-6),
    "SCA": Claim(SCA(2), 1e-4, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4),
    "SPPCA": Claim(SPPCA(2, penalty=3.0), 1e-4, 1e-4, 1e-4, 1e-4, 1e-4, 1e-4),
    "EMPCA": Claim(EMPCA(1, n_nonzero=3, random_state=0), columns=None, signs=None, dask=1e-6),
    # the folds depend on the order of the rows
    "Panel": Claim(Panel(3), rows=None, dask=1e-6),
    # the prior favours coefficients of equal sign
    "SpinyRegressor": Claim(SpinyRegressor(), signs=None),
    "SpinyClassifier": Claim(
        SpinyClassifier(selection_rule="map", average=False), 1e-5, 1e-5, 1e-5, 1e-5, 1e-5
    ),
}
# Parameters in powers of the unit.
IN_UNITS = {"SPPCA": ("penalty", -1)}


def test_none_is_forgotten():
    assert set(CLAIMS) == set(METHODS)


def table(seed: int) -> np.ndarray:
    """Two strong sparse components, so that there is one answer, and not two equally good."""
    rng = np.random.default_rng(seed)
    X = 0.2 * rng.standard_normal((40, 9))
    X[:, :4] += np.outer(3.0 * rng.standard_normal(40), rng.uniform(0.6, 1.4, 4))
    X[:, 4:7] += np.outer(rng.standard_normal(40), rng.uniform(0.6, 1.4, 3))
    return X + rng.standard_normal(9)


def predicts(model: Any) -> bool:
    return isinstance(model, SpinyRegressor | SpinyClassifier)


def response(model: Any, X: np.ndarray) -> np.ndarray:
    y = X[:, 0]
    return np.argsort(np.argsort(y)) >= y.size // 2 if isinstance(model, SpinyClassifier) else y


def loadings(estimator: Any, X: Any) -> np.ndarray:
    """Components, or coefficients of the first variable (or of which half of the rows has more of
    it) on the others."""
    model = clone(estimator)
    if predicts(model):
        dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
        return np.atleast_2d(model.fit(X[:, 1:], response(model, dense)).selected_coef_)
    W = np.asarray(model.fit(X).components_)
    return W


def close(ours: np.ndarray, theirs: np.ndarray, tol: float) -> None:
    assert ours.shape == theirs.shape
    np.testing.assert_array_equal(ours != 0, theirs != 0)
    # signs of components, and of loadings where variables changed theirs, are free
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=tol * np.abs(theirs).max())


def claimed(change: str):
    """The estimators that claim this invariance."""
    names = [name for name, claim in CLAIMS.items() if getattr(claim, change) is not None]
    return pytest.mark.parametrize("name", names)


seeds = st.integers(0, 10_000)
few = settings(max_examples=max(2, settings().max_examples // 5))  # each is two fits and more


@claimed("rows")
def test_samples_trade_places(name):
    @few
    @given(seeds)
    def check(seed):
        X, claim = table(seed), CLAIMS[name]
        order = np.random.default_rng(seed).permutation(X.shape[0])
        close(loadings(claim.estimator, X[order]), loadings(claim.estimator, X), claim.rows)

    check()


@claimed("columns")
def test_variables_trade_places(name):
    @few
    @given(seeds)
    def check(seed):
        X, claim = table(seed), CLAIMS[name]
        first = int(predicts(claim.estimator))  # the response stays where it is
        order = np.random.default_rng(seed).permutation(np.arange(first, X.shape[1]))
        moved = np.column_stack([X[:, :first], X[:, order]])
        theirs = loadings(claim.estimator, X)[:, order - first]
        close(loadings(claim.estimator, moved), theirs, claim.columns)

    check()


@claimed("signs")
def test_variables_change_sign(name):
    @few
    @given(seeds)
    def check(seed):
        X, claim = table(seed), CLAIMS[name]
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], X.shape[1])
        close(loadings(claim.estimator, X * signs), loadings(claim.estimator, X), claim.signs)

    check()


@claimed("units")
@pytest.mark.parametrize("factor", [2.0**40, 1000.0, 1e-60])
def test_other_units(name, factor):
    @few
    @given(seeds)
    def check(seed):
        X, claim = table(seed), CLAIMS[name]
        estimator = clone(claim.estimator)
        if name in IN_UNITS:
            parameter, power = IN_UNITS[name]
            value = getattr(estimator, parameter) * factor**power
            estimator.set_params(**{parameter: value})
        ours = loadings(estimator, factor * X)
        if name in ("SPPCA", "SCA"):  # loadings have units
            ours = ours / factor
        if name == "SpinyClassifier":  # classes have no unit that coefficients would share
            ours = ours * factor
        close(ours, loadings(claim.estimator, X), claim.units)

    check()


@claimed("sparse")
def test_sparse_tables(name):
    @few
    @given(seeds)
    def check(seed):
        X, claim = table(seed), CLAIMS[name]
        X[np.abs(X) < 0.3] = 0.0
        theirs = loadings(claim.estimator, X)
        for kind in (sparse.csr_array, sparse.csc_matrix, sparse.coo_matrix):
            S = kind(X)
            S = S.tocsr() if predicts(claim.estimator) else S  # the test takes columns of it
            close(loadings(claim.estimator, S), theirs, claim.sparse)

    check()


@claimed("dask")
def test_dask_tables(name):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    for seed in range(3):
        X, claim = table(seed), CLAIMS[name]
        blocks = da.from_array(X, chunks=(11, -1))
        close(loadings(claim.estimator, blocks), loadings(claim.estimator, X), claim.dask)


@pytest.mark.parametrize("name", CLAIMS)
def test_single_precision_is_read_exactly(name):
    """Tables in memory are worked on in double precision, whatever they are stored in."""
    X, estimator = table(1).astype(np.float32), CLAIMS[name].estimator
    close(loadings(estimator, X), loadings(estimator, X.astype(float)), 1e-6)


def fitted(estimator: Any, X: np.ndarray) -> Any:
    model = clone(estimator)
    return model.fit(X[:, 1:], response(model, X)) if predicts(model) else model.fit(X)


def result(estimator: Any, X: np.ndarray) -> np.ndarray:
    model = fitted(estimator, X)
    return model.selected_coef_ if predicts(model) else model.components_


@pytest.mark.parametrize("name", CLAIMS)
def test_again_clones_and_pickles_are_the_same_to_the_last_bit(name):
    X, estimator = table(2), CLAIMS[name].estimator
    once = result(estimator, X)
    model = fitted(estimator, X)
    np.testing.assert_array_equal(once, result(estimator, X))
    np.testing.assert_array_equal(once, result(clone(model), X))
    np.testing.assert_array_equal(once, result(model, X))
    again = pickle.loads(pickle.dumps(model))
    use = "predict" if predicts(estimator) else "transform"
    Z = X[:, 1:] if predicts(estimator) else X
    np.testing.assert_array_equal(getattr(again, use)(Z), getattr(model, use)(Z))


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_threads_and_processes_agree(backend):
    """All estimators at once, each twice."""
    X = table(3)
    jobs = [claim.estimator for claim in CLAIMS.values()] * 2
    together = Parallel(n_jobs=2, backend=backend)(delayed(result)(job, X) for job in jobs)
    for ours, job in zip(together, jobs, strict=True):
        np.testing.assert_array_equal(ours, result(job, X))
