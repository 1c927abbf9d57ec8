"""Every function of `prosparse.anndata` runs with each of its optional arguments.

The arguments are recorded in ``.uns``. Arguments with another effect are checked for it.
"""

import inspect

import numpy as np
import pytest
from scipy import sparse

import prosparse.anndata as psa
from prosparse.datasets import make_cell_counts

anndata = pytest.importorskip("anndata")
pytestmark = pytest.mark.filterwarnings("ignore")

N, P = 120, 40
MASK = np.arange(P) != 3
# Arguments that are not parameters of the fit.
OUTPUTS = {"adata", "key_added", "copy", "pca_names", "mofa_names", "modality"}

COMMON = {
    "layer": "other",
    "mask_var": "kept",
    "modality": "rna",
    "key_added": "named",
    "copy": True,
}
ITERATIONS = {"max_iter": 7, "tol": 1e-3, "verbose": 0}
ARGUMENTS = {
    psa.pp.select_panel: {
        **COMMON,
        "n_genes": 3,
        "target_recovery": 0.5,
        "include": ["2"],
        "exclude": ["1"],
        "handle_unknown": "warn",
        "batch_key": "batch",
        "counts": False,
        "costs": "price",
        "bundles": [["5", "6"]],
        "conflicts": [["7", "8"]],
        "mean_range": (0.0, 1e3),
        "max_total": 1e4,
        "labels_key": "type",
        "markers_per_label": 1,
        "coverage": 0.8,
        "random_state": 1,
    },
    psa.tl.fdrpca: {
        **COMMON,
        "n_components": 2,
        "fdr": 0.1,
        "null": "exchangeable",
        "control": "knockoff",
        "n_shadows": 2,
        "n_draws": 2,
        "min_communality": 0.2,
        "n_top_genes": 5,
        "rank_transform": True,
        "counts": False,
        "batch_key": ["batch", "type"],
        "covariate_keys": ["depth"],
        "pca_names": True,
        "random_state": 1,
    },
    psa.tl.gsppca: {
        **COMMON,
        **ITERATIONS,
        "n_components": 2,
        "n_top_genes": 5,
        "scale": True,
        "noise": "median",
        "evidence": "noisy",
        "model_prior": "sparse",
        "refine": False,
        "pca_names": True,
    },
    psa.tl.sca: {
        **COMMON,
        **ITERATIONS,
        "n_components": 2,
        "prior": "hyperbolic",
        "shape": 1.0,
        "rate": 1.0,
        "n_private": 1,
        "noise": "view",
        "rotation": "sparse",
        "likelihood": "poisson",
        "batch_key": "batch",
        "views": "view",
        "mofa_names": True,
    },
    psa.tl.project: {"key": "fdrpca", "layer": "other", "modality": "rna", "key_added": "there"}
    | {"copy": True},
}
# Arguments that require others.
TOGETHER = {
    "n_shadows": {"control": "knockoff", "counts": False},
    "n_draws": {"control": "knockoff", "counts": False},
    "control": {"counts": False},
    "rank_transform": {"counts": False},
    "markers_per_label": {"labels_key": "type"},
    "target_recovery": {"n_genes": None},
    "n_private": {"views": "view"},
    "shape": {"prior": "hyperbolic"},
    "rate": {"prior": "hyperbolic", "shape": 1.0},
    "prior": {"shape": 1.0, "rate": 1.0},
}


def cells(seed=0):
    X = make_cell_counts(N, P, n_types=3, n_markers=8, random_state=seed).X
    data = anndata.AnnData(sparse.csr_matrix(X))
    data.layers["other"] = data.X + sparse.csr_matrix(np.eye(N, P))
    data.obs["batch"] = np.where(np.arange(N) % 2, "a", "b")
    data.obs["type"] = np.where(np.arange(N) % 3, "t", "u")
    data.obs["depth"] = np.asarray(data.X.sum(axis=1)).ravel()
    data.var["kept"] = MASK
    data.var["price"] = 1.0 + np.arange(P) % 2
    data.var["view"] = np.where(np.arange(P) % 2, "one", "two")
    return data


def call(function, name, value):
    """Call a function with one optional argument; return its result and the data."""
    data = cells()
    given = {name: value, **TOGETHER.get(name, {})}
    if function is psa.pp.select_panel:
        given = {"n_genes": 4, **given}
    if name == "modality":
        mudata = pytest.importorskip("mudata")
        data = mudata.MuData({"rna": data, "other": cells(1)})
    if function is psa.tl.project:
        reference = data.copy()
        psa.tl.fdrpca(reference, **({"modality": "rna"} if name == "modality" else {}))
        return function(data, reference, **given), data
    return function(data, **given), data


@pytest.mark.parametrize("function", ARGUMENTS, ids=lambda function: function.__name__)
def test_all_optional_arguments_are_tried(function):
    parameters = inspect.signature(function).parameters
    required = {"adata", "model"}
    assert set(ARGUMENTS[function]) == set(parameters) - required
    for name, value in ARGUMENTS[function].items():
        if name != "verbose":
            assert not np.array_equal(value, parameters[name].default), name


@pytest.mark.parametrize(
    ("function", "name"),
    [(function, name) for function, names in ARGUMENTS.items() for name in names],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_each_optional_argument(function, name):
    value = ARGUMENTS[function][name]
    returned, data = call(function, name, value)
    assert (returned is not None) == (name == "copy")
    result = data if returned is None else returned
    is_joint = function is psa.tl.sca or name != "modality"
    table = result if is_joint else result.mod["rna"]
    key = {"select_panel": "panel", "project": "fdrpca"}.get(function.__name__, function.__name__)
    key = value if name == "key_added" else key
    assert table.obsm[f"X_{key}"].shape[0] == N
    if name == "copy":
        assert f"X_{key}" not in data.obsm
    if function is psa.tl.project:
        return
    params = table.uns[key]["params"]
    if name in params:
        np.testing.assert_array_equal(np.ravel(params[name]), np.ravel(value))
    else:
        assert name in OUTPUTS | {"handle_unknown"}
    if name == "pca_names":
        np.testing.assert_array_equal(table.obsm["X_pca"], table.obsm[f"X_{key}"])
        assert set(table.uns["pca"]) >= {"variance", "variance_ratio", "params"}
        assert table.varm["PCs"].shape[0] == P
    if name == "mofa_names":
        np.testing.assert_array_equal(table.obsm["X_mofa"], table.obsm[f"X_{key}"])
    if name == "mask_var":
        assert not table.var[key].iloc[3]


def test_a_panel_of_a_size_that_the_data_determine():
    """Regression test: ``n_genes=None`` once failed after `.var` was written."""
    data = cells()
    psa.pp.select_panel(data, None)
    assert data.var["panel"].sum() == data.uns["panel"]["n_selected"] >= 1
