"""The page as text: what it says, how large it is, and that it fetches nothing."""

import html
import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

pytest.importorskip("jinja2", reason="jinja2 is not installed: no report")

from prosparse import EMPCA, FDRPCA, GSPPCA, SCA, SPPCA, Panel, SpinyRegressor
from prosparse.datasets import make_globally_sparse, make_sparse_regression
from prosparse.report import findings_of, render, write_report
from prosparse.report.narrative import reading
from prosparse.report.page import MOST_PRINTED
from prosparse.report.redundancy import Alike, alike

pytestmark = pytest.mark.quick

X = make_globally_sparse(random_state=0).X


@pytest.fixture(scope="module")
def model():
    return GSPPCA(5).fit(X)


def data_of(page):
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', page, re.S)
    return json.loads(found[1])


def test_what_it_says(model):
    said = reading(findings_of(model))
    assert said[0] == "10 of 30 variables carry the common structure, in 5 components."
    share = f"{model.explained_variance_ratio_.sum():.1%}"
    assert share in said[1]
    assert "highest marginal likelihood (evidence)" in said[2]
    first = [f"x{k}" for k in np.argsort(model.ranking_)[:5]]
    assert ", ".join(first) in said[4]
    page = render(model)
    assert all(sentence in page for sentence in said)


def test_other_numbers_are_as_improbable_as_is_said():
    noisy = X + np.random.default_rng(0).normal(size=X.shape) * 1.5
    model = GSPPCA(3).fit(noisy)
    why = findings_of(model).reason
    path, at = model.log_evidence_path_, int(np.argmax(model.log_evidence_path_))
    for side, step in (("fewer", -1), ("more", 1)):
        said = re.search(rf"1 {side} would be ([\d,.]+) times less probable", why)
        if 0 <= at + step < path.size:
            factor = np.exp(path[at] - path[at + step])
            assert float(said[1].replace(",", "")) == pytest.approx(factor, rel=0.05)
    assert "logarithm" not in why


def test_data_in_the_page(model):
    scores = model.transform(X)
    data = data_of(render(model, scores=scores, ids=range(50), label=["a", "b"] * 25))
    order = np.argsort(model.ranking_)
    assert data["names"] == [f"x{k}" for k in order]
    np.testing.assert_allclose(data["relevance"], model.relevance_[order], rtol=1e-3)
    assert sum(data["chosen"]) == 10
    np.testing.assert_allclose(data["scores"]["values"][1], scores[:, 1], rtol=1e-3)
    assert data["scores"]["label"]["groups"] == ["a", "b"]
    path = model.log_evidence_path_ - model.log_evidence_path_.max()
    np.testing.assert_allclose(data["choice"]["y"], path, rtol=1e-3, atol=1e-9)
    assert data["choice"]["x"][data["choice"]["best"]] == 10


def test_nothing_is_fetched(model):
    page = render(model, scores=model.transform(X))
    assert "default-src 'none'" in html.unescape(page)
    without_names = page.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert not re.search(r"https?://|@import|url\(|\ssrc=|<link", without_names)


def test_small_for_many_variables(tmp_path):
    """20,000 variables with names of 20 letters, 50,000 rows: under 3 MB."""
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
    data = data_of(page)
    assert data["choice"]["x"][data["choice"]["best"]] == 3000
    assert len(data["scores"]["rows"]) == 3000


def test_labels():
    model = GSPPCA(2).fit(X)
    scores = model.transform(X)

    def label(values):
        return data_of(render(model, scores=scores, label=values))["scores"]["label"]

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
    ("model", "why"),
    [
        (GSPPCA(2, n_features_to_select=6), "6 variables were requested"),
        (EMPCA(2, n_nonzero=[3, 4], random_state=0), "3, 4 loadings per component were requested"),
        (SPPCA(2, penalty="bic", penalties=[5.0, 20.0], max_iter=50), "selected by BIC"),
        (SPPCA(2, penalty=20.0), "at penalty 20, as requested"),
        (SCA(2), "the loadings of all other variables are exactly zero under the sparse prior"),
    ],
)
def test_why_that_many(model, why):
    found = findings_of(model.fit(X), total_variance=float(X.var(axis=0).sum()))
    assert why in found.reason
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
    assert "None of the 6 variables carries structure" in page
    assert "No variable has a loading" in page


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
def test_after_a_fit_on_other_arrays(model, library, tmp_path):
    """The page of a model does not depend on the library, or the device, that it was fitted on."""
    xp = pytest.importorskip(library, reason=f"{library} is not installed")
    pages = []
    for table in (X, xp.asarray(X)):
        fitted = clone(model).fit(table)
        page = write_report(fitted, tmp_path / "r.html", X=table).read_text("utf-8")
        pages.append((data_of(page), reading(findings_of(fitted))))
    (plain, said), (ours, other) = pages
    assert other == said
    assert ours["names"] == plain["names"]
    assert [len(trace["y"]) > 0 for trace in ours["traces"]] == [True] * len(plain["traces"])
    np.testing.assert_allclose(ours["scores"]["values"], plain["scores"]["values"], atol=1e-3)
    assert (ours["choice"] is None) == (plain["choice"] is None)
    if plain["choice"] is not None:
        assert ours["choice"]["best"] == plain["choice"]["best"]
        np.testing.assert_allclose(
            np.array(ours["choice"]["y"], float), np.array(plain["choice"]["y"], float), atol=1e-2
        )


def test_findings_instead_of_a_model(model):
    assert render(findings_of(model)) == render(model)


def test_write_report_with_a_frame(tmp_path):
    frame = pd.DataFrame(X, columns=[f"<i>{k}" for k in range(30)])
    path = write_report(GSPPCA(5).fit(frame), tmp_path / "r.html", X=frame)
    page = path.read_text("utf-8")
    assert "<i>" not in page
    assert "&lt;i&gt;" in page


def test_regression(tmp_path):
    data = make_sparse_regression(100, 20, random_state=0)
    model = SpinyRegressor().fit(data.X, data.y)
    page = write_report(model, tmp_path / "r.html", X=data.X).read_text("utf-8")
    q = int(model.support_.sum())
    assert f"{q} of 20 variables predict the response" in page
    assert "Coefficients of the chosen variables" in page
    assert 'id="scores-chart"' not in page
    score = f"{model.expected_f_score_:.2f}"
    assert f"{q}: this set has the highest expected F-score, {score}" in page


@pytest.mark.parametrize(
    ("seed", "selection_rule"), [(0, "f-score"), (2, "median"), (7, "f-score")]
)
def test_the_plot_shows_what_decided_the_number(seed, selection_rule):
    """With few rows the evidence grows with every variable: only with the prior is it compared."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 30))
    y = rng.normal(size=40) + 0.35 * X[:, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = SpinyRegressor(selection_rule=selection_rule).fit(X, y)
    page = render(fitted)
    drawn, path = data_of(page)["choice"], fitted.log_posterior_path_
    selected = list(fitted.cardinalities_).index(fitted.n_selected_)
    assert drawn["x"][drawn["best"]] == fitted.n_selected_
    np.testing.assert_allclose(drawn["y"], path - path[selected], rtol=1e-3, atol=1e-3)
    highest = int(fitted.cardinalities_[np.argmax(path)])
    caption = "Log posterior probability against the number of variables; the marked point was "
    if highest == fitted.n_selected_:
        assert max(drawn["y"]) == 0.0
        assert f"<figcaption>{caption}selected.</figcaption>" in page
    else:
        assert f"{caption}selected for the reason above. The maximum is at {highest} " in page
    if fitted.n_selected_ == 0:
        assert "None of the 30 variables is shown to predict the response." in page


def test_what_is_shared_is_shown_as_it_is():
    """Not as a share of the largest: the line of chance beside the bars is a share of variance."""
    model = FDRPCA().fit(X)
    data = data_of(render(model))
    order = np.argsort(model.ranking_)
    np.testing.assert_allclose(data["relevance"], model.communality_[order], rtol=1e-3)


def test_what_is_printed_is_what_the_page_says_is(model):
    """The style hides what the text says is not on paper."""
    page = render(model)
    rows, components = MOST_PRINTED
    assert f".heat tbody tr:nth-child(n + {rows + 1})" in page
    assert f".heat tr > :nth-child(n + {components + 2})" in page  # the first is the name
    assert "On paper are" not in page
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(60, 9)) @ rng.normal(size=(9, 60)) + rng.normal(size=(60, 60))
    many = render(GSPPCA(9, n_features_to_select=50).fit(wide))
    assert "On paper are the first 40 variables and the first 8 components of these." in many


def test_components_that_are_shown_are_said():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(80, 14)) @ rng.normal(size=(14, 30)) + rng.normal(size=(80, 30))
    model = GSPPCA(14, n_features_to_select=20).fit(table)
    page = render(model)
    assert "Components 1 to 12 of 14" in page
    assert "These are the first 3 of 14 components." in page


def test_what_components_explain_of_views():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 1))
    views = [Z * [1, 1, 0] + rng.normal(size=(80, 3)), 2 * Z + rng.normal(size=(80, 2))]
    model = SCA(1).fit(views)
    page = render(model)
    assert 'href="#views"' in page
    squares = [float(np.sum(np.square(L))) for L in model.view_components_]
    for v, width in enumerate((3, 2)):
        share = squares[v] / (squares[v] + width * model.noise_variance_[v])
        row = rf"view {v + 1}, {width} variables</th><td>[\d.]+%</td><td[^>]*>{share:.1%}</td>"
        assert re.search(row, page), row
    assert 'id="views"' not in render(SCA(1).fit(np.hstack(views)))


def test_names_are_looked_up_only_if_all_are_of_a_kind():
    table = make_globally_sparse(50, 30, n_components=2, random_state=0).X

    def links(names):
        frame = pd.DataFrame(table, columns=names)
        page = render(GSPPCA(2).fit(frame))
        return set(re.findall(r'href="(https://[^"]+)"', page)), data_of(page)["link"]

    ensembl = [f"ENSG{k:011d}" for k in range(30)]
    hrefs, link = links(ensembl)
    assert all(h.startswith("https://www.ensembl.org/id/ENSG") for h in hrefs)
    assert hrefs
    assert re.fullmatch(link["form"], "ENSG00000141510")
    proteins = [f"P{k:05d}" for k in range(12345, 12375)]
    assert all("uniprotkb/P" in h for h in links(proteins)[0])
    genes = ["TP53", "ACTB", "GAPDH", "MYC", *(f"GEN{k}" for k in range(26))]
    assert all("genecards" in h for h in links(genes)[0])
    for strange in (
        [f"V{k}" for k in range(30)],
        ["TP53", *(f"GEN{k}" for k in range(29))],  # one word that happens to be a gene
        ["ENSG00000141510", *(f"age {k}" for k in range(29))],
        ["TP53", "ACTB", "GAPDH", *(f"height of tree {k}" for k in range(27))],
    ):
        assert links(strange) == (set(), None)


def test_control_probes_that_carry_a_component_are_noticed():
    rng = np.random.default_rng(0)
    names = [*(f"AFFX-{k}_at" for k in range(6)), *(f"{'XYZ'[k % 3]}{k}_at" for k in range(54))]
    table = rng.normal(size=(60, 60))
    table[:, :6] += 4.0 * rng.normal(size=(60, 1))
    said = " ".join(reading(findings_of(FDRPCA().fit(pd.DataFrame(table, columns=names)))))
    assert (
        "Component 1 is carried by the 6 variables whose names begin with “AFFX-”, control probes "
        "of the array" in said
    )
    plain = [f"gene-{k}" for k in range(60)]
    said = " ".join(reading(findings_of(FDRPCA().fit(pd.DataFrame(table, columns=plain)))))
    assert "carried by" not in said


def test_variables_that_stand_for_each_other(tmp_path):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(60, 2))
    table = rng.normal(size=(60, 12))
    table[:, :4] = scores[:, [0]] * [1, -2, 3, 1] + 0.05 * rng.normal(size=(60, 4))
    table[:, 4:7] = scores[:, [1]] + 0.05 * rng.normal(size=(60, 3))
    model = FDRPCA().fit(table)
    found = findings_of(model)
    groups = alike(found, table)
    members = [{one.first, *one.others} for one in groups.groups]
    assert members == [{0, 1, 2, 3}, {4, 5, 6}]
    assert groups.groups[0].first == min(members[0], key=lambda k: model.ranking_[k])
    page = html.unescape(write_report(model, tmp_path / "r.html", X=table).read_text("utf-8"))
    assert groups.summary(found) in page
    assert f"Of the {model.n_selected_} chosen variables, 7 are in 2 groups" in page
    again = Alike.from_json(json.loads(json.dumps(groups.to_json())), 12)
    assert again == groups
    assert Alike.from_json({"groups": [[99]], "looked_at": 1, "least": 0.9}, 12) is None
    # what differs between batches is no likeness within them
    batches = np.repeat([0, 1], 30)
    shifted = rng.normal(size=(60, 12)) + 50.0 * batches[:, None]
    assert alike(found, shifted).groups
    assert not alike(found, shifted, groups=batches).groups


@pytest.mark.filterwarnings("ignore::prosparse.ShortPanelWarning")
def test_a_panel_says_who_stands_for_whom():
    model = Panel(4).fit(X)
    found = findings_of(model)
    for one in alike(found, None).groups:
        assert model.support_[one.first]
        assert all(model.proxy_[k] == one.first for k in one.others)
    assert "So many others each of the first stands for" in " ".join(reading(found))


@pytest.mark.parametrize("key", ["permutation_null", "stability", "redundancy"])
@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"counts": "x", "times": 3, "groups": 1},
        {"groups": [[10**30]], "looked_at": [], "least": {}},
        {"groups": [[]], "looked_at": 1, "least": 0.9},
        {"method": [], "n_features": 1, "n_selected": 1, "asked": 1, "counts": [[1]], "held": 0.1,
         "chance_held": [[0.1]], "what": ["variance"]},
        {"method": "<b>", "selected": [99], "times": [1] * 30, "counts": [1, 2], "n_rows": 1,
         "n_refused": 0, "threshold": 0.9},
        {"method": "<b>", "selected": [], "times": [7] * 30, "counts": [1, 2], "n_rows": 1,
         "n_refused": 0, "threshold": 0.9},
    ],
)  # fmt: skip
def test_what_a_stranger_s_file_says_of_chance_and_halves(model, key, wrong):
    """As if it said nothing, where it is not what the library wrote."""
    assert render(model, about={key: wrong}) == render(model)
