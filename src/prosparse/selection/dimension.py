"""How many components?

Six rules, each from the eigenvalues of X'X (falling; zeros may be left out) of a centred n x p
table. `count_signals` is the default of ``n_components="auto"``; the others are here to be
compared with it and for tables that break its assumption. All suppose noise of equal variance in
all variables, and all count too many where the noise is correlated.

[KN08]   S. Kritchman, B. Nadler. Determining the number of components in a factor model from
         limited noisy data. Chemometrics and Intelligent Laboratory Systems 94, 2008.
[NTS15]  S. Nakajima, R. Tomioka, M. Sugiyama, S. D. Babacan. Condition for perfect dimensionality
         recovery by variational Bayesian PCA. JMLR 16, 2015.
[M00]    T. Minka. Automatic choice of dimensionality for PCA. NeurIPS 2000.
[TB99]   M. Tipping, C. Bishop. Probabilistic principal component analysis. JRSS B 61, 1999.
[GD14]   M. Gavish, D. Donoho. The optimal hard threshold for singular values is 4/sqrt(3). IEEE
         Transactions on Information Theory 60, 2014.
[BE92]   A. Buja, N. Eyuboglu. Remarks on parallel analysis. Multivariate Behavioral Research
         27, 1992.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln

from ..data import DenseOperator
from ..data.arrays import to_numpy
from ..errors import ManyComponentsWarning, ParameterError, check_integer, warn
from ..numerics.spectrum import spectrum
from .noise import bias_corrected

# The largest eigenvalue of pure noise exceeds its Tracy-Widom (real case) centre by this many
# scales with probability 0.1 %.
_TRACY_WIDOM_999 = 3.2724
# Eigenvalues of a Gram matrix below this share of the largest are rounding.
RANK_TOL = 1e-13
# More components than this are taken for another kind of noise.
MAX_COUNTED = 100
_MOST_FILLINGS = 20  # of holes, before counting; each costs one eigendecomposition


def count_signals(eigenvalues: np.ndarray, n: int, p: int, noise: float | None = None) -> int:
    """The number of eigenvalues of X'X that stand out from white noise, [KN08].

    Component after component, the next eigenvalue is compared with what the largest eigenvalue
    of noise of the remaining dimension would be. The noise variance, if not given, is estimated
    from the eigenvalues below (with its bias removed, so the rule holds for n < p as for n > p).
    Stops at the first that does not stand out. Columns on different scales make it count too
    many, and signals that hardly stand out of n < p noise are missed.

    Parameters
    ----------
    eigenvalues : array
        Of X'X with X centred, in falling order; those beyond the rank may be left out.
    n : int
        Rows of X.
    p : int
        Columns of X.
    noise : float or None
        The variance of the noise, if it is known.

    Returns
    -------
    int
    """
    m = n - 1  # degrees of freedom after centring
    if eigenvalues.size == 0 or not eigenvalues[0] > 0:
        return 0
    # In units of the largest, so that no square of a variance overflows or vanishes.
    values = eigenvalues / eigenvalues[0] / m
    noise = None if noise is None else noise / float(eigenvalues[0])
    rounding = max(n, p) * np.finfo(float).eps * values[0]
    most = min(min(m, p) - 1, int(np.sum(values > rounding)))
    for k in range(most):
        sigma2 = bias_corrected(values, m, p, k) if noise is None else noise
        roots = np.sqrt(m - 0.5), np.sqrt(max(p - k - 0.5, 0.5))
        centre = sum(roots) ** 2
        scale = sum(roots) * (1.0 / roots[0] + 1.0 / roots[1]) ** (1.0 / 3.0)
        if values[k] * m <= sigma2 * (centre + _TRACY_WIDOM_999 * scale):
            return k
    return most


def completed(X: np.ndarray, seen: np.ndarray, count: int | None = None) -> np.ndarray:
    """The table with its holes (zeros at first, the observed means) filled by what its leading
    components say of them.

    Zeros in place of signal are noise, of which `count_signals` counts far too much: 41 for 20
    signals in 2,000 x 300 with 5 % missing. So: the components that stand out (or ``count``), the
    holes from these, shrunk as probabilistic PCA does [TB99], and again until they stay.
    """
    if seen.all():
        return X
    n, p = X.shape
    least = 1e-2 * math.sqrt(float(np.mean(X[seen] ** 2)))
    for _ in range(_MOST_FILLINGS):
        mean = X.mean(axis=0)
        Z = X - mean
        found = spectrum(DenseOperator(Z), count)
        values = found.eigenvalues
        k = count_signals(values, n, p) if count is None else min(count, n - 1, p - 1)
        noise = float(values[k:].sum()) / (p - k)
        V = found.directions(k)
        shrunk = np.clip(1.0 - noise / np.where(values[:k] > 0, values[:k], np.inf), 0.0, None)
        filled = np.where(seen, X, mean + ((Z @ V) * shrunk) @ V.T)
        change = float(np.sqrt(np.mean((filled - X)[~seen] ** 2)))
        X = filled
        if change <= least:
            break
    return X


def variational_count(eigenvalues: np.ndarray, n: int, p: int) -> int:
    """The components that variational PCA with one relevance (ARD) each does not switch off.

    Its bound has a closed-form maximum, [NTS15]: a component stays if its eigenvalue exceeds a
    multiple of the noise variance, and the noise variance maximises the bound in one dimension.
    With few samples it keeps only what is well above the noise, and so counts too few.

    Parameters
    ----------
    eigenvalues : array
        Of X'X with X centred, in falling order; those beyond the rank may be left out.
    n : int
        Rows of X.
    p : int
        Columns of X.

    Returns
    -------
    int
    """
    short, long = sorted((n - 1, p))
    alpha = short / long
    known = _cleaned(eigenvalues)[:short]
    if known.size < 2:
        return known.size
    squares = known / long  # those beyond the rank are zero, and add nothing
    least = _variational_threshold(alpha)

    def free_energy(log_noise: np.ndarray) -> np.ndarray:  # [NTS15] (23), up to constants
        x = squares / np.exp(log_noise)[..., None]
        kept = x > least
        half = 0.5 * (np.where(kept, x, least) - 1.0 - alpha)
        tau = half + np.sqrt(half**2 - alpha)
        gain = np.log1p(tau) + alpha * np.log1p(tau / alpha) - tau
        energy: np.ndarray = np.sum(x + np.where(kept, gain, 0.0), axis=-1) + short * log_noise
        return energy

    tails = np.cumsum(squares[::-1])[::-1] / np.arange(short, short - squares.size, -1)
    tails = np.log(tails[tails > np.finfo(float).eps * tails[0]])
    grid = np.linspace(tails[-1], tails[0], 200)
    best = int(np.argmin(free_energy(grid)))
    around = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    noise = minimize_scalar(free_energy, bounds=around, method="bounded").x
    return int(np.sum(squares > least * math.exp(noise)))


def _variational_threshold(alpha: float) -> float:
    """(1 + t)(1 + alpha / t) at the root of phi(t) + phi(t / alpha), [NTS15] Theorem 1."""

    def phi(z: float) -> float:
        return math.log1p(z) / z - 0.5

    root = brentq(lambda t: phi(t) + phi(t / alpha), 1e-3 * math.sqrt(alpha), 100.0)
    return float((1.0 + root) * (1.0 + alpha / root))


def minka_count(eigenvalues: np.ndarray, n: int, p: int) -> int:
    """The largest Laplace approximation of PPCA's evidence, [M00] (30).

    Holds for n < p too: eigenvalues beyond the rank are zero in the sample and equal to the noise
    in the model. The approximation is one of many samples: with few it counts too few; and it
    breaks down between eigenvalues that are exactly equal.

    Parameters
    ----------
    eigenvalues : array
        Of X'X with X centred, in falling order; those beyond the rank may be left out.
    n : int
        Rows of X.
    p : int
        Columns of X.

    Returns
    -------
    int
    """
    values = _cleaned(eigenvalues) / n
    rank = values.size
    if rank < min(n - 1, p) or rank < 2:
        return rank  # an exact fit
    beyond = p - rank  # zeros among the p eigenvalues
    best, chosen = -math.inf, 1
    log_uniform = inner = across = 0.0
    for k in range(1, min(rank, p)):
        new, rest = values[k - 1], values[k:]
        noise = float(np.sum(rest)) / (p - k)
        log_uniform += gammaln(0.5 * (p - k + 1)) - 0.5 * (p - k + 1) * math.log(math.pi)
        log_uniform -= math.log(2.0)
        # pairs inside the first k, and pairs across the border, as k grows by one
        above = values[: k - 1]
        gaps = _log(above - new, new)
        inner += float(np.sum(_log(1.0 / new - 1.0 / above, 1.0 / new) + gaps))
        across += float(np.sum(_log(new - rest, new))) + beyond * math.log(new)
        across -= float(np.sum(gaps))
        first = values[:k]
        log_det = (
            inner + across + (p - k) * float(np.sum(_log(1.0 / noise - 1.0 / first, 1.0 / noise)))
        )
        m = p * k - k * (k + 1) // 2
        log_det += m * math.log(n)
        evidence = log_uniform - 0.5 * n * float(np.sum(np.log(first)))
        evidence -= 0.5 * n * (p - k) * math.log(noise) - 0.5 * (m + k) * math.log(2 * math.pi)
        evidence -= 0.5 * log_det + 0.5 * k * math.log(n)
        if evidence > best:
            best, chosen = evidence, k
    return chosen


def bic_count(eigenvalues: np.ndarray, n: int, p: int) -> int:
    """The largest BIC of PPCA, [TB99], with p k - k (k - 1) / 2 + 1 parameters of covariance.

    Made for many samples: with p in the order of n the price per component is too high or, near
    the rank, where the noise seems to vanish, too low.

    Parameters
    ----------
    eigenvalues : array
        Of X'X with X centred, in falling order; those beyond the rank may be left out.
    n : int
        Rows of X.
    p : int
        Columns of X.

    Returns
    -------
    int
    """
    values = _cleaned(eigenvalues) / n
    if values.size < min(n - 1, p) or values.size < 2:
        return values.size  # an exact fit
    k = np.arange(1, values.size)
    noise = (np.sum(values) - np.cumsum(values)[: k.size]) / (p - k)
    log_likelihood = -0.5 * n * (np.cumsum(np.log(values))[: k.size] + (p - k) * np.log(noise))
    parameters = p * k - k * (k - 1) / 2 + 1
    return int(k[np.argmax(log_likelihood - 0.5 * parameters * math.log(n))])


def hard_threshold_count(eigenvalues: np.ndarray, n: int, p: int) -> int:
    """Singular values above the optimal hard threshold, a multiple of their median, [GD14].

    What it minimises is the error of the rebuilt table, so that weak but real components are
    left out; and with signals in half of all directions the median is no longer noise.

    Parameters
    ----------
    eigenvalues : array
        Of X'X with X centred, in falling order; those beyond the rank may be left out.
    n : int
        Rows of X.
    p : int
        Columns of X.

    Returns
    -------
    int
    """
    short, long = sorted((n - 1, p))
    known = _cleaned(eigenvalues)[:short]
    if 2 * known.size <= short:
        return known.size  # half of the table is exact: nothing is noise
    values = np.pad(known, (0, short - known.size))
    beta = short / long
    root = math.sqrt(beta**2 + 14.0 * beta + 1.0)
    best = 2.0 * (beta + 1.0) + 8.0 * beta / (beta + 1.0 + root)
    return int(np.sum(values > best / _marchenko_pastur_median(beta) * np.median(values)))


def _marchenko_pastur_median(beta: float) -> float:
    """Median of the eigenvalues of noise of unit variance, long / short = 1 / beta."""
    low, high = (1.0 - math.sqrt(beta)) ** 2, (1.0 + math.sqrt(beta)) ** 2
    # x = centre - radius cos(angle) makes the density smooth at both ends.
    angle = np.linspace(0.0, math.pi, 20_001)
    x = 0.5 * (low + high) - 0.5 * (high - low) * np.cos(angle)
    density = np.sin(angle) ** 2 / np.maximum(x, 1e-300)  # times what its sum divides out
    mass = np.cumsum(density)
    return float(np.interp(0.5 * mass[-1], mass, x))


def parallel_count(
    eigenvalues: np.ndarray, n: int, column_squares: np.ndarray, random_state: Any = None
) -> int:
    """Eigenvalues above those of independent columns with the same variances, [BE92].

    Compared in order with the 95 % quantile of 40 simulated tables; stops at the first that is
    not larger. Different variances are no difficulty here; but where structure is what makes
    the variances differ, it is compared with noise that has its variance, and missed.

    Parameters
    ----------
    eigenvalues : array
        Of X'X with X centred, in falling order.
    n : int
        Rows of X.
    column_squares : array
        The sums of squares of the columns of X.
    random_state : int, Generator or None
        Of the simulated tables.

    Returns
    -------
    int
    """
    rng = np.random.default_rng(random_state)
    scale = np.sqrt(column_squares / (n - 1))
    p, draws = scale.size, []
    for _ in range(40):
        Z = rng.standard_normal((n, p)) * scale
        Z -= Z.mean(axis=0)
        draws.append(np.linalg.eigvalsh(Z @ Z.T if n <= p else Z.T @ Z)[::-1])
    null = np.quantile(draws, 0.95, axis=0)
    values = np.pad(eigenvalues, (0, max(0, null.size - eigenvalues.size)))[: null.size]
    return int(np.argmin(np.append(values > null, False)))


def _cleaned(eigenvalues: np.ndarray) -> np.ndarray:
    """The eigenvalues that are not rounding, in units of the largest: no rule sees the unit."""
    if eigenvalues.size == 0 or not eigenvalues[0] > 0:
        return np.empty(0)
    values = eigenvalues / eigenvalues[0]
    return values[values > RANK_TOL]


def _log(x: np.ndarray, size: float) -> np.ndarray:
    """Logarithms of differences of numbers of that ``size``; equal ones differ by rounding."""
    return np.log(np.maximum(x, np.finfo(float).eps * size))


def counted(values: np.ndarray, n: int, p: int, noise: float | None = None) -> int:
    """What "auto" means: `count_signals`, at least 1, at most `MAX_COUNTED`.

    Counts of molecules or words, copies, and columns in different units have no white noise, and
    nearly every component stands out from what there is.
    """
    found = count_signals(values, n, p, noise)
    if found > MAX_COUNTED:
        warn(
            f'`n_components="auto"` finds more than {MAX_COUNTED} components that stand out from '
            "white noise, and takes the first of them. Either there are so many, or the noise is "
            "not white (counts? columns in different units?). Say how many you want.",
            ManyComponentsWarning,
        )
    return max(1, min(found, MAX_COUNTED))


def resolve_dimension(
    n_components: int | str, parts: Any, most: int | None = None, noise: float | None = None
) -> int:
    """The number of components asked for, checked, or counted if it is "auto".

    ``parts`` is the `Spectrum` of the table, ``most`` a further limit for the count.
    """
    n, p = parts.n, parts.table.shape[1]
    limit = min(n, p) - 1
    if isinstance(n_components, str) and n_components == "auto":
        return min(counted(to_numpy(parts.eigenvalues), n, p, noise), limit, most or limit)
    check_integer("n_components", n_components, 1, ' or "auto"')
    if int(n_components) > limit:
        raise ParameterError(
            f"`n_components` must be smaller than min(n_samples, n_features) = {limit + 1} "
            f"(constant columns not counted), got {n_components}"
        )
    return int(n_components)
