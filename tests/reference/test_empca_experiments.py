"""What the experiments of the paper found, in short."""

import os
from pathlib import Path

import numpy as np
import pytest

from prosparse import EMPCA
from prosparse.experiments.empca import LEUKEMIA, clustering_scores, load


def test_seventy_genes_beat_the_full_data():
    if "PROSPARSE_DATA" not in os.environ:
        pytest.skip("set PROSPARSE_DATA to the folder with the files to run this test")
    X, y = load(Path(os.environ["PROSPARSE_DATA"]), LEUKEMIA)
    X = np.clip(X, 100.0, 16000.0)
    model = EMPCA(n_nonzero=70, nonnegative=True, random_state=0).fit(X)
    chosen, _ = clustering_scores(model.select(X), y, 20)
    full, _ = clustering_scores(X, y, 20)
    assert chosen > full + 0.1
