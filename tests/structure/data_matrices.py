"""Standardised data for the tests of this folder."""

from prosparse.data import standardise
from prosparse.data.row_groups import row_groups
from prosparse.datasets import make_globally_sparse
from prosparse.structure import StandardisedData


def standardised_data(X, groups=None):
    return StandardisedData(standardise(X, True)[0], row_groups(groups, X.shape[0]))


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def simulated(n=60, p=120, seed=0):
    return make_globally_sparse(n, p, n_informative=20, random_state=seed, scale=True).X
