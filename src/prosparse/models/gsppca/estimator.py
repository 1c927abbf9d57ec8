"""Globally sparse probabilistic PCA: components that share one set of variables.

[MBL16]  P.-A. Mattei, C. Bouveyron, P. Latouche. Globally sparse probabilistic PCA.
         AISTATS 2016.
[BLM18]  C. Bouveyron, P. Latouche, P.-A. Mattei. Bayesian variable selection for globally
         sparse probabilistic PCA. Electronic Journal of Statistics 12(2), 2018.

Model: x = V W y + noise, V = diag(v), v in {0,1}^p, y ~ N(0, I_d), w_kj ~ N(0, 1/alpha^2).
Relaxing v to u in [0,1]^p leaves only t_k = u_k^2 / alpha^2, the prior variance of row k of
W, in the likelihood: the relaxed model is probabilistic PCA with one relevance variance per
variable. It ranks the variables; the exact evidence of the binary models along that ranking
(`selection.evidence`) says how many to keep; PCA on those columns gives the components.

Symbols: X (n, p) centred; sigma2 noise variance, c = 1/sigma2; row k of W has posterior mean
m_k (rows of M, (p, d)) and covariance S_k; row i of Y has mean mu_i and covariance Sigma;
A = E[Y'Y] = Q diag(a) Q'; G = Q' E[Y]' X (d, p). In the basis Q every S_k is diagonal, and with

    D_jk = 1 / (1 + c a_j t_k)        T_jk = c^2 g_jk^2 t_k D_jk

everything about variable k is a sum over j of D, T, T D or log D. Arrays are (d, p), so that
numbers of neighbouring variables are neighbours in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ...data import Operator, take_columns
from ...data.arrays import as_like, host, in_kind
from ...errors import (
    NoStructureWarning,
    ParameterError,
    check_bool,
    check_choice,
    check_integer,
    check_non_negative,
    warn,
)
from ...inference.acceleration import over_loadings
from ...inference.checkpoint import Checkpoint
from ...inference.loop import Run, StopReason, iterate, residual_rounding
from ...inference.progress import Progress
from ...numerics.density import NoisyPlane, log_density
from ...numerics.spectrum import Spectrum, latents, principal_components, spectrum
from ...selection.dimension import counted, resolve_dimension
from ...selection.noise import NOISE_ESTIMATORS, noise_variance
from ...selection.prior import MODEL_PRIORS, log_prior
from .._base import HasDensity, SparseProjection
from .doubts import NOTHING_LEFT, doubts
from .evidence import EVIDENCES, Models
from .expansion import expand
from .relevance import Update, update_variances

Array = Any

# The noise variance may not fall below this share of the mean square of X: when d components
# fit X exactly the bound has no maximum, and the residual of double-precision products is noise.
NOISE_FLOOR = 1e-14
RECOUNTS = 5  # of the components, at most, when their number is "auto"
FIRST_COUNT = 50  # eigenvalues to look at first, of a table too large for all of them


class State(NamedTuple):
    M: Array  # (p, d) posterior means of the rows of W
    S_sum: np.ndarray  # (d, d) sum of their covariances S_k
    sigma2: float  # noise variance
    t: Array  # (p,) prior variance of each row, exactly 0 for variables out of the model
    slope: Array  # (p,) h_k'(0): would variable k raise the bound if it came (back) in?
    bound: float  # lower bound of log p(X | t, sigma2)


def init(parts: Spectrum, d: int) -> State:
    """Start from probabilistic PCA's maximum likelihood loadings; t = column variance / d."""
    n, p = parts.n, parts.table.shape[1]
    squares = parts.table.column_squares()
    values = host(parts.eigenvalues) / n
    sigma2 = max(float(np.sum(values[d:])) / (p - d), 1e-3 * float(np.sum(values)) / p)
    signal = np.maximum(values[:d] - sigma2, 1e-3 * sigma2)
    M = parts.directions(d) * in_kind(np.sqrt(signal), squares)
    return State(M, np.zeros((d, d)), sigma2, squares / (n * d), 0.0 * squares, -math.inf)


def noise_floor(parts: Spectrum) -> float:
    """The least noise variance allowed."""
    return NOISE_FLOOR * float(parts.table.xp.mean(parts.table.column_squares())) / parts.n


def make_step(op: Operator, n: int) -> Callable[[State], State]:
    """One variational pass over ``op``: two products with X, then O(p d + d^3).

    ``op`` may be any table with the same X'X as the n rows observed. Arrays of length p stay where
    the table is, in double precision; d x d matrices take the host microseconds.
    """
    xp, p, total = op.xp, op.shape[1], float(op.xp.sum(op.column_squares()))

    def step(state: State) -> State:
        M, c, d = state.M, 1.0 / state.sigma2, state.M.shape[1]
        # q(Y), [MBL16] Prop. 1 with 1/sigma^2 for the misprinted 1/sigma: mu = X M c Sigma
        root = np.linalg.inv(np.linalg.cholesky(c * (host(M.T @ M) + state.S_sum) + np.eye(d)))
        Sigma = root.T @ root
        rows = latents(op, M @ in_kind(root.T, M))  # M alone can be far from orthogonal
        YY = c * c * root.T @ rows.squares() @ root
        a, Q = np.linalg.eigh(n * Sigma + YY)
        turn = in_kind(c * np.column_stack([c * root @ Q, a]), M)
        cG, e = rows.onto_columns(turn[:, :d]), turn[:, d]
        # t, with the rows of W integrated out; then q(W): S_jk = t_k D_jk, m_jk = c g_jk S_jk
        update, sums = update_variances(state.t, e, cG * cG, xp, partial(_sums, cG=cG, xp=xp))
        sum_T, sum_TD, sum_log_D, q, VV, by_row = sums
        in_model, S_diagonal, D_rows = by_row.T
        lost = p * d - float(np.sum(D_rows))
        # sigma2, [MBL16] (13) with the missing factor -2 and square
        residual = total - state.sigma2 * (sum_T + sum_TD - lost)
        sigma2 = max(residual, NOISE_FLOOR * total) / (n * p)
        fit = -0.5 * n * p * math.log(2.0 * math.pi * sigma2) - 0.5 * residual / sigma2
        log_det = 2.0 * float(np.sum(np.log(np.diagonal(root))))
        divergence_Y = 0.5 * (float(np.trace(n * Sigma + YY)) - n * (d + log_det))
        divergence_W = 0.5 * (sum_TD - lost - sum_log_D)
        bound = fit - divergence_Y - divergence_W
        # the next start, with the scale and shape of Y and W balanced
        R, stretch = expand(a, VV + np.diag(in_model), n, q)
        QR = Q @ R.T
        S_sum = (QR * S_diagonal) @ QR.T
        cG *= update.D
        cG *= update.t
        means = cG.T @ in_kind(QR.T, M)
        return State(means, S_sum, sigma2, update.t * stretch, update.slope, bound)

    return step


def _sums(update: Update, cG: Array, xp: Any) -> tuple[Array, ...]:
    """What the host needs to know of q(W): sums of T, T D and log D, the number of variables in
    the model, V V' of V = m_k / sqrt(t_k), and D times (in the model, t, 1)."""
    t, D, T, log_D, _ = update
    inside, V = xp.astype(t > 0, t.dtype), cG * D
    V *= xp.sqrt(t)
    by_row = D @ xp.stack([inside, t, xp.ones_like(t)], axis=1)
    return xp.sum(T), xp.sum(T * D), xp.sum(log_D), xp.sum(inside), V @ V.T, by_row


def ranking(state: State) -> np.ndarray:
    """Variables from most to least relevant: by t, ties (zeros) by the slope h_k'(0)."""
    return np.lexsort((-host(state.slope), -host(state.t)))


def relevance(state: State) -> np.ndarray:
    """u in [0, 1]: u_k^2 is proportional to t_k, and the most relevant variable has 1."""
    t = host(state.t)
    return np.sqrt(t / t.max()) if t.max() > 0 else np.zeros_like(t)


class GSPPCA(HasDensity, SparseProjection):
    """Globally sparse probabilistic PCA: PCA that chooses its variables.

    A relaxed model ranks the variables, the exact evidence along the ranking says how many to
    keep, and PCA on those columns gives orthonormal components that are zero elsewhere.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Fewer than min(n_samples, n_features). "auto": as many as stand out from white noise,
        counted on all columns and then again on those chosen.
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
    max_iter, tol : int, default=1000; float, default=1e-9
        The most passes over the data; the rise of the bound per entry that ends them.
    random_state, verbose : None; int, default=0; nothing is random, 1 shows progress bars

    Attributes
    ----------
    components_ : array (n_components_, n_features_in_)
        Orthonormal rows, exactly zero outside ``support_``.
    support_ : bool array (n_features_in_,)
        The chosen variables.
    n_selected_ : int
    relevance_ : array (n_features_in_,)
        Between 0 (out of the relaxed model) and 1 (most relevant).
    ranking_ : int array (n_features_in_,)
        1 for the most relevant variable.
    cardinalities_, log_evidence_path_ : arrays
        The evidence (with the model prior's share, if any) at every cardinality tried: all of
        them, or, of tables with more than 1e8 entries, some hundred and all around the best.
    log_evidence_ : float
    n_components_ : int
    mean_, scale_, varying_ : arrays (n_features_in_,)
        ``varying_`` is False for constant columns.
    explained_variance_, explained_variance_ratio_ : arrays (n_components_,)
        Variance of the scores, and its share of the total variance of all columns.
    noise_variance_ : float
        Variance of the inactive variables, as it enters the evidence.
    active_noise_variance_ : float
        Variance of the active variables around the principal subspace.
    bounds_ : array (n_iter_,)
        The variational bound after every pass; never falls.
    n_iter_, stop_reason_ : int, StopReason
        The latter's text says why the iterations ended and what can be done.

    Notes
    -----
    The evidence treats the observations as independent given the model, each with its own
    loadings integrated out. It is the papers' criterion for comparing cardinalities and says
    nothing of the joint law of the table. Constant columns are left out of the model and
    reported as not selected. With ``scale=True`` evidence and noise refer to the scaled table.

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

    _takes_any_table = True

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        n_features_to_select: int | None = None,
        scale: bool = False,
        noise: str = "bias-corrected",
        evidence: str = "noiseless",
        model_prior: str = "uniform",
        max_iter: int = 1000,
        tol: float = 1e-9,
        random_state: Any = None,
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

    def fit(self, X: Any, y: Any = None, *, checkpoint: Any = None) -> GSPPCA:
        """Rank the variables of ``X``, choose how many, and find their principal components;
        ``checkpoint`` (a path or a `Checkpoint`) keeps the state of a long fit in a file."""
        return self._fit_whole(lambda: self._fit(X, checkpoint))

    def _fit(self, X: Any, checkpoint: Any) -> None:
        op, columns = self._standardised(X, self.scale)
        file = self._opened(checkpoint, X)
        squares = op.column_squares()
        parts, d = self._spectrum(op)
        for _ in range(RECOUNTS):
            run = self._rank(parts, d, file)
            order = ranking(run.state)
            noise = self._noise(parts, host(squares), d, run.state.sigma2)
            q, log_evidence = self._weigh(op, order, d, noise)
            best = int(np.argmax(log_evidence))
            chosen = np.sort(order[: q[best]])
            # On the chosen columns alone weak components stand out that noise hid before.
            again = self._recount(op, chosen, noise, d)
            if again <= d:
                break
            d = again
            parts = spectrum(op, d)
        components, along = principal_components(op.take_columns(chosen), d)
        free = (parts.n - 1) * (chosen.size - d)
        off = (host(squares)[chosen].sum() - along.sum()) / free if free else noise
        # In the table's own columns and units; see `Columns`.
        unit, like = columns.unit, columns.mean
        log_unit = op.shape[1] * parts.n * math.log(unit)
        self._set_columns(columns, order, chosen, components, relevance(run.state))
        self.n_components_, self.n_selected_ = d, int(chosen.size)
        self.cardinalities_ = in_kind(q, like)
        self.log_evidence_path_ = in_kind(log_evidence - log_unit, like)
        self.log_evidence_ = float(log_evidence[best] - log_unit)
        self.explained_variance_ = in_kind(unit**2 * along / (parts.n - 1), like, like.dtype)
        self.explained_variance_ratio_ = in_kind(along / host(squares).sum(), like, like.dtype)
        self.noise_variance_ = float(unit**2 * noise)
        self.active_noise_variance_ = float(unit**2 * max(off, noise_floor(parts)))
        self.bounds_ = in_kind(np.array(run.bounds) - log_unit, like)
        self.n_iter_, self.stop_reason_ = len(run.bounds), run.reason
        edge, noiseless = q.size > 1 and best == 0, self.evidence == "noiseless"
        self._doubts = doubts(op, parts, chosen, d, noise, self._white(parts), edge, noiseless)

    def _spectrum(self, op: Operator) -> tuple[Spectrum, int]:
        """As much of the spectrum as the number of components needs, and that number."""
        fixed = isinstance(self.n_components, Integral)
        count = max(1, int(self.n_components)) if fixed else FIRST_COUNT
        while True:
            d = self._dimension(parts := spectrum(op, count))
            if fixed or d < count or parts.right is None:
                return parts, d
            count *= 2

    def _recount(self, op: Operator, chosen: np.ndarray, noise: float, d: int) -> int:
        if not isinstance(self.n_components, str) or chosen.size < 3:
            return d
        values = host(spectrum(op.take_columns(chosen), max(2 * d, FIRST_COUNT)).eigenvalues)
        return counted(values, op.shape[0], chosen.size, noise)

    def _rank(self, parts: Spectrum, d: int, file: Checkpoint | None) -> Run:
        """Fit the relaxed model."""
        xp, n, p = parts.table.xp, parts.n, parts.table.shape[1]
        total = float(xp.sum(parts.table.column_squares()))
        return iterate(
            make_step(parts.table, n),
            init(parts, d),
            max_iter=self.max_iter,
            tol=self.tol * n * p,
            accelerator=over_loadings("M", xp),
            exhausted=lambda state: not bool(xp.any(state.t > 0)),
            rounding=lambda state: residual_rounding(state, total, state.sigma2),
            progress=Progress(self.max_iter, "GSPPCA", self.verbose),
            checkpoint=file.stage(f"{d} components") if file else None,
        )

    def _noise(self, parts: Spectrum, squares: np.ndarray, d: int, relaxed: float) -> float:
        """Variance of the inactive variables."""
        # Scaled columns all have one variance: the residual of active ones would mislead.
        kind = "median" if self.scale else self.noise
        noise = noise_variance(kind, host(parts.eigenvalues), squares, parts.n, d)
        floor = noise_floor(parts)
        # d components may fit exactly: take what noise the relaxed model leaves.
        return noise if noise > floor else max(relaxed, floor)

    def _weigh(self, op: Operator, order: Array, d: int, noise: float) -> tuple[Array, Array]:
        """Cardinalities and their log evidence, with the model prior's share."""
        wanted = self.n_features_to_select
        q = np.arange(d + 1, op.shape[1] + 1) if wanted is None else np.array([wanted])
        with Progress(None, "GSPPCA, evidence", self.verbose) as bar:
            models = Models(op, order, d, noise, self.evidence, bar.advance)
            return models.search(q, lambda some: log_prior(self.model_prior, some, *op.shape))

    def score_samples(self, X: Any) -> Any:
        """Log density of every row: probabilistic PCA of the chosen columns, Gaussian noise around
        the means of the others; columns that were constant in ``fit`` are left out."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        support, varying = host(self.support_), host(self.varying_)
        inside, outside = np.flatnonzero(support), np.flatnonzero(varying & ~support)
        op, around = self._operator_of(X), self.active_noise_variance_
        components = as_like(take_columns(self.components_, inside), X, op.dtype)
        along = np.maximum(host(self.explained_variance_), around)
        law = NoisyPlane(components, along, around, self.noise_variance_)
        log_scale = float(np.sum(np.log(host(self.scale_)[varying])))
        return log_density(op, law, inside, outside) - log_scale

    def _check_parameters(self) -> None:
        if self.n_features_to_select is not None:
            check_integer("n_features_to_select", self.n_features_to_select, 1, " or None")
        check_bool("scale", self.scale)
        check_choice("noise", self.noise, NOISE_ESTIMATORS)
        check_choice("evidence", self.evidence, EVIDENCES)
        check_choice("model_prior", self.model_prior, MODEL_PRIORS)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _white(self, parts: Spectrum) -> float | None:
        """The variance of a scaled column."""
        return parts.n / (parts.n - 1) if self.scale else None

    def _dimension(self, parts: Spectrum) -> int:
        """The number of components, checked against the table and the wanted cardinality."""
        p, wanted = parts.table.shape[1], self.n_features_to_select
        d = resolve_dimension(self.n_components, parts, wanted, self._white(parts))
        if wanted is not None and not d <= wanted <= p:
            raise ParameterError(
                f"`n_features_to_select` must be between `n_components` = {d} and the number of "
                f"columns that vary, {p}, got {wanted}"
            )
        return d

    def _warn(self) -> None:
        if self.stop_reason_ is StopReason.MAX_ITER:
            warn(f"GSPPCA {self.stop_reason_}", ConvergenceWarning)
        if self.stop_reason_ is StopReason.NOTHING_LEFT:
            self._doubts = [(NoStructureWarning, f"{self.stop_reason_}. {NOTHING_LEFT}")]
        for category, text in self.__dict__.pop("_doubts"):
            warn(f"GSPPCA: {text}", category)
