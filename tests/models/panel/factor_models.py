"""Small factor models, data simulated from them, and gains by their definition."""

from itertools import combinations

import numpy as np
from scipy import sparse

from prosparse.data import standardise
from prosparse.models.panel.cross_validation import N_FOLDS
from prosparse.models.panel.factors import FactorModel
from prosparse.models.panel.folds import Split, split_rows


def random_model(rng, p=12, r=4):
    """Loadings and unique variances of different sizes."""
    W = rng.standard_normal((p, r)) * rng.gamma(2.0, 0.5, (p, 1)) * rng.gamma(2.0, 0.5, r)
    return FactorModel(W, rng.uniform(0.2, 2.0, p))


def covariance(model):
    return model.W @ model.W.T + np.diag(model.psi)


def simulate(model, n, rng, noise=None):
    """Simulate rows; ``noise`` draws entries of variance 1."""
    p, r = model.W.shape
    own = rng.standard_normal((n, p)) if noise is None else noise((n, p))
    return rng.standard_normal((n, r)) @ model.W.T + np.sqrt(model.psi) * own


def student(rng, degrees=3.0):
    """Entries with heavy tails, of variance 1."""
    return lambda shape: rng.standard_t(degrees, shape) / np.sqrt(degrees / (degrees - 2.0))


def posterior_covariance(model, panel):
    """Covariance of the factors given the panel."""
    panel = np.asarray(panel, dtype=int)
    W = model.W[panel]
    inside = covariance(model)[np.ix_(panel, panel)]
    return np.eye(model.W.shape[1]) - W.T @ np.linalg.inv(inside) @ W


def total_gain(model, panel):
    """Reduction of the error of reconstructing W z."""
    panel = np.asarray(panel, dtype=int)
    W = model.W
    return np.trace(W @ W.T) - np.trace(W @ posterior_covariance(model, panel) @ W.T)


def largest_gain(model, q):
    """Largest gain of any q columns, by enumeration."""
    panels = np.array(list(combinations(range(model.W.shape[0]), q)))
    sigma = covariance(model)
    inside = sigma[panels[:, :, None], panels[:, None, :]]
    common = model.W @ model.W.T
    seen = (common @ common)[panels[:, :, None], panels[:, None, :]]
    return np.max(np.trace(np.linalg.solve(inside, seen), axis1=1, axis2=2))


def predict(model, panel, rows):
    """Predict all columns of centred rows by regression on the panel."""
    sigma = covariance(model)
    weights = np.linalg.solve(sigma[np.ix_(panel, panel)], sigma[panel])
    return rows[:, panel] @ weights


def operator(X):
    """Operator and array of the centred data."""
    op, columns = standardise(X)
    dense = X.toarray() if sparse.issparse(X) else X
    return op, (dense - dense.mean(axis=0)) / columns.unit


def low_rank(rng, n, p, r=4):
    """Low-rank data with noise and distinct leading eigenvalues."""
    scores = rng.standard_normal((n, r)) * np.geomspace(16.0, 4.0, r)
    axes = np.linalg.qr(rng.standard_normal((p, r)))[0]
    return scores @ axes.T + 0.3 * rng.standard_normal((n, p))


def make_splits(n, codes=None, seed=0):
    """Splits in which each row is held out once."""
    return split_rows(np.ones(n, dtype=bool), N_FOLDS, codes, seed)


def with_whole(splits):
    """The split without held-out rows, then the given ones."""
    all_rows = np.ones(splits[0].training.size, dtype=bool)
    return [Split(all_rows, ~all_rows), *splits]


def rows_of(fold, Z):
    """Return the held-out rows, centred at the mean of the others."""
    return Z[fold.held_out] - Z[~fold.held_out].mean(axis=0)
