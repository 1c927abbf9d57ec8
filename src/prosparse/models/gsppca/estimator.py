"""GSPPCA for users: parameters in, fitted attributes out; `model` has the mathematics."""

from __future__ import annotations

import os
from typing import Literal, Self

import numpy as np

from ...data import Columns, Operator, standardise
from ...data.arrays import to_numpy
from ...data.containers import Table
from ...errors import check_bool, check_choice, check_integer, check_non_negative, warn
from ...inference.checkpoint import Checkpoint
from ...numerics.density import FactorCovariance
from ...selection.model_priors import MODEL_PRIORS
from ...selection.noise import NOISE_ESTIMATORS
from ...structure import MIN_DOF
from .._base import GaussianProjection
from .evidence import EVIDENCES, EvidenceKind
from .solve import ModelPrior, NoiseEstimator, Options, Solution, solve


class GSPPCA(GaussianProjection):
    """Globally sparse probabilistic PCA: PCA that chooses its variables.

    A relaxed model ranks the variables, the exact evidence along the ranking says how many to
    keep, and PCA on those columns gives orthonormal components that are zero elsewhere.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Fewer than min(n_samples, n_features). "auto": the number of components of the columns that
        the test of `FDRPCA` selects at a false discovery rate of 0.05, each column divided by its
        noise standard deviation; with fewer than five rows, as many as stand out from white noise.
    n_features_to_select : int or None, default=None
        How many variables to keep, at least ``n_components``. None: the evidence decides.
    scale : bool, default=False
        Divide every column by its standard deviation first, as different units require.
    noise : {"bias-corrected", "ml", "median"}, default="bias-corrected"
        Variance of the inactive variables: maximum likelihood with or without its bias removed,
        or the median column variance, which ``scale=True`` always takes: there it is known.
    evidence : {"noiseless", "noisy"}, default="noiseless"
        Whether the active variables are modelled without noise (closed form) or with the same
        noise as the others (a one-dimensional integral; ten to thirty times slower).
    model_prior : {"uniform", "sparse"}, default="uniform"
        All models alike, or small models preferred: every variable is then active with the
        largest probability for which more active variables than samples are improbable.
    max_iter : int, default=1000
        The most passes over the data.
    tol : float, default=1e-9
        The rise of the bound per entry of the table that ends the passes.
    random_state : None
        Not used: nothing here is random.
    verbose : int, default=0
        1 shows progress bars.

    Attributes
    ----------
    components_ : array (n_components_, n_features_in_)
        Orthonormal rows, exactly zero outside ``support_``.
    support_ : bool array (n_features_in_,)
        The chosen variables.
    n_selected_ : int
        How many variables were chosen.
    relevance_ : array (n_features_in_,)
        Between 0 (out of the relaxed model) and 1 (most relevant).
    ranking_ : int array (n_features_in_,)
        1 for the most relevant variable; see the notes for tables with more variables than
        samples.
    cardinalities_ : int array
        The numbers of variables tried: all of them, or, of tables with more than 2e7 entries,
        some hundred and all around the best.
    log_evidence_path_ : array
        The log evidence (with the model prior's share, if any) of each of ``cardinalities_``.
    log_evidence_ : float
        That of the chosen model, the largest on the path.
    n_components_ : int
        The number of components.
    mean_ : array (n_features_in_,)
        The mean of every column.
    scale_ : array (n_features_in_,)
        What every column was divided by: its standard deviation, or 1 without ``scale``.
    varying_ : bool array (n_features_in_,)
        False for constant columns.
    explained_variance_ : array (n_components_,)
        Variance of the scores.
    explained_variance_ratio_ : array (n_components_,)
        Its share of the total variance of all columns.
    noise_variance_ : float
        Variance of the inactive variables, as it enters the evidence.
    active_noise_variance_ : float
        Variance of the active variables around the principal subspace.
    objective_path_ : array (n_iter_,)
        The variational bound after every pass; never falls.
    n_iter_ : int
        How many passes there were.
    stop_reason_ : StopReason
        Its text says why the passes ended and what can be done.

    Notes
    -----
    The evidence treats the observations as independent given the model, each with its own
    loadings integrated out. It is the papers' criterion for comparing cardinalities and says
    nothing of the joint law of the table. Constant columns are left out of the model and
    reported as not selected. With ``scale=True`` evidence and noise refer to the scaled table.

    The model has one noise variance for all columns. Where each column has its own, as in most
    measured tables, the evidence can take unequal noise for structure and keep nearly all
    columns, also where nothing is shared; `FDRPCA` tests each column by itself.

    With more variables than samples every counted component gets about the same weight, strong
    or weak. Among columns of equal variance (``scale=True``) the relevance is then nearly the
    unweighted leverage of a variable, the sum of its squared loadings on the first
    ``n_components_`` principal components of the table; in raw units it also follows the
    variances of the columns. It says whether a variable lies in the span of the components, not
    how much of its variance it shares: variables on the weakest component tend to come first.
    The ranking puts variables with structure before those without; its top is no short list of
    the most useful ones.

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
        max_iter: int = 1000,
        tol: float = 1e-9,
        random_state: object = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.n_features_to_select = n_features_to_select
        self.scale = scale
        self.noise = noise
        self.evidence = evidence
        self.model_prior = model_prior
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Table,
        y: object = None,
        *,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    ) -> Self:
        """Rank the variables of ``X``, choose how many, and find their principal components.

        Parameters
        ----------
        X : table (n_samples, n_features)
            Of any kind; it is centred, and scaled if asked for.
        y : ignored
        checkpoint : path, Checkpoint or None, default=None
            A file that keeps the state of a long fit, which goes on from it if it was stopped.

        Returns
        -------
        GSPPCA
        """
        with self._fitting():
            op, columns = self._standardise(X, self.scale)
            options = self._options(self._open_checkpoint(checkpoint, X))
            solution = solve(op, options, self._scaled(op, X))
            self._describe(solution, columns, op.shape[0] * op.shape[1])
        for doubt in solution.doubts:
            warn(f"GSPPCA: {doubt.text}", doubt.category)
        return self

    def _scaled(self, op: Operator, X: Table) -> Operator | None:
        """The table with columns of one variance, if components are to be counted."""
        counted = isinstance(self.n_components, str) and self.n_components == "auto"
        if not counted or op.shape[0] <= MIN_DOF:
            return None
        if self.scale:
            return op
        return standardise(self._validate(X, reset=False), True)[0]

    def _options(self, checkpoint: Checkpoint | None) -> Options:
        return Options(
            n_components=self.n_components,
            n_features_to_select=self.n_features_to_select,
            scaled=self.scale,
            noise=self.noise,
            evidence=self.evidence,
            model_prior=self.model_prior,
            max_iter=self.max_iter,
            tol=self.tol,
            verbose=self.verbose,
            checkpoint=checkpoint,
        )

    def _describe(self, found: Solution, columns: Columns, entries: int) -> None:
        """The solution in the table's own columns and units; the operator has ``entries``."""
        self._set_columns(columns, found.order, found.chosen, found.components, found.relevance)
        self.n_components_ = found.n_components
        self.n_selected_ = int(found.chosen.size)
        log_evidence = columns.log_density(found.log_evidence, entries)
        self.cardinalities_ = columns.values(found.cardinalities)
        self.log_evidence_path_ = columns.values(log_evidence)
        self.log_evidence_ = float(log_evidence[found.best])
        self.explained_variance_ = columns.numbers(columns.variance(found.variances))
        self.explained_variance_ratio_ = columns.numbers(found.shares)
        self.noise_variance_ = float(columns.variance(found.noise))
        self.active_noise_variance_ = float(columns.variance(found.active_noise))
        self.objective_path_ = columns.values(columns.log_density(found.bounds, entries))
        self.n_iter_ = int(found.bounds.size)
        self.stop_reason_ = found.reason

    def _factor_covariance(self) -> FactorCovariance:
        """Return probabilistic PCA on the selected columns, independent noise on the others."""
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
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _warn(self) -> None:
        self._warn_unfinished()
