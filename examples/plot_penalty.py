"""
A penalty that the data choose
==============================

:class:`~prosparse.SPPCA` fits probabilistic PCA at a hundred penalties. The larger models fit
noise, and against the right measure of size that shows as a straight line; what rises above the
line is structure. That is the slope heuristic, and it needs no held-out data.

The table is simulated: 200 samples of 30 variables, ten of which follow two factors.
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
print(f"{model.n_selected_} variables, {data.support[model.support_].sum()} of the 10 true ones")

# %%
# Left, the likelihood that each set of nonzeros can reach, with the growth that noise alone
# explains; right, the criterion and its maximum.

SlopeDisplay.from_estimator(model)
plt.show()

# %%
# The loadings that are left.

LoadingsDisplay.from_estimator(model)
plt.show()
