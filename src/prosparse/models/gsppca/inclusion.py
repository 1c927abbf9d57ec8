"""Posterior probability of each variable given the components of the others.

The published evidence has one noise variance and depends on each variable only through its
variance. Here, a variable x of n rows is a regression on d scores Z, which are computed without x
(`refinement`). The variable belongs to one of four classes,

                            noise variance s, common      noise variance of its own
    inactive                N(0, s I)                     marginal over psi
    active, gain g          s, loadings ~ g               marginal over psi, loadings ~ g

where psi is scaled inverse chi-squared with one degree of freedom, and the loadings have Zellner's
g-prior N(0, g psi (Z'Z)^-1) [Z86]. With f degrees of freedom of x and R2 = R2(d), the Bayes factor
of an active variable with its own noise is, under a vague prior on psi,

    (1 + g)^((f - d)/2) / (1 + g (1 - R2))^(f/2),

the ratio of the densities of R2 under both hypotheses. With common noise it is

    (1 + g)^(-d/2) exp(g / (1 + g) |x|^2 R2 / (2 s)).

If rows have unequal noise, R2 has heavier tails. If the entries of x have random signs, R2
approximately follows Beta(d' / 2, (f' - d') / 2). The Bayes factors use d' and f' if these make the
variable less probable.

The proportions of the classes, including those of a grid of g, and s are estimated from all
variables by EM (empirical Bayes). If most inactive variables have the same variance, a variable of
larger variance is unlikely to be inactive; if their variances differ, the variance is
uninformative.

[Z86]  A. Zellner. On assessing prior distributions and Bayesian regression analysis with g-prior
       distributions. Bayesian Inference and Decision Techniques, 1986.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betaln, gammaln

# Grid of gains g, the signal-to-noise ratios of the loadings times the number of rows: minimum,
# ratio, and maximum per row. Effects below the minimum cannot be distinguished from noise.
MIN_GAIN, GAIN_RATIO, MAX_GAIN_PER_ROW = 4.0, 2.0**1.5, 64.0
GAIN_COUNT = 0.5  # prior count of each gain, over both kinds of noise
NOISE_DOF = 1.0  # of the prior of psi
MAX_ITERATIONS = 100  # of EM for the proportions, between updates of the common noise
MAX_NOISE_UPDATES = 20
NOISE_TOLERANCE = 1e-4  # relative change of the common noise at convergence
TOLERANCE = 1e-3  # change of the expected number of active variables at convergence
_N_INACTIVE = 2  # number of inactive classes


class Explained(NamedTuple):
    """Explained proportion of each variable, given components of the others."""

    squares: np.ndarray  # (p,) |x|^2
    r2: np.ndarray  # (p,) R2(d)
    d: float
    dof: float  # of x: rows minus one
    d_flips: np.ndarray  # (p,) d' under random signs
    dof_flips: np.ndarray  # (p,) f' under random signs

    def without_flips(self) -> Explained:
        """Replace d' and f' by d and f."""
        return self._replace(
            d_flips=np.full(self.r2.size, self.d), dof_flips=np.full(self.r2.size, self.dof)
        )


class Proportions(NamedTuple):
    """Parameters of the mixture."""

    active: float  # proportion of active variables
    own_noise: float  # proportion of the inactive variables that have their own noise variance
    gains: np.ndarray  # (2, m) proportions of the active ones: common and own noise, by gain
    noise: float  # common noise variance s


class Inclusion(NamedTuple):
    """Result of `infer_inclusion`."""

    log_active: np.ndarray  # (p,) log density of each variable if it is active
    log_inactive: np.ndarray  # (p,) log density of each variable if it is inactive
    probability: np.ndarray  # (p,) of being active
    noise: np.ndarray  # (p,) posterior noise variance
    log_evidence: float  # of all variables, maximised over the proportions
    proportions: Proportions

    @property
    def log_bayes_factor(self) -> np.ndarray:
        """Log Bayes factor of being active, (p,)."""
        return self.log_active - self.log_inactive


def gains_for(dof: float) -> np.ndarray:
    """Return the grid of gains g, (m,)."""
    count = int(np.ceil(np.log(MAX_GAIN_PER_ROW * dof / MIN_GAIN) / np.log(GAIN_RATIO)))
    return np.asarray(MIN_GAIN * GAIN_RATIO ** np.arange(max(count, 1) + 1))


def initial_proportions(active: float, noise: float, dof: float, common: bool) -> Proportions:
    """Return the proportions from which EM starts.

    Without ``common``, each variable has its own noise variance.
    """
    m = gains_for(dof).size
    kinds = np.array([[0.5], [0.5]] if common else [[0.0], [1.0]])
    return Proportions(active, 0.5 if common else 1.0, kinds * np.full(m, 1.0 / m), noise)


def infer_inclusion(
    explained: Explained, start: Proportions, log_prior_odds: float = 0.0
) -> Inclusion:
    """Estimate the proportions and compute the posterior of each variable.

    ``log_prior_odds`` is added to the log odds of each variable.
    """
    model = _Mixture(explained, start, log_prior_odds)
    current = start
    for _ in range(MAX_NOISE_UPDATES):
        densities = model.relative_densities(current.noise)
        previous = np.inf
        for _ in range(MAX_ITERATIONS):
            current, active = model.update(current, densities)
            if abs(active - previous) < TOLERANCE:
                break
            previous = active
        noise = model.common_noise(current, densities)
        is_converged = abs(noise - current.noise) <= NOISE_TOLERANCE * noise
        current = current._replace(noise=noise)
        if is_converged:
            break
    return model.result(current)


class _Mixture:
    """Mixture of the classes of inactive and active variables."""

    def __init__(self, explained: Explained, start: Proportions, log_prior_odds: float):
        self.explained, self.log_prior_odds = explained, log_prior_odds
        self.common = start.own_noise < 1.0
        self.gains = gains_for(explained.dof)
        self.log_gains = np.log1p(self.gains)
        self.m = self.gains.size
        # Classes that may have variables
        own = np.append(1, np.arange(_N_INACTIVE + self.m, _N_INACTIVE + 2 * self.m))
        self.classes = np.arange(_N_INACTIVE + 2 * self.m) if self.common else own
        kinds = np.array([[1.0], [1.0]] if self.common else [[0.0], [2.0]])
        self.gain_counts = kinds * np.full(self.m, GAIN_COUNT / self.m)  # prior counts, (2, m)
        squares, dof, p = explained.squares, explained.dof, explained.squares.size
        shape, rate = 0.5 * NOISE_DOF, 0.5 * NOISE_DOF * start.noise
        self.rate = rate
        self.constant = -0.5 * dof * np.log(2.0 * np.pi)
        self.own = (
            gammaln(shape + 0.5 * dof)
            - gammaln(shape)
            + shape * np.log(rate)
            - (shape + 0.5 * dof) * np.log(rate + 0.5 * squares)
        )
        exact = self._own_factors(np.full(p, float(explained.d)), np.full(p, dof))
        flips = self._own_factors(explained.d_flips, explained.dof_flips)
        # The distribution under which the variable is less probable
        by_flips = np.max(flips, axis=1) < np.max(exact, axis=1)
        self.own_factors = np.where(by_flips[:, None], flips, exact)
        self.d = np.where(by_flips, explained.d_flips, explained.d)
        # f' R2 is the explained sum of squares in units of its null variance.
        ratio = np.minimum(np.where(by_flips, explained.dof_flips / dof, 1.0), 1.0)
        self.explained_squares = squares * explained.r2 * ratio

    def _own_factors(self, d: np.ndarray, dof: np.ndarray) -> np.ndarray:
        """Compute the log Bayes factors with separate noise, (p, m)."""
        unexplained = np.log1p(self.gains * (1.0 - self.explained.r2[:, None]))
        return 0.5 * (dof - d)[:, None] * self.log_gains - 0.5 * dof[:, None] * unexplained

    def log_densities(self, noise: float) -> np.ndarray:
        """Compute the log density of each variable in each class, (p, 2 + 2 m)."""
        explained, gain = self.explained, self.gains / (1.0 + self.gains)
        inactive = -0.5 * explained.dof * np.log(noise) - 0.5 * explained.squares / noise
        factors = -0.5 * self.d[:, None] * self.log_gains
        factors = factors + gain * (0.5 / noise * self.explained_squares[:, None])
        common, own = inactive[:, None], self.own[:, None]
        return self.constant + np.hstack([common, own, common + factors, own + self.own_factors])

    def weights(self, proportions: Proportions) -> np.ndarray:
        """Return the proportions of the classes with prior odds, (2 + 2 m,)."""
        active, own, gains, _ = proportions
        inactive = (1.0 - active) * np.array([1.0 - own, own])
        odds = active * np.exp(self.log_prior_odds)
        return np.concatenate([inactive, odds * gains.ravel()])

    def log_joint(self, proportions: Proportions) -> np.ndarray:
        """Compute the log density plus the log prior probability of each class."""
        with np.errstate(divide="ignore"):
            log_prior = np.log(self.weights(proportions))
        return np.asarray(self.log_densities(proportions.noise) + log_prior)

    def relative_densities(self, noise: float) -> np.ndarray:
        """Compute the density in each of `classes`, relative to the largest, (p, c)."""
        log_densities = self.log_densities(noise)[:, self.classes]
        return np.exp(log_densities - np.max(log_densities, axis=1, keepdims=True))

    def update(self, current: Proportions, densities: np.ndarray) -> tuple[Proportions, float]:
        """Maximise the expected log density plus the log prior of the proportions.

        Also return the expected number of active variables.
        """
        weights = self.weights(current)[self.classes]
        counts = np.zeros(_N_INACTIVE + 2 * self.m)
        counts[self.classes] = weights * ((1.0 / (densities @ weights)) @ densities)
        inactive, active = counts[:_N_INACTIVE], float(np.sum(counts[_N_INACTIVE:]))
        prior = self.gain_counts
        gains = (counts[_N_INACTIVE:].reshape(2, self.m) + prior) / (active + np.sum(prior))
        proportion = (active + 1.0) / (densities.shape[0] + 2.0)
        own = (float(inactive[1]) + 1.0) / (float(np.sum(inactive)) + 2.0) if self.common else 1.0
        return current._replace(active=proportion, own_noise=own, gains=gains), active

    def common_noise(self, current: Proportions, densities: np.ndarray) -> float:
        """Maximise the expected log density over the common noise variance."""
        if not self.common:
            return current.noise
        common = np.append(0, np.arange(_N_INACTIVE, _N_INACTIVE + self.m))
        weights = self.weights(current)
        inverse = 1.0 / (densities @ weights)
        parts = np.stack([np.ones_like(inverse), self.explained.squares, self.explained_squares])
        totals = (parts * inverse) @ densities[:, common] * weights[common]
        gain = np.append(0.0, self.gains / (1.0 + self.gains))
        count = float(np.sum(totals[0]))
        if count <= TOLERANCE:
            return current.noise
        residual = float(np.sum(totals[1] - gain * totals[2]))
        return max(residual / (self.explained.dof * count), 1e-300)

    def log_prior(self, proportions: Proportions) -> float:
        """Return the log prior density of the proportions, up to a constant."""
        parts = [proportions.active, 1.0 - proportions.active]
        if self.common:
            parts += [proportions.own_noise, 1.0 - proportions.own_noise]
        counts = self.gain_counts
        used = counts > 0.0
        return float(np.sum(np.log(parts)) + np.sum(counts[used] * np.log(proportions.gains[used])))

    def result(self, proportions: Proportions) -> Inclusion:
        joint = self.log_joint(proportions)
        active, m = proportions.active, self.m
        log_active = _normalise(joint[:, _N_INACTIVE:])[0] - np.log(active)
        log_inactive = _normalise(joint[:, :_N_INACTIVE])[0] - np.log1p(-active)
        log_total, responsibilities = _normalise(joint)
        of_common = responsibilities[:, 0] + np.sum(
            responsibilities[:, _N_INACTIVE : _N_INACTIVE + m], axis=1
        )
        explained = self.explained
        unexplained = explained.squares * (1.0 - explained.r2) + 2.0 * self.rate
        own = unexplained / max(explained.dof - explained.d + NOISE_DOF, 1.0)
        return Inclusion(
            log_active=log_active,
            log_inactive=log_inactive,
            probability=np.sum(responsibilities[:, _N_INACTIVE:], axis=1),
            noise=of_common * proportions.noise + (1.0 - of_common) * own,
            log_evidence=float(np.sum(log_total)),
            proportions=proportions,
        )


def _normalise(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the log of the sum of exp(joint) of each row, and the proportions."""
    largest = np.max(joint, axis=1, keepdims=True)
    weights = np.exp(joint - largest)
    total = np.sum(weights, axis=1, keepdims=True)
    return (largest + np.log(total))[:, 0], weights / total


def log_number_prior(cardinalities: np.ndarray, p: int) -> np.ndarray:
    """Compute the log prior of a set of each size out of p variables.

    All sizes are equally probable, and so are all sets of one size [SB10]. The log probability is
    minus the log of (p + 1) times a binomial coefficient.

    [SB10]  J. Scott, J. Berger. Bayes and empirical-Bayes multiplicity adjustment in the
            variable-selection problem. Annals of Statistics 38, 2010.
    """
    return np.asarray(betaln(cardinalities + 1.0, p - cardinalities + 1.0))
