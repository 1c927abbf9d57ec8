"""Functions of `prosparse.anndata`: ``pp``, ``tl`` and ``pl``.

The signatures contain the parameters of the estimators, so that editors complete them. Descriptions
of these parameters are taken from the estimators (`documentation`), and `slots` lists where fitted
attributes are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..models.fdrpca import FDRPCA
from ..models.gsppca import GSPPCA
from ..models.gsppca.evidence import EvidenceKind
from ..models.gsppca.solve import ModelPrior, NoiseEstimator
from ..models.panel import Panel
from ..models.sca import SCA
from . import plots
from .documentation import complete_docstring
from .factors import fit_factors
from .fitting import fit_fdrpca, fit_gsppca, fit_panel, run
from .projection import project
from .slots import FDRPCA_SLOTS, GSPPCA_SLOTS, PANEL_SLOTS
from .variables import HandleUnknown

if TYPE_CHECKING:
    from anndata import AnnData
    from mudata import MuData

DEFAULT_N_GENES = 150  # a common size of probe sets for tissues


@complete_docstring(Panel)
def select_panel(
    adata: AnnData | MuData,
    n_genes: Any = DEFAULT_N_GENES,
    *,
    target_recovery: float = 0.9,
    include: Any = (),
    exclude: Any = (),
    handle_unknown: HandleUnknown = "error",
    batch_key: Any = None,
    counts: bool | None = None,
    costs: Any = None,
    bundles: Any = None,
    conflicts: Any = None,
    mean_range: Any = None,
    max_total: float | None = None,
    labels_key: Any = None,
    markers_per_label: int = 0,
    coverage: float = 0.95,
    layer: Any = None,
    mask_var: Any = None,
    modality: Any = None,
    key_added: str = "panel",
    copy: bool = False,
    random_state: int | np.random.RandomState | None = 0,
) -> AnnData | MuData | None:
    """Select a panel of genes that predicts all others, by `Panel`.

    The panel is suitable for targeted assays and probe sets, because it contains few redundant
    genes. The prediction of every gene is evaluated on held-out observations.

    Parameters
    ----------
    n_genes : int or None, default=150
        Number of genes. None selects the smallest panel that reaches ``target_recovery``.
    include : list of str, str or array of bool, default=()
        Genes that must be in the panel, such as known markers: names, a boolean column of ``.var``,
        or one boolean for each variable.
    exclude : list of str, str or array of bool, default=()
        Genes that must not be in the panel, given like ``include``. They are predicted like all
        others; use ``mask_var`` to remove genes from the analysis.
    handle_unknown : {"error", "warn"}, default="error"
        Whether names that are not in ``.var_names`` raise an error or are ignored with a warning.
        The message lists all unknown names.
    counts : bool or None, default=None
        Whether the data are counts. By default, non-negative integers are treated as counts, and
        the decision is logged. True requires integers.
    costs : str or array of shape (n_vars,), default=None
        Cost of each gene: a column of ``.var``, or one number for each variable.
    bundles : list of lists of str, default=None
        Groups of names of genes that are selected together or not at all.
    conflicts : list of lists of str, default=None
        Groups of names of genes of which at most one is selected, such as genes whose probes
        overlap.
    labels_key : str, default=None
        Column of ``.obs`` with the label of each observation, such as the cell type, for
        ``markers_per_label``.

    Returns
    -------
    AnnData, MuData or None
        The copy, if requested. The results are

        - ``.var[key_added]``: mask of the panel
        - ``.var[key_added + "_rank"]``: order of selection; NaN outside the panel
        - ``.var[key_added + "_communality"]``: R² of a gene given all others
        - ``.var[key_added + "_heldout_r2"]``: held-out R² of a gene given the panel
        - ``.var[key_added + "_proxy"]``: name of the panel gene that represents the gene, or ""
        - ``.var[key_added + "_marker_of"]``: label of which the gene is a marker, or ""; only with
          ``markers_per_label``
        - ``.obsm["X_" + key_added]``: scores computed from the panel
        - ``.uns[key_added]``: fitted model (for `project` and plots), parameters, held-out R² of
          panels of 1, 2, ... genes, and ``heldout_r2_by_batch``, a data frame, if there are batches

    Examples
    --------
    >>> import anndata, prosparse.anndata as psa
    >>> from prosparse.datasets import make_cell_counts
    >>> data = make_cell_counts(300, 200, n_types=4, n_markers=10, random_state=0)
    >>> adata = anndata.AnnData(data.X)
    >>> psa.pp.select_panel(adata, 8, include=["7"])
    >>> int(adata.var["panel"].sum()), bool(adata.var["panel"]["7"])
    (8, True)
    """
    return run("select_panel", locals(), fit_panel, PANEL_SLOTS)


@complete_docstring(GSPPCA)
def gsppca(
    adata: AnnData | MuData,
    n_components: Any = None,
    *,
    n_top_genes: int | None = None,
    scale: bool = False,
    noise: NoiseEstimator = "bias-corrected",
    evidence: EvidenceKind = "noiseless",
    model_prior: ModelPrior = "uniform",
    refine: bool = True,
    max_iter: int = 1000,
    tol: float = 1e-9,
    verbose: int = 0,
    layer: Any = None,
    mask_var: Any = None,
    modality: Any = None,
    pca_names: bool = False,
    key_added: str = "gsppca",
    copy: bool = False,
) -> AnnData | MuData | None:
    """Select variables and compute scores on their components, by `GSPPCA`.

    The function can replace ``scanpy.pp.highly_variable_genes`` and ``scanpy.pp.pca``: continue
    with ``scanpy.pp.neighbors(adata, use_rep="X_gsppca")``. The data are not transformed; pass
    normalised and log-transformed counts.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Number of components. By default 30, or fewer for small data. "auto" estimates the number
        from the variables with significant shared variance (see `GSPPCA`).
    n_top_genes : int or None, default=None
        Number of variables to select. By default, it is determined by the evidence.

    Returns
    -------
    AnnData, MuData or None
        The copy, if requested. The results are

        - ``.var[key_added]``: mask of the selected variables
        - ``.var[key_added + "_relevance"]``: relevance between 0 and 1
        - ``.var[key_added + "_ranking"]``: ranks; 1 is the most relevant variable
        - ``.uns[key_added]``: fitted model (for `project` and plots), parameters, evidence of every
          number of variables, variances
        - ``.obsm["X_" + key_added]``: scores of the observations
        - ``.varm[key_added]``: loadings, zero for variables that are not selected

    Examples
    --------
    >>> import anndata, prosparse.anndata as psa
    >>> from prosparse.datasets import make_globally_sparse
    >>> adata = anndata.AnnData(make_globally_sparse(random_state=0).X)
    >>> psa.tl.gsppca(adata, n_components=5)
    >>> adata.obsm["X_gsppca"].shape, adata.varm["gsppca"].shape
    ((50, 5), (30, 5))
    """
    return run("gsppca", locals(), fit_gsppca, GSPPCA_SLOTS)


@complete_docstring(FDRPCA)
def fdrpca(
    adata: AnnData | MuData,
    n_components: Any = "auto",
    *,
    fdr: float = 0.05,
    null: Literal["robust", "exchangeable"] = "robust",
    control: Literal["bh", "knockoff"] = "bh",
    n_shadows: int = 1,
    n_draws: int = 1,
    min_communality: float = 0.0,
    n_top_genes: int | None = None,
    rank_transform: bool = False,
    counts: bool | None = None,
    batch_key: Any = None,
    covariate_keys: Any = None,
    layer: Any = None,
    mask_var: Any = None,
    modality: Any = None,
    pca_names: bool = False,
    key_added: str = "fdrpca",
    copy: bool = False,
    random_state: int | np.random.RandomState | None = 0,
) -> AnnData | MuData | None:
    """Select variables with shared variance and compute scores, by `FDRPCA`.

    The function can replace ``scanpy.pp.highly_variable_genes`` and ``scanpy.pp.pca``: pass raw
    counts and continue with ``scanpy.pp.neighbors(adata, use_rep="X_fdrpca")``. With thousands of
    cells, most genes share some variance and are selected. For a shorter list, set ``n_top_genes``,
    or ``min_communality``, for example to 0.2.

    Parameters
    ----------
    n_top_genes : int or None, default=None
        Maximum number of selected variables. If more are significant, those with the largest
        communality are selected. By default, there is no maximum.
    counts : bool or None, default=None
        Whether the data are counts, which are replaced by Pearson residuals. By default,
        non-negative integers are treated as counts, and the decision is logged. True requires
        integers.

    Returns
    -------
    AnnData, MuData or None
        The copy, if requested. The results are

        - ``.var[key_added]``: mask of the selected variables
        - ``.var[key_added + "_communality"]``: proportion of variance shared with others
        - ``.var[key_added + "_pvalue"]``: p-value of the test of shared variance
        - ``.var[key_added + "_qvalue"]``: Benjamini-Hochberg adjusted p-value
        - ``.var[key_added + "_ranking"]``: ranks by communality, with selected variables first
        - ``.var[key_added + "_covariate_r2"]``: proportion of variance explained by covariates
        - ``.obsm["X_" + key_added]``: scores of the observations
        - ``.varm[key_added]``: loadings, zero for variables that are not selected
        - ``.uns[key_added]``: fitted model (for `project` and plots), parameters, variances, and
          the null expectation of the communality

    Examples
    --------
    >>> import anndata, prosparse.anndata as psa
    >>> from prosparse.datasets import make_globally_sparse
    >>> data = make_globally_sparse(100, 50, scale=True, random_state=0)
    >>> adata = anndata.AnnData(data.X)
    >>> psa.tl.fdrpca(adata)
    >>> int(adata.var["fdrpca"].sum()), int(data.support[adata.var["fdrpca"]].sum())
    (11, 10)
    """
    return run("fdrpca", locals(), fit_fdrpca, FDRPCA_SLOTS)


@complete_docstring(SCA)
def sca(
    adata: AnnData | MuData,
    n_components: Any = None,
    *,
    prior: Literal["ard", "hyperbolic"] = "ard",
    shape: float = 0.0,
    rate: float = 0.0,
    n_private: int | Sequence[int] = 0,
    noise: Literal["view", "feature"] = "feature",
    rotation: Literal["sparse", "shared"] = "shared",
    likelihood: Any = "gaussian",
    row_scale: Literal["auto", "equal"] = "auto",
    batch_key: Any = None,
    max_iter: int = 1000,
    tol: float = 1e-6,
    verbose: int = 0,
    layer: Any = None,
    mask_var: Any = None,
    modality: Any = None,
    views: Any = None,
    mofa_names: bool = False,
    key_added: str = "sca",
    copy: bool = False,
) -> AnnData | MuData | None:
    """Fit sparse factors, shared by all views or private to one, by `SCA`.

    Every modality of a MuData is a view. If all matrices are dense, observations that are absent
    from a modality are treated as missing values.

    Parameters
    ----------
    adata : AnnData or MuData
        Annotated data, which are not normalised further.
    n_components : int, "auto" or None, default=None
        Number of shared factors; by default 10, or fewer for small data.
    batch_key : str, default=None
        Column of ``.obs`` with the donor, batch or study of each observation. Means, noise
        variances and factor variances differ between batches; the loadings are common.
    views : str or list, default=None
        Views of an AnnData: a column of ``.var`` with the view of each variable
        (``"feature_types"`` of a 10x file), or column groups as in `SCA`.
    mofa_names : bool, default=False
        Whether to also store scores, loadings and explained variance under the names of
        ``muon.tl.mofa``.

    Returns
    -------
    AnnData, MuData or None
        The copy, if requested. The results are

        - ``.obsm["X_" + key_added]``: factor scores, scaled to the standard deviation that each
          factor explains in views of total variance 1, for distances between observations
        - ``.varm[key_added]``: loadings with exact zeros
        - ``.var[key_added]``: mask of the variables with a non-zero loading
        - ``.uns[key_added]``: fitted model (for `project` and plots), parameters; ``views``;
          ``factor_view``, the view of each factor or "shared"; ``variance`` and
          ``view_variance``; ``variance_explained``, a data frame in percent; ``view_correlation``;
          ``noise_variance``; with batches, ``batches`` and ``batch_variance``

    Examples
    --------
    >>> import numpy as np, anndata, prosparse.anndata as psa
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(100, 1))
    >>> adata = anndata.AnnData(z * [1, 1, 0, 0] + 0.3 * rng.normal(size=(100, 4)))
    >>> psa.tl.sca(adata, n_components=1)
    >>> adata.var["sca"].tolist()
    [True, True, False, False]
    """
    return fit_factors(locals())


pl = SimpleNamespace(
    **{
        function.__name__: function
        for function in (
            plots.communality,
            plots.relevance,
            plots.loadings,
            plots.scores,
            plots.evidence,
            plots.convergence,
            plots.panel,
            plots.views,
        )
    }
)
pp = SimpleNamespace(select_panel=select_panel)
tl = SimpleNamespace(fdrpca=fdrpca, gsppca=gsppca, sca=sca, project=project)
