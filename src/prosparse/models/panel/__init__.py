"""Selection of a small panel of variables that predicts all others."""

from .estimator import Panel

__all__ = ["Panel"]
