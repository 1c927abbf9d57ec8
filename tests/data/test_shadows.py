"""Shadow columns of all containers: entries, places, groups, signs."""

import numpy as np
import pytest
from scipy import sparse

from prosparse.data import standardise
from prosparse.data.operators import shadows as shadows_module
from prosparse.data.operators.blocks import BlockedOperator
from prosparse.data.operators.shadows import Centre, draw_shadows, row_permutations
from prosparse.data.operators.sparse import SparseOperator
from prosparse.data.row_adjustment import RowAdjustment
from prosparse.data.row_groups import row_groups, single_group

pytestmark = pytest.mark.quick

N, P, K = 24, 7, 3


def chunked(X):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    return da.from_array(X, chunks=(8, -1))


def strict(X):
    return pytest.importorskip("array_api_strict").asarray(X)


CONTAINERS = {
    "numpy": lambda X: X,
    "strict": strict,
    "csr": sparse.csr_array,
    "dask": chunked,
    "dask of sparse": lambda X: chunked(X).map_blocks(sparse.csr_array),
}


@pytest.fixture
def raw(rng):
    return rng.standard_normal((N, P)) * (rng.random((N, P)) < 0.6)


@pytest.fixture(params=CONTAINERS)
def op(request, raw):
    return standardise(CONTAINERS[request.param](raw), True)[0]


def layers_of(op, shadows):
    """The original columns and each of their shadows, (K + 1, n, p)."""
    Z = np.asarray(op.with_shadows(shadows).dense())
    layers = np.empty((shadows.n_shadows + 1, Z.shape[0], shadows.variables.size))
    p = shadows.variables.size
    for position, column in enumerate(shadows.columns):
        layers[column // p, :, column % p] = Z[:, position]
    return layers


def group_centre(groups, op):
    means = RowAdjustment(groups).fit(op)[0]
    return Centre(groups.codes, means, np.zeros((N, 0)), np.zeros((0, means.shape[1])))


def signed(op, rng, groups=None, variables=None):
    groups = single_group(N) if groups is None else groups
    variables = np.arange(P) if variables is None else variables
    return draw_shadows(groups.codes, variables, K, rng, group_centre(groups, op))


def permuted(op, rng, groups=None, variables=None):
    groups = single_group(N) if groups is None else groups
    variables = np.arange(P) if variables is None else variables
    return draw_shadows(groups.codes, variables, K, rng)


def test_original_columns_are_in_their_layers(op, rng):
    X = np.asarray(op.dense())
    for draw in (signed, permuted):
        shadows = draw(op, rng)
        assert op.with_shadows(shadows).shape == (N, P * (K + 1))
        np.testing.assert_allclose(layers_of(op, shadows)[0], X, atol=1e-12)
        layer = shadows.columns.reshape(K + 1, P) // P
        np.testing.assert_array_equal(np.argmin(layer, axis=0), shadows.original_layer)


def test_permuted_shadows_have_the_same_entries(op, rng):
    layers = layers_of(op, permuted(op, rng))
    for shadow in layers[1:]:
        np.testing.assert_allclose(np.sort(shadow, axis=0), np.sort(layers[0], axis=0), atol=1e-12)
        assert np.all(np.any(np.abs(shadow - layers[0]) > 1e-9, axis=0))


def test_signed_shadows_have_the_same_magnitudes(op, rng):
    layers = layers_of(op, signed(op, rng))
    for shadow in layers[1:]:
        np.testing.assert_allclose(np.abs(shadow), np.abs(layers[0]), atol=1e-12)
        assert np.all(np.any(np.abs(shadow - layers[0]) > 1e-9, axis=0))


def test_originals_and_signed_shadows_have_the_same_rounding_errors(op, rng):
    """An entry has one value for each sign, in all layers: no layer can be distinguished."""
    layers = layers_of(op, signed(op, rng)._replace(n_shadows=6))
    for values in layers.reshape(7, -1).T:
        assert np.unique(values).size <= 2


def test_centres_with_covariates(op, raw, rng):
    """Sums of group means and effects, for blocks, single entries and other units."""
    codes, covariates = np.arange(N) % 3, rng.standard_normal((N, 2))
    means, effects = rng.standard_normal((3, P)), rng.standard_normal((2, P))
    centre = Centre(codes, means, covariates, effects)
    expected = means[codes] + covariates @ effects
    rows, columns = np.array([0, 7, 3]), np.array([2, 5])
    np.testing.assert_allclose(centre.of_block(rows, columns), expected[np.ix_(rows, columns)])
    i, j = np.array([4, 9, 9]), np.array([0, 6, 1])
    np.testing.assert_allclose(centre.of_entries(i, j), expected[i, j])
    shift, factor = rng.standard_normal(P), rng.random(P) + 0.5
    there = centre.in_units(shift, factor).of_block(np.arange(N), np.arange(P))
    np.testing.assert_allclose((there - shift) * factor, expected, atol=1e-12)
    shadows = draw_shadows(codes, np.arange(P), K, rng, centre)
    layers = layers_of(op, shadows)
    X = np.asarray(op.dense())
    for shadow in layers[1:]:
        changed = np.abs(shadow - X) > 1e-9
        np.testing.assert_allclose((shadow + X)[changed] / 2.0, expected[changed], atol=1e-9)


def test_permutations_within_groups_of_observed_rows(rng):
    codes, observed = np.arange(30) % 4, rng.random((30, 50)) < 0.7
    permutations = row_permutations(codes, 50, rng, observed)
    np.testing.assert_array_equal(
        np.sort(permutations, axis=0), np.tile(np.arange(30)[:, None], 50)
    )
    np.testing.assert_array_equal(codes[permutations], np.tile(codes[:, None], 50))
    rows = np.arange(30)[:, None]
    np.testing.assert_array_equal(permutations[~observed], (rows + 0 * permutations)[~observed])
    assert np.mean((permutations != rows)[observed]) > 0.6
    # All six permutations of three observed rows are equally likely.
    three = row_permutations(
        np.zeros(4, dtype=int), 6000, rng, np.tile([[1], [0], [1], [1]], 6000) > 0
    )
    counts = np.unique(three, axis=1, return_counts=True)[1]
    assert counts.size == 6
    np.testing.assert_allclose(counts / 6000, 1 / 6, atol=0.025)


@pytest.mark.parametrize("signs", [False, True])
def test_shadows_have_the_missing_values_of_their_column(signs, rng):
    X = rng.standard_normal((N, P))
    X[rng.random((N, P)) < 0.3] = np.nan
    variables = np.array([0, 0, 1, 2, 2, 2, 3])
    groups = single_group(N)
    centre = Centre(groups.codes, np.zeros((1, P)), np.zeros((N, 0)), np.zeros((0, P)))
    shadows = draw_shadows(groups.codes, variables, K, rng, centre if signs else None, ~np.isnan(X))
    layers = shadows.append_to(X, np.arange(N)).reshape(N, K + 1, P)
    for k in range(K + 1):
        np.testing.assert_array_equal(np.isnan(layers[:, k]), np.isnan(X))
    complete = ~np.isnan(X[:, 3:6]).any(axis=1)  # rows that the columns of a variable share
    for k in range(K + 1):
        moved = layers[:, k, 3:6]
        rows = sorted(map(tuple, np.abs(moved[complete])))
        assert rows == sorted(map(tuple, np.abs(X[complete, 3:6])))


def test_rows_are_permuted_and_centred_within_groups(op, rng):
    groups = row_groups(np.arange(N) % 3, N)
    X = np.asarray(op.dense())
    for shadow in layers_of(op, permuted(op, rng, groups))[1:]:
        for code in range(3):
            rows = groups.codes == code
            np.testing.assert_allclose(
                np.sort(shadow[rows], axis=0), np.sort(X[rows], axis=0), atol=1e-12
            )
    centre = group_centre(groups, op).of_block(np.arange(N), np.arange(P))
    for shadow in layers_of(op, signed(op, rng, groups))[1:]:
        np.testing.assert_allclose(np.abs(shadow - centre), np.abs(X - centre), atol=1e-12)


def test_columns_of_a_variable_move_together(op, raw, rng):
    variables = np.array([0, 0, 1, 2, 2, 2, 3])
    X = np.asarray(op.dense())
    for layer in layers_of(op, permuted(op, rng, variables=variables))[1:]:
        for v in range(4):
            own = variables == v
            rows = sorted(map(tuple, np.round(X[:, own], 8)))
            assert sorted(map(tuple, np.round(layer[:, own], 8))) == rows
    shadows = signed(op, rng, variables=variables)
    assert shadows.original_layer.shape == (4,)
    for layer in layers_of(op, shadows)[1:]:
        changed = np.abs(layer - X) > 1e-9
        for first, second in ((0, 1), (3, 4), (4, 5)):
            both = (raw[:, first] != 0.0) & (raw[:, second] != 0.0)  # zeros may be kept
            np.testing.assert_array_equal(changed[both, first], changed[both, second])


def test_products_agree_with_the_dense_matrix(op, rng):
    """Blocks that are read again have the same shadows."""
    for draw in (signed, permuted):
        augmented = op.with_shadows(draw(op, rng))
        Z = np.asarray(augmented.dense())
        there = op.xp.asarray
        F, Y = rng.standard_normal((Z.shape[1], 2)), rng.standard_normal((N, 2))
        np.testing.assert_allclose(np.asarray(augmented.matmul(there(F))), Z @ F, atol=1e-10)
        np.testing.assert_allclose(np.asarray(augmented.rmatmul(there(Y))), Z.T @ Y, atol=1e-10)
        np.testing.assert_allclose(np.asarray(augmented.gram()), Z.T @ Z, atol=1e-10)
        np.testing.assert_allclose(np.asarray(augmented.outer()), Z @ Z.T, atol=1e-10)
        np.testing.assert_allclose(
            np.asarray(augmented.power_sums(4, there(Y))), (Z**4).T @ Y, atol=1e-9
        )
        columns = np.array([5, 0, 20])
        taken = augmented.take_columns(there(columns))
        np.testing.assert_allclose(np.asarray(taken.dense()), Z[:, columns], atol=1e-12)


def test_sparse_shadows_stay_sparse_and_blocks_are_not_read(rng):
    S = sparse.random_array((200, 40), density=0.05, rng=rng, format="csr")
    op = standardise(S, True)[0]
    p = op.shape[1]
    groups = single_group(200)
    means = RowAdjustment(groups).fit(op)[0]
    for centre in (None, Centre(groups.codes, means, np.zeros((200, 0)), np.zeros((0, p)))):
        augmented = op.with_shadows(draw_shadows(groups.codes, np.arange(p), 2, rng, centre))
        assert isinstance(augmented, SparseOperator)
        assert augmented.S.nnz == 3 * op.S.nnz
    lazy = standardise(chunked(rng.standard_normal((24, 4))), True)[0]
    lazy = lazy.with_shadows(draw_shadows(np.zeros(24, dtype=int), np.arange(4), 1, rng))
    assert isinstance(lazy, BlockedOperator)


def test_chunks_of_columns(op, raw, rng, monkeypatch):
    """The columns of a wide matrix are permuted a few at a time."""
    monkeypatch.setattr(shadows_module, "_ENTRIES_PER_CHUNK", 2 * N)
    test_permuted_shadows_have_the_same_entries(op, rng)
    test_signed_shadows_have_the_same_magnitudes(op, rng)
    test_columns_of_a_variable_move_together(op, raw, rng)


def test_shadows_are_uniform(rng):
    """Each arrangement of the original and the shadow is equally likely."""
    X = np.array([[1.0], [2.0], [3.0]])
    op = standardise(X, True)[0]
    counts = {}
    for _ in range(3000):
        shadows = draw_shadows(np.zeros(3, dtype=int), np.arange(1), 1, rng)
        key = tuple(np.round(np.asarray(op.with_shadows(shadows).dense()), 3).ravel())
        counts[key] = counts.get(key, 0) + 1
    # Twelve arrangements; the identity has the same matrix in both orders.
    assert len(counts) == 11
    probabilities = np.array(sorted(counts.values())) / 3000
    np.testing.assert_allclose(probabilities[:-1], 1 / 12, atol=0.025)
    np.testing.assert_allclose(probabilities[-1], 1 / 6, atol=0.03)
