"""`Panel`: few variables that do the work of all."""

from .estimator import Panel

__all__ = ["Panel"]
