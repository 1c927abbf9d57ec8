"""Permutation test of the independence of response and variables.

[BC91]   J. Besag, P. Clifford. Sequential Monte Carlo p-values. Biometrika 78, 1991.
[SBB01]  T. Sellke, M. J. Bayarri, J. O. Berger. Calibration of p values for testing precise null
         hypotheses. The American Statistician 55, 2001.

Posterior probabilities depend on the noise distribution of the model. If columns and responses are
rare counts or have heavy tails, a few rows dominate, and responses that are independent of X can
have arbitrarily large Bayes factors. The permutation test does not assume a distribution: under the
null hypothesis, the responses are exchangeable, so that a permuted response has the same
distribution as y. If groups are given, rows are permuted within groups. Without an intercept, the
null hypothesis is that the noise is symmetric about zero, and random signs are also drawn.

The statistic is an approximate log Bayes factor of the alternative that some variables are active.
With f degrees of freedom, a set v of q variables and the coefficients of determination R_k^2 of m
responses,

    BF(v, g) = (1 + g)^(-m q / 2)  prod_k (1 - g / (1 + g) R_k^2)^(-f / 2) ,

    T = log 1/2 [ mean_j BF({j}, 1)  +  sum_v p(v) mean_g BF(v, g) ] .

The first term is sensitive to many weak correlations. The second term is a sum over sets with prior
p(v): the sets of a forward selection from the best single variables, and pairs of strongly
correlated variables (suppressor variables). This term is omitted for more than `START_COLUMNS`
variables. For Gaussian noise, the expectation of exp(T) under the null hypothesis is at most 1.

Permuted responses are drawn until the outcome is clear, [BC91]. The mean of exp(T) over the
permuted responses estimates the inflation of the Bayes factors for these data (`NullTest.weight`).

A forward selection can miss a set of variables that only jointly predict the response. If T is not
significant, the log posterior odds of the set found by the search (`screening`) are compared with
those of permuted responses. A single permuted response with larger odds ends this second test.

Rows of unequal scale. If row i has scale r_i in X and the response has a related scale, X and the
response are dependent without any effect, and permutation removes the association of large rows
with large responses. With x_i = r_i z_i and exchangeable z_i that do not depend on the response, a
test of z_i and y_i / r_i is exact for any scales. If the estimated scales of the rows of X differ
(`structure.row_scale`), a signal must also be detected in the divided data, in which the intercept
is divided as well.

Rows of large leverage. A column with few large entries and a response that is large in the same
rows are associated. No test can distinguish an effect from larger noise in these rows. Random signs
of the response preserve the magnitudes in all rows. If T is not clearly larger than with random
signs, `NullTest.rests_on_few_rows` is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, log_expit, logsumexp

from ...data import Operator
from ...data.arrays import from_numpy, to_numpy
from ...data.row_adjustment import intercept
from ...structure.row_scale import equalise_columns, estimate_row_scale
from .size_prior import log_size_prior
from .suppressors import correlated_pairs

NULL_LEVEL = 0.03  # level of the test of T
SEARCH_DRAWS = 99  # number of searches with permuted responses; the level is 1 / (1 + SEARCH_DRAWS)
MIN_SEARCH_ODDS = 2.0  # log posterior odds below which permuted responses are not searched
SEED = 90_137_562_241  # unlikely to be used for simulated data
MAX_DRAWS = 199  # maximum number of permuted responses
CLEAR_DRAWS = 80  # number of draws after which the test ends if no statistic is larger
BATCH_SIZE = 40  # maximum number of responses permuted at a time
MAX_BATCH_ENTRIES = 100_000  # maximum size of each of about 15 arrays of a batch
PATH_LENGTH = 6  # maximum number of variables of a forward selection
MAX_STARTS = 16  # maximum number of forward selections per response
# Maximum of the number of forward selections times the number of columns.
START_COLUMNS = 4000
MAX_PAIRS = 5000  # maximum number of pairs of correlated variables
MIN_UNEXPLAINED = 1e-12  # minimum of 1 - R^2
MIN_NEW_NORM = 1e-8  # minimum squared norm of a column regressed on the set, relative to the column
ROUNDING = 1e-9  # rounding error of the statistic
MIN_LOG_SCALE = 0.1  # absolute log scale below which rows are regarded as equal
FLIP_DRAWS = 59  # maximum number of responses with random signs
CLEAR_FLIP_DRAWS = 30  # number of these after which no larger statistic ends the comparison
CLEAR_FLIP = 0.8  # proportion of T of y from which T of random signs is regarded as similar
MAX_FLIP_LEVEL = 0.05  # proportion of similar T above which a signal depends on few rows
MAX_REPEATS = 20  # maximum mean weight for which rows are repeated


class NullData(NamedTuple):
    """Data matrix, response and row groups of the test."""

    op: Operator  # X, rows multiplied by the roots of their weights
    values: np.ndarray  # (rows, m) responses, without weights
    root: np.ndarray | None  # (rows,) square roots of the row weights
    n: float  # number of observations
    n_intercepts: int  # 1 with an intercept, otherwise 0
    groups: np.ndarray | None  # (rows,) code of the group of each row
    G: np.ndarray | None = None  # (p, p) X'X, if available
    unequal_noise: bool = False  # whether rows may have unequal noise; False for classes
    row_scale: np.ndarray | None = None  # (rows,) scales by which rows of X and values are divided


class NullTest(NamedTuple):
    """Outcome of the test."""

    detected: bool  # whether one of the two tests rejects the null hypothesis
    statistic: float  # log Bayes factor T of the response
    inflation: float  # log of the mean Bayes factor of permuted responses, at least 0
    p_value: float  # Monte Carlo p-value of T
    rests_on_few_rows: bool = False  # whether T is not clearly larger than with random signs

    def weight(self, certainty: float) -> float:
        """Compute the factor that multiplies the probabilities of non-empty sets.

        ``certainty`` is the largest inclusion probability. Let B be the Bayes factor of the
        response and c >= 1 the inflation. Under the model, a signal has probability B / (1 + B). If
        a signal is detected, this is corrected to (B / c) / (1 + B / c), and the weight is the
        ratio of both. Otherwise, the weight is at most 1 / c. If no signal is detected or c > 1,
        the p-value, which is at most c / B, bounds the Bayes factor by b = 1 / (-e p log p),
        [SBB01], and no inclusion probability may exceed b / (1 + b). For most data consistent with
        the model, the weight is 1.
        """
        if self.detected:
            log_weight = np.subtract(*np.logaddexp([0.0, self.inflation], self.statistic))
            if self.inflation == 0.0:
                return float(np.exp(log_weight))
            p = min(self.p_value, math.exp(min(self.inflation - self.statistic, 0.0)))
        else:
            log_weight, p = -self.inflation, self.p_value
        p = min(p, 1.0 / math.e)
        bound = -math.log(-math.e * p * math.log(p)) if p > 0.0 else math.inf
        ratio = log_expit(bound) - math.log(max(certainty, np.finfo(float).tiny))
        return float(np.exp(min(0.0, log_weight, ratio)))


NO_SIGNAL = NullTest(False, 0.0, 0.0, 1.0)


class Responses(NamedTuple):
    """Responses in the rows of the operator."""

    Y: np.ndarray  # (rows, n_draws, m) sums over the observations of a row / its root weight
    yy: np.ndarray  # (n_draws, m) squared norms


class Observations(NamedTuple):
    """Observations that are permuted.

    A row of weight 2 counts as two observations, as two equal rows do. The order of the rows
    depends only on their values, so that reordered data have the same permutations.
    """

    row: np.ndarray  # (N,) row of each observation
    start: np.ndarray  # (rows,) first observation of each row, in the order of the rows
    order: np.ndarray  # (rows,)
    weight: np.ndarray  # (N,) weight of each observation, 1 if rows are repeated


def list_observations(data: NullData) -> Observations:
    """Sort the rows by their values and repeat rows of integer weight."""
    rows, p = data.op.shape
    root = np.ones(rows) if data.root is None else data.root
    direction = np.random.default_rng(SEED).standard_normal((p, 1))
    projected = np.asarray(data.op.matmul(direction), dtype=float)[:, 0] / root
    scale = float(np.abs(projected).max(initial=0.0)) or 1.0
    order = np.lexsort((np.round(projected / scale, 6), *data.values.T))
    counts = np.round(root**2).astype(int)
    repeated = np.allclose(root**2, counts, rtol=1e-9) and counts.sum() <= MAX_REPEATS * rows
    if not repeated:
        counts = np.ones(rows, dtype=int)
    start = np.concatenate([[0], np.cumsum(counts[order])[:-1]])
    row = np.repeat(order, counts[order])
    return Observations(row, start, order, np.ones(row.size) if repeated else root[row] ** 2)


def permute(
    data: NullData, observations: Observations, n_draws: int, rng: np.random.Generator
) -> Responses:
    """Draw permuted responses."""
    row, start, order, weight = observations
    if data.groups is None:
        index = rng.permuted(np.tile(np.arange(row.size)[:, None], n_draws), axis=0)
    else:
        groups, index = data.groups[row], np.empty((row.size, n_draws), dtype=int)
        shuffled = groups[:, None] + rng.random((row.size, n_draws))
        index[np.argsort(groups, kind="stable")] = np.argsort(shuffled, axis=0)
    drawn = data.values[row[index]]
    if not data.n_intercepts:
        drawn = drawn * rng.choice([-1.0, 1.0], (row.size, n_draws, 1))
    weighted = weight[:, None, None] * drawn
    totals = np.empty((order.size, *drawn.shape[1:]))
    totals[order] = np.add.reduceat(weighted, start, axis=0)
    return respond(data, totals, (weighted * drawn).sum(axis=0))


def respond(data: NullData, totals: np.ndarray, squares: np.ndarray) -> Responses:
    """Convert sums over the observations of each row to responses."""
    root = np.ones(totals.shape[0]) if data.root is None else data.root
    Y, yy = totals / root[:, None, None], squares
    if data.n_intercepts:
        design = np.ones(root.size) if data.row_scale is None else 1.0 / data.row_scale
        design = (root * design)[:, None, None]
        sums, norm = (design * Y).sum(axis=0), float((design * design).sum())
        Y, yy = Y - design * (sums / norm), squares - sums**2 / norm
    return Responses(Y, np.maximum(yy, np.finfo(float).tiny))


def observed_responses(data: NullData) -> Responses:
    """Convert the observed responses to one draw."""
    weight = np.ones(data.values.shape[0]) if data.root is None else data.root**2
    values = data.values[:, None, :]
    weighted = weight[:, None, None] * values
    return respond(data, weighted, (weighted * values).sum(axis=0))


class PathPrior(NamedTuple):
    """Constants of the statistic."""

    dof: float
    log_prior: np.ndarray  # (p + 1,) log prior of a set, given that it is not empty
    g: np.ndarray  # (A,) prior variances relative to the noise

    def log_factor(self, explained: np.ndarray, q: int, g: np.ndarray) -> np.ndarray:
        """Compute log mean_g BF for R^2 (..., m) of sets of q variables."""
        rest = np.maximum(1.0 - explained, MIN_UNEXPLAINED)
        m = explained.shape[-1]
        each = [
            -0.5 * (m * q * math.log1p(a) + self.dof * np.log((1.0 + a * rest) / (1.0 + a)).sum(-1))
            for a in g.tolist()
        ]
        return log_sum(np.array(each)) - math.log(g.size) if g.size > 1 else each[0]


def log_sum(log_values: np.ndarray) -> np.ndarray:
    """Compute log sum exp of finite values over the first axis."""
    top = log_values.max(axis=0)
    total: np.ndarray = np.log(np.exp(log_values - top).sum(axis=0)) + top
    return total


def path_prior(data: NullData) -> PathPrior:
    """Build the prior on non-empty sets, and the grid of g."""
    p = data.op.shape[1]
    q = np.arange(1, p + 1)
    log_prior = log_size_prior(p)
    log_sets = gammaln(p + 1.0) - gammaln(q + 1.0) - gammaln(p - q + 1.0)
    log_prior -= np.logaddexp.reduce(log_prior[1:] + log_sets)
    g = 4.0 ** np.arange(1 + int(math.log(max(data.n, 1.0), 4.0)))
    return PathPrior(data.n - data.n_intercepts, log_prior, g)


class Statistic:
    """Statistic T of many responses."""

    def __init__(self, data: NullData):
        self.data, self.prior = data, path_prior(data)
        p = data.op.shape[1]
        self.d = np.asarray(data.op.column_squares(), dtype=float)
        self.n_starts = min(START_COLUMNS // p, MAX_STARTS, p)
        self.pairs = None if data.G is None else most_correlated_pairs(data.G, self.d)

    def __call__(self, responses: Responses) -> np.ndarray:
        """Compute the statistics of all draws, (n_draws,)."""
        (rows, n_draws, m), yy = responses.Y.shape, responses.yy
        Y = responses.Y.reshape(rows, n_draws * m)
        b = np.asarray(self.data.op.rmatmul(Y), dtype=float).reshape(-1, n_draws, m)
        b /= np.sqrt(yy)  # From here on, responses have norm 1.
        explained = b * b / self.d[:, None, None]
        single = self.prior.log_factor(explained, 1, np.ones(1))
        terms = [log_sum(single) - math.log(self.d.size)]
        if self.d.size > 1 and self.n_starts:
            terms += self.sum_path(b, explained.sum(axis=2))
            if self.pairs is not None:
                terms.append(self.sum_pairs(b))
        statistic: np.ndarray = logsumexp(terms, axis=0) - math.log(2.0)
        return statistic

    def sum_path(self, b: np.ndarray, explained: np.ndarray) -> list[np.ndarray]:
        """Compute log Bayes factors of the sets of a forward selection by size.

        For each response, the best set of each size among `n_starts` selections is used.
        """
        p, n_draws, m = b.shape
        S, prior = self.n_starts, self.prior
        best = np.argpartition(-explained, S - 1, axis=0)[:S] if p > S else np.arange(p)[:, None]
        j = np.broadcast_to(best, (S, n_draws)).T.ravel()  # first variables, (n_draws S,)
        e, s = np.repeat(b, S, axis=1), np.repeat(self.d[:, None], j.size, axis=1)
        column, R2, terms = np.arange(j.size), np.zeros((j.size, m)), []
        C: list[np.ndarray] = []  # X'u_k of orthonormal directions u_k, (p, n_draws S) each
        for q in range(1, min(PATH_LENGTH, p, max(int(prior.dof) - 1, 1)) + 1):
            if q > 1:
                ratio = (e * e).sum(axis=2)
                new = s > MIN_NEW_NORM * self.d[:, None]
                j = np.divide(ratio, s, out=np.zeros_like(s), where=new).argmax(axis=0)
            c = self.cross(j)
            for before in C:
                c -= before * before[j, column]
            c /= np.sqrt(np.maximum(s[j, column], MIN_NEW_NORM * self.d[j]))
            u = e[j, column] / np.sqrt(np.maximum(s[j, column], MIN_NEW_NORM * self.d[j]))[:, None]
            C.append(c)
            R2, e = R2 + u * u, e - c[:, :, None] * u
            s = s - c * c
            s[j, column] = 0.0
            if q > 1:
                factor = prior.log_factor(R2, q, prior.g) + float(prior.log_prior[q])
                terms.append(factor.reshape(n_draws, S).max(axis=1))
        return terms

    def cross(self, j: np.ndarray) -> np.ndarray:
        """Compute the columns ``j`` of X'X as a new array."""
        if self.data.G is not None:
            return self.data.G.take(j, axis=1)
        distinct, position = np.unique(j, return_inverse=True)
        columns = np.asarray(self.data.op.take_columns(distinct).matmul(np.eye(distinct.size)))
        return np.asarray(self.data.op.rmatmul(columns), dtype=float).take(position, axis=1)

    def sum_pairs(self, b: np.ndarray) -> np.ndarray:
        """Compute the log of the sum over correlated pairs, (n_draws,)."""
        assert self.pairs is not None
        i, j, g_ij = self.pairs
        if not i.size:
            return np.full(b.shape[1], -np.inf)
        determinant = self.d[i] * self.d[j] - g_ij**2
        b_i, b_j = b[i], b[j]
        weights = [each[:, None, None] for each in (self.d[j], self.d[i], 2.0 * g_ij, determinant)]
        R2 = (b_i**2 * weights[0] + b_j**2 * weights[1] - b_i * b_j * weights[2]) / weights[3]
        factors = self.prior.log_factor(np.clip(R2, 0.0, 1.0), 2, self.prior.g)
        return log_sum(factors) + float(self.prior.log_prior[2])


def most_correlated_pairs(
    G: np.ndarray, d: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the most correlated pairs of distinct variables and their products."""
    i, j = correlated_pairs(G, d)
    correlation = np.abs(G[i, j]) / np.sqrt(d[i] * d[j])
    correlation[correlation**2 > 1.0 - MIN_NEW_NORM] = 0.0  # copies
    top = np.argsort(-correlation, kind="stable")[: min(MAX_PAIRS, np.count_nonzero(correlation))]
    i, j = i[top], j[top]
    return i, j, G[i, j]


SearchOdds = Callable[[Responses], float]
"""Function from one draw to the log posterior odds of the best set of a search."""


def run_null_test(
    data: NullData, search_odds: Callable[[NullData], SearchOdds] | None = None
) -> NullTest:
    """Test whether any variables predict the response.

    The level is `NULL_LEVEL`, plus 1 / (1 + `SEARCH_DRAWS`) with ``search_odds``.
    """
    rows = data.values.shape[0]
    dof = data.n - data.n_intercepts
    if rows - data.n_intercepts < 2 or dof < 2 or not np.ptp(data.values, axis=0).any():
        return NO_SIGNAL
    found = compare_with_permutations(data, search_odds)
    equal = equalise_rows(data) if found.detected else None
    tested, T = data, found.statistic
    if equal is not None:
        second = compare_with_permutations(equal, search_odds)
        if not second.detected:
            return second
        tested, T = equal, second.statistic
    if not (found.detected and data.unequal_noise):
        return found
    return found._replace(rests_on_few_rows=not exceeds_random_signs(tested, T))


def compare_with_permutations(
    data: NullData, search_odds: Callable[[NullData], SearchOdds] | None
) -> NullTest:
    """Compare the response with permuted responses.

    The test of T ends when more permuted responses have a larger statistic than `NULL_LEVEL`
    allows, or when none of the first `CLEAR_DRAWS` has a larger statistic. Early stopping increases
    the level by less than 0.002.
    """
    m = data.values.shape[1]
    statistic, observations = Statistic(data), list_observations(data)
    observed = float(statistic(observed_responses(data))[0])
    rng = np.random.default_rng(SEED)
    batch = batch_size(statistic, observations.row.size, m)
    allowed, n_draws, exceeding = int(NULL_LEVEL * (MAX_DRAWS + 1)) - 1, 0, 0
    drawn: list[np.ndarray] = []
    while n_draws < MAX_DRAWS and exceeding <= allowed:
        if n_draws >= CLEAR_DRAWS and exceeding == 0:
            break
        T = statistic(permute(data, observations, min(batch, MAX_DRAWS - n_draws), rng))
        exceeding += count_exceeding(T, observed)
        n_draws += T.size
        drawn.append(T)
    inflation = float(logsumexp(np.concatenate(drawn))) - math.log(n_draws)
    detected = exceeding <= allowed
    if not detected and search_odds is not None:
        detected = search_exceeds_permutations(data, observations, search_odds(data), rng)
    p_value = max(exceeding, 1) / n_draws
    return NullTest(detected, observed, max(inflation, 0.0), p_value)


def batch_size(statistic: Statistic, n_observations: int, m: int) -> int:
    """Return the number of responses processed at a time."""
    size = max(n_observations, statistic.d.size * max(statistic.n_starts, 1)) * m
    return max(min(BATCH_SIZE, MAX_BATCH_ENTRIES // size), 1)


def count_exceeding(T: np.ndarray, observed: float) -> int:
    """Count the statistics that are at least ``observed``, up to rounding."""
    return int(np.count_nonzero(T - observed >= -ROUNDING * (1.0 + abs(observed))))


def equalise_rows(data: NullData) -> NullData | None:
    """Divide rows of X and responses by the scales of the rows of X.

    The result is None if the scales are nearly equal.
    """
    rows, op, like = data.values.shape[0], data.op, data.op.column_squares()
    root = np.ones(rows) if data.root is None else data.root
    alone = intercept(rows)
    unweighted = op if data.root is None else op.scale_rows(from_numpy(1.0 / root, like, op.dtype))
    scale = estimate_row_scale(unweighted, alone)
    if float(np.abs(np.log(scale)).max()) < MIN_LOG_SCALE:
        return None
    op = op.scale_rows(from_numpy(1.0 / scale, like, op.dtype))
    if data.n_intercepts:
        op = alone.weight_rows(root / scale).adjust_operator(op)
    op = equalise_columns(op)
    varying = np.flatnonzero(to_numpy(op.column_squares()) > 0.0)
    if varying.size < op.shape[1]:
        op = op.take_columns(varying)
    if not varying.size:
        return None
    G = None if data.G is None else np.asarray(op.gram(), dtype=float)
    return data._replace(op=op, values=data.values / scale[:, None], G=G, row_scale=scale)


def exceeds_random_signs(data: NullData, observed: float) -> bool:
    """Return whether T is clearly larger than with random signs."""
    (rows, m), rng = data.values.shape, np.random.default_rng(SEED)
    root = np.ones(rows) if data.root is None else data.root
    residual = observed_responses(data).Y[:, 0]  # (rows, m)
    statistic, exceeding, n_draws = Statistic(data), 0, 0
    allowed, batch = int(MAX_FLIP_LEVEL * (FLIP_DRAWS + 1)) - 1, batch_size(statistic, rows, m)
    while n_draws < FLIP_DRAWS and exceeding <= allowed:
        signs = rng.choice([-1.0, 1.0], (rows, min(batch, FLIP_DRAWS - n_draws), 1))
        flipped = signs * residual[:, None]
        flips = respond(data, root[:, None, None] * flipped, (flipped * flipped).sum(axis=0))
        exceeding += count_exceeding(statistic(flips), CLEAR_FLIP * observed)
        n_draws += signs.shape[1]
        if n_draws >= CLEAR_FLIP_DRAWS and exceeding == 0:
            break
    return exceeding <= allowed


def search_exceeds_permutations(
    data: NullData,
    observations: Observations,
    search_odds: SearchOdds,
    rng: np.random.Generator,
) -> bool:
    """Compare the odds of the best set with those of permuted responses."""
    observed = search_odds(observed_responses(data))
    if observed < MIN_SEARCH_ODDS:
        return False
    for _ in range(SEARCH_DRAWS):
        if search_odds(permute(data, observations, 1, rng)) >= observed - ROUNDING * (
            1.0 + observed
        ):
            return False
    return True
