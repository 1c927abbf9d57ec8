"""Selection frequencies on random halves of the rows, for every method."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import sparse

from prosparse import (
    EMPCA,
    FDRPCA,
    GSPPCA,
    SCA,
    SPPCA,
    InputError,
    ParameterError,
    SpinyRegressor,
)
from prosparse.data.row_groups import row_groups
from prosparse.datasets import make_globally_sparse, make_sparse_regression
from prosparse.stability import Stability, stability_selection
from prosparse.stability.bounds import low_probability_bound
from prosparse.stability.complementary_pairs import draw_pair

X, TRUTH, _ = make_globally_sparse(80, 24, n_components=2, n_informative=6, random_state=1)
REGRESSION = make_sparse_regression(100, 20, random_state=0)


@pytest.fixture(scope="module")
def found():
    frame = pd.DataFrame(X, columns=[f"gene {k}" for k in range(24)])
    return stability_selection(FDRPCA().fit(frame), frame, 12, random_state=0)


@pytest.mark.parametrize(
    "model",
    [
        FDRPCA(),
        GSPPCA(),
        GSPPCA(2, n_features_to_select=6),
        SPPCA(2, penalty=30.0, max_iter=15),
        SCA(2, prior="hyperbolic", max_iter=100),
        EMPCA(2, n_nonzero=6, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_informative_variables_are_selected_on_halves(model):
    stability = stability_selection(model.fit(X), X, 10, random_state=0)
    assert stability.frequency[TRUTH].mean() > 0.85
    assert stability.frequency[~TRUTH].mean() < 0.35
    assert stability.n_selected.sum() == stability.selection_counts.sum()
    np.testing.assert_array_equal(stability.selected, model.support_)


def test_regression_needs_the_response():
    model = SpinyRegressor().fit(REGRESSION.X, REGRESSION.y)
    stability = stability_selection(model, REGRESSION.X, 10, y=REGRESSION.y, random_state=0)
    strong = np.abs(model.coef_) > 1
    assert stability.frequency[strong].min() > 0.9
    with pytest.raises(InputError, match="pass it as `y`"):
        stability_selection(model, REGRESSION.X, 10)
    with pytest.raises(InputError, match="one value for each of the 100 rows"):
        stability_selection(model, REGRESSION.X, 10, y=REGRESSION.y[:5])


def test_frequencies_and_frame(found):
    assert found.n_subsamples == 12
    assert found.n_rows == 40
    np.testing.assert_array_equal(found.stable, found.frequency >= 0.9)
    assert found.frequency[TRUTH].min() >= 0.9
    frame = found.to_frame()
    assert list(frame.columns) == ["frequency", "stable", "selected"]
    assert frame.loc["gene 3", "frequency"] == found.frequency[3]
    assert frame["frequency"].is_monotonic_decreasing
    with pytest.raises(AttributeError):
        found.threshold = 0.5


def test_summary():
    """Three of four variables are selected on all rows, two of them on every half."""
    stability = Stability(
        method="FDRPCA",
        names=("a", "b", "c", "d"),
        selected=np.array([True, True, True, False]),
        selection_counts=np.array([10, 10, 4, 1]),
        n_selected=np.array([3, 2, 3, 2, 3, 2, 2, 3, 3, 2]),
        n_rows=20,
        n_failed=1,
    )
    bound = low_probability_bound(0.9, 5, 0.5, 2.5, 4)
    assert stability.expected_false() == bound == pytest.approx(2 / 3)
    assert stability.summary() == [
        "FDRPCA selected 2.5 of 4 variables on average (2 to 3) on 10 random halves of 20 rows, "
        "and 3 on all rows.",
        "2 variables are stable (selected on at least 90% of the halves), of which 2 were selected "
        "on all rows.",
        "At most 0.67 stable variables are expected to be false selections (Shah and Samworth "
        "2013, for unimodal distributions). A variable is a false selection if its selection "
        "probability on half of the rows is at most 0.5.",
        "The fit failed on 1 of the 10 halves, which count as selecting no variables.",
    ]
    assert repr(stability) == "\n".join(stability.summary())
    with pytest.raises(ParameterError, match="`low_probability` must be in"):
        stability.expected_false(low_probability=2.0)
    one = replace(stability, selection_counts=np.array([10, 0, 0, 0]), threshold=0.55)
    assert one.summary()[1].startswith("1 variable is stable")
    assert one.summary()[2] == (
        "The bound on the number of false selections (Shah and Samworth 2013) is not "
        f"informative: it is {one.expected_false():.2g}, and the number of stable variables is 1."
    )


def test_json_round_trip(found):
    again = Stability.from_json(found.to_json(), list(found.names))
    np.testing.assert_array_equal(again.selection_counts, found.selection_counts)
    assert again.summary() == found.summary()
    for wrong in (
        None,
        {},
        {**found.to_json(), "selection_counts": [99]},
        {**found.to_json(), "n_selected": 3},
    ):
        assert Stability.from_json(wrong, list(found.names)) is None
    assert Stability.from_json(found.to_json(), ["a"]) is None


def test_halves_are_disjoint(rng):
    for n in (10, 11):
        first, second = draw_pair(n, None, rng)
        assert first.size == second.size == n // 2
        assert not set(first) & set(second)
    groups = row_groups(np.repeat(list("abcdef"), 3), 18)
    first, second = draw_pair(18, groups, rng)
    assert not set(groups.codes[first]) & set(groups.codes[second])
    assert first.size == second.size == 9
    with pytest.raises(ParameterError, match="2 labels"):
        draw_pair(4, row_groups(list("aabb"), 4), rng)


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_rows_of_a_group_are_in_the_same_half(rng):
    """Groups with nearly equal rows share variance between groups only: FDRPCA needs the groups."""
    groups = np.repeat(np.arange(8), 10)
    data = rng.normal(size=(8, 12))[groups] + 0.1 * rng.normal(size=(80, 12))
    model = FDRPCA().fit(data, groups=groups)
    within = stability_selection(model, data, 4, groups=groups, random_state=0)
    assert within.n_rows == 40
    assert within.selection_counts.sum() == 0
    assert stability_selection(model, data, 4, random_state=0).selection_counts.sum() > 0


def test_containers():
    model = FDRPCA().fit(X)
    expected = stability_selection(model, X, 2, random_state=0).selection_counts
    for data in (sparse.csr_array(X), pd.DataFrame(X), X.tolist()):
        np.testing.assert_array_equal(
            stability_selection(model, data, 2, random_state=0).selection_counts, expected
        )


def test_views_given_as_a_list():
    views = [X[:, :12], X[:, 12:]]
    model = SCA(2, prior="hyperbolic", max_iter=20, tol=1e-3).fit(views)
    assert stability_selection(model, views, 2, random_state=0).frequency.size == 24


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_errors():
    with pytest.raises(InputError, match="not fitted"):
        stability_selection(FDRPCA(), X)
    model = FDRPCA().fit(X)
    with pytest.raises(ParameterError, match="even"):
        stability_selection(model, X, 5)
    with pytest.raises(ParameterError, match=r"above 0\.5"):
        stability_selection(model, X, 4, threshold=0.5)
    with pytest.raises(InputError, match="was fitted to 24"):
        stability_selection(model, X[:, :5], 4)
    small = FDRPCA().fit(X[:7])
    with pytest.raises(InputError, match="cannot be fitted to halves of these 7 rows"):
        stability_selection(small, X[:7], 4)


def test_number_of_false_selections_is_below_the_bound():
    """EMPCA must select 18 variables on every half, of which only 6 are informative."""
    false, bounds, frequencies = [], [], []
    for seed in range(8):
        data, truth, _ = make_globally_sparse(
            40, 60, n_components=1, n_informative=6, random_state=seed
        )
        model = EMPCA(1, n_nonzero=18, n_restarts=1, random_state=0).fit(data)
        stability = stability_selection(model, data, 20, threshold=0.6, random_state=seed)
        assert np.all(stability.n_selected == 18)
        false.append(int(np.sum(stability.stable & ~truth)))
        bounds.append(stability.expected_false())
        frequencies.append(stability.frequency[truth].mean())
    assert np.mean(frequencies) > 0.8
    assert 0 < np.mean(false) < np.mean(bounds)


def test_result_does_not_depend_on_the_number_of_jobs(found):
    frame = pd.DataFrame(X, columns=[f"gene {k}" for k in range(24)])
    with parallel_config(backend="threading"):
        again = stability_selection(FDRPCA().fit(frame), frame, 12, random_state=0, n_jobs=3)
    np.testing.assert_array_equal(again.selection_counts, found.selection_counts)
    np.testing.assert_array_equal(again.n_selected, found.n_selected)
