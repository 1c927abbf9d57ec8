"""All methods of operators agree with the dense centred matrix."""

import array_api_strict
import numpy as np
import pytest
from scipy import sparse

from prosparse.data import operator_of, standardise
from prosparse.data.operators import base
from prosparse.data.operators import sparse as sparse_module
from prosparse.data.operators.dense import MAX_NARROW_WIDTH
from prosparse.data.operators.shifted import ShiftedOperator
from prosparse.data.operators.weighted import WeightedOperator
from prosparse.data.row_adjustment import RowAdjustment
from prosparse.data.row_groups import row_groups

pytestmark = pytest.mark.quick


def chunked(X):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    return da.from_array(X, chunks=(9, -1))


CONTAINERS = {
    "numpy": lambda X: X,
    "fortran": np.asfortranarray,
    "strict": array_api_strict.asarray,
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "coo matrix": sparse.coo_matrix,
    "dask": chunked,
    "dask of sparse": lambda X: chunked(X).map_blocks(sparse.csr_array),
}


@pytest.fixture(params=CONTAINERS)
def convert(request):
    return CONTAINERS[request.param]


def table(rng, n=23, p=11):
    X = rng.standard_normal((n, p)) * rng.gamma(1.0, 3.0, p) + rng.standard_normal(p)
    X[rng.random((n, p)) < 0.5] = 0.0
    X[:, 4] = 0.0  # constant
    X[:, 7] = 2.5  # constant, not zero
    return X


def expected(X, scale):
    kept = X.max(0) > X.min(0)
    Z = (X - X.mean(0))[:, kept]
    return Z / Z.std(0) if scale else Z


@pytest.fixture(params=[*CONTAINERS, "csr, columns viewed"])
def convert_or_view(request, monkeypatch):
    """Containers, and a sparse matrix of which most columns are taken without a copy."""
    if request.param in CONTAINERS:
        return CONTAINERS[request.param]
    monkeypatch.setattr(sparse_module, "_MIN_ENTRIES_OF_VIEW", 0)
    monkeypatch.setattr(sparse_module, "_MAX_COPIED_PROPORTION", 0.1)
    return sparse.csr_array


@pytest.fixture(params=[False, True], ids=["centred", "scaled"])
def pair(request, convert_or_view, rng):
    X = table(rng)
    op, columns = standardise(convert_or_view(X), request.param)
    return op, columns, expected(X, request.param) / columns.unit, X


@pytest.mark.parametrize("width", [MAX_NARROW_WIDTH, MAX_NARROW_WIDTH + 1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_narrow_matrices_are_stored_by_columns(width, dtype, order, rng):
    """The layout does not affect the entries, and the data do not change."""
    X = np.asarray(rng.standard_normal((23, width)) + 3.0, dtype=dtype, order=order)
    before = X.copy()
    op, columns = standardise(X, True)
    assert op.X.flags.f_contiguous == (width == MAX_NARROW_WIDTH or order == "F")
    assert op.dtype == np.float64
    np.testing.assert_allclose(op.X, expected(X.astype(float), True), atol=1e-13)
    np.testing.assert_allclose(columns.mean, X.astype(float).mean(axis=0), atol=1e-14)
    np.testing.assert_array_equal(X, before)


def test_constant_columns_do_not_determine_the_unit(rng):
    X = rng.standard_normal((12, 5))
    X[:, 2] = 1e308
    op, columns = standardise(X)
    assert columns.unit < 8.0
    np.testing.assert_allclose(op.X * columns.unit, expected(np.delete(X, 2, axis=1), False))


def test_shape_means_and_scales(pair):
    op, columns, Z, X = pair
    assert op.shape == Z.shape
    np.testing.assert_array_equal(np.asarray(columns.varying), X.max(0) > X.min(0))
    np.testing.assert_allclose(np.asarray(columns.mean), X.mean(0), atol=1e-14)
    kept = np.asarray(columns.varying)
    reconstructed = (
        Z * columns.unit * np.asarray(columns.scale)[kept] + np.asarray(columns.mean)[kept]
    )
    np.testing.assert_allclose(reconstructed, X[:, kept], atol=1e-12)


def test_products(pair, rng):
    op, _, Z, _ = pair
    F, Y = rng.standard_normal((Z.shape[1], 3)), rng.standard_normal((Z.shape[0], 3))
    close(op.matmul(op.xp.asarray(F)), Z @ F)
    close(op.rmatmul(op.xp.asarray(Y)), Z.T @ Y)
    close(op.gram(), Z.T @ Z)
    close(op.outer(), Z @ Z.T)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("many", [0, 7, 40])
def test_outer_of_sparse_columns_of_any_density(many, dtype, rng, monkeypatch):
    """Dense columns are converted few at a time; an empty column has a shift."""
    monkeypatch.setattr(sparse_module, "_DENSE_COLUMNS", 3)
    X = np.where(rng.random((50, 40)) < 0.04, rng.standard_normal((50, 40)), 0.0)
    X[:, :many] = rng.poisson(1.0, (50, many))
    X[:, 39] = 0.0
    shift, factor = rng.random(40), 0.5 + rng.random(40)
    op = sparse_module.SparseOperator(sparse.csr_array(X), shift, factor, dtype)
    Z = (X - shift) * factor
    tol = 100.0 * np.finfo(dtype).eps
    np.testing.assert_allclose(op.outer(), Z @ Z.T, atol=tol * np.abs(Z @ Z.T).max())
    assert op.outer().dtype == dtype


def test_norms(pair):
    op, _, Z, _ = pair
    close(op.column_squares(), np.sum(Z**2, axis=0))
    close(op.row_squares(), np.sum(Z**2, axis=1))


def check_power_sums(op, Z, rng):
    """For weights of one or several columns, of any sign."""
    for weights in (np.ones((Z.shape[0], 1)), rng.standard_normal((Z.shape[0], 3))):
        for power in (1, 2, 3, 4):
            found = np.asarray(op.power_sums(power, op.xp.asarray(weights)))
            assert found.dtype == np.float64
            size = np.abs(Z**power).T @ np.abs(weights)
            np.testing.assert_array_less(
                np.abs(found - (Z**power).T @ weights), 1e-11 * size + 1e-12
            )


def entries(op):
    return np.asarray(op.dense())


def test_power_sums(pair, rng):
    op, _, Z, _ = pair
    check_power_sums(op, Z, rng)
    columns = np.array([5, 0, 2])
    check_power_sums(op.take_columns(op.xp.asarray(columns)), Z[:, columns], rng)


def test_dense_entries(pair):
    op, _, Z, _ = pair
    close(entries(op), Z)
    close(entries(op.take_columns(op.xp.asarray([3, 1]))), Z[:, [3, 1]])


@pytest.mark.slow
@pytest.mark.parametrize(
    "order",
    ["rows", "columns", "shift", "shift rows shift", "groups rows groups columns", "covariates"],
)
def test_scaled_and_shifted_in_any_order(pair, order, rng):
    """Rows and columns are scaled, matrices of low rank and group means are subtracted."""
    op, _, Z, _ = pair
    n, p = Z.shape
    rows, columns = rng.uniform(0.5, 2.0, n), rng.uniform(0.5, 2.0, p)
    left, right = rng.standard_normal((n, 2)), rng.standard_normal((2, p))
    groups = row_groups(rng.permutation(np.arange(n) % 3), n)
    adjustment = RowAdjustment(groups, rng.standard_normal((n, 2)), rows)

    there = op.xp.asarray
    steps = {
        "rows": (lambda o: o.scale_rows(there(rows)), lambda A: rows[:, None] * A),
        "columns": (lambda o: o.scale_columns(there(columns)), lambda A: A * columns),
        "shift": (
            lambda o: o.subtract_product(there(left), there(right)),
            lambda A: A - left @ right,
        ),
        "groups": (groups.centre_operator, RowAdjustment(groups).residuals),
        "covariates": (adjustment.adjust_operator, adjustment.residuals),
    }
    for step in order.split():
        op, Z = steps[step][0](op), steps[step][1](Z)
    close(entries(op), Z)
    close(op.column_squares(), np.sum(Z**2, axis=0))
    close(op.gram(), Z.T @ Z)
    close(op.outer(), Z @ Z.T)
    F = rng.standard_normal((p, 2))
    close(op.matmul(there(F)), Z @ F)
    check_power_sums(op, Z, rng)
    sample = op.sample_rows(8)  # every second of 23 rows
    close(entries(sample), Z[::2])
    taken = op.take_columns(there(np.array([4, 1])))
    close(taken.column_squares(), np.sum(Z[:, [4, 1]] ** 2, axis=0))


@pytest.mark.parametrize("size", [1e-85, 1.0, 1e85])
def test_power_sums_of_sparse_columns_far_from_zero(size, rng):
    """Powers of the entries neither cancel nor overflow; the last column has one zero."""
    n = 40
    X = rng.standard_normal((n, 4)) + np.array([0.0, 1e3, 1e5, 1e5])
    X[7, 3] = 0.0
    op = standardise(sparse.csr_array(size * X), True)[0]
    Z, weights = expected(X, True), rng.random((n, 2))
    for power in (2, 3, 4):
        exact = (Z**power).T @ weights
        limit = 1e-9 * np.abs(Z**power).T @ weights
        np.testing.assert_array_less(np.abs(op.power_sums(power, weights) - exact), limit)


def test_power_sums_of_pieces(rng, monkeypatch):
    monkeypatch.setattr(sparse_module, "_ENTRIES_PER_PIECE", 20)
    X = table(rng)
    op = standardise(sparse.csr_array(X), True)[0]
    assert len(op._pieces) > 2
    check_power_sums(op, expected(X, True), rng)


def test_rough_power_sums(pair, rng):
    op, _, Z, _ = pair
    rough = op.rough()
    weights = rng.random((Z.shape[0], 2))
    for power in (2, 4):
        found = np.asarray(rough.power_sums(power, rough.xp.asarray(weights, dtype=rough.dtype)))
        np.testing.assert_allclose(found, (Z**power).T @ weights, rtol=1e-4)


def test_take_columns_in_any_order(pair):
    op, _, Z, _ = pair
    columns = [5, 0, 2]
    taken = op.take_columns(op.xp.asarray(columns))
    close(taken.gram(), Z[:, columns].T @ Z[:, columns])
    close(taken.column_squares(), np.sum(Z[:, columns] ** 2, axis=0))


def test_entrywise_blocks_are_small_and_complete(pair, monkeypatch):
    op, _, Z, _ = pair
    monkeypatch.setattr(base.row_slices, "__defaults__", (3 * Z.shape[1],))
    seen = [(rows, np.asarray(block)) for rows, block in op.blocks(entrywise=True)]
    size = max(block.shape[0] for _, block in seen)
    assert 2 <= size <= 3  # blocks of a view have the columns of the whole matrix
    assert [rows.start for rows, _ in seen] == list(range(0, Z.shape[0], size))
    np.testing.assert_allclose(np.concatenate([block for _, block in seen]), Z, atol=1e-13)
    close(op.column_squares(), np.sum(Z**2, axis=0))


def test_row_arrays_are_divided_like_the_rows(pair, rng):
    op, _, Z, _ = pair
    weights = rng.random(Z.shape[0])
    (sums,) = op.sum_rows(
        lambda block, w: (op.xp.sum(block * w[:, None], axis=0),),
        op.xp.asarray(weights),
        entrywise=True,
    )
    close(sums, weights @ Z)


def test_rough_products(pair, rng):
    check_rough(pair, rng)


def check_rough(pair, rng):
    op, _, Z, _ = pair
    rough, size = op.rough(), np.abs(Z).max()
    F = rough.xp.asarray(rng.standard_normal((Z.shape[1], 3)), dtype=rough.dtype)
    Y = rough.xp.asarray(rng.standard_normal((Z.shape[0], 3)), dtype=rough.dtype)
    assert rough.shape == op.shape
    np.testing.assert_allclose(rough.matmul(F), Z @ np.asarray(F), atol=1e-4 * size)
    np.testing.assert_allclose(rough.rmatmul(Y), Z.T @ np.asarray(Y), atol=1e-4 * size)


def test_large_means_need_double_precision(rng):
    X = sparse.random_array((40, 6), density=0.5, rng=rng).toarray()
    assert standardise(sparse.csr_array(X), True)[0].rough().dtype == np.float32
    X[:, 2] += 1e4
    op = standardise(sparse.csr_array(X), True)[0]
    assert op.rough() is op


# --- matrices of low rank are subtracted


@pytest.fixture(params=["groups, centred", "groups, scaled", "any factors"])
def shifted(request, convert, rng):
    """Subtract the means of three groups of rows, or a product of two matrices."""
    X, scale = table(rng), request.param == "groups, scaled"
    op, columns = standardise(convert(X), scale)
    Z = expected(X, scale) / columns.unit
    if request.param == "any factors":
        left, right = rng.standard_normal((23, 2)), rng.standard_normal((2, op.shape[1]))
        factors = (op.xp.asarray(part) for part in (left, right))
        return ShiftedOperator(op, *factors), columns, Z - left @ right, X
    codes = rng.permutation(np.arange(23) % 3)
    means = np.stack([Z[codes == group].mean(axis=0) for group in range(3)])
    return row_groups(codes, codes.size).centre_operator(op), columns, Z - means[codes], X


def test_shifted_operator(shifted, rng, monkeypatch):
    assert shifted[0].shape == shifted[2].shape
    test_products(shifted, rng)
    test_norms(shifted)
    test_take_columns_in_any_order(shifted)
    test_row_arrays_are_divided_like_the_rows(shifted, rng)
    check_rough(shifted, rng)
    op, _, Z, _ = shifted
    F = rng.standard_normal((Z.shape[1], 2))
    there = op.xp.asarray(F)
    for rows in (op.gather_rows(lambda block: block @ there), op.map_rows(lambda b: b @ there)):
        close(rows, Z @ F)
    close(op.gather_rows(lambda block: op.xp.sum(block**3, axis=1), entrywise=True), (Z**3).sum(1))
    seen = [(rows, block @ there) for rows, block in op.blocks()]
    close(np.concatenate([np.asarray(part) for _, part in seen]), Z @ F)
    test_entrywise_blocks_are_small_and_complete(shifted, monkeypatch)


@pytest.fixture
def weighted(pair, rng):
    """Weight the rows; some weights are zero."""
    op, columns, Z, X = pair
    root = rng.uniform(0.5, 2.0, Z.shape[0]) * (np.arange(Z.shape[0]) % 3 > 0)
    there = op.xp.asarray(root)
    return WeightedOperator(op, there), columns, root[:, None] * Z, X


def test_weighted_operator(weighted, rng, monkeypatch):
    test_products(weighted, rng)
    test_norms(weighted)
    test_take_columns_in_any_order(weighted)
    test_row_arrays_are_divided_like_the_rows(weighted, rng)
    op, _, Z, _ = weighted
    F = rng.standard_normal((Z.shape[1], 2))
    there = op.xp.asarray(F)
    monkeypatch.setattr(type(op), "blocks", None)  # functions must run where the blocks are
    close(op.gather_rows(lambda block: block @ there), Z @ F)
    close(op.gather_rows(lambda block: op.xp.sum(block**3, axis=1), entrywise=True), (Z**3).sum(1))
    (product,) = op.sum_rows(lambda block: (block.T @ (block @ there),))
    close(product, Z.T @ (Z @ F))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_sums_of_squares_within_groups_do_not_cancel(make, rng):
    """Differences between groups are much larger than those within; one column has none."""
    groups = row_groups(np.arange(40) % 4, 40)
    X = rng.standard_normal((40, 3)) * [1.0, 1e-7, 0.0] + (np.arange(40) % 4)[:, None]
    op, _ = standardise(make(X), True)
    within = RowAdjustment(groups).residuals(expected(X, True))
    found = np.asarray(groups.centre_operator(op).column_squares())
    np.testing.assert_allclose(found[:2], np.sum(within**2, axis=0)[:2], rtol=1e-6)
    assert found[2] < 1e-25


def test_centring_within_groups_keeps_a_matrix_sparse(rng, monkeypatch):
    X = sparse.random_array((300, 50), density=0.05, rng=rng, format="csr")
    codes = np.arange(300) % 4
    op, _ = standardise(X)
    op = row_groups(codes, codes.size).centre_operator(op)
    monkeypatch.setattr(sparse.csr_array, "toarray", None)
    close(op.matmul(np.ones((50, 2))).sum(axis=0), np.zeros(2))
    op.rmatmul(np.ones((300, 2)))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_new_rows_use_given_means_and_scales(make, rng):
    X, mean, scale = rng.standard_normal((6, 4)), rng.random(4), rng.random(4) + 1
    close(operator_of(make(X), mean, scale).gram(), ((X - mean) / scale).T @ ((X - mean) / scale))


@pytest.mark.parametrize("size", [1e150, 1e-150])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_units_rescale_extreme_values(make, scale, size, rng):
    X = table(rng)
    op, columns = standardise(make(size * X), scale)
    plain = standardise(make(X), scale)[0]
    ratio = np.asarray(op.column_squares()) / np.asarray(plain.column_squares())
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-10)
    assert 1e-3 < np.max(np.asarray(op.column_squares())) < 1e3
    assert np.isfinite(columns.unit)


@pytest.mark.parametrize("scale", [False, True])
def test_deviations_with_infinite_squares_raise(scale, rng):
    X = table(rng)
    X[:, 3] *= 1e305 if scale else 1e160
    with pytest.raises(ValueError, match=r"^Column 3 of X deviates from its mean by"):
        standardise(X, scale)


def test_the_error_for_sparse_columns_far_from_zero_gives_the_column(rng):
    X = table(rng)
    X[:, 3] += 1e8
    with pytest.raises(ValueError, match=r"has 1 column .* such as column 3"):
        standardise(sparse.csr_array(X))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("size", [1e306, 1e-310])
def test_deviations_that_cannot_be_scaled_raise(make, size, rng):
    X = size * rng.uniform(1, 9, (40, 5))
    with pytest.raises(ValueError, match="deviates from its mean by"):
        standardise(make(X), True)


def test_sparse_columns_far_from_zero_raise(rng):
    X = 1e8 + rng.standard_normal((20, 4))
    with pytest.raises(ValueError, match="pass X as a dense array"):
        standardise(sparse.csr_array(X))
    standardise(X)


def test_sparse_matrices_are_never_converted_to_dense(rng, monkeypatch):
    X = sparse.random_array((300, 50), density=0.05, rng=rng, format="csr")
    largest = []
    original = sparse.csr_array.toarray

    def watched(self, *args, **kwargs):
        largest.append(self.shape)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(sparse.csr_array, "toarray", watched)
    monkeypatch.setattr(base.row_slices, "__defaults__", (500,))
    op, _ = standardise(X)
    op.column_squares(), op.matmul(np.ones((50, 2))), op.gram()
    assert all(rows <= 50 for rows, _ in largest)


def close(ours, expected):
    np.testing.assert_allclose(np.asarray(ours), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_without_centring(scale, make, rng):
    X = table(rng)
    op, columns = standardise(make(X), scale, centre=False)
    kept = np.any(X != 0, axis=0)
    np.testing.assert_array_equal(columns.varying, kept)
    assert not columns.mean.any()
    Z = X[:, kept] / np.sqrt(np.mean(X[:, kept] ** 2, axis=0)) if scale else X[:, kept]
    np.testing.assert_allclose(columns.unit * op.matmul(np.eye(Z.shape[1])), Z, atol=1e-12)
    np.testing.assert_allclose(columns.unit**2 * op.gram(), Z.T @ Z, atol=1e-10)
    np.testing.assert_allclose(columns.scale[~kept], 1.0)


def test_large_constant_columns_of_a_sparse_matrix_are_ignored(rng):
    """Their squares would overflow."""
    X = rng.standard_normal((8, 3))
    X[:, 1] = 1e180
    op, columns = standardise(sparse.csr_array(X), True)
    assert op.shape == (8, 2)
    np.testing.assert_allclose(columns.scale[[0, 2]], X[:, [0, 2]].std(axis=0))


@pytest.mark.parametrize("rows", [0, 1, 31, 32, 33, 100])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rough_sums_are_in_double_precision(rows, dtype, rng):
    """Few single-precision entries are summed before they are converted."""
    X = (1e4 + rng.standard_normal((rows, 5))).astype(dtype)
    total = base.rough_column_sums(X, np)
    assert total.dtype == np.float64
    np.testing.assert_allclose(total, X.astype(float).sum(axis=0), rtol=4 * np.finfo(dtype).eps)


def test_rough_sums_of_many_entries_are_accurate():
    """Sums in single precision would lose small terms."""
    X = np.full((200_000, 1), 1.0 + 2.0**-20, dtype=np.float32)
    assert base.rough_column_sums(X, np)[0] == pytest.approx(200_000 * (1.0 + 2.0**-20), rel=1e-7)
