"""Small factor models, tables drawn from them, and what panels are worth by definition."""

from itertools import combinations

import numpy as np

from prosparse.models.panel.factors import Factors


def random_model(rng, p=12, r=4):
    """Loadings and own variances of all sizes."""
    W = rng.standard_normal((p, r)) * rng.gamma(2.0, 0.5, (p, 1)) * rng.gamma(2.0, 0.5, r)
    return Factors(W, rng.uniform(0.2, 2.0, p))


def covariance(model):
    return model.W @ model.W.T + np.diag(model.psi)


def drawn(model, n, rng, noise=None):
    """Rows of the model; ``noise`` draws entries of variance 1."""
    p, r = model.W.shape
    own = rng.standard_normal((n, p)) if noise is None else noise((n, p))
    return rng.standard_normal((n, r)) @ model.W.T + np.sqrt(model.psi) * own


def student(rng, degrees=3.0):
    """Entries with heavy tails, of variance 1."""
    return lambda shape: rng.standard_t(degrees, shape) / np.sqrt(degrees / (degrees - 2.0))


def latent_covariance(model, panel):
    """Of the latent scores given the panel's columns, by the covariance of these."""
    panel = np.asarray(panel, dtype=int)
    W = model.W[panel]
    inside = covariance(model)[np.ix_(panel, panel)]
    return np.eye(model.W.shape[1]) - W.T @ np.linalg.inv(inside) @ W


def gained(model, panel, criterion):
    """What a panel gains in all: the error in rebuilding W z that it takes away, or the mutual
    information of the panel's columns and z."""
    panel = np.asarray(panel, dtype=int)
    if criterion == "information":
        inside = covariance(model)[np.ix_(panel, panel)]
        return 0.5 * (np.linalg.slogdet(inside)[1] - np.sum(np.log(model.psi[panel])))
    W = model.W
    return np.trace(W @ W.T) - np.trace(W @ latent_covariance(model, panel) @ W.T)


def best_of_all(model, q, criterion):
    """The largest gain of any q columns: all of them are tried."""
    panels = np.array(list(combinations(range(model.W.shape[0]), q)))
    sigma = covariance(model)
    inside = sigma[panels[:, :, None], panels[:, None, :]]
    if criterion == "information":
        return np.max(np.linalg.slogdet(inside)[1] - np.log(model.psi)[panels].sum(axis=1)) / 2
    common = model.W @ model.W.T
    seen = (common @ common)[panels[:, :, None], panels[:, None, :]]
    return np.max(np.trace(np.linalg.solve(inside, seen), axis1=1, axis2=2))


def predicted(model, panel, rows):
    """All columns of centred rows from the panel's, by regression on these."""
    sigma = covariance(model)
    weights = np.linalg.solve(sigma[np.ix_(panel, panel)], sigma[panel])
    return rows[:, panel] @ weights
