"""Greedy selection and swaps: updates and gains agree with their definitions."""

import numpy as np
import pytest
from factor_models import largest_gain, posterior_covariance, random_model, total_gain

from prosparse.models.panel import greedy as greedy_module
from prosparse.models.panel.greedy import (
    Constraints,
    Selection,
    add_variable,
    admissible_sizes,
    bundle_gain,
    compute_gains,
    init,
    remove_variable,
    select_greedily,
    swap_variables,
)


def constrain(p, n_features, include=(), exclude=(), costs=None, bundles=(), weights=None):
    allowed = np.ones(p, dtype=bool)
    allowed[list(exclude)] = False
    return Constraints(
        n_features,
        np.array(include, dtype=int),
        allowed,
        np.ones(p) if costs is None else np.asarray(costs, dtype=float),
        [np.array(bundle) for bundle in bundles],
        weights,
    )


def assert_state(model, state, panel):
    S, W = posterior_covariance(model, panel), model.W
    np.testing.assert_allclose(state.S, S, atol=1e-10)
    np.testing.assert_allclose(state.t, np.diag(W @ S @ W.T), atol=1e-10)
    np.testing.assert_allclose(state.N, np.diag(W @ S @ W.T @ W @ S @ W.T), atol=1e-9)


def test_gains_are_increments_of_the_criterion(rng):
    model = random_model(rng)
    A = model.W.T @ model.W
    state, panel = init(model, A), []
    for k in [3, 7, 0, 11, 5]:
        before = total_gain(model, panel)
        found = compute_gains(model, state)
        for j in set(range(12)) - set(panel):
            expected = total_gain(model, [*panel, j]) - before
            assert found[j] == pytest.approx(expected, rel=1e-9, abs=1e-10)
        state = add_variable(model, A, state, k)
        panel.append(k)
        assert_state(model, state, panel)


def test_ren_changed_variable_leaves_the_state_of_the_others(rng):
    model = random_model(rng)
    A = model.W.T @ model.W
    state, panel = init(model, A), [2, 9, 4, 6, 1]
    for k in panel:
        state = add_variable(model, A, state, k)
    for k in panel:
        assert_state(model, remove_variable(model, A, state, k), [j for j in panel if j != k])


def test_gain_of_a_bundle(rng):
    model = random_model(rng)
    A = model.W.T @ model.W
    state = add_variable(model, A, add_variable(model, A, init(model, A), 1), 8)
    for bundle in ([0], [3, 4], [2, 6, 7, 11]):
        expected = total_gain(model, [1, 8, *bundle]) - total_gain(model, [1, 8])
        found = bundle_gain(model, A, state, np.array(bundle))
        assert found == pytest.approx(expected, rel=1e-9)


# --- greedy selection


def greedy_order(model, constraints):
    """Greedy selection of single variables and bundles by total gains."""
    p = model.W.shape[0]
    inside = {k for bundle in constraints.bundles for k in bundle.tolist()}
    units = [[k] for k in range(p) if k not in inside]
    units += [bundle.tolist() for bundle in constraints.bundles]
    included = set(constraints.include.tolist())
    units = [unit for unit in units if constraints.allowed[unit].all() or included & set(unit)]
    panel = []
    while True:
        fitting = [unit for unit in units if len(panel) + len(unit) <= constraints.n_features]
        first = [unit for unit in fitting if included & set(unit)]
        if not fitting:
            return panel

        def value(unit, panel=panel):
            more = total_gain(model, [*panel, *unit]) - total_gain(model, panel)
            weights = np.ones(p) if constraints.weights is None else constraints.weights
            return more / np.sum(constraints.costs[unit] / weights[unit])

        best = max(first or fitting, key=value)
        panel = [*panel, *best]
        units.remove(best)


CASES = {
    "plain": {},
    "all columns": {"n_features": 12},
    "include": {"include": [8, 3]},
    "exclude": {"exclude": [0, 1, 2, 3, 4]},
    "costs": {"costs": np.geomspace(1.0, 30.0, 12)},
    "bundles": {"bundles": [[0, 5, 7], [2, 3]]},
    "bundle that is too large": {"bundles": [list(range(8))]},
    "included bundle": {"bundles": [[0, 5, 7], [2, 3]], "include": [0, 5, 7]},
    "weights": {"weights": np.geomspace(0.1, 1.0, 12)},
    "everything": {
        "weights": np.geomspace(1.0, 0.3, 12),
        "include": [9],
        "exclude": [1],
        "costs": np.geomspace(1.0, 30.0, 12),
        "bundles": [[0, 5], [2, 3, 4]],
    },
}


@pytest.mark.parametrize("case", CASES)
def test_selection_agrees_with_the_definition(case):
    for seed in range(4):
        model = random_model(np.random.default_rng(seed))
        constraints = constrain(12, **{"n_features": 6, **CASES[case]})
        found = select_greedily(model, constraints)
        assert found.order.tolist() == greedy_order(model, constraints)
        totals = [total_gain(model, found.order[:q]) for q in range(found.order.size + 1)]
        np.testing.assert_allclose(found.gains, np.diff(totals), rtol=1e-8, atol=1e-9)
        assert set(found.order[: constraints.include.size]) == set(constraints.include)
        assert constraints.allowed[found.order].all()


def test_costs_and_included_variables(rng):
    model = random_model(rng)
    plain = select_greedily(model, constrain(12, 3)).order
    costs = np.ones(12)
    costs[plain[0]] = 1e6
    affordable = select_greedily(model, constrain(12, 3, costs=costs)).order
    assert plain[0] not in affordable
    included = select_greedily(model, constrain(12, 3, include=[int(affordable[-1])])).order
    assert included[0] == affordable[-1]


def test_admissible_sizes_contain_whole_bundles():
    order = np.array([4, 0, 1, 2, 9, 6, 7])
    constraints = constrain(12, 7, bundles=[[0, 1, 2], [6, 7]])
    assert admissible_sizes(order, constraints).tolist() == [1, 4, 5, 7]
    assert admissible_sizes(order, constraints._replace(include=order[:5])).tolist() == [5, 7]
    assert admissible_sizes(order, constraints._replace(bundles=[])).tolist() == [
        1,
        2,
        3,
        4,
        5,
        6,
        7,
    ]


# --- swaps


def test_swaps_find_more_optimal_panels_than_greedy_selection():
    """Of the 15,504 panels of 5 among 20 variables."""
    greedy_best = swapped_best = 0
    for seed in range(40):
        model = random_model(np.random.default_rng(seed), p=20, r=5)
        constraints = constrain(20, 5)
        greedy = select_greedily(model, constraints)
        after = swap_variables(model, greedy, constraints)
        best = largest_gain(model, 5)
        before, now = (total_gain(model, selection.order) for selection in (greedy, after))
        assert sorted(set(after.order.tolist())) == sorted(after.order.tolist())
        assert after.gains.sum() == pytest.approx(now, rel=1e-9)
        assert before <= now * (1 + 1e-12)
        assert now <= best * (1 + 1e-12)
        assert after.bounds[4] >= best * (1 - 1e-12)
        greedy_best += before >= best * (1 - 1e-9)
        swapped_best += now >= best * (1 - 1e-9)
    assert (greedy_best, swapped_best) == (23, 37)


def test_weighted_swaps_do_not_reduce_the_criterion():
    """A variable with a dominating weight is not replaced by one with a larger gain."""
    n_changed = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        model, weights = random_model(rng, p=20, r=5), rng.uniform(0.5, 1.0, 20)
        constraints = constrain(20, 5, weights=weights)
        worst = select_greedily(model, constraints._replace(weights=weights**-9.0))
        after = swap_variables(model, worst, constraints)
        assert total_gain(model, after.order) >= worst.gains.sum() * (1 - 1e-9)
        n_changed += set(after.order) != set(worst.order)
        only = np.full(20, 1e-9)
        only[worst.order] = 1.0
        stays = swap_variables(model, worst, constraints._replace(weights=only))
        assert set(stays.order) == set(worst.order)
    assert n_changed > 10


@pytest.mark.parametrize("case", ["plain", "include", "bundles", "bundle that is too large"])
def test_bounds_hold_for_all_sizes(case):
    for seed in range(5):
        model = random_model(np.random.default_rng(seed), p=12, r=5)
        found = select_greedily(model, constrain(12, **{"n_features": 6, **CASES[case]}))
        assert np.all(found.bounds >= np.cumsum(found.gains) * (1 - 1e-12))
        for q in range(1, found.order.size + 1):
            assert found.bounds[q - 1] >= largest_gain(model, q) * (1 - 1e-12)


def test_included_variables_are_not_swapped():
    for seed in range(20):
        model = random_model(np.random.default_rng(seed))
        constraints = constrain(12, 4, include=[0, 7], exclude=[3])
        after = swap_variables(model, select_greedily(model, constraints), constraints)
        assert {0, 7} == set(after.order[:2].tolist())
        assert 3 not in after.order
        all_variables = constrain(12, 12, include=[0, 7])
        selection = select_greedily(model, all_variables)
        again = swap_variables(model, selection, all_variables)
        assert sorted(again.order.tolist()) == list(range(12))
        some = constrain(12, 4, include=[0, 7], exclude=range(4, 12))
        some.allowed[7] = True
        order = select_greedily(model, some._replace(n_features=5))
        assert sorted(swap_variables(model, order, some).order) == [0, 1, 2, 3, 7]


def test_no_swaps_with_costs_or_bundles(rng):
    model = random_model(rng)
    worst = Selection(np.array([0, 1, 2]), np.zeros(3), np.zeros(3))
    for more in ({"costs": np.arange(1.0, 13.0)}, {"bundles": [[4, 5]]}):
        assert swap_variables(model, worst, constrain(12, 3, **more)) is worst
    assert swap_variables(model, worst, constrain(12, 3)) is not worst


@pytest.mark.parametrize("more", [{}, {"include": [50]}, {"bundles": [[3, 60]]}, {"costs": True}])
def test_lazy_evaluation_selects_nearly_the_same(more, monkeypatch):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        model = random_model(rng, p=80, r=6)
        given = {**more, "costs": rng.uniform(1.0, 3.0, 80)} if "costs" in more else more
        constraints = constrain(80, 15, **given)
        monkeypatch.setattr(greedy_module, "POOL_SIZE", 80)
        everything = select_greedily(model, constraints)
        monkeypatch.setattr(greedy_module, "POOL_SIZE", 8)
        few = select_greedily(model, constraints)
        assert few.gains.sum() >= 0.99 * everything.gains.sum()
        assert np.all(few.bounds >= everything.bounds * (1 - 1e-9))
