"""
Twenty pixels that tell the rest
================================

1,797 handwritten digits of 8 x 8 pixels, which ship with scikit-learn. Suppose that a sensor can
read only 20 of the 64 pixels: which ones? Not the 20 that vary most, and not the 20 that share most
with others, since neighbours say the same. :class:`~prosparse.Panel` chooses pixels one after the
other, each for what it adds to those before, and measures in rows that were held out how much of
all pixels they tell.
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
print("In the order of their worth:", *model.feature_names_in_[model.order_])

# %%
# On the left, how much 20 pixels recover of all 64, and of what could be told of the others at all.
# On the right, from top to bottom, the chosen pixels come in; a column turns dark when its pixel is
# told.

PanelDisplay.from_estimator(model)
plt.show()

# %%
# Where they are: spread over the image. The 20 pixels that share most with others say the same
# several times, and leave a hole in the middle.

alike = np.argsort(-FDRPCA().fit(train).communality_)[:20]
places = {"Panel": model.order_, "largest communality": alike}
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
for ax, (title, chosen) in zip(axes, places.items(), strict=False):
    ax.imshow(train.mean().to_numpy().reshape(8, 8), cmap="Greys", vmax=30)
    ax.scatter(chosen % 8, chosen // 8, s=90, color="#c2410c")
    for rank, place in enumerate(chosen, start=1):
        ax.annotate(
            str(rank), (place % 8, place // 8), ha="center", va="center", color="w", fontsize=7
        )
    ax.set_title(title)
    ax.set_axis_off()
axes[2].imshow(model.heldout_r2_.reshape(8, 8), cmap="Blues", vmin=0, vmax=1)
axes[2].set_title("share recovered of each")
axes[2].set_axis_off()
plt.show()

# %%
# Digits that nobody has seen, rebuilt from 20 pixels. Above the image, in the middle what the
# sensor reads, below what is made of it.

rebuilt = model.inverse_transform(model.transform(test))
rebuilt[:, model.support_] = test.to_numpy()[:, model.support_]  # these are known
rng = np.random.default_rng(0)
shown = [rng.choice(np.flatnonzero(digit[test.index] == number)) for number in range(10)]
figure, axes = plt.subplots(3, 10, figsize=(9, 3), layout="constrained")
for column, row in zip(axes.T, shown, strict=True):
    image = test.to_numpy()[row]
    for ax, values in zip(column, (image, np.where(model.support_, image, np.nan), rebuilt[row])):
        ax.imshow(values.reshape(8, 8), cmap="Blues", vmin=0, vmax=16)
        ax.set_xticks([])
        ax.set_yticks([])
plt.show()

# %%
# How good is that, and how sure? The share of the variance that is recovered in these digits, by
# the panel and by the pixels that share most; and how many entries lie within 1.96 standard
# deviations of what was predicted.

others = Panel(20, include=alike).fit(train)
rest, deviation = model.predict_unmeasured(model.select(test), return_std=True)
inside = np.abs(test.to_numpy()[:, ~model.support_] - rest) <= 1.96 * deviation
print(f"recovered: {model.score(test):.2f}; by those that share most: {others.score(test):.2f}")
print(f"within the intervals: {inside.mean():.1%} of the entries")
