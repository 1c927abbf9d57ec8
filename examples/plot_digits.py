"""
Which pixels matter?
====================

1,797 handwritten digits of 8 x 8 pixels, which ship with scikit-learn. PCA uses every pixel that
ever varies. :class:`~prosparse.GSPPCA` finds the set of pixels that carries the common structure
of all images, and makes components of these alone.
"""

# sphinx_gallery_thumbnail_number = 3
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from prosparse import GSPPCA
from prosparse.plot import EvidenceDisplay

X, digit = load_digits(return_X_y=True, as_frame=True)
model = GSPPCA(n_components=5).fit(X)
dense = PCA(n_components=5).fit(X)
print(f"{model.n_selected_} of {X.shape[1]} pixels hold", end=" ")
print(f"{model.explained_variance_ratio_.sum():.0%} of the variance in 5 components;", end=" ")
print(f"all of them {dense.explained_variance_ratio_.sum():.0%}.")

# %%
# Why that many: the evidence of every number of pixels.

EvidenceDisplay.from_estimator(model)
plt.show()

# %%
# Where they are. Left the mean image, then the relevance of each pixel, then those that were
# chosen.

figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
pictures = {
    "mean of all digits": X.mean().to_numpy(),
    "relevance": model.relevance_,
    "chosen": model.support_.astype(float),
}
for ax, (title, values) in zip(axes, pictures.items(), strict=True):
    ax.imshow(values.reshape(8, 8), cmap="Blues")
    ax.set_title(title)
    ax.set_axis_off()
plt.show()

# %%
# The components. Above PCA, below GSPPCA: white is exactly zero.

largest = np.abs(np.vstack([dense.components_, model.components_])).max()
figure, axes = plt.subplots(2, 5, figsize=(9, 3.8), layout="constrained")
for row, components in zip(axes, (dense.components_, model.components_), strict=True):
    for ax, component in zip(row, components, strict=True):
        ax.imshow(component.reshape(8, 8), cmap="RdBu_r", vmin=-largest, vmax=largest)
        ax.set_xticks([])
        ax.set_yticks([])
axes[0, 0].set_ylabel("PCA")
axes[1, 0].set_ylabel("GSPPCA")
plt.show()
