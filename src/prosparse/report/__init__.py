"""Reports of fitted models as HTML pages and plots."""

from ..findings import Findings, findings_of
from .page import is_report, render, write_report
from .plots import write_plots

__all__ = ["Findings", "findings_of", "is_report", "render", "write_plots", "write_report"]
