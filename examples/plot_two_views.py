"""
Analyse two views of the same samples
=====================================

:class:`~prosparse.SCA` explains several views of the same samples by sparse factors, which are
shared by the views or private to one view. It can predict one view from another.

If the folder ``PROSPARSE_DATA`` contains the data, the example uses 120 genes and 21 lipids
measured in the livers of 40 mice (Martin et al. 2007). Otherwise, it simulates data with two shared
factors and one private factor of the genes.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from prosparse import SCA

file = Path(os.environ.get("PROSPARSE_DATA", ".")) / "nutrimouse_40.npz"
if file.is_file():
    with np.load(file, allow_pickle=False) as table:
        genes, lipids, group = table["gene"], table["lipid"], table["y_genotype"]
    print("genes and lipids of 40 mice of two genotypes")
else:
    rng = np.random.default_rng(0)
    group = np.repeat(["ppar", "wt"], 20)
    shared = rng.standard_normal((40, 2))
    shared[:, 0] += np.where(group == "wt", 1.0, -1.0)
    private = rng.standard_normal((40, 1))
    to_genes = rng.standard_normal((2, 120)) * (rng.random((2, 120)) < 0.25)
    to_lipids = rng.standard_normal((2, 21)) * (rng.random((2, 21)) < 0.4)
    private_genes = rng.standard_normal((1, 120)) * (rng.random((1, 120)) < 0.3)
    genes = shared @ to_genes + private @ private_genes + 0.5 * rng.standard_normal((40, 120))
    lipids = shared @ to_lipids + 0.5 * rng.standard_normal((40, 21))
    print("simulated: 40 samples, 120 genes, 21 lipids, two shared factors")

# Standardise the columns to make the loadings of genes and lipids comparable.
genes, lipids = ((view - view.mean(axis=0)) / view.std(axis=0) for view in (genes, lipids))
train = np.arange(40) % 4 != 0
model = SCA(n_components=3, n_private=1).fit([genes[train], lipids[train]])
print(f"{model.n_components_} shared factors, private factors {model.n_private_};", end=" ")
print(f"{np.mean(model.components_ == 0):.0%} of the loadings are zero")

# %%
# The heat map shows the loadings, with the shared factors first. The line separates genes and
# lipids.

figure, ax = plt.subplots(figsize=(10, 2.8), layout="constrained")
largest = np.abs(model.components_).max()
image = ax.imshow(
    model.components_,
    aspect="auto",
    cmap="RdBu_r",
    vmin=-largest,
    vmax=largest,
    interpolation="none",
)
names = ["shared" if view < 0 else ("genes", "lipids")[view] for view in model.factor_view_]
ax.set_yticks(np.arange(len(names)), names)
ax.axvline(119.5, color="black", linewidth=0.8)
ax.set_xticks([60, 130], ["120 genes", "21 lipids"])
figure.colorbar(image, ax=ax, label="loading")
plt.show()

# %%
# The left plot compares the measured values of one lipid in held-out samples with predictions from
# the genes, with error bars of two standard deviations. The right plot shows the scores of the
# first two factors.

prediction = model.predict_view([genes[~train], None], target=1)
error = np.mean((lipids[~train] - prediction.mean) ** 2)
print(f"mean squared error of held-out lipids {error:.2f}; of the mean", end=" ")
print(f"{np.mean((lipids[~train] - lipids[train].mean(axis=0)) ** 2):.2f}")

best = int(np.argmin(prediction.variance[0]))  # the lipid with the smallest predictive variance
scores = model.transform([genes, lipids])
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.errorbar(
    prediction.mean[:, best],
    lipids[~train, best],
    xerr=2 * np.sqrt(prediction.variance[:, best]),
    fmt="o",
    color="#1e4e79",
    ecolor="#9ab0c4",
)
left.axline((0, 0), slope=1, color="0.6", linestyle=":")
left.set(xlabel="predicted from the genes", ylabel="measured", title="one lipid, held-out samples")
for name in np.unique(group):
    members = group == name
    right.scatter(scores[members, 0], scores[members, 1], label=name)
right.legend(frameon=False)
right.set(xlabel="factor 1", ylabel="factor 2", title="all samples")
plt.show()
