"""AnnData: projection of query cells on stored models, and plots of stored models."""

import contextlib

import numpy as np
import pytest
from scipy import sparse

import prosparse
import prosparse.anndata as psa
from prosparse import FDRPCA, GSPPCA, SCA, InputError, Panel, ParameterError
from prosparse.anndata.factors import scaled_scores
from prosparse.datasets import make_cell_counts, make_globally_sparse

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings(
    "ignore::prosparse.FewVariablesWarning", "ignore::prosparse.NoStructureWarning"
)


def cells(n=160, p=60, seed=0):
    data = make_cell_counts(n, p, n_types=4, n_markers=8, random_state=seed)
    adata = anndata.AnnData(sparse.csr_matrix(data.X))
    adata.var_names = [f"gene{j}" for j in range(p)]
    counts = adata.X.astype(float)
    adata.layers["log"] = sparse.csr_matrix(counts.multiply(1e3 / counts.sum(axis=1)).log1p())
    adata.obs["type"] = pd.Categorical(np.resize(["a", "b"], n))
    adata.obs["depth"] = np.asarray(adata.X.sum(axis=1)).ravel().astype(float)
    return adata


FITS = {
    "fdrpca": (psa.tl.fdrpca, {}),
    "gsppca": (psa.tl.gsppca, {"n_components": 2, "layer": "log"}),
    "panel": (psa.pp.select_panel, {"n_genes": 6}),
    "sca": (psa.tl.sca, {"n_components": 2, "layer": "log", "max_iter": 20, "tol": 1e-2}),
}


@pytest.fixture(scope="module")
def reference():
    adata = cells()
    for function, given in FITS.values():
        function(adata, **given)
    return adata


# --- projection


@pytest.mark.parametrize("key", FITS)
def test_scores_of_the_cells_of_the_fit(reference, key):
    query = cells()
    assert psa.tl.project(query, reference, key=key) is None
    np.testing.assert_allclose(query.obsm[f"X_{key}"], reference.obsm[f"X_{key}"], atol=1e-8)


@pytest.mark.parametrize("key", FITS)
def test_variables_are_matched_by_name(reference, key, tmp_path):
    mixed = reference[::2, np.random.default_rng(0).permutation(60)].copy()
    more = anndata.AnnData(sparse.csr_matrix(np.ones((mixed.n_obs, 2))))
    more.var_names, more.obs_names = ["other0", "other1"], mixed.obs_names
    query = anndata.concat([more, mixed], axis=1, join="outer")
    query.layers["log"] = sparse.hstack([more.X, mixed.layers["log"]], format="csr")
    reference.write_h5ad(tmp_path / "reference.h5ad")
    stored = anndata.read_h5ad(tmp_path / "reference.h5ad")
    found = psa.tl.project(query, stored, key=key, key_added="query", copy=True)
    np.testing.assert_allclose(
        found.obsm["X_query"], reference.obsm[f"X_{key}"][::2], rtol=1e-6, atol=1e-6
    )
    assert "X_query" not in query.obsm


def test_a_panel_needs_its_members_only(reference):
    query = cells()[:, reference.var["panel"].to_numpy()].copy()
    psa.tl.project(query, reference, key="panel")
    expected = Panel(6, counts=True).fit(reference.to_df())
    np.testing.assert_allclose(query.obsm["X_panel"], expected.transform(query.to_df()), atol=1e-8)


def test_estimators_and_files(tmp_path):
    adata = cells()
    frame = adata.to_df("log")
    for model in (FDRPCA(2).fit(frame), GSPPCA(2).fit(frame)):
        psa.tl.project(adata, model, layer="log")
        name = type(model).__name__.lower()
        np.testing.assert_allclose(adata.obsm[f"X_{name}"], model.transform(frame), atol=1e-8)
        path = prosparse.save(model, tmp_path / "model.prosparse")
        psa.tl.project(adata, path, layer="log", key_added="loaded")
        np.testing.assert_array_equal(adata.obsm["X_loaded"], adata.obsm[f"X_{name}"])
    factors = SCA(2, max_iter=20, tol=1e-2).fit(frame)
    psa.tl.project(adata, factors, layer="log")
    expected = scaled_scores(factors, factors.transform(frame))
    np.testing.assert_allclose(adata.obsm["X_sca"], expected, atol=1e-8)


def test_covariates_of_query_cells():
    adata = cells()
    psa.tl.fdrpca(adata, covariate_keys=["depth", "type"])
    query = adata[:50].copy()
    psa.tl.project(query, adata, key_added="query")
    np.testing.assert_allclose(query.obsm["X_query"], adata.obsm["X_fdrpca"][:50], atol=1e-8)
    del query.obs["depth"]
    with pytest.raises(ParameterError, match="'depth'"):
        psa.tl.project(query, adata)


def test_errors_of_projection(reference):
    query = cells()
    with pytest.raises(ParameterError, match=r"`key` .*'fdrpca', 'gsppca', 'panel', 'sca'.*None"):
        psa.tl.project(query, reference)
    with pytest.raises(ParameterError, match=r"there are none"):
        psa.tl.project(query, query)
    lacking = query[:, ~query.var_names.isin(["gene0", "gene3"])].copy()
    with pytest.raises(InputError, match=r"lacks 2 of the 60 .*'gene0' and 'gene3'"):
        psa.tl.project(lacking, reference, key="fdrpca")
    with pytest.raises(ParameterError, match=r"integers, but layer 'log'"):
        psa.tl.project(query, reference, key="fdrpca", layer="log")
    with pytest.raises(ParameterError, match="no variable names"):
        psa.tl.project(query, FDRPCA(2).fit(query.layers["log"].toarray()))
    query.var_names = ["gene0", *query.var_names[1:-1], "gene0"]
    with pytest.raises(InputError, match="not unique"):
        psa.tl.project(query, reference, key="fdrpca")
    assert not query.obsm.keys()


def test_random_states_are_not_stored():
    adata = cells()
    psa.tl.fdrpca(adata, random_state=np.random.RandomState(0))
    psa.tl.project(adata, adata, key_added="again")
    np.testing.assert_array_equal(adata.obsm["X_again"], adata.obsm["X_fdrpca"])


@pytest.fixture
def mudata():
    module = pytest.importorskip("mudata")
    with contextlib.ExitStack() as stack:
        if hasattr(module, "set_options"):
            stack.enter_context(module.set_options(pull_on_update=False))
        yield module


def modalities(mudata):
    parts = {}
    for name, seed in (("rna", 0), ("prot", 1)):
        X = make_globally_sparse(60, 20, n_components=2, n_informative=10, random_state=seed).X
        part = anndata.AnnData(X)
        part.var_names = [f"{name}{k}" for k in range(20)]
        part.obs_names = [f"cell{k}" for k in range(60)]
        parts[name] = part
    return mudata.MuData(parts)


def test_projection_of_mudata(mudata):
    mdata = modalities(mudata)
    psa.tl.sca(mdata, 2, n_private=[1, 0], modality=["prot", "rna"])
    psa.tl.gsppca(mdata, 2)
    query = modalities(mudata)
    psa.tl.project(query, mdata)  # in `.uns` of the MuData: SCA alone
    np.testing.assert_allclose(query.obsm["X_sca"], mdata.obsm["X_sca"], atol=1e-8)
    psa.tl.project(query, mdata, modality="rna")
    expected = mdata.mod["rna"].obsm["X_gsppca"]
    np.testing.assert_allclose(query.mod["rna"].obsm["X_gsppca"], expected, atol=1e-8)
    with pytest.raises(ParameterError, match="`modality` must be a modality"):
        psa.tl.project(query, mdata, modality="atac")
    one = mudata.MuData({"rna": query.mod["rna"]})
    model = SCA(1, views=[range(20), range(20, 40)], max_iter=5, tol=1.0)
    model.fit(pd.concat([mdata.mod[name].to_df() for name in ("rna", "prot")], axis=1))
    with pytest.raises(ParameterError, match="has 2 views, but `adata` has 1"):
        psa.tl.project(one, model)
    with pytest.raises(ParameterError, match="have several: 'rna', 'prot'"):
        psa.tl.project(query, GSPPCA(2).fit(mdata.mod["rna"].to_df()))


# --- plots


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("communality", "fdrpca"),
        ("relevance", "gsppca"),
        ("loadings", "gsppca"),
        ("evidence", "gsppca"),
        ("convergence", "sca"),
        ("panel", "panel"),
    ],
)
def test_displays_of_stored_models(reference, name, key):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    draw = getattr(psa.pl, name)
    display = draw(reference, key)
    assert type(display).__name__ == f"{name.title()}Display"
    if name != "panel":
        axes = pyplot.subplots()[1]
        assert draw(reference, key, ax=axes).ax_ is axes
        with pytest.raises(ParameterError, match="`modality` must be a modality"):
            draw(reference, key, modality="rna")
    pyplot.close("all")


def test_names_of_variables_are_drawn(reference):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    display = psa.pl.loadings(reference, "gsppca", max_features=3)
    assert set(display.names) <= set(reference.var_names)
    pyplot.close("all")


def test_scores_of_observations_are_drawn(reference):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = pyplot.subplots()[1]
    display = psa.pl.scores(reference, "gsppca", components=(1, 0), color="type", ax=axes, s=5)
    assert display.ax_ is axes
    assert len(display.points_) == 2
    np.testing.assert_array_equal(display.scores, reference.obsm["X_gsppca"])
    with pytest.raises(ParameterError, match="`color`"):
        psa.pl.scores(reference, "gsppca", color="other")
    pyplot.close("all")


def test_displays_of_mudata(mudata):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    mdata = modalities(mudata)
    psa.tl.sca(mdata, 2)
    psa.tl.gsppca(mdata, 2)
    assert psa.pl.views(mdata).view_names.tolist() == ["rna", "prot"]
    assert psa.pl.relevance(mdata, modality="rna").relevance.size <= 20
    assert psa.pl.scores(mdata, modality="rna").scores.shape == (60, 2)
    pyplot.close("all")
