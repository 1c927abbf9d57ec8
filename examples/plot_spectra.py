"""
Fit non-negative components to spectra
======================================

The spectrum of a mixture is a non-negative combination of the spectra of its substances. Sparse
non-negative components resemble such spectra, whereas the components of PCA have negative loadings.
:class:`~prosparse.EMPCA` fits components with a given number of non-negative loadings and bounds
their distance from the optimum.

If the folder ``PROSPARSE_DATA`` contains the data, the example uses 873 NMR spectra of urine
(Assfalg et al. 2008). Otherwise, it simulates 200 spectra of five substances.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from prosparse import EMPCA

file = Path(os.environ.get("PROSPARSE_DATA", ".")) / "nmr_metref_urine_873x450.npz"
if file.is_file():
    with np.load(file, allow_pickle=False) as table:
        spectra = table["X"].astype(float)
    print("873 NMR spectra of urine, 450 bins")
else:
    rng = np.random.default_rng(0)
    position = np.arange(450)
    substances = np.zeros((5, 450))
    for number in range(5):
        for peak in rng.choice(430, 3, replace=False) + 10:
            substances[number] += rng.uniform(0.5, 1.5) / (1 + ((position - peak) / 1.5) ** 2)
    amounts = rng.gamma(2.0, 1.0, size=(200, 5)) * [2.0, 1.6, 1.3, 0.8, 0.5]
    spectra = amounts @ substances + 0.1 * rng.standard_normal((200, 450))
    print("200 simulated spectra of five substances, 450 bins")

model = EMPCA(n_components=3, n_nonzero=25, nonnegative=True, random_state=0).fit(spectra)
dense = PCA(n_components=3).fit(spectra)
for number, (ratio, gap) in enumerate(
    zip(model.explained_variance_ratio_, model.optimality_gap_, strict=True), start=1
):
    print(f"component {number}: explained variance {ratio:.0%}, optimality gap {gap:.0%}")
print(f"sum: {model.explained_variance_ratio_.sum():.0%};", end=" ")
print(f"PCA: {dense.explained_variance_ratio_.sum():.0%}")

# %%
# The plots show the mean spectrum, the components of PCA, and the components of ``EMPCA``.

figure, axes = plt.subplots(3, 1, figsize=(9, 6.5), sharex=True, layout="constrained")
axes[0].plot(spectra.mean(axis=0), color="0.3", linewidth=0.9)
axes[0].set_ylabel("mean spectrum")
for ax, components, title in (
    (axes[1], dense.components_, "PCA"),
    (axes[2], model.components_, "EMPCA"),
):
    for number, component in enumerate(components, start=1):
        ax.plot(component, linewidth=0.9, label=f"component {number}")
    ax.axhline(0, color="0.6", linewidth=0.5)
    ax.set_ylabel(f"{title}\nloading")
axes[2].legend(frameon=False, ncols=3)
axes[2].set_xlabel("bin")
plt.show()

# %%
# The plot shows the explained variance against the number of loadings. ``EMPCA.path`` starts each
# search from the solutions for neighbouring numbers.

sizes = [1, 2, 5, 10, 25, 50, 100]
path = EMPCA(nonnegative=True, random_state=0).path(spectra, sizes)
figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.plot(sizes, [fit.explained_variance_ratio_[0] for fit in path], "o-", color="#1e4e79")
ax.axhline(
    dense.explained_variance_ratio_[0], color="#c2410c", linestyle=":", label="PCA, all bins"
)
ax.set(xlabel="bins in the first component", ylabel="explained variance ratio", xscale="log")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
