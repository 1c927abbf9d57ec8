"""Whatever table comes, its operator is the centred table, or it is refused in words."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import issparse

from prosparse import InputError
from prosparse.data import standardise

from .checks import assert_in_words
from .tables import Spec, build, specs


def chunked(X):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    return da.from_array(X, chunks=(7, -1))


CONTAINERS = {
    "standardise": standardise,
    "not centred": lambda X, scale: standardise(X, scale, centre=False),
    "weighted": lambda X, scale: standardise(X, scale, np.ones(X.shape[0])),
    "dask": lambda X, scale: standardise(chunked(X), scale),
}


def as_validated(spec: Spec):
    """As the estimators hand tables over: floats, and CSR if sparse."""
    X = build(spec)
    if issparse(X):
        X = X.tocsr()
    return X if X.dtype.kind == "f" else X.astype(float)


def exact(X, scale, centred):
    """The table in the units of its largest deviation, in long doubles."""
    single = X.dtype == np.float32
    X = np.asarray(X.toarray() if issparse(X) else X).astype(np.longdouble)
    Z = X - X.mean(axis=0) if centred else X
    # What rounding of a column's size explains is no variation.
    size = np.abs(X).max(axis=0) * (2.0**-20 if single else 2.0**-45)
    varying = X.max(axis=0) - X.min(axis=0) > size if centred else np.any(X != 0, axis=0)
    Z = Z[:, varying]
    return Z / np.sqrt(np.mean(Z**2, axis=0)) if scale else Z


@pytest.mark.parametrize("kind", CONTAINERS)
def test_any_operator(kind):
    @given(specs(widest=40), st.booleans())
    def check(spec, scale):
        X = as_validated(spec)
        assume(kind != "dask" or not issparse(X))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                op, columns = CONTAINERS[kind](X, scale)
            except InputError as error:
                assert_in_words(error)
                return
            Z = exact(X, scale, kind != "not centred")
            assert op.shape == Z.shape
            if not Z.size:
                return
            squares = np.asarray(op.column_squares())
            unit = 1.0 if scale else np.longdouble(columns.unit)
            truth = np.sum((Z / unit) ** 2, axis=0).astype(float)
            # A sparse table is centred by subtraction, and keeps fewer digits.
            size = float(np.max(truth))
            np.testing.assert_allclose(squares, truth, rtol=1e-5, atol=1e-12 * size)
            F = np.eye(Z.shape[1])[:, :3]
            product = np.asarray(op.matmul(F))
            np.testing.assert_allclose(product, (Z / unit) @ F, atol=1e-6 * np.sqrt(size))
            Y = np.ones((Z.shape[0], 1)) + np.arange(Z.shape[0])[:, None]
            back = np.asarray(op.rmatmul(Y))
            np.testing.assert_allclose(back, (Z / unit).T @ Y, atol=1e-5 * np.sqrt(size))
            gram = np.asarray(op.gram())
            np.testing.assert_allclose(gram, (Z / unit).T @ (Z / unit), atol=1e-6 * size)
            np.testing.assert_allclose(np.asarray(op.row_squares()).sum(), squares.sum(), rtol=1e-5)
            assert np.all(np.isfinite(np.asarray(columns.scale)))

    check()
