"""Fixtures of all tests: folders of data and reference results, and Hypothesis profiles."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.stats  # noqa: F401
from hypothesis import HealthCheck, settings

# scikit-learn 1.6 refuses to import its estimator checks with array-api-compat installed unless
# SCIPY_ARRAY_API is set. SciPy, imported above, has already read the variable and ignores it.
with pytest.MonkeyPatch.context() as patch:
    patch.setenv("SCIPY_ARRAY_API", "1")
    import sklearn.utils.estimator_checks  # noqa: F401

# Of random tables the suite tries a few, always the same; `--hypothesis-profile=long`, or
# HYPOTHESIS_PROFILE=long in the environment, tries new ones for hours.
_ALWAYS = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("ci", max_examples=15, derandomize=True, **_ALWAYS)
settings.register_profile("long", max_examples=5000, print_blob=True, **_ALWAYS)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def _folder(variable, what):
    place = os.environ.get(variable)
    if not place or not Path(place).is_dir():
        pytest.skip(f"{variable} does not name a folder with {what}")
    return Path(place)


@pytest.fixture(scope="session")
def data_folder():
    return _folder("PROSPARSE_DATA", "the real data sets")


@pytest.fixture(scope="session")
def reference_folder():
    return _folder("PROSPARSE_REFERENCE", "the results of the authors' R programs")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


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
