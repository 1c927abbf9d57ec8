"""Standardised data for the tests of this folder."""

import numpy as np

from prosparse.data import standardise
from prosparse.data.row_adjustment import RowAdjustment
from prosparse.data.row_groups import row_groups, single_group
from prosparse.datasets import make_globally_sparse
from prosparse.structure import StandardisedData, equalise_rows


def adjustment_of(groups, n, covariates=None):
    """Return the adjustment of n rows for groups and covariates."""
    return RowAdjustment(row_groups(groups, n) or single_group(n), covariates)


def standardised_data(X, groups=None):
    """Standardise the columns and centre them within groups."""
    op, rows = standardise(X, True)[0], adjustment_of(groups, X.shape[0])
    return StandardisedData(op if rows.is_intercept else rows.adjust_operator(op), rows)


def equalised_data(X, groups=None):
    """Divide the rows of standardised data by their scale."""
    found = equalise_rows(standardise(X, True)[0], adjustment_of(groups, X.shape[0]))
    return StandardisedData(found.op, found.adjustment)


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def simulated(n=60, p=120, seed=0):
    return make_globally_sparse(n, p, n_informative=20, random_state=seed, scale=True).X


def orthonormal_scores(n, D, seed=0, heavy=False):
    """Centred scores with orthonormal columns."""
    rng = np.random.default_rng(seed)
    U = rng.standard_t(2, (n, D)) if heavy else rng.standard_normal((n, D))
    return np.linalg.qr(U - U.mean(axis=0))[0]
