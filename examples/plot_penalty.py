"""
Select a penalty by the slope heuristic
=======================================

:class:`~prosparse.SPPCA` fits probabilistic PCA with a hundred penalties. The log-likelihood of
models that fit noise increases linearly with their dimension. The slope heuristic estimates this
slope and penalises the dimension by twice the slope. It requires no held-out data.

The simulated data contain 200 samples of 30 variables, ten of which depend on two factors.
"""

import matplotlib.pyplot as plt
import numpy as np

from prosparse import SPPCA
from prosparse.datasets import make_globally_sparse
from prosparse.plot import LoadingsDisplay, SlopeDisplay

data = make_globally_sparse(200, 30, n_components=2, noise=0.4, random_state=0)
model = SPPCA(n_components=2).fit(data.X)
print(
    f"penalty {model.penalty_:.0f}: {np.count_nonzero(model.components_)} of 60 loadings,", end=" "
)
print(f"{model.n_selected_} variables, {data.support[model.support_].sum()} of 10 informative")

# %%
# The left plot shows the log-likelihood of each support and the linear increase due to noise. The
# right plot shows the penalised criterion and its maximum.

SlopeDisplay.from_estimator(model)
plt.show()

# %%
# The heat map shows the loadings of the selected model.

LoadingsDisplay.from_estimator(model)
plt.show()
