"""A minimal method and its description.

``python -m pytest -p toy_method`` registers it like the methods of the library.
"""

import numpy as np

from prosparse.models._base import SparseProjection
from prosparse.models.description import Method, Option, PathAttributes
from prosparse.registry import METHODS


class Widest(SparseProjection):
    """PCA of the columns with the largest variance."""

    def __init__(self, n_components=1, *, n_widest=4):
        self.n_components, self.n_widest = n_components, n_widest

    def fit(self, X, y=None):
        with self._fitting():
            op, columns = self._standardise(X, False)
            n, p = op.shape
            centred, W = op.matmul(np.eye(p)), np.zeros((self.n_components, p))
            wide = np.argsort(-np.sum(centred**2, axis=0))[: self.n_widest]
            axes = np.linalg.svd(centred[:, wide], full_matrices=False)[2]
            W[:, wide] = axes[: self.n_components]
            self._set_components(op, columns, W, float(n))
            self.sizes_ = np.arange(1, p + 1)
            self.heights_ = -((self.sizes_ - self.n_selected_) ** 2.0)
        return self


METHOD = Method(
    "widest",
    Widest,
    example={"n_components": 2},
    grid={"n_widest": [4, 5]},
    options=(Option("widest", "n_widest", "number of columns", type=int, minimum=1),),
    explanations=(lambda model, path, n_selected: f"the {n_selected} widest were requested",),
    path=PathAttributes("sizes_", "heights_", x_label="width", y_label="height", evidence=True),
)


def pytest_configure():
    METHODS["Widest"] = METHOD
