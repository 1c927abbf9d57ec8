"""AnnData and MuData: the estimators' own answers, where scanpy's functions look for them."""

import builtins
import contextlib
import inspect
import io
import re
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import prosparse.anndata as psa
from prosparse import FDRPCA, GSPPCA, SCA, InputError, NoStructureWarning, Panel, ParameterError
from prosparse.anndata.factors import scaled_scores
from prosparse.data.operators.base import ENTRIES_PER_BLOCK
from prosparse.datasets import make_cell_counts, make_globally_sparse

anndata = pytest.importorskip("anndata")
# one modality is so small that the evidence prefers the fewest variables there can be
FEW_VARIABLES = pytest.mark.filterwarnings(
    "ignore::prosparse.FewVariablesWarning", "ignore::prosparse.NoStructureWarning"
)
ON_A_VIEW = pytest.mark.filterwarnings(
    "ignore::anndata.ImplicitModificationWarning", "ignore:From 0.4 .update:FutureWarning"
)
N, P, D = 60, 40, 4
FITS = [psa.pp.select_panel, psa.tl.fdrpca, psa.tl.gsppca, psa.tl.sca]


def table(seed=0):
    X = make_globally_sparse(N, P, n_components=D, n_informative=15, noise=0.4, random_state=seed).X
    return np.where(np.abs(X) < 0.3, 0.0, X)  # so that there is something to leave out


def annotated(X=None, prefix="gene"):
    X = table() if X is None else X
    data = anndata.AnnData(X)
    data.obs_names = [f"cell{i}" for i in range(X.shape[0])]
    data.var_names = [f"{prefix}{k}" for k in range(X.shape[1])]
    return data


@pytest.fixture
def mudata():
    module = pytest.importorskip("mudata")
    with contextlib.ExitStack() as stack:
        if hasattr(module, "set_options"):  # before 0.4, which has no other behaviour
            stack.enter_context(module.set_options(pull_on_update=False))
        yield module


@pytest.fixture
def mdata(mudata):
    return mudata.MuData(
        {"rna": annotated(sparse.csr_matrix(table())), "prot": annotated(table(1)[:, :12], "p")}
    )


def assert_equal(found, expected):
    """Two entries of `.uns`, one of which may have gone through a file."""
    assert set(found) == set(expected)
    for name, value in expected.items():
        if isinstance(value, dict):
            assert_equal(found[name], value)
        else:
            np.testing.assert_array_equal(found[name], value, err_msg=name)


# --- what is written


@pytest.mark.quick
@pytest.mark.parametrize(
    "kind", [np.asarray, sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gsppca_equals_the_estimator(kind, dtype):
    X = kind(table().astype(dtype))
    adata, model = annotated(X), GSPPCA(D).fit(X)
    assert psa.tl.gsppca(adata, D) is None
    np.testing.assert_array_equal(adata.var["gsppca"], model.support_)
    np.testing.assert_array_equal(adata.var["gsppca_relevance"], model.relevance_)
    np.testing.assert_array_equal(adata.var["gsppca_ranking"], model.ranking_)
    np.testing.assert_array_equal(adata.obsm["X_gsppca"], model.transform(X))
    np.testing.assert_array_equal(adata.varm["gsppca"], model.components_.T)
    assert adata.obsm["X_gsppca"].dtype == dtype
    assert 0 < model.n_selected_ < P
    assert not adata.varm["gsppca"][~adata.var["gsppca"]].any()
    kept = adata.uns["gsppca"]
    np.testing.assert_array_equal(kept["variance"], model.explained_variance_)
    np.testing.assert_array_equal(kept["variance_ratio"], model.explained_variance_ratio_)
    np.testing.assert_array_equal(kept["log_evidence_path"], model.log_evidence_path_)
    np.testing.assert_array_equal(kept["cardinalities"], model.cardinalities_)
    np.testing.assert_array_equal(kept["objective_path"], model.objective_path_)
    assert kept["n_selected"] == model.n_selected_ == adata.var["gsppca"].sum()
    assert kept["stop_reason"].startswith("converged")
    assert kept["params"]["n_components"] == D


@pytest.mark.quick
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_array])
def test_fdrpca_equals_the_estimator(kind):
    X = kind(table())
    adata, model = annotated(X), FDRPCA().fit(X)
    assert psa.tl.fdrpca(adata) is None
    assert list(adata.var.columns) == [
        "fdrpca",
        "fdrpca_communality",
        "fdrpca_pvalue",
        "fdrpca_qvalue",
        "fdrpca_ranking",
    ]
    assert 0 < model.n_selected_ < P
    assert adata.var["fdrpca"].dtype == bool
    np.testing.assert_array_equal(adata.var["fdrpca"], model.support_)
    np.testing.assert_array_equal(adata.var["fdrpca_communality"], model.communality_)
    np.testing.assert_array_equal(adata.var["fdrpca_pvalue"], model.pvalues_)
    np.testing.assert_array_equal(adata.var["fdrpca_qvalue"], model.qvalues_)
    np.testing.assert_array_equal(adata.var["fdrpca_ranking"], model.ranking_)
    np.testing.assert_array_equal(adata.obsm["X_fdrpca"], model.transform(X))
    np.testing.assert_array_equal(adata.varm["fdrpca"], model.components_.T)
    kept = adata.uns["fdrpca"]
    assert kept["n_selected"] == model.n_selected_
    assert kept["n_components"] == model.n_components_
    assert kept["null_communality"] == model.null_communality_
    np.testing.assert_array_equal(kept["variance"], model.explained_variance_)
    np.testing.assert_array_equal(kept["variance_ratio"], model.explained_variance_ratio_)
    assert kept["params"]["fdr"] == 0.05
    assert "batch_key" not in kept["params"]


def test_fdrpca_of_counts():
    X = make_cell_counts(120, 60, n_types=3, n_markers=8, random_state=0)[0]
    adata, model = annotated(X), FDRPCA(counts=True).fit(X)
    psa.tl.fdrpca(adata, counts=True)
    np.testing.assert_array_equal(adata.var["fdrpca"], model.support_)
    np.testing.assert_array_equal(adata.obsm["X_fdrpca"], model.transform(X))
    assert adata.uns["fdrpca"]["params"]["counts"]


def test_parameters_of_fdrpca():
    adata = annotated()
    psa.tl.fdrpca(adata, 2, fdr=0.1, min_communality=0.4, rank_transform=True, key_added="shared")
    model = FDRPCA(2, fdr=0.1, min_communality=0.4, rank_transform=True).fit(table())
    np.testing.assert_array_equal(adata.var["shared"], model.support_)
    np.testing.assert_array_equal(adata.obsm["X_shared"], model.transform(table()))
    assert adata.uns["shared"]["params"]["rank_transform"]


def test_fdrpca_on_a_layer_and_some_variables():
    adata = annotated(np.zeros((N, P)))
    adata.layers["log"] = sparse.csr_matrix(table())
    mask = np.arange(P) % 3 > 0
    psa.tl.fdrpca(adata, layer="log", mask_var=mask)
    model = FDRPCA().fit(sparse.csr_matrix(table()[:, mask]))
    np.testing.assert_array_equal(adata.var["fdrpca"][mask], model.support_)
    for name, values in (
        ("communality", model.communality_),
        ("pvalue", model.pvalues_),
        ("qvalue", model.qvalues_),
    ):
        np.testing.assert_array_equal(adata.var[f"fdrpca_{name}"][mask], values)
        assert adata.var[f"fdrpca_{name}"][~mask].isna().all()
    assert not adata.var["fdrpca"][~mask].any()
    assert not adata.varm["fdrpca"][~mask].any()
    assert sorted(adata.var["fdrpca_ranking"]) == list(range(1, P + 1))
    assert adata.var["fdrpca_ranking"][~mask].min() > mask.sum()
    assert adata.uns["fdrpca"]["params"]["layer"] == "log"


def cells_of_donors(rng):
    """Genes that share nothing, but donors who differ in each of them."""
    donor = rng.permutation(np.repeat(np.arange(30), 6))
    return rng.normal(size=(180, P)) + 2 * rng.normal(size=(30, P))[donor], donor


def test_batches(rng):
    X, donor = cells_of_donors(rng)
    adata = annotated(X)
    psa.tl.fdrpca(adata)
    assert adata.var["fdrpca"].all()  # nobody said whose cells they are
    for column in (donor, [f"donor {d}" for d in donor]):
        adata.obs["donor"] = column
        adata.strings_to_categoricals()
        with pytest.warns(NoStructureWarning):
            psa.tl.fdrpca(adata, batch_key="donor")
        assert not adata.var["fdrpca"].any()
        assert adata.uns["fdrpca"]["params"]["batch_key"] == "donor"


def test_a_table_without_structure(rng, tmp_path):
    adata = annotated(rng.normal(size=(N, P)))
    with pytest.warns(NoStructureWarning, match="no variable has significant shared variance"):
        psa.tl.fdrpca(adata)
    assert not adata.var["fdrpca"].any()
    assert (adata.var["fdrpca_qvalue"] > 0.05).all()
    assert adata.obsm["X_fdrpca"].shape == (N, 0)
    assert adata.varm["fdrpca"].shape == (P, 0)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    assert anndata.read_h5ad(tmp_path / "cells.h5ad").obsm["X_fdrpca"].shape == (N, 0)


def test_covariates(rng):
    adata = annotated(rng.normal(size=(N, P)))
    adata.obs["age"], adata.obs["sex"] = rng.normal(size=N), rng.choice(["f", "m"], N)
    adata.X[:, :5] += 1.5 * rng.normal(size=(N, 1))
    adata.X += np.outer(adata.obs["age"], 2.0 * rng.normal(size=P))
    psa.tl.fdrpca(adata, covariate_keys=["age", "sex"])
    covariates = adata.obs[["age", "sex"]]
    model = FDRPCA().fit(adata.X, covariates=covariates)
    np.testing.assert_array_equal(adata.var["fdrpca"], model.support_)
    np.testing.assert_array_equal(adata.var["fdrpca_covariate_r2"], model.covariate_r2_)
    scores = model.transform(adata.X, covariates=covariates)
    np.testing.assert_array_equal(adata.obsm["X_fdrpca"], scores)
    assert adata.uns["fdrpca"]["params"]["covariate_keys"].tolist() == ["age", "sex"]
    psa.tl.fdrpca(adata, covariate_keys="age")
    assert adata.uns["fdrpca"]["params"]["covariate_keys"] == "age"
    with pytest.raises(ParameterError, match="`covariate_keys` must be one of the columns of"):
        psa.tl.fdrpca(adata, covariate_keys=["age", "weight"])


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_batches_of_modalities(mdata, mudata):
    batch = np.arange(N) % 3
    mdata.mod["rna"].obs["batch"] = batch
    psa.tl.fdrpca(mdata, {"rna": 2}, batch_key={"rna": "batch"})
    rna, prot = mdata.mod["rna"], mdata.mod["prot"]
    model = FDRPCA(2).fit(rna.X, groups=batch)
    np.testing.assert_array_equal(rna.var["fdrpca_pvalue"], model.pvalues_)
    np.testing.assert_array_equal(prot.var["fdrpca_pvalue"], FDRPCA().fit(prot.X).pvalues_)
    assert rna.uns["fdrpca"]["params"]["batch_key"] == "batch"
    assert "batch_key" not in prot.uns["fdrpca"]["params"]
    with pytest.raises(ParameterError, match=r"`.obs` of modality 'prot' \(there are none\)"):
        psa.tl.fdrpca(mdata, batch_key="batch", key_added="again")
    with pytest.raises(ParameterError, match=r"keys of `batch_key`.*got 'ran'"):
        psa.tl.fdrpca(mdata, batch_key={"ran": "batch"})
    assert "again" not in rna.var


@pytest.mark.parametrize(
    ("batch_key", "words"),
    [
        ("patient", r"`batch_key` must be one of the columns of `.obs` \('donor'\), got 'patient'"),
        (3, "`batch_key` must be None, or the name or names of columns of `.obs`, got 3"),
        ("donor", r"`batch_key` \('donor'\) must have a label for every observation; 2 have none"),
    ],
)
def test_errors_of_batches(batch_key, words):
    adata = annotated()
    adata.obs["donor"] = ["a", "b"] * (N // 2 - 1) + [None, None]
    with pytest.raises(ParameterError, match=words):
        psa.tl.fdrpca(adata, batch_key=batch_key)
    assert not len(adata.var.columns)
    assert not len(adata.uns)


def test_auto_and_key():
    adata = annotated()
    psa.tl.gsppca(adata, "auto", key_added="sparse_pca", scale=True)
    model = GSPPCA(scale=True).fit(table())
    np.testing.assert_array_equal(adata.obsm["X_sparse_pca"], model.transform(table()))
    assert adata.uns["sparse_pca"]["params"]["n_components"] == "auto"
    assert adata.uns["sparse_pca"]["n_components"] == model.n_components_


@FEW_VARIABLES
def test_number_of_components_when_none_is_given(mdata):
    X = make_globally_sparse(90, 50, n_components=35, n_informative=45, noise=0.1, random_state=0).X
    wide = annotated(X)
    psa.tl.gsppca(wide)
    assert wide.obsm["X_gsppca"].shape == (90, 30)
    psa.tl.sca(wide)
    assert wide.uns["sca"]["params"]["n_components"] == 10
    narrow = annotated(table()[:, :12])
    psa.tl.gsppca(narrow)
    assert narrow.obsm["X_gsppca"].shape == (N, 11)
    psa.tl.gsppca(mdata, n_components={"rna": 3})
    assert mdata.mod["rna"].obsm["X_gsppca"].shape == (N, 3)
    assert mdata.mod["prot"].obsm["X_gsppca"].shape == (N, 11)


def test_table_stays_as_it_was():
    X = sparse.csr_matrix(table())
    adata = annotated(X.copy())
    psa.tl.fdrpca(adata)
    psa.tl.gsppca(adata, D)
    psa.tl.sca(adata, 2)
    assert sparse.issparse(adata.X)
    assert (adata.X != X).nnz == 0


def test_sparse_is_never_made_dense(rng, mudata):
    n, p = 2100, 4000  # of which all products with itself are too large
    counts = sparse.random_array((n, p), density=0.01, format="lil", rng=rng)
    counts[:1000, :50] = 1.0
    adata = annotated(sparse.csr_matrix(counts))
    mdata = mudata.MuData({"rna": adata, "prot": annotated(rng.normal(size=(n, 3)), "p")})
    mask = np.arange(p) < p - 10
    for call in (
        lambda: psa.tl.gsppca(adata, 2, n_top_genes=50, refine=False, mask_var=mask),
        lambda: psa.tl.sca(adata, 1, max_iter=10),
        lambda: psa.tl.sca(mdata, 1, max_iter=10),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            tracemalloc.start()
            call()
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 8 * n * p / 3


def test_fdrpca_never_makes_sparse_dense(rng, monkeypatch):
    n, p = 300, 2000
    counts = sparse.random_array((n, p), density=0.02, format="lil", rng=rng)
    counts[:150, :50] += rng.random((150, 50))
    adata = annotated(sparse.csr_matrix(counts))
    largest = []
    for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix):

        def watched(self, *args, dense=kind.toarray, **kwargs):
            largest.append(self.shape[0] * self.shape[1])
            return dense(self, *args, **kwargs)

        monkeypatch.setattr(kind, "toarray", watched)
    psa.tl.fdrpca(adata, mask_var=np.arange(p) < p - 10)
    assert adata.var["fdrpca"][:50].all()
    assert max(largest, default=0) <= max(ENTRIES_PER_BLOCK, 256 * p)  # a block of rows


# --- which table


def test_layer():
    adata = annotated(np.zeros((N, P)))
    adata.layers["log"] = sparse.csr_matrix(table())
    psa.tl.gsppca(adata, D, layer="log")
    np.testing.assert_array_equal(
        adata.var["gsppca_ranking"], GSPPCA(D).fit(adata.layers["log"]).ranking_
    )
    assert adata.uns["gsppca"]["params"]["layer"] == "log"


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_mask(kind, named):
    mask = np.arange(P) % 3 > 0
    adata = annotated(kind(table()))
    adata.var["considered"] = mask
    psa.tl.gsppca(adata, D, mask_var="considered" if named else mask)
    model = GSPPCA(D).fit(kind(table()[:, mask]))
    np.testing.assert_array_equal(adata.var["gsppca"][mask], model.support_)
    np.testing.assert_array_equal(adata.var["gsppca_relevance"][mask], model.relevance_)
    np.testing.assert_array_equal(adata.var["gsppca_ranking"][mask], model.ranking_)
    np.testing.assert_array_equal(adata.varm["gsppca"][mask], model.components_.T)
    np.testing.assert_array_equal(adata.obsm["X_gsppca"], model.transform(kind(table()[:, mask])))
    assert not adata.var["gsppca"][~mask].any()
    assert not adata.varm["gsppca"][~mask].any()
    assert (adata.var["gsppca_relevance"][~mask] == 0).all()
    assert sorted(adata.var["gsppca_ranking"]) == list(range(1, P + 1))
    assert adata.var["gsppca_ranking"][~mask].min() > mask.sum()
    np.testing.assert_array_equal(
        adata.uns["gsppca"]["params"]["mask_var"], "considered" if named else mask
    )


def test_mask_of_pandas_booleans():
    adata = annotated()
    adata.var["considered"] = np.arange(P) < 30
    adata.var["considered"] = adata.var["considered"].astype("boolean")
    psa.tl.gsppca(adata, D, mask_var="considered")
    np.testing.assert_array_equal(
        adata.var["gsppca_ranking"][:30], GSPPCA(D).fit(table()[:, :30]).ranking_
    )


def test_copy():
    adata = annotated()
    for call in (psa.tl.fdrpca, psa.tl.gsppca, psa.tl.sca):
        other = call(adata, 2, copy=True)
        assert isinstance(other, anndata.AnnData)
        assert other is not adata
        assert len(other.uns) == 1
        assert not len(adata.uns)
        assert not len(adata.var.columns)
        assert not len(adata.obsm)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_views_are_copied_when_written_to(kind):
    adata = annotated(kind(table()))
    part = adata[10:, 5:35]
    with pytest.warns(anndata.ImplicitModificationWarning):
        psa.tl.gsppca(part, D)
    assert not part.is_view
    assert not len(adata.uns)
    assert not len(adata.var.columns)
    model = GSPPCA(D).fit(kind(table()[10:, 5:35]))
    np.testing.assert_array_equal(part.var["gsppca_ranking"], model.ranking_)
    np.testing.assert_allclose(part.obsm["X_gsppca"], model.transform(kind(table()[10:, 5:35])))


def test_copy_of_a_view():
    adata = annotated()
    part = adata[:, :30]
    other = psa.tl.gsppca(part, D, copy=True)
    assert part.is_view
    assert not other.is_view
    assert "X_gsppca" in other.obsm


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
def test_backed(tmp_path, kind):
    annotated(kind(table())).write_h5ad(tmp_path / "cells.h5ad")
    adata = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    psa.tl.gsppca(adata, D)
    np.testing.assert_allclose(adata.obsm["X_gsppca"], GSPPCA(D).fit_transform(table()), atol=1e-8)
    with pytest.raises(ParameterError, match=r"`copy=True`.*to_memory"):
        psa.tl.gsppca(adata, D, copy=True)
    with pytest.raises(InputError, match=r"view.*to_memory"):
        psa.tl.gsppca(adata[:, :30], D)
    adata.file.close()


def test_large_backed_table_is_read_block_by_block(tmp_path, monkeypatch):
    pytest.importorskip("dask.array")
    annotated().write_h5ad(tmp_path / "cells.h5ad")
    adata = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    monkeypatch.setattr("prosparse.anndata.annotated.IN_MEMORY", 0)
    mask = np.arange(P) < 30
    psa.tl.gsppca(adata, D, mask_var=mask)
    model = GSPPCA(D).fit(table()[:, mask])
    np.testing.assert_array_equal(adata.var["gsppca"][mask], model.support_)
    assert isinstance(adata.obsm["X_gsppca"], np.ndarray)
    np.testing.assert_allclose(adata.obsm["X_gsppca"], model.transform(table()[:, mask]), atol=1e-8)
    adata.file.close()


def test_dask():
    da = pytest.importorskip("dask.array")
    adata = annotated(da.from_array(table(), chunks=(20, -1)))
    psa.tl.gsppca(adata, D)
    assert isinstance(adata.obsm["X_gsppca"], np.ndarray)
    np.testing.assert_array_equal(adata.var["gsppca"], GSPPCA(D).fit(table()).support_)


# --- files


def test_round_trip(tmp_path):
    adata = annotated(sparse.csr_matrix(table()))
    mask = np.arange(P) < 35
    psa.tl.fdrpca(adata, mask_var=mask)
    psa.tl.gsppca(adata, D, n_top_genes=9)
    adata.var["kind"] = np.where(np.arange(P) < 20, "left", "right")
    psa.tl.sca(adata, 2, views="kind", n_private=[1, 0])
    psa.tl.sca(adata, 2, views=[[0, 1], slice(2, P)], key_added="other")
    adata.write_h5ad(tmp_path / "cells.h5ad")
    back = anndata.read_h5ad(tmp_path / "cells.h5ad")
    for key in ("fdrpca", "gsppca", "sca", "other"):
        assert_equal(back.uns[key], adata.uns[key])
        np.testing.assert_array_equal(back.var[key], adata.var[key])
        assert back.var[key].dtype == bool
    for key in ("gsppca", "sca"):
        np.testing.assert_array_equal(back.obsm[f"X_{key}"], adata.obsm[f"X_{key}"])
        np.testing.assert_array_equal(back.varm[key], adata.varm[key])
    for key in ("relevance", "ranking"):
        np.testing.assert_array_equal(back.var[f"gsppca_{key}"], adata.var[f"gsppca_{key}"])
    assert not [name for name, value in back.uns["gsppca"]["params"].items() if value is None]
    psa.tl.gsppca(back, D, n_top_genes=9)  # once more, over the old results
    assert_equal(back.uns["gsppca"], adata.uns["gsppca"])


@FEW_VARIABLES
def test_round_trip_of_mudata(tmp_path, mdata, mudata):
    psa.tl.gsppca(mdata, 2)
    psa.tl.sca(mdata, 2, layer={"rna": None}, mask_var={"rna": np.arange(P) < 20})
    mdata.write(tmp_path / "cells.h5mu")
    back = mudata.read(tmp_path / "cells.h5mu")
    assert_equal(back.uns["sca"], mdata.uns["sca"])
    np.testing.assert_array_equal(back.varm["sca"], mdata.varm["sca"])
    for name in mdata.mod:
        assert_equal(back.mod[name].uns["gsppca"], mdata.mod[name].uns["gsppca"])


def test_scanpy_takes_the_choice():
    scanpy = pytest.importorskip("scanpy")
    adata = annotated()
    psa.tl.gsppca(adata, D)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scanpy's own
        scanpy.pp.pca(adata, n_comps=D, mask_var="gsppca")
    # the projection is PCA on the selected variables
    np.testing.assert_allclose(
        np.abs(adata.obsm["X_pca"]), np.abs(adata.obsm["X_gsppca"]), rtol=1e-3, atol=1e-3
    )


# --- several views


def test_sca_on_one_table():
    adata = annotated()
    psa.tl.sca(adata, 3, prior="hyperbolic")
    model = SCA(3, prior="hyperbolic").fit(table())
    explained = adata.uns["sca"]["variance_explained"].to_numpy()[:, 0] / 100
    expected = model.transform(table()) * np.sqrt(explained)
    np.testing.assert_array_equal(adata.obsm["X_sca"], expected)
    np.testing.assert_allclose(
        explained / explained[0],
        model.explained_variance_ratio_ / model.explained_variance_ratio_[0],
    )
    np.testing.assert_array_equal(adata.varm["sca"], model.components_.T)
    np.testing.assert_array_equal(adata.var["sca"], model.support_)
    np.testing.assert_allclose(adata.uns["sca"]["view_variance"], [model.explained_variance_])
    assert adata.uns["sca"]["views"].tolist() == ["view 0"]


def test_sca_with_views_in_a_column():
    adata = annotated()
    kinds = np.where(np.arange(P) % 2, "odd", "even")
    adata.var["feature_types"] = kinds
    mask = np.arange(P) < 30
    psa.tl.sca(adata, 2, views="feature_types", n_private=[0, 1], mask_var=mask)
    groups = [np.arange(0, 30, 2), np.arange(1, 30, 2)]
    model = SCA(2, views=groups, n_private=[0, 1]).fit(table()[:, :30])
    np.testing.assert_allclose(adata.varm["sca"][mask], model.components_.T, atol=1e-8)
    assert not adata.varm["sca"][~mask].any()
    kept = adata.uns["sca"]
    assert kept["views"].tolist() == ["even", "odd"]
    names = ["shared" if v < 0 else ["even", "odd"][v] for v in model.factor_view_]
    assert kept["factor_view"].tolist() == names
    assert "odd" in names
    np.testing.assert_allclose(kept["view_variance"].sum(axis=0), kept["variance"])
    np.testing.assert_allclose(kept["noise_variance"], model.noise_variance_)


def test_sca_has_one_view_per_modality(mdata):
    assert psa.tl.sca(mdata, 2, n_private=[1, 0]) is None
    X = [mdata.mod["rna"].X, sparse.csr_matrix(mdata.mod["prot"].X)]
    model = SCA(2, n_private=[1, 0]).fit(X)
    np.testing.assert_array_equal(mdata.obsm["X_sca"], scaled_scores(model, model.transform(X)))
    np.testing.assert_array_equal(mdata.varm["sca"], model.components_.T)
    np.testing.assert_array_equal(mdata.var["sca"], model.support_)
    assert mdata.uns["sca"]["views"].tolist() == ["rna", "prot"]
    dense = SCA(2, n_private=[1, 0]).fit([X[0].toarray(), X[1].toarray()])
    np.testing.assert_allclose(np.abs(mdata.varm["sca"]), np.abs(dense.components_.T), atol=1e-6)


def test_sca_of_batches(mdata):
    half = mdata.n_obs // 2
    mdata.obs["donor"] = np.repeat(["d1", "d2"], [half, mdata.n_obs - half])
    psa.tl.sca(mdata, 2, batch_key="donor", max_iter=30, tol=1e-5)
    X = [mdata.mod["rna"].X, sparse.csr_matrix(mdata.mod["prot"].X)]
    labels = mdata.obs["donor"].to_numpy()
    model = SCA(2, max_iter=30, tol=1e-5).fit(X, groups=labels)
    expected = scaled_scores(model, model.transform(X, groups=labels))
    np.testing.assert_array_equal(mdata.obsm["X_sca"], expected)
    kept = mdata.uns["sca"]
    assert kept["batches"].tolist() == ["d1", "d2"]
    np.testing.assert_array_equal(kept["batch_variance"], model.explained_variance_per_group_)
    assert kept["params"]["batch_key"] == "donor"
    with pytest.raises(ParameterError, match=r"`batch_key` must be one of the columns of `.obs`"):
        psa.tl.sca(mdata, 2, batch_key="batch")


def test_sca_where_muon_looks_for_factors(tmp_path, mdata, mudata):
    """muon.tl.mofa: .obsm["X_mofa"], .varm["LFs"], .uns["mofa"]["variance"][view] in percent."""
    psa.tl.sca(mdata, 2, n_private=[1, 0], mofa_names=True)
    np.testing.assert_array_equal(mdata.obsm["X_mofa"], mdata.obsm["X_sca"])
    np.testing.assert_array_equal(mdata.varm["LFs"], mdata.varm["sca"])
    kept, explained = mdata.uns["sca"], mdata.uns["mofa"]["variance"]
    assert list(explained) == ["rna", "prot"]
    for v, name in enumerate(("rna", "prot")):
        noise = kept["noise_variance"]
        columns = slice(0, P) if v == 0 else slice(P, None)
        X = np.asarray(mdata.mod[name].X.todense() if v == 0 else mdata.mod[name].X)
        varying = np.sum(np.ptp(X, axis=0) > 0)
        of_columns = noise[v] * varying if noise.size == 2 else noise[columns].sum()
        total = kept["view_variance"][v].sum() + of_columns
        np.testing.assert_allclose(explained[name], 100 * kept["view_variance"][v] / total)
        np.testing.assert_array_equal(explained[name], kept["variance_explained"][name])
    mdata.write(tmp_path / "cells.h5mu")
    back = mudata.read(tmp_path / "cells.h5mu")
    np.testing.assert_array_equal(back.uns["mofa"]["variance"]["prot"], explained["prot"])
    assert back.uns["sca"]["variance_explained"].shape == (back.obsm["X_mofa"].shape[1], 2)
    plain = psa.tl.sca(mdata, 2, key_added="plain", copy=True)
    assert "X_plain" in plain.obsm
    with pytest.raises(ParameterError, match="must not be"):
        psa.tl.sca(mdata, 2, key_added="mofa", mofa_names=True)


def test_sca_on_some_modalities(mdata):
    mask = np.arange(P) % 2 == 0
    psa.tl.sca(mdata, 2, modality=["prot", "rna"], mask_var={"rna": mask})
    model = SCA(2).fit([sparse.csr_matrix(table(1)[:, :12]), mdata.mod["rna"].X[:, mask]])
    loadings = mdata.varm["sca"]
    np.testing.assert_array_equal(loadings[P:], model.view_components_[0].T)
    np.testing.assert_array_equal(loadings[:P][mask], model.view_components_[1].T)
    assert not loadings[:P][~mask].any()
    psa.tl.sca(mdata, 2, modality="prot", key_added="prot_only")
    assert not mdata.varm["prot_only"][:P].any()
    assert mdata.varm["prot_only"][P:].any()


def test_sca_on_observations_that_a_modality_lacks(mudata):
    one, two = annotated(table()[:50], "a"), annotated(table(1)[:, :12], "b")[::-1].copy()
    mdata = mudata.MuData({"one": one, "two": two})
    psa.tl.sca(mdata, 2)
    X = [table().copy(), table(1)[:, :12]]
    X[0][50:] = np.nan
    order = [int(name.removeprefix("cell")) for name in mdata.obs_names]
    model, rows = SCA(2), [x[order] for x in X]
    expected = scaled_scores(model, model.fit_transform(rows))
    assert mdata.n_obs == N
    np.testing.assert_allclose(mdata.obsm["X_sca"], expected, atol=1e-8)
    mdata = mudata.MuData({"one": annotated(sparse.csr_matrix(one.X), "a"), "two": two})
    with pytest.raises(InputError, match=r"'one' lacks 10 of 60.*intersect_obs"):
        psa.tl.sca(mdata, 2)


@FEW_VARIABLES
def test_selection_in_every_modality(mdata):
    psa.tl.gsppca(mdata, 2)
    for part in mdata.mod.values():
        model = GSPPCA(2).fit(part.X)
        np.testing.assert_array_equal(part.var["gsppca_ranking"], model.ranking_)
        np.testing.assert_array_equal(part.obsm["X_gsppca"], model.transform(part.X))


def test_selection_in_one_modality(mdata):
    mdata.mod["rna"].layers["log"] = mdata.mod["rna"].X.copy()
    other = psa.tl.gsppca(
        mdata, 2, modality="rna", layer="log", mask_var=np.arange(P) < 30, copy=True
    )
    assert other.mod["rna"].var["gsppca"].any()
    assert "gsppca" not in other.mod["prot"].var
    assert "gsppca" not in mdata.mod["rna"].var
    assert other.mod["rna"].uns["gsppca"]["params"]["modality"] == "rna"
    np.testing.assert_array_equal(
        other.mod["rna"].var["gsppca_ranking"][:30],
        GSPPCA(2).fit(mdata.mod["rna"].X[:, :30]).ranking_,
    )


@FEW_VARIABLES
@ON_A_VIEW
def test_view_of_mudata(mdata):
    part = mdata[:40]
    psa.tl.gsppca(part, 2)
    psa.tl.sca(part, 2)
    assert part.mod["rna"].obsm["X_gsppca"].shape == (40, 2)
    assert part.obsm["X_sca"].shape == (40, 2)
    assert "gsppca" not in mdata.mod["rna"].var
    assert "sca" not in mdata.uns


# --- errors


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"layer": "logs"}, r"`layer`.*\('log'\), got 'logs'"),
        ({"layer": 3}, r"`layer`.*got 3"),
        ({"mask_var": "hvg"}, r"`mask_var`.*\('batch'\), got 'hvg'"),
        ({"mask_var": "batch"}, r"`mask_var` \('batch'\) must contain True or False, got int64"),
        ({"mask_var": np.ones(7, dtype=bool)}, r"`mask_var`.*40 variables, got shape \(7,\)"),
        ({"mask_var": np.zeros(P, dtype=bool)}, "`mask_var` must be True for at least one"),
        ({"modality": "rna"}, "`modality` must be None for an AnnData.*'rna'"),
        ({"key_added": ""}, "`key_added`.*got ''"),
        ({"key_added": "a/b"}, "`key_added`.*got 'a/b'"),
        ({"copy": "yes"}, "`copy`.*got 'yes'"),
        ({"n_components": 0}, "`n_components`.*got 0"),
    ],
)
@pytest.mark.parametrize("call", [psa.tl.fdrpca, psa.tl.gsppca, psa.tl.sca])
def test_errors(call, given, words):
    adata = annotated()
    adata.layers["log"] = adata.X
    adata.var["batch"] = 1
    with pytest.raises(ParameterError, match=words):
        call(adata, **given)
    assert list(adata.var.columns) == ["batch"]
    assert not len(adata.uns)
    assert not len(adata.obsm)
    assert not len(adata.varm)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"modality": "atac"}, "`modality`.*'rna', 'prot', got 'atac'"),
        ({"modality": []}, "`modality` must be distinct"),
        ({"modality": ["rna", "rna"]}, "`modality` must be distinct"),
        ({"mask_var": {"ran": None}}, "keys of `mask_var`.*got 'ran'"),
        ({"mask_var": "hvg"}, "`mask_var`.*of modality 'rna' .*got 'hvg'"),
        ({"layer": {"prot": "clr"}}, r"`layer`.*of modality 'prot' \(there are none\), got 'clr'"),
        ({"mask_var": np.ones(P, dtype=bool)}, r"`mask_var` of modality 'prot'.*12 variables"),
    ],
)
@pytest.mark.parametrize("call", [psa.tl.fdrpca, psa.tl.gsppca, psa.tl.sca])
def test_errors_of_modalities(mdata, call, given, words):
    with pytest.raises(ParameterError, match=words):
        call(mdata, 2, **given)
    assert not len(mdata.mod["rna"].var.columns)
    assert not len(mdata.uns)


def test_errors_of_components_and_axes(mdata, mudata):
    with pytest.raises(ParameterError, match=r"keys of `n_components`.*got 'ran'"):
        psa.tl.gsppca(mdata, {"ran": 2})
    one, two = annotated(), annotated(table(1))
    two.obs_names = [f"other {name}" for name in two.obs_names]
    same = mudata.MuData({"one": one, "two": two}, axis=1)
    with pytest.raises(InputError, match="share variables, not observations"):
        psa.tl.sca(same, 2)
    psa.tl.gsppca(same, 2)
    assert same.mod["two"].var["gsppca"].any()


def test_errors_of_views(mdata):
    with pytest.raises(ParameterError, match="`views` must be None for a MuData"):
        psa.tl.sca(mdata, 2, views="kind")
    with pytest.raises(ParameterError, match=r"`views`.*there are none.*got 'kind'"):
        psa.tl.sca(annotated(), 2, views="kind")


def test_other_data_and_no_data():
    with pytest.raises(InputError, match="`adata` must be an AnnData or a MuData, got ndarray"):
        psa.tl.gsppca(table(), D)
    with pytest.raises(InputError, match=r"no `\.X`\. Set `layer`"):
        psa.tl.gsppca(anndata.AnnData(shape=(5, 3)))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_missing_values_are_named(kind):
    X = table()
    X[7, 20] = np.nan
    adata = annotated(kind(X))
    with pytest.raises(InputError, match=r"NaN: 1 value.*'cell7', column 'gene20'"):
        psa.tl.gsppca(adata, D, mask_var=np.arange(P) > 10)
    with pytest.raises(InputError, match=r"'cell7', column 'gene20';.* FDRPCA needs"):
        psa.tl.fdrpca(adata, mask_var=np.arange(P) > 10)
    psa.tl.gsppca(adata, D, mask_var=np.arange(P) != 20)  # a variable that is not looked at


def test_a_modality_that_fails_leaves_all_as_it_was(mdata):
    mdata.mod["prot"].X[0, 0] = np.nan
    with pytest.raises(InputError, match="'p0'"):
        psa.tl.gsppca(mdata, 2)
    assert not len(mdata.mod["rna"].var.columns)


def test_without_anndata(monkeypatch):
    adata, real = annotated(), builtins.__import__

    def without(name, *args, **kwargs):
        if name == "anndata":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"not installed: pip install 'prosparse\[anndata\]'"):
        psa.tl.gsppca(adata, D)


@FEW_VARIABLES
def test_the_usual_number_of_components_fits_what_was_asked():
    small, wide = annotated(table()), annotated(table())
    small.X[:, 3:] = 1.0  # genes without counts are omitted
    psa.tl.gsppca(small)
    assert small.uns["gsppca"]["params"]["n_components"] == 2
    psa.tl.gsppca(wide, n_top_genes=4)
    assert wide.uns["gsppca"]["params"]["n_components"] == 4
    assert wide.var["gsppca"].sum() == 4


@FEW_VARIABLES
def test_a_series_as_mask_is_read_by_its_names():
    adata = annotated(table())
    mask = adata.var_names.to_series().isin(adata.var_names[:10])
    one = psa.tl.gsppca(adata, 2, mask_var=mask, copy=True)
    shuffled = mask.sample(frac=1, random_state=0)
    other = psa.tl.gsppca(adata, 2, mask_var=shuffled, copy=True)
    assert not one.var["gsppca"][10:].any()
    np.testing.assert_array_equal(one.var["gsppca"], other.var["gsppca"])


def test_views_are_positions_and_names_of_all_variables():
    adata = annotated(table())
    half, names = adata.n_vars // 2, list(adata.var_names)
    mask = np.arange(adata.n_vars) >= 2
    views = [list(range(half)), list(range(half, adata.n_vars))]
    by_place = psa.tl.sca(adata, 2, views=views, mask_var=mask, copy=True)
    by_name = psa.tl.sca(adata, 2, views=[names[:half], names[half:]], mask_var=mask, copy=True)
    np.testing.assert_array_equal(by_place.varm["sca"], by_name.varm["sca"])
    assert not by_place.varm["sca"][:2].any()
    assert by_place.varm["sca"][2:].any()
    adata.var["kind"] = [None, *["a"] * (adata.n_vars - 1)]
    with pytest.raises(ParameterError, match="must name a view for every variable; 1 have none"):
        psa.tl.sca(adata, 2, views="kind")


# --- panels


def cells(n=160, p=60, seed=0):
    return make_cell_counts(n, p, n_types=4, n_markers=6, random_state=seed).X


@pytest.mark.slow
@pytest.mark.quick
@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, lambda X: X.toarray()])
def test_select_panel_equals_the_estimator(kind):
    X = kind(cells())
    adata, model = annotated(X), Panel(10, counts=True).fit(X)
    assert psa.pp.select_panel(adata, 10) is None
    assert list(adata.var.columns) == [
        "panel",
        "panel_communality",
        "panel_heldout_r2",
        "panel_rank",
        "panel_proxy",
    ]
    assert adata.var["panel"].dtype == bool
    np.testing.assert_array_equal(adata.var["panel"], model.support_)
    ranked = adata.var["panel_rank"].dropna().sort_values()
    assert ranked.tolist() == list(range(1, 11))
    assert ranked.index.tolist() == [f"gene{k}" for k in model.order_]
    np.testing.assert_array_equal(adata.var["panel_communality"], model.communality_)
    np.testing.assert_array_equal(adata.var["panel_heldout_r2"], model.heldout_r2_)
    names = ["" if k < 0 else f"gene{k}" for k in model.proxy_]
    assert adata.var["panel_proxy"].tolist() == names
    assert "" in names
    np.testing.assert_array_equal(adata.obsm["X_panel"], model.transform(X))
    kept = adata.uns["panel"]
    np.testing.assert_array_equal(kept["heldout_r2_path"], model.heldout_r2_path_)
    np.testing.assert_array_equal(kept["heldout_r2_path_std"], model.heldout_r2_path_std_)
    np.testing.assert_array_equal(kept["relative_r2_path"], model.relative_r2_path_)
    assert kept["attainable_r2"] == model.attainable_r2_
    assert kept["params"]["n_genes"] == 10
    assert kept["params"]["counts"]
    assert not {"heldout_r2_by_batch", "include", "exclude"} & (set(kept) | set(kept["params"]))
    assert type(adata.X) is type(X)


def test_panel_on_a_layer_with_genes_that_must_be_in_or_out():
    adata = annotated(np.zeros((160, 60)))
    adata.layers["counts"] = cells()
    free = psa.pp.select_panel(adata, 6, layer="counts", copy=True)
    best = free.var_names[free.var["panel_rank"] == 1][0]
    wanted = [name for name in adata.var_names if not free.var["panel"][name]][:2]
    psa.pp.select_panel(adata, 6, layer="counts", include=wanted, exclude=best, key_added="probes")
    assert adata.var["probes"].sum() == 6
    assert adata.var["probes"][wanted].all()
    assert sorted(adata.var["probes_rank"][wanted]) == [1, 2]
    assert not adata.var["probes"][best]
    assert adata.var["probes_heldout_r2"][best] > 0
    kept = adata.uns["probes"]["params"]
    assert kept["layer"] == "counts"
    assert kept["include"].tolist() == wanted
    assert kept["exclude"] == best
    assert "X_probes" in adata.obsm


def test_panel_of_some_variables():
    mask = np.arange(60) % 4 > 0
    X = cells()
    adata = annotated(X)
    psa.pp.select_panel(adata, 5, mask_var=mask, include=["gene7"], exclude=["gene0", "gene1"])
    places = np.flatnonzero(mask)
    inside = [int(np.flatnonzero(places == k)[0]) for k in (7, 1)]  # gene0 is not looked at
    model = Panel(5, include=inside[:1], exclude=inside[1:], counts=True).fit(X[:, mask])
    np.testing.assert_array_equal(adata.var["panel"][mask], model.support_)
    np.testing.assert_array_equal(adata.var["panel_heldout_r2"][mask], model.heldout_r2_)
    for name in ("rank", "communality", "heldout_r2"):
        assert adata.var[f"panel_{name}"][~mask].isna().all()
    assert not adata.var["panel"][~mask].any()
    assert (adata.var["panel_proxy"][~mask] == "").all()
    chosen = set(adata.var_names[adata.var["panel"]])
    assert set(adata.var["panel_proxy"]) <= chosen | {""}
    with pytest.raises(ParameterError, match="`include` names 'gene4', which `mask_var` excludes"):
        psa.pp.select_panel(adata, 5, mask_var=mask, include="gene4")


def test_panel_within_batches(tmp_path):
    X, batch = cells(), np.array(["a/1", "b"])[np.arange(160) % 2]
    adata = annotated(X)
    adata.obs["donor"] = batch
    psa.pp.select_panel(adata, 6, batch_key="donor")
    model = Panel(6, counts=True).fit(X, groups=batch)
    np.testing.assert_array_equal(adata.var["panel"], model.support_)
    shares = adata.uns["panel"]["heldout_r2_by_batch"]["heldout_r2"]
    assert shares.to_dict() == model.heldout_r2_by_group_
    assert list(shares.index) == ["a/1", "b"]
    assert adata.uns["panel"]["params"]["batch_key"] == "donor"
    adata.write_h5ad(tmp_path / "cells.h5ad")
    back = anndata.read_h5ad(tmp_path / "cells.h5ad")
    again = back.uns["panel"].pop("heldout_r2_by_batch")
    assert again["heldout_r2"].to_dict() == shares.to_dict()
    assert_equal(
        back.uns["panel"],
        {
            name: value
            for name, value in adata.uns["panel"].items()
            if name != "heldout_r2_by_batch"
        },
    )
    assert back.var["panel_proxy"].tolist() == adata.var["panel_proxy"].tolist()
    with pytest.raises(ParameterError, match=r"`batch_key`.*\('donor'\), got 'patient'"):
        psa.pp.select_panel(adata, 6, batch_key="patient")


def test_panel_with_costs_and_bundles():
    X = cells()
    adata = annotated(X)
    adata.var["price"] = np.where(np.arange(60) % 2, 50.0, 1.0)
    free = psa.pp.select_panel(adata, 6, costs="price", copy=True)
    assert not free.var["panel"][1::2].any()  # expensive genes are not selected
    mask = np.arange(60) >= 10
    psa.pp.select_panel(adata, 6, costs=adata.var["price"], mask_var=mask)
    model = Panel(6, costs=adata.var["price"][mask], counts=True).fit(X[:, mask])
    np.testing.assert_array_equal(adata.var["panel"][mask], model.support_)
    both = [["gene0", "gene1", "gene2"]]
    psa.pp.select_panel(adata, 8, bundles=both, include="gene1")
    assert adata.var["panel"][both[0]].all()
    with pytest.raises(ParameterError, match=r"`costs`.*60 variables, got shape \(2,\)"):
        psa.pp.select_panel(adata, 6, costs=[1.0, 2.0])


@pytest.mark.parametrize("kind", [sparse.csr_matrix, lambda X: X.toarray()])
def test_counts_are_recognised_and_the_log_says_so(kind, caplog):
    X = kind(cells())
    adata = annotated(X.astype(np.float32))
    adata.layers["raw"] = X.astype(np.int64)
    adata.layers["log"] = kind(sparse.csr_matrix(cells().log1p()))
    adata.layers["centred"] = np.round(table(2)[np.arange(160) % N][:, np.arange(60) % P])
    for layer, counts in ((None, True), ("raw", True), ("log", False), ("centred", False)):
        caplog.clear()
        with caplog.at_level("INFO", logger="prosparse.anndata"):
            psa.pp.select_panel(adata, 5, layer=layer)
        decided, done = (record.getMessage() for record in caplog.records)
        name = "X" if layer is None else f"layer {layer!r}"
        assert name in decided
        assert ("treated as counts" in decided) is counts
        assert ("scaled to unit variance" in decided) is not counts
        assert "select_panel: selected 5 of 60 variables" in done
        assert "components (0:00:0" in done  # the run time
        assert "'panel_rank'" in done
        assert adata.uns["panel"]["params"]["counts"] is counts
    caplog.clear()
    with caplog.at_level("INFO", logger="prosparse.anndata"):
        psa.pp.select_panel(adata, 5, counts=False)
    assert not adata.uns["panel"]["params"]["counts"]
    assert len(caplog.records) == 1  # the user decided
    scaled = Panel(5).fit(adata.X)
    np.testing.assert_array_equal(adata.var["panel"], scaled.support_)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"include": ["gene3", "gene333"]},
            "`include` names 'gene333', which is not in `.var_names`",
        ),
        ({"include": "Gene3"}, r"'Gene3', which is not in `.var_names`. Similar names: 'gene3'"),
        ({"include": ["twice"]}, "`include` must name one variable, but 2 variables"),
        ({"exclude": ["nobody"]}, "`exclude` names 'nobody'"),
        ({"include": [3]}, "`include` must be names in `.var_names`, got 3"),
        (
            {"include": 3},
            "`include` must be names of variables, a boolean column of `.var` or a mask, got 3",
        ),
        (
            {"include": {"rna": ["gene3"]}},
            "a boolean column of `.var` or a mask, got {'rna'",
        ),
        ({"include": "still"}, "`include` names 'still', which is constant"),
        ({"include": "gene3", "exclude": "gene3"}, "`include` and `exclude` both name 'gene3'"),
        ({"n_genes": 60}, "`n_genes` must be at most 59.*got 60"),
        ({"n_genes": 58, "exclude": ["gene3", "gene4"]}, "`n_genes` must be at most 57"),
        ({"n_genes": 0}, "`n_genes`.*at least 1 or None, got 0"),
        (
            {"n_genes": 1, "include": ["gene3", "gene4"]},
            "`include` must have at most `n_genes` = 1 names, got 2",
        ),
        ({"counts": "yes"}, "`counts` must be True or False, got 'yes'"),
        ({"bundles": "gene3"}, "`bundles` must be a list of lists, got 'gene3'"),
        ({"layer": "log"}, r"`layer`.*there are none"),
        ({"mask_var": "hvg"}, "`mask_var`.*got 'hvg'"),
        ({"modality": "rna"}, "`modality` must be None for an AnnData"),
        ({"key_added": ""}, "`key_added`.*got ''"),
        ({"copy": "yes"}, "`copy`.*got 'yes'"),
    ],
)
def test_errors_of_panels(given, words):
    X = cells().tolil()
    X[:, 20] = 0
    adata = annotated(X.tocsr())
    names = adata.var_names.to_list()
    names[10] = names[11] = "twice"
    names[20] = "still"
    adata.var_names = names
    with pytest.raises(ParameterError, match=words):
        psa.pp.select_panel(adata, **({"n_genes": 5} | given))
    assert not len(adata.var.columns)
    assert not len(adata.uns)
    assert not len(adata.obsm)


def test_missing_values_in_panels_are_named():
    X = cells().toarray().astype(float)
    X[7, 20] = np.nan
    with pytest.raises(InputError, match=r"'cell7', column 'gene20';.* Panel needs"):
        psa.pp.select_panel(annotated(X), 5)


def test_panels_of_modalities(mudata):
    mdata = mudata.MuData({"rna": annotated(cells()), "prot": annotated(cells(p=40, seed=1), "p")})
    psa.pp.select_panel(mdata, {"rna": 6, "prot": 4}, include={"rna": ["gene3"]})
    rna, prot = mdata.mod["rna"], mdata.mod["prot"]
    assert (rna.var["panel"].sum(), prot.var["panel"].sum()) == (6, 4)
    assert rna.var["panel"]["gene3"]
    np.testing.assert_array_equal(prot.var["panel"], Panel(4, counts=True).fit(prot.X).support_)
    with pytest.raises(ParameterError, match=r"'gene3', which is not in.* of modality 'prot'"):
        psa.pp.select_panel(mdata, 4, include="gene3", key_added="again")
    assert "again" not in rna.var


def test_panel_of_a_lazy_table(caplog):
    da = pytest.importorskip("dask.array")
    X = cells().toarray()
    adata = annotated(da.from_array(X, chunks=(40, -1)))
    with caplog.at_level("INFO", logger="prosparse.anndata"):
        psa.pp.select_panel(adata, 5)
    assert "treated as counts" in caplog.text
    np.testing.assert_array_equal(adata.var["panel"], Panel(5, counts=True).fit(X).support_)


def test_panel_never_makes_sparse_dense(monkeypatch):
    n, p = 300, 3000
    adata = annotated(make_cell_counts(n, p, n_types=3, n_markers=10, random_state=0).X)
    largest = []
    for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix):

        def watched(self, *args, dense=kind.toarray, **kwargs):
            largest.append(self.shape[0] * self.shape[1])
            return dense(self, *args, **kwargs)

        monkeypatch.setattr(kind, "toarray", watched)
    psa.pp.select_panel(adata, 12, mask_var=np.arange(p) < p - 10)
    assert adata.var["panel"].sum() == 12
    assert max(largest, default=0) <= ENTRIES_PER_BLOCK


def test_constraints_of_spatial_panels():
    rng = np.random.default_rng(0)
    types = np.repeat(["A", "B"], 60)
    rates = np.where((types == "A")[:, None] == (np.arange(20) < 10), 6.0, 1.0)
    adata = anndata.AnnData(rng.poisson(rates).astype(float))
    adata.obs["type"] = types
    psa.pp.select_panel(
        adata, 6, labels_key="type", markers_per_label=2, conflicts=[["0", "1", "2"]]
    )
    panel = adata.var.query("panel")
    assert panel.index.isin(["0", "1", "2"]).sum() <= 1
    assert (panel["panel_marker_of"] == "A").sum() == (panel["panel_marker_of"] == "B").sum() == 2


# --- how the functions are called

FUNCTIONS = [
    (psa.tl.gsppca, GSPPCA, {"n_components", "n_features_to_select"}),
    (psa.tl.fdrpca, FDRPCA, {"n_components", "max_features", "counts", "ordered_scores"}),
    (psa.tl.sca, SCA, {"n_components", "views"}),
    (
        psa.pp.select_panel,
        Panel,
        {"n_features_to_select", "include", "exclude", "costs", "bundles", "conflicts", "counts"},
    ),
]


@pytest.mark.quick
@pytest.mark.parametrize(("function", "estimator", "own"), FUNCTIONS)
def test_signatures_spell_out_the_parameters_of_the_estimator(function, estimator, own):
    """Completion shows them, each has an entry in the docstring, and defaults are the same."""
    there = inspect.signature(function).parameters
    assert not [one for one in there.values() if one.kind is one.VAR_KEYWORD]
    for name, value in estimator().get_params().items():
        if name not in own:
            assert there[name].default == value, name
    assert own - {"n_features_to_select", "max_features", "ordered_scores"} <= set(there)
    described = re.findall(r"^(\w+) : ", function.__doc__.partition("Returns")[0], re.MULTILINE)
    assert sorted(described) == sorted(there)


@pytest.mark.parametrize("verbosity", [1, 3])
def test_scanpy_says_what_was_done(verbosity, monkeypatch):
    """As its own functions do: from "info" on, with the time it took and where the results are."""
    scanpy = pytest.importorskip("scanpy")
    file = io.StringIO()
    before = scanpy.settings.verbosity, scanpy.settings.logfile
    try:
        scanpy.settings.verbosity, scanpy.settings.logfile = verbosity, file
        psa.tl.fdrpca(annotated(), n_components=2)
    finally:
        scanpy.settings.verbosity, scanpy.settings.logfile = before
    said = file.getvalue()
    if verbosity < 3:
        assert said == ""
    else:
        assert re.search(r"fdrpca: selected \d+ of 40 variables, 2 components \(0:00:0\d\)\n", said)
        assert "--> added 'fdrpca' (.var),\n" in said
        assert "'X_fdrpca' (.obsm)" in said


@FEW_VARIABLES
@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (psa.tl.gsppca, ["'gsppca_ranking' (.var)", "'X_gsppca' (.obsm)", "'gsppca' (.varm)"]),
        (psa.tl.sca, ["'X_sca' (.obsm)", "'sca' (.varm)", "'sca' (.uns)"]),
    ],
)
def test_the_log_names_what_is_there(function, wanted, caplog):
    adata = annotated()
    with caplog.at_level("INFO", logger="prosparse.anndata"):
        function(adata, n_components=2)
    for name in wanted:
        assert name in caplog.text
    for name, place in re.findall(r"'(\w+)' \(\.(\w+)\)", caplog.text):
        assert name in getattr(adata, place)


# --- what was not fitted for, and what the data lack


def test_a_panel_whose_size_the_data_decide():
    data = annotated()
    psa.pp.select_panel(data, None, counts=False)
    expected = Panel().fit(data.X)
    np.testing.assert_array_equal(data.var["panel"], expected.support_)
    assert "n_genes" not in data.uns["panel"]["params"]
    assert data.uns["panel"]["n_selected"] == expected.n_selected_


@pytest.mark.parametrize("kind", [str, complex])
@pytest.mark.parametrize("function", FITS)
def test_tables_that_hold_no_real_numbers(function, kind):
    data = annotated()
    data.layers["other"] = data.X.astype(kind)
    with pytest.raises(InputError, match="The data must be real numbers, got"):
        function(data, layer="other")


def test_columns_of_one_name():
    data = annotated()
    data.obs["batch"] = ["a", "b"] * 30
    data.obs = data.obs.iloc[:, [0, 0]]
    with pytest.raises(ParameterError, match="but 2 columns are named 'batch'"):
        psa.tl.fdrpca(data, batch_key="batch")


def test_modalities_that_are_none(mdata):
    with pytest.raises(ParameterError, match="`modality` must be names of modalities, got 1"):
        psa.tl.fdrpca(mdata, modality=1)
    with pytest.raises(ParameterError, match="`bundles` must be a list of lists, got 5"):
        psa.pp.select_panel(mdata, 4, modality="prot", bundles=5)


@pytest.mark.parametrize("function", FITS)
def test_modalities_without_observations(mudata, function):
    data = mudata.MuData({"rna": annotated(), "prot": annotated(table(1)[:0], "p")})
    with pytest.raises(InputError, match="'prot' is empty: it has 0 observations and 40 variables"):
        function(data)


def test_a_modality_that_the_mudata_does_not_know_yet(mdata):
    mdata.mod["new"] = annotated(table(2)[:, :8], "n")
    with pytest.raises(InputError, match=r"'new' has changed .*update"):
        psa.tl.sca(mdata, 2)
