"""
Select pixels of handwritten digits
===================================

The digits data of scikit-learn contain 1,797 images of 8 x 8 pixels. PCA uses every pixel.
:class:`~prosparse.FDRPCA` tests each pixel for association with the principal components of the
other pixels, estimates its communality, and fits components to the selected pixels alone.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.preprocessing import scale

from prosparse import FDRPCA
from prosparse.plot import CommunalityDisplay

X, digit = load_digits(return_X_y=True, as_frame=True)
model = FDRPCA().fit(X)
print(f"{model.n_selected_} of {X.shape[1]} pixels share significant variance with others")

# %%
# ``FDRPCA`` selects nearly all pixels, because strokes cover neighbouring pixels. The communalities
# differ strongly between pixels.

CommunalityDisplay.from_estimator(model)
plt.show()

# %%
# The images show the mean digit, the communality of each pixel, and the pixels with a communality
# of at least 0.6.

strong = FDRPCA(min_communality=0.6).fit(X)
figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
images = {
    "mean of all digits": X.mean().to_numpy(),
    "communality": model.communality_,
    f"at least 0.6 ({strong.n_selected_} pixels)": strong.support_.astype(float),
}
for ax, (title, values) in zip(axes, images.items(), strict=True):
    ax.imshow(values.reshape(8, 8), cmap="Blues")
    ax.set_title(title)
    ax.set_axis_off()
plt.show()

# %%
# The images show the first five components of PCA on all standardised pixels (top) and of
# ``FDRPCA`` on the selected pixels (bottom). White pixels have zero loadings.

dense = PCA(n_components=5).fit(scale(X))
first = strong.components_[:5]
largest = np.abs(np.vstack([dense.components_, first])).max()
figure, axes = plt.subplots(2, 5, figsize=(9, 3.8), layout="constrained")
for row, components in zip(axes, (dense.components_, first), strict=True):
    for ax, component in zip(row, components, strict=True):
        ax.imshow(component.reshape(8, 8), cmap="RdBu_r", vmin=-largest, vmax=largest)
        ax.set_xticks([])
        ax.set_yticks([])
axes[0, 0].set_ylabel("PCA")
axes[1, 0].set_ylabel("FDRPCA")
plt.show()
