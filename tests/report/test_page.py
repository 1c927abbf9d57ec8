"""The page as text: what it says, how large it is, and that it fetches nothing."""

import html
import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

pytest.importorskip("jinja2", reason="jinja2 is not installed: no report")

from prosparse import EMPCA, GSPPCA, SCA, SPPCA, SpinyRegressor
from prosparse.datasets import make_globally_sparse, make_sparse_regression
from prosparse.report import findings_of, render, write_report
from prosparse.report.words import reading

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
    share = f"{model.explained_variance_ratio_.sum():.0%}"
    assert share in said[1]
    assert "evidence is highest" in said[2]
    first = [f"x{k}" for k in np.argsort(model.ranking_)[:5]]
    assert ", ".join(first) in said[3]
    page = render(model)
    assert all(sentence in page for sentence in said)


def test_evidence_falls_by_what_is_said(model):
    why = findings_of(model).why
    path, at = model.log_evidence_path_, int(np.argmax(model.log_evidence_path_))
    assert f"{path[at] - path[at - 1]:.3g} for 1 fewer" in why
    assert f"{path[at] - path[at + 1]:.3g} for 1 more" in why


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
    model.bounds_, model.stop_reason_ = np.arange(900.0), "converged"
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
    assert len(many["groups"]) == 12
    assert many["groups"][-1] == "19 others"
    assert max(many["values"]) == 11
    assert label(list(range(50)))["kind"] == "number"
    assert label([None, *map(str, range(49))])["values"][0] is None
    assert "missing" in label(["x", "", None] * 16 + ["y", "y"])["groups"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("model", "why"),
    [
        (GSPPCA(2, n_features_to_select=6), "you asked for 6 variables"),
        (EMPCA(2, n_nonzero=[3, 4], random_state=0), "you asked for 3, 4 loadings per component"),
        (SPPCA(2, penalty="bic", max_iter=50), "chosen by BIC"),
        (SPPCA(2, penalty=20.0), "the penalty 20, the one you gave"),
        (SCA(2), "the prior set the weights of all other variables to exactly zero"),
    ],
)
def test_why_that_many(model, why):
    found = findings_of(model.fit(X), total_variance=float(X.var(axis=0).sum()))
    assert why in found.why
    assert 0 < found.retained < 1
    assert sorted(found.ranking) == list(range(1, 31))
    assert found.relevance.max() == 1
    np.testing.assert_array_equal(np.any(found.loadings != 0, axis=0), found.support)


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_no_structure():
    model = SCA(1).fit(np.random.default_rng(1).normal(size=(30, 6)))
    assert not model.support_.any()
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
    assert f"{q}: the evidence is highest there" in page
