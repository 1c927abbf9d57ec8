"""SpinyClassifier: selection, predictions and invalid input."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.multiclass import OneVsRestClassifier

from prosparse import InputError, NoStructureWarning, ParameterError, SpinyClassifier
from prosparse.findings import findings_of
from prosparse.models.spinyreg import screening


def simulate(n=200, p=12, seed=0, size=1.5, true=3):
    """Simulate columns of different units; the classes depend on the first few."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, p))
    classes = rng.random(n) < expit(size * Z[:, :true] @ (-1.0) ** np.arange(true) - 0.5)
    return Z * np.geomspace(0.01, 100.0, p) + 3.0, classes


X, Y = simulate(seed=1)
NAMES = np.where(Y, "ill", "healthy")


@pytest.fixture(scope="module")
def model():
    return SpinyClassifier().fit(X, NAMES)


@pytest.fixture(scope="module")
def single():
    return SpinyClassifier(selection_rule="map", average=False).fit(X, NAMES)


def test_active_variables_are_selected(model):
    assert list(np.flatnonzero(model.support_)) == [0, 1, 2]
    assert list(model.classes_) == ["healthy", "ill"]
    assert model.coef_.shape == (1, 12)
    assert model.intercept_.shape == (1,)
    assert np.array_equal(model.selected_coef_[0] != 0, model.support_)
    standard = model.selected_coef_[0] * X.std(axis=0)
    assert np.all(np.abs(standard[:3] - [1.5, -1.5, 1.5]) < 0.6)
    assert set(np.argsort(model.ranking_)[:3]) == {0, 1, 2}
    assert np.all(model.inclusion_probability_[:3] > 0.9)
    assert np.all(np.diff(model.objective_path_) >= 0.0)
    assert model.n_selected_ == model.cardinalities_[model.log_posterior_path_.argmax()] == 3


def test_predictions_are_consistent(model):
    proba, odds = model.predict_proba(X), model.decision_function(X)
    assert proba.shape == (200, 2)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba)
    np.testing.assert_allclose(odds, np.log(proba[:, 1] / proba[:, 0]))
    assert np.array_equal(model.predict(X) == "ill", odds > 0)
    assert model.score(X, NAMES) == np.mean(model.predict(X) == NAMES) > 0.75


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"average": False},
        {"selection_rule": "map", "average": False},
        {"selection_rule": "median"},
        {"fit_intercept": False},
        {"scale": False},
    ],
)
@pytest.mark.parametrize("p", [5, 12])
def test_predictions_are_linear_in_coef(options, p):
    rng = np.random.default_rng(0)
    table = 2.0 * rng.standard_normal((150, p)) + 0.5
    classes = rng.random(150) < expit(table[:, 0] - table[:, 1] + 0.3 * table[:, 2])
    model = SpinyClassifier(**options).fit(table, classes)
    log_odds = table @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_array_equal(model.predict(table), model.classes_[(log_odds > 0).astype(int)])
    decision = model.decision_function(table)
    np.testing.assert_array_equal(decision > 0, log_odds > 0)
    assert np.all(np.abs(decision) <= np.abs(log_odds) + 1e-9)
    np.testing.assert_array_equal(model.selected_coef_[0] != 0, model.support_)
    averaged = options.get("average", True)
    assert np.array_equal(model.coef_, model.selected_coef_) == (not averaged)


def test_probabilities_without_averaging(single):
    """Probabilities equal averages over draws from the posterior."""
    rng = np.random.default_rng(0)
    selected = np.flatnonzero(single.support_)
    Z = (X[:5, selected] - single.mean_[selected]) / single.scale_[selected]
    centre = float(single.intercept_[0] + single.mean_ @ single.coef_[0])
    mean = [centre, *(single.coef_[0] * single.scale_)[selected]]
    draws = rng.multivariate_normal(mean, single._candidate_covariance[0], 20_000)
    expected = expit(draws[:, :1] + draws[:, 1:] @ Z.T).mean(axis=0)
    np.testing.assert_allclose(single.predict_proba(X[:5])[:, 1], expected, atol=0.01)


def test_averaging_changes_probabilities():
    """The sets of weak signals disagree."""
    weak, classes = simulate(80, 10, size=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoStructureWarning)
        one = SpinyClassifier(selection_rule="median", average=False).fit(weak, classes)
        many = SpinyClassifier(selection_rule="median").fit(weak, classes)
    assert np.array_equal(one.selected_coef_, many.selected_coef_)
    assert 0.0 < many.inclusion_probability_[3:].max() < 1.0
    assert not np.allclose(one.predict_proba(weak), many.predict_proba(weak))


def test_f_score_rule_maximises_the_expected_f_score():
    """The expected F-score is computed for every set of a few variables."""
    table, classes = simulate(70, 5, seed=3, size=0.7)
    model = SpinyClassifier()
    found = model._solve(model._prepare(table, classes, None, None))
    by_size = found.average.by_size

    def expected(v):
        return sum(2.0 * by_size[j, q] / (len(v) + q) for j in v for q in range(1, 6))

    tried = [v for q in range(1, 6) for v in itertools.combinations(range(5), q)]
    assert expected(found.selected.tolist()) == pytest.approx(max(map(expected, tried)))
    assert found.expected_f == pytest.approx(expected(found.selected.tolist()))
    assert found.average.size_probability.sum() == pytest.approx(1.0)


def test_exchanged_classes(single):
    other = SpinyClassifier(selection_rule="map", average=False).fit(X, ~Y)
    np.testing.assert_allclose(other.coef_, -single.coef_, rtol=1e-6)
    np.testing.assert_allclose(other.predict_proba(X)[:, ::-1], single.predict_proba(X), atol=1e-7)


def test_units_and_column_names(single):
    frame = pd.DataFrame(1000.0 * X - 7.0, columns=[f"gene {k}" for k in range(12)])
    other = SpinyClassifier(selection_rule="map", average=False).fit(frame, NAMES)
    assert np.array_equal(other.support_, single.support_)
    np.testing.assert_allclose(other.predict_proba(frame), single.predict_proba(X), atol=1e-6)
    assert list(other.select(frame).columns) == ["gene 0", "gene 1", "gene 2"]


def test_sparse_input(single):
    table = np.where(np.abs(X - 3.0) < 0.5 * X.std(axis=0), 0.0, X - 3.0)
    dense = SpinyClassifier(selection_rule="map", average=False).fit(table, Y)
    for kind in (sparse.csr_array, sparse.csc_matrix):
        other = SpinyClassifier(selection_rule="map", average=False).fit(kind(table), Y)
        np.testing.assert_allclose(other.coef_, dense.coef_, rtol=1e-6)
        np.testing.assert_allclose(
            other.predict_proba(kind(table)), dense.predict_proba(table), atol=1e-8
        )


@pytest.mark.filterwarnings("ignore::prosparse.DuplicateRowsWarning")
def test_weighted_rows_equal_repeated_rows():
    rng = np.random.default_rng(3)
    weights = rng.integers(0, 4, 120)
    repeated = np.repeat(np.arange(120), weights)
    ours = SpinyClassifier().fit(X[:120, :8], Y[:120], sample_weight=weights)
    theirs = SpinyClassifier().fit(X[repeated, :8], Y[repeated])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-7)
    np.testing.assert_allclose(ours.predict_proba(X[:, :8]), theirs.predict_proba(X[:, :8]))
    np.testing.assert_allclose(ours.log_evidence_path_, theirs.log_evidence_path_)


@pytest.mark.parametrize("average", [True, False])
def test_separated_classes(average):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((60, 12))
    found = SpinyClassifier(selection_rule="map", average=average).fit(table, table[:, 4] > 0)
    assert list(np.flatnonzero(found.support_)) == [4]
    assert 1.0 < found.selected_coef_[0, 4] < 100.0
    assert np.all(np.isfinite(found.predict_log_proba(1e3 * table)))
    assert found.score(table, table[:, 4] > 0) > 0.95


def test_noise_selects_nothing():
    """At most three of 20 noise datasets select a variable; the others give a warning."""
    selected = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = SpinyClassifier(selection_rule="map", average=False).fit(
                rng.standard_normal((100, 50)), rng.integers(0, 2, 100)
            )
        selected += found.n_selected_ > 0
        assert (found.n_selected_ == 0) == any(w.category is NoStructureWarning for w in caught)
    assert selected <= 3


def test_shortlist_gives_the_result_of_all_variables(monkeypatch):
    """Dense and sparse input give the same result."""
    table, classes = simulate(150, 120, seed=5)
    whole = SpinyClassifier(selection_rule="map", average=False).fit(table, classes)
    monkeypatch.setattr(screening, "MAX_SHORTLIST", 40)
    for kind in (np.asarray, sparse.csr_array):
        listed = SpinyClassifier(selection_rule="map", average=False).fit(kind(table), classes)
        assert np.array_equal(listed.support_, whole.support_)
        np.testing.assert_allclose(listed.coef_, whole.coef_, rtol=1e-5)
        assert sorted(listed.ranking_) == list(range(1, 121))


def test_shortlist_is_extended(monkeypatch):
    """Variables with weak marginal scores join the shortlist after the first search."""
    rng = np.random.default_rng(1)
    table = rng.standard_normal((400, 60))
    classes = rng.random(400) < expit(4.0 * table[:, 0] + 0.8 * table[:, 1] - 0.8 * table[:, 2])
    monkeypatch.setattr(screening, "MAX_SHORTLIST", 8)
    found = SpinyClassifier(selection_rule="map", average=False).fit(table, classes)
    assert {0, 1, 2} <= set(np.flatnonzero(found.support_))


def test_gains_through_the_operator(monkeypatch):
    """Gains computed by the operator equal those of the loaded columns."""
    table, classes = simulate(60, 12, seed=2)
    weights = np.random.default_rng(0).integers(1, 4, 60).astype(float)
    estimator = SpinyClassifier()
    for kind in (np.asarray, sparse.csr_array):
        op, _, labels, _ = estimator._prepare(kind(table), classes, weights, None)
        Y = (labels.root * (labels.t - labels.proportion))[:, None]
        pool = screening.candidates(op, Y, (Y * Y).sum(axis=0), labels.n, 1)
        given = screening.LogisticProblem(pool, labels, True)
        part = np.array([0, 3, 4, 7])
        loaded, listed = given.model(np.arange(12)), given.model(part)
        fit = loaded.fit(np.array([0, 3]))
        expected = loaded.addition_gains(fit)
        found = given.gains(listed._replace(unit=loaded.unit), part, fit._replace(v=np.arange(2)))
        others = np.isfinite(expected)
        np.testing.assert_allclose(found[others], expected[others], rtol=1e-9)


def test_credible_sets():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((200, 12))
    table[:, 7] = table[:, 2] + 0.1 * rng.standard_normal(200)
    classes = rng.random(200) < expit(2.0 * table[:, 2] - 2.0 * table[:, 5])
    found = SpinyClassifier(selection_rule="map", average=False).fit(table, classes)
    groups = dict(zip(np.flatnonzero(found.support_), found.credible_sets_, strict=True))
    assert list(groups[5]) == [5]
    (twin,) = set(groups) - {5}
    assert set(groups[twin]) == {2, 7}


def test_random_state_determines_the_average():
    model, again = (SpinyClassifier(random_state=0).fit(X[:, :8], NAMES) for _ in range(2))
    assert np.array_equal(again.inclusion_probability_, model.inclusion_probability_)
    other = SpinyClassifier(random_state=1).fit(X[:, :8], NAMES)
    assert np.array_equal(other.selected_coef_, model.selected_coef_)
    assert not np.array_equal(other.inclusion_probability_, model.inclusion_probability_)


def test_findings(model):
    found = findings_of(model)
    assert found.regression
    assert found.n_selected == 3
    np.testing.assert_array_equal(found.loadings, model.selected_coef_)


def test_more_than_two_classes():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((150, 5))
    classes = np.array(list("abc"))[np.argmax(table[:, :3], axis=1)]
    with pytest.raises(InputError, match=r"y has 3 classes"):
        SpinyClassifier().fit(table, classes)
    found = OneVsRestClassifier(SpinyClassifier()).fit(table, classes)
    assert found.score(table, classes) > 0.9
    assert found.predict_proba(table).shape == (150, 3)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed"),
        (np.ones(200), "got one class"),
        (np.arange(200) / 3.0, "use SpinyRegressor"),
        (np.where(np.arange(200) == 3, np.nan, Y), "Input y contains NaN: 1 value"),
        (np.where(np.arange(200) == 3, None, NAMES), "Input y contains NaN: 1 value"),
        (Y[:-1], "inconsistent numbers of samples"),
        (np.ma.masked_array(Y, Y), "masked"),
        (np.ones((200, 2)), "one class for each row"),
    ],
)
def test_invalid_classes(y, message):
    with pytest.raises(InputError, match=message):
        SpinyClassifier().fit(X, y)


def test_other_invalid_input():
    with pytest.raises(InputError, match="one class, 'True' among the rows with positive weight"):
        SpinyClassifier().fit(X, Y, sample_weight=Y.astype(float))
    with pytest.raises(InputError, match="all 12 columns are constant"):
        SpinyClassifier().fit(np.ones_like(X), Y)
    with pytest.raises(InputError, match="X has columns whose norms differ by a factor"):
        SpinyClassifier(scale=False).fit(X * np.geomspace(1.0, 1e9, 12), Y)
    with pytest.raises(
        ParameterError, match="`selection_rule` must be one of 'f-score', 'map', 'median'"
    ):
        SpinyClassifier(selection_rule="best").fit(X, Y)
    with pytest.raises(ParameterError, match="`sample_weight` must contain one number"):
        SpinyClassifier().fit(X, Y, sample_weight=[1.0])


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.parametrize("power", [6, 9, 12, 15])
@pytest.mark.parametrize(("n", "p", "seed"), [(15, 12, 0), (15, 12, 1), (15, 12, 3), (30, 5, 2)])
def test_unequal_weights(n, p, seed, power):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    y = X[:, 0] + rng.standard_normal(n) > 0
    weights = 10.0 ** rng.uniform(0, power, n)
    if seed == 3:
        weights = np.where(np.arange(n) < 2, 10.0**power, 1.0)
    model = SpinyClassifier().fit(X, y, sample_weight=weights)
    inclusion = model.inclusion_probability_
    assert np.all((inclusion >= 0.0) & (inclusion <= 1.0))
    assert np.isfinite(model.log_evidence_path_).all()
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.all(model.relevance_[model.support_] > 0.0)
