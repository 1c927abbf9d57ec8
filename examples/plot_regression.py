"""
Regression that chooses its variables
=====================================

Ten measurements of 442 diabetes patients and all their products and squares, 64 variables: which
of them predict how the disease goes on? :class:`~prosparse.SpinyRegressor` weighs sets of
variables by their evidence; there is nothing to tune. The lasso, its penalty chosen by
cross-validation, predicts about as well from more variables.
"""

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LassoCV
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from prosparse import SpinyRegressor
from prosparse.plot import EvidenceDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
products = PolynomialFeatures(2, include_bias=False).set_output(transform="pandas")
X = products.fit_transform(X).drop(columns="sex^2")  # of two values: no square
model = SpinyRegressor().fit(X, y)
lasso = make_pipeline(StandardScaler(), LassoCV(cv=5, max_iter=20_000, random_state=0)).fit(X, y)
print(
    f"ours:  {model.n_selected_} of {X.shape[1]} variables:", ", ".join(X.columns[model.support_])
)
print(f"lasso: {np.count_nonzero(lasso[-1].coef_)} variables")
for name, regression in (("ours", SpinyRegressor()), ("lasso", lasso)):
    print(f"R2 on held-out patients, {name}: {cross_val_score(regression, X, y, cv=5).mean():.3f}")

# %%
# Why that many: the evidence of the sets, and what the prior of the sets makes of it.

EvidenceDisplay.from_estimator(model)
plt.show()

# %%
# The coefficients with two standard deviations, per standard deviation of the variable.

chosen = np.flatnonzero(model.support_)
size = model.coef_[chosen] * model.scale_[chosen]
deviation = model.coef_std_[chosen] * model.scale_[chosen]
figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.errorbar(size, np.arange(chosen.size), xerr=2 * deviation, fmt="o", color="#1e4e79")
ax.set_yticks(np.arange(chosen.size), X.columns[chosen])
ax.axvline(0, color="0.6", linewidth=0.8)
ax.set_xlabel("change of the response per standard deviation")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
