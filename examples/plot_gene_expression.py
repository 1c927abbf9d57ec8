"""
Select genes from few samples
=============================

Gene expression data have many more variables than samples. :class:`~prosparse.FDRPCA` tests each
gene for association with the principal components of the other genes, at a false discovery rate
of 5 %.

If the folder ``PROSPARSE_DATA`` contains the data of Golub et al. (1999), the example uses their 38
leukaemia patients and 3,051 genes. Otherwise, it simulates data in which 150 genes depend on four
factors, and one factor separates two diagnoses.
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
    print("leukaemia data of Golub et al. (1999)")
else:
    rng = np.random.default_rng(0)
    diagnosis = np.repeat(["ALL", "AML"], [27, 11])
    factors = rng.standard_normal((38, 4))
    factors[:, 0] += np.where(diagnosis == "ALL", -1.5, 1.5)
    loadings = np.zeros((4, 3051))
    loadings[:, rng.permutation(3051)[:150]] = 0.7 * rng.standard_normal((4, 150))
    X = pd.DataFrame(factors @ loadings + 0.5 * rng.standard_normal((38, 3051)))
    X.columns = [f"gene {k}" for k in range(3051)]
    print("simulated data: 150 of 3,051 genes depend on four factors")

model = FDRPCA().fit(X)
print(f"{model.n_selected_} of {X.shape[1]} genes share significant variance with others")

# %%
# The left plot shows the communality of all genes and its null expectation, which is large in small
# samples. The right plot shows the 30 genes with the largest communalities.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
CommunalityDisplay.from_estimator(model, ax=left)
CommunalityDisplay.from_estimator(model, max_features=30, ax=right)
plt.show()

# %%
# Statistical significance does not imply a large effect. ``min_communality`` requires a minimum
# communality and does not change the test.

for minimum in (0.0, 0.6, 0.8):
    strong = FDRPCA(min_communality=minimum).fit(X)
    print(f"communality of at least {minimum:.1f}: {strong.n_selected_} genes")

# %%
# Permuting each column independently removes the shared variance.

rng = np.random.default_rng(0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # NoStructureWarning
    permuted = FDRPCA().fit(rng.permuted(X.to_numpy(), axis=0))
print(f"{permuted.n_selected_} of {X.shape[1]} permuted genes selected")

# %%
# The plot shows the scores of the patients on the first two components. The fit did not use the
# diagnosis.

ScoresDisplay.from_estimator(model, X, label=diagnosis)
plt.show()
