"""Selection by knockoffs: symmetry in originals and shadows, rate, power and attributes."""

import numpy as np
import pytest
from scipy import sparse

from prosparse.data import DenseOperator, standardise
from prosparse.data.operators import shadows as shadows_module
from prosparse.data.operators.blocks import BlockedOperator
from prosparse.data.operators.shadows import Centre, Shadows, draw_shadows
from prosparse.data.operators.sparse import SparseOperator
from prosparse.data.row_adjustment import RowAdjustment, intercept
from prosparse.data.row_groups import row_groups, single_group
from prosparse.datasets import make_globally_sparse
from prosparse.structure import Knockoffs, select_shared_by_knockoffs
from prosparse.structure.knockoff_filter import compare_with_shadows
from prosparse.structure.knockoff_selection import (
    data_with_shadows,
    estimate_centre,
    search_statistics,
)


def informative(n, p, q, seed, d=3):
    return make_globally_sparse(
        n, p, n_components=d, n_informative=q, noise=1.0, scale=True, random_state=seed
    )[:2]


def zero_centre(n, p, value=0.0):
    codes = single_group(n).codes
    return Centre(codes, np.full((1, p), value), np.zeros((n, 0)), np.zeros((0, p)))


def statistics_of(op, groups, shadows, seen=None):
    data = data_with_shadows(op, RowAdjustment(groups), shadows, seen)
    return search_statistics(data, shadows.n_shadows + 1, shadows.centre is not None)


def swapped(X, shadows, groups, which):
    """Exchange some columns with their (only) shadows."""
    Z = np.asarray(DenseOperator(X).with_shadows(shadows).dense())
    p = X.shape[1]
    layers = Z.reshape(Z.shape[0], 2, p)
    shadow = layers[:, 1 - shadows.original_layer, np.arange(p)]
    return np.where(which, shadow, X)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("signs", [False, True])
def test_exchanged_columns_and_shadows_exchange_their_statistics(
    signs, grouped, missing, rng, monkeypatch
):
    """Exactly: through equalised rows, screening, members, filled values and ties."""
    n, p = 40, 30
    # Sums and differences of multiples of 1/64 are exact.
    X = np.round(64.0 * informative(n, p, 8, 0)[0]) / 64.0
    X[:, 20] = np.round(X[:, 20])  # few values
    X[:3] *= 4.0  # outlying rows
    X[:, 21] = 0.0
    X[3, 21] = 1.0  # rare: ties between the column and its shadow
    seen = rng.random((n, p)) < 0.9 if missing else None
    if seen is not None:
        X = np.where(seen, X, 0.0)
    groups = row_groups(np.arange(n) % 2, n) if grouped else single_group(n)
    centre = zero_centre(n, p, 0.25) if signs else None
    shadows = draw_shadows(groups.codes, np.arange(p), 1, rng, centre, seen)
    permutations = shadows_module.row_permutations(groups.codes, p, rng, seen)
    monkeypatch.setattr(shadows_module, "row_permutations", lambda *_: permutations)
    before = statistics_of(DenseOperator(X), groups, shadows, seen)
    which = rng.random(p) < 0.5
    X_swapped = swapped(X, shadows, groups, which)
    inverse = np.argsort(permutations, axis=0)
    back = np.where(which, inverse, permutations)
    monkeypatch.setattr(shadows_module, "row_permutations", lambda *_: back)
    layer = np.where(which, 1 - shadows.original_layer, shadows.original_layer)
    swapped_shadows = shadows._replace(original_layer=layer)
    after = statistics_of(DenseOperator(X_swapped), groups, swapped_shadows, seen)
    np.testing.assert_array_equal(before, after)
    W = compare_with_shadows(before, shadows.original_layer)
    W_swapped = compare_with_shadows(after, layer)
    np.testing.assert_array_equal(W_swapped, np.where(which, -W, W))
    assert np.any(which & (W > 0.0))
    assert np.any(W < 0.0)


class KnownShadows(Shadows):
    """Shadows that give a known matrix."""

    matrix = None

    def append_to(self, block, rows):
        return type(self).matrix[rows]


CONTAINERS = {
    "dense": lambda X: X,
    "csr": sparse.csr_array,
    "dask": lambda X: pytest.importorskip("dask.array").from_array(X, chunks=(20, -1)),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("has_design", [False, True])
@pytest.mark.parametrize("signs", [False, True])
def test_any_layer_may_be_the_original(signs, has_design, container, rng, monkeypatch):
    """Three shadows: the statistics are the same, exactly, if a shadow is the given column."""
    n, p, K = 60, 30, 3
    X = informative(n, p, 8, 0)[0] * (rng.random((n, p)) < 0.8)
    X[:3] *= 4.0
    op = standardise(CONTAINERS[container](X), True)[0]
    groups = row_groups(np.arange(n) % 3, n) if has_design else single_group(n)
    covariates = rng.standard_normal((n, 2)) if has_design and signs else None
    adjustment = RowAdjustment(groups, covariates)
    centre = estimate_centre(op, adjustment) if signs else None
    shadows = draw_shadows(groups.codes, np.arange(p), K, rng, centre)
    augmented = op.with_shadows(shadows)
    raw = op.S if container == "csr" else X if container == "dask" else np.asarray(op.dense())
    if container == "csr":
        Z = augmented.S
    elif container == "dask":
        Z = np.vstack([block for _, block in augmented.source.blocks()])
    else:
        Z = np.asarray(augmented.dense())
    layer = np.where(rng.random(p) < 0.5, shadows.original_layer, rng.integers(K + 1, size=p))
    given = Z[:, layer * p + np.arange(p)]
    assert (given != raw).sum() > 0
    if container == "csr":
        swapped_op = SparseOperator(given, op.shift, op.factor, op.dtype)
    elif container == "dask":
        swapped_op = BlockedOperator(
            standardise(CONTAINERS[container](given), True)[0].source, op.standard
        )
    else:
        swapped_op = DenseOperator(given)
    monkeypatch.setattr(KnownShadows, "matrix", Z)
    before, after = (
        search_statistics(data_with_shadows(*each), K + 1, signs)
        for each in (
            (op, adjustment, shadows),
            (swapped_op, adjustment, KnownShadows(*shadows)._replace(original_layer=layer)),
        )
    )
    np.testing.assert_array_equal(before, after)
    W, exchanged = (compare_with_shadows(before, each) for each in (shadows.original_layer, layer))
    np.testing.assert_array_equal(np.abs(W), np.abs(exchanged))
    same = layer == shadows.original_layer
    np.testing.assert_array_equal(W[same], exchanged[same])
    assert np.any(W > 0.0)
    assert np.all(exchanged[~same & (W > 0.0)] < 0.0)


@pytest.mark.parametrize("signs", [False, True])
def test_categories_are_exchanged_as_blocks(signs, rng, monkeypatch):
    """Blocks with missing values, alongside numbers; exactly."""
    n, sizes, K = 60, np.array([1, 2, 1, 3, 1, 1, 2, 1, 1, 1, 1, 1]), 2
    factors, columns = rng.standard_normal((n, 2)), []
    for k, size in enumerate(sizes):
        latent = rng.standard_normal(n)
        if k < 8:
            latent = factors @ rng.standard_normal(2) + 0.4 * latent
        level = np.argsort(np.argsort(latent)) * (size + 1) // n
        columns.append(np.eye(size + 1)[level][:, 1:] if size > 1 or k == 4 else latent[:, None])
    seen = np.repeat(rng.random((n, sizes.size)) < 0.9, sizes, axis=1)
    X, groups = np.where(seen, np.column_stack(columns), 0.0), single_group(n)
    op, p = DenseOperator(X), X.shape[1]
    variables = np.repeat(np.arange(sizes.size), sizes)
    is_category = (sizes > 1) | (np.arange(sizes.size) == 4)
    adjustment = RowAdjustment(groups)
    centre = estimate_centre(op, adjustment, seen, sizes) if signs else None
    shadows = draw_shadows(groups.codes, variables, K, rng, centre, seen, is_category)
    Z = np.asarray(op.with_shadows(shadows).dense())
    for j in np.flatnonzero(is_category[variables]):  # only rows move
        layers = Z[:, j::p]
        assert np.all(np.sort(layers, axis=0) == np.sort(X[:, [j]], axis=0))
    layer = rng.integers(K + 1, size=sizes.size)
    given = Z[:, layer[variables] * p + np.arange(p)]
    monkeypatch.setattr(KnownShadows, "matrix", Z)
    known = KnownShadows(*shadows)._replace(original_layer=layer)
    before, after = (
        search_statistics(data_with_shadows(each, adjustment, own, seen, sizes), K + 1, signs)
        for each, own in ((op, shadows), (DenseOperator(given), known))
    )
    assert before.shape == (K + 1, sizes.size)
    np.testing.assert_array_equal(before, after)
    W = compare_with_shadows(before, shadows.original_layer)
    assert np.mean(W[:8] > 0.0) > 0.7


@pytest.mark.parametrize("signs", [False, True])
def test_engine_treats_all_layers_alike(signs, rng):
    """The statistics follow the columns if these move to other layers."""
    n, p, n_layers = 50, 40, 3
    X = informative(n, p, 10, 1)[0]
    groups = single_group(n)
    centre = zero_centre(n, p) if signs else None
    shadows = draw_shadows(groups.codes, np.arange(p), n_layers - 1, rng, centre)
    moved = shadows._replace(original_layer=rng.integers(n_layers, size=p))
    first = statistics_of(DenseOperator(X), groups, shadows)
    second = statistics_of(DenseOperator(X), groups, moved)
    own = np.arange(p)
    for k in range(n_layers):
        np.testing.assert_allclose(
            first[(shadows.original_layer + k) % n_layers, own],
            second[(moved.original_layer + k) % n_layers, own],
            rtol=1e-5,
            atol=1e-6,
        )


@pytest.mark.parametrize(("signs", "K"), [(False, 1), (False, 4), (True, 1), (True, 4)])
def test_informative_variables_are_selected(signs, K):
    X, truth = informative(100, 80, 20, 2)
    op = standardise(X, True)[0]
    found = select_shared_by_knockoffs(op, intercept(100), Knockoffs(0.1, K, 1, 0, signs))
    assert found.selected[truth].mean() > 0.8
    assert np.sum(found.selected & ~truth) <= 0.3 * found.selected.sum()
    np.testing.assert_array_equal(found.selected, found.filtered.rates <= 0.1)
    assert found.filtered.statistics.shape == (1, 80)
    assert found.pvalues.shape == (80,)


def test_selections_do_not_depend_on_the_container():
    """Permuted columns of a sparse matrix; blocks of rows are permuted within blocks."""
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    X, truth = informative(120, 60, 20, 3)
    for convert in (sparse.csr_array, lambda X: da.from_array(X, chunks=(60, -1))):
        for signs in (False, True):
            op = standardise(convert(X), True)[0]
            found = select_shared_by_knockoffs(op, intercept(120), Knockoffs(0.2, 2, 1, 1, signs))
            assert found.selected[truth].mean() > 0.8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signs", "K", "M"), [(False, 1, 1), (False, 3, 1), (True, 2, 1), (True, 2, 3)]
)
def test_rate_with_rows_that_satisfy_the_null(signs, K, M):
    """Exchangeable lognormal columns, or rows of unequal noise with symmetric entries."""
    q, n_runs, n, p = 0.2, 60, 30, 40
    false = np.zeros(n_runs)
    for run in range(n_runs):
        rng = np.random.default_rng([7, run])
        E = rng.standard_normal((n, p))
        E[:, 12:] = E[:, 12:] if signs else np.exp(1.5 * E[:, 12:])
        E[:, :12] = 1.2 * E[:, :12] + rng.standard_normal((n, 2)) @ rng.standard_normal((2, 12))
        if signs:
            E *= np.exp(0.7 * rng.standard_normal((n, 1)))
        op = standardise(E, True)[0]
        found = select_shared_by_knockoffs(op, intercept(n), Knockoffs(q, K, M, run, signs))
        false[run] = np.sum(found.selected[12:]) / max(1, found.selected.sum())
    assert false.mean() <= q + 2.0 * false.std() / np.sqrt(n_runs)


def test_a_single_variable_is_never_selected(rng):
    """Its smallest rate is that of the second variable."""
    numbers = []
    for seed in range(20):
        op = standardise(rng.standard_normal((20, 4)), True)[0]
        found = select_shared_by_knockoffs(op, intercept(20), Knockoffs(0.8, 9, 1, seed, False))
        rates = found.filtered.rates
        np.testing.assert_array_equal(found.selected, rates <= 0.8)
        np.testing.assert_array_equal(np.sort(rates)[0], np.sort(rates)[1])
        numbers.append(found.selected.sum())
    assert 1 not in numbers
    assert max(numbers) > 1
