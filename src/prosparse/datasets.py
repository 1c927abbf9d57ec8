"""The simulators of the papers, and cells. The true variables stand at random positions: with the
true ones first, a stable sort of tied scores looks perfect."""

from __future__ import annotations

import os
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from .errors import ParameterError, check_bool, check_choice, check_integer, check_non_negative


class GloballySparse(NamedTuple):
    """What `make_globally_sparse` draws.

    Attributes
    ----------
    X : array (n_samples, n_features)
    support : bool array (n_features,)
        The true variables.
    loadings : array (n_features, n_components)
        Rows outside ``support`` are zero.
    """

    X: np.ndarray
    support: np.ndarray
    loadings: np.ndarray


def make_globally_sparse(
    n_samples: int = 50,
    n_features: int = 30,
    *,
    n_components: int = 5,
    n_informative: int = 10,
    noise: float = 0.5,
    scale: bool = False,
    random_state: Any = None,
) -> GloballySparse:
    """Draw from model (3) of Mattei, Bouveyron & Latouche (2016): x = V W y + noise.

    The defaults are the paper's introductory example, n 50, p 30, d 5, q 10.

    Parameters
    ----------
    n_samples : int
        Rows.
    n_features : int
        Columns.
    n_components : int
        Dimension d of y.
    n_informative : int
        Number q of variables with loadings, standard normal.
    noise : float
        Standard deviation of the noise of every variable.
    scale : bool
        Give every column unit variance: then variance says nothing about relevance.
    random_state : int, RandomState or None

    Returns
    -------
    GloballySparse : named tuple (X, support, loadings)
    """
    check_integer("n_samples", n_samples, 2)
    check_integer("n_features", n_features, 1)
    check_integer("n_components", n_components, 1)
    check_integer("n_informative", n_informative, 1)
    check_non_negative("noise", noise)
    check_bool("scale", scale)
    if not n_components <= n_informative <= n_features:
        raise ParameterError(
            "n_components <= n_informative <= n_features is needed, got "
            f"{n_components}, {n_informative}, {n_features}"
        )
    rng = check_random_state(random_state)
    support = np.zeros(n_features, dtype=bool)
    support[rng.permutation(n_features)[:n_informative]] = True
    loadings = np.where(support[:, None], rng.standard_normal((n_features, n_components)), 0.0)
    scores = rng.standard_normal((n_samples, n_components))
    X = scores @ loadings.T + noise * rng.standard_normal((n_samples, n_features))
    if scale:
        deviation = X.std(axis=0)
        X, loadings = X / deviation, loadings / deviation[:, None]
    return GloballySparse(X, support, loadings)


class SparseProjectionData(NamedTuple):
    """What `make_sparse_projection` draws.

    Attributes
    ----------
    X : array (n_samples, n_features)
    clean : array (n_samples, n_features)
        X without its noise.
    loadings : array (n_features, n_components)
        Columns have unit length.
    noise : float
        Standard deviation of the noise.
    """

    X: np.ndarray
    clean: np.ndarray
    loadings: np.ndarray
    noise: float


LATENT_LAWS = ("gaussian", "uniform", "laplace")


def make_sparse_projection(
    n_samples: int = 100,
    n_features: int = 10,
    *,
    n_components: int = 4,
    n_nonzero: int = 4,
    noise: float = 0.5,
    latents: str = "gaussian",
    random_state: Any = None,
) -> SparseProjectionData:
    """The denoising experiment of Archambeau & Bach (2008): sparse directions, any latent law.

    The defaults are the paper's: 4 unit vectors with 4 nonzero entries in 10 dimensions.

    Parameters
    ----------
    n_samples : int
        Rows.
    n_features : int
        Columns.
    n_components : int
        Directions.
    n_nonzero : int
        Nonzero entries of every direction.
    noise : float
        Standard deviation of the noise, relative to the root mean square of the clean data.
    latents : {"gaussian", "uniform", "laplace"}
        Law of the latents, all of unit variance.
    random_state : int, RandomState or None

    Returns
    -------
    SparseProjectionData : named tuple (X, clean, loadings, noise)
    """
    check_choice("latents", latents, LATENT_LAWS)
    check_integer("n_samples", n_samples, 2)
    check_integer("n_features", n_features, 1)
    check_integer("n_components", n_components, 1)
    check_integer("n_nonzero", n_nonzero, 1)
    check_non_negative("noise", noise)
    if n_nonzero > n_features:
        raise ParameterError(f"n_nonzero <= n_features is needed, got {n_nonzero}, {n_features}")
    rng = check_random_state(random_state)
    loadings = np.zeros((n_features, n_components))
    for j in range(n_components):
        loadings[rng.permutation(n_features)[:n_nonzero], j] = rng.standard_normal(n_nonzero)
    loadings /= np.linalg.norm(loadings, axis=0)
    size = (n_samples, n_components)
    if latents == "gaussian":
        Z = rng.standard_normal(size)
    elif latents == "uniform":
        Z = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), size)
    else:
        Z = rng.laplace(scale=np.sqrt(0.5), size=size)
    clean = Z @ loadings.T
    deviation = noise * float(np.sqrt(np.mean(clean**2)))
    X = clean + deviation * rng.standard_normal(clean.shape)
    return SparseProjectionData(X, clean, loadings, deviation)


class SparseRegression(NamedTuple):
    """What `make_sparse_regression` draws.

    Attributes
    ----------
    X : array (n_samples, n_features)
    y : array (n_samples,)
    coef : array (n_features,)
        Zero but for the true variables.
    """

    X: np.ndarray
    y: np.ndarray
    coef: np.ndarray


def make_sparse_regression(
    n_samples: int = 100,
    n_features: int = 200,
    *,
    n_informative: int = 10,
    noise: float = 1.0,
    correlation: float = 0.0,
    random_state: Any = None,
) -> SparseRegression:
    """A linear model of which few variables have coefficients: of size 1 to 3, of either sign.

    Parameters
    ----------
    n_samples : int
        Rows.
    n_features : int
        Columns.
    n_informative : int
        Number of variables with nonzero coefficients.
    noise : float
        Standard deviation of the noise.
    correlation : float, in (-1, 1)
        Of neighbouring columns; columns i and j have ``correlation ** |i - j|``.
    random_state : int, RandomState or None

    Returns
    -------
    SparseRegression : named tuple (X, y, coef)
    """
    check_integer("n_samples", n_samples, 2)
    check_integer("n_features", n_features, 1)
    check_integer("n_informative", n_informative, 0)
    check_non_negative("noise", noise)
    if n_informative > n_features:
        raise ParameterError(
            f"n_informative <= n_features is needed, got {n_informative}, {n_features}"
        )
    if not isinstance(correlation, Real) or not -1 < float(correlation) < 1:
        raise ParameterError(f"`correlation` must be between -1 and 1, got {correlation!r}")
    rng = check_random_state(random_state)
    X = rng.standard_normal((n_samples, n_features))
    for j in range(1, n_features if correlation else 0):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1.0 - correlation**2) * X[:, j]
    coef = np.zeros(n_features)
    places = rng.permutation(n_features)[:n_informative]
    coef[places] = rng.uniform(1.0, 3.0, n_informative) * rng.choice([-1.0, 1.0], n_informative)
    y = X @ coef + noise * rng.standard_normal(n_samples)
    return SparseRegression(X, y, coef)


class CellCounts(NamedTuple):
    X: sparse.csr_array  # (cells, genes) counts
    cell_type: np.ndarray  # (cells,) integers from 0
    support: np.ndarray  # (genes,) bool, whether a gene is a marker of any type


def make_cell_counts(
    n_cells: int = 500,
    n_genes: int = 2000,
    *,
    n_types: int = 5,
    n_markers: int = 20,
    fold_change: float = 8.0,
    depth: float = 2000.0,
    random_state: Any = None,
) -> CellCounts:
    """Counts of molecules in cells of several types, each with markers of its own.

    Every gene has a log-normal expression, which ``fold_change`` multiplies in cells of the type
    that it marks; every cell has a log-normal depth; counts are Poisson given both.

    Parameters
    ----------
    n_cells : int
        Rows.
    n_genes : int
        Columns.
    n_types : int
        Types of cells.
    n_markers : int
        Genes that mark each type; ``n_types * n_markers`` are at most ``n_genes``.
    fold_change : float
    depth : float
        Median number of molecules of a cell.
    random_state : int, RandomState or None

    Returns
    -------
    CellCounts : named tuple (X, cell_type, support)
    """
    check_integer("n_cells", n_cells, 2)
    check_integer("n_genes", n_genes, 1)
    check_integer("n_types", n_types, 1)
    check_integer("n_markers", n_markers, 0)
    check_non_negative("fold_change", fold_change)
    check_non_negative("depth", depth)
    if not n_types * n_markers <= n_genes:
        raise ParameterError(
            f"n_types * n_markers <= n_genes is needed, got {n_types}, {n_markers}, {n_genes}"
        )
    rng = check_random_state(random_state)
    markers = rng.permutation(n_genes)[: n_types * n_markers].reshape(n_types, n_markers)
    profiles = np.tile(rng.lognormal(sigma=1.5, size=n_genes), (n_types, 1))
    profiles[np.arange(n_types)[:, None], markers] *= fold_change
    profiles /= profiles.sum(axis=1, keepdims=True)
    cell_type = rng.randint(n_types, size=n_cells)
    depths = depth * rng.lognormal(sigma=0.3, size=n_cells)
    # Row by row, so that the table is never dense.
    rows = [
        sparse.csr_array(rng.poisson(m * profiles[k])[None, :])
        for m, k in zip(depths, cell_type, strict=True)
    ]
    support = np.zeros(n_genes, dtype=bool)
    support[markers] = True
    return CellCounts(sparse.csr_array(sparse.vstack(rows, format="csr")), cell_type, support)


PBMC3K = "pbmc3k_2700x32738_csr.npz"
PBMC_FACS = "pbmc_facs_3774x16791_csr.npz"
_PBMC3K_ELSEWHERE = (
    "scanpy.datasets.pbmc3k() downloads the same cells, "
    'scanpy.datasets.pbmc3k_processed().obs["louvain"] types of most of them.'
)
_PBMC_FACS_ELSEWHERE = "The R package fastglmpca holds the same cells as `pbmc_facs`."


def load_pbmc3k(folder: Path | str | None = None) -> Any:
    """2,700 blood cells, 32,738 genes (10x Genomics), as an AnnData of sparse counts.

    ``.obs["cell_type"]`` are the types of Seurat's tutorial, missing for 62 cells; they come from
    clusters in highly variable genes of these very counts. ``.var["gene_ids"]`` are Ensembl's. The
    file is looked for in ``folder``, or in the folder that the environment variable PROSPARSE_DATA
    names.
    """
    path = _cells_file("load_pbmc3k", folder, PBMC3K, _PBMC3K_ELSEWHERE)
    with np.load(path, allow_pickle=False) as file:
        adata = _cells(file, file["feature_names"])
        adata.obs_names = file["sample_names"]
        adata.var["gene_ids"] = file["gene_ids"].astype(object)
    return adata


def load_pbmc_facs(folder: Path | str | None = None) -> Any:
    """3,774 blood cells of ten types, 16,791 genes (Zheng et al. 2017), as an AnnData of sparse
    counts.

    ``.obs["cell_type"]`` says how a cell was sorted, by proteins on its surface, before its
    molecules were counted: unlike types that come from clusters, these owe nothing to the counts.
    ``.var_names`` are Ensembl's identifiers. The file is looked for as by `load_pbmc3k`.
    """
    path = _cells_file("load_pbmc_facs", folder, PBMC_FACS, _PBMC_FACS_ELSEWHERE)
    with np.load(path, allow_pickle=False) as file:
        return _cells(file, file["gene_ids"])


def _cells_file(loader: str, folder: Path | str | None, name: str, elsewhere: str) -> Path:
    try:
        import anndata  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{loader} needs anndata, which is not installed: pip install 'prosparse[anndata]'"
        ) from error
    place = folder if folder is not None else os.environ.get("PROSPARSE_DATA", "")
    path = Path(place) / name
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no file {path}: name its folder, here or in the environment variable "
            f"PROSPARSE_DATA. {elsewhere}"
        )
    return path


def _cells(file: Any, genes: np.ndarray) -> Any:
    """Counts and types of cells, as our files keep them."""
    import anndata
    import pandas as pd

    parts = (file["data"].astype(np.float32), file["indices"], file["indptr"])
    adata = anndata.AnnData(sparse.csr_matrix(parts, shape=tuple(file["shape"])))
    adata.var_names = pd.Index(genes)
    adata.var_names_make_unique()
    known = [None if name == "" else str(name) for name in file["y"]]
    adata.obs["cell_type"] = pd.Categorical(known)
    return adata
