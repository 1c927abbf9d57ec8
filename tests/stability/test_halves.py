"""How often variables are chosen on half of the rows, for every method."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from prosparse import (
    EMPCA,
    FDRPCA,
    GSPPCA,
    SCA,
    SPPCA,
    InputError,
    Panel,
    ParameterError,
    SpinyRegressor,
    parallel,
)
from prosparse.data.row_groups import row_groups
from prosparse.datasets import make_globally_sparse, make_sparse_regression
from prosparse.stability import Stability, stability_selection
from prosparse.stability.halves import pair_of_halves

pytestmark = pytest.mark.quick

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
        Panel(6),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_method_finds_the_real_ones_on_halves(model):
    seen = stability_selection(model.fit(X), X, 10, random_state=0)
    real, others = seen.frequency[TRUTH].mean(), seen.frequency[~TRUTH].mean()
    assert real > (0.6 if isinstance(model, Panel) else 0.85)
    assert others < 0.35
    assert seen.counts.sum() == seen.times.sum()
    np.testing.assert_array_equal(seen.selected, model.support_)


def test_a_regression_needs_its_response():
    model = SpinyRegressor().fit(REGRESSION.X, REGRESSION.y)
    seen = stability_selection(model, REGRESSION.X, 10, y=REGRESSION.y, random_state=0)
    strong = np.abs(model.coef_) > 1
    assert seen.frequency[strong].min() > 0.9
    with pytest.raises(InputError, match="give it as `y`"):
        stability_selection(model, REGRESSION.X, 10)
    with pytest.raises(InputError, match="one value for each of the 100 rows"):
        stability_selection(model, REGRESSION.X, 10, y=REGRESSION.y[:5])


def test_what_it_holds(found):
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


def test_the_words_say_its_numbers(found):
    said = " ".join(found.summary())
    assert f"{found.counts.min()} to {found.counts.max()} over 12 halves of 40 rows" in said
    assert f"on all rows it chose {found.selected.sum()}" in said
    assert f"{found.stable.sum()} are stable: chosen on at least 90% of the halves" in said
    assert f"at most {float(f'{found.expected_false():.2g}'):g} are expected to be false" in said
    shown = repr(found)
    assert shown.splitlines()[0] == (
        "Stability of FDRPCA: 12 halves of 40 rows, in complementary pairs"
    )
    assert f"{found.stable.sum()}, on at least 90% of halves" in shown


def test_there_and_back_as_json(found):
    again = Stability.from_json(found.to_json(), list(found.names))
    np.testing.assert_array_equal(again.times, found.times)
    assert repr(again) == repr(found)
    assert again.summary() == found.summary()
    for wrong in (None, {}, {**found.to_json(), "times": [99]}, {**found.to_json(), "counts": 3}):
        assert Stability.from_json(wrong, list(found.names)) is None
    assert Stability.from_json(found.to_json(), ["a"]) is None


def test_halves_are_complementary(rng):
    for n in (10, 11):
        first, second = pair_of_halves(n, None, rng)
        assert first.size == second.size == n // 2
        assert not set(first) & set(second)
    groups = row_groups(np.repeat(list("abcdef"), 3), 18)
    first, second = pair_of_halves(18, groups, rng)
    assert not set(groups.codes[first]) & set(groups.codes[second])
    assert first.size == second.size == 9
    with pytest.raises(ParameterError, match="2 labels"):
        pair_of_halves(4, row_groups(list("aabb"), 4), rng)


def test_groups_stay_together_and_reach_the_method(monkeypatch):
    asked = []
    fit = FDRPCA.fit

    def noted(self, X, y=None, *, groups=None):
        asked.append(np.asarray(groups))
        return fit(self, X, y, groups=groups)

    groups = np.repeat(np.arange(8), 10)
    model = FDRPCA().fit(X, groups=groups)
    monkeypatch.setattr(FDRPCA, "fit", noted)
    stability_selection(model, X, 4, groups=groups, random_state=0)
    assert [np.unique(one).size for one in asked] == [4] * 4
    for first, second in zip(asked[::2], asked[1::2], strict=True):
        assert not set(first) & set(second)


def test_of_other_tables():
    model = FDRPCA().fit(X)
    expected = stability_selection(model, X, 2, random_state=0).times
    for table in (sparse.csr_array(X), pd.DataFrame(X), X.tolist()):
        np.testing.assert_array_equal(
            stability_selection(model, table, 2, random_state=0).times, expected
        )


def test_views_given_as_a_list():
    views = [X[:, :12], X[:, 12:]]
    model = SCA(2, prior="hyperbolic", max_iter=20, tol=1e-3).fit(views)
    assert stability_selection(model, views, 2, random_state=0).times.size == 24


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_refusals():
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
    with pytest.raises(InputError, match="refuses every half of these 7 rows"):
        stability_selection(small, X[:7], 4)


def test_the_bound_holds():
    """EMPCA is asked for many more loadings than there are real variables: on every half it has to
    take false ones. Over eight tables, fewer of them are stable than the bound allows."""
    false, bounds, real = [], [], []
    for seed in range(8):
        table, truth, _ = make_globally_sparse(
            40, 60, n_components=1, n_informative=6, random_state=seed
        )
        model = EMPCA(1, n_nonzero=18, n_restarts=1, random_state=0).fit(table)
        seen = stability_selection(model, table, 20, threshold=0.6, random_state=seed)
        assert np.all(seen.counts == 18)
        false.append(int(np.sum(seen.stable & ~truth)))
        bounds.append(seen.expected_false())
        real.append(seen.frequency[truth].mean())
    assert np.mean(real) > 0.8
    assert 0 < np.mean(false) < np.mean(bounds)


def test_halves_are_fitted_as_many_at_a_time_as_asked(found, monkeypatch):
    """Whoever does them, and in whatever order they end: the splits are drawn before."""
    asked = []

    def backwards(n_jobs):
        asked.append(n_jobs)
        return lambda calls: [call() for call in reversed([*calls])][::-1]

    monkeypatch.setattr(parallel, "Parallel", backwards)
    monkeypatch.setattr(parallel, "delayed", lambda f: lambda *args: partial(f, *args))
    frame = pd.DataFrame(X, columns=[f"gene {k}" for k in range(24)])
    again = stability_selection(FDRPCA().fit(frame), frame, 12, random_state=0, n_jobs=3)
    assert asked == [3]
    np.testing.assert_array_equal(again.times, found.times)
    np.testing.assert_array_equal(again.counts, found.counts)
