"""Fits to blocks of rows (Dask arrays, files) agree with fits in memory."""

import os
import signal

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from prosparse import EMPCA, FDRPCA, GSPPCA, SCA, SPPCA, InputError
from prosparse.data.operators import dask as dask_operator
from prosparse.data.operators import mapped
from prosparse.datasets import make_globally_sparse
from prosparse.registry import METHODS

da = pytest.importorskip("dask.array", reason="Dask is not installed")

SHAPES = {"tall": (300, 60), "wide": (60, 200)}


def make_data(shape):
    n, p = SHAPES[shape]
    X = make_globally_sparse(n, p, n_components=4, n_informative=20, random_state=0).X
    X[:, 3] = 1.0  # constant
    return X


@pytest.fixture(params=SHAPES, ids=list(SHAPES))
def table(request):
    return make_data(request.param)


CHUNKS = {
    "rows": lambda X: da.from_array(X, chunks=(37, -1)),
    "rows and columns": lambda X: da.from_array(X, chunks=(41, 13)),
    "sparse blocks": lambda X: da.from_array(X, chunks=(37, -1)).map_blocks(sparse.csr_matrix),
    "single precision": lambda X: da.from_array(X.astype(np.float32), chunks=(50, -1)),
}


def assert_same_fit(ours, plain, tol):
    for name in ("components_", "log_evidence_path_", "explained_variance_", "mean_", "scale_"):
        np.testing.assert_allclose(
            getattr(ours, name), getattr(plain, name), rtol=tol, atol=tol, err_msg=name
        )
    np.testing.assert_array_equal(ours.support_, plain.support_)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("scale", [False, True])
def test_dask_on_threads(table, chunks, scale):
    X = CHUNKS[chunks](table)
    plain, ours = GSPPCA(4, scale=scale).fit(table), GSPPCA(4, scale=scale).fit(X)
    tol = 1e-3 if X.dtype == np.float32 else 1e-6
    assert_same_fit(ours, plain, tol)
    scores = ours.transform(X)
    assert isinstance(scores, da.Array)
    assert scores.dtype == X.dtype
    np.testing.assert_allclose(scores.compute(), plain.transform(table), atol=10 * tol)
    assert ours.score(X) == pytest.approx(plain.score(table), rel=tol)
    reconstructed = ours.inverse_transform(scores)
    assert isinstance(reconstructed, da.Array)
    expected = plain.inverse_transform(plain.transform(table))
    np.testing.assert_allclose(reconstructed.compute(), expected, atol=10 * tol)
    assert ours.select(X).shape == (table.shape[0], plain.n_selected_)


OTHERS = {
    "EMPCA": EMPCA(3, n_nonzero=8, random_state=0),
    "EMPCA quasi": EMPCA(
        2, n_nonzero=6, nonnegative=True, orthogonality="quasi", min_angle=80.0, random_state=0
    ),
    "SPPCA": SPPCA(2, penalty=30.0),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize(("shape", "chunks"), [("wide", "rows"), ("tall", "sparse blocks")])
def test_other_estimators_on_threads(shape, chunks, name):
    table = make_data(shape)
    X = CHUNKS[chunks](table)
    plain, ours = (clone(OTHERS[name]).fit(data) for data in (table, X))
    np.testing.assert_allclose(ours.components_, plain.components_, atol=1e-5)
    np.testing.assert_allclose(ours.explained_variance_, plain.explained_variance_, rtol=1e-5)
    scores = ours.transform(X)
    assert isinstance(scores, da.Array)
    np.testing.assert_allclose(scores.compute(), plain.transform(table), atol=1e-4)


def test_weights_of_dask_arrays_raise(table):
    with pytest.raises(InputError, match="`sample_weight` needs a matrix in CPU memory"):
        EMPCA().fit(CHUNKS["rows"](table), sample_weight=np.ones(table.shape[0]))


@pytest.mark.parametrize("prior", ["ard", "hyperbolic"])
@pytest.mark.parametrize("chunks", ["rows", "sparse blocks"])
def test_sca_on_threads(table, chunks, prior):
    views = [slice(0, 25), slice(25, None)]
    X, settings = CHUNKS[chunks](table), {"prior": prior, "views": views, "tol": 1e-13}
    plain, ours = SCA(3, **settings).fit(table), SCA(3, **settings).fit(X)
    np.testing.assert_allclose(ours.components_, plain.components_, atol=1e-5)
    np.testing.assert_allclose(ours.noise_variance_, plain.noise_variance_, rtol=1e-6)
    scores = ours.transform(X)
    assert isinstance(scores, da.Array)
    np.testing.assert_allclose(scores.compute(), plain.transform(table), atol=1e-5)
    assert ours.score(X) == pytest.approx(plain.score(table), rel=1e-6)


def test_transform_is_lazy(table):
    model = GSPPCA(4).fit(table)
    read = []

    def block(rows):
        read.append(rows.shape)
        return rows

    X = da.from_array(table, chunks=(30, -1)).map_blocks(block, meta=np.empty((0, 0)))
    scores = model.transform(X)
    model.inverse_transform(scores), model.select(X), model.score_samples(X)
    assert read == []
    scores[:30].compute()
    assert read == [(30, table.shape[1])]


def test_one_pass_over_the_blocks_per_iteration(monkeypatch):
    """The data are too large for an exact spectrum, so that each iteration reads them."""
    monkeypatch.setattr("prosparse.numerics.spectrum.EXACT_SIDE", 30)
    X = make_globally_sparse(200, 100, n_components=3, n_informative=20, random_state=0).X
    plain = GSPPCA(3, tol=1e-12).fit(X)
    passes = []
    original = dask_operator.DaskRows.reduce

    def counted(self, *args, **kwargs):
        passes.append(args)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(dask_operator.DaskRows, "reduce", counted)
    counts = []
    for max_iter in (5, 15):
        passes.clear()
        with pytest.warns(UserWarning, match="max_iter"):
            GSPPCA(3, max_iter=max_iter, tol=0).fit(da.from_array(X, chunks=(50, -1)))
        counts.append(len(passes))
    assert counts[1] - counts[0] == 10
    assert_same_fit(GSPPCA(3, tol=1e-12).fit(da.from_array(X, chunks=(50, -1))), plain, 1e-6)


def test_invalid_dask_arrays_raise(table):
    X = da.from_array(table, chunks=(30, -1))
    with pytest.raises(InputError, match=r"compute_chunk_sizes"):
        GSPPCA(2).fit(X[X[:, 0] > 0])
    with pytest.raises(InputError, match="Expected 2D"):
        GSPPCA(2).fit(X[0])
    incomplete = table.copy()
    incomplete[50, 7] = np.nan
    with pytest.raises(InputError, match="contains NaN in 1 column, first in column 7"):
        GSPPCA(2).fit(da.from_array(incomplete, chunks=(30, -1)))
    model = GSPPCA(2).fit(X)
    with pytest.raises(ValueError, match="features"):
        model.transform(X[:, :5])


def test_zarr_and_parquet(table, tmp_path):
    zarr = pytest.importorskip("zarr", reason="Zarr is not installed")
    plain = GSPPCA(4).fit(table)
    stored = zarr.create_array(
        tmp_path / "X.zarr", shape=table.shape, chunks=(50, table.shape[1]), dtype="f8"
    )
    stored[:] = table
    assert_same_fit(GSPPCA(4).fit(da.from_zarr(tmp_path / "X.zarr")), plain, 1e-6)
    dd = pytest.importorskip("dask.dataframe", reason="Dask's data frames are not installed")
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(table, columns=[f"c{i}" for i in range(table.shape[1])])
    for k in range(3):
        part = frame.iloc[k * len(frame) // 3 : (k + 1) * len(frame) // 3]
        part.to_parquet(tmp_path / f"{k}.parquet")
    read = dd.read_parquet(tmp_path / "*.parquet").to_dask_array(lengths=True)
    assert_same_fit(GSPPCA(4).fit(read), plain, 1e-6)


# --- a cluster


@pytest.fixture  # closed after its test: other tests would use it as well
def cluster():
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, protocol="tcp"
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.mark.filterwarnings("ignore")  # warnings of the cluster
def test_fits_on_a_cluster_survive_the_death_of_a_worker(cluster, monkeypatch):
    monkeypatch.setattr(
        "prosparse.numerics.spectrum.EXACT_SIDE", 30
    )  # each iteration reads the blocks
    X = make_globally_sparse(400, 80, n_components=3, n_informative=20, random_state=0).X
    plain = GSPPCA(3, tol=1e-12).fit(X)
    chunked = da.from_array(X, chunks=(50, -1))
    assert_same_fit(GSPPCA(3, tol=1e-12).fit(chunked.persist()), plain, 1e-6)

    original, passes = dask_operator.DaskRows.reduce, []

    def kill_a_worker(self, *args, **kwargs):
        passes.append(1)
        if len(passes) == 15:
            os.kill(next(iter(cluster.run(os.getpid).values())), signal.SIGKILL)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(dask_operator.DaskRows, "reduce", kill_a_worker)
    assert_same_fit(GSPPCA(3, tol=1e-12).fit(chunked.persist()), plain, 1e-6)
    assert len(passes) > 20


# --- files


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
def test_memory_maps(table, tmp_path, monkeypatch, order, dtype):
    values = np.round(table * 100) if dtype == "int16" else table
    X = np.memmap(tmp_path / "X", dtype, "w+", offset=64, shape=table.shape, order=order)
    X[:] = values
    X.flush()
    X = np.memmap(tmp_path / "X", dtype, "r", offset=64, shape=table.shape, order=order)
    plain = GSPPCA(4).fit(np.array(X))
    monkeypatch.setattr(mapped, "IN_MEMORY", 0)
    monkeypatch.setattr(mapped, "ENTRIES_PER_READ", 1000)
    read = []
    original = mapped.MappedRows._read
    monkeypatch.setattr(
        mapped.MappedRows, "_read", lambda self, rows: (read.append(rows), original(self, rows))[1]
    )
    ours = GSPPCA(4).fit(X)
    assert read
    assert_same_fit(ours, plain, 1e-6)
    np.testing.assert_allclose(ours.transform(X), plain.transform(np.array(X)), rtol=1e-4)
    part = GSPPCA(4).fit(X[5:])  # a view of the map
    assert_same_fit(part, GSPPCA(4).fit(np.array(X)[5:]), 1e-6)


# --- coarse to fine


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["noiseless", "noisy"])
def test_coarse_to_fine_finds_the_same_cardinality(seed, kind, monkeypatch):
    monkeypatch.setattr("prosparse.models.gsppca.evidence.GRID_SIZE", 24)
    X = make_globally_sparse(
        60, 300, n_components=3, n_informative=(10, 40, 150)[seed % 3], random_state=seed
    ).X
    whole = GSPPCA(3, evidence=kind, refine=False).fit(X)
    monkeypatch.setattr("prosparse.models.gsppca.evidence.MAX_ENTRIES_EXHAUSTIVE", 0)
    some = GSPPCA(3, evidence=kind, refine=False).fit(X)
    assert some.cardinalities_.size < 0.5 * whole.cardinalities_.size
    assert some.n_selected_ == whole.n_selected_
    assert some.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-10)
    near = np.abs(whole.cardinalities_ - whole.n_selected_) <= 2
    assert np.isin(whole.cardinalities_[near], some.cardinalities_).all()


def test_evenly_spaced_rows_of_a_map(tmp_path):
    X = np.memmap(tmp_path / "X", "float64", "w+", shape=(1000, 3))
    X[:] = np.arange(3000.0).reshape(1000, 3)
    np.testing.assert_array_equal(mapped.MappedRows(X).every(7), np.array(X)[::7])


# --- blocks that disagree with the declared chunks


def _without_last_rows(block):
    return block[:-3]


def _duplicate(block):
    return np.vstack([block, block])


def _as_csr(block):
    return sparse.csr_array(block[:-3])


WRONG_BLOCKS = {"fewer rows": _without_last_rows, "more rows": _duplicate, "sparse": _as_csr}


def wrongly_chunked(X, change=_without_last_rows):
    whole = da.from_array(X, chunks=(20, -1))
    return whole.map_blocks(change, chunks=whole.chunks, dtype=float, meta=np.empty((0, 0)))


@pytest.mark.parametrize("name", sorted(METHODS))
def test_blocks_of_undeclared_shape_raise(name):
    X = np.abs(make_data("tall"))[:60, :12]
    y = X[:, 0] > np.median(X[:, 0]) if METHODS[name].classifies else X[:, 0]
    model = METHODS[name].estimator(**METHODS[name].example)
    for change in WRONG_BLOCKS.values():
        with pytest.raises(
            InputError, match=r"Block \(\d, 0\) of the Dask array X has shape \(\d+"
        ):
            clone(model).fit(wrongly_chunked(X, change), y)
    model.fit(X, y)
    inputs = {"transform": X, "score_samples": X, "predict": X}
    if hasattr(model, "inverse_transform"):
        inputs["inverse_transform"] = model.transform(X)
    for method, rows in inputs.items():
        if hasattr(model, method):
            with pytest.raises(InputError, match=r"but its chunks declare \(20, "):
                np.asarray(getattr(model, method)(wrongly_chunked(rows)))
    with pytest.raises(InputError, match=r"but its chunks declare \(20, 12\)"):
        model.score(wrongly_chunked(X), y)


@pytest.mark.parametrize(
    ("change", "found"),
    [(lambda block: block.astype(str), "dtype <U32"), (lambda block: None, "type NoneType")],
)
def test_blocks_that_are_no_numbers_raise(change, found):
    X = np.abs(make_data("tall"))[:60, :12]
    with pytest.raises(InputError, match=f"must be an array of numbers, got {found}"):
        FDRPCA().fit(wrongly_chunked(X, change))


def test_blocks_of_undeclared_shape_in_views_and_column_chunks_raise():
    X = make_data("tall")[:60, :12]
    with pytest.raises(InputError, match=r"but its chunks declare \(20, 12\)"):
        SCA(1).fit([wrongly_chunked(X), da.from_array(X, chunks=(20, -1))])
    parts = da.from_array(X, chunks=(20, 4))
    with pytest.raises(InputError, match=r"has shape \(17, 4\), but its chunks declare \(20, 4\)"):
        SCA(1).fit(parts.map_blocks(_without_last_rows, chunks=parts.chunks, dtype=float))


def test_computed_chunk_sizes_are_accepted():
    X = make_data("tall")[:60, :12]
    present = np.arange(60) % 20 < 17
    model = GSPPCA(2).fit(wrongly_chunked(X).compute_chunk_sizes())
    np.testing.assert_allclose(model.mean_, X[present].mean(axis=0))
