"""PCA of the columns that share structure, at a stated false discovery rate: `model`, `rows` and
the `estimator`; the test itself is `structure.search`."""

from .estimator import FDRPCA

__all__ = ["FDRPCA"]
