"""Components, communalities and own variances, against slow loops and known factors."""

import numpy as np
import pytest
from factor_models import covariance, drawn, random_model
from scipy import sparse

from prosparse.data import standardise
from prosparse.data.operators.shifted import within_groups
from prosparse.models.panel import factors
from prosparse.models.panel.factors import (
    FOLDS,
    LEAST_OWN,
    Factors,
    Split,
    common_variances,
    components_from_rows,
    components_of,
    confirmed,
    factor_model,
    held_out_squares,
    left_by_others,
    onto_columns,
    some_rows,
    splits_of,
    steadied,
)


def operator(X):
    """The centred table, in its own units, and as an operator."""
    op, columns = standardise(X)
    dense = X.toarray() if sparse.issparse(X) else X
    return op, (dense - dense.mean(axis=0)) / columns.unit


def table(rng, n, p, r=4):
    """Low rank and noise: leading components are apart from each other."""
    scores = rng.standard_normal((n, r)) * np.geomspace(16.0, 4.0, r)
    axes = np.linalg.qr(rng.standard_normal((p, r)))[0]
    return scores @ axes.T + 0.3 * rng.standard_normal((n, p))


# --- which rows are held out


def folds_of(n, codes=None, seed=0):
    """All rows, each held out once."""
    return splits_of(np.ones(n, dtype=bool), FOLDS, codes, seed)


def with_all(splits):
    """All rows, and then the splits."""
    everybody = np.ones(splits[0].training.size, dtype=bool)
    return [Split(everybody, ~everybody), *splits]


@pytest.mark.parametrize("n", [6, 23, 100])
def test_folds_share_out_the_rows(n):
    folds = np.stack([fold.held_out for fold in folds_of(n)])
    assert folds.shape == (FOLDS, n)
    np.testing.assert_array_equal(folds.sum(axis=0), 1)
    assert np.ptp(folds.sum(axis=1)) <= 1
    assert np.any(folds != np.stack([fold.held_out for fold in folds_of(n, seed=1)]))


def test_some_rows_are_shared_out_alone(rng):
    rows = rng.random(40) < 0.6
    splits = splits_of(rows, 3, None, 0)
    np.testing.assert_array_equal(np.sum([split.held_out for split in splits], axis=0), rows)
    for split in splits:
        np.testing.assert_array_equal(split.training, rows & ~split.held_out)


def test_of_many_rows_some_are_enough_to_hold_out(monkeypatch):
    monkeypatch.setattr(factors, "MOST_HELD_OUT", 7)
    for training, out in folds_of(100):
        assert 0 < out.sum() <= 7
        np.testing.assert_array_equal(training, ~out)


def test_folds_have_the_same_share_of_every_group(rng):
    codes = rng.permutation(np.repeat([0, 1, 2], [50, 25, 6]))
    for fold in folds_of(81, codes):
        counts = np.bincount(codes[fold.held_out], minlength=3)
        assert np.all(np.abs(counts - np.array([10, 5, 1.2])) <= 1)


# --- components


def slow_components(Z, training, out, count):
    """Of the training rows: mean, components and scores of those that are held out."""
    mean = Z[training].mean(axis=0)
    V = np.linalg.svd(Z[training] - mean, full_matrices=False)[2][:count].T
    return mean, V, (Z[out] - mean) @ V


def assert_components(fold, Z, count, tol):
    mean, V, scores = slow_components(Z, fold.training, fold.held_out, count)
    np.testing.assert_allclose(fold.mean, mean, atol=1e-10)
    found = fold.directions(count)
    sign = np.sign(np.sum(found * V, axis=0))
    np.testing.assert_allclose(found * sign, V, atol=tol)
    size = max(1.0, np.abs(scores).max(initial=0.0))
    np.testing.assert_allclose(fold.scores[:, :count] * sign, scores, atol=tol * size)


SHAPES = {"few rows": (23, 40), "few columns": (60, 12), "many of both": (80, 50)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_components_are_those_of_the_rows_that_are_left(shape, make, rng, monkeypatch):
    """By whichever way: of the singular value decomposition."""
    n, p = SHAPES[shape]
    op, Z = operator(make(table(rng, n, p)))
    way = {
        "few rows": "components_from_rows",
        "few columns": "_from_products",
        "many of both": "_leading",
    }
    count, tol = 10, 1e-8
    if shape == "many of both":
        monkeypatch.setattr(factors, "EXACT_SIDE", 10)
        monkeypatch.setattr(factors, "_RESIDUAL", 1e-3)
        count, tol = 4, 1e-3
    for other in set(way.values()) - {way[shape]}:
        monkeypatch.setattr(factors, other, None)  # would fail if it were asked
    splits = folds_of(n)
    whole, *folds = components_of(op, with_all(splits))
    assert not whole.held_out.any()
    assert whole.scores.shape[0] == 0
    for fold, split in zip(folds, splits, strict=True):
        np.testing.assert_array_equal(fold.held_out, split.held_out)
        assert_components(fold, Z, count, tol)
    assert_components(whole, Z, count, tol)


def test_components_where_most_rows_are_never_held_out(rng, monkeypatch):
    monkeypatch.setattr(factors, "MOST_HELD_OUT", 3)
    op, Z = operator(table(rng, 60, 12))
    for fold in components_of(op, with_all(folds_of(60))):
        assert_components(fold, Z, 8, 1e-8)


def test_components_of_a_part_of_the_rows(rng):
    """As a fold needs them that learns everything anew."""
    op, Z = operator(table(rng, 23, 40))
    outer = np.asarray(op.outer())
    for fold in components_from_rows(op, outer, splits_of(rng.random(23) < 0.7, 3, None, 0)):
        assert_components(fold, Z, 8, 1e-8)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_products_with_some_rows(make, rng):
    op, Z = operator(make(table(rng, 23, 12)))
    rows, F, Y = rng.random(23) < 0.4, rng.standard_normal((12, 3)), rng.standard_normal((23, 3))
    np.testing.assert_allclose(some_rows(op, F, rows), Z[rows] @ F, atol=1e-12)
    np.testing.assert_allclose(onto_columns(op, Y[rows], rows), Z[rows].T @ Y[rows], atol=1e-12)
    np.testing.assert_allclose(onto_columns(op, Y), Z.T @ Y, atol=1e-12)


def test_components_of_rows_centred_in_groups(rng):
    codes = rng.permutation(np.arange(60) % 3)
    X = table(rng, 60, 12) + 5.0 * rng.standard_normal((3, 12))[codes]
    op, Z = operator(X)
    op = within_groups(op, codes, np.bincount(codes))
    Z = Z - np.stack([Z[codes == g].mean(axis=0) for g in range(3)])[codes]
    for fold in components_of(op, folds_of(60, codes)):
        assert_components(fold, Z, 8, 1e-8)


# --- held-out rows


def learned(rng, n, p):
    W, psi = random_model(rng, p)
    op, Z = operator(drawn(Factors(W, 0.2 * psi), n, rng) * rng.uniform(0.5, 2.0, p))
    whole, *folds = components_of(op, with_all(folds_of(n)))
    squares = held_out_squares(op, folds)
    return op, Z, whole, folds, squares


@pytest.mark.parametrize(("n", "p"), [(20, 30), (50, 9)])
def test_squares_of_held_out_rows(n, p, rng):
    _, Z, _, folds, squares = learned(rng, n, p)
    for fold, found in zip(folds, squares, strict=True):
        rows = Z[fold.held_out] - Z[~fold.held_out].mean(axis=0)
        np.testing.assert_allclose(found, np.sum(rows**2, axis=0), rtol=1e-10)


@pytest.mark.parametrize(("n", "p"), [(20, 30), (50, 9)])
def test_communalities_by_deleting_every_column(n, p, rng):
    """Each column of the held-out rows regressed on the others, as the model of the rest says."""
    op, Z, whole, folds, squares = learned(rng, n, p)
    # and a little along more components: of 20 rows more than a fold has rows, of 50 fewer
    common = common_variances(whole, folds, squares, Z.var(axis=0))
    common = np.append(common, np.full(3, 0.01))
    models = [factor_model(fold, common, Z.var(axis=0)) for fold in folds]
    assert (models[0].W.shape[1] > np.count_nonzero(folds[0].held_out)) == (n == 20)
    left = np.zeros((len(folds), p))
    for number, (fold, model) in enumerate(zip(folds, models, strict=True)):
        sigma, rows = covariance(model), Z[fold.held_out] - fold.mean
        for j in range(p):
            others = np.delete(np.arange(p), j)
            weights = np.linalg.solve(sigma[np.ix_(others, others)], sigma[others, j])
            left[number, j] = np.sum((rows[:, j] - rows[:, others] @ weights) ** 2)
    told = 1.0 - left.sum(axis=0) / squares.sum(axis=0)
    assert told.max() > 0.2  # there is something to be told
    found = left_by_others(op, folds, squares, models)
    np.testing.assert_allclose(found, left, atol=1e-8 * squares.max())


# --- what is common


def found_common(X):
    op, Z = operator(X)
    whole, *folds = components_of(op, with_all(folds_of(X.shape[0])))
    found = common_variances(whole, folds, held_out_squares(op, folds), Z.var(axis=0))
    return found, X.var() / Z.var()  # in units of X


def test_common_variances_of_known_factors(rng):
    """Of 3,000 rows: the eigenvalues of W W', where own variances are equal."""
    W = np.linalg.qr(rng.standard_normal((30, 3)))[0] * [5.0, 3.5, 2.5]
    found, unit = found_common(drawn(Factors(W, np.full(30, 2.0)), 3000, rng))
    assert found.size == 3
    np.testing.assert_allclose(found * unit, [25.0, 12.25, 6.25], rtol=0.1)


def test_common_variances_with_unequal_noise(rng):
    """A few noisy columns, whose own variances a component must not count as common."""
    W = np.linalg.qr(rng.standard_normal((30, 2)))[0] * [5.0, 3.5]
    psi = np.full(30, 1.0)
    psi[:3] = 4.0
    found, unit = found_common(drawn(Factors(W, psi), 3000, rng))
    assert found[:2] * unit == pytest.approx([25.0, 12.25], rel=0.1)
    assert np.all(found[2:] * unit < 1.0)


@pytest.mark.parametrize(("n", "p"), [(40, 200), (400, 20)])
def test_noise_has_nothing_in_common(n, p, rng):
    found, unit = found_common(rng.standard_normal((n, p)))
    assert found.sum() * unit < 0.02 * p


def test_factor_model_of_components(rng):
    _, Z, whole, folds, squares = learned(rng, 200, 12)
    variances = Z.var(axis=0)
    common = common_variances(whole, folds, squares, variances)
    W, psi = factor_model(whole, common, variances)
    np.testing.assert_allclose(W.T @ W, np.diag(common), atol=1e-8)
    assert np.all(psi >= LEAST_OWN * variances * (1 - 1e-12))
    free = psi > LEAST_OWN * variances
    assert free.any()
    np.testing.assert_allclose((np.sum(W**2, axis=1) + psi)[free], variances[free])


# --- communalities, steadied and put to use


def test_noise_in_communalities_is_evened_out(rng):
    """All columns have the same share: what differs is the noise of 40 rows."""
    measured = 0.3 + 0.12 * rng.standard_normal(500)
    found = steadied(measured, rng.gamma(1.0, 1.0, 500), 40)
    assert np.mean((found - 0.3) ** 2) < 0.2 * np.mean((measured - 0.3) ** 2)


def test_differences_that_many_rows_show_stay(rng):
    measured = rng.uniform(0.0, 0.9, 500)
    found = steadied(measured, rng.gamma(1.0, 1.0, 500), 10_000)
    np.testing.assert_allclose(found, measured, atol=0.01)


def test_columns_of_small_spread_share_less_where_the_table_says_so(rng):
    spread = np.sort(rng.uniform(0.0, 1.0, 800))
    truth = 0.8 * spread
    measured = truth + 0.2 * rng.standard_normal(800)
    found = steadied(measured, spread, 20)
    assert np.mean((found - truth) ** 2) < 0.3 * np.mean((measured - truth) ** 2)


def test_communalities_stay_between_none_and_almost_all():
    found = steadied(np.array([-3.0, -0.2, 0.5, 1.0, 1.0]), np.arange(5.0), 1000)
    assert found.min() == 0.0
    assert found.max() == 1.0 - LEAST_OWN


def test_confirmed_loadings_are_as_long_as_communalities_say(rng):
    model = random_model(rng)
    variances, communality = rng.uniform(1.0, 3.0, 12), rng.uniform(0.0, 0.9, 12)
    communality[4] = 0.0
    found = confirmed(model, communality, variances)
    np.testing.assert_allclose(np.sum(found.W**2, axis=1), communality * variances)
    np.testing.assert_allclose(np.diag(covariance(found)), variances)
    cosine = np.sum(found.W * model.W, axis=1)
    lengths = np.linalg.norm(found.W, axis=1) * np.linalg.norm(model.W, axis=1)
    np.testing.assert_allclose(cosine, lengths)
