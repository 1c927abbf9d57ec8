"""The pit props, of which only the correlations are known."""

import numpy as np
import pytest


def with_gram(C, seed=0):
    """A centred table whose X'X is C."""
    values, vectors = np.linalg.eigh(C)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    p = C.shape[0]
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(np.column_stack([np.ones(p + 1), rng.standard_normal((p + 1, p))]))[0]
    return basis[:, 1:] @ root


@pytest.fixture
def pitprops(data_folder):
    """A table with the correlations of Jeffers (1967), and the names of its columns."""
    with np.load(data_folder / "pitprops_13.npz", allow_pickle=False) as file:
        return with_gram(file["X"]), [str(name) for name in file["feature_names"]]
