"""Panel as users meet it: what is chosen, what is said, for every kind of rows and table."""

import warnings

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pytest
from factor_models import drawn, random_model
from scipy import sparse
from sklearn.base import clone

from prosparse import (
    InputError,
    NoStructureWarning,
    Panel,
    ParameterError,
    ShortPanelWarning,
    load,
    save,
)
from prosparse.models.panel import factors
from prosparse.models.panel.factors import Factors

P = 18
NAMES = [f"gene {k}" for k in range(P)]


def structured(seed=0, n=90, p=P, r=3):
    rng = np.random.default_rng(seed)
    W, psi = random_model(rng, p, r)
    return drawn(Factors(2.0 * W, psi), n, rng) + rng.uniform(-3.0, 3.0, p)


def counted(seed=0, n=80, p=25, depth=400):
    """Multinomial rows of two kinds of cells, of different totals."""
    rng = np.random.default_rng(seed)
    shares = rng.gamma(0.7, 1.0, (3, p)) + 0.02
    mixed = rng.dirichlet(np.ones(3), n) @ (shares / shares.sum(axis=1, keepdims=True))
    totals = rng.integers(depth // 2, 2 * depth, n)
    return np.array([rng.multinomial(t, one) for t, one in zip(totals, mixed, strict=True)], float)


@pytest.fixture(scope="module")
def X():
    return structured()


@pytest.fixture(scope="module")
def frame(X):
    return pd.DataFrame(X, columns=NAMES)


@pytest.fixture(scope="module")
def model(frame):
    return Panel(5).fit(frame)


# --- what is found


def test_attributes(model):
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
    for name in ("heldout_r2_path_", "heldout_r2_path_std_", "relative_r2_path_", "bound_path_"):
        assert getattr(model, name).shape == (5,)
    assert np.all(model.criterion_path_ <= model.bound_path_)
    assert np.all(model.heldout_r2_[model.support_] == 1.0)
    np.testing.assert_allclose(model.relevance_, model.communality_ / model.communality_.max())
    assert model.attainable_r2_ == pytest.approx(model.communality_.mean())
    assert model.heldout_r2_by_group_ == {}
    assert model.depth_ == 0.0
    others = model.communality_[~model.support_]
    np.testing.assert_array_equal(
        np.argsort(-others, kind="stable"), np.argsort(model.ranking_[~model.support_])
    )


def test_one_of_each_family_is_chosen():
    """Five times four copies with noise: a panel has one of each, the most relevant have not."""
    rng = np.random.default_rng(3)
    kinds = rng.standard_normal((100, 5)) * np.array([1.0, 1.0, 1.0, 1.0, 1.0])
    X = np.repeat(kinds, 4, axis=1) + 0.4 * rng.standard_normal((100, 20))
    found = Panel(5).fit(X)
    assert sorted(found.order_ // 4) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(found.proxy_ // 4, np.arange(20) // 4)
    decided = Panel().fit(X)
    assert sorted(decided.order_[:5] // 4) == [0, 1, 2, 3, 4]
    assert decided.relative_r2_path_[decided.n_selected_ - 1] >= 0.9
    assert np.all(decided.relative_r2_path_[: decided.n_selected_ - 1] < 0.9)


def test_a_share_that_is_easier_to_reach_needs_fewer(frame):
    sizes = [Panel(target_recovery=share).fit(frame).n_selected_ for share in (0.3, 0.6, 0.9)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_scores_and_what_they_rebuild(model, frame, X):
    scores = model.transform(frame)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(scores, Z @ model.components_.T, atol=1e-10)
    rebuilt = model.inverse_transform(scores)
    expected = (scores @ model.loadings_) * X.std(axis=0) + X.mean(axis=0)
    np.testing.assert_allclose(rebuilt, expected, atol=1e-10)
    rest = model.predict_unmeasured(X[:, model.support_])
    np.testing.assert_allclose(rest, rebuilt[:, ~model.support_], atol=1e-10)


def test_score_by_its_definition():
    new = structured(0, n=300)
    model = Panel(5).fit(new[:90])
    new = new[90:]
    mean, scale = model.mean_, model.scale_
    Z, rebuilt = (new - mean) / scale, model.inverse_transform(model.transform(new))
    left = Z - (rebuilt - mean) / scale
    left[:, model.support_] = 0.0
    weights = 1.0 / np.maximum(np.mean(Z**2, axis=0) / 4.0, 1.0)
    expected = 1.0 - np.sum(weights * left**2) / np.sum(weights * Z**2)
    assert model.score(new) == pytest.approx(expected, rel=1e-9)
    assert 0.3 < expected < 1.0


def test_columns_that_hardly_varied_do_not_decide_the_score():
    X = structured(n=180)
    usual = Panel(5, exclude=[3]).fit(X[:90]).score(X[90:])
    X[:90, 3] = 1e-9 * (np.arange(90) == 7)
    assert Panel(5, exclude=[3]).fit(X[:90]).score(X[90:]) == pytest.approx(usual, abs=0.2)
    assert usual > 0.3


def test_stands_for(model):
    told = model.proxied_variables()
    assert list(told) == [NAMES[k] for k in model.order_]
    for name, others in told.items():
        places = [NAMES.index(other) for other in others]
        assert all(model.proxy_[place] == NAMES.index(name) for place in places)
        assert NAMES.index(name) not in places
        shares = model.heldout_r2_[places]
        assert np.all(np.diff(shares) <= 0)
    assert sum(map(len, told.values())) == np.sum(model.proxy_ >= 0) - 5
    renamed = model.proxied_variables([f"v{k}" for k in range(P)])
    assert list(renamed) == [f"v{k}" for k in model.order_]
    assert list(Panel(2).fit(structured()).proxied_variables()) == [
        str(k) for k in Panel(2).fit(structured()).order_
    ]
    with pytest.raises(ParameterError, match="`names` must have 18 names, got 2"):
        model.proxied_variables(["a", "b"])


# --- wishes


def test_keep_and_exclude(frame, X, model):
    worst = int(np.argmax(model.ranking_))
    kept = Panel(4, include=[NAMES[worst]]).fit(frame)
    assert kept.order_[0] == worst
    by_place = Panel(4, include=[worst - P]).fit(X)
    np.testing.assert_array_equal(by_place.order_, kept.order_)
    mask = np.zeros(P, dtype=bool)
    mask[model.order_] = True
    without = Panel(4, exclude=mask).fit(X)
    assert not np.any(without.support_ & mask)
    assert np.all(without.heldout_r2_[mask] < 1.0)
    nothing = Panel(5, exclude=np.zeros(P, dtype=bool), include=None).fit(X)
    np.testing.assert_array_equal(nothing.order_, model.order_)


def test_more_to_keep_than_would_be_enough(X):
    kept = Panel(target_recovery=0.01, include=[0, 1, 2, 3]).fit(X)
    assert set(kept.order_[:4]) == {0, 1, 2, 3}


def test_all_columns_with_some_to_keep(X):
    """There is nobody left to exchange them for."""
    assert sorted(Panel(P, include=[0, 5]).fit(X).order_) == list(range(P))


def test_costs(X, model):
    costs = np.ones(P)
    costs[model.order_[0]] = 1e6
    assert model.order_[0] not in Panel(5, costs=costs).fit(X).order_


@pytest.mark.parametrize("wanted", [None, 4, 7])
@pytest.mark.parametrize("recover", [0.3, 0.9])
def test_bundles_are_never_cut(X, wanted, recover):
    bundles = [slice(0, 3), [3, 4], range(5, 9), [9, 10, 11]]
    found = Panel(wanted, target_recovery=recover, bundles=bundles).fit(X)
    for bundle in (range(3), range(3, 5), range(5, 9), range(9, 12)):
        assert found.support_[list(bundle)].sum() in (0, len(bundle))
    assert wanted is None or found.n_selected_ <= wanted


@pytest.mark.parametrize("recover", [0.2, 0.5, 0.9])
def test_as_many_bundles_as_are_enough(recover):
    """All columns come in threes, and no panel ends within one."""
    for seed in range(3):
        threes = [slice(k, k + 3) for k in range(0, P, 3)]
        found = Panel(target_recovery=recover, bundles=threes).fit(structured(seed))
        assert np.all(found.support_.reshape(-1, 3).sum(axis=1) % 3 == 0)
        ends = np.arange(3, found.n_selected_ + 1, 3)
        assert np.all(found.relative_r2_path_[ends[:-1] - 1] < recover)
        assert found.relative_r2_path_[ends[-1] - 1] >= recover


def test_a_bundle_is_kept_or_left_out_as_a_whole(frame):
    bundles = [NAMES[0:3], NAMES[3:5]]
    found = Panel(6, include=[NAMES[1]], exclude=[NAMES[4]], bundles=bundles).fit(frame)
    assert set(found.order_[:3]) == {0, 1, 2}
    assert not found.support_[3:5].any()


# --- what is refused, and what is warned of

REFUSED = {
    "n_features": [(0, "at least 1 or None"), (2.5, "integer"), (19, "at most 18"), ("3", "integ")],
    "recover": [(0.0, "between 0 and 1"), (1, "between"), ("much", "between"), (np.nan, "betw")],
    "criterion": [("size", "'reconstruction', 'information'"), (None, "one of")],
    "keep": [
        (["gene 77"], "names 'gene 77', which is not a column of X"),
        ([18], "`keep` names column 18; X has 18 columns"),
        (3, "`keep` must be names, a slice or positions, got 3"),
        (np.array(3), "`keep` must be names"),
        ([[1, 2], [3]], "`keep` must be names"),
    ],
    "exclude": [(2.5, "`exclude` must be names"), (lambda: 1, "`exclude` must be names")],
    "costs": [
        (np.zeros(18), "one positive number for each of the 18 columns.*smallest of 0"),
        (np.ones(3), r"got shape \(3,\)"),
        ("dear", "`costs` must hold numbers"),
        (np.full(18, np.nan), "positive number"),
    ],
    "bundles": [
        ("ab", "must be a list of column groups"),
        (3, "must be a list of column groups"),
        ([[0, 1], [1, 2]], "column 'gene 1' is in more than one of `bundles`"),
        ([[0, 99]], "bundle 0 of `bundles` names column 99"),
        ([3], "bundle 0 of `bundles` must be names"),
    ],
    "counts": [("yes", "True or False"), (1, "True or False")],
}


@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [(parameter, value, words) for parameter, cases in REFUSED.items() for value, words in cases],
)
def test_wrong_parameters_are_refused_in_words(parameter, value, words, frame):
    with pytest.raises(ParameterError, match=words):
        Panel(**{parameter: value}).fit(frame)


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"keep": [2], "exclude": [2]}, "'gene 2' is in `keep` and in `exclude`"),
        ({"keep": [2], "exclude": [1], "bundles": [[1, 2]]}, "itself or with its bundle"),
        ({"n_features": 2, "keep": [1, 2, 3]}, "`keep` has 3 columns"),
        ({"n_features": 2, "keep": [1], "bundles": [[1, 2, 3]]}, "`keep` has 3 columns"),
        ({"n_features": 9, "exclude": range(10)}, "at most 8"),
        ({"n_features": 2, "bundles": [slice(0, 9), slice(9, 18)]}, "at least 9, the columns of"),
        ({"exclude": slice(None)}, r"`exclude` leaves no column to select: it has 18 of the 18"),
        ({"exclude": [0], "bundles": [slice(None)]}, "`exclude` leaves no column to select"),
        ({"n_features": 1, "exclude": range(18)}, "`exclude` leaves no column to select"),
    ],
)
def test_wishes_that_cannot_be_fulfilled(wishes, words, frame):
    with pytest.raises(ParameterError, match=words):
        Panel(**wishes).fit(frame)


def test_a_constant_column_cannot_be_kept(frame):
    still = frame.assign(**{"gene 4": 7.0})
    with pytest.raises(ParameterError, match="column 'gene 4' of `keep` is constant"):
        Panel(3, include=["gene 4"]).fit(still)
    found = Panel(3, bundles=[["gene 3", "gene 4"]]).fit(still)
    assert not found.support_[4]
    assert found.heldout_r2_[4] == 0.0
    assert found.proxy_[4] == -1
    with pytest.raises(ParameterError, match="at most 17"):
        Panel(18).fit(still)


def test_only_constant_columns_are_not_excluded(frame):
    with pytest.raises(ParameterError, match=r"17 of the 18 columns .* the others are constant"):
        Panel(exclude=slice(1, None)).fit(frame.assign(**{"gene 0": 7.0}))


def test_tables_that_are_too_small(X):
    with pytest.raises(InputError, match=r"5 rows .* are too few to hold some out: at least 6"):
        Panel().fit(X[:5])
    with pytest.raises(InputError, match="constant"):
        Panel().fit(np.column_stack([X[:, 0], np.ones((90, 3))]))
    with pytest.raises(ParameterError, match=r"`groups` must have one label .* 90 rows"):
        Panel().fit(X, groups=[1, 2])
    with pytest.raises(ParameterError, match="1 of the 90 have none"):
        Panel().fit(X, groups=np.where(np.arange(90) == 3, np.nan, 1.0))


def test_no_structure(rng):
    with pytest.warns(NoStructureWarning, match="Panel: held-out rows confirm no common structure"):
        found = Panel(3).fit(rng.standard_normal((200, 15)))
    assert found.n_selected_ == 3
    assert found.attainable_r2_ < 0.01


@pytest.mark.parametrize(("n", "p"), [(100, 20), (40, 200), (30, 10)])
def test_noise_is_called_so_whatever_its_shape(n, p):
    for seed in range(3):
        with pytest.warns(NoStructureWarning):
            Panel(3).fit(np.random.default_rng(seed).standard_normal((n, p)))


def test_nothing_in_common_at_all():
    """Then there are no latent scores, and all variables are told by their means."""
    X = np.random.default_rng(11).standard_normal((50, 4))
    with pytest.warns(NoStructureWarning):
        found = Panel(2).fit(X)
    assert found.n_components_ == 0
    means = np.tile(X.mean(axis=0), (50, 1))
    np.testing.assert_allclose(found.inverse_transform(found.transform(X)), means, atol=1e-12)
    rest, deviation = found.predict_unmeasured(X[:, found.support_], return_std=True)
    np.testing.assert_allclose(rest, means[:, ~found.support_], atol=1e-12)
    assert np.all(deviation > 0)


@pytest.mark.parametrize("criterion", ["reconstruction", "information"])
@pytest.mark.parametrize(("wanted", "selected"), [(1, 1), (None, 1), (2, 2)])
def test_columns_that_vary_in_one_row_have_no_factor(wanted, selected, criterion):
    """Without this row the columns are constant, so that no component can be validated."""
    X = np.zeros((20, 40))
    X[3] = 1.0
    with pytest.warns(NoStructureWarning):
        found = Panel(wanted, criterion=criterion).fit(X)
    assert (found.n_selected_, found.n_components_) == (selected, 0)
    np.testing.assert_allclose(
        found.heldout_r2_path_, np.arange(1, len(found.heldout_r2_path_) + 1) / 40
    )


def test_folds_without_variance_have_no_part_in_the_path():
    """All held-out rows but two are at the mean; these two determine the path."""
    X = np.zeros((20, 4))
    X[3], X[4] = 1.0, -1.0
    found = Panel(4).fit(X)
    assert found.heldout_r2_path_[0] == pytest.approx(0.9997)
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
    monkeypatch.setattr(factors, "MOST_HELD_OUT", 2)
    splits = factors.splits_of(np.ones(30, dtype=bool), factors.FOLDS_OF_FEW, None, 0)
    never, never_either, *_ = np.flatnonzero(~np.any([split.held_out for split in splits], axis=0))
    X = np.zeros((30, 3))
    X[never], X[never_either] = 1.0, -1.0
    with pytest.raises(InputError, match="none of the 20 rows held out for validation differs"):
        Panel(2).fit(X)


def test_no_panel_recovers_so_much(monkeypatch):
    """Only panels of up to five columns are tried."""
    monkeypatch.setattr("prosparse.models.panel.model.LONGEST", 2)
    X = structured(r=6)
    with pytest.warns(ShortPanelWarning, match=r"Panel: 2 variables recover 0\.\d+ of .* 0.99"):
        found = Panel(target_recovery=0.99).fit(X)
    assert found.n_selected_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Panel(2).fit(X)  # a number was asked for: no promise is broken


def test_a_longer_panel_that_is_worse_breaks_no_promise(monkeypatch, X):
    """What counts is the panel, not the longest that was tried."""
    from prosparse.models.panel import model

    path = model.path_of

    def falling(*arguments):
        found = path(*arguments)
        ratio = np.full(found.ratio.size, 0.1)
        ratio[3] = 0.95
        return found._replace(ratio=ratio)

    monkeypatch.setattr(model, "path_of", falling)
    assert Panel().fit(X).n_selected_ == 4


# --- groups of rows


def test_groups_are_compared_within(rng):
    """Two columns differ between donors alone: they have nothing in common within."""
    donor = np.repeat(np.arange(6), 25)
    X = structured(n=150)
    X[:, :2] = 8.0 * rng.standard_normal(6)[donor][:, None] + rng.standard_normal((150, 2))
    plain, within = Panel(4).fit(X), Panel(4).fit(X, groups=donor)
    assert plain.communality_[:2].min() > 0.8
    assert within.communality_[:2].max() < 0.2
    assert not within.support_[:2].any()
    assert list(within.heldout_r2_by_group_) == ["0", "1", "2", "3", "4", "5"]
    assert all(0.1 < share < 1.0 for share in within.heldout_r2_by_group_.values())


def test_a_table_that_is_centred_in_its_groups_already(monkeypatch):
    """With the same rows held out, the means of groups have nothing to take off."""
    label = np.array(["b", "a", "c"])[np.arange(90) % 3]
    X = pd.DataFrame(structured())
    X = (X - X.groupby(label).transform("mean")).to_numpy()
    monkeypatch.setattr(
        "prosparse.models.panel.model.splits_of",
        lambda rows, count, codes, seed: factors.splits_of(rows, count, None, seed),
    )
    found, plain = Panel(4).fit(X, groups=label), Panel(4).fit(X)
    assert list(found.heldout_r2_by_group_) == ["a", "b", "c"]
    np.testing.assert_array_equal(found.order_, plain.order_)
    for name in ("scale_", "communality_", "heldout_r2_", "heldout_r2_path_", "unmeasured_std_"):
        np.testing.assert_allclose(getattr(found, name), getattr(plain, name), atol=1e-8)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_columns_that_differ_between_groups_alone(make, frame):
    """Within each of them they are constant, and are treated so."""
    group = np.arange(90) % 3
    X = structured()
    X[:, 2], X[:, 5] = 1.7 * group, group == 1
    found = Panel(4).fit(make(X), groups=group)
    np.testing.assert_array_equal(np.flatnonzero(~found.varying_), [2, 5])
    rest = np.delete(np.arange(P), [2, 5])
    without = Panel(4).fit(X[:, rest], groups=group)
    np.testing.assert_array_equal(found.order_, rest[without.order_])
    np.testing.assert_allclose(found.heldout_r2_[rest], without.heldout_r2_, atol=1e-10)
    assert np.all(found.heldout_r2_[[2, 5]] == 0.0)
    assert np.isfinite(found.predict_unmeasured(X[:, found.support_])).all()
    with pytest.raises(ParameterError, match="column 2 of `keep` is constant"):
        Panel(4, include=[2]).fit(X, groups=group)


def test_groups_that_leave_nothing(X):
    with pytest.raises(ParameterError, match=r"88 labels for 90 rows.* at least 5 more rows"):
        Panel(4).fit(X, groups=np.minimum(np.arange(90), 87))
    copies = X[:30][np.arange(90) // 3]
    with pytest.raises(InputError, match="0 of the 18 columns of X that vary do so within groups"):
        Panel(4).fit(copies, groups=np.arange(90) // 3)


def test_the_whole_is_what_groups_recover_together():
    label = np.arange(90) % 3
    found = Panel(4).fit(structured(), groups=label)
    shares = np.array(list(found.heldout_r2_by_group_.values()))
    assert shares.min() - 1e-9 <= found.heldout_r2_.mean() <= shares.max() + 1e-9


# --- kinds of tables


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


def host(values):
    values = values.compute() if hasattr(values, "compute") else values
    values = values.toarray() if sparse.issparse(values) else values
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)


SHAPES = {"tall": (90, 18), "wide": (40, 60)}


@pytest.mark.parametrize("counts", [False, True], ids=["numbers", "counts"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", CONTAINERS)
def test_every_kind_of_table_gives_the_same(kind, shape, counts):
    n, p = SHAPES[shape]
    X = counted(n=n, p=p) if counts else structured(n=n, p=p)
    X[:, 3] = X[:, 3] if counts else 2.0  # constant
    X[np.abs(X) < 0.5] = 0.0
    groups = np.arange(n) % 2
    plain = Panel(5, counts=counts).fit(X, groups=groups)
    table = CONTAINERS[kind](X)
    ours = Panel(5, counts=counts).fit(table, groups=groups)
    np.testing.assert_array_equal(host(ours.order_), plain.order_)
    for name, value in vars(plain).items():
        if isinstance(value, np.ndarray) and name.endswith("_") and value.dtype.kind in "fib":
            found = host(getattr(ours, name))
            np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-7, err_msg=name)
    assert ours.depth_ == plain.depth_
    assert ours.heldout_r2_by_group_ == pytest.approx(plain.heldout_r2_by_group_)
    assert ours.score(table) == pytest.approx(plain.score(X), rel=1e-9)
    scores = ours.transform(table)
    np.testing.assert_allclose(host(scores), plain.transform(X), atol=1e-7)
    np.testing.assert_allclose(
        host(ours.inverse_transform(scores)), plain.inverse_transform(plain.transform(X)), atol=1e-6
    )
    chosen = ours.select(table)
    for found, expected in zip(
        ours.predict_unmeasured(chosen, return_std=True),
        plain.predict_unmeasured(X[:, plain.support_], return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(host(found), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [kind for kind in CONTAINERS if kind not in ("pandas", "polars")])
def test_large_tables_by_their_leading_components(kind, monkeypatch):
    """Where both sides are large: products with the table alone, of any kind."""
    X = structured(n=120, p=40)
    groups = np.arange(120) % 2
    exact = Panel(5).fit(X, groups=groups)
    monkeypatch.setattr(factors, "EXACT_SIDE", 10)
    monkeypatch.setattr(factors, "_RESIDUAL", 1e-6)
    plain, found = (Panel(5).fit(table, groups=groups) for table in (X, CONTAINERS[kind](X)))
    np.testing.assert_array_equal(host(found.order_), exact.order_)
    for name in ("communality_", "heldout_r2_", "heldout_r2_path_"):
        ours = host(getattr(found, name))
        np.testing.assert_allclose(ours, getattr(plain, name), atol=1e-4)
        np.testing.assert_allclose(ours, getattr(exact, name), atol=0.02)


@pytest.mark.parametrize("make", [strict, torched])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_predictions_in_kind(make, dtype, X):
    X = X.astype(dtype)
    fitted = Panel(3).fit(make(X))
    np.testing.assert_array_equal(host(fitted.order_), Panel(3).fit(X).order_)
    rest, deviation = fitted.predict_unmeasured(fitted.select(make(X)), return_std=True)
    assert type(rest) is type(deviation) is type(make(X))
    assert rest.dtype == make(X).dtype
    assert type(fitted.order_) is type(make(X))


# --- counts


def test_counts_are_roots_of_shares():
    X = counted()
    fitted = Panel(6, counts=True).fit(X)
    totals = X.sum(axis=1)
    assert fitted.depth_ == np.median(totals)
    roots = np.sqrt(X * (fitted.depth_ / totals)[:, None])
    np.testing.assert_allclose(fitted.mean_, roots.mean(axis=0))
    np.testing.assert_array_equal(fitted.scale_, 1.0)
    scores = (roots - roots.mean(axis=0)) @ fitted.components_.T
    np.testing.assert_allclose(fitted.transform(X), scores, atol=1e-9)
    # rows that count twice as many of everything say the same
    np.testing.assert_allclose(fitted.transform(2.0 * X), scores, atol=1e-9)
    rebuilt = np.maximum(scores @ fitted.loadings_ + fitted.mean_, 0.0) ** 2
    np.testing.assert_allclose(fitted.inverse_transform(scores), rebuilt, atol=1e-9)


def test_predicted_counts():
    """In the mean of all rows of the right size, be their totals given or guessed."""
    X, new = counted(n=200), counted(n=400)[200:]
    fitted = Panel(8, counts=True).fit(X)
    chosen = new[:, fitted.support_]
    told = fitted.predict_unmeasured(chosen, totals=new.sum(axis=1))
    guessed = fitted.predict_unmeasured(chosen)
    truth = new[:, ~fitted.support_]
    assert told.sum() == pytest.approx(truth.sum(), rel=0.05)
    assert np.corrcoef(told.ravel(), truth.ravel())[0, 1] > 0.9
    assert np.mean((told - truth) ** 2) < np.mean((guessed - truth) ** 2)
    middle, deviation = fitted.predict_unmeasured(chosen, True, totals=new.sum(axis=1))
    inside = np.abs(truth - middle) <= 1.96 * deviation
    assert 0.9 < inside.mean() < 0.99
    doubled = fitted.predict_unmeasured(2.0 * chosen, totals=2.0 * new.sum(axis=1))
    np.testing.assert_allclose(doubled, 2.0 * told)


def test_counts_that_are_none():
    X = counted()
    fitted = Panel(4, counts=True).fit(X)
    with pytest.raises(InputError, match="negative entry, -1: counts"):
        Panel(4, counts=True).fit(X - 1.0)
    empty = X.copy()
    empty[7] = 0.0
    with pytest.raises(InputError, match="row 7 of X has no counts at all"):
        Panel(4, counts=True).fit(empty)
    with pytest.raises(InputError, match="row 7 of X has no counts at all"):
        fitted.transform(empty)
    chosen = X[:, fitted.support_]
    with pytest.raises(ParameterError, match=r"`totals` must have one number .* 80 rows"):
        fitted.predict_unmeasured(chosen, totals=[3.0])
    with pytest.raises(InputError, match="must hold counts"):
        fitted.predict_unmeasured(-chosen)
    nothing = chosen.copy()
    nothing[0] = 0.0
    with pytest.raises(InputError, match="give their `totals`"):
        fitted.predict_unmeasured(nothing)
    assert np.isfinite(fitted.predict_unmeasured(nothing, totals=X.sum(axis=1))).all()


def test_what_was_fitted_to_counts_stays_so():
    """Whatever the parameter says by now."""
    X = counted()
    fitted = Panel(4, counts=True).fit(X)
    chosen = X[:, fitted.support_]

    def said():
        scores = fitted.transform(X)
        rebuilt, rest = fitted.inverse_transform(scores), fitted.predict_unmeasured(chosen)
        return scores, rebuilt, rest, fitted.score(X)

    expected = said()
    fitted.set_params(counts=False)
    for now, before in zip(said(), expected, strict=True):
        np.testing.assert_array_equal(now, before)


# --- predictions of the rest


def test_panels_of_other_columns_are_refused(model, frame, X):
    chosen = frame[[NAMES[k] for k in np.flatnonzero(model.support_)]]
    np.testing.assert_allclose(
        model.predict_unmeasured(chosen), model.predict_unmeasured(X[:, model.support_])
    )
    with pytest.raises(InputError, match="it has others, or another order"):
        model.predict_unmeasured(chosen[chosen.columns[::-1]])
    lacking = chosen.rename(columns={chosen.columns[1]: "other"})
    with pytest.raises(InputError, match=f"it lacks '{chosen.columns[1]}'"):
        model.predict_unmeasured(lacking)
    with pytest.raises(InputError, match=r"must have the 5 columns of the panel.* got 18"):
        model.predict_unmeasured(X)
    with pytest.raises(ValueError, match="NaN"):
        model.predict_unmeasured(np.full((2, 5), np.nan))


# --- parameters and files


def test_saved_and_loaded(tmp_path):
    X, groups = counted(), np.arange(80) % 3
    wishes = {
        "keep": (2,), "exclude": [3, 4], "costs": np.linspace(1, 2, 25), "bundles": [[5, 6]],
    }  # fmt: skip
    fitted = Panel(6, counts=True, **wishes).fit(X, groups=groups)
    again = load(save(fitted, tmp_path / "model"))
    assert again.heldout_r2_by_group_ == fitted.heldout_r2_by_group_
    assert again.proxied_variables() == fitted.proxied_variables()
    assert again.score(X) == fitted.score(X)
    chosen = X[:, fitted.support_]
    np.testing.assert_array_equal(
        again.predict_unmeasured(chosen), fitted.predict_unmeasured(chosen)
    )
    parameters = again.get_params()
    assert (parameters["keep"], parameters["exclude"]) == ((2,), [3, 4])
    assert parameters["bundles"] == [[5, 6]]
    np.testing.assert_array_equal(parameters["costs"], wishes["costs"])
    np.testing.assert_array_equal(clone(again).fit(X, groups=groups).order_, fitted.order_)


def test_names_of_columns_are_saved(frame, tmp_path):
    fitted = Panel(4, include=["gene 3"], exclude="gene 5").fit(frame)
    again = load(save(fitted, tmp_path / "model"))
    assert (again.keep, again.exclude) == (["gene 3"], "gene 5")
    np.testing.assert_array_equal(again.fit(frame).order_, fitted.order_)


def test_seeds(X):
    first = Panel(4, random_state=1).fit(X)
    np.testing.assert_array_equal(first.communality_, Panel(4, random_state=1).fit(X).communality_)
    other = Panel(4, random_state=np.random.RandomState(7)).fit(X)
    assert np.any(first.communality_ != other.communality_)
