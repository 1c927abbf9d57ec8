"""Sparse probabilistic PCA with an l1 penalty on the loadings.

[BJ15]  C. Bouveyron, J. Jacques. Un algorithme EM pour une version parcimonieuse de l'analyse en
        composantes principales probabiliste. EGC 2015.

Model: y = W x + noise, x ~ N(0, I_d), noise variance sigma2. Maximise, over W (p, d) and sigma2,

    sum_i log N(y_i; 0, W W' + sigma2 I) - lambda |W|_1 .

EM: with M = W'W + sigma2 I, e_i = M^-1 W' y_i, the M-step in row j of W is a lasso in d
dimensions whose Gram matrix s = n sigma2 M^-1 + sum_i e_i e_i' is the same for all rows:

    w_jl = soft( (Y'e)_jl - sum_{k != l} s_lk w_jk , sigma2 lambda ) / s_ll ,

exact coordinate descent, exact zeros, all rows at once. (The paper's quadratic approximation (8)
never reaches zero, and its (9) has a factor 1/2 too many.) The likelihood does not change when W
is rotated, the penalty does: between penalties the axes are turned to where |W|_1 is smallest.
W = 0 is stationary for every lambda > 0, so that no path can start there: paths start from the
maximum likelihood of probabilistic PCA and go up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ...data import Columns, Operator
from ...data.arrays import as_like, host, in_kind
from ...errors import (
    NoStructureWarning,
    check_choice,
    check_integer,
    check_non_negative,
    checked_numbers,
    warn,
)
from ...inference.acceleration import over_loadings
from ...inference.loop import Run, StopReason, iterate, residual_rounding
from ...inference.progress import Progress
from ...numerics.density import NoisyPlane, log_density
from ...numerics.spectrum import Spectrum, added_squares, eye_like, products, spectrum
from ...selection.criteria import aic, bic
from ...selection.dimension import resolve_dimension
from ...selection.slope import Slope, choice_shape, robust_slope
from .._base import HasDensity, SparseProjection
from .l1 import lasso_rows, sparsest_rotation

Array = Any

NOISE_FLOOR = 1e-12  # share of the mean square of X, as the least noise variance
SWEEPS = 2  # of coordinate descent per M-step: more cost more than they save passes
GAP = 1e-5  # how well the optimality conditions must hold, relative to the penalty
GRID = 100  # penalties on the default path


class State(NamedTuple):
    W: Array  # (d, p), the transpose of the paper's
    sigma2: float
    bound: float  # lower bound of the penalised log-likelihood; equal to it at convergence


def maximum_likelihood(parts: Spectrum, d: int) -> State:
    """Probabilistic PCA in closed form (Tipping & Bishop 1999), its axes turned to sparseness."""
    xp, n, p = parts.table.xp, parts.n, parts.table.shape[1]
    values = parts.eigenvalues / n
    sigma2 = max(float(xp.sum(values[d:])) / (p - d), NOISE_FLOOR * float(xp.sum(values)) / p)
    W = (parts.directions(d) * xp.sqrt(xp.clip(values[:d] - sigma2, 0.0, None))).T
    return State(sparsest_rotation(W, xp), sigma2, -math.inf)


def log_likelihood(op: Operator, n: int, state: State) -> float:
    """sum_i log N(y_i; 0, W'W + sigma2 I), by Woodbury's identity; ``op`` as in `make_step`."""
    W, sigma2 = state.W, state.sigma2
    xp, (d, p) = op.xp, W.shape
    M = W @ W.T + sigma2 * eye_like(W @ W.T, xp)
    explained = products(op, W.T)[1]
    total = float(xp.sum(op.column_squares()))
    distance = (total - float(xp.linalg.trace(xp.linalg.solve(M, explained)))) / sigma2
    log_det = (p - d) * math.log(sigma2) + float(xp.linalg.slogdet(M)[1])
    return -0.5 * (n * p * math.log(2.0 * math.pi) + n * log_det + distance)


def make_step(
    op: Operator, n: int, penalty: float, allowed: Array | None = None, sweeps: int = SWEEPS
) -> Callable[[State], State]:
    """One EM pass. ``op`` may be any table with the same X'X as the n rows observed.

    Entries of W outside ``allowed`` (d, p) stay zero.
    """
    xp, p = op.xp, op.shape[1]
    total = float(xp.sum(op.column_squares()))

    def step(state: State) -> State:
        W, sigma2 = state.W, state.sigma2
        d = W.shape[0]
        # E-step, [BJ15] (7): B = sum_i e_i y_i', s = sum_i S_i
        M = W @ W.T + sigma2 * eye_like(W @ W.T, xp)
        M_inverse = xp.linalg.inv(M)
        M_inverse = 0.5 * (M_inverse + M_inverse.T)
        B, s = products(op, W.T @ M_inverse)
        B, s = B.T, s + n * sigma2 * M_inverse
        # M-step, (6) maximised exactly instead of by (8) and (9); then (10)
        W = lasso_rows(W, B, s, sigma2 * penalty, xp, sweeps=sweeps, allowed=allowed)
        residual = total - 2.0 * float(xp.sum(B * W)) + float(xp.sum((s @ W) * W))
        new_sigma2 = max(residual, NOISE_FLOOR * total) / (n * p)
        # E log p(Y, X) plus the entropy of q(X), minus the penalty
        fit = -0.5 * n * p * math.log(2.0 * math.pi * new_sigma2) - 0.5 * residual / new_sigma2
        log_det = d * math.log(sigma2) - float(xp.linalg.slogdet(M)[1])
        divergence = 0.5 * (float(xp.linalg.trace(s)) - n * d - n * log_det)
        return State(W, new_sigma2, fit - divergence - penalty * float(xp.sum(xp.abs(W))))

    return step


def subgradient_gap(op: Operator, n: int, state: State, penalty: float) -> float:
    """How far W is from optimal, relative to the penalty: the largest violation of
    dl/dw = penalty sign(w) where w != 0 and |dl/dw| <= penalty where w = 0."""
    xp, W, sigma2 = op.xp, state.W, state.sigma2
    M_inverse = xp.linalg.inv(W @ W.T + sigma2 * eye_like(W @ W.T, xp))
    B, s = products(op, W.T @ M_inverse)
    gradient = (B.T - (s + n * sigma2 * M_inverse) @ W) / sigma2  # Fisher's identity
    gap = xp.where(W != 0, xp.abs(gradient - penalty * xp.sign(W)), xp.abs(gradient) - penalty)
    return max(0.0, float(xp.max(gap))) / max(penalty, 1e-300)


def rounding_of(op: Operator) -> Callable[[State], float]:
    """How far rounding can move the bound of a state."""
    total = float(op.xp.sum(op.column_squares()))
    return lambda state: residual_rounding(state, total, state.sigma2)


class Fit(NamedTuple):
    state: State
    runs: list[Run]


def fit_one(parts: Spectrum, start: State, penalty: float, max_iter: int, tol: float) -> Fit:
    """Maximise from ``start``, with finer tolerances until the optimality conditions hold."""
    op, n = parts.table, parts.n
    xp, size = op.xp, n * op.shape[1]
    state = start._replace(W=sparsest_rotation(start.W, xp), bound=-math.inf)
    runs: list[Run] = []
    left = max_iter
    while left > 0:
        run = iterate(
            make_step(op, n, penalty),
            state,
            max_iter=left,
            tol=tol * size * 0.01 ** len(runs),
            accelerator=over_loadings("W", xp),
            rounding=rounding_of(op),
        )
        runs.append(run)
        left -= len(run.bounds)
        state = run.state
        if penalty == 0.0 or len(runs) == 4 or subgradient_gap(op, n, state, penalty) < GAP:
            break
    return Fit(state, runs)


def refitted(parts: Spectrum, state: State, max_iter: int, tol: float) -> State:
    """Maximum likelihood with the nonzeros of ``state``: what the criteria are about. Along a path
    of shrunken fits the likelihood has no straight part."""
    op, n = parts.table, parts.n
    return iterate(
        make_step(op, n, 0.0, state.W != 0),
        state._replace(bound=-math.inf),
        max_iter=max_iter,
        tol=tol * n * op.shape[1],
        accelerator=over_loadings("W", op.xp),
        rounding=rounding_of(op),
    ).state


def vanishing_penalty(parts: Spectrum, start: State, max_iter: int, tol: float) -> float:
    """The smallest penalty at which the path that goes up from ``start`` ends in W = 0 (to 1 %)."""
    xp = parts.table.xp
    low, state = 0.0, start
    high = 1e-3 * parts.n * float(xp.max(xp.abs(start.W))) / start.sigma2 or 1.0
    while True:
        state_high = fit_one(parts, state, high, max_iter, tol).state
        if not bool(xp.any(state_high.W != 0)):
            break
        low, high, state = high, 2.0 * high, state_high
    while high - low > 0.01 * high:
        middle = 0.5 * (low + high)
        state_middle = fit_one(parts, state, middle, max_iter, tol).state
        if bool(xp.any(state_middle.W != 0)):
            low, state = middle, state_middle
        else:
            high = middle
    return high


def path(
    parts: Spectrum, d: int, penalties: np.ndarray, max_iter: int, tol: float, verbose: int = 0
) -> list[Fit]:
    """Fits at rising penalties, each from the one before."""
    state, fits = maximum_likelihood(parts, d), []
    with Progress(penalties.size, "SPPCA, penalties", verbose) as progress:
        for penalty in penalties:
            fits.append(fit_one(parts, state, float(penalty), max_iter, tol))
            state = fits[-1].state
            progress.advance(state.bound)
    return fits


def best_likelihoods(parts: Spectrum, fits: list[Fit], max_iter: int, tol: float) -> np.ndarray:
    """The log-likelihood that the nonzeros of every fit can reach."""
    xp, values = parts.table.xp, np.empty(len(fits))
    for k, fit in enumerate(fits):
        if k and bool(xp.all((fit.state.W != 0) == (fits[k - 1].state.W != 0))):
            values[k] = values[k - 1]
        else:
            best = refitted(parts, fit.state, max_iter, tol)
            values[k] = log_likelihood(parts.table, parts.n, best)
    return values


class Trace(NamedTuple):
    """What the criteria see of a path, in the table's units."""

    penalties: np.ndarray
    log_likelihood: np.ndarray
    dimension: np.ndarray


class SPPCA(HasDensity, SparseProjection):
    """Sparse probabilistic PCA: few loadings per component, the penalty chosen by the data.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Smaller than min(n_samples, n_features); "auto": as many as stand out from white noise.
    penalty : {"slope", "aic", "bic"} or float, default="slope"
        How the l1 penalty is chosen along the path (slope heuristic, Akaike, Schwarz), or its
        value, in units of the log-likelihood per unit of loading.
    penalties : array or None, default=None
        The grid. None: 100 values from 0 to the smallest penalty that leaves no loading.
    max_iter, tol : int, default=2000; float, default=1e-10
        Most passes per penalty; rise per entry that ends them, refined until optimal to 1e-5.
    random_state, verbose : None; int, default=0
        Nothing here is random; ``verbose=1`` shows a progress bar over the penalties.

    Attributes
    ----------
    components_ : array (n_components_, n_features_in_)
        The loadings W', with exact zeros; components in falling order of their norm.
    penalties_, log_likelihood_path_, n_parameters_path_, criterion_path_ : arrays
        Along the path: the largest log-likelihood with these nonzeros (their weights not
        shrunken), and the number of parameters, that of nonzero loadings plus one.
    penalty_ : float
        The penalty chosen.
    slope_ : Slope or None
        What the slope heuristic found, when it was used.
    support_, relevance_, ranking_, n_selected_
        Variables with any loading; the norm of their loadings relative to the largest.
    explained_variance_, explained_variance_ratio_ : arrays (n_components_,)
        Variance that each adds to the span of those before it.
    noise_variance_, mean_, n_iter_, stop_reason_, n_components_
    bounds_ : the bound of the penalised log-likelihood per pass at the chosen penalty

    Notes
    -----
    ``transform`` returns the posterior means of the latent variables. The columns should have
    comparable units: the noise variance is common. The slope heuristic allows for the choice of
    loadings by the data (`selection.slope.choice_shape`); AIC and BIC do not, and keep more.

    Examples
    --------
    >>> from prosparse import SPPCA, datasets
    >>> X = datasets.make_globally_sparse(200, 20, n_components=2, random_state=0).X
    >>> model = SPPCA(n_components=2, penalty=200.0).fit(X)
    >>> model.n_selected_
    10
    """

    _takes_any_table = True

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        penalty: str | float = "slope",
        penalties: Any = None,
        max_iter: int = 2000,
        tol: float = 1e-10,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.penalty = penalty
        self.penalties = penalties
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> SPPCA:
        """Fit the path and keep the penalty that the criterion prefers."""
        return self._fit_whole(lambda: self._fit(X))

    def _fit(self, X: Any) -> None:
        op, columns = self._standardised(X, False)
        parts = spectrum(op)
        d = resolve_dimension(self.n_components, parts)
        unit = columns.unit  # penalties act on loadings in units of the table
        grid = self._grid(parts, d, unit)
        fits = path(parts, d, grid, self.max_iter, self.tol, self.verbose)
        likelihoods = best_likelihoods(parts, fits, self.max_iter, self.tol)
        log_unit = op.shape[0] * op.shape[1] * math.log(unit)
        nonzeros = [int(op.xp.sum(op.xp.astype(f.state.W != 0, op.xp.int64))) for f in fits]
        trace = Trace(grid / unit, likelihoods - log_unit, np.array(nonzeros) + 1)
        criterion, self.slope_ = self._criterion(trace, op.shape[0], d * op.shape[1])
        best = int(np.argmax(criterion))
        self.penalty_ = float(trace.penalties[best])
        self._describe(op, columns, fits[best])
        bounds = np.concatenate([run.bounds for run in fits[best].runs]) - log_unit
        like = columns.mean
        self.penalties_, self.log_likelihood_path_, self.n_parameters_path_ = (
            in_kind(values, like) for values in trace
        )
        self.criterion_path_, self.bounds_ = in_kind(criterion, like), in_kind(bounds, like)
        self.n_iter_ = bounds.size
        self.stop_reason_ = fits[best].runs[-1].reason

    def _grid(self, parts: Spectrum, d: int, unit: float) -> np.ndarray:
        """The penalties to fit, rising, on the operator's scale."""
        if self.penalties is not None:
            asked = [] if isinstance(self.penalty, str) else [self.penalty]
            return unit * np.union1d(checked_numbers("penalties", self.penalties), asked)
        if not isinstance(self.penalty, str):  # up to the one asked for, in a few strides
            return unit * float(self.penalty) * np.array([0.1, 0.3, 1.0])
        start = maximum_likelihood(parts, d)
        largest = vanishing_penalty(parts, start, self.max_iter, self.tol)
        return largest * np.linspace(0.0, 1.0, GRID) ** 2  # dense where the models are large

    def _criterion(self, trace: Trace, n: int, n_loadings: int) -> tuple[np.ndarray, Slope | None]:
        """What the chosen penalty maximises, along the path."""
        if self.penalty == "slope":
            shape = choice_shape(trace.dimension - 1, n_loadings)
            slope = robust_slope(shape, trace.log_likelihood)
            return slope.criterion, slope
        if self.penalty == "aic":
            return aic(trace.log_likelihood, trace.dimension), None
        if self.penalty == "bic":
            return bic(trace.log_likelihood, trace.dimension, n), None
        return -np.abs(trace.penalties - float(self.penalty)), None

    def _describe(self, op: Operator, columns: Columns, fit: Fit) -> None:
        """Fitted attributes, components in falling order of norm, largest loading positive."""
        W = host(fit.state.W)
        W = W[np.argsort(-np.sum(W**2, axis=1), kind="stable")]
        strongest = W[np.arange(W.shape[0]), np.argmax(np.abs(W), axis=1)]
        W = W * np.where(strongest < 0, -1.0, 1.0)[:, None]
        norms = np.linalg.norm(W, axis=0)
        order = np.argsort(-norms, kind="stable")
        chosen = np.flatnonzero(norms)
        relevance = norms / norms.max() if chosen.size else norms
        unit, like = columns.unit, columns.mean
        self._set_columns(columns, order, chosen, in_kind(unit * W[:, chosen], like), relevance)
        along = added_squares(op, W)
        self.n_components_ = W.shape[0]
        self.n_selected_ = int(chosen.size)
        self.noise_variance_ = unit**2 * fit.state.sigma2
        variances, total = unit**2 * along / (op.shape[0] - 1), host(op.column_squares()).sum()
        self.explained_variance_ = in_kind(variances, like, like.dtype)
        self.explained_variance_ratio_ = in_kind(along / total, like, like.dtype)

    def _filters(self) -> np.ndarray:
        """Posterior means of the latent variables: M^-1 W', [BJ15] (7)."""
        W = host(self.components_).astype(float)
        return np.linalg.solve(W @ W.T + self.noise_variance_ * np.eye(W.shape[0]), W)

    def score_samples(self, X: Any) -> Any:
        """Log density of every row; columns that were constant in ``fit`` are left out."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        op, sigma2 = self._operator_of(X), self.noise_variance_
        inside = np.flatnonzero(host(self.varying_))
        _, lengths, axes = np.linalg.svd(host(self.components_)[:, inside].astype(float), False)
        plane = as_like(axes, X, op.dtype)
        law = NoisyPlane(plane, lengths**2 + sigma2, sigma2, 1.0)
        return log_density(op, law, inside, np.empty(0, dtype=int))

    def _check_parameters(self) -> None:
        if isinstance(self.penalty, str):
            check_choice("penalty", self.penalty, ("slope", "aic", "bic"))
        else:
            check_non_negative("penalty", self.penalty)
        if self.penalties is not None:
            checked_numbers("penalties", self.penalties)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _warn(self) -> None:
        if self.stop_reason_ is StopReason.MAX_ITER:
            warn(f"SPPCA {self.stop_reason_}", ConvergenceWarning)
        if self.n_selected_ == 0:
            message = f"at penalty {self.penalty_:.4g} no loading is left; take a smaller one"
            warn(f"SPPCA: {message}", NoStructureWarning)
