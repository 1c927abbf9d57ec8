"""E14: gene selection improves clustering."""

import numpy as np

from papers.data import Data
from papers.empca import clustering_scores
from prosparse import EMPCA


def test_seventy_genes_beat_the_full_data(data_folder):
    file = Data(data_folder)("armstrong")
    X, y = np.clip(file["X"].astype(float), 100.0, 16000.0), file["y"]
    model = EMPCA(n_nonzero=70, nonnegative=True, random_state=0).fit(X)
    selected, _ = clustering_scores(model.select(X), y, 20)
    full, _ = clustering_scores(X, y, 20)
    assert selected > full + 0.1
