"""Panel: selection, fitted attributes, containers, counts, warnings and errors."""

import warnings

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pytest
from factor_models import random_model, simulate
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine

from prosparse import (
    InputError,
    NoStructureWarning,
    Panel,
    ParameterError,
    ShortPanelWarning,
    load,
    save,
)
from prosparse.models.panel import folds
from prosparse.models.panel.cross_validation import N_FOLDS_SMALL
from prosparse.models.panel.factors import FactorModel

P = 18
NAMES = [f"gene {k}" for k in range(P)]


def correlated(seed=0, n=90, p=P, r=3):
    rng = np.random.default_rng(seed)
    W, psi = random_model(rng, p, r)
    return simulate(FactorModel(2.0 * W, psi), n, rng) + rng.uniform(-3.0, 3.0, p)


def simulated_counts(seed=0, n=80, p=25, depth=400):
    """Multinomial rows, mixtures of three profiles, with different totals."""
    rng = np.random.default_rng(seed)
    profiles = rng.gamma(0.7, 1.0, (3, p)) + 0.02
    mixed = rng.dirichlet(np.ones(3), n) @ (profiles / profiles.sum(axis=1, keepdims=True))
    totals = rng.integers(depth // 2, 2 * depth, n)
    return np.array([rng.multinomial(t, one) for t, one in zip(totals, mixed, strict=True)], float)


@pytest.fixture(scope="module")
def X():
    return correlated()


@pytest.fixture(scope="module")
def frame(X):
    return pd.DataFrame(X, columns=NAMES)


@pytest.fixture(scope="module")
def model(frame):
    return Panel(5).fit(frame)


# --- selection


def test_fitted_attributes_are_consistent(model):
    assert model.order_.shape == (5,)
    assert model.n_selected_ == 5
    np.testing.assert_array_equal(np.sort(model.order_), np.flatnonzero(model.support_))
    np.testing.assert_array_equal(model.ranking_[model.order_], np.arange(1, 6))
    d = model.n_components_
    assert model.components_.shape == model.loadings_.shape == (d, P)
    assert np.all(model.components_[:, ~model.support_] == 0)
    np.testing.assert_allclose(model.loadings_ @ model.loadings_.T, np.eye(d), atol=1e-10)
    assert np.all(np.diff(model.explained_variance_) <= 0)
    np.testing.assert_allclose(model.explained_variance_ratio_, model.explained_variance_ / P)
    for name in (
        "heldout_r2_path_",
        "heldout_r2_path_std_",
        "relative_r2_path_",
        "relative_r2_path_std_",
    ):
        assert getattr(model, name).shape == (5,)
    assert np.all(model.criterion_path_ <= model.bound_path_)
    assert np.all(model.heldout_r2_[model.support_] == 1.0)
    relevance = model.communality_ / model.communality_.max()
    np.testing.assert_allclose(model.relevance_, relevance, atol=1e-6)
    assert np.all(model.relevance_[model.support_] > 0.0)
    assert model.attainable_r2_ == pytest.approx(model.communality_.mean())
    assert model.heldout_r2_by_group_ == {}
    assert model.depth_ == 0.0
    others = model.communality_[~model.support_]
    np.testing.assert_array_equal(
        np.argsort(-others, kind="stable"), np.argsort(model.ranking_[~model.support_])
    )


def test_one_variable_of_each_redundant_group_is_selected():
    """Five groups of four copies with noise."""
    rng = np.random.default_rng(3)
    factors = rng.standard_normal((100, 5))
    X = np.repeat(factors, 4, axis=1) + 0.4 * rng.standard_normal((100, 20))
    found = Panel(5).fit(X)
    assert sorted(found.order_ // 4) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(found.proxy_ // 4, np.arange(20) // 4)
    automatic = Panel().fit(X)
    assert sorted(automatic.order_[:5] // 4) == [0, 1, 2, 3, 4]
    upper = automatic.relative_r2_path_ + automatic.relative_r2_path_std_
    assert upper[automatic.n_selected_ - 1] >= 0.9
    assert np.all(upper[: automatic.n_selected_ - 1] < 0.9)
    first, last = automatic.n_selected_range_
    assert first <= automatic.n_selected_ <= last


@pytest.mark.parametrize("load_data", [load_wine, load_diabetes])
def test_size_hardly_depends_on_the_seed(load_data):
    data = load_data().data
    sizes = [Panel(random_state=seed).fit(data).n_selected_ for seed in range(5)]
    assert np.ptp(sizes) <= 1


def test_sizes_in_one_frame(model):
    frame = model.path_to_frame()
    assert frame.index.tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(frame["relative_r2"], model.relative_r2_path_)
    np.testing.assert_array_equal(frame["heldout_r2_std"], model.heldout_r2_path_std_)


def test_lower_target_selects_fewer_variables(frame):
    sizes = [Panel(target_recovery=target).fit(frame).n_selected_ for target in (0.3, 0.6, 0.9)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_scores_and_reconstruction(model, frame, X):
    scores = model.transform(frame)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(scores, Z @ model.components_.T, atol=1e-10)
    reconstruction = model.inverse_transform(scores)
    expected = (scores @ model.loadings_) * X.std(axis=0) + X.mean(axis=0)
    np.testing.assert_allclose(reconstruction, expected, atol=1e-10)
    rest = model.predict_unmeasured(X[:, model.support_])
    np.testing.assert_allclose(rest, reconstruction[:, ~model.support_], atol=1e-10)


def test_score_agrees_with_its_definition():
    new = correlated(0, n=300)
    model = Panel(5).fit(new[:90])
    new = new[90:]
    mean, scale = model.mean_, model.scale_
    Z, reconstruction = (new - mean) / scale, model.inverse_transform(model.transform(new))
    residuals = Z - (reconstruction - mean) / scale
    residuals[:, model.support_] = 0.0
    weights = 1.0 / np.maximum(np.mean(Z**2, axis=0) / 4.0, 1.0)
    expected = 1.0 - np.sum(weights * residuals**2) / np.sum(weights * Z**2)
    assert model.score(new) == pytest.approx(expected, rel=1e-9)
    assert 0.3 < expected < 1.0


def test_nearly_constant_columns_do_not_dominate_the_score():
    X = correlated(n=180)
    usual = Panel(5, exclude=[3]).fit(X[:90]).score(X[90:])
    X[:90, 3] = 1e-9 * (np.arange(90) == 7)
    assert Panel(5, exclude=[3]).fit(X[:90]).score(X[90:]) == pytest.approx(usual, abs=0.2)
    assert usual > 0.3


def test_proxied_variables(model):
    proxied = model.proxied_variables()
    assert list(proxied) == [NAMES[k] for k in model.order_]
    for name, others in proxied.items():
        places = [NAMES.index(other) for other in others]
        assert all(model.proxy_[place] == NAMES.index(name) for place in places)
        assert NAMES.index(name) not in places
        assert np.all(np.diff(model.heldout_r2_[places]) <= 0)
    assert sum(map(len, proxied.values())) == np.sum(model.proxy_ >= 0) - 5
    renamed = model.proxied_variables([f"v{k}" for k in range(P)])
    assert list(renamed) == [f"v{k}" for k in model.order_]
    assert list(Panel(2).fit(correlated()).proxied_variables()) == [
        str(k) for k in Panel(2).fit(correlated()).order_
    ]
    with pytest.raises(ParameterError, match="`names` must have 18 names, got 2"):
        model.proxied_variables(["a", "b"])


# --- constraints


def test_include_and_exclude(frame, X, model):
    worst = int(np.argmax(model.ranking_))
    included = Panel(4, include=[NAMES[worst]]).fit(frame)
    assert included.order_[0] == worst
    by_position = Panel(4, include=[worst - P]).fit(X)
    np.testing.assert_array_equal(by_position.order_, included.order_)
    mask = np.zeros(P, dtype=bool)
    mask[model.order_] = True
    without = Panel(4, exclude=mask).fit(X)
    assert not np.any(without.support_ & mask)
    assert np.all(without.heldout_r2_[mask] < 1.0)
    nothing = Panel(5, exclude=np.zeros(P, dtype=bool), include=None).fit(X)
    np.testing.assert_array_equal(nothing.order_, model.order_)


def test_included_variables_exceed_the_sufficient_size(X):
    included = Panel(target_recovery=0.01, include=[0, 1, 2, 3]).fit(X)
    assert set(included.order_[:4]) == {0, 1, 2, 3}


def test_all_columns_with_included_ones(X):
    assert sorted(Panel(P, include=[0, 5]).fit(X).order_) == list(range(P))


def test_costs(X, model):
    costs = np.ones(P)
    costs[model.order_[0]] = 1e6
    assert model.order_[0] not in Panel(5, costs=costs).fit(X).order_


@pytest.mark.parametrize("n_features", [None, 4, 7])
@pytest.mark.parametrize("target", [0.3, 0.9])
def test_bundles_are_not_split(X, n_features, target):
    bundles = [slice(0, 3), [3, 4], range(5, 9), [9, 10, 11]]
    found = Panel(n_features, target_recovery=target, bundles=bundles).fit(X)
    for bundle in (range(3), range(3, 5), range(5, 9), range(9, 12)):
        assert found.support_[list(bundle)].sum() in (0, len(bundle))
    assert n_features is None or found.n_selected_ <= n_features


@pytest.mark.parametrize("target", [0.2, 0.5, 0.9])
def test_size_is_determined_in_whole_bundles(target):
    """All columns are in bundles of three."""
    for seed in range(3):
        threes = [slice(k, k + 3) for k in range(0, P, 3)]
        found = Panel(target_recovery=target, bundles=threes).fit(correlated(seed))
        assert np.all(found.support_.reshape(-1, 3).sum(axis=1) % 3 == 0)
        ends = np.arange(3, found.n_selected_ + 1, 3)
        upper = found.relative_r2_path_ + found.relative_r2_path_std_
        assert np.all(upper[ends[:-1] - 1] < target)
        assert upper[ends[-1] - 1] >= target


def test_bundles_are_included_or_excluded_as_a_whole(frame):
    bundles = [NAMES[0:3], NAMES[3:5]]
    found = Panel(6, include=[NAMES[1]], exclude=[NAMES[4]], bundles=bundles).fit(frame)
    assert set(found.order_[:3]) == {0, 1, 2}
    assert not found.support_[3:5].any()


# --- errors and warnings

INVALID = {
    "n_features_to_select": [
        (0, "at least 1 or None"),
        (2.5, "integer"),
        (19, "at most 18"),
        ("3", "integ"),
    ],
    "target_recovery": [(value, r"in \(0, 1\)") for value in (0.0, 1, "much", np.nan)],
    "include": [
        (["gene 77"], "has 'gene 77', which is not a column of X"),
        ([18], "`include` has column 18, but X has 18 columns"),
        (3, "`include` must be names, a slice or positions, got 3"),
        (np.array(3), "`include` must be names"),
        ([[1, 2], [3]], "`include` must be names"),
    ],
    "exclude": [(2.5, "`exclude` must be names"), (lambda: 1, "`exclude` must be names")],
    "costs": [
        (np.zeros(18), "positive number for each of the 18 columns.*minimum 0"),
        (np.ones(3), r"got shape \(3,\)"),
        ("dear", "`costs` must contain numbers, got 'dear'"),
        (np.full(18, np.nan), "positive number"),
    ],
    "bundles": [
        ("ab", "must be a list of column groups"),
        (3, "must be a list of column groups"),
        ([[0, 1], [1, 2]], "`bundles` contains column 'gene 1' 2 times"),
        ([[0, 99]], "bundle 0 of `bundles` has column 99"),
        ([3], "bundle 0 of `bundles` must be names"),
    ],
    "counts": [("yes", "True or False"), (1, "True or False")],
}


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [(name, value, message) for name, cases in INVALID.items() for value, message in cases],
)
def test_invalid_parameters(parameter, value, message, frame):
    with pytest.raises(ParameterError, match=message):
        Panel(**{parameter: value}).fit(frame)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"include": [2], "exclude": [2]}, "`include` and `exclude` both contain column 'gene 2'"),
        ({"include": [2], "exclude": [1], "bundles": [[1, 2]]}, "directly or in a bundle"),
        (
            {"n_features_to_select": 2, "include": [1, 2, 3]},
            "at least 3, the number of columns in `include`",
        ),
        (
            {"n_features_to_select": 2, "include": [1], "bundles": [[1, 2, 3]]},
            "at least 3, the number of columns in `include`",
        ),
        ({"n_features_to_select": 9, "exclude": range(10)}, "at most 8"),
        (
            {"n_features_to_select": 2, "bundles": [slice(0, 9), slice(9, 18)]},
            "at least 9, the size of the smallest bundle",
        ),
        (
            {"exclude": slice(None)},
            r"`exclude` leaves no column to select: it contains 18 of the 18",
        ),
        ({"exclude": [0], "bundles": [slice(None)]}, "`exclude` leaves no column to select"),
        ({"n_features_to_select": 1, "exclude": range(18)}, "`exclude` leaves no column to select"),
    ],
)
def test_infeasible_constraints(parameters, message, frame):
    with pytest.raises(ParameterError, match=message):
        Panel(**parameters).fit(frame)


def test_constant_column_cannot_be_included(frame):
    constant = frame.assign(**{"gene 4": 7.0})
    with pytest.raises(
        ParameterError, match="`include` contains column 'gene 4', which is constant"
    ):
        Panel(3, include=["gene 4"]).fit(constant)
    found = Panel(3, bundles=[["gene 3", "gene 4"]]).fit(constant)
    assert not found.support_[4]
    assert found.heldout_r2_[4] == 0.0
    assert found.proxy_[4] == -1
    with pytest.raises(ParameterError, match="at most 17"):
        Panel(18).fit(constant)


def test_all_varying_columns_are_excluded(frame):
    with pytest.raises(ParameterError, match=r"17 of the 18 columns .* the others are constant"):
        Panel(exclude=slice(1, None)).fit(frame.assign(**{"gene 0": 7.0}))


def test_invalid_data(X):
    with pytest.raises(InputError, match=r"too few rows .* at least 6 are required"):
        Panel().fit(X[:5])
    with pytest.raises(InputError, match="constant"):
        Panel().fit(np.column_stack([X[:, 0], np.ones((90, 3))]))
    with pytest.raises(ParameterError, match=r"`groups` must have one label .* 90 rows"):
        Panel().fit(X, groups=[1, 2])
    with pytest.raises(ParameterError, match="1 of 90 labels are missing"):
        Panel().fit(X, groups=np.where(np.arange(90) == 3, np.nan, 1.0))


def test_noise_gives_a_warning(rng):
    with pytest.warns(NoStructureWarning, match="Panel: no shared variance in held-out rows"):
        found = Panel(3).fit(rng.standard_normal((200, 15)))
    assert found.n_selected_ == 3
    assert found.attainable_r2_ < 0.01


@pytest.mark.parametrize(("n", "p"), [(100, 20), (40, 200), (30, 10)])
def test_noise_of_different_shapes_gives_a_warning(n, p):
    for seed in range(3):
        with pytest.warns(NoStructureWarning):
            Panel(3).fit(np.random.default_rng(seed).standard_normal((n, p)))


def test_panel_without_scores_predicts_the_means():
    X = np.zeros((50, 120))
    X[3] = 1.0
    with pytest.warns(NoStructureWarning):
        found = Panel(2).fit(X)
    assert found.n_components_ == 0
    means = np.tile(X.mean(axis=0), (50, 1))
    np.testing.assert_allclose(found.inverse_transform(found.transform(X)), means, atol=1e-12)
    rest, std = found.predict_unmeasured(X[:, found.support_], return_std=True)
    np.testing.assert_allclose(rest, means[:, ~found.support_], atol=1e-12)
    assert np.all(std > 0)


@pytest.mark.parametrize(("n_features", "expected"), [(1, 1), (None, 1), (2, 2)])
def test_columns_that_vary_in_one_row_have_no_factor(n_features, expected):
    """Without this row the columns are constant, so that no component can be validated."""
    X = np.zeros((20, 40))
    X[3] = 1.0
    with pytest.warns(NoStructureWarning):
        found = Panel(n_features).fit(X)
    assert (found.n_selected_, found.n_components_) == (expected, 0)
    np.testing.assert_allclose(
        found.heldout_r2_path_, np.arange(1, len(found.heldout_r2_path_) + 1) / 40
    )


def test_folds_without_variance_do_not_contribute_to_the_path():
    """All held-out rows but two are at the mean; these two determine the path."""
    X = np.zeros((20, 4))
    X[3], X[4] = 1.0, -1.0
    found = Panel(4).fit(X)
    assert 0.9997 <= found.heldout_r2_path_[0] < 1.0
    assert found.heldout_r2_path_[-1] == pytest.approx(1.0)
    assert np.all(found.heldout_r2_path_std_ < 1e-9)


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.parametrize("seed", [11, 29, 32])
def test_nearly_equal_large_counts(seed):
    rng = np.random.default_rng(seed)
    counts = np.full((20, 4), 1e8)
    one, other = rng.choice(20, 2, replace=False)
    change = rng.integers(-2, 3, 4)
    counts[one] += change
    counts[other] -= change
    found = Panel(2, counts=True).fit(counts)
    for name in ("heldout_r2_path_", "heldout_r2_path_std_", "relative_r2_path_", "heldout_r2_"):
        assert np.all(np.isfinite(getattr(found, name))), name


def test_held_out_rows_that_do_not_vary(monkeypatch):
    monkeypatch.setattr("prosparse.models.panel.cross_validation.N_REPEATS", 1)
    monkeypatch.setattr(folds, "MAX_HELD_OUT", 2)
    splits = folds.split_rows(np.ones(30, dtype=bool), N_FOLDS_SMALL, None, 0)
    first, second, *_ = np.flatnonzero(~np.any([split.held_out for split in splits], axis=0))
    X = np.zeros((30, 3))
    X[first], X[second] = 1.0, -1.0
    with pytest.raises(InputError, match="none of the 20 rows held out for validation differs"):
        Panel(2).fit(X)


def test_target_that_is_not_reached_gives_a_warning(monkeypatch):
    monkeypatch.setattr("prosparse.models.panel.model.MAX_SIZE", 2)
    X = correlated(r=6)
    with pytest.warns(
        ShortPanelWarning, match=r"2 variables reach a relative R2 of 0\.\d+, less than .*=0.99"
    ):
        found = Panel(target_recovery=0.99).fit(X)
    assert found.n_selected_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Panel(2).fit(X)  # no target


# --- groups


def test_differences_between_groups_are_removed(rng):
    """Two columns share differences between donors only."""
    donor = np.repeat(np.arange(6), 25)
    X = correlated(n=150)
    X[:, :2] = 8.0 * rng.standard_normal(6)[donor][:, None] + rng.standard_normal((150, 2))
    plain, within = Panel(4).fit(X), Panel(4).fit(X, groups=donor)
    assert plain.communality_[:2].min() > 0.7
    assert within.communality_[:2].max() < 0.2
    assert not within.support_[:2].any()
    assert list(within.heldout_r2_by_group_) == ["0", "1", "2", "3", "4", "5"]
    assert all(0.1 < r2 < 1.0 for r2 in within.heldout_r2_by_group_.values())


def test_groups_of_centred_data_change_nothing(monkeypatch):
    """With the same folds."""
    label = np.array(["b", "a", "c"])[np.arange(90) % 3]
    X = pd.DataFrame(correlated())
    X = (X - X.groupby(label).transform("mean")).to_numpy()
    monkeypatch.setattr(
        "prosparse.models.panel.cross_validation.split_rows",
        lambda rows, n_folds, codes, seed: folds.split_rows(rows, n_folds, None, seed),
    )
    monkeypatch.setattr(
        "prosparse.models.panel.cross_validation.can_hold_out_groups", lambda codes: False
    )
    found, plain = Panel(4).fit(X, groups=label), Panel(4).fit(X)
    assert list(found.heldout_r2_by_group_) == ["a", "b", "c"]
    np.testing.assert_array_equal(found.order_, plain.order_)
    for name in ("scale_", "communality_", "heldout_r2_", "heldout_r2_path_", "unmeasured_std_"):
        np.testing.assert_allclose(getattr(found, name), getattr(plain, name), atol=1e-8)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_columns_that_are_constant_within_groups(make, frame):
    group = np.arange(90) % 3
    X = correlated()
    X[:, 2], X[:, 5] = 1.7 * group, group == 1
    found = Panel(4).fit(make(X), groups=group)
    np.testing.assert_array_equal(np.flatnonzero(~found.varying_), [2, 5])
    rest = np.delete(np.arange(P), [2, 5])
    without = Panel(4).fit(X[:, rest], groups=group)
    np.testing.assert_array_equal(found.order_, rest[without.order_])
    np.testing.assert_allclose(found.heldout_r2_[rest], without.heldout_r2_, atol=1e-10)
    assert np.all(found.heldout_r2_[[2, 5]] == 0.0)
    assert np.isfinite(found.predict_unmeasured(X[:, found.support_])).all()
    with pytest.raises(ParameterError, match="`include` contains column 2, which is constant"):
        Panel(4, include=[2]).fit(X, groups=group)


def test_invalid_groups(X):
    with pytest.raises(ParameterError, match=r"88 labels for 90 rows.* at least 5 more rows"):
        Panel(4).fit(X, groups=np.minimum(np.arange(90), 87))
    copies = X[:30][np.arange(90) // 3]
    with pytest.raises(InputError, match="0 of the 18 varying columns of X vary within groups"):
        Panel(4).fit(copies, groups=np.arange(90) // 3)


def test_r2_of_all_rows_is_between_those_of_the_groups():
    label = np.arange(90) % 3
    found = Panel(4).fit(correlated(), groups=label)
    r2 = np.array(list(found.heldout_r2_by_group_.values()))
    assert r2.min() - 1e-9 <= found.heldout_r2_.mean() <= r2.max() + 1e-9


def studies(n=90, p=18, shift=3.0):
    """Three studies with the same factors and different means."""
    rng = np.random.default_rng(5)
    X = correlated(n=3 * n, p=p)
    return [X[k * n : (k + 1) * n] + shift * rng.standard_normal(p) for k in range(3)]


def test_list_of_studies_is_equivalent_to_groups():
    tables = studies()
    codes = np.repeat([0, 1, 2], 90)
    found, grouped = Panel(4).fit(tables), Panel(4).fit(np.concatenate(tables), groups=codes)
    assert found.held_out_ == "groups"
    np.testing.assert_array_equal(found.order_, grouped.order_)
    assert found.heldout_r2_by_group_ == grouped.heldout_r2_by_group_
    # Data frames have the columns that all studies have, in the order of the first.
    frames = [pd.DataFrame(X, columns=NAMES) for X in tables]
    frames[1] = frames[1][NAMES[::-1]]
    frames[2] = frames[2].assign(other=1.0)
    named = Panel(4).fit(frames)
    np.testing.assert_array_equal(named.order_, found.order_)
    assert list(named.feature_names_in_) == NAMES
    with pytest.raises(ParameterError, match="`groups` must be None"):
        Panel(4).fit(tables, groups=codes)
    with pytest.raises(InputError, match="must have the same columns"):
        Panel(4).fit([tables[0], tables[1][:, :5]])


def test_r2_of_a_new_study():
    """The R2 of each study is that of a panel selected in the others."""
    tables = studies()
    model = Panel(4).fit(tables)
    for k, new in enumerate(tables):
        others = Panel(4).fit([table for j, table in enumerate(tables) if j != k])
        score = others.score(new, groups=np.zeros(90))
        assert model.heldout_r2_by_group_[str(k)] == pytest.approx(score, abs=0.05)
        assert others.score(new) < score  # around the means of the other studies
    named = Panel(4).fit([pd.DataFrame(table, columns=NAMES) for table in tables])
    gaps = pd.DataFrame(tables[0], columns=NAMES)
    complete = named.score(gaps, groups=np.zeros(90))
    gaps.iloc[0, 0] = np.nan
    assert named.score(gaps, groups=np.zeros(90)) == pytest.approx(complete, abs=0.01)


def test_rows_are_held_out_if_a_group_is_too_large():
    X = correlated()
    model = Panel(4).fit(X, groups=np.arange(90) < 70)
    assert model.held_out_ == "rows"
    assert set(model.heldout_r2_by_group_) == {"False", "True"}


# --- containers


def strict(X):
    return array_api_strict.asarray(X)


def torched(X):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return torch.asarray(X)


def chunked(X):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    return da.from_array(X, chunks=(17, -1))


CONTAINERS = {
    "csr": sparse.csr_array,
    "csc matrix": sparse.csc_matrix,
    "pandas": lambda X: pd.DataFrame(X, columns=[f"v{k}" for k in range(X.shape[1])]),
    "polars": lambda X: pl.DataFrame(X, schema=[f"v{k}" for k in range(X.shape[1])]),
    "strict": strict,
    "torch": torched,
    "dask": chunked,
    "dask of sparse": lambda X: chunked(X).map_blocks(sparse.csr_array),
}


def to_array(values):
    values = values.compute() if hasattr(values, "compute") else values
    values = values.toarray() if sparse.issparse(values) else values
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)


SHAPES = {"tall": (90, 18), "wide": (40, 60)}


@pytest.mark.parametrize("counts", [False, True], ids=["numbers", "counts"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("container", CONTAINERS)
def test_all_containers_give_the_same_result(container, shape, counts):
    n, p = SHAPES[shape]
    X = simulated_counts(n=n, p=p) if counts else correlated(n=n, p=p)
    X[:, 3] = X[:, 3] if counts else 2.0  # constant
    X[np.abs(X) < 0.5] = 0.0
    groups = np.arange(n) % 2
    plain = Panel(5, counts=counts).fit(X, groups=groups)
    table = CONTAINERS[container](X)
    model = Panel(5, counts=counts).fit(table, groups=groups)
    np.testing.assert_array_equal(to_array(model.order_), plain.order_)
    for name, value in vars(plain).items():
        if isinstance(value, np.ndarray) and name.endswith("_") and value.dtype.kind in "fib":
            found = to_array(getattr(model, name))
            np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-7, err_msg=name)
    assert model.depth_ == plain.depth_
    assert model.heldout_r2_by_group_ == pytest.approx(plain.heldout_r2_by_group_)
    assert model.score(table) == pytest.approx(plain.score(X), rel=1e-9)
    scores = model.transform(table)
    np.testing.assert_allclose(to_array(scores), plain.transform(X), atol=1e-7)
    np.testing.assert_allclose(
        to_array(model.inverse_transform(scores)),
        plain.inverse_transform(plain.transform(X)),
        atol=1e-6,
    )
    selected = model.select(table)
    for found, expected in zip(
        model.predict_unmeasured(selected, return_std=True),
        plain.predict_unmeasured(X[:, plain.support_], return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(to_array(found), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "container", [name for name in CONTAINERS if name not in ("pandas", "polars")]
)
def test_leading_components_of_large_data(container, monkeypatch):
    X = correlated(n=120, p=40)
    groups = np.arange(120) % 6
    monkeypatch.setattr("prosparse.models.panel.guide.EMPIRICAL_WEIGHTS", (0.0,))
    exact = Panel(5).fit(X, groups=groups)
    monkeypatch.setattr(folds, "EXACT_SIDE", 10)
    monkeypatch.setattr(folds, "_TOLERANCE", 1e-6)
    plain, found = (Panel(5).fit(table, groups=groups) for table in (X, CONTAINERS[container](X)))
    np.testing.assert_array_equal(to_array(found.order_), exact.order_)
    for name in ("communality_", "heldout_r2_", "heldout_r2_path_"):
        values = to_array(getattr(found, name))
        np.testing.assert_allclose(values, getattr(plain, name), atol=1e-4)
        np.testing.assert_allclose(values, getattr(exact, name), atol=0.02)


@pytest.mark.parametrize("make", [strict, torched])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_predictions_keep_the_array_library(make, dtype, X):
    X = X.astype(dtype)
    fitted = Panel(3).fit(make(X))
    np.testing.assert_array_equal(to_array(fitted.order_), Panel(3).fit(X).order_)
    rest, std = fitted.predict_unmeasured(fitted.select(make(X)), return_std=True)
    assert type(rest) is type(std) is type(make(X))
    assert rest.dtype == make(X).dtype
    assert type(fitted.order_) is type(make(X))


# --- counts


def test_counts_are_square_roots_of_proportions():
    X = simulated_counts()
    fitted = Panel(6, counts=True).fit(X)
    totals = X.sum(axis=1)
    assert fitted.depth_ == np.median(totals)
    roots = np.sqrt(X * (fitted.depth_ / totals)[:, None])
    np.testing.assert_allclose(fitted.mean_, roots.mean(axis=0))
    np.testing.assert_array_equal(fitted.scale_, 1.0)
    scores = (roots - roots.mean(axis=0)) @ fitted.components_.T
    np.testing.assert_allclose(fitted.transform(X), scores, atol=1e-9)
    # Doubled counts have the same proportions.
    np.testing.assert_allclose(fitted.transform(2.0 * X), scores, atol=1e-9)
    reconstruction = np.maximum(scores @ fitted.loadings_ + fitted.mean_, 0.0) ** 2
    np.testing.assert_allclose(fitted.inverse_transform(scores), reconstruction, atol=1e-9)


def test_predicted_counts():
    """With given and with estimated row totals."""
    X, new = simulated_counts(n=200), simulated_counts(n=400)[200:]
    fitted = Panel(8, counts=True).fit(X)
    selected = new[:, fitted.support_]
    given = fitted.predict_unmeasured(selected, totals=new.sum(axis=1))
    estimated = fitted.predict_unmeasured(selected)
    truth = new[:, ~fitted.support_]
    assert given.sum() == pytest.approx(truth.sum(), rel=0.05)
    assert np.corrcoef(given.ravel(), truth.ravel())[0, 1] > 0.9
    assert np.mean((given - truth) ** 2) < np.mean((estimated - truth) ** 2)
    predictions, std = fitted.predict_unmeasured(selected, True, totals=new.sum(axis=1))
    inside = np.abs(truth - predictions) <= 1.96 * std
    assert 0.9 < inside.mean() < 0.99
    doubled = fitted.predict_unmeasured(2.0 * selected, totals=2.0 * new.sum(axis=1))
    np.testing.assert_allclose(doubled, 2.0 * given)


def test_invalid_counts():
    X = simulated_counts()
    fitted = Panel(4, counts=True).fit(X)
    with pytest.raises(InputError, match="negative entry, -1"):
        Panel(4, counts=True).fit(X - 1.0)
    empty = X.copy()
    empty[7] = 0.0
    with pytest.raises(InputError, match="Row 7 of X has no counts"):
        Panel(4, counts=True).fit(empty)
    with pytest.raises(InputError, match="Row 7 of X has no counts"):
        fitted.transform(empty)
    selected = X[:, fitted.support_]
    with pytest.raises(ParameterError, match=r"`totals` must have one number .* 80 rows"):
        fitted.predict_unmeasured(selected, totals=[3.0])
    with pytest.raises(InputError, match="must contain non-negative counts"):
        fitted.predict_unmeasured(-selected)
    nothing = selected.copy()
    nothing[0] = 0.0
    with pytest.raises(InputError, match="pass their `totals`"):
        fitted.predict_unmeasured(nothing)
    assert np.isfinite(fitted.predict_unmeasured(nothing, totals=X.sum(axis=1))).all()


def test_results_do_not_depend_on_parameters_set_after_fit():
    X = simulated_counts()
    fitted = Panel(4, counts=True).fit(X)
    selected = X[:, fitted.support_]

    def results():
        scores = fitted.transform(X)
        reconstruction, rest = fitted.inverse_transform(scores), fitted.predict_unmeasured(selected)
        return scores, reconstruction, rest, fitted.score(X)

    expected = results()
    fitted.set_params(counts=False)
    for now, before in zip(results(), expected, strict=True):
        np.testing.assert_array_equal(now, before)


# --- predictions


def test_columns_of_the_panel_are_checked(model, frame, X):
    selected = frame[[NAMES[k] for k in np.flatnonzero(model.support_)]]
    np.testing.assert_allclose(
        model.predict_unmeasured(selected), model.predict_unmeasured(X[:, model.support_])
    )
    renamed = selected.rename(columns={selected.columns[1]: "other"})
    with pytest.raises(InputError, match=f"'{selected.columns[1]}' is missing"):
        model.predict_unmeasured(renamed)
    with pytest.raises(ValueError, match="X has 4 features, but Panel is expecting 18"):
        Panel(5).fit(X).predict_unmeasured(X[:, :4])
    with pytest.raises(InputError, match="infinity"):
        model.predict_unmeasured(np.full((2, 5), np.inf))


def test_columns_of_the_panel_suffice(model, frame, X):
    """By name in any order; other columns and their missing values are ignored."""
    selected = frame.loc[:, model.support_]
    shuffled = frame[[*selected.columns[::-1], NAMES[int(np.argmin(model.support_))]]]
    holes = frame.copy()
    holes.loc[:, ~model.support_] = np.nan
    np.testing.assert_allclose(
        model.predict_unmeasured(X[:, model.support_]), model.predict_unmeasured(frame), atol=1e-10
    )
    for table in (selected, shuffled, holes):
        np.testing.assert_allclose(model.transform(table), model.transform(frame), atol=1e-10)
        np.testing.assert_allclose(
            model.predict_unmeasured(table), model.predict_unmeasured(frame), atol=1e-10
        )
        assert abs(model.score(table) - model.score(frame)) < 0.1
    assert model.score(selected) == pytest.approx(model.score(holes))


def test_missing_panel_variables_are_replaced_by_conditional_expectations(model, X):
    panel = X[:20, model.support_].copy()
    panel[::2, 1] = panel[3, 0] = np.nan
    scaled = (panel - model.mean_[model.support_]) / model.scale_[model.support_]
    expected = scaled.copy()
    sigma = model.panel_covariance_
    for row in expected:
        observed = ~np.isnan(row)
        inverse = np.linalg.inv(sigma[np.ix_(observed, observed)])
        row[~observed] = sigma[np.ix_(~observed, observed)] @ inverse @ row[observed]
    scores = expected @ model.components_[:, model.support_].T
    names = [name for name, there in zip(NAMES, model.support_, strict=True) if there]
    table = pd.DataFrame(panel, columns=names)
    np.testing.assert_allclose(model.transform(table), scores, atol=1e-9)
    _, std, lower, upper = model.predict_unmeasured(panel, True, return_interval=True)
    _, plain, low, up = model.predict_unmeasured(X[:20, model.support_], True, return_interval=True)
    assert np.all(std[::2] >= plain[::2])
    assert np.any(std[::2] > 1.01 * plain[::2])
    np.testing.assert_allclose(std[1], plain[1])
    assert np.all((upper - lower)[::2] > 0.0)
    np.testing.assert_allclose(upper[1] - lower[1], up[1] - low[1])


@pytest.mark.parametrize("shape", [(200, 12), (50, 80)])
def test_fit_with_missing_values(shape):
    n, p = shape
    X = correlated(n=n + 200, p=p)
    train, test = X[:n], X[n:]
    holes = train.copy()
    holes[np.random.default_rng(0).random(train.shape) < 0.2] = np.nan
    complete, found = Panel(5).fit(train), Panel(5).fit(holes)
    assert found.score(test) > complete.score(test) - 0.04
    assert abs(found.heldout_r2_path_[-1] - found.score(test)) < 0.1
    holes[:, 3] = np.nan
    with pytest.raises(InputError, match="no observed value in column 3"):
        Panel(5).fit(holes)


def test_missing_values_that_are_not_supported():
    X = simulated_counts()
    X[0, 0] = np.nan
    with pytest.raises(InputError, match="NaN"):
        Panel(3, counts=True).fit(X)
    with pytest.raises(InputError, match="NaN"):
        Panel(3).fit(sparse.csr_array(X))


# --- prediction intervals


def test_conformal_intervals_cover_each_variable():
    """Also in rows with more noise; the widths are those of the definition."""
    rng = np.random.default_rng(0)
    X = correlated(n=900, p=40, r=3) * np.exp(0.4 * rng.standard_normal((900, 1)))
    train, calibration, test = X[:300], X[300:500], X[500:]
    found = Panel(12).fit(train).calibrate(calibration)
    predicted, lower, upper = found.predict_unmeasured(
        test[:, found.support_], return_interval=True
    )
    truth = test[:, ~found.support_]
    inside = (truth >= lower) & (truth <= upper)
    assert 0.93 < inside.mean() < 0.975
    assert inside.mean(axis=0).min() > 0.88
    assert 0.0 < found.interval_exponent_ <= 1.0
    np.testing.assert_allclose(predicted, 0.5 * (lower + upper))
    assert np.all(found.interval_width_[found.support_] == 0.0)


def test_calibration_needs_enough_rows(X):
    found = Panel(4).fit(X[:60])
    with pytest.raises(InputError, match=r"needs 19 rows .* X has 10"):
        found.calibrate(X[60:70])
    found.calibrate(X[60:79])
    # With the smallest number of rows, the largest error is the width.
    error = np.abs(X[60:79, ~found.support_] - found.predict_unmeasured(X[60:79]))
    _, lower, upper = found.predict_unmeasured(X[60:79], return_interval=True)
    ratio = error / (0.5 * (upper - lower))
    np.testing.assert_allclose(ratio.max(axis=0), 1.0)


def test_coverage_of_held_out_values():
    """Per variable, group and fifth of the rows; the worst rows are covered as promised."""
    rng = np.random.default_rng(0)
    X = correlated(n=600, p=30, r=3) * np.exp(0.4 * rng.standard_normal((600, 1)))
    found = Panel(8).fit(X, groups=np.arange(600) % 6)
    coverage = found.heldout_coverage_[~found.support_]
    assert 0.93 < coverage.mean() < 0.98
    assert np.all(found.heldout_coverage_[found.support_] == 1.0)
    by_error = found.heldout_coverage_by_error_
    assert np.argmin(by_error) == 4
    assert by_error[-1] >= 0.92 - 1e-9
    assert by_error.mean() == pytest.approx(coverage.mean(), abs=1e-6)
    by_group = found.heldout_coverage_by_group_
    assert np.mean(list(by_group.values())) == pytest.approx(coverage.mean(), abs=1e-6)


def test_limits_of_r2_per_variable(model):
    r2, lower, upper = model.r2_per_variable_.T
    np.testing.assert_array_equal(r2, model.heldout_r2_)
    assert np.all((lower <= r2) & (r2 <= upper))
    assert np.all(lower[~model.support_] < r2[~model.support_])
    np.testing.assert_array_equal(lower[model.support_], 1.0)


def test_summary_names_variables_that_are_not_predicted(rng):
    X = pd.DataFrame(np.hstack([correlated(n=300, p=6), rng.standard_normal((300, 1))]))
    X.columns = [*"abcdef", "noise"]
    found = Panel(3, exclude="noise").fit(X)
    text = found.summary()
    assert text.startswith("The panel has 3 of 7 variables")
    assert "does not predict 'noise'" in text


# --- parameters and files


def test_saved_model_is_restored(tmp_path):
    X, groups = simulated_counts(), np.arange(80) % 3
    constraints = {
        "include": (2,), "exclude": [3, 4], "costs": np.linspace(1, 2, 25), "bundles": [[5, 6]],
    }  # fmt: skip
    fitted = Panel(6, counts=True, **constraints).fit(X, groups=groups)
    again = load(save(fitted, tmp_path / "model"))
    assert again.heldout_r2_by_group_ == fitted.heldout_r2_by_group_
    assert again.proxied_variables() == fitted.proxied_variables()
    assert again.score(X) == fitted.score(X)
    selected = X[:, fitted.support_]
    np.testing.assert_array_equal(
        again.predict_unmeasured(selected), fitted.predict_unmeasured(selected)
    )
    parameters = again.get_params()
    assert (parameters["include"], parameters["exclude"]) == ((2,), [3, 4])
    assert parameters["bundles"] == [[5, 6]]
    np.testing.assert_array_equal(parameters["costs"], constraints["costs"])
    np.testing.assert_array_equal(clone(again).fit(X, groups=groups).order_, fitted.order_)


def test_column_names_are_saved(frame, tmp_path):
    fitted = Panel(4, include=["gene 3"], exclude="gene 5").fit(frame)
    again = load(save(fitted, tmp_path / "model"))
    assert (again.include, again.exclude) == (["gene 3"], "gene 5")
    np.testing.assert_array_equal(again.fit(frame).order_, fitted.order_)


def test_random_state(X):
    first = Panel(4, random_state=1).fit(X)
    np.testing.assert_array_equal(first.communality_, Panel(4, random_state=1).fit(X).communality_)
    other = Panel(4, random_state=np.random.RandomState(7)).fit(X)
    assert np.any(first.communality_ != other.communality_)
