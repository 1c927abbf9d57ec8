"""Constraints on the selection: conflicts, limits of the means, and markers of labels."""

import numpy as np
import pandas as pd
import pytest
from factor_models import random_model

from prosparse import Panel, load, save
from prosparse.data import standardise
from prosparse.data.row_groups import row_groups
from prosparse.errors import ParameterError, ShortPanelWarning
from prosparse.models.panel.greedy import Constraints, select_greedily, swap_variables
from prosparse.models.panel.markers import marker_scores

pytestmark = pytest.mark.quick


def cell_counts(n=150, p=40, seed=0):
    """Counts of three types of cells, each with five markers."""
    rng = np.random.default_rng(seed)
    types = np.arange(n) % 3
    rates = rng.gamma(2.0, 1.0, p) * np.ones((n, 1))
    for label in range(3):
        rates[:, 5 * label : 5 * label + 5] *= np.where(types == label, 6.0, 1.0)[:, None]
    return rng.poisson(rates).astype(float), np.array(["B", "NK", "T"])[types]


@pytest.fixture(scope="module")
def counts():
    return cell_counts()


def limited(model, rng):
    """Random conflicts and a limit of the total signal."""
    p = model.psi.size
    groups = [rng.permutation(p)[:3] for _ in range(6)]
    signal = rng.uniform(0.5, 2.0, p)
    return groups, signal


def test_greedy_selection_and_swaps_respect_conflicts_and_the_total(rng):
    for _ in range(5):
        model = random_model(rng)
        p = model.psi.size
        groups, signal = limited(model, rng)
        constraints = Constraints(
            5,
            np.zeros(0, int),
            np.ones(p, bool),
            np.ones(p),
            [],
            conflicts=tuple(groups),
            signal=signal,
            max_signal=4.0,
        )
        found = select_greedily(model, constraints)
        for selection in (found, swap_variables(model, found, constraints)):
            chosen = set(selection.order.tolist())
            assert all(len(chosen & set(group.tolist())) <= 1 for group in groups)
            assert signal[selection.order].sum() <= 4.0
            assert constraints.is_feasible(selection.order)
            # No other variable fits.
            addable = constraints.find_addable(found.order)
            addable[found.order] = False
            assert found.order.size == 5 or not addable.any()


@pytest.mark.slow
def test_constraints_of_the_estimator(counts):
    X, _ = counts
    frame = pd.DataFrame(X, columns=[f"g{k}" for k in range(40)])
    means = X.mean(axis=0)
    free = Panel(6, counts=True).fit(frame)
    first, second = (f"g{k}" for k in free.order_[:2])
    apart = Panel(6, counts=True, conflicts=[[first, second]]).fit(frame)
    assert not set(np.flatnonzero(apart.support_)) >= set(free.order_[:2].tolist())
    low, high = np.quantile(means, [0.3, 0.7])
    middle = Panel(6, counts=True, mean_range=(low, high), include=[first]).fit(frame)
    others = middle.order_[middle.order_ != free.order_[0]]
    assert np.all((means[others] >= low) & (means[others] <= high))
    total = 0.5 * means[free.order_].sum()
    small = Panel(6, counts=True, max_total=total).fit(frame)
    assert means[small.support_].sum() <= total
    np.testing.assert_allclose(small.column_mean_, means)


def test_markers_of_each_label(counts, tmp_path):
    X, labels = counts
    frame = pd.DataFrame(X, columns=[f"g{k}" for k in range(40)])
    model = Panel(8, counts=True, markers_per_label=2, include=["g0"]).fit(frame, labels=labels)
    for number, label in enumerate(["B", "NK", "T"]):
        markers = np.flatnonzero(model.marker_of_ == label)
        assert markers.size == 2
        assert np.all(markers // 5 == number)
    assert model.support_[model.marker_of_ != ""].all()
    table = model.panel_to_frame()
    assert list(table["rank"]) == list(range(1, 9))
    assert sum(table["reason"].str.startswith("marker of")) == 6
    np.testing.assert_allclose(table["mean"], X.mean(axis=0)[model.order_])
    again = load(save(model, tmp_path / "model"))
    pd.testing.assert_frame_equal(again.panel_to_frame(), table)


def test_marker_scores_by_definition(counts):
    X, labels = counts
    groups = row_groups(labels, X.shape[0])
    op, _ = standardise(X, True)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    scores = marker_scores(op, groups)
    means = np.stack([Z[groups.codes == k].mean(axis=0) for k in range(3)])
    within = np.sqrt(np.mean((Z - means[groups.codes]) ** 2, axis=0))
    for k in range(3):
        others = np.delete(means, k, axis=0).max(axis=0)
        np.testing.assert_allclose(scores[k], (means[k] - others) / within, atol=1e-9)


@pytest.mark.slow
def test_invalid_limits_and_labels(counts):
    X, labels = counts
    with pytest.raises(ParameterError, match="`mean_range` must be a pair"):
        Panel(3, mean_range=(2.0, 1.0)).fit(X)
    with pytest.raises(ParameterError, match="`max_total` must be positive"):
        Panel(3, max_total=0.0).fit(X)
    with pytest.raises(ParameterError, match=r"`mean_range`=.* leaves none"):
        Panel(3, mean_range=(1e9, None)).fit(X)
    with pytest.raises(ParameterError, match="`include` contains columns that conflict"):
        Panel(3, include=[0, 1], conflicts=[[0, 1]]).fit(X)
    with pytest.raises(ParameterError, match="`labels` is required"):
        Panel(3, markers_per_label=1).fit(X)
    with pytest.raises(ParameterError, match="`labels` must have one label"):
        Panel(3, markers_per_label=1).fit(X, labels=["a"])
    with pytest.raises(ParameterError, match="at least 6, the number of columns"):
        Panel(3, markers_per_label=2).fit(X, labels=labels)
    with pytest.warns(ShortPanelWarning, match=r"has \d+ of 20 markers"):
        Panel(40, markers_per_label=20).fit(X, labels=labels)
