"""Where the real data and the reference results are, if they are anywhere."""

import os
from pathlib import Path

import numpy as np
import pytest


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
