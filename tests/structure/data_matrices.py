"""Standardised data for the tests of this folder."""

import numpy as np

from prosparse.data import standardise
from prosparse.data.row_groups import row_groups
from prosparse.datasets import make_globally_sparse
from prosparse.structure import StandardisedData, equalise_rows


def standardised_data(X, groups=None):
    """Standardise the columns and centre them within groups."""
    op, rows = standardise(X, True)[0], row_groups(groups, X.shape[0])
    return StandardisedData(op if rows is None else rows.centre_operator(op), rows)


def equalised_data(X, groups=None):
    """Divide the rows of standardised data by their scale."""
    rows = row_groups(groups, X.shape[0])
    return StandardisedData(equalise_rows(standardise(X, True)[0], rows).op, rows)


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def simulated(n=60, p=120, seed=0):
    return make_globally_sparse(n, p, n_informative=20, random_state=seed, scale=True).X


def orthonormal_scores(n, D, seed=0, heavy=False):
    """Centred scores with orthonormal columns."""
    rng = np.random.default_rng(seed)
    U = rng.standard_t(2, (n, D)) if heavy else rng.standard_normal((n, D))
    return np.linalg.qr(U - U.mean(axis=0))[0]
