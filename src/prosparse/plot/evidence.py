"""Plot of the log evidence against the number of variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from ..data import Array
from ..findings import Findings
from .axes import PATH, SELECTED, Style, annotate_point, finish
from .display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class EvidenceDisplay(Display):
    """Log evidence against the number of variables.

    The selected number is marked. If the selection maximises the log posterior, the log posterior
    is also drawn.

    Parameters
    ----------
    cardinalities : array of shape (n_models,)
        Numbers of variables.
    log_evidence : array of shape (n_models,)
        Log evidence for each number of variables.
    n_selected : int
        Selected number of variables.
    log_posterior : array of shape (n_models,), default=None
        Log evidence plus log prior.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        Log evidence.
    posterior_line_ : matplotlib Line2D
        Log posterior, if given.
    """

    attribute = "log_evidence_path_"

    cardinalities: Array
    log_evidence: Array
    n_selected: int
    log_posterior: Array | None = None

    @classmethod
    def is_available(cls, findings: Findings) -> bool:
        return findings.path is not None and findings.path.evidence

    @classmethod
    def _read(cls, findings: Findings) -> Self:
        path = findings.path
        assert path is not None
        return cls(path.x, path.y, findings.n_selected, path.posterior)

    def plot(self, ax: Axes | None = None, **line: Any) -> Self:
        """Draw into ``ax``, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        **line : dict
            Keyword arguments of Matplotlib's ``plot``.

        Returns
        -------
        EvidenceDisplay
        """
        ax = self._set_axes(ax)
        style: Style = {"color": PATH, "marker": "." if self.cardinalities.size <= 60 else ""}
        self.line_ = ax.plot(self.cardinalities, self.log_evidence, **(style | line))[0]
        decisive = self.log_evidence
        if self.log_posterior is not None:
            decisive = self.log_posterior
            style = {"color": SELECTED, "linestyle": "--", "label": "log posterior"}
            self.posterior_line_ = ax.plot(self.cardinalities, self.log_posterior, **style)[0]
            self.line_.set_label("log evidence")
            ax.legend(frameon=False)
        selected = float(decisive[self.cardinalities == self.n_selected][0])
        ax.axvline(self.n_selected, color=SELECTED, linestyle=":", linewidth=1)
        ax.plot([self.n_selected], [selected], "o", color=SELECTED, zorder=3)
        annotate_point(ax, f"{self.n_selected} variables", self.n_selected, selected)
        ylabel = "log evidence" if self.log_posterior is None else "log evidence, log posterior"
        ax.set(xlabel="number of variables", ylabel=ylabel)
        finish(ax)
        return self
