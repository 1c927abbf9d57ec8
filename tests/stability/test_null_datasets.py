"""What is chosen of tables that share nothing."""

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config

from prosparse import EMPCA, FDRPCA, GSPPCA, SCA, InputError, Panel, SpinyRegressor
from prosparse.datasets import make_globally_sparse, make_sparse_regression
from prosparse.stability import PermutationNull, permutation_null

pytestmark = pytest.mark.quick

X = make_globally_sparse(60, 30, n_components=2, n_informative=8, random_state=1).X


@pytest.fixture(scope="module")
def by_evidence():
    """Columns of unequal noise: GSPPCA chooses some of any such table."""
    rng = np.random.default_rng(0)
    table = X + rng.normal(size=X.shape) * np.linspace(0.1, 3.0, 30)
    return permutation_null(GSPPCA(2).fit(table), table, 5, random_state=0)


def test_a_test_chooses_nothing_by_chance():
    chance = permutation_null(FDRPCA().fit(X), X, 10, random_state=0)
    assert chance.n_selected >= 8
    assert chance.expected < 0.5
    assert not chance.nothing_more
    assert chance.held == pytest.approx(FDRPCA().fit(X).explained_variance_ratio_.sum())


def test_chance_beside_the_choice(by_evidence):
    assert by_evidence.telling
    mean = by_evidence.counts.mean()
    said = f"{by_evidence.n_selected} of 30 variables chosen; "
    assert by_evidence.headline().startswith(said)
    assert float(by_evidence.headline().removeprefix(said).split()[0]) == pytest.approx(
        mean, rel=0.05
    )
    words = " ".join(by_evidence.summary())
    assert "Of 5 tables with every column shuffled on its own, which share nothing" in words
    assert f"hold {by_evidence.held:.1%} of the variance of all variables" in words
    assert f"they would hold {np.mean(by_evidence.chance_held):.1%}." in words
    assert "GSPPCA on 5 shuffled" in repr(by_evidence)


def test_a_number_that_was_asked_for_says_nothing():
    chance = permutation_null(EMPCA(1, n_nonzero=6, random_state=0).fit(X), X, 3, random_state=0)
    assert chance.asked
    assert not chance.telling
    assert list(chance.counts) == [6, 6, 6]
    assert chance.held > chance.chance_held.max()
    assert not chance.nothing_more
    assert len(chance.summary()) == 1


def test_a_panel_recovers_little_of_a_shuffled_table():
    chance = permutation_null(Panel(5).fit(X), X, 2, random_state=0)
    assert chance.held > chance.chance_held.max()
    assert "held out" in chance.summary()[-1]
    assert chance.chance_held.max() < 0.1


def test_the_response_of_a_regression_is_shuffled():
    data = make_sparse_regression(60, 12, random_state=0)
    model = SpinyRegressor().fit(data.X, data.y)
    chance = permutation_null(model, data.X, 4, y=data.y, random_state=0)
    assert chance.held == pytest.approx(model.score(data.X, data.y))
    assert chance.chance_held.max() < 0.5 < chance.held
    assert "with the response in random order" in chance.summary()[0]
    with pytest.raises(InputError, match="give it as `y`"):
        permutation_null(model, data.X)


def test_within_groups(monkeypatch):
    """Differences between groups stay: they are no structure within them."""
    groups = np.repeat([0, 1], 30)
    table = X + 5.0 * groups[:, None]
    seen = []
    fit = FDRPCA.fit

    def noted(self, X, y=None, *, groups=None):
        seen.append(np.asarray(X))
        return fit(self, X, y, groups=groups)

    model = FDRPCA().fit(table, groups=groups)
    monkeypatch.setattr(FDRPCA, "fit", noted)
    permutation_null(model, table, 1, groups=groups, random_state=0)
    for part in (slice(0, 30), slice(30, 60)):
        np.testing.assert_array_equal(np.sort(seen[0][part], axis=0), np.sort(table[part], axis=0))
    assert not np.array_equal(seen[0], table)


def test_on_tables_of_noise_chance_gives_as_much():
    noise = np.random.default_rng(0).normal(size=(40, 12))
    model = EMPCA(1, n_nonzero=4, random_state=0).fit(noise)
    assert permutation_null(model, noise, 8, random_state=0).nothing_more


@pytest.mark.parametrize(
    ("held", "chance_held", "nothing"),
    [
        (0.5, [0.2, 0.3], False),  # two tables differ by what they will
        (0.29, [0.2, 0.3], True),
        (0.31, [0.2, 0.3, 0.2, 0.3], True),  # larger than all of them, and no wonder
        (0.5, [0.2, 0.3, 0.2, 0.3, 0.25], False),
        (None, [0.2, 0.3], False),
    ],
)
def test_what_stands_out(held, chance_held, nothing):
    counts, sizes = np.full(len(chance_held), 5), np.array(chance_held)
    chance = PermutationNull("GSPPCA", 9, 5, True, counts, held, sizes, "variance")
    assert chance.nothing_more == nothing


def test_there_and_back_as_json(by_evidence):
    again = PermutationNull.from_json(by_evidence.to_json())
    assert again.summary() == by_evidence.summary()
    for wrong in (None, 3, {}, {**by_evidence.to_json(), "counts": []},
                  {**by_evidence.to_json(), "what": "<script>"}):  # fmt: skip
        assert PermutationNull.from_json(wrong) is None


def test_time_is_bounded():
    assert (
        permutation_null(FDRPCA().fit(X), X, 500, random_state=0, max_seconds=0.0).n_permutations
        == 1
    )


def test_names_of_views_survive():
    frame = pd.DataFrame(X, columns=[f"v{k}" for k in range(30)])
    bundles = [["v0", "v1"]]
    model = Panel(4, bundles=bundles).fit(frame)
    assert permutation_null(model, frame, 1, random_state=0).counts[0] == model.support_.sum()


@pytest.mark.parametrize("gaps", [False, True])
def test_factors_without_shares_of_their_own(gaps):
    """SCA's factors are correlated: what they hold is what the plane of them does; of a table with
    gaps that is not known, and nothing is claimed."""
    table = X.copy()
    if gaps:
        table[3, 5] = np.nan
    model = SCA(2, prior="hyperbolic", max_iter=50, tol=1e-4).fit(table)
    chance = permutation_null(model, table, 3, random_state=0)
    assert (chance.held is None) == gaps
    assert not chance.nothing_more
    if not gaps:
        assert chance.held > chance.chance_held.max()


def test_tables_are_the_same_however_many_are_fitted_at_a_time(by_evidence):
    rng = np.random.default_rng(0)
    table = X + rng.normal(size=X.shape) * np.linspace(0.1, 3.0, 30)
    with parallel_config(backend="threading"):
        again = permutation_null(GSPPCA(2).fit(table), table, 5, random_state=0, n_jobs=2)
    np.testing.assert_array_equal(again.counts, by_evidence.counts)
    np.testing.assert_array_equal(again.chance_held, by_evidence.chance_held)


def test_tables_of_which_nothing_is_selected_count_as_nothing():
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(30, 1)) + 0.5 * rng.normal(size=(30, 4))
    X = np.hstack([factor, rng.normal(size=(30, 12))])
    found = permutation_null(SCA().fit(X), X, 6, random_state=0)
    none = found.counts == 0
    assert 0 < none.sum() < 6
    assert np.all(found.chance_held[none] == 0.0)
    assert found.mean_held == pytest.approx(np.sum(found.chance_held[~none]) / 6)
