"""A new kind of table is one class and one line; every registered kind keeps its promises."""

from itertools import pairwise

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from prosparse import EMPCA, FDRPCA, GSPPCA, SCA, InputError, ParameterError
from prosparse.data import container_of, containers, fingerprint, standardise
from prosparse.data.operators.blocks import Source, add
from prosparse.datasets import make_globally_sparse


@pytest.fixture
def table():
    return make_globally_sparse(60, 30, n_components=3, n_informative=10, random_state=0).X


def test_large_entries_that_add_up_to_infinity_are_finite():
    X = np.full((4, 3), 0.9 * np.finfo(np.float32).max, dtype=np.float32)
    assert container_of(X).not_finite(X) is None
    X[2, 1] = np.inf
    X[3, 1] = -np.inf
    found = container_of(X).not_finite(X)
    assert (found.what, found.total, found.row, found.column) == ("infinity", 2, 2, 1)


# --- two kinds that the library does not know


class Shelf:
    """Named columns, as Arrow tables and databases keep them."""

    def __init__(self, columns):
        self.columns = columns


class ShelfKind(containers.Container):
    name = "shelf"

    def recognises(self, X):
        return isinstance(X, Shelf)

    def readable(self, X, *, allow_nan):
        return np.column_stack(list(X.columns.values()))

    def take_columns(self, X, columns):
        names = list(X.columns)
        return Shelf({names[place]: X.columns[names[place]] for place in columns})


class Pages:
    """Rows in several arrays, one after the other."""

    dtype = np.dtype("float64")
    ndim = 2

    def __init__(self, pages):
        self.pages = pages
        self.shape = (sum(len(page) for page in pages), pages[0].shape[1])


class PagesSource(Source):
    def __init__(self, X):
        self.X, self.shape, self.dtype = X, X.shape, X.dtype
        edges = np.cumsum([0, *(len(page) for page in X.pages)])
        self.rows = [slice(a, b) for a, b in pairwise(edges)]

    def blocks(self):
        return zip(self.rows, self.X.pages, strict=True)

    def reduce(self, f, row_arrays=(), combine=add):
        total = None
        for rows, page in self.blocks():
            part = f(page, *(array[rows] for array in row_arrays))
            total = part if total is None else combine(total, part)
        return total

    def map(self, f, row_arrays=()):
        pairs = self.blocks()
        return np.concatenate([f(page, *(a[rows] for a in row_arrays)) for rows, page in pairs])

    gather = map

    def every(self, step):
        return np.concatenate(self.X.pages)[::step]


class PagesKind(containers.RowBlocks):
    name = "pages"

    def recognises(self, X):
        return isinstance(X, Pages)

    def checked(self, X, least):
        return X

    def source(self, X):
        return PagesSource(X)

    def take_columns(self, X, columns):
        return Pages([page[:, columns] for page in X.pages])


@pytest.fixture
def toys(monkeypatch):
    """The one line."""
    monkeypatch.setattr(containers, "CONTAINERS", [ShelfKind(), PagesKind(), *containers.CONTAINERS])


@pytest.mark.usefixtures("toys")
def test_a_container_of_a_new_kind(table):
    shelf = Shelf({f"c{k}": column for k, column in enumerate(table.T)})
    plain, ours = GSPPCA(3).fit(table), GSPPCA(3).fit(shelf)
    np.testing.assert_array_equal(ours.components_, plain.components_)
    np.testing.assert_array_equal(ours.transform(shelf), plain.transform(table))
    chosen = ours.select(shelf)
    assert isinstance(chosen, Shelf)
    assert list(chosen.columns) == [f"c{k}" for k in np.flatnonzero(plain.support_)]


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("model", [GSPPCA(3), SCA(2), EMPCA(2, n_nonzero=5, random_state=0)])
def test_rows_kept_in_a_new_way(model, table):
    pages = Pages([table[:7], table[7:50], table[50:]])
    plain = model.fit(table)
    components, scores, score = plain.components_, plain.transform(table), plain.score(table)
    ours = model.fit(pages)
    np.testing.assert_allclose(ours.components_, components, atol=1e-6)
    np.testing.assert_allclose(ours.transform(pages), scores, atol=1e-5)
    assert ours.score(pages) == pytest.approx(score)
    assert isinstance(ours.select(pages), Pages)


# --- the kinds that the library knows


def as_dask(X):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    return da.from_array(X, chunks=(17, -1))


def as_foreign(X):
    return array_api_strict.asarray(X)


WAYS = {
    "dense": np.asarray,
    "sparse": sparse.csr_array,
    "dask": as_dask,
    "foreign": as_foreign,
}


@pytest.mark.parametrize("way", WAYS)
def test_the_fingerprint_is_of_the_content(way, table, rng):
    X = np.where(rng.random(table.shape) < 0.3, 0.0, table)
    known = fingerprint(X)
    np.testing.assert_array_equal(fingerprint(WAYS[way](X)), known)
    other = X.copy()
    other[11, 3] = np.nextafter(other[11, 3], 1.0)
    columns = X.copy()
    columns[:, [2, 5]] = columns[:, [5, 2]]
    entry = rng.permuted(X, axis=0)
    for different in (other, columns, entry, X[::-1].copy(), 2.0 * X, X[:, ::-1].copy(), X[:-1]):
        assert not np.array_equal(fingerprint(WAYS[way](different)), known)


def test_rows_that_move_their_zeros_are_other_rows():
    assert not np.array_equal(fingerprint(np.eye(4)), fingerprint(np.eye(4)[::-1].copy()))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scale", [False, True])
def test_constant_up_to_rounding(way, scale, rng):
    """Totals of shares: 1 plus or minus a few last digits."""
    shares = rng.random((200, 40))
    shares /= shares.sum(axis=1, keepdims=True)
    total = np.zeros(200)
    for part in shares.T:
        total = total + part
    assert 0.0 < np.ptp(total) < 1e-14
    X = np.column_stack([shares, total, 1e6 * total, 1.0 + 1e-9 * shares[:, 0]])
    if way == "sparse":  # which cannot be far from zero
        X = X[:, :-1]
    _, columns = standardise(WAYS[way](X), scale)
    varying = np.asarray(columns.varying)
    assert varying[:40].all()
    assert not varying[40:42].any()
    if way != "sparse":
        assert varying[42]  # nine digits are not rounding


def test_single_precision_has_fewer_digits(rng):
    total = (1.0 + 1e-7 * rng.integers(-1, 2, 50)).astype(np.float32)
    measured = (101325.0 + rng.standard_normal(50)).astype(np.float32)
    X = np.column_stack([rng.standard_normal(50).astype(np.float32), total, measured])
    assert standardise(X)[1].varying.tolist() == [True, False, True]
    assert standardise(X.astype(float))[1].varying.tolist() == [True, True, True]


def test_constant_up_to_rounding_with_weights_and_gaps(rng):
    X = rng.standard_normal((30, 1)) + 0.3 * rng.standard_normal((30, 4))
    X[:, 2] = 0.1 + np.where(rng.random(30) < 0.5, 0.0, 1e-17 * 4)
    X[::3, 2] = np.nextafter(0.1, 1.0)
    assert standardise(X, True, np.ones(30))[1].varying.tolist() == [True, True, False, True]
    X[3, 0] = np.nan
    assert SCA(1).fit(X).varying_.tolist() == [True, True, False, True]


@pytest.mark.parametrize("weights", [None, np.ones(20)])
def test_one_standardiser_refuses_for_all(weights, rng):
    far = sparse.csr_array(1e8 + rng.standard_normal((20, 4)))
    with pytest.raises(InputError, match="pass X as a dense array"):
        EMPCA(1).fit(far, sample_weight=weights)


def test_masked_entries(rng):
    X = np.ma.MaskedArray(rng.standard_normal((30, 1)) + 0.3 * rng.standard_normal((30, 6)))
    plain = GSPPCA(2).fit(X.data)
    np.testing.assert_array_equal(GSPPCA(2).fit(X).components_, plain.components_)
    X[2, 3] = 1e6
    X[2, 3] = np.ma.masked
    with pytest.raises(InputError, match="1 entries of X are masked"):
        GSPPCA(2).fit(X)
    with pytest.raises(InputError, match="masked"):
        plain.transform(X)
    gaps = X.filled(np.nan)
    np.testing.assert_array_equal(SCA(1).fit(X).components_, SCA(1).fit(gaps).components_)


def masked_table(rng):
    """A table of which one entry is masked; what lies under the mask would spoil any fit."""
    X = np.ma.MaskedArray(rng.standard_normal((30, 1)) + 0.3 * rng.standard_normal((30, 6)))
    X[2, 3] = 1e6
    X[2, 3] = np.ma.masked
    return X


def test_chosen_columns_keep_their_mask(rng):
    X = masked_table(rng)
    model = SCA(1).fit(X)
    assert model.support_[3]
    chosen = model.select(X)
    assert isinstance(chosen, np.ma.MaskedArray)
    assert np.ma.count_masked(chosen) == 1
    assert chosen.max() < 100.0


def test_masked_rows_in_a_list(rng):
    X = masked_table(rng)
    with pytest.raises(InputError, match="1 entries of X are masked"):
        GSPPCA(2).fit(list(X))
    ours, gaps = SCA(1).fit(list(X)), SCA(1).fit(X.filled(np.nan))
    np.testing.assert_array_equal(ours.components_, gaps.components_)
    np.testing.assert_array_equal(ours.impute(list(X)), gaps.impute(X.filled(np.nan)))


def test_masked_views(rng):
    X = masked_table(rng)
    ours = SCA(1).fit([X[:, :3], X[:, 3:]])
    gaps = X.filled(np.nan)
    theirs = SCA(1).fit([gaps[:, :3], gaps[:, 3:]])
    np.testing.assert_array_equal(ours.components_, theirs.components_)
    scores = ours.transform([X[:, :3], X[:, 3:]])
    np.testing.assert_allclose(scores, theirs.transform(gaps), atol=1e-12)


@pytest.mark.parametrize("model", [GSPPCA(2), SCA(1), EMPCA(1, n_nonzero=3, random_state=0)])
def test_masked_blocks(model, rng):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    X = masked_table(rng)
    lazy = da.from_array(X, chunks=(10, -1))
    with pytest.raises(InputError, match="1 entries of a block of X are masked"):
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
def test_dates_are_no_numbers(model, X):
    """Counted from 1970, a missing one would be -9.2e18."""
    with pytest.raises(InputError, match=r"dates or times.*not numbers|no numbers.*dates or times"):
        model.fit(X)


def mixed_frame():
    """Names, categories, dates, numbers that are written as text, and numbers."""
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
def test_columns_without_numbers_are_all_named(model):
    frame = mixed_frame()
    plain = frame.drop(columns="dose")
    for X in (plain, pl.from_pandas(plain)):
        with pytest.raises(InputError) as refused:
            model.fit(X)
        assert str(refused.value).startswith(
            "3 column(s) of X hold no numbers: column 'patient' (text, such as 'patient 0'), "
            "column 'sex' (text, such as 'f'), column 'visit' (dates or times). Leave out"
        )
    with pytest.raises(InputError, match=r"1 column.*column 'dose' \(text, such as 'low'\)"):
        model.fit(frame[["a", "b", "dose"]])
    for rows in (frame.to_numpy(), frame.to_numpy().tolist()):
        with pytest.raises(InputError, match=r"4 .*: column 4 \(.*column 6 \(dates.*column 8"):
            model.fit(rows)
    container_of(frame).readable(frame[["a", "b", "weight"]], allow_nan=False)  # these are numbers


def test_many_columns_without_numbers_are_counted():
    X = pd.DataFrame({f"t{k}": ["x", "y"] for k in range(9)})
    with pytest.raises(InputError, match=r"9 column\(s\).*'t4' \(text, such as 'x'\) and 4 more\."):
        GSPPCA(1).fit(X)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_gaps_are_counted_and_named(kind):
    X = np.random.default_rng(0).standard_normal((8, 5))
    X[[2, 5, 5], [3, 3, 1]] = np.nan
    table = kind(X)
    if kind is pd.DataFrame:
        table.columns = list("abcde")
    third, first = ("'d'", "'b'") if kind is pd.DataFrame else ("3", "1")
    with pytest.raises(InputError) as refused:
        FDRPCA().fit(table)
    assert str(refused.value).startswith(
        f"Input X contains NaN: 3 value(s), the first in row 2, column {third}; 2 row(s) and 2 "
        f"column(s) have any: column {third} (2), column {first} (1). FDRPCA needs finite values: "
        "fill missing values with column means first (scikit-learn's SimpleImputer)"
    )
    X[0, 0] = np.inf
    with pytest.raises(InputError, match=r"NaN and infinity: 4 value\(s\).*logarithms of zero"):
        FDRPCA().fit(X)
    with pytest.raises(InputError, match=r"X contains infinity: 1 value\(s\).*SCA needs"):
        SCA(1).fit(X)


@pytest.mark.parametrize("dtype", ["complex128", "datetime64[s]", "U5", "f8,f8"])
def test_what_maps_and_blocks_cannot_hold(dtype, table, tmp_path, monkeypatch):
    monkeypatch.setattr("prosparse.data.operators.mapped.IN_MEMORY", 0)
    stored = np.memmap(tmp_path / "X", dtype, "w+", shape=(20, 30))
    model = GSPPCA(2).fit(table)
    for method in (GSPPCA(2).fit, model.transform):
        with pytest.raises(InputError, match=r"not numbers|Complex data not supported"):
            method(stored)
        if dtype != "U5":  # text may be numbers, which is seen when it is read
            with pytest.raises(InputError, match=r"not numbers|Complex data not supported"):
                method(as_dask(np.asarray(stored)))


def test_scores_in_a_map_are_looked_at(table, tmp_path, monkeypatch):
    monkeypatch.setattr("prosparse.data.operators.mapped.IN_MEMORY", 0)
    scores = np.memmap(tmp_path / "scores", "float64", "w+", shape=(20, 2))
    model = GSPPCA(2).fit(table)
    assert model.inverse_transform(scores).shape == (20, 30)
    scores[3, 1] = np.nan
    with pytest.raises(InputError, match="NaN or infinity"):
        model.inverse_transform(scores)


def test_changes_in_a_view_of_a_map_stay(table, tmp_path, monkeypatch):
    monkeypatch.setattr("prosparse.data.operators.mapped.IN_MEMORY", 0)
    table.tofile(tmp_path / "X")
    changed = np.memmap(tmp_path / "X", "float64", "c", shape=table.shape)
    changed[:, 3] = 7.0
    view = np.asarray(changed).view(np.memmap)  # no longer knows its mode
    assert container_of(view).name == "memory map"
    model = GSPPCA(3).fit(view)
    assert model.mean_[3] == 7.0
    assert np.all(changed[:, 3] == 7.0)


@pytest.mark.parametrize("size", [1e-30, 1e-40, 1e30, 3e37])
@pytest.mark.parametrize("model", [GSPPCA(2), SCA(2)])
def test_single_precision_has_a_smaller_range(model, size, table):
    """Variances of such a table are 0 or infinity in single precision."""
    small = array_api_strict.asarray((size * table).astype(np.float32))
    with pytest.raises(InputError, match=r"single precision cannot handle.*double precision"):
        model.fit(small)
    model.fit((size * table).astype(np.float32))  # on the host all is in double precision


@pytest.mark.parametrize("size", [1e-16, 1e15])
def test_the_range_of_single_precision(size, table):
    X = (size * table).astype(np.float32)
    model, host_model = SCA(2).fit(array_api_strict.asarray(X)), SCA(2).fit(X)
    noise = float(model.noise_variance_[0])
    assert noise == pytest.approx(host_model.noise_variance_[0], rel=1e-3)
    scores = np.asarray(model.transform(array_api_strict.asarray(X)))
    np.testing.assert_allclose(scores, host_model.transform(X), atol=1e-3)


def test_scales_of_single_precision(table):
    units = np.geomspace(1e-30, 1e30, 30)
    X = array_api_strict.asarray((units * table).astype(np.float32))
    model = GSPPCA(2, scale=True).fit(X)
    plain = GSPPCA(2, scale=True).fit(table)
    np.testing.assert_array_equal(np.asarray(model.support_), plain.support_)
    with pytest.raises(InputError, match="single precision cannot handle"):
        GSPPCA(2, scale=True).fit(array_api_strict.asarray((1e-40 * table).astype(np.float32)))


def test_the_largest_doubles_are_refused_by_their_size(table):
    with pytest.raises(InputError, match=r"deviates from its mean by up to \d"):
        GSPPCA(2).fit(1.7e308 * np.sign(table))


def test_torch_tensors_that_are_no_plain_arrays(table):
    torch = pytest.importorskip("torch", reason="Torch is not installed")
    X = torch.tensor(table)
    for other, words in (
        (X.to_sparse(), "layout sparse_coo: call `X.to_dense"),
        (X.to("meta"), "meta device"),
    ):
        with pytest.raises(InputError, match=words):
            GSPPCA(2).fit(other)


@pytest.mark.parametrize("order", [1, -1])
def test_views_of_several_libraries(order, table):
    views = [array_api_strict.asarray(table[:, :10]), table[:, 10:]][::order]
    with pytest.raises(InputError, match="bring all views to one library"):
        SCA(1).fit(views)


def test_lazy_views(table):
    with pytest.raises(InputError, match="collect"):
        SCA(1).fit([pl.DataFrame(table[:, :10]).lazy(), table[:, 10:]])


def test_weights_that_no_sum_can_hold(table):
    with pytest.raises(ParameterError, match="sample_weight"):
        EMPCA(2, random_state=0).fit(table, sample_weight=np.full(60, 1e300))


def test_repeated_names_are_refused_in_words(table):
    frame = pd.DataFrame(table, columns=[f"c{k}" for k in range(table.shape[1])])
    with pytest.raises(InputError, match="more than one column named 'c4'"):
        GSPPCA(3).fit(frame.rename(columns={"c5": "c4"}))
    names = ["c4" if k == 5 else f"c{k}" for k in range(table.shape[1])]
    with pytest.raises(InputError, match="more than one column named 'c4'"):
        GSPPCA(3).fit(arrow(table).rename_columns(names))


# --- pyarrow


def arrow(X):
    return pa.table({f"c{k}": column for k, column in enumerate(X.T)})


def test_record_batches_and_chunks_are_as_arrays(table):
    plain, whole = SCA(2).fit(table), arrow(table)
    batch = whole.to_batches()[0]
    chunked = pa.concat_tables([whole.slice(0, 25), whole.slice(25)])
    for given in (batch, chunked):
        model = SCA(2).fit(given)
        np.testing.assert_array_equal(model.transform(given), plain.transform(table))
        assert type(model.select(given)) is type(given)


def test_nulls_of_pyarrow_are_missing(table):
    with_gap = table.copy()
    with_gap[3, 0] = np.nan
    whole = arrow(table)
    for column in (pa.array(table[:, 0], mask=np.isnan(with_gap[:, 0])), pa.array(with_gap[:, 0])):
        given = whole.set_column(0, "c0", column)
        model, plain = SCA(2).fit(given), SCA(2).fit(with_gap)
        np.testing.assert_array_equal(model.transform(given), plain.transform(with_gap))
        assert model.impute(given)["c0"].null_count == 0
        with pytest.raises(InputError, match="contains NaN: 1 value.* row 3, column 'c0'"):
            GSPPCA(3).fit(given)


def test_columns_of_pyarrow_without_numbers(table):
    whole = arrow(table)
    for column, words in (
        (pa.array([None, *("abc" * 20)[1:]]), "text, such as 'b'"),
        (pa.array(np.full(60, "2024-02-29", dtype="datetime64[s]")), "dates or times"),
        (pa.array([[1.0, 2.0]] * 60), "lists"),
        (pa.array(["a", "b"] * 30).dictionary_encode(), "text, such as 'a'"),
    ):
        with pytest.raises(InputError, match=rf"column 'other' \({words}"):
            SCA(2).fit(whole.append_column("other", column))


def test_views_of_pyarrow(table):
    views = [table[:, :12], table[:, 12:]]
    model = SCA(1).fit([arrow(view) for view in views])
    plain = SCA(1).fit(views)
    np.testing.assert_array_equal(
        model.transform([arrow(view) for view in views]), plain.transform(views)
    )
    assert model.view_names_[1].tolist() == [f"c{k}" for k in range(18)]


@pytest.mark.parametrize("way", WAYS)
def test_scaled_columns_are_ranked_alike_whatever_the_kind(way, table):
    """All have one variance, up to rounding, which must not decide between those not chosen."""
    model = EMPCA(2, n_nonzero=4, scale=True, random_state=0)
    expected = model.fit(table).ranking_
    np.testing.assert_array_equal(np.asarray(model.fit(WAYS[way](table)).ranking_), expected)


def test_lazy_rows_are_looked_at_when_they_are_read(table):
    model = GSPPCA(3).fit(table)
    holes = table.copy()
    holes[40, np.flatnonzero(model.support_)[0]] = np.nan
    for method in (model.transform, model.score_samples):
        lazy = method(as_dask(holes))
        with pytest.raises(InputError, match="NaN or infinity"):
            lazy.compute()
    with pytest.raises(InputError, match="NaN or infinity"):
        model.score(as_dask(holes))
    scores = model.transform(table)
    scores[3, 0] = np.nan
    with pytest.raises(InputError, match="NaN or infinity"):
        model.inverse_transform(as_dask(scores)).compute()


def test_changes_in_memory_count_and_files_may_move(table, tmp_path, monkeypatch):
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


def test_what_rounding_takes_from_a_mean_is_given_back():
    """A mean near 1e4 has four digits behind the point in single precision."""
    X = (1e4 + np.random.default_rng(0).standard_normal((500, 4))).astype(np.float32)
    exact = X.astype(float)
    op, columns = standardise(as_foreign(X))
    Z = np.asarray(op.whole, dtype=float) * columns.unit
    assert np.abs(Z.mean(axis=0)).max() < 1e-6
    squares = np.asarray(op.column_squares()) * columns.unit**2
    np.testing.assert_allclose(squares, 500 * exact.var(axis=0), rtol=1e-8)


@pytest.mark.parametrize("groups", [None, np.repeat([1, 0, 2], 4)], ids=["", "groups"])
def test_rows_taken_and_columns_shuffled_in_kind(rng, groups):
    """A shuffled table has the values of every column, of every group, in other rows."""
    X = rng.normal(size=(12, 5)) * (rng.random((12, 5)) < 0.6)
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    tables = {
        "array": (X, np.asarray),
        "frame": (pd.DataFrame(X, columns=list("abcde")), np.asarray),
        "polars": (pl.DataFrame(X, schema=list("abcde")), lambda t: t.to_numpy()),
        "pyarrow": (arrow(X), lambda t: np.column_stack([np.asarray(c) for c in t.columns])),
        "csr": (sparse.csr_array(X), lambda t: t.toarray()),
        "csc": (sparse.csc_matrix(X), lambda t: t.toarray()),
        "masked": (np.ma.masked_array(X), np.asarray),
        "strict": (array_api_strict.asarray(X), np.asarray),
    }
    rows = np.array([1, 4, 7])
    for name, (table, plain) in tables.items():
        kind = container_of(table)
        some = kind.take_rows(table, rows)
        assert type(some) is type(table), name
        np.testing.assert_array_equal(plain(some), X[rows])
        mixed = kind.shuffled(table, rng, groups)
        assert type(mixed) is type(table), name
        values = plain(mixed)
        assert not np.array_equal(values, X)
        for code in [0] if groups is None else np.unique(groups):
            part = slice(None) if groups is None else groups == code
            np.testing.assert_array_equal(np.sort(values[part], 0), np.sort(X[part], 0))
        order = [tuple(np.argsort(c)) for c in values.T] if groups is None else []
        assert len(set(order)) == len(order)
    big = da.from_array(X, chunks=(5, 5))
    np.testing.assert_array_equal(container_of(big).take_rows(big, rows).compute(), X[rows])
    with pytest.raises(InputError, match="only be shuffled in memory"):
        container_of(big).shuffled(big, rng)
