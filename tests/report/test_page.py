"""HTML of the report: text, data of the plots, and size."""

import html
import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

pytest.importorskip("jinja2", reason="jinja2 is not installed: no report")

from prosparse import EMPCA, FDRPCA, GSPPCA, SCA, SPPCA, Panel, SpinyRegressor
from prosparse.datasets import make_globally_sparse, make_sparse_regression
from prosparse.report import findings_of, render, write_report
from prosparse.report.narrative import narrate
from prosparse.report.page import MAX_PRINTED
from prosparse.report.redundancy import Redundancy, find_redundancy

pytestmark = pytest.mark.quick

X = make_globally_sparse(random_state=0).X


@pytest.fixture(scope="module")
def model():
    return GSPPCA(5).fit(X)


def page_data(page):
    """Return the data of the plots."""
    _, start, rest = page.partition('<script type="application/json" id="page-data">')
    assert start
    return json.loads(rest.partition("</script>")[0])


def test_all_sentences_are_in_the_page(model):
    page = render(model)
    assert all(sentence in page for sentence in narrate(findings_of(model)))


def test_data_of_the_plots(model):
    scores = model.transform(X)
    data = page_data(render(model, scores=scores, ids=range(50), label=["a", "b"] * 25))
    order = np.argsort(model.ranking_)
    assert data["names"] == [f"x{k}" for k in order]
    np.testing.assert_allclose(data["relevance"], model.relevance_[order], rtol=1e-3)
    assert sum(data["selected"]) == 10
    np.testing.assert_allclose(data["scores"]["values"][1], scores[:, 1], rtol=1e-3)
    assert data["scores"]["label"]["groups"] == ["a", "b"]
    path = model.log_evidence_path_ - model.log_evidence_path_.max()
    np.testing.assert_allclose(data["path"]["y"], path, rtol=1e-3, atol=1e-9)
    assert data["path"]["x"][data["path"]["best"]] == 10


def test_page_makes_no_requests(model):
    page = render(model, scores=model.transform(X))
    assert "default-src 'none'" in html.unescape(page)
    without_namespace = page.replace(
        "http://www.w3.org/2000/svg", ""
    )  # a namespace, not an address
    assert not re.search(r"https?://|@import|url\(|\ssrc=|<link", without_namespace)


def test_page_of_many_variables_is_small(tmp_path):
    """The page of 20,000 variables with long names and 50,000 rows is smaller than 3 MB."""
    rng = np.random.default_rng(0)
    p, n = 20_000, 50_000
    model = GSPPCA(10)
    model.n_features_in_, model.n_components_, model.n_selected_ = p, 10, 3000
    model.feature_names_in_ = np.array([f"ENSG00000000{k:08d}" for k in range(p)], dtype=object)
    model.support_ = np.arange(p) < 3000
    model.relevance_, model.ranking_ = np.sort(rng.random(p))[::-1], np.arange(1, p + 1)
    model.components_ = rng.normal(size=(10, p)) * model.support_
    model.cardinalities_ = np.arange(11, p + 1)
    model.log_evidence_path_ = -((model.cardinalities_ - 3000.0) ** 2)
    model.explained_variance_ratio_ = np.full(10, 0.05)
    model.objective_path_, model.stop_reason_ = np.arange(900.0), "converged"
    scores = rng.normal(size=(n, 10))
    path = tmp_path / "report.html"
    path.write_text(
        render(
            model, scores=scores, ids=[f"sample_{k:020d}" for k in range(n)], label=scores[:, 0]
        ),
        "utf-8",
    )
    assert path.stat().st_size < 3e6
    page = path.read_text("utf-8")
    assert "3,000 of 50,000 rows" in page
    data = page_data(page)
    assert data["path"]["x"][data["path"]["best"]] == 3000
    assert len(data["scores"]["rows"]) == 3000


def test_colours_of_labels():
    model = GSPPCA(2).fit(X)
    scores = model.transform(X)

    def label(values):
        return page_data(render(model, scores=scores, label=values))["scores"]["label"]

    many = label([str(k % 30) + "a" for k in range(50)])
    assert len(many["groups"]) == 16
    assert many["groups"][-1] == "15 others"
    assert max(many["values"]) == 15
    assert label(["abcdefghijklmn"[k % 14] for k in range(50)])["groups"] == list("abcdefghijklmn")
    assert label([f"day {k % 11}" for k in range(50)])["groups"][:3] == ["day 0", "day 1", "day 2"]
    assert label(list(range(50)))["kind"] == "number"
    assert label([None, *map(str, range(49))])["values"][0] is None
    assert "missing" in label(["x", "", None] * 16 + ["y", "y"])["groups"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (GSPPCA(2, n_features_to_select=6), "6 variables were requested"),
        (EMPCA(2, n_nonzero=[3, 4], random_state=0), "3, 4 loadings per component were requested"),
        (SPPCA(2, penalty="bic", penalties=[5.0, 20.0], max_iter=50), "selected by BIC"),
        (SPPCA(2, penalty=20.0), "at penalty 20, as requested"),
        (SCA(2), "the loadings of all other variables are exactly zero under the sparse prior"),
    ],
)
def test_reason_for_the_number_of_variables(model, reason):
    found = findings_of(model.fit(X), total_variance=float(X.var(axis=0).sum()))
    assert reason in found.reason
    assert 0 < found.explained < 1
    assert sorted(found.ranking) == list(range(1, 31))
    assert found.relevance.max() == 1
    np.testing.assert_array_equal(np.any(found.loadings != 0, axis=0), found.support)


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_no_structure():
    model = SCA(1).fit(np.random.default_rng(1).normal(size=(30, 6)))
    assert not model.support_.any()
    found = findings_of(model, total_variance=6.0)
    assert found.reason == "no factor is more probable than noise alone"
    page = render(model)
    assert "SCA selected none of the 6 variables" in page
    assert "All loadings are zero" in page


@pytest.mark.parametrize(
    "library", ["array_api_strict", pytest.param("torch", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "model",
    [
        GSPPCA(5),
        EMPCA(2, n_nonzero=5, random_state=0),
        SPPCA(2, penalty="bic", penalties=[1.0, 10.0, 20.0]),
        SCA(2, max_iter=30, tol=0.0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_page_does_not_depend_on_the_array_library(model, library, tmp_path):
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    pages = []
    for data in (X, xp.asarray(X)):
        fitted = clone(model).fit(data)
        page = write_report(fitted, tmp_path / "r.html", X=data).read_text("utf-8")
        pages.append((page_data(page), narrate(findings_of(fitted))))
    (expected, sentences), (actual, other_sentences) = pages
    assert other_sentences == sentences
    assert actual["names"] == expected["names"]
    assert all(path["y"] for path in actual["objectives"])
    assert len(actual["objectives"]) == len(expected["objectives"])
    np.testing.assert_allclose(actual["scores"]["values"], expected["scores"]["values"], atol=1e-3)
    assert (actual["path"] is None) == (expected["path"] is None)
    if expected["path"] is not None:
        assert actual["path"]["best"] == expected["path"]["best"]
        np.testing.assert_allclose(
            np.array(actual["path"]["y"], float), np.array(expected["path"]["y"], float), atol=1e-2
        )


def test_page_of_findings(model):
    assert render(findings_of(model)) == render(model)


def test_names_of_a_frame_are_escaped(tmp_path):
    frame = pd.DataFrame(X, columns=[f"<i>{k}" for k in range(30)])
    path = write_report(GSPPCA(5).fit(frame), tmp_path / "r.html", X=frame)
    page = path.read_text("utf-8")
    assert "<i>" not in page
    assert "&lt;i&gt;" in page


def test_page_of_a_regression(tmp_path):
    data = make_sparse_regression(100, 20, random_state=0)
    model = SpinyRegressor().fit(data.X, data.y)
    page = write_report(model, tmp_path / "r.html", X=data.X).read_text("utf-8")
    q = int(model.support_.sum())
    assert f"{q} of 20 variables predict the response" in page
    assert "Coefficients of the selected variables" in page
    assert 'id="scores-chart"' not in page
    score = f"{model.expected_f_score_:.2f}"
    assert f"{q} selected: this set has the highest expected F-score, {score}" in page


@pytest.mark.parametrize(
    ("seed", "selection_rule"), [(0, "f-score"), (2, "median"), (7, "f-score")]
)
def test_plot_shows_the_criterion_of_the_selection(seed, selection_rule):
    """With few rows the evidence is increasing; the posterior probability is not."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 30))
    y = rng.normal(size=40) + 0.35 * X[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = SpinyRegressor(selection_rule=selection_rule).fit(X, y)
    page = render(fitted)
    plotted, path = page_data(page)["path"], fitted.log_posterior_path_
    selected = list(fitted.cardinalities_).index(fitted.n_selected_)
    assert plotted["x"][plotted["best"]] == fitted.n_selected_
    np.testing.assert_allclose(plotted["y"], path - path[selected], rtol=1e-3, atol=1e-3)
    highest = int(fitted.cardinalities_[np.argmax(path)])
    caption = "Log posterior probability against the number of variables; the marked point was "
    if highest == fitted.n_selected_:
        assert max(plotted["y"]) == 0.0
        assert f"<figcaption>{caption}selected.</figcaption>" in page
    else:
        assert f"{caption}selected for the reason above. The maximum is at {highest} " in page
    if fitted.n_selected_ == 0:
        assert "SpinyRegressor selected none of the 30 variables." in page


def test_communality_is_not_rescaled():
    """The bars have the units of the null expectation."""
    model = FDRPCA().fit(X)
    data = page_data(render(model))
    order = np.argsort(model.ranking_)
    np.testing.assert_allclose(data["relevance"], model.communality_[order], rtol=1e-3)


def test_note_on_the_printed_part_matches_the_style(model):
    page = render(model)
    rows, components = MAX_PRINTED
    assert f".heat tbody tr:nth-child(n + {rows + 1})" in page
    assert f".heat tr > :nth-child(n + {components + 2})" in page  # the first column has the names
    assert "are printed." not in page
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(60, 9)) @ rng.normal(size=(9, 60)) + rng.normal(size=(60, 60))
    many = render(GSPPCA(9, n_features_to_select=50).fit(wide))
    assert "Only the first 40 variables and the first 8 components are printed." in many


def test_number_of_components_in_the_page():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(80, 14)) @ rng.normal(size=(14, 30)) + rng.normal(size=(80, 30))
    model = GSPPCA(14, n_features_to_select=20).fit(data)
    page = render(model)
    assert "Components 1 to 12 of 14" in page
    assert "The first 3 of 14 components are described here." in page


def test_variance_explained_in_views():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 1))
    views = [Z * [1, 1, 0] + rng.normal(size=(80, 3)), 2 * Z + rng.normal(size=(80, 2))]
    model = SCA(1).fit(views)
    page = render(model)
    assert 'href="#views"' in page
    squares = [float(np.sum(np.square(L))) for L in model.view_components_]
    for v, width in enumerate((3, 2)):
        explained = squares[v] / (squares[v] + width * model.noise_variance_[v])
        _, _, row = page.partition(f"view {v + 1}, {width} variables</th>")
        assert row.startswith(f"<td>{explained:.1%}</td>")
    assert 'id="views"' not in render(SCA(1).fit(np.hstack(views)))


def test_redundant_variables(tmp_path):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(60, 2))
    data = rng.normal(size=(60, 12))
    data[:, :4] = scores[:, [0]] * [1, -2, 3, 1] + 0.05 * rng.normal(size=(60, 4))
    data[:, 4:7] = scores[:, [1]] + 0.05 * rng.normal(size=(60, 3))
    model = FDRPCA().fit(data)
    found = findings_of(model)
    redundancy = find_redundancy(found, data)
    members = [{group.representative, *group.others} for group in redundancy.groups]
    assert members == [{0, 1, 2, 3}, {4, 5, 6}]
    first = redundancy.groups[0].representative
    assert first == min(members[0], key=lambda k: model.ranking_[k])
    assert redundancy.summary(found).startswith(
        f"7 of the {model.n_selected_} selected variables are in 2 groups in which all pairs"
    )
    page = html.unescape(write_report(model, tmp_path / "r.html", X=data).read_text("utf-8"))
    assert redundancy.summary(found) in page
    again = Redundancy.from_json(json.loads(json.dumps(redundancy.to_json())), 12)
    assert again == redundancy
    assert Redundancy.from_json({**redundancy.to_json(), "groups": [[99]]}, 12) is None


def test_redundancy_within_groups():
    """Correlations between batches are not correlations within batches."""
    rng = np.random.default_rng(0)
    batches = np.repeat([0, 1], 30)
    data = rng.normal(size=(60, 12)) + 50.0 * batches[:, None]
    found = findings_of(FDRPCA().fit(data))
    assert find_redundancy(found, data).groups
    assert not find_redundancy(found, data, groups=batches).groups


@pytest.mark.filterwarnings("ignore::prosparse.ShortPanelWarning")
def test_groups_of_a_panel_are_its_proxies():
    model = Panel(4).fit(X)
    for group in find_redundancy(findings_of(model), None).groups:
        assert model.support_[group.representative]
        assert all(model.proxy_[k] == group.representative for k in group.others)


@pytest.mark.parametrize("width", [12, 18])
def test_views_given_as_a_list(width, tmp_path):
    """Scores and redundant groups of views, of equal or different widths."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(60, 2))
    data = scores @ rng.normal(size=(2, 24)) + rng.normal(size=(60, 24))
    data[:, 23] = data[:, 1] + 0.01 * rng.normal(size=60)
    views = [data[:, :width], data[:, width:]]
    model = SCA(2).fit(views)
    page = write_report(model, tmp_path / "r.html", X=views).read_text("utf-8")
    plotted = page_data(page)["scores"]["values"]
    np.testing.assert_allclose(plotted, model.transform(views).T, rtol=1e-3, atol=1e-6)
    found = findings_of(model)
    redundancy = find_redundancy(found, views)
    assert redundancy == find_redundancy(found, data)
    members = [{group.representative, *group.others} for group in redundancy.groups]
    assert {1, 23} in members
    assert redundancy == find_redundancy(
        found, [pd.DataFrame(views[0]), sparse.csr_array(views[1])]
    )


@pytest.mark.slow
@pytest.mark.parametrize("key", ["permutation_null", "stability", "redundancy"])
@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"null_n_selected": "x", "selection_counts": 3, "groups": 1},
        {"groups": [[10**30]], "n_compared": [], "min_correlation": {}},
        {"groups": [[]], "n_compared": 1, "min_correlation": 0.9},
        {"method": [], "n_features": 1, "n_selected": 1, "size_given": 1,
         "null_n_selected": [[1]], "statistic": 0.1, "null_statistic": [[0.1]],
         "statistic_name": ["explained_variance"], "null_kind": ["signs"]},
        {"method": "<b>", "selected": [99], "selection_counts": [1] * 30, "n_selected": [1, 2],
         "n_rows": 1, "n_failed": 0, "threshold": 0.9},
        {"method": "<b>", "selected": [], "selection_counts": [7] * 30, "n_selected": [1, 2],
         "n_rows": 1, "n_failed": 0, "threshold": 0.9},
    ],
)  # fmt: skip
def test_invalid_diagnostics_are_ignored(model, key, wrong):
    assert render(model, about={key: wrong}) == render(model)
