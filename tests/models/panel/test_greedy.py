"""Columns one after the other, and exchanged: every fast formula against its definition."""

import numpy as np
import pytest
from factor_models import best_of_all, gained, latent_covariance, random_model

from prosparse.models.panel import greedy as greedy_module
from prosparse.models.panel.factors import Factors
from prosparse.models.panel.greedy import (
    Chosen,
    Wishes,
    bundle_gain,
    choose,
    exchange,
    gains,
    init,
    step,
    unstep,
    whole_sizes,
)

BOTH = ["reconstruction", "information"]


def wishes(p, wanted, keep=(), exclude=(), costs=None, bundles=(), favour=None):
    allowed = np.ones(p, dtype=bool)
    allowed[list(exclude)] = False
    return Wishes(
        wanted,
        np.array(keep, dtype=int),
        allowed,
        np.ones(p) if costs is None else np.asarray(costs, dtype=float),
        [np.array(bundle) for bundle in bundles],
        favour,
    )


def assert_state(model, state, panel):
    """S, t and N as their definitions say."""
    S, W = latent_covariance(model, panel), model.W
    np.testing.assert_allclose(state.S, S, atol=1e-10)
    np.testing.assert_allclose(state.t, np.diag(W @ S @ W.T), atol=1e-10)
    np.testing.assert_allclose(state.N, np.diag(W @ S @ W.T @ W @ S @ W.T), atol=1e-9)


@pytest.mark.parametrize("criterion", BOTH)
def test_gains_are_what_the_criterion_grows_by(criterion, rng):
    model = random_model(rng)
    A = model.W.T @ model.W
    state, panel = init(model, A), []
    for k in [3, 7, 0, 11, 5]:
        before = gained(model, panel, criterion)
        found = gains(model, state, criterion)
        for j in set(range(12)) - set(panel):
            expected = gained(model, [*panel, j], criterion) - before
            assert found[j] == pytest.approx(expected, rel=1e-9, abs=1e-10)
        state = step(model, A, state, k)
        panel.append(k)
        assert_state(model, state, panel)


def test_a_column_that_is_given_up_leaves_the_others(rng):
    model = random_model(rng)
    A = model.W.T @ model.W
    state, panel = init(model, A), [2, 9, 4, 6, 1]
    for k in panel:
        state = step(model, A, state, k)
    for k in panel:
        assert_state(model, unstep(model, A, state, k), [j for j in panel if j != k])


@pytest.mark.parametrize("criterion", BOTH)
def test_what_a_bundle_gains(criterion, rng):
    model = random_model(rng)
    A = model.W.T @ model.W
    state = step(model, A, step(model, A, init(model, A), 1), 8)
    for bundle in ([0], [3, 4], [2, 6, 7, 11]):
        expected = gained(model, [1, 8, *bundle], criterion) - gained(model, [1, 8], criterion)
        found = bundle_gain(model, A, state, np.array(bundle), criterion)
        assert found == pytest.approx(expected, rel=1e-9)


# --- the greedy order


def slow_order(model, wish, criterion):
    """One unit after the other, each by the gain of all that would then be in."""
    p = model.W.shape[0]
    inside = {k for bundle in wish.bundles for k in bundle.tolist()}
    units = [[k] for k in range(p) if k not in inside]
    units += [bundle.tolist() for bundle in wish.bundles]
    kept = set(wish.keep.tolist())
    units = [unit for unit in units if wish.allowed[unit].all() or kept & set(unit)]
    panel = []
    while True:
        fitting = [unit for unit in units if len(panel) + len(unit) <= wish.wanted]
        first = [unit for unit in fitting if kept & set(unit)]
        if not fitting:
            return panel

        def worth(unit, panel=panel):
            more = gained(model, [*panel, *unit], criterion) - gained(model, panel, criterion)
            favoured = np.ones(p) if wish.favour is None else wish.favour
            return more / np.sum(wish.costs[unit] / favoured[unit])

        best = max(first or fitting, key=worth)
        panel = [*panel, *best]
        units.remove(best)


CASES = {
    "plain": {},
    "all columns": {"wanted": 12},
    "keep": {"keep": [8, 3]},
    "exclude": {"exclude": [0, 1, 2, 3, 4]},
    "costs": {"costs": np.geomspace(1.0, 30.0, 12)},
    "bundles": {"bundles": [[0, 5, 7], [2, 3]]},
    "a bundle that is too large": {"bundles": [list(range(8))]},
    "a kept bundle": {"bundles": [[0, 5, 7], [2, 3]], "keep": [0, 5, 7]},
    "favour": {"favour": np.geomspace(0.1, 1.0, 12)},
    "everything": {
        "favour": np.geomspace(1.0, 0.3, 12),
        "keep": [9],
        "exclude": [1],
        "costs": np.geomspace(1.0, 30.0, 12),
        "bundles": [[0, 5], [2, 3, 4]],
    },
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("criterion", BOTH)
def test_every_column_is_worth_most_given_those_before(criterion, case):
    for seed in range(4):
        model = random_model(np.random.default_rng(seed))
        wish = wishes(12, **{"wanted": 6, **CASES[case]})
        found = choose(model, wish, criterion)
        assert found.order.tolist() == slow_order(model, wish, criterion)
        along = [gained(model, found.order[:q], criterion) for q in range(found.order.size + 1)]
        np.testing.assert_allclose(found.gains, np.diff(along), rtol=1e-8, atol=1e-9)
        assert set(found.order[: wish.keep.size]) == set(wish.keep)
        assert wish.allowed[found.order].all()


def test_wishes_are_honoured(rng):
    """Of costs: a column that costs nothing to speak of is taken, one that costs all is not."""
    model = random_model(rng)
    plain = choose(model, wishes(12, 3), "reconstruction").order
    costs = np.ones(12)
    costs[plain[0]] = 1e6
    dear = choose(model, wishes(12, 3, costs=costs), "reconstruction").order
    assert plain[0] not in dear
    kept = choose(model, wishes(12, 3, keep=[int(dear[-1])]), "reconstruction").order
    assert kept[0] == dear[-1]


def test_sizes_at_which_no_bundle_is_cut():
    order = np.array([4, 0, 1, 2, 9, 6, 7])
    wish = wishes(12, 7, bundles=[[0, 1, 2], [6, 7]])
    assert whole_sizes(order, wish).tolist() == [1, 4, 5, 7]
    assert whole_sizes(order, wish._replace(keep=order[:5])).tolist() == [5, 7]
    assert whole_sizes(order, wish._replace(bundles=[])).tolist() == [1, 2, 3, 4, 5, 6, 7]


# --- exchanges


def test_exchanges_against_all_panels():
    """20 columns, 5 of them: greedy finds the best of the 15,504 panels in 23 of 40 models, with
    exchanges in 37; never do these lose anything."""
    greedy_best = exchanged_best = 0
    for seed in range(40):
        model = random_model(np.random.default_rng(seed), p=20, r=5)
        wish = wishes(20, 5)
        greedy = choose(model, wish, "reconstruction")
        after = exchange(model, greedy, wish, "reconstruction")
        best = best_of_all(model, 5, "reconstruction")
        before, now = (gained(model, one.order, "reconstruction") for one in (greedy, after))
        assert sorted(set(after.order.tolist())) == sorted(after.order.tolist())
        assert after.gains.sum() == pytest.approx(now, rel=1e-9)
        assert before <= now * (1 + 1e-12)
        assert now <= best * (1 + 1e-12)
        assert after.bounds[4] >= best * (1 - 1e-12)
        greedy_best += before >= best * (1 - 1e-9)
        exchanged_best += now >= best * (1 - 1e-9)
    assert (greedy_best, exchanged_best) == (23, 37)


def test_exchanges_of_favoured_columns_lose_nothing_of_the_criterion():
    """Every swap gains more, and more as it is favoured; some are made, and a column that is
    favoured above all others stays although another one would gain more."""
    moved = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        model, likes = random_model(rng, p=20, r=5), rng.uniform(0.5, 1.0, 20)
        wish = wishes(20, 5, favour=likes)
        worst = choose(model, wish._replace(favour=likes**-9.0), "reconstruction")
        after = exchange(model, worst, wish, "reconstruction")
        assert gained(model, after.order, "reconstruction") >= worst.gains.sum() * (1 - 1e-9)
        moved += set(after.order) != set(worst.order)
        only = np.full(20, 1e-9)
        only[worst.order] = 1.0
        stays = exchange(model, worst, wish._replace(favour=only), "reconstruction")
        assert set(stays.order) == set(worst.order)
    assert moved > 10


def test_information_within_its_certificate():
    """On 200 models: the best of all panels, which is found each time, is not above the bound, and
    greedy alone reaches at least 1 - 1/e of it."""
    found_best = 0
    for seed in range(200):
        model = random_model(np.random.default_rng(seed), p=12, r=4)
        wish = wishes(12, 4)
        greedy = choose(model, wish, "information")
        after = exchange(model, greedy, wish, "information")
        best = best_of_all(model, 4, "information")
        reached = gained(model, after.order, "information")
        assert reached >= greedy.gains.sum() * (1 - 1e-12)
        assert reached <= best * (1 + 1e-12)
        assert best <= greedy.bounds[3] * (1 + 1e-12)
        assert greedy.gains.sum() >= (1.0 - np.exp(-1.0)) * best
        found_best += reached >= best * (1 - 1e-9)
    assert found_best == 200


@pytest.mark.parametrize("criterion", BOTH)
@pytest.mark.parametrize("case", ["plain", "keep", "bundles", "a bundle that is too large"])
def test_bounds_hold_for_panels_of_every_size(criterion, case):
    for seed in range(5):
        model = random_model(np.random.default_rng(seed), p=12, r=5)
        found = choose(model, wishes(12, **{"wanted": 6, **CASES[case]}), criterion)
        assert np.all(found.bounds >= np.cumsum(found.gains) * (1 - 1e-12))
        for q in range(1, found.order.size + 1):
            assert found.bounds[q - 1] >= best_of_all(model, q, criterion) * (1 - 1e-12)


def test_bounds_where_a_bundle_does_not_fit():
    """Its columns stay part of other panels, whose gains the bound must not forget."""
    W = np.zeros((6, 3))
    W[:3] = 3.0 * np.eye(3)  # the bundle: one column for each latent score
    W[3:, 0] = 0.5
    model = Factors(W, np.ones(6))
    wish = wishes(6, 2, bundles=[[0, 1, 2]])
    found = choose(model, wish, "information")
    assert found.order.tolist() == [3, 4]
    assert found.bounds[1] >= best_of_all(model, 2, "information")


def test_kept_columns_are_not_exchanged():
    """Nor are others, where all that are allowed are in already."""
    for seed in range(20):
        model = random_model(np.random.default_rng(seed))
        wish = wishes(12, 4, keep=[0, 7], exclude=[3])
        after = exchange(model, choose(model, wish, "reconstruction"), wish, "reconstruction")
        assert {0, 7} == set(after.order[:2].tolist())
        assert 3 not in after.order
        everybody = wishes(12, 12, keep=[0, 7])
        chosen = choose(model, everybody, "reconstruction")
        again = exchange(model, chosen, everybody, "reconstruction")
        assert sorted(again.order.tolist()) == list(range(12))
        some = wishes(12, 4, keep=[0, 7], exclude=range(4, 12))
        some.allowed[7] = True
        order = choose(model, some._replace(wanted=5), "reconstruction")
        assert sorted(exchange(model, order, some, "reconstruction").order) == [0, 1, 2, 3, 7]


def test_where_columns_have_costs_or_come_in_bundles_nothing_is_exchanged(rng):
    model = random_model(rng)
    worst = Chosen(np.array([0, 1, 2]), np.zeros(3), np.zeros(3))
    for more in ({"costs": np.arange(1.0, 13.0)}, {"bundles": [[4, 5]]}):
        assert exchange(model, worst, wishes(12, 3, **more), "reconstruction") is worst
    assert exchange(model, worst, wishes(12, 3), "reconstruction") is not worst


@pytest.mark.parametrize("more", [{}, {"keep": [50]}, {"bundles": [[3, 60]]}, {"costs": True}])
@pytest.mark.parametrize("criterion", BOTH)
def test_looking_at_few_columns_at_a_time(criterion, more, monkeypatch):
    """What others last would have gained bounds what they gain now: always for information, nearly
    always for reconstruction."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        model = random_model(rng, p=80, r=6)
        given = {**more, "costs": rng.uniform(1.0, 3.0, 80)} if "costs" in more else more
        wish = wishes(80, 15, **given)
        monkeypatch.setattr(greedy_module, "POOL", 80)
        everything = choose(model, wish, criterion)
        monkeypatch.setattr(greedy_module, "POOL", 8)
        few = choose(model, wish, criterion)
        assert few.gains.sum() >= 0.99 * everything.gains.sum()
        if criterion == "information":
            np.testing.assert_array_equal(few.order, everything.order)
            np.testing.assert_allclose(few.gains, everything.gains, rtol=1e-8)
        assert np.all(few.bounds >= everything.bounds * (1 - 1e-9))
