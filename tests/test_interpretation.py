"""Leading variables, gene set enrichment and associations, compared with SciPy."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import false_discovery_control, kruskal, mannwhitneyu, spearmanr

from prosparse import SCA, SpinyRegressor
from prosparse.errors import InputError, ParameterError
from prosparse.interpretation import associations, enrichment

pytestmark = pytest.mark.quick

GENES = [f"g{k}" for k in range(40)]


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(120, 2))
    W = np.zeros((2, 40))
    W[0, :10], W[1, 10:20] = np.linspace(3, 1, 10), -1.5
    genes = Z @ W + rng.normal(size=(120, 40))
    lipids = Z[:, :1] * [2, 0, 0] + rng.normal(size=(120, 3))
    return Z, [pd.DataFrame(genes, columns=GENES), pd.DataFrame(lipids, columns=["a", "b", "g0"])]


@pytest.fixture(scope="module")
def model(views):
    return SCA(2).fit(views[1])


@pytest.fixture(scope="module")
def strong(model):
    """Index of the factor of the first ten genes."""
    return int(np.argmax(np.abs(model.components_[:, 0])))


SETS = {"first": GENES[:8] + ["unknown"], "third": GENES[20:30], "small": GENES[:2]}


def test_enrichment_agrees_with_scipy(model, strong):
    rows = enrichment(model, SETS, view=0)
    assert len(rows) == 4
    assert [row.p_value for row in rows] == sorted(row.p_value for row in rows)
    first = next(row for row in rows if row.factor == strong and row.gene_set == "first")
    assert first == rows[0]
    size = np.abs(model.view_components_[0][strong])
    result = mannwhitneyu(size[:8], size[8:], alternative="greater", method="asymptotic")
    assert first.effect == pytest.approx(result.statistic / (8 * 32))
    assert first.p_value == pytest.approx(result.pvalue)
    assert first.size == 8
    assert first.q_value < 0.05
    np.testing.assert_allclose(
        [row.q_value for row in rows], false_discovery_control([row.p_value for row in rows])
    )
    assert all(row.p_value > 0.05 for row in rows if row.gene_set == "third")


def test_enrichment_of_one_sign(model, strong):
    sign = "positive" if model.components_[strong, 0] > 0 else "negative"
    other = {"positive": "negative", "negative": "positive"}[sign]

    def p_value(sign):
        rows = enrichment(model, SETS, sign=sign, view=0)
        return next(r.p_value for r in rows if r.factor == strong and r.gene_set == "first")

    assert p_value(sign) < 0.01
    assert p_value(other) > 0.5


def test_errors_of_enrichment(model, views):
    with pytest.raises(InputError, match="no unique names"):
        enrichment(model, SETS)  # both views have a g0
    with pytest.raises(InputError, match="no set with at least 5 variables"):
        enrichment(model, {"other": ["p53"]}, view=0)
    with pytest.raises(InputError, match="must be a list of names"):
        enrichment(model, {"other": "p53"}, view=0)
    with pytest.raises(InputError, match="must map the names of sets"):
        enrichment(model, [GENES], view=0)
    with pytest.raises(ParameterError, match="below the number of views, 2, got 2"):
        enrichment(model, SETS, view=2)
    genes = views[1][0]
    unnamed = SCA(1).fit(genes.to_numpy())
    with pytest.raises(InputError, match="view 0 has no variable names"):
        enrichment(unnamed, SETS, view=0)
    assert enrichment(SCA(1).fit(genes), SETS)[0].gene_set == "first"
    regression = SpinyRegressor().fit(genes, genes["g0"])
    with pytest.raises(InputError, match="coefficients but no factors"):
        enrichment(regression, SETS)


def test_associations_agree_with_scipy(model, strong, views):
    Z, data = views
    scores = model.transform(data)
    rng = np.random.default_rng(1)
    age = Z[:, 0] + 0.3 * rng.normal(size=120)
    age[:5] = np.nan
    kind = np.where(Z[:, 1] > 0, "a", "b").astype(object)
    kind[3] = None
    covariates = pd.DataFrame({"age": age, "kind": kind, "noise": rng.integers(0, 5, 120)})
    rows = associations(scores, covariates)
    assert len(rows) == 6
    by_name = {(row.covariate, row.factor): row for row in rows}
    found = by_name["age", strong]
    rho = spearmanr(scores[5:, strong], age[5:])
    assert (found.kind, found.n) == ("number", 115)
    assert found.effect == pytest.approx(rho.statistic)
    assert found.p_value == pytest.approx(rho.pvalue)
    found = by_name["kind", 1 - strong]
    known = np.arange(120) != 3
    groups = [scores[known & (kind == name), 1 - strong] for name in "ab"]
    H = kruskal(*groups)
    assert (found.kind, found.n) == ("category", 119)
    assert found.p_value == pytest.approx(H.pvalue)
    assert found.effect == pytest.approx(H.statistic / 118)
    assert found.effect > 0.5
    np.testing.assert_allclose(
        [row.q_value for row in rows], false_discovery_control([row.p_value for row in rows])
    )


def test_uninformative_covariates():
    scores = np.arange(12.0).reshape(6, 2)
    rows = associations(
        scores,
        {
            "same": np.ones(6),
            "one": ["a"] * 6,
            "few": [1.0, 2.0, None, None, None, None],
            "nullable": pd.array([1, 2, 3, 4, 5, None], dtype="Int64"),
        },
    )
    by_name = {row.covariate: row for row in rows}
    assert by_name["same"].p_value == by_name["one"].p_value == by_name["few"].p_value == 1.0
    assert by_name["nullable"].kind == "number"
    assert by_name["nullable"].effect == pytest.approx(1.0)
    with pytest.raises(InputError, match="'age' must have one value for each of the 6"):
        associations(scores, {"age": [1, 2]})
    with pytest.raises(InputError, match="one column per factor"):
        associations(np.arange(3.0), {})
    assert associations(scores, {}) == []
