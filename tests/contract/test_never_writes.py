"""No method of an estimator changes the data of the user.

For each registered estimator, method and container, the bytes before and after are equal. Read-only
buffers are accepted, and four threads that share the data obtain the results of one thread.
"""

import functools
import hashlib
from concurrent.futures import ThreadPoolExecutor

import array_api_strict
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from prosparse.data.arrays import to_numpy
from prosparse.registry import METHODS

# Warnings are not tested here, and threads share the warning filters.
pytestmark = pytest.mark.filterwarnings("ignore")

N, P = 40, 12


def values(dtype="float64"):
    """Return data with many zeros, a constant column and a nearly duplicated column."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, 2)) @ rng.standard_normal((2, P)) + 0.5 * rng.normal(size=(N, P))
    X[rng.random((N, P)) < 0.5] = 0.0
    X[:, 4] = 1.0
    X[:, 5] = X[:, 6] + 1e-3 * X[:, 7]
    return np.round(8 * X).astype(dtype) if dtype == "int64" else X.astype(dtype)


# --- sparse matrices that are not in canonical format


def unsorted(S):
    """Reverse the indices of each row of a CSR matrix or of each column of a CSC matrix."""
    S = S.copy()
    for a, b in zip(S.indptr[:-1], S.indptr[1:], strict=True):
        S.indices[a:b] = S.indices[a:b][::-1].copy()
        S.data[a:b] = S.data[a:b][::-1].copy()
    S.has_sorted_indices = False
    return S


def with_duplicates(S):
    """Store each entry as two halves."""
    return type(S)((np.repeat(S.data / 2, 2), np.repeat(S.indices, 2), 2 * S.indptr), shape=S.shape)


def coo_with_duplicates(X):
    S = sparse.coo_array(X)
    twice = (np.concatenate([S.row, S.row]), np.concatenate([S.col, S.col]))
    return sparse.coo_array((np.concatenate([S.data, S.data]) / 2, twice), shape=S.shape)


def read_only(X):
    for part in buffers(X):
        part.flags.writeable = False
    return X


def frame(X):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    return pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])


def polars_frame(X):
    pl = pytest.importorskip("polars", reason="polars is not installed")
    return pl.DataFrame(X, schema=[f"c{i}" for i in range(X.shape[1])])


def torch_tensor(X):
    torch = pytest.importorskip("torch", reason="Torch is not installed")
    return torch.asarray(X.copy())


def chunked(X):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    return da.from_array(X, chunks=(13, -1))


class SparseChunks:
    """Create Dask arrays whose sparse blocks are in memory, where they could be changed."""

    def __init__(self):
        self.blocks = []

    def __call__(self, X):
        da = pytest.importorskip("dask.array", reason="Dask is not installed")
        delayed = pytest.importorskip("dask").delayed
        parts = [X[:13], X[13:26], X[26:]]
        self.blocks = [unsorted(with_duplicates(sparse.csr_array(part))) for part in parts]
        lazy = [
            da.from_delayed(delayed(block), block.shape, meta=sparse.csr_array((0, 0)))
            for block in self.blocks
        ]
        return da.concatenate(lazy)


def in_file(X, mode, folder):
    stored = np.memmap(folder / "X", X.dtype, "w+", shape=X.shape)
    stored[:] = X
    stored.flush()
    return np.memmap(folder / "X", X.dtype, mode, shape=X.shape)


CONTAINERS = {
    "numpy": lambda X: X,
    "fortran": np.asfortranarray,
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "read-only": lambda X: read_only(X.copy()),
    "pandas": frame,
    "polars": polars_frame,
    "csr": sparse.csr_array,
    "csr matrix, unsorted": lambda X: unsorted(sparse.csr_matrix(X)),
    "csr, duplicates": lambda X: with_duplicates(sparse.csr_array(X)),
    "csr, unsorted duplicates": lambda X: unsorted(with_duplicates(sparse.csr_array(X))),
    "csr, read-only, unsorted": lambda X: read_only(unsorted(sparse.csr_array(X))),
    "csr, read-only, duplicates": lambda X: read_only(with_duplicates(sparse.csr_array(X))),
    "csc, unsorted duplicates": lambda X: unsorted(with_duplicates(sparse.csc_array(X))),
    "csc matrix, read-only": lambda X: read_only(unsorted(sparse.csc_matrix(X))),
    "coo, duplicates": coo_with_duplicates,
    "torch": torch_tensor,
    "strict": lambda X: array_api_strict.asarray(X.copy()),
    "dask": chunked,
    "dask of sparse": SparseChunks(),
}
STAY_IN_PLACE = ("dask", "dask of sparse", "torch", "strict")


def buffers(X):
    """Return the arrays in which a matrix in CPU memory is stored."""
    if sparse.issparse(X):
        names = ("data", "indices", "indptr", "row", "col")
        return [getattr(X, name) for name in names if hasattr(X, name)]
    return [X]


def checksum(X, container):
    if container == "dask of sparse":
        return [checksum(block, "csr") for block in CONTAINERS[container].blocks]
    if hasattr(X, "compute"):
        X = X.compute()
    if hasattr(X, "iloc") or hasattr(X, "collect_schema"):
        X = X.to_numpy()
    arrays = buffers(X) if sparse.issparse(X) else [np.ascontiguousarray(to_numpy(X))]
    metadata = (X.nnz, X.shape, X.dtype) if sparse.issparse(X) else X.shape
    return [hashlib.sha256(part.tobytes()).hexdigest() for part in arrays], metadata


PARAMETERS = {
    "GSPPCA": {"n_components": 2},
    "SCA": {"n_components": 2, "max_iter": 30},
    "SPPCA": {"n_components": 2, "penalty": 2.0, "max_iter": 50},
    "EMPCA": {"n_components": 2, "n_nonzero": 4, "random_state": 0},
    "SpinyClassifier": {"selection_rule": "map", "average": False},
}


def configured(name):
    model = METHODS[name].estimator()
    return clone(model).set_params(**PARAMETERS.get(name, {}))


def call_all_methods(model, X):
    """Fit a model and call each method that accepts data or scores; return the results."""
    y = np.asarray(values())[:, 0] + 1.0
    y = y > np.median(y) if hasattr(model, "predict_proba") else y
    model.fit(X, y) if hasattr(model, "predict") else model.fit(X)
    results = [to_numpy(model.support_).astype(float)]
    if hasattr(model, "transform"):
        scores = model.transform(X)
        results += [scores, model.inverse_transform(scores)]
    if hasattr(model, "predict_proba"):
        results += [model.predict(X), model.predict_proba(X)]
    elif hasattr(model, "predict"):
        results += list(model.predict(X, return_std=True))
    for method in ("score_samples", "impute"):
        if hasattr(model, method):
            results.append(getattr(model, method)(X))
    if hasattr(model, "score"):
        results.append(model.score(X, y))
    if hasattr(model, "path"):
        results += [one.components_ for one in model.path(X, [2, 3])]
    results.append(model.select(X))
    return [to_dense(result) for result in results]


def to_dense(result):
    if hasattr(result, "compute"):
        result = result.compute()
    if sparse.issparse(result):
        return result.toarray()
    return to_numpy(result.to_numpy() if hasattr(result, "to_numpy") else result)


def cases():
    for name in METHODS:
        for container in CONTAINERS:
            anywhere = METHODS[name].estimator._accepts_any_container
            if container in STAY_IN_PLACE and not anywhere:
                continue  # these are copied into memory by scikit-learn
            if (
                "csr" in container
                or "csc" in container
                or "coo" in container
                or "sparse" in container
            ):
                tags = METHODS[name].estimator().__sklearn_tags__()
                if not tags.input_tags.sparse:
                    continue
            yield pytest.param(name, container, id=f"{name}-{container}")


@functools.cache
def support_for_numpy(name):
    """Return the support of a fit to a NumPy array."""
    return call_all_methods(configured(name), values())[0]


@pytest.mark.parametrize(("name", "container"), list(cases()))
def test_data_are_not_changed(name, container):
    X = CONTAINERS[container](values())
    before = checksum(X, container)
    ours = call_all_methods(configured(name), X)
    assert checksum(X, container) == before
    np.testing.assert_array_equal(ours[0], support_for_numpy(name))


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(
    "container", ["numpy", "csr, unsorted duplicates", "csc matrix, read-only"]
)
@pytest.mark.parametrize("name", ["GSPPCA", "SCA", "EMPCA", "SpinyRegressor"])
def test_data_of_other_dtypes_are_not_changed(name, container, dtype):
    """Converting the entries must not share the indices, which are sorted afterwards."""
    X = CONTAINERS[container](values(dtype) * (2 if dtype == "int64" else 1))
    X = X.astype(dtype) if sparse.issparse(X) else X
    before = checksum(X, container)
    call_all_methods(configured(name), X)
    assert checksum(X, container) == before


SHARED = ["numpy", "csr matrix, unsorted", "csr, unsorted duplicates", "csc, unsorted duplicates"]


@pytest.mark.parametrize("container", SHARED)
@pytest.mark.parametrize("name", ["GSPPCA", "SCA", "SPPCA", "EMPCA", "SpinyRegressor"])
def test_four_threads_share_the_data(name, container):
    X = CONTAINERS[container](values())
    before = checksum(X, container)
    expected = call_all_methods(configured(name), CONTAINERS[container](values()))
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: call_all_methods(configured(name), X), range(8)))
    for results in together:
        for ours, theirs in zip(results, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
    assert checksum(X, container) == before


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_memory_maps(mode, large, tmp_path, monkeypatch):
    monkeypatch.setattr("prosparse.data.operators.mapped.IN_MEMORY", 0 if large else 2**28)
    X = in_file(values(), mode, tmp_path)
    written = (tmp_path / "X").read_bytes()
    before = checksum(X, "numpy")
    call_all_methods(configured("GSPPCA"), X)
    assert checksum(X, "numpy") == before
    assert (tmp_path / "X").read_bytes() == written


@pytest.mark.parametrize("make", [np.asarray, np.ma.masked_invalid, frame])
def test_missing_values(make):
    X = values()
    X[::5, 1] = np.nan
    X = make(X)
    before = checksum(X, "numpy") if make is not np.ma.masked_invalid else X.copy()
    model = configured("SCA").fit(X)
    model.transform(X), model.impute(X), model.score(X), model.predict_view(X, 0)
    if make is np.ma.masked_invalid:
        np.testing.assert_array_equal(X.data, before.data)
        np.testing.assert_array_equal(X.mask, before.mask)
    else:
        assert checksum(X, "numpy") == before


def test_a_list_of_views():
    X = values()
    first, second = X[:, :7].copy(), unsorted(with_duplicates(sparse.csr_array(X[:, 7:])))
    before = checksum(first, "numpy"), checksum(second, "csr")
    model = configured("SCA").fit([first, second])
    model.transform([first, second]), model.predict_view([first, None], 1)
    model.impute([first, second]), model.score([first, second])
    assert (checksum(first, "numpy"), checksum(second, "csr")) == before


def test_weights_and_responses():
    X, w = values(), np.arange(N, dtype=float)
    y = X[:, 0] + 1.0
    before = checksum(X, "numpy"), w.copy(), y.copy()
    for array in (X, w, y):
        array.flags.writeable = False
    configured("EMPCA").fit(X, sample_weight=w)
    configured("SpinyRegressor").fit(X, y)
    configured("SpinyClassifier").fit(X, y > np.median(y), sample_weight=w)
    assert checksum(X, "numpy") == before[0]
    np.testing.assert_array_equal(w, before[1])
    np.testing.assert_array_equal(y, before[2])
