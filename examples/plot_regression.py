"""
Select predictors in a regression
=================================

The diabetes data contain ten measurements of 442 patients. With all products and squares, there are
64 variables. :class:`~prosparse.SpinyRegressor` averages over sets of variables, weighted by their
posterior probability, and has no tuning parameters. The lasso with a cross-validated penalty
predicts about as well and selects more variables.
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
X = products.fit_transform(X).drop(columns="sex^2")  # sex has two values: its square is redundant
model = SpinyRegressor().fit(X, y)
lasso = make_pipeline(StandardScaler(), LassoCV(cv=5, max_iter=20_000, random_state=0)).fit(X, y)
print(
    f"SpinyRegressor: {model.n_selected_} of {X.shape[1]} variables:",
    ", ".join(X.columns[model.support_]),
)
print(f"lasso: {np.count_nonzero(lasso[-1].coef_)} variables")
for name, regression in (("SpinyRegressor", SpinyRegressor()), ("lasso", lasso)):
    print(f"cross-validated R², {name}: {cross_val_score(regression, X, y, cv=5).mean():.3f}")

# %%
# The plot shows the log evidence and the posterior probability of the best set of each size.

EvidenceDisplay.from_estimator(model)
plt.show()

# %%
# The plot shows posterior means of the standardised coefficients, with error bars of two posterior
# standard deviations.

selected = np.flatnonzero(model.support_)
mean = model.coef_[selected] * model.scale_[selected]
deviation = model.coef_std_[selected] * model.scale_[selected]
figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.errorbar(mean, np.arange(selected.size), xerr=2 * deviation, fmt="o", color="#1e4e79")
ax.set_yticks(np.arange(selected.size), X.columns[selected])
ax.axvline(0, color="0.6", linewidth=0.8)
ax.set_xlabel("coefficient per standard deviation")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
