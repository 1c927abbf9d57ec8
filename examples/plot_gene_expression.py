"""
Genes: many variables, few samples
==================================

A table of gene expressions has a hundred times more variables than samples. Which genes vary with
others, and how much do they share? Each gene is tested against the principal components of all
others, at a stated false discovery rate: on average 5% of the chosen genes are false.

With ``PROSPARSE_DATA`` this is the leukemia table of Golub et al. (1999): 38 patients, 3,051
genes. Without, a simulated table of the same shape, in which 150 genes follow four common factors
and one factor separates two diagnoses.
"""

import os
import warnings
from pathlib import Path

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from prosparse import FDRPCA
from prosparse.plot import CommunalityDisplay, ScoresDisplay

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

model = FDRPCA().fit(X)
print(f"{model.n_selected_} of {X.shape[1]} genes vary with others beyond chance")

# %%
# How much of its variance each gene shares, beside what chance alone would give: with so few
# samples and so many components, that is not little. On the right the 30 that share most.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
CommunalityDisplay.from_estimator(model, ax=left)
CommunalityDisplay.from_estimator(model, max_features=30, ax=right)
plt.show()

# %%
# Significant does not mean useful: of a real table most genes are chosen. ``min_communality`` sets
# a minimum; which genes pass the test stays as it was.

for least in (0.0, 0.6, 0.8):
    chosen = FDRPCA(min_communality=least).fit(X)
    print(f"sharing at least {least:.1f} of their variance: {chosen.n_selected_} genes")

# %%
# Is it more than chance? Shuffle every gene by itself: variances stay, structure goes.

rng = np.random.default_rng(0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that nothing is chosen is what it warns of
    shuffled = FDRPCA().fit(rng.permuted(X.to_numpy(), axis=0))
print(f"{shuffled.n_selected_} of {X.shape[1]} shuffled genes chosen")

# %%
# The patients on the first two components of these genes. The diagnosis was not used.

ScoresDisplay.from_estimator(model, X, label=diagnosis)
plt.show()
