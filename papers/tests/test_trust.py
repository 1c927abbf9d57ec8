"""E23: situations have the stated properties, and verdicts follow from the numbers."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from papers import situations, trust
from papers.data import Data
from papers.situations import SITUATIONS, Sample, Situation, simulated
from papers.trust import GUARANTEES, LIMITATIONS, Cell, Guarantee, Limitation, Outcome
from prosparse.errors import NoStructureWarning, RowOrderWarning

ROOT = Path(__file__).parents[2]
BY_NAME = {situation.name: situation for situation in SITUATIONS}


def draw(name, shared=True, seed=0):
    return BY_NAME[name].draw(np.random.default_rng(seed), shared, Data())


def row_scales(X):
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    return np.sqrt(np.mean(Z**2, axis=1))


def largest_correlation(X):
    C = np.abs(np.corrcoef(X, rowvar=False))
    return C[np.triu_indices_from(C, 1)].max()


def test_at_least_thirty_situations_with_different_names():
    assert len(BY_NAME) == len(SITUATIONS) >= 30
    assert len({guarantee.name for guarantee in GUARANTEES}) == len(GUARANTEES)
    assert set(trust.SOME_SITUATIONS) <= set(BY_NAME)


@pytest.mark.parametrize("name", [s.name for s in SITUATIONS if not s.data and s.effort > 0.1])
def test_simulated_samples(name):
    situation = BY_NAME[name]
    for shared in (True, False) if situation.has_null else (True,):
        X, truth, response, groups, *_ = draw(name, shared)
        assert X.shape[1] == truth.size
        assert X.shape[0] == response.size
        assert np.isfinite(X).all()
        assert truth.any() == shared
        assert ("groups given" in name) == (groups is not None)
    first, second = draw(name, seed=1), draw(name, seed=2)
    assert not np.array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.X, draw(name, seed=1).X)


def test_real_samples_keep_the_true_columns(data_folder):
    for name in ("real columns, permuted", "real columns, random signs"):
        X, truth, response, *_ = draw(name, seed=3)
        assert truth.sum() == 20
        assert largest_correlation(X[:, truth]) > 0.6
        null = draw(name, shared=False, seed=3)
        assert not null.truth.any()
        assert response.shape == (X.shape[0],)


def test_random_signs_keep_magnitudes(rng):
    X = rng.lognormal(size=(40, 3))
    flipped = situations.flip_signs(X, rng)
    np.testing.assert_allclose(np.abs(flipped), np.abs(X - X.mean(axis=0)) / X.std(axis=0))


def test_distorted_rows():
    assert np.sort(row_scales(draw("three rows times 5").X))[-3:].min() > 2.5
    scales = row_scales(draw("rows multivariate t, 3 degrees of freedom", shared=False).X)
    assert scales.std() > 3.0 * row_scales(draw("Gaussian", shared=False).X).std()
    X = draw("a quarter of the rows duplicated").X
    assert np.unique(X, axis=0).shape[0] == 75
    series = draw("time series, AR(1) with correlation 0.7", shared=False).X
    lagged = np.mean([np.corrcoef(x[1:], x[:-1])[0, 1] for x in series.T])
    assert lagged == pytest.approx(0.66, abs=0.06)
    donors = draw("repeated measures, groups given", shared=False)
    assert np.bincount(donors.groups).tolist() == [5] * 20
    assert np.unique(draw("two laboratories, groups given").groups).size == 2


def test_covariates_explain_the_difference_to_the_adjusted_columns():
    for name in BY_NAME:
        if "covariate" in name:
            sample = draw(name)
            design = sample.covariates
            if design.dtype.kind == "U":
                design = (design == np.unique(design)).astype(float)
            design = np.column_stack([np.ones(len(design)), design])
            effects = sample.X - sample.adjusted
            np.testing.assert_allclose(
                design @ np.linalg.lstsq(design, effects, rcond=None)[0], effects, atol=1e-9
            )
    scales = row_scales(draw("20 batches of unequal noise, given as covariate").adjusted)
    assert scales.std() > 0.3
    assert trust.applies(GUARANTEES[0], sample)
    assert not trust.applies(GUARANTEES[4], sample)


def test_distorted_columns():
    X, truth, *_ = draw("counts of mean 0.03 alongside Gaussian structure")
    assert X[:, ~truth].mean() == pytest.approx(0.03, abs=0.01)
    assert np.unique(X[:, truth]).size > 1000
    logs = np.log(draw("lognormal columns, sigma 1.5", shared=False).X)
    assert logs.std() == pytest.approx(1.5, abs=0.05)
    assert set(np.unique(draw("binary columns").X)) == {0.0, 1.0}
    np.testing.assert_allclose(draw("compositions, proportions").X.sum(axis=1), 1.0)
    log_ratios = draw("compositions, centred log-ratios").X
    np.testing.assert_allclose(log_ratios.mean(axis=1), 0.0, atol=1e-12)
    assert draw("counts of unequal depth, counts=True").counts


def test_kinds_of_shared_variance():
    X, truth, *_ = draw("15 pairs of correlation 0.9, 400 rows")
    C = np.corrcoef(X[:, truth], rowvar=False) - np.eye(30)
    assert X.shape[0] == 400
    np.testing.assert_allclose(C.max(axis=0), 0.9, atol=0.06)
    assert np.all(np.sum(C > 0.5, axis=0) == 1)
    X, truth, *_ = draw("rare group of 8 of 200 rows")
    assert np.sum(X[:, truth].mean(axis=1) > 1.5) == 8


def test_null_columns_are_independent_of_the_others():
    for name in ("Gaussian", "row scale lognormal, sigma 0.3", "compositions, centred log-ratios"):
        X, truth, response, *_ = draw(name)
        others = np.column_stack([X[:, ~truth], response])
        assert largest_correlation(others) < 0.55


# --- guarantees


def test_score_of_a_support():
    truth = np.array([True, True, False, False])
    assert trust.score_support(np.array([True, False, True, False]), truth) == (0.5, 0.5)
    assert trust.score_support(np.zeros(4, dtype=bool), truth) == (0.0, 0.0)
    assert trust.score_support(np.ones(4, dtype=bool), np.zeros(4, dtype=bool)) == (1.0, None)


def test_coverage_of_coefficients():
    sample = draw("Gaussian")
    outside, power = trust.cover_coefficients(sample, np.random.default_rng(0))
    assert power == 1.0
    assert outside <= 0.4


def test_stable_variables_minus_their_bound():
    outcome = trust.bound_stable(draw("10 columns"), np.random.default_rng(0))
    assert -10.0 < outcome.error <= 6.0


def test_classes_need_two_rows():
    sample = draw("Gaussian")
    rare = sample._replace(response=np.arange(100) == 7)
    assert trust.classify_noise(rare, np.random.default_rng(0)) == Outcome(None)


# --- cells and verdicts


def make_guarantee(evaluate, **options):
    return Guarantee("an estimator", "an error", 0.06, True, evaluate, 10, **options)


def make_cell(errors, any_warning=0.0, estimator="an estimator", situation="a situation"):
    guarantee = make_guarantee(lambda sample, rng: Outcome(0.0))._replace(estimator=estimator)
    drawn = Situation(situation, simulated())
    errors = np.asarray(errors, dtype=float)
    return Cell(guarantee, drawn, errors, np.array([]), {}, any_warning, errors.size)


def test_verdicts(monkeypatch):
    few, many = [0.0, 0.0, 0.3], [0.4, 0.5, 0.6]
    assert make_cell([0.06, 0.06]).verdict == "holds"
    assert make_cell([0.061, 0.061]).verdict == "fails"
    assert make_cell(few).verdict == "holds"  # within two standard errors
    assert make_cell(many).verdict == "fails"
    assert make_cell(many, 0.9).verdict == "warns"
    assert make_cell(many, 0.89).verdict == "fails"
    documented = Limitation("a page", "a sentence", ("an estimator",), ("a situation",))
    monkeypatch.setattr(trust, "LIMITATIONS", (documented,))
    assert make_cell(many).verdict == "limitation"
    assert make_cell(many, 0.95).verdict == "warns"
    assert make_cell(few).verdict == "holds"
    assert make_cell(many, situation="another").verdict == "fails"
    assert make_cell(many, estimator="another").verdict == "fails"


def test_proportions_of_draws_have_the_standard_error_of_the_maximum():
    rate = make_guarantee(lambda sample, rng: Outcome(0.0))._replace(quantity="any selection")
    for n_selected, verdict in ((2, "holds"), (3, "fails"), (4, "fails")):
        cell = make_cell(np.arange(12) < n_selected)
        assert cell.verdict == "holds"  # The estimated standard error is at least 0.11.
        assert cell._replace(guarantee=rate).verdict == verdict
    assert cell._replace(guarantee=rate).largest_valid == pytest.approx(0.197, abs=0.001)


def test_one_failed_cell_fails_the_claim():
    cells = [make_cell([0.0, 0.0], estimator="SpinyClassifier", situation="Gaussian")]
    claims = {claim.text.split(":")[0]: claim for claim in trust.make_claims(cells)}
    assert claims["SpinyClassifier"].holds
    cells.append(make_cell([0.5, 0.5], estimator="SpinyClassifier", situation="bad rows"))
    claims = {claim.text.split(":")[0]: claim for claim in trust.make_claims(cells)}
    assert not claims["SpinyClassifier"].holds
    assert "fails: bad rows, an error 0.500" in claims["SpinyClassifier"].note
    assert trust.make_claims(cells)[-1].holds
    alarmed = [make_cell([0.0, 0.0], 0.5, situation="Gaussian")]
    assert not trust.make_claims(alarmed)[-1].holds


def test_cells_record_errors_power_and_diagnostic_warnings():
    def evaluate(sample: Sample, rng: np.random.Generator) -> Outcome:
        warnings.warn("rows", RowOrderWarning, stacklevel=1)
        warnings.warn("nothing", NoStructureWarning, stacklevel=1)
        warnings.warn("elsewhere", UserWarning, stacklevel=1)
        return Outcome(float(sample.X.shape[0]), 0.5)

    situation = Situation("small", simulated(n=7, p=5, n_true=2))
    (cell,) = trust.evaluate_cells([(make_guarantee(evaluate), situation)], [3], Data())
    assert cell.errors.tolist() == [7.0] * 3
    assert cell.powers.tolist() == [0.5] * 3
    assert cell.warned == {"RowOrderWarning": 1.0}
    assert cell.any_warning == 1.0
    rows = trust.rows_of(cell)
    assert rows[0].note == "warns; 3 of 3 draws; RowOrderWarning 1.00"
    assert rows[1].ours == 0.5
    for options in ({"min_rows": 8}, {"max_columns": 4}):
        unsuitable = (make_guarantee(evaluate, **options), situation)
        assert trust.evaluate_cells([unsuitable], [2], Data()) == [None]


def test_situations_without_null_data_are_not_used_for_guarantees_about_null_data(monkeypatch):
    guarantee = make_guarantee(lambda sample, rng: Outcome(0.0))
    pair = (guarantee, guarantee._replace(shared=False))
    monkeypatch.setattr(trust, "GUARANTEES", pair)
    situation = Situation("pairs", simulated(n=7, p=5, n_true=2), has_null=False)
    (cell,) = trust.evaluate_all([situation], True, Data()).values()
    assert cell.guarantee.shared


def test_stability_selection_needs_groups_for_both_halves():
    stability = next(g for g in GUARANTEES if g.estimator == "stability selection of FDRPCA")
    assert trust.applies(stability, draw("repeated measures, groups given"))
    assert not trust.applies(stability, draw("two laboratories, groups given"))
    assert not trust.applies(stability, draw("12 rows"))


def test_draws_do_not_depend_on_other_situations():
    gaussian = BY_NAME["Gaussian"]
    values = {
        trust.seeded(situation, number, shared).random()
        for situation in SITUATIONS
        for number in (0, 1)
        for shared in (False, True)
    }
    assert len(values) == 4 * len(SITUATIONS)
    assert trust.number_of_draws(GUARANTEES[0], gaussian, quick=False) == GUARANTEES[0].n_draws


def test_page_has_one_row_per_situation(monkeypatch):
    name = GUARANTEES[1].name
    cell = make_cell([0.5, 0.5], 0.95, situation="Gaussian")
    cells = {("Gaussian", name): cell._replace(guarantee=GUARANTEES[1], powers=np.array([0.8]))}
    table = trust.matrix_table(cells, SITUATIONS[:2])
    assert [row[0] for row in table.rows] == [s.name for s in SITUATIONS[:2]]
    assert all(len(row) == len(table.header) for row in table.rows)
    assert table.rows[0][1:4] == ("", "0.50 w", "0.80")
    assert set(table.rows[1][1:]) == {""}


# --- documented limitations


def normalise(text):
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("limitation", LIMITATIONS)
def test_limitations_are_documented(limitation):
    page = normalise((ROOT / limitation.page).read_text(encoding="utf-8"))
    assert normalise(limitation.sentence) in page
    assert set(limitation.situations) <= set(BY_NAME)
    assert set(limitation.estimators) <= {guarantee.estimator for guarantee in GUARANTEES}


def test_a_cell_has_one_limitation():
    cells = [
        (estimator, situation)
        for limitation in LIMITATIONS
        for estimator in limitation.estimators
        for situation in limitation.situations
    ]
    assert len(cells) == len(set(cells))
