"""Sentences of the report: numbers are those of the fitted arrays."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from prosparse import EMPCA, FDRPCA, GSPPCA, Panel, SpinyClassifier, SpinyRegressor
from prosparse.datasets import make_globally_sparse, make_sparse_regression
from prosparse.findings import findings_of
from prosparse.phrases import percent
from prosparse.report.narrative import describe_selection, headline, list_communalities, narrate
from prosparse.stability import PermutationNull, permutation_null

pytestmark = [
    pytest.mark.quick,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

WINE = load_wine(as_frame=True).data.rename(columns={"od280/od315_of_diluted_wines": "od280"})
SIMULATED = make_globally_sparse(60, 25, n_components=2, n_informative=8, random_state=0).X


def with_loadings(loadings, names=None):
    """Return findings with given loadings."""
    loadings = np.atleast_2d(np.asarray(loadings, dtype=float))
    found = findings_of(GSPPCA(1, n_features_to_select=3).fit(SIMULATED))
    p = loadings.shape[1]
    return found._replace(
        names=names or [f"v{k}" for k in range(p)],
        support=np.any(loadings != 0, axis=0),
        relevance=np.max(np.abs(loadings), axis=0),
        ranking=np.arange(1, p + 1),
        loadings=loadings,
    )


def null_of(found, null_n_selected, statistic, null_statistic):
    return PermutationNull(
        method=found.method,
        n_features=len(found.names),
        n_selected=found.n_selected,
        size_given=found.size_given,
        null_n_selected=np.array(null_n_selected),
        statistic=statistic,
        null_statistic=np.array(null_statistic),
        statistic_name="explained_variance",
        null_kind=("permutation",) * len(null_n_selected),
    )


def test_tests_of_variables():
    model = FDRPCA(fdr=0.1).fit(WINE)
    found = findings_of(model)
    sentences = narrate(found)
    q, d = model.n_selected_, model.n_components_
    n_high = np.sum(model.communality_[model.support_] >= 0.5)
    assert sentences[0] == (
        f"{q} of 13 variables share significant variance with other variables. {n_high} of them "
        "have a communality of at least 0.5 (null expectation: "
        f"{found.tests.null_communality:.2g})."
    )
    explained = percent(float(model.explained_variance_ratio_.sum()))
    assert sentences[1].startswith(
        f"{d} components explain {explained} of the total variance of the 13 standardised"
    )
    assert percent(d / (len(WINE) - 1)) in sentences[1]
    assert sentences[2] == (
        "If the rows are independent, the false discovery rate is at most 0.1: on average, at most "
        "10 of 100 selected variables are false discoveries."
    )
    largest = int(np.argmax(model.communality_))
    communality = f"{WINE.columns[largest]} ({percent(model.communality_[largest], 0)})"
    assert list_communalities(found, found.tests, 2)[0] == communality
    assert sentences[3].startswith(f"Largest communalities: {communality}, ")
    assert sentences[4].startswith("Statistical significance does not imply a large effect.")


def test_minimum_communality():
    model = FDRPCA(min_communality=0.5).fit(WINE)
    sentences = narrate(findings_of(model))
    assert sentences[0] == (
        f"{model.n_selected_} of 13 variables share significant variance with other variables and "
        "have a communality of at least 0.5."
    )
    assert not any("large effect" in sentence for sentence in sentences)


def test_nothing_selected(rng):
    found = findings_of(FDRPCA().fit(rng.normal(size=(40, 8))))
    assert found.n_selected == 0
    assert narrate(found) == [
        f"FDRPCA selected none of the 8 variables: {found.reason}.",
        "The variables may be unrelated, or there are too few rows.",
    ]


def test_selection_by_evidence():
    model = GSPPCA(2, scale=True, refine=False).fit(WINE)
    found = findings_of(model)
    sentences = narrate(found)
    q = model.n_selected_
    assert sentences[0] == f"GSPPCA selected {q} of 13 variables, with 2 components."
    explained = percent(float(model.explained_variance_ratio_.sum()))
    assert sentences[1] == (
        f"The 2 components explain {explained} of the total variance of all 13 variables."
    )
    assert sentences[2] == f"Reason for the number of variables: {found.reason}."
    order = np.argsort(model.ranking_)
    first = ", ".join(WINE.columns[k] for k in order[model.support_[order]])
    assert f"Variables in order of relevance: {first}." in sentences


def test_given_number_of_variables():
    found = findings_of(GSPPCA(1, n_features_to_select=6).fit(SIMULATED))
    assert headline(found) == "GSPPCA selected 6 of 25 variables, as requested, with 1 component."
    assert describe_selection(found) == "6 of 25, as requested"


def test_panel():
    model = Panel(5).fit(WINE)
    sentences = narrate(findings_of(model))
    relative = percent(float(model.relative_r2_path_[4]))
    assert sentences[0] == (
        f"5 of 13 variables, as requested, explain {relative} of the held-out variance that all "
        "variables together explain."
    )
    explained = percent(float(model.heldout_r2_path_[4]))
    assert f"On held-out rows, the selected variables explain {explained} of" in " ".join(sentences)
    assert f"explain {percent(model.attainable_r2_)} of the variance of a" in " ".join(sentences)
    represented = [
        f"{WINE.columns[k]} ({np.sum((model.proxy_ == k) & ~model.support_)})" for k in model.order_
    ]
    assert sentences[-1] == (
        "Selected variables, with the numbers of variables they represent: "
        f"{', '.join(represented)}."
    )


def test_regression():
    data = make_sparse_regression(80, 15, random_state=0)
    model = SpinyRegressor().fit(data.X, data.y)
    sentences = narrate(findings_of(model))
    assert sentences[0] == f"{model.n_selected_} of 15 variables predict the response."
    assert not any("omponent" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    ("loadings", "text"),
    [
        ([0, 2, 0, 0], "Component 1 has one nonzero loading: v1."),
        ([3, 2, 0, 0.1], "Component 1 is dominated by v0 and v1, with loadings of the same sign."),
        ([3, 0.5, 0, 0.1], "Component 1 is dominated by v0."),
        ([-3, 2, -2, 0.1], "Component 1 contrasts v0 and v2 with v1."),
        (
            [-1] + 19 * [1],
            "Component 1 has 20 nonzero loadings. The largest, with 25.0% of the sum of squares, "
            "are those of v0 and, with the opposite sign, v1, v2, v3 and v4.",
        ),
    ],
)
def test_description_of_a_component(loadings, text):
    assert narrate(with_loadings(loadings))[-1] == text


def test_only_the_first_components_are_described():
    sentences = narrate(with_loadings(np.eye(4)))
    assert sentences[-4:] == [
        "The first 3 of 4 components are described here.",
        "Component 1 has one nonzero loading: v0.",
        "Component 2 has one nonzero loading: v1.",
        "Component 3 has one nonzero loading: v2.",
    ]


def test_selection_in_null_datasets():
    """The headline compares with the null expectation, and the second sentence has the result."""
    found = findings_of(GSPPCA(2, scale=True).fit(WINE))
    null = null_of(found, [4, 5, 6], 0.5, [0.1, 0.2, 0.3])
    sentences = narrate(found, null=null)
    assert sentences[:2] == [f"{null.headline()}.", headline(found)]
    assert null.summary() == sentences[-2:]
    assert describe_selection(found, null) == f"{found.n_selected} of 13; 5 expected under the null"


def test_result_consistent_with_the_null():
    found = findings_of(EMPCA(1, n_nonzero=4, random_state=0).fit(SIMULATED))
    null = null_of(found, [4, 4], 0.2, [0.1, 0.3])
    assert narrate(found, null=null) == [
        "The 25 variables have no shared variance that is distinguishable from noise.",
        "Null datasets give similar results, so the selection should not be interpreted.",
        *null.summary(),
    ]
    assert describe_selection(found, null) == (
        "4 of 25, as requested, not distinguishable from noise"
    )


@pytest.mark.slow
@pytest.mark.parametrize("informative", [False, True], ids=["noise", "signal"])
def test_selection_that_rests_on_noisy_rows(informative):
    """The report withdraws a selection that random signs reproduce."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 60))
    X[:, :10] += informative * rng.normal(size=(200, 1))
    X[:3] *= 5.0
    model = FDRPCA(null="exchangeable").fit(X)
    null = permutation_null(model, X, 4, random_state=0)
    expected = null.expected_n_selected_by_kind["signs"]
    sentences = narrate(findings_of(model), null=null)
    if informative:
        q = model.n_selected_
        assert sentences[0] == (
            f"FDRPCA selected {q} of 60 variables; 0 to {expected:.0f} are expected under the null."
        )
    else:
        assert sentences[0].startswith("The 60 variables have no shared variance that is dist")
    assert set(null.summary()) < set(sentences)


def test_warnings_are_announced():
    found = findings_of(FDRPCA().fit(WINE))
    assert narrate(found, warnings=["rows"])[-1].startswith("The fit issued warnings")


@pytest.mark.slow
def test_classes_in_null_datasets():
    """The mean accuracy includes null datasets without selected variables."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(40, 30)), columns=[f"v{k}" for k in range(30)])
    y = (2 * frame["v0"].to_numpy() + rng.normal(size=40) > 1.5).astype(int)
    null = permutation_null(SpinyClassifier().fit(frame, y), frame, 10, y=y, random_state=0)
    none = null.null_n_selected == 0
    assert 0 < none.sum() < 10
    assert np.all(null.null_statistic[none] >= max(y.mean(), 1 - y.mean()))
    assert percent(float(null.null_statistic.mean())) in null.summary()[1]


def datasets_and_noise():
    """Ten datasets, and the same with independently permuted columns."""
    rng = np.random.default_rng(0)
    cancer = load_breast_cancer().data
    datasets = {
        "wine": load_wine().data,
        "wine, first half": load_wine().data[::2],
        "diabetes": load_diabetes().data[:200],
        "diabetes, rest": load_diabetes().data[200:],
        "cancer, means": cancer[:150, :10],
        "cancer, errors": cancer[150:300, 10:20],
        "cancer, worst": cancer[300:450, 20:],
        "simulated": SIMULATED,
        "wide": make_globally_sparse(30, 60, n_components=4, n_informative=30, random_state=1).X,
        "blood": load_diabetes().data[::3, 4:],
    }
    for name, data in datasets.items():
        yield name, data, rng.permuted(data, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fdrpca", "gsppca"])
def test_headlines_of_ten_datasets_and_of_noise(method):
    for name, data, noise in datasets_and_noise():
        for X, is_noise in ((data, False), (noise, True)):
            model = (FDRPCA() if method == "fdrpca" else GSPPCA(2, scale=True)).fit(X)
            # Four null datasets would give a prediction limit above the simulated dataset.
            null = permutation_null(model, X, 12, random_state=1) if method == "gsppca" else None
            text = headline(findings_of(model), null)
            reported = "selected none of" in text or "no shared variance" in text
            assert reported == is_noise, (name, is_noise, text)


def test_table_of_the_command(tmp_path, monkeypatch):
    """The table contains the sentences of the report."""
    typer_testing = pytest.importorskip("typer.testing")
    pytest.importorskip("pyarrow")
    from prosparse.app.cli import app
    from prosparse.persistence import load_with_about
    from prosparse.stability import Stability, near_optimal_sizes

    monkeypatch.chdir(tmp_path)
    frame = WINE.sample(frac=1.0, random_state=0)
    frame.to_csv("wine.csv", index=False)
    arguments = ["select", "wine.csv", "--method", "gsppca", "--scale", "--stability", "4"]
    result = typer_testing.CliRunner().invoke(app, arguments, env={"COLUMNS": "2000"})
    assert result.exit_code == 0, result.output
    model, header = load_with_about("wine-prosparse/model.prosparse")
    about, found = header["about"], findings_of(model)
    null = PermutationNull.from_json(about["permutation_null"])
    stability = Stability.from_json(about["stability"], list(frame.columns))
    for text in (
        "wine.csv, 178 rows, 13 variables",
        describe_selection(found, null),
        found.reason,
        near_optimal_sizes(found).summary(),
        " ".join(null.summary()),
        " ".join(stability.summary()),
        percent(found.explained),
        ", ".join(found.names[k] for k in found.selected[:8]),
    ):
        assert text in result.stdout
