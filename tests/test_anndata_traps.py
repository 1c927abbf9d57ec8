"""AnnData: counts, batches and names that a user is likely to pass wrongly."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import prosparse.anndata as psa
from prosparse import (
    FDRPCA,
    GSPPCA,
    BatchWarning,
    Panel,
    ParameterError,
    RawCountsWarning,
    UnknownVariablesWarning,
)
from prosparse.anndata.batches import candidate_batches, explained_by_labels
from prosparse.datasets import make_cell_counts

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")


def cells(n=160, p=60, seed=0):
    data = make_cell_counts(n, p, n_types=4, n_markers=8, random_state=seed)
    adata = anndata.AnnData(sparse.csr_matrix(data.X))
    adata.var_names = [f"gene{j}" for j in range(p)]
    counts = adata.X.astype(float)
    adata.layers["log"] = sparse.csr_matrix(counts.multiply(1e3 / counts.sum(axis=1)).log1p())
    return adata


# --- counts


def test_fdrpca_recognises_counts(caplog):
    adata = cells()
    with caplog.at_level("INFO", logger="prosparse.anndata"):
        psa.tl.fdrpca(adata)
    assert "X has non-negative integers: treated as counts" in caplog.text
    model = FDRPCA(counts=True).fit(adata.X)
    np.testing.assert_array_equal(adata.var["fdrpca"], model.support_)
    assert adata.uns["fdrpca"]["params"]["counts"]
    psa.tl.fdrpca(adata, layer="log", key_added="logs")
    assert not adata.uns["logs"]["params"]["counts"]
    np.testing.assert_array_equal(adata.var["logs"], FDRPCA().fit(adata.layers["log"]).support_)
    psa.tl.fdrpca(adata, counts=False, key_added="given")
    np.testing.assert_array_equal(adata.var["given"], FDRPCA().fit(adata.X).support_)


def test_ranks_are_not_taken_of_residuals():
    adata = cells()
    adata.X = adata.X.toarray()
    psa.tl.fdrpca(adata, rank_transform=True)
    assert not adata.uns["fdrpca"]["params"]["counts"]


@pytest.mark.parametrize("function", [psa.tl.fdrpca, psa.pp.select_panel])
def test_logarithms_are_not_counts(function):
    adata = cells()
    with pytest.raises(ParameterError, match=r"integers, but layer 'log' contains \d"):
        function(adata, 5, layer="log", counts=True)
    assert not len(adata.var.columns)


@pytest.mark.filterwarnings("ignore::prosparse.FewVariablesWarning")
@pytest.mark.parametrize("function", [psa.tl.gsppca, psa.tl.sca])
def test_raw_counts_are_reported_to_methods_for_measurements(function):
    adata = cells()
    with pytest.warns(RawCountsWarning, match="X contains non-negative integers"):
        function(adata, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RawCountsWarning)
        function(adata, 2, layer="log")
        adata.layers["detected"] = adata.X > 0
        function(adata, 2, layer="detected")


def test_factors_of_counts_need_no_normalisation():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RawCountsWarning)
        psa.tl.sca(cells(60, 40), 1, likelihood="poisson", max_iter=5, tol=1.0)


# --- batches


def with_batches():
    adata = cells()
    adata.X = adata.X.astype(float)
    adata.obs["cell_type"] = np.resize(["a", "b"], adata.n_obs)
    adata.obs["Donor_ID"] = np.repeat(["x", "y"], adata.n_obs // 2)
    adata.X[adata.n_obs // 2 :, :30] *= 4
    return adata


def test_forgotten_batches_are_named():
    adata = with_batches()
    with pytest.warns(BatchWarning, match=r"'Donor_ID' of `\.obs` explains \d+% of the variance"):
        psa.tl.fdrpca(adata)
    codes = np.unique(adata.obs["Donor_ID"], return_inverse=True)[1]
    assert explained_by_labels(adata.obsm["X_fdrpca"], codes).max() > 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error", BatchWarning)
        psa.tl.fdrpca(adata, batch_key="Donor_ID")
        psa.tl.fdrpca(adata, covariate_keys="Donor_ID")
        adata.obs = adata.obs.rename(columns={"Donor_ID": "cluster"})
        psa.tl.fdrpca(adata)  # a column of clusters explains components by its purpose


@pytest.mark.parametrize(
    ("name", "is_batch"),
    [
        ("batch", True),
        ("sample_id", True),
        ("patientID", True),
        ("donors", True),
        ("10x chemistry", True),
        ("Batch2", True),
        ("cell_type", False),
        ("leiden", False),
        ("runtime", False),
        ("plateau", False),
    ],
)
def test_columns_that_name_batches(name, is_batch):
    obs = pd.DataFrame({name: np.repeat(["a", "b"], 20)})
    assert bool(candidate_batches(obs)) == is_batch


def test_columns_that_cannot_be_batches():
    labels = np.repeat(["a", "b"], 20).astype(object)
    obs = pd.DataFrame({"batch": np.arange(40), "donor": "same", "sample": labels})
    assert [name for name, _ in candidate_batches(obs)] == ["sample"]
    obs.loc[0, "sample"] = None
    assert candidate_batches(obs) == []


def test_explained_variance_of_labels(rng):
    scores, codes = rng.normal(size=(30, 2)), np.arange(30) % 3
    groups = [scores[codes == k] for k in range(3)]
    within = sum(((part - part.mean(axis=0)) ** 2).sum(axis=0) for part in groups)
    total = ((scores - scores.mean(axis=0)) ** 2).sum(axis=0)
    np.testing.assert_allclose(explained_by_labels(scores, codes), 1 - within / total)


def test_batches_of_several_columns():
    adata = cells()
    adata.obs["donor"] = np.resize(["a", "b"], adata.n_obs)
    adata.obs["lane"] = np.repeat(["1", "2"], adata.n_obs // 2)
    psa.tl.fdrpca(adata, batch_key=["donor", "lane"])
    joined = adata.obs["donor"].astype(str) + adata.obs["lane"].astype(str)
    model = FDRPCA(counts=True).fit(adata.X, groups=joined)
    np.testing.assert_array_equal(adata.var["fdrpca_pvalue"], model.pvalues_)
    assert adata.uns["fdrpca"]["params"]["batch_key"].tolist() == ["donor", "lane"]
    for wrong in ([], 3, ["donor", 3]):
        with pytest.raises(ParameterError, match=r"`batch_key` must be None, or the name or names"):
            psa.tl.fdrpca(adata, batch_key=wrong)


# --- variables


def test_variables_given_by_a_column_or_a_mask():
    adata = cells()
    wanted = ["gene5", "gene7"]
    adata.var["wanted"] = adata.var_names.isin(wanted)
    mask = adata.var["wanted"].to_numpy()
    expected = None
    for include in (wanted, "wanted", mask, adata.var["wanted"][::-1]):
        psa.pp.select_panel(adata, 6, include=include, exclude=~mask & (np.arange(60) < 20))
        panel = set(adata.var_names[adata.var["panel"]])
        assert panel >= set(wanted)
        assert not panel & {f"gene{j}" for j in range(20)} - set(wanted)
        expected = expected or panel
        assert panel == expected


def test_unknown_names_are_listed():
    adata = cells()
    unknown = ["gene5", *(f"other{k}" for k in range(12))]
    with pytest.raises(ParameterError, match=r"'other0', 'other1', .*'other9' and 2 others, which"):
        psa.pp.select_panel(adata, 6, include=unknown)
    with pytest.warns(UnknownVariablesWarning, match="'other11', which is not"):
        psa.pp.select_panel(adata, 6, include=["gene5", "other11"], handle_unknown="warn")
    assert adata.var["panel"]["gene5"]
    with pytest.raises(ParameterError, match="`handle_unknown`"):
        psa.pp.select_panel(adata, 6, handle_unknown="ignore")


def test_a_failure_after_the_fit_changes_nothing(monkeypatch):
    adata = cells()
    monkeypatch.setattr(Panel, "get_params", lambda self, deep=True: {}["n_features"])
    with pytest.raises(KeyError):
        psa.pp.select_panel(adata, None)
    assert not len(adata.var.columns)
    assert not len(adata.obsm)


# --- places of scanpy


def test_maximum_number_of_genes():
    adata = cells()
    psa.tl.fdrpca(adata)
    everything = adata.var["fdrpca"].sum()
    psa.tl.fdrpca(adata, n_top_genes=5, key_added="top")
    assert everything > 5
    assert adata.var["top"].sum() == 5
    strongest = adata.var["top_communality"].where(adata.var["fdrpca"]).nlargest(5).index
    assert set(adata.var_names[adata.var["top"]]) == set(strongest)
    assert adata.uns["top"]["params"]["n_top_genes"] == 5
    psa.tl.gsppca(adata, 2, n_top_genes=7, layer="log")
    model = GSPPCA(2, n_features_to_select=7).fit(adata.layers["log"])
    np.testing.assert_array_equal(adata.var["gsppca"], model.support_)


@pytest.mark.parametrize("function", [psa.tl.fdrpca, psa.tl.gsppca])
def test_names_of_scanpy(function):
    scanpy = pytest.importorskip("scanpy")
    adata = cells()
    function(adata, 3, layer="log", n_top_genes=20, pca_names=True, key_added="own")
    assert "own" in adata.uns
    np.testing.assert_array_equal(adata.obsm["X_pca"], adata.obsm["X_own"])
    np.testing.assert_array_equal(adata.varm["PCs"], adata.varm["own"])
    reference = scanpy.pp.pca(adata.copy(), n_comps=3, copy=True)
    assert set(adata.uns["pca"]) == set(reference.uns["pca"])
    scores = adata.obsm["X_pca"]
    np.testing.assert_allclose(adata.uns["pca"]["variance"], scores.var(axis=0, ddof=1), rtol=0.05)
    scanpy.pl.pca_variance_ratio(adata, show=False)
    scanpy.pl.pca_loadings(adata, components="1,2,3", n_points=10, show=False)
    scanpy.pp.neighbors(adata, n_neighbors=5)
    assert adata.uns["neighbors"]["params"].get("use_rep", "X_pca") == "X_pca"
    with pytest.raises(ParameterError, match="`pca_names`"):
        function(adata, 3, pca_names="yes")
