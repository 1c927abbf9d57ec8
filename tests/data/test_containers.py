"""Containers: adding one, and what each registered one accepts and rejects."""

from itertools import pairwise

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from prosparse import EMPCA, GSPPCA, SCA, InputError, ParameterError
from prosparse.data import container_of, containers
from prosparse.data.operators.blocks import Source
from prosparse.datasets import make_globally_sparse


@pytest.fixture
def table():
    return make_globally_sparse(60, 30, n_components=3, n_informative=10, random_state=0).X


def test_large_finite_entries_may_sum_to_infinity():
    X = np.full((4, 3), 0.9 * np.finfo(np.float32).max, dtype=np.float32)
    assert container_of(X).find_non_finite(X) is None
    X[2, 1] = np.inf
    X[3, 1] = -np.inf
    found = container_of(X).find_non_finite(X)
    assert (found.what, found.total, found.row, found.column) == ("infinity", 2, 2, 1)


# --- two containers that the library does not know


class Shelf:
    """Named columns, as Arrow tables and databases store them."""

    def __init__(self, columns):
        self.columns = columns


class ShelfContainer(containers.Container):
    def recognises(self, X):
        return isinstance(X, Shelf)

    def prepare(self, X, *, allow_nan):
        return np.column_stack(list(X.columns.values()))

    def take_columns(self, X, columns):
        names = list(X.columns)
        return Shelf({names[column]: X.columns[names[column]] for column in columns})


class Pages:
    """Rows in several arrays."""

    dtype = np.dtype("float64")
    ndim = 2

    def __init__(self, pages):
        self.pages = pages
        self.shape = (sum(len(page) for page in pages), pages[0].shape[1])


class PagesSource(Source):
    def __init__(self, X):
        self.X, self.shape, self.dtype = X, X.shape, X.dtype

    def blocks(self):
        edges = np.cumsum([0, *(len(page) for page in self.X.pages)])
        return zip([slice(a, b) for a, b in pairwise(edges)], self.X.pages, strict=True)


class PagesContainer(containers.RowBlocks):
    def recognises(self, X):
        return isinstance(X, Pages)

    def source(self, X):
        return PagesSource(X)

    def take_columns(self, X, columns):
        return Pages([page[:, columns] for page in X.pages])


@pytest.fixture
def toys(monkeypatch):
    """Register both containers."""
    toys = [ShelfContainer(), PagesContainer()]
    monkeypatch.setattr(containers, "CONTAINERS", [*toys, *containers.CONTAINERS])


@pytest.mark.usefixtures("toys")
def test_new_container_of_columns(table):
    shelf = Shelf({f"c{k}": column for k, column in enumerate(table.T)})
    plain, ours = GSPPCA(3).fit(table), GSPPCA(3).fit(shelf)
    np.testing.assert_array_equal(ours.components_, plain.components_)
    np.testing.assert_array_equal(ours.transform(shelf), plain.transform(table))
    selected = ours.select(shelf)
    assert isinstance(selected, Shelf)
    assert list(selected.columns) == [f"c{k}" for k in np.flatnonzero(plain.support_)]


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("model", [GSPPCA(3), SCA(2), EMPCA(2, n_nonzero=5, random_state=0)])
def test_new_container_of_row_blocks(model, table):
    pages = Pages([table[:7], table[7:50], table[50:]])
    plain = model.fit(table)
    components, scores, score = plain.components_, plain.transform(table), plain.score(table)
    ours = model.fit(pages)
    np.testing.assert_allclose(ours.components_, components, atol=1e-6)
    np.testing.assert_allclose(ours.transform(pages), scores, atol=1e-5)
    assert ours.score(pages) == pytest.approx(score)
    assert isinstance(ours.select(pages), Pages)


# --- registered containers


def to_dask(X):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    return da.from_array(X, chunks=(17, -1))


def to_strict(X):
    return array_api_strict.asarray(X)


CONTAINERS = {
    "dense": np.asarray,
    "sparse": sparse.csr_array,
    "dask": to_dask,
    "foreign": to_strict,
}


def test_masked_entries(rng):
    X = np.ma.MaskedArray(rng.standard_normal((30, 1)) + 0.3 * rng.standard_normal((30, 6)))
    plain = GSPPCA(2).fit(X.data)
    np.testing.assert_array_equal(GSPPCA(2).fit(X).components_, plain.components_)
    X[2, 3] = 1e6
    X[2, 3] = np.ma.masked
    with pytest.raises(InputError, match="X has 1 masked value"):
        GSPPCA(2).fit(X)
    with pytest.raises(InputError, match="masked"):
        plain.transform(X)
    incomplete = X.filled(np.nan)
    np.testing.assert_array_equal(SCA(1).fit(X).components_, SCA(1).fit(incomplete).components_)


def masked_data(rng):
    """Return data with one masked entry, an outlier that would distort any fit."""
    X = np.ma.MaskedArray(rng.standard_normal((30, 1)) + 0.3 * rng.standard_normal((30, 6)))
    X[2, 3] = 1e6
    X[2, 3] = np.ma.masked
    return X


def test_selected_columns_keep_their_mask(rng):
    X = masked_data(rng)
    model = SCA(1).fit(X)
    assert model.support_[3]
    selected = model.select(X)
    assert isinstance(selected, np.ma.MaskedArray)
    assert np.ma.count_masked(selected) == 1
    assert selected.max() < 100.0


def test_masked_rows_in_a_list(rng):
    X = masked_data(rng)
    with pytest.raises(InputError, match="X has 1 masked value"):
        GSPPCA(2).fit(list(X))
    ours, incomplete = SCA(1).fit(list(X)), SCA(1).fit(X.filled(np.nan))
    np.testing.assert_array_equal(ours.components_, incomplete.components_)
    np.testing.assert_array_equal(ours.impute(list(X)), incomplete.impute(X.filled(np.nan)))


def test_masked_views(rng):
    X = masked_data(rng)
    ours = SCA(1).fit([X[:, :3], X[:, 3:]])
    incomplete = X.filled(np.nan)
    expected = SCA(1).fit([incomplete[:, :3], incomplete[:, 3:]])
    np.testing.assert_array_equal(ours.components_, expected.components_)
    scores = ours.transform([X[:, :3], X[:, 3:]])
    np.testing.assert_allclose(scores, expected.transform(incomplete), atol=1e-12)


@pytest.mark.parametrize("model", [GSPPCA(2), SCA(1), EMPCA(1, n_nonzero=3, random_state=0)])
def test_masked_blocks(model, rng):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    X = masked_data(rng)
    lazy = da.from_array(X, chunks=(10, -1))
    with pytest.raises(InputError, match="A block of X has 1 masked value"):
        model.fit(lazy)
    plain = model.fit(X.data[3:])
    with pytest.raises(InputError, match="masked"):
        plain.score(lazy)
    whole = np.ma.MaskedArray(X.data[3:], mask=False)  # nothing is masked
    components = plain.components_
    again = model.fit(da.from_array(whole, chunks=(10, -1)))
    np.testing.assert_allclose(again.components_, components, atol=1e-6)


def test_masked_scores(table):
    model = GSPPCA(2).fit(table)
    scores = np.ma.masked_greater(model.transform(table), 1.0)
    with pytest.raises(InputError, match="masked"):
        model.inverse_transform(scores)


DATES = np.array(["2020-01-01", "2020-01-05", "NaT"], dtype="datetime64[D]")


def as_frame(dates):
    return pd.DataFrame({"a": [1.0, 2.0, 4.0], "day": dates})


@pytest.mark.parametrize(
    "X",
    [
        np.column_stack([DATES, DATES]),
        np.column_stack([DATES, DATES]) - DATES[0],
        as_frame(DATES.astype("datetime64[s]")),
        as_frame(pd.to_datetime(pd.Series(["2020-01-01"] * 3)).dt.tz_localize("UTC")),
        pl.from_pandas(as_frame(DATES.astype("datetime64[s]"))),
    ],
    ids=["dates", "times", "frame", "time zone", "polars"],
)
@pytest.mark.parametrize("model", [GSPPCA(1), SCA(1)])
def test_dates_and_times_raise(model, X):
    """As a number, a missing date would be -9.2e18."""
    with pytest.raises(InputError, match="dates or times"):
        model.fit(X)


def mixed_frame():
    """Return numbers, identifiers, categories, dates, and numbers as strings."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((6, 4)), columns=list("abcd"))
    return frame.assign(
        patient=[f"patient {k}" for k in range(6)],
        sex=pd.Categorical(["f", "m"] * 3),
        visit=pd.to_datetime(["2020-01-01"] * 6),
        weight=["70", "81.5", "64", "90", "77", "1e2"],
        dose=[1, 2, 3, "low", None, 6],
    )


@pytest.mark.parametrize("model", [GSPPCA(1), SCA(1)])
def test_non_numeric_columns_are_named(model):
    frame = mixed_frame()
    plain = frame.drop(columns="dose")
    for X in (plain, pl.from_pandas(plain)):
        with pytest.raises(InputError) as raised:
            model.fit(X)
        assert str(raised.value).startswith(
            "X has 3 non-numeric columns: column 'patient' (text, e.g. 'patient 0'), "
            "column 'sex' (text, e.g. 'f') and column 'visit' (dates or times). Drop"
        )
    with pytest.raises(InputError, match=r"1 non-numeric column: column 'dose' \(text"):
        model.fit(frame[["a", "b", "dose"]])
    for rows in (frame.to_numpy(), frame.to_numpy().tolist()):
        with pytest.raises(InputError, match=r"4 non-numeric columns: column 4 \("):
            model.fit(rows)
    container_of(frame).prepare(frame[["a", "b", "weight"]], allow_nan=False)


def test_many_non_numeric_columns_are_counted():
    X = pd.DataFrame({f"t{k}": ["x", "y"] for k in range(9)})
    with pytest.raises(InputError, match=r"9 non-numeric columns: .* and 4 others\."):
        GSPPCA(1).fit(X)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_missing_values_are_counted_and_located(convert):
    X = np.random.default_rng(0).standard_normal((8, 5))
    X[[2, 5, 5], [3, 3, 1]] = np.nan
    table = convert(X)
    if convert is pd.DataFrame:
        table.columns = list("abcde")
    third, first = ("'d'", "'b'") if convert is pd.DataFrame else ("3", "1")
    with pytest.raises(InputError) as raised:
        GSPPCA(1).fit(table)
    assert str(raised.value).startswith(
        f"Input X contains NaN: 3 values, first in row 2, column {third}; 2 rows and 2 columns "
        f"affected: column {third} (2) and column {first} (1). GSPPCA"
    )
    X[0, 0] = np.inf
    with pytest.raises(InputError, match="NaN and infinity: 4 values"):
        GSPPCA(1).fit(X)
    with pytest.raises(InputError, match="X contains infinity: 1 value,"):
        SCA(1).fit(X)


@pytest.mark.parametrize("dtype", ["complex128", "datetime64[s]", "U5", "f8,f8"])
def test_non_numeric_dtypes_of_maps_and_dask_arrays_raise(dtype, table, tmp_path, monkeypatch):
    monkeypatch.setattr("prosparse.data.operators.mapped.IN_MEMORY", 0)
    stored = np.memmap(tmp_path / "X", dtype, "w+", shape=(20, 30))
    model = GSPPCA(2).fit(table)
    for method in (GSPPCA(2).fit, model.transform):
        with pytest.raises(InputError, match=r"not numbers|Complex data not supported"):
            method(stored)
        if dtype != "U5":  # strings may represent numbers
            with pytest.raises(InputError, match=r"not numbers|Complex data not supported"):
                method(to_dask(np.asarray(stored)))


def test_scores_in_a_map_are_checked(table, tmp_path, monkeypatch):
    monkeypatch.setattr("prosparse.data.operators.mapped.IN_MEMORY", 0)
    scores = np.memmap(tmp_path / "scores", "float64", "w+", shape=(20, 2))
    model = GSPPCA(2).fit(table)
    assert model.inverse_transform(scores).shape == (20, 30)
    scores[3, 1] = np.nan
    with pytest.raises(InputError, match="NaN or infinity"):
        model.inverse_transform(scores)


def test_unsaved_changes_of_a_view_of_a_map_are_kept(table, tmp_path, monkeypatch):
    monkeypatch.setattr("prosparse.data.operators.mapped.IN_MEMORY", 0)
    table.tofile(tmp_path / "X")
    changed = np.memmap(tmp_path / "X", "float64", "c", shape=table.shape)
    changed[:, 3] = 7.0
    view = np.asarray(changed).view(np.memmap)  # The view has no mode.
    assert container_of(view).name == "memory map"
    model = GSPPCA(3).fit(view)
    assert model.mean_[3] == 7.0
    assert np.all(changed[:, 3] == 7.0)


def test_torch_tensors_that_are_not_dense_raise(table):
    torch = pytest.importorskip("torch", reason="Torch is not installed")
    X = torch.tensor(table)
    for other, message in (
        (X.to_sparse(), "layout sparse_coo"),
        (X.to("meta"), "meta device"),
    ):
        with pytest.raises(InputError, match=message):
            GSPPCA(2).fit(other)


@pytest.mark.parametrize("order", [1, -1])
def test_views_of_several_libraries_raise(order, table):
    views = [array_api_strict.asarray(table[:, :10]), table[:, 10:]][::order]
    with pytest.raises(InputError, match="one library on one device"):
        SCA(1).fit(views)


def test_lazy_views_raise(table):
    with pytest.raises(InputError, match="collect"):
        SCA(1).fit([pl.DataFrame(table[:, :10]).lazy(), table[:, 10:]])


def test_weights_with_infinite_sum_raise(table):
    with pytest.raises(ParameterError, match="sample_weight"):
        EMPCA(2, random_state=0).fit(table, sample_weight=np.full(60, 1e300))


def test_repeated_names_raise(table):
    frame = pd.DataFrame(table, columns=[f"c{k}" for k in range(table.shape[1])])
    with pytest.raises(InputError, match="more than one column named 'c4'"):
        GSPPCA(3).fit(frame.rename(columns={"c5": "c4"}))
    names = ["c4" if k == 5 else f"c{k}" for k in range(table.shape[1])]
    with pytest.raises(InputError, match="more than one column named 'c4'"):
        GSPPCA(3).fit(arrow(table).rename_columns(names))


# --- pyarrow


def arrow(X):
    return pa.table({f"c{k}": column for k, column in enumerate(X.T)})


def test_record_batches_and_chunked_tables(table):
    plain, whole = SCA(2).fit(table), arrow(table)
    batch = whole.to_batches()[0]
    chunked = pa.concat_tables([whole.slice(0, 25), whole.slice(25)])
    for given in (batch, chunked):
        model = SCA(2).fit(given)
        np.testing.assert_array_equal(model.transform(given), plain.transform(table))
        assert type(model.select(given)) is type(given)


def test_pyarrow_nulls_are_missing_values(table):
    incomplete = table.copy()
    incomplete[3, 0] = np.nan
    whole = arrow(table)
    for column in (
        pa.array(table[:, 0], mask=np.isnan(incomplete[:, 0])),
        pa.array(incomplete[:, 0]),
    ):
        given = whole.set_column(0, "c0", column)
        model, plain = SCA(2).fit(given), SCA(2).fit(incomplete)
        np.testing.assert_array_equal(model.transform(given), plain.transform(incomplete))
        assert model.impute(given)["c0"].null_count == 0
        with pytest.raises(InputError, match="contains NaN: 1 value, first in row 3, column 'c0'"):
            GSPPCA(3).fit(given)


def test_non_numeric_columns_of_pyarrow_raise(table):
    whole = arrow(table)
    for column, problem in (
        (pa.array([None, *("abc" * 20)[1:]]), "text, e.g. 'b'"),
        (pa.array(np.full(60, "2024-02-29", dtype="datetime64[s]")), "dates or times"),
        (pa.array([[1.0, 2.0]] * 60), "lists"),
        (pa.array(["a", "b"] * 30).dictionary_encode(), "text, e.g. 'a'"),
    ):
        with pytest.raises(InputError, match=rf"column 'other' \({problem}"):
            SCA(2).fit(whole.append_column("other", column))


def test_pyarrow_views(table):
    views = [table[:, :12], table[:, 12:]]
    model = SCA(1).fit([arrow(view) for view in views])
    plain = SCA(1).fit(views)
    np.testing.assert_array_equal(
        model.transform([arrow(view) for view in views]), plain.transform(views)
    )
    assert model.view_names_[1].tolist() == [f"c{k}" for k in range(18)]


@pytest.mark.parametrize("container", CONTAINERS)
def test_ranking_of_scaled_columns_does_not_depend_on_the_container(container, table):
    """All variances are equal up to rounding, which must not decide ranks."""
    model = EMPCA(2, n_nonzero=4, scale=True, random_state=0)
    expected = model.fit(table).ranking_
    np.testing.assert_array_equal(
        np.asarray(model.fit(CONTAINERS[container](table)).ranking_), expected
    )


def test_lazy_rows_are_checked_when_they_are_read(table):
    model = GSPPCA(3).fit(table)
    incomplete = table.copy()
    incomplete[40, np.flatnonzero(model.support_)[0]] = np.nan
    for method in (model.transform, model.score_samples):
        lazy = method(to_dask(incomplete))
        with pytest.raises(InputError, match="NaN or infinity"):
            lazy.compute()
    with pytest.raises(InputError, match="NaN or infinity"):
        model.score(to_dask(incomplete))
    scores = model.transform(table)
    scores[3, 0] = np.nan
    with pytest.raises(InputError, match="NaN or infinity"):
        model.inverse_transform(to_dask(scores)).compute()


def test_copy_on_write_changes_and_moved_files(table, tmp_path, monkeypatch):
    monkeypatch.setattr("prosparse.data.operators.mapped.IN_MEMORY", 0)
    stored = np.memmap(tmp_path / "X", "float64", "w+", shape=table.shape)
    stored[:] = table
    stored.flush()
    changed = np.memmap(tmp_path / "X", "float64", "c", shape=table.shape)
    changed[:, 3] = 7.0
    model = GSPPCA(3).fit(changed)
    assert not model.varying_[3]
    assert model.mean_[3] == 7.0
    moved = np.memmap(tmp_path / "X", "float64", "r", shape=table.shape)
    assert container_of(moved).name == "memory map"
    (tmp_path / "X").rename(tmp_path / "Y")
    np.testing.assert_allclose(GSPPCA(3).fit(moved).mean_, table.mean(axis=0))


def test_rows_are_taken_in_every_container(rng):
    X, rows = rng.standard_normal((12, 5)), np.array([1, 4, 7])
    matrices = {
        "numpy": (X, np.asarray),
        "pandas": (pd.DataFrame(X), np.asarray),
        "polars": (pl.DataFrame(X), lambda part: part.to_numpy()),
        "pyarrow": (arrow(X), lambda part: np.column_stack([np.asarray(c) for c in part.columns])),
        "csr": (sparse.csr_array(X), lambda part: part.toarray()),
        "csc": (sparse.csc_matrix(X), lambda part: part.toarray()),
        "masked": (np.ma.masked_array(X), np.asarray),
        "strict": (array_api_strict.asarray(X), np.asarray),
        "dask": (to_dask(X), lambda part: part.compute()),
    }
    for name, (matrix, to_dense) in matrices.items():
        part = container_of(matrix).take_rows(matrix, rows)
        assert type(part) is type(matrix), name
        np.testing.assert_array_equal(to_dense(part), X[rows], err_msg=name)


def test_dense_copies_never_share_memory(rng):
    X = rng.standard_normal((6, 3))
    for matrix in (X, np.ma.masked_array(X), pd.DataFrame(X), sparse.csr_array(X)):
        copy = container_of(matrix).to_dense(matrix, dtype=None)
        np.testing.assert_array_equal(copy, X)
        copy[:] = 0.0
        np.testing.assert_array_equal(container_of(matrix).to_dense(matrix), X)
