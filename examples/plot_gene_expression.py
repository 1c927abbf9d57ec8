"""
Genes: many variables, few samples
==================================

A table of gene expressions has a hundred times more variables than samples. Which genes carry the
common structure, and how many are there? The evidence answers without cross-validation and
without a penalty to set.

With ``PROSPARSE_DATA`` this is the leukemia table of Golub et al. (1999): 38 patients, 3,051
genes. Without, a simulated table of the same shape, in which 150 genes follow four common factors
and one factor separates two diagnoses.
"""

import os
from pathlib import Path

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from prosparse import GSPPCA
from prosparse.plot import EvidenceDisplay, RelevanceDisplay, ScoresDisplay

file = Path(os.environ.get("PROSPARSE_DATA", ".")) / "golub_leukemia_38x3051.npz"
if file.is_file():
    with np.load(file, allow_pickle=False) as table:
        X = pd.DataFrame(table["X"].astype(float), columns=table["feature_names"])
        diagnosis = np.where(table["y"] == table["y"][0], "ALL", "AML")
    print("the leukemia table of Golub et al. (1999)")
else:
    rng = np.random.default_rng(0)
    diagnosis = np.repeat(["ALL", "AML"], [27, 11])
    factors = rng.standard_normal((38, 4))
    factors[:, 0] += np.where(diagnosis == "ALL", -1.5, 1.5)
    loadings = np.zeros((4, 3051))
    loadings[:, rng.permutation(3051)[:150]] = 0.7 * rng.standard_normal((4, 150))
    X = pd.DataFrame(factors @ loadings + 0.5 * rng.standard_normal((38, 3051)))
    X.columns = [f"gene {k}" for k in range(3051)]
    print("a simulated table: 150 of 3,051 genes follow four factors")

model = GSPPCA(n_components=4).fit(X)
print(f"{model.n_selected_} genes chosen of {X.shape[1]};")
print("first of the ranking:", ", ".join(X.columns[np.argsort(model.ranking_)[:5]]))

# %%
# The evidence of every number of genes, and the 40 most relevant ones.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
EvidenceDisplay.from_estimator(model, ax=left)
RelevanceDisplay.from_estimator(model, max_features=40, ax=right)
plt.show()

# %%
# The patients on the first two components of these genes. The diagnosis was not used.

ScoresDisplay.from_estimator(model, X, label=diagnosis)
plt.show()
