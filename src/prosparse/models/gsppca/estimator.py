"""Estimator of GSPPCA."""

from __future__ import annotations

import os
from typing import Literal, Self

import numpy as np

from ...data import Columns
from ...data.arrays import to_numpy
from ...data.containers import Table
from ...errors import check_bool, check_choice, check_integer, check_non_negative, warn
from ...inference.checkpoint import Checkpoint
from ...numerics.density import FactorCovariance
from ...selection.noise import NOISE_ESTIMATORS
from .._base import GaussianProjection
from .evidence import EVIDENCES, EvidenceKind
from .model_priors import MODEL_PRIORS
from .solve import ModelPrior, NoiseEstimator, Options, Solution, solve


class GSPPCA(GaussianProjection):
    """Globally sparse probabilistic PCA.

    All components share one set of variables. A relaxed model ranks the variables, and the marginal
    likelihood (evidence) of every number of variables along the ranking determines how many are
    selected. The selection is then refined: variables are ranked by the proportion of their
    variance explained by the components of the other variables. Each variable may have its own
    noise variance. PCA on the selected columns gives the components.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of components, less than min(n_samples, n_features). "auto" selects the number with
        the largest evidence. The maximum is the number of components of the columns selected by the
        test of `FDRPCA` at a false discovery rate of 0.05, each divided by its noise standard
        deviation. With ``refine=False``, this maximum is used. With fewer than five rows, the
        number of components that exceed white noise is used.
    n_features_to_select : int or None, default=None
        Number of variables to select, at least ``n_components``. None selects the number with the
        largest evidence.
    scale : bool, default=False
        Whether to divide every column by its standard deviation.
    noise : {"bias-corrected", "ml", "median"}, default="bias-corrected"
        Estimator of the variance of inactive variables: maximum likelihood with or without bias
        correction, or the median column variance. With ``scale=True``, the median is always used,
        because all variances are 1.
    evidence : {"noiseless", "noisy"}, default="noiseless"
        Model of the active variables: without noise (closed form), or with the noise of the other
        variables (a one-dimensional integral, ten to thirty times slower).
    model_prior : {"uniform", "sparse"}, default="uniform"
        Prior on the sets of variables. "sparse" gives every variable the largest inclusion
        probability at which more active variables than samples have probability of at most 0.05.
    refine : bool, default=True
        Whether to refine the selection by the components of the other variables. ``refine=False``
        is the published method, which assumes equal noise variances. With fewer than five rows, the
        selection is not refined.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-9
        Tolerance. Iterations stop if the objective increases by less than ``tol`` per entry of
        ``X``.
    verbose : int, default=0
        Verbosity level. 1 prints the progress.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Orthonormal loadings, exactly zero outside ``support_``.
    support_ : ndarray of bool, shape (n_features_in_,)
        Mask of the selected variables.
    n_selected_ : int
        Number of selected variables.
    relevance_ : ndarray of shape (n_features_in_,)
        Proportion of variance at which the likelihood ratio equals the Bayes factor of the
        variable, relative to the largest; with ``refine=False``, relevance in the relaxed model.
        Between 0 and 1.
    inclusion_probability_ : ndarray of shape (n_features_in_,)
        Posterior probability that a variable is active. With ``refine=False``, the average over
        the models along the ranking.
    ranking_ : ndarray of int, shape (n_features_in_,)
        Ranks of the variables; 1 is the most relevant one.
    cardinalities_ : ndarray of int, shape (n_models,)
        Numbers of variables that were compared: all, except with ``refine=False`` and more than 2e7
        entries, where a coarse-to-fine search evaluates a few hundred numbers.
    log_evidence_path_ : ndarray of shape (n_models,)
        Log evidence of each of ``cardinalities_`` plus the log prior. With ``refine=False``, the
        uniform prior of the models along the ranking is omitted.
    log_evidence_ : float
        Log evidence of the selected model.
    n_components_ : int
        Number of components.
    mean_ : ndarray of shape (n_features_in_,)
        Column means.
    scale_ : ndarray of shape (n_features_in_,)
        Column standard deviations with ``scale=True``, otherwise 1.
    varying_ : ndarray of bool, shape (n_features_in_,)
        Mask of the columns that are not constant.
    explained_variance_ : ndarray of shape (n_components_,)
        Variance of the scores.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        Proportion of the total variance that each component explains.
    noise_variance_ : float
        Variance of the inactive variables.
    active_noise_variance_ : float
        Residual variance of the active variables.
    objective_path_ : ndarray of shape (n_iter_,)
        Variational lower bound after every iteration; non-decreasing.
    n_iter_ : int
        Number of iterations.
    stop_reason_ : StopReason
        Reason why the iterations stopped.

    Notes
    -----
    The refined evidence is a pseudo-likelihood: the product of the densities of each variable given
    the components of the others. This pseudo-likelihood allows rows or columns of unequal noise. If
    the inactive columns have equal variances, the evidence also depends on the variance of each
    column. The density of the fitted model (``score_samples``) has one noise variance for the
    inactive columns.

    With ``refine=False``, the evidence treats the observations as independent given the model, each
    with its loadings integrated out. It is not the joint density of ``X``. The model has one noise
    variance for all columns; if the noise of the columns differs, it can select nearly all columns.

    Constant columns are not selected. With ``scale=True``, evidence and noise refer to the scaled
    columns. If the components explain no variable, ``n_components_`` + 1 variables are selected and
    a `NoStructureWarning` is issued.

    References
    ----------
    Mattei, Bouveyron & Latouche (2016), AISTATS; Bouveyron, Latouche & Mattei (2018), EJS 12(2).

    Examples
    --------
    >>> from prosparse import GSPPCA, datasets
    >>> X, support, _ = datasets.make_globally_sparse(random_state=0)
    >>> model = GSPPCA(n_components=5).fit(X)
    >>> model.n_selected_, bool((model.support_ == support).all())
    (10, True)
    """

    _accepts_any_container = True
    _variable_attributes = (("inclusion_probability", "inclusion_probability_"),)

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        n_features_to_select: int | None = None,
        scale: bool = False,
        noise: NoiseEstimator = "bias-corrected",
        evidence: EvidenceKind = "noiseless",
        model_prior: ModelPrior = "uniform",
        refine: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-9,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.n_features_to_select = n_features_to_select
        self.scale = scale
        self.noise = noise
        self.evidence = evidence
        self.model_prior = model_prior
        self.refine = refine
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def fit(
        self,
        X: Table,
        y: object = None,
        *,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    ) -> Self:
        """Select variables of ``X`` and fit their principal components.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Data matrix.
        y : ignored
            Present for compatibility with scikit-learn.
        checkpoint : path-like or Checkpoint, default=None
            File that stores the state of the fit. An interrupted fit resumes from this file.

        Returns
        -------
        GSPPCA
            The fitted estimator.
        """
        with self._fitting():
            op, columns = self._standardise(X, self.scale)
            file = self._open_checkpoint(checkpoint, X)
            options = Options(**self.get_params(deep=False), checkpoint=file)
            solution = solve(op, options)
            self._describe(solution, columns, *op.shape)
        for diagnostic in solution.diagnostics:
            warn(f"GSPPCA: {diagnostic.text}", diagnostic.category)
        return self

    def _describe(self, found: Solution, columns: Columns, n: int, p: int) -> None:
        """Set the fitted attributes; ``n`` and ``p`` are the shape of the operator."""
        selection, selected = found.selection, found.selection.columns
        self._set_columns(columns, selection.order, selected, found.components, selection.relevance)
        inclusion = np.zeros(columns.mean.shape[0])
        inclusion[columns.varying_index] = selection.inclusion
        self.inclusion_probability_ = columns.numbers(inclusion)
        self.n_components_ = selection.d
        self.n_selected_ = int(selected.size)
        # The refined evidence is the density of centred columns.
        dof = n - 1 if selection.refined else n
        log_evidence = columns.log_density(selection.log_evidence, dof * p)
        self.cardinalities_ = columns.values(selection.cardinalities)
        self.log_evidence_path_ = columns.values(log_evidence)
        self.log_evidence_ = float(log_evidence[selection.best])
        self.explained_variance_ = columns.numbers(columns.variance(found.variances))
        self.explained_variance_ratio_ = columns.numbers(found.explained_proportions)
        self.noise_variance_ = float(columns.variance(selection.noise))
        self.active_noise_variance_ = float(columns.variance(found.active_noise))
        bounds = np.array(selection.run.bounds)
        self.objective_path_ = columns.values(columns.log_density(bounds, n * p))
        self.n_iter_ = int(bounds.size)
        self.stop_reason_ = selection.run.reason

    def _factor_covariance(self) -> FactorCovariance:
        """Return the covariance matrix of the varying columns.

        The selected columns follow probabilistic PCA; the others are independent noise.
        """
        support, varying = to_numpy(self.support_), to_numpy(self.varying_)
        inside, outside = np.flatnonzero(support), np.flatnonzero(varying & ~support)
        noise = self.active_noise_variance_
        variances = np.maximum(to_numpy(self.explained_variance_), noise)
        components = to_numpy(self.components_)[:, inside]
        return FactorCovariance(components, variances, noise, self.noise_variance_, inside, outside)

    def _check_parameters(self) -> None:
        if self.n_features_to_select is not None:
            check_integer("n_features_to_select", self.n_features_to_select, 1, " or None")
        check_bool("scale", self.scale)
        check_choice("noise", self.noise, NOISE_ESTIMATORS)
        check_choice("evidence", self.evidence, EVIDENCES)
        check_choice("model_prior", self.model_prior, MODEL_PRIORS)
        check_bool("refine", self.refine)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _warn(self) -> None:
        self._warn_unfinished()
