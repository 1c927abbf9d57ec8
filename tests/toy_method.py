"""A method in a few lines, and all that the rest of the library has to be told of it.

``python -m pytest -p toy_method`` registers it, as if it were one of ours.
"""

import numpy as np

from prosparse.models._base import SparseProjection
from prosparse.registry import METHODS, ChoicePath, Method, Option


class Widest(SparseProjection):
    """PCA of the columns that vary most."""

    def __init__(self, n_components=1, *, n_widest=4):
        self.n_components, self.n_widest = n_components, n_widest

    def fit(self, X, y=None):
        with self._fitting():
            self._fit(X)
        return self

    def _fit(self, X):
        op, columns = self._standardise(X, False)
        n, p = op.shape
        centred = op.matmul(np.eye(p))
        kept = np.argsort(-np.sum(centred**2, axis=0))[: self.n_widest]
        W = np.zeros((self.n_components, p))
        W[:, kept] = np.linalg.svd(centred[:, kept], full_matrices=False)[2][: self.n_components]
        self._set_components(op, columns, W, float(n))
        self.sizes_ = np.arange(1, p + 1)
        self.heights_ = -((self.sizes_ - self.n_selected_) ** 2.0)


METHOD = Method(
    "widest",
    Widest,
    "PCA of the columns that vary most",
    example={"n_components": 2},
    grid={"n_widest": [4, 5]},
    options=(Option("widest", "n_widest", "how many columns", kind=int, least=1),),
    explanations=(lambda model, choice, n_selected: f"the {n_selected} widest were wanted",),
    path=ChoicePath(
        "sizes_", "heights_", "n_selected_", "width", "height", "variables", evidence=True
    ),
    traces=None,
)


def pytest_configure():
    METHODS["Widest"] = METHOD
