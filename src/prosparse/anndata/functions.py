"""The functions of `prosparse.anndata`, as they are called: `pp` and `tl`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from ..data import container_of
from ..data.arrays import spread, to_numpy
from ..data.groups import column_groups
from ..errors import InputError, ParameterError, check_bool, check_integer
from ..findings import findings_of
from ..models.fdrpca import FDRPCA
from ..models.gsppca import GSPPCA
from ..models.gsppca.evidence import EvidenceKind
from ..models.gsppca.solve import ModelPrior, NoiseEstimator
from ..models.panel import Panel
from ..models.panel.greedy import Criterion as PanelCriterion
from ..models.sca import SCA
from .annotated import (
    Annotated,
    column_of,
    columns_named,
    holds_counts,
    is_mudata,
    labels_of_rows,
    of_modality,
    tables_of,
    tables_of_views,
    varying_columns,
)
from .calls import Report, with_suggestions

N_COMPONENTS = 30  # as many as analyses of cells usually keep
N_FACTORS = 10
N_GENES = 150  # as many as probe sets for tissues often have


@with_suggestions
def select_variables(
    adata: Any,
    n_components: Any = None,
    *,
    n_features_to_select: int | None = None,
    scale: bool = False,
    noise: NoiseEstimator = "bias-corrected",
    evidence: EvidenceKind = "noiseless",
    model_prior: ModelPrior = "uniform",
    max_iter: int = 1000,
    tol: float = 1e-9,
    random_state: None = None,
    verbose: int = 0,
    layer: Any = None,
    mask_var: Any = None,
    modality: Any = None,
    key_added: str = "prosparse",
    copy: bool = False,
) -> Any:
    """Choose the variables that carry the common structure, by `GSPPCA`, without labels.

    Takes the place of ``scanpy.pp.highly_variable_genes``; ``scanpy.pp.pca(adata,
    mask_var="prosparse")`` then works on the choice.

    Parameters
    ----------
    adata : AnnData or MuData
        Normalised and logarithmised counts, say; X is taken as it is.
    n_components : int, "auto" or None
        Dimension of the common structure; None: 30, or as many as a smaller table allows.
        "auto" counts the components of the variables that share variance with others; see
        `GSPPCA`.
    n_features_to_select : int or None
        How many variables; None: the evidence decides.
    scale : bool
        Divide every variable by its standard deviation first.
    noise : {"bias-corrected", "ml", "median"}
        How the variance of the noise is estimated; see `GSPPCA`.
    evidence : {"noiseless", "noisy"}
        Whether the chosen variables are modelled without noise or with it; see `GSPPCA`.
    model_prior : {"uniform", "sparse"}
        "sparse" prefers few variables; see `GSPPCA`.
    max_iter : int
        The most passes over the data.
    tol : float
        The rise of the bound per entry of the table that ends the passes.
    random_state : None
        Not used: nothing here is random.
    verbose : int
        1 shows progress.
    layer : str or None
        Take ``adata.layers[layer]`` instead of ``adata.X``.
    mask_var : str, bool array or None
        Consider only these variables: a column of ``adata.var``, or one value for each of them.
        The others are not chosen, have relevance 0, and are ranked last.
    modality : str, list of str or None
        Which modalities of a MuData; None: each of them, one after the other. ``n_components``,
        ``layer`` and ``mask_var`` may then be dictionaries from modality to value.
    key_added : str
        Under which name the results are kept.
    copy : bool
        Return a copy with the results instead of writing them to ``adata``.

    Returns
    -------
    None, or the copy. Written, in every modality of a MuData, are

    ``.var[key_added]`` : bool, chosen or not
    ``.var[key_added + "_relevance"]`` : between 0 and 1
    ``.var[key_added + "_ranking"]`` : 1 for the most relevant variable
    ``.uns[key_added]`` : parameters, evidence of every number of variables, variance, stop reason

    Examples
    --------
    >>> import anndata, prosparse.anndata as psa
    >>> from prosparse.datasets import make_globally_sparse
    >>> data = make_globally_sparse(random_state=0)
    >>> adata = anndata.AnnData(data.X)
    >>> psa.pp.select_variables(adata, n_components=5)
    >>> int(adata.var["prosparse"].sum()), bool((adata.var["prosparse"] == data.support).all())
    (10, True)
    """
    report = Report("select_variables")
    params = {
        "n_features_to_select": n_features_to_select,
        "scale": scale,
        "noise": noise,
        "evidence": evidence,
        "model_prior": model_prior,
        "max_iter": max_iter,
        "tol": tol,
        "random_state": random_state,
        "verbose": verbose,
    }
    target = _writable(adata, key_added, copy)
    tables = tables_of(target, layer, mask_var, modality, n_components=n_components)
    models = [_fitted(table, n_components, params) for table in tables]
    for table, model in zip(tables, models, strict=True):
        _write_selection(table, model, key_added)
        names = [f"'{key_added}{end}' (.var)" for end in ("", "_relevance", "_ranking")]
        report.finish(_how_many(table, model), [*names, f"'{key_added}' (.uns)"])
    return target if copy else None


@with_suggestions
def select_panel(
    adata: Any,
    n_genes: Any = N_GENES,
    *,
    recover: float = 0.9,
    criterion: PanelCriterion = "reconstruction",
    include: Any = (),
    exclude: Any = (),
    batch_key: Any = None,
    counts: Any = None,
    costs: Any = None,
    bundles: Any = None,
    layer: Any = None,
    mask_var: Any = None,
    modality: Any = None,
    key_added: str = "panel",
    copy: bool = False,
    random_state: int | np.random.RandomState | None = 0,
    verbose: int = 0,
) -> Any:
    """Choose a few genes from which all others can be told, by `Panel`, without labels.

    For targeted assays and probe sets: genes that say the same are not chosen twice. What the
    panel recovers of every gene is measured in observations that were held out.

    Parameters
    ----------
    adata : AnnData or MuData
        Counts as they were measured; anything else is scaled to unit variance.
    n_genes : int or None
        How many; None: the fewest that predict all other genes at least 0.9 times as well as all
        genes together do (``recover=0.9``).
    recover : float
        See ``n_genes``; not used where that is a number.
    criterion : {"reconstruction", "information"}
        What a gene is worth: the error in rebuilding all genes that it takes away, or the
        information about the latent scores that it adds; see `Panel`.
    include : names of variables
        Genes that must be in the panel, from ``adata.var_names``: known markers.
    exclude : names of variables
        Genes that must not be in it: those that no probe can be made for. They are predicted like
        all others; to leave genes out of everything, use ``mask_var``.
    batch_key : str or None
        A column of ``adata.obs`` that says which observations belong together: the donor, the
        batch, the run. Differences between them are taken away.
    counts : bool or None
        Whether the table holds counts, of which `Panel` takes square roots of shares. None: if it
        holds whole numbers and none is negative. What was decided is said where scanpy's functions
        say what they did (``scanpy.settings.verbosity = 3``), and to the log
        ``prosparse.anndata``, at level INFO.
    costs : str, array or None
        What each gene costs: a column of ``adata.var``, or one number for each variable.
    bundles : list of lists of names, or None
        Genes that come together or not at all.
    layer : str or None
        Take ``adata.layers[layer]`` instead of ``adata.X``: ``"counts"``, where these are kept.
    mask_var : str, bool array or None
        Consider only these variables, as in `select_variables`. The others are not predicted,
        either, and have NaN for all that was not measured.
    modality : str, list of str or None
        See `select_variables`; ``n_genes``, ``include``, ``exclude``, ``batch_key``, ``counts``,
        ``costs`` and ``bundles``, too, may be dictionaries from modality to value.
    key_added : str
        Under which name the results are kept.
    copy : bool
        Return a copy with the results instead of writing them to ``adata``.
    random_state : int, RandomState or None
        Which observations are held out together.
    verbose : int
        Not used: there is nothing to wait for.

    Returns
    -------
    None, or the copy. Written, in every modality of a MuData, are

    ``.var[key_added]`` : bool, in the panel or not
    ``.var[key_added + "_rank"]`` : 1, 2, ... in the order of their worth; NaN for the others
    ``.var[key_added + "_communality"]`` : the share of its variance that all other genes predict
    ``.var[key_added + "_recovered"]`` : the share that the panel predicts; 1 for its own genes
    ``.var[key_added + "_stand_in"]`` : name of the panel's gene that stands for it, or ""
    ``.obsm["X_" + key_added]`` : latent scores that the panel's genes give, n_obs x components
    ``.uns[key_added]`` : parameters; ``recovered_path`` and ``recovered_path_std``, what panels of
        1, 2, ... genes recover of the variance of all, and how much that differs between the parts
        of the observations that were held out; ``attained_path``, what they tell of the other
        genes as a share of what all genes together do; ``attainable``; with batches,
        ``recovered_by_batch``, a data frame

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
    report = Report("select_panel")
    params = {
        "recover": recover,
        "criterion": criterion,
        "random_state": random_state,
        "verbose": verbose,
    }
    target = _writable(adata, key_added, copy)
    given = {
        "n_genes": n_genes,
        "include": include,
        "exclude": exclude,
        "batch_key": batch_key,
        "counts": counts,
        "costs": costs,
        "bundles": bundles,
    }
    tables = tables_of(target, layer, mask_var, modality, **given)
    fits = []
    for table in tables:
        own = {name: of_modality(value, table.asked["modality"]) for name, value in given.items()}
        fits.append((table, own, _fitted_panel(table, own, params, report)))
    scores = [to_numpy(model.transform(table.X)) for table, _, model in fits]
    for (table, own, model), rows in zip(fits, scores, strict=True):
        _write_panel(table, own, model, key_added)
        table.data.obsm[f"X_{key_added}"] = rows
        recovered = float(to_numpy(model.heldout_r2_path_)[model.n_selected_ - 1])
        ends = ("", "_rank", "_communality", "_recovered", "_stand_in")
        names = [f"'{key_added}{end}' (.var)" for end in ends]
        report.finish(
            f"{model.n_selected_} of {table.places.size} variables recover {recovered:.3f} of the "
            "variance of all in held-out observations",
            [*names, f"'X_{key_added}' (.obsm)", f"'{key_added}' (.uns)"],
        )
    return target if copy else None


@with_suggestions
def gsppca(
    adata: Any,
    n_components: Any = None,
    *,
    n_features_to_select: int | None = None,
    scale: bool = False,
    noise: NoiseEstimator = "bias-corrected",
    evidence: EvidenceKind = "noiseless",
    model_prior: ModelPrior = "uniform",
    max_iter: int = 1000,
    tol: float = 1e-9,
    random_state: None = None,
    verbose: int = 0,
    layer: Any = None,
    mask_var: Any = None,
    modality: Any = None,
    key_added: str = "gsppca",
    copy: bool = False,
) -> Any:
    """Globally sparse PCA: choose the variables and project the observations on them.

    Takes the place of ``scanpy.pp.highly_variable_genes`` and ``scanpy.pp.pca`` together;
    ``scanpy.pp.neighbors(adata, use_rep="X_gsppca")`` goes on from there.

    Parameters
    ----------
    adata : AnnData or MuData
        Normalised and logarithmised counts, say; X is taken as it is.
    n_components : int, "auto" or None
        Dimension of the common structure; None: 30, or as many as a smaller table allows.
    n_features_to_select : int or None
        How many variables; None: the evidence decides.
    scale : bool
        Divide every variable by its standard deviation first.
    noise : {"bias-corrected", "ml", "median"}
        How the variance of the noise is estimated; see `GSPPCA`.
    evidence : {"noiseless", "noisy"}
        Whether the chosen variables are modelled without noise or with it; see `GSPPCA`.
    model_prior : {"uniform", "sparse"}
        "sparse" prefers few variables; see `GSPPCA`.
    max_iter : int
        The most passes over the data.
    tol : float
        The rise of the bound per entry of the table that ends the passes.
    random_state : None
        Not used: nothing here is random.
    verbose : int
        1 shows progress.
    layer : str or None
        Take ``adata.layers[layer]`` instead of ``adata.X``.
    mask_var : str, bool array or None
        Consider only these variables; see `select_variables`.
    modality : str, list of str or None
        Which modalities of a MuData; see `select_variables`.
    key_added : str
        Under which name the results are kept.
    copy : bool
        Return a copy with the results instead of writing them to ``adata``.

    Returns
    -------
    None, or the copy. Written, in every modality of a MuData, is what `select_variables` writes
    and

    ``.obsm["X_" + key_added]`` : scores, n_obs x components
    ``.varm[key_added]`` : loadings, n_vars x components, zero for all variables not chosen

    Examples
    --------
    >>> import anndata, prosparse.anndata as psa
    >>> from prosparse.datasets import make_globally_sparse
    >>> adata = anndata.AnnData(make_globally_sparse(random_state=0).X)
    >>> psa.tl.gsppca(adata, n_components=5)
    >>> adata.obsm["X_gsppca"].shape, adata.varm["gsppca"].shape
    ((50, 5), (30, 5))
    """
    report = Report("gsppca")
    params = {
        "n_features_to_select": n_features_to_select,
        "scale": scale,
        "noise": noise,
        "evidence": evidence,
        "model_prior": model_prior,
        "max_iter": max_iter,
        "tol": tol,
        "random_state": random_state,
        "verbose": verbose,
    }
    target = _writable(adata, key_added, copy)
    tables = tables_of(target, layer, mask_var, modality, n_components=n_components)
    models = [_fitted(table, n_components, params) for table in tables]
    scores = [
        to_numpy(model.transform(table.X)) for table, model in zip(tables, models, strict=True)
    ]
    for table, model, rows in zip(tables, models, scores, strict=True):
        _write_selection(table, model, key_added)
        table.data.obsm[f"X_{key_added}"] = rows
        table.data.varm[key_added] = table.spread(model.components_).T
        names = [f"'{key_added}{end}' (.var)" for end in ("", "_relevance", "_ranking")]
        names += [f"'X_{key_added}' (.obsm)", f"'{key_added}' (.varm)", f"'{key_added}' (.uns)"]
        report.finish(_how_many(table, model), names)
    return target if copy else None


@with_suggestions
def fdrpca(
    adata: Any,
    n_components: Any = "auto",
    *,
    fdr: float = 0.05,
    min_communality: float = 0.0,
    rank_transform: bool = False,
    counts: bool = False,
    batch_key: Any = None,
    layer: Any = None,
    mask_var: Any = None,
    modality: Any = None,
    key_added: str = "fdrpca",
    copy: bool = False,
    random_state: int | np.random.RandomState | None = 0,
    verbose: int = 0,
) -> Any:
    """Test which variables vary with others beyond chance, and project the observations on them.

    By `FDRPCA`: ``fdr=0.05`` is the share of false ones among the chosen. Among thousands of cells
    most genes vary with others a little, and are chosen; ``min_communality=0.2`` asks for more.
    ``scanpy.pp.neighbors(adata, use_rep="X_fdrpca")`` goes on from there.

    Parameters
    ----------
    adata : AnnData or MuData
        Counts, with ``counts=True``, or what was made of them; every variable is scaled to unit
        variance.
    n_components : int or "auto"
        Of the chosen variables; "auto" counts them with every variable measured in its own noise.
        The test does not depend on it.
    fdr : float
        The false discovery rate: the share of false variables among the chosen, on average.
    min_communality : float
        Choose only variables that share at least this much of their variance, between 0 and 1.
    rank_transform : bool
        "rank": the test looks at the ranks of each variable, so that no outlier can decide.
    counts : bool
        Whether X, or the layer, holds counts as they were measured. Observations then may differ in
        depth; after ``normalize_total`` and ``log1p`` shallow ones have noise of another size in
        all variables, which the test takes for structure.
    batch_key : str or None
        A column of ``adata.obs``, or of that of each modality, that says which observations belong
        together: the donor, the batch, the run. Variables are then compared within each, and
        differences between them are taken away.
    layer : str or None
        See `select_variables`.
    mask_var : str, bool array or None
        Consider only these variables, as in `select_variables`. The others are not chosen, are
        ranked last, and have NaN for all that was not measured.
    modality : str, list of str or None
        See `select_variables`; ``batch_key``, too, may be a dictionary from modality to value.
    key_added : str
        Under which name the results are kept.
    copy : bool
        Return a copy with the results instead of writing them to ``adata``.
    random_state : int, RandomState or None
        Of the random orders in which variables that are far from Gaussian are tested.
    verbose : int
        Not used: there is nothing to wait for.

    Returns
    -------
    None, or the copy. Written, in every modality of a MuData, are

    ``.var[key_added]`` : bool, chosen or not; perhaps none, with a warning
    ``.var[key_added + "_communality"]`` : the share of its variance that a variable shares
    ``.var[key_added + "_pvalue"]`` : of the test that it shares nothing
    ``.var[key_added + "_qvalue"]`` : the smallest false discovery rate at which it is chosen
    ``.var[key_added + "_ranking"]`` : 1 for the chosen variable with the largest communality
    ``.obsm["X_" + key_added]`` : scores, n_obs x components
    ``.varm[key_added]`` : loadings, n_vars x components, zero for all variables not chosen
    ``.uns[key_added]`` : parameters, number of components and of chosen variables, variance, and
        ``chance_communality``, what chance alone would give

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
    report = Report("fdrpca")
    target = _writable(adata, key_added, copy)
    tables = tables_of(
        target, layer, mask_var, modality, n_components=n_components, batch_key=batch_key
    )
    models = []
    for table in tables:
        wanted = of_modality(n_components, table.asked["modality"])
        model = FDRPCA(
            "auto" if wanted is None else wanted,
            fdr=fdr,
            min_communality=min_communality,
            rank_transform=rank_transform,
            counts=counts,
            random_state=random_state,
            verbose=verbose,
        )
        labels = labels_of_rows(table, batch_key)
        _check_finite(table, "FDRPCA")
        models.append(model.fit(table.X, groups=labels))
    scores = [
        to_numpy(model.transform(table.X)) for table, model in zip(tables, models, strict=True)
    ]
    for table, model, rows in zip(tables, models, scores, strict=True):
        part = table.data
        part.var[key_added] = table.spread(model.support_)
        part.var[f"{key_added}_communality"] = table.known(model.communality_)
        part.var[f"{key_added}_pvalue"] = table.known(model.pvalues_)
        part.var[f"{key_added}_qvalue"] = table.known(model.qvalues_)
        part.var[f"{key_added}_ranking"] = _ranking(table, model)
        part.obsm[f"X_{key_added}"] = rows
        part.varm[key_added] = table.spread(model.components_).T
        part.uns[key_added] = {
            "params": _parameters(
                model, **table.asked, batch_key=of_modality(batch_key, table.asked["modality"])
            ),
            "n_components": model.n_components_,
            "n_selected": model.n_selected_,
            "chance_communality": model.null_communality_,
            "variance": to_numpy(model.explained_variance_),
            "variance_ratio": to_numpy(model.explained_variance_ratio_),
        }
        ends = ("", "_communality", "_pvalue", "_qvalue", "_ranking")
        names = [f"'{key_added}{end}' (.var)" for end in ends]
        names += [f"'X_{key_added}' (.obsm)", f"'{key_added}' (.varm)", f"'{key_added}' (.uns)"]
        report.finish(_how_many(table, model), names)
    return target if copy else None


@with_suggestions
def sca(
    adata: Any,
    n_components: Any = None,
    *,
    prior: Literal["ard", "hyperbolic"] = "ard",
    shape: float = 0.0,
    rate: float = 0.0,
    n_private: int | Sequence[int] = 0,
    noise: Literal["view", "feature"] = "feature",
    rotation: Literal["sparse", "shared"] = "shared",
    likelihood: Any = "gaussian",
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
) -> Any:
    """Fit sparse factors, shared by all views or private to one, with `SCA`.

    A MuData has one view per modality. Observations missing from a modality count as missing
    values if all matrices are dense.

    Parameters
    ----------
    adata : AnnData or MuData
        Annotated data, used without further normalisation.
    n_components : int, "auto" or None
        Number of shared factors; None for 10, or fewer if the data are smaller.
    prior : {"ard", "hyperbolic"}
        Prior of the loadings; see `SCA`.
    shape : float
        Shape of the hyperbolic prior; see `SCA`.
    rate : float
        Rate of the hyperbolic prior; see `SCA`.
    n_private : int or list of int
        Number of factors private to each view. An integer applies to every view.
    noise : {"view", "feature"}
        One noise variance per view or per variable; see `SCA`.
    rotation : {"sparse", "shared"}
        Rotation of the initial factors; see `SCA`.
    likelihood : {"gaussian", "bernoulli", "poisson"} or list of these
        Distribution of the entries of each view: measurements, 0 and 1, or counts; see `SCA`.
    batch_key : str or None
        Column of ``adata.obs``, or of ``.obs`` of the MuData, with the donor, batch or study of
        each observation. Means, noise variances and factor variances differ between batches; the
        loadings are shared (``groups`` of `SCA`).
    max_iter : int
        Maximum number of iterations.
    tol : float
        Gain of the objective per observed entry at which the iterations stop.
    verbose : int
        Verbosity. A positive value shows a progress bar.
    layer : str or None
        Layer ``adata.layers[layer]`` to use instead of ``adata.X``.
    mask_var : str, bool array or None
        Variables to use; see `select_variables`.
    modality : str, list of str or None
        Modalities of a MuData that are the views; None for all.
    views : str, list or None
        Views of an AnnData: a column of ``adata.var`` with the view of each variable
        (``"feature_types"`` of a 10x file), or column groups as in `SCA`. None for one view.
    mofa_names : bool
        Whether to store scores, loadings and explained variance under the names of
        ``muon.tl.mofa`` as well.
    key_added : str
        Name under which the results are stored.
    copy : bool
        Whether to return a copy with the results instead of writing them to ``adata``.

    Returns
    -------
    None, or the copy. Written to the AnnData, or to the MuData itself, are

    ``.obsm["X_" + key_added]`` : factor scores, n_obs x n_factors
    ``.varm[key_added]`` : loadings with exact zeros, n_vars x n_factors
    ``.var[key_added]`` : bool, whether a variable has a non-zero loading
    ``.uns[key_added]`` : parameters, ``views``, ``factor_view`` (view of each factor, or "shared"),
        ``variance`` and ``view_variance`` (variance explained by each factor, in total and in each
        view), ``variance_explained`` (a data frame in percent of the variance of each view, one row
        per factor), ``view_correlation`` (correlation of the factor scores between views),
        ``noise_variance`` of each view, stop reason;
        with batches, ``batches`` and ``batch_variance`` (variance explained by each factor in each
        batch and view, n_batches x n_views x n_factors)

    and with ``mofa_names``

    ``.obsm["X_mofa"]`` : factor scores
    ``.varm["LFs"]`` : loadings
    ``.uns["mofa"]`` : parameters, and ``variance``, a dictionary from view to the variance
        explained by each factor, in percent

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
    report = Report("sca")
    target = _writable(adata, key_added, copy)
    check_bool("mofa_names", mofa_names)
    if mofa_names and key_added == "mofa":
        raise ParameterError(
            '`key_added` must be another name than "mofa", where `mofa_names` writes, too'
        )
    tables = tables_of(target, layer, mask_var, modality)
    if is_mudata(target):
        if views is not None:
            raise ParameterError(
                "`views` must be None for a MuData, whose modalities are the views; choose among "
                "them with `modality`"
            )
        X, places = tables_of_views(target, tables)
        names, groups = [table.asked["modality"] for table in tables], None
    else:
        X, places = tables[0].X, tables[0].places
        names, groups = _groups(target, views, places)
    of_all = Annotated(target, X, places, {"modality": None})  # whose `.obs` has all observations
    labels = labels_of_rows(of_all, batch_key)
    model = SCA(
        _default(n_components, N_FACTORS, tables),
        prior=prior,
        shape=shape,
        rate=rate,
        n_private=n_private,
        noise=noise,
        rotation=rotation,
        likelihood=likelihood,
        views=groups,
        max_iter=max_iter,
        tol=tol,
        verbose=verbose,
    ).fit(X, groups=labels)
    scores = to_numpy(model.transform(X, groups=labels))
    names = names or [f"view {number}" for number in range(len(model.view_columns_))]

    width = target.n_vars
    target.obsm[f"X_{key_added}"] = scores
    target.varm[key_added] = spread(to_numpy(model.components_), places, width).T
    target.var[key_added] = spread(to_numpy(model.support_), places, width)
    target.uns[key_added] = {
        "params": _parameters(model, layer, mask_var, modality, views=views, batch_key=batch_key),
        "views": np.array(names, dtype=object),
        "factor_view": np.array(
            ["shared" if v < 0 else names[v] for v in to_numpy(model.factor_view_)], dtype=object
        ),
        "variance": to_numpy(model.explained_variance_),
        "view_variance": to_numpy(model.explained_variance_per_view_),
        "view_correlation": to_numpy(model.view_correlation_),
        "variance_explained": _percent_of_views(model, names),
        "noise_variance": to_numpy(model.noise_variance_),
        **_course(model),
    }
    if labels is not None:
        target.uns[key_added]["batches"] = model.groups_.astype(object)
        target.uns[key_added]["batch_variance"] = to_numpy(model.explained_variance_per_group_)
    written = [
        f"'X_{key_added}' (.obsm)",
        f"'{key_added}' (.varm)",
        f"'{key_added}' (.var)",
        f"'{key_added}' (.uns)",
    ]
    if mofa_names:
        kept = target.uns[key_added]
        target.obsm["X_mofa"] = scores
        target.varm["LFs"] = target.varm[key_added]
        explained = kept["variance_explained"]
        target.uns["mofa"] = {
            "params": {"model": {"n_factors": scores.shape[1]}, "prosparse": kept["params"]},
            "variance": {str(name): explained[str(name)].to_numpy() for name in names},
        }
        written += ["'X_mofa' (.obsm)", "'LFs' (.varm)", "'mofa' (.uns)"]
    report.finish(
        f"{scores.shape[1]} factors load on {model.n_selected_:,} of {places.size:,} variables",
        written,
    )
    return target if copy else None


pp = SimpleNamespace(select_variables=select_variables, select_panel=select_panel)
tl = SimpleNamespace(fdrpca=fdrpca, gsppca=gsppca, sca=sca)


def _percent_of_views(model: SCA, names: Sequence[Any]) -> Any:
    """Return the variance of each view explained by each factor, in percent, as a data frame."""
    from pandas import DataFrame  # which anndata needs, too

    found = findings_of(model).views
    assert found is not None
    factors = [str(k + 1) for k in range(found.explained.shape[1])]
    return DataFrame(
        100.0 * found.explained.T, index=factors, columns=[str(name) for name in names]
    )


def _how_many(table: Annotated, model: FDRPCA | GSPPCA) -> str:
    return (
        f"{model.n_selected_:,} of {table.places.size:,} variables chosen, "
        f"{model.n_components_} components"
    )


def _writable(data: Any, key_added: Any, copy: Any) -> Any:
    """What the results will be written to: the data, or a copy of them."""
    try:
        from anndata import AnnData
    except ImportError as error:
        raise ImportError(
            "prosparse.anndata needs anndata, which is not installed: "
            "pip install 'prosparse[anndata]'"
        ) from error
    if not isinstance(data, AnnData) and not is_mudata(data):
        raise InputError(
            f"`adata` must be an AnnData or a MuData, got {type(data).__name__}; for arrays and "
            "data frames there are the estimators, prosparse.FDRPCA and others"
        )
    if not isinstance(key_added, str) or not key_added or "/" in key_added:
        raise ParameterError(
            f"`key_added` must be a name, not empty and without '/', got {key_added!r}"
        )
    check_bool("copy", copy)
    if data.isbacked and data.is_view:
        raise InputError(
            "`adata` is a view of data that are kept in a file, to which nothing can be written: "
            "call `to_memory()` on it first"
        )
    if not copy:
        return data
    if data.isbacked:
        raise ParameterError(
            "`copy=True` is not possible for data that are kept in a file: use `copy=False`, "
            "which leaves the file as it is, or call `to_memory()` first"
        )
    return data.copy()


def _fitted(table: Annotated, n_components: Any, params: dict[str, Any]) -> GSPPCA:
    """The model of a table."""
    wanted = of_modality(n_components, table.asked["modality"])
    most = params.get("n_features_to_select")
    usual = min(N_COMPONENTS, int(most)) if isinstance(most, Integral) else N_COMPONENTS
    model = GSPPCA(_default(wanted, usual, [table]), **params)
    _check_finite(table, "GSPPCA")
    return model.fit(table.X)


def _fitted_panel(
    table: Annotated, given: dict[str, Any], params: dict[str, Any], report: Report
) -> Panel:
    """The panel of a table; ``given`` are this table's own wishes, by variable names."""
    labels = labels_of_rows(table, given["batch_key"])
    include, exclude = (columns_named(table, name, given[name]) for name in ("include", "exclude"))
    bundles = None
    if given["bundles"] is not None:
        if not isinstance(given["bundles"], Iterable) or isinstance(given["bundles"], str):
            raise ParameterError(f"`bundles` must be a list of lists, got {given['bundles']!r}")
        bundles = [columns_named(table, "bundles", names) for names in given["bundles"]]
    _check_finite(table, "Panel")
    counts = _counts(table, given["counts"], report)
    _check_number_of_genes(table, given["n_genes"], include, exclude)
    model = Panel(
        given["n_genes"],
        include=include,
        exclude=exclude,
        costs=_costs(table, given["costs"]),
        bundles=bundles,
        counts=counts,
        **params,
    )
    return model.fit(table.X, groups=labels)


def _check_number_of_genes(
    table: Annotated, n_genes: Any, include: np.ndarray, exclude: np.ndarray
) -> None:
    """Refuse what cannot be had, with the names that the variables have here."""
    varying = varying_columns(table.X)
    for place in include.tolist():
        name = table.data.var_names[table.places[place]]
        if not varying[place]:
            raise ParameterError(
                f"`include` names {name!r}, which is the same in all observations and tells nothing "
                "of others: leave it out of `include`"
            )
        if place in exclude:
            raise ParameterError(
                f"{name!r} is in `include` and in `exclude`: leave it out of one of them"
            )
    if n_genes is None:
        return
    check_integer("n_genes", n_genes, 1, " or None")
    varying[exclude] = False
    if n_genes > varying.sum():
        raise ParameterError(
            f"`n_genes` must be at most {varying.sum()}, the variables that vary and are not "
            f"excluded, got {n_genes}"
        )
    if include.size > n_genes:
        raise ParameterError(f"`include` has {include.size} names, more than `n_genes`, {n_genes}")


def _counts(table: Annotated, given: Any, report: Report) -> bool:
    """Whether a table holds counts, as the user or the table itself says."""
    if given is not None:
        check_bool("counts", given)
        return bool(given)
    found = holds_counts(table.X)
    layer = table.asked["layer"]
    name = "X" if layer is None else f"the layer {layer!r}"
    if found:
        report.say(f"{name} holds whole numbers, none negative: taken as counts")
    else:
        report.say(f"{name} does not hold counts: every variable is scaled to unit variance")
    return found


def _costs(table: Annotated, given: Any) -> np.ndarray | None:
    """What the columns of X cost."""
    if given is None:
        return None
    if isinstance(given, str):
        given = column_of(table.data, "costs", given).to_numpy()
    costs = np.asarray(given)
    if costs.shape != (table.data.n_vars,):
        raise ParameterError(
            f"`costs` must have one number for each of the {table.data.n_vars} variables, got "
            f"shape {costs.shape}"
        )
    return costs[table.places]


def _write_panel(table: Annotated, given: dict[str, Any], model: Panel, key: str) -> None:
    from pandas import DataFrame

    part, order = table.data, to_numpy(model.order_)
    rank = np.full(table.places.size, np.nan)
    rank[order] = np.arange(1, order.size + 1)
    stand_in = np.full(part.n_vars, "", dtype=object)
    found = to_numpy(model.proxy_)
    names = part.var_names[table.places].astype(str).to_numpy(dtype=object)
    stand_in[table.places] = np.where(found >= 0, names[found], "")
    part.var[key] = table.spread(model.support_)
    part.var[f"{key}_rank"] = table.known(rank)
    part.var[f"{key}_communality"] = table.known(model.communality_)
    part.var[f"{key}_recovered"] = table.known(model.heldout_r2_)
    part.var[f"{key}_stand_in"] = stand_in
    params = _parameters(
        model,
        **table.asked,
        n_genes=given["n_genes"],
        batch_key=given["batch_key"],
        include=_names(given["include"]),
        exclude=_names(given["exclude"]),
        costs=given["costs"],
        bundles=None if given["bundles"] is None else [_names(one) for one in given["bundles"]],
    )
    params.pop("n_features_to_select", None)  # under the name `n_genes`
    part.uns[key] = {
        "params": params,
        "n_components": model.n_components_,
        "n_selected": model.n_selected_,
        "recovered_path": to_numpy(model.heldout_r2_path_),
        "recovered_path_std": to_numpy(model.heldout_r2_path_std_),
        "attained_path": to_numpy(model.relative_r2_path_),
        "attainable": model.attainable_r2_,
        "variance": to_numpy(model.explained_variance_),
        "variance_ratio": to_numpy(model.explained_variance_ratio_),
    }
    if model.heldout_r2_by_group_:
        # not a dictionary: in a file, a label with a slash would be a folder
        part.uns[key]["recovered_by_batch"] = DataFrame(
            {"recovered": list(model.heldout_r2_by_group_.values())},
            index=list(model.heldout_r2_by_group_),
        )


def _names(given: Any) -> list[str] | None:
    """Names as a list; None where there are none."""
    if given is None or isinstance(given, str):
        return None if given is None else [given]
    return [str(name) for name in given] or None


def _check_finite(table: Annotated, method: str) -> None:
    """Refuse missing values with the names they have in the data."""
    kind = container_of(table.X)
    found = kind.find_non_finite(table.X) if kind.in_memory and kind.on_cpu else None
    if found is not None:
        names = table.data.var_names[table.places].astype(str).tolist()
        where = found.describe(names, table.data.obs_names[found.row])
        raise InputError(
            f"the table contains {where}. {method} needs finite values: leave these observations "
            "or variables out, or fill missing values with the means of the variables."
        )


def _default(n_components: Any, usual: int, tables: list[Annotated]) -> Any:
    """The number of components; if none was given the usual one, lowered for small tables."""
    if n_components is not None:
        return n_components
    varying = sum(int(varying_columns(table.X).sum()) for table in tables)
    return max(1, min(usual, tables[0].X.shape[0] - 1, varying - 1))


def _groups(adata: Any, views: Any, places: np.ndarray) -> tuple[list[str], Any]:
    """Names of the views, where they have any, and their columns among those at ``places``."""
    if views is None:
        return [], None
    if not isinstance(views, str):
        among = np.full(adata.n_vars, -1)
        among[places] = np.arange(places.size)
        groups = [among[group] for group in column_groups(views, adata.n_vars, adata.var_names)]
        return [], [group[group >= 0] for group in groups]
    column = column_of(adata, "views", views)
    lacking = column.isna().to_numpy()[places]
    if lacking.any():
        raise ParameterError(
            f"`views` ({views!r}) must name a view for every variable; {int(lacking.sum())} have "
            "none"
        )
    labels = column.astype(str).to_numpy()[places]
    names = list(dict.fromkeys(labels.tolist()))
    return names, [np.flatnonzero(labels == name) for name in names]


def _ranking(table: Annotated, model: Any) -> np.ndarray:
    """The rank of all variables; those that were not considered come last."""
    ranking = table.spread(model.ranking_)
    rest = np.flatnonzero(ranking == 0)
    ranking[rest] = np.arange(ranking.size - rest.size, ranking.size) + 1
    return ranking


def _write_selection(table: Annotated, model: GSPPCA, key: str) -> None:
    part = table.data
    part.var[key] = table.spread(model.support_)
    part.var[f"{key}_relevance"] = table.spread(model.relevance_)
    part.var[f"{key}_ranking"] = _ranking(table, model)
    part.uns[key] = {
        "params": _parameters(model, **table.asked),
        "n_components": model.n_components_,
        "n_selected": model.n_selected_,
        "variance": to_numpy(model.explained_variance_),
        "variance_ratio": to_numpy(model.explained_variance_ratio_),
        "noise_variance": model.noise_variance_,
        "cardinalities": to_numpy(model.cardinalities_),
        "log_evidence_path": to_numpy(model.log_evidence_path_),
        "log_evidence": model.log_evidence_,
        **_course(model),
    }


def _course(model: Any) -> dict[str, Any]:
    return {
        "bounds": to_numpy(model.objective_path_),
        "n_iter": model.n_iter_,
        "stop_reason": str(model.stop_reason_),
    }


def _parameters(
    model: Any, layer: Any, mask_var: Any, modality: Any, **others: Any
) -> dict[str, Any]:
    """Parameters as H5AD can keep them; those that are None are left out."""
    given = {**model.get_params(), "layer": layer, "mask_var": mask_var, "modality": modality}
    given.update(others)
    return {name: _plain(value) for name, value in given.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, bool | int | float | str | np.generic):
        return value
    try:
        array = np.asarray(value)
    except ValueError:  # groups of unequal size
        return repr(value)
    if array.dtype.kind in "biuf":
        return array
    return array.astype(object) if array.dtype.kind == "U" else repr(value)
