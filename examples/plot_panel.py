"""
Predict an image from twenty pixels
===================================

Suppose that a sensor can read only 20 of the 64 pixels of an image of a digit. The 20 pixels with
the largest communalities are redundant, because neighbouring pixels are correlated.
:class:`~prosparse.Panel` selects each pixel by the prediction that it adds to the preceding ones,
and evaluates the panel on held-out rows.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from prosparse import FDRPCA, Panel
from prosparse.plot import PanelDisplay

X, digit = load_digits(return_X_y=True, as_frame=True)
train, test = train_test_split(X, test_size=0.3, random_state=0)
model = Panel(20).fit(train)
print("order of selection:", *model.feature_names_in_[model.order_])

# %%
# The left plot shows the held-out R² against the number of pixels, both absolute and relative to
# prediction from all pixels. The right plot shows the R² of each pixel as the panel grows from top
# to bottom.

PanelDisplay.from_estimator(model)
plt.show()

# %%
# The panel covers the whole image. The 20 pixels with the largest communalities are redundant and
# omit the centre.

redundant = np.argsort(-FDRPCA().fit(train).communality_)[:20]
selections = {"Panel": model.order_, "largest communality": redundant}
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for ax, (title, pixels) in zip(axes, selections.items(), strict=False):
    ax.imshow(train.mean().to_numpy().reshape(8, 8), cmap="Greys", vmax=30)
    ax.scatter(pixels % 8, pixels // 8, s=90, color="#c2410c")
    for rank, pixel in enumerate(pixels, start=1):
        ax.annotate(
            str(rank), (pixel % 8, pixel // 8), ha="center", va="center", color="w", fontsize=7
        )
    ax.set_title(title)
    ax.set_axis_off()
axes[2].imshow(model.heldout_r2_.reshape(8, 8), cmap="Blues", vmin=0, vmax=1)
axes[2].set_title("held-out R²")
axes[2].set_axis_off()
plt.show()

# %%
# The plot shows test images (top), the 20 pixels of the panel (middle) and the images reconstructed
# from these pixels (bottom).

reconstructed = model.inverse_transform(model.transform(test))
reconstructed[:, model.support_] = test.to_numpy()[:, model.support_]  # measured pixels
rng = np.random.default_rng(0)
shown = [rng.choice(np.flatnonzero(digit[test.index] == number)) for number in range(10)]
figure, axes = plt.subplots(3, 10, figsize=(9, 3), layout="constrained")
for column, row in zip(axes.T, shown, strict=True):
    image = test.to_numpy()[row]
    for ax, values in zip(
        column, (image, np.where(model.support_, image, np.nan), reconstructed[row])
    ):
        ax.imshow(values.reshape(8, 8), cmap="Blues", vmin=0, vmax=16)
        ax.set_xticks([])
        ax.set_yticks([])
plt.show()

# %%
# The output compares the test R² of both selections. It also shows the proportion of unmeasured
# pixels within 1.96 standard deviations of their prediction.

other = Panel(20, include=redundant).fit(train)
prediction, deviation = model.predict_unmeasured(model.select(test), return_std=True)
inside = np.abs(test.to_numpy()[:, ~model.support_] - prediction) <= 1.96 * deviation
print(f"test R²: {model.score(test):.2f}; largest communality: {other.score(test):.2f}")
print(f"within the 95 % intervals: {inside.mean():.1%}")
