"""Plot of the relevance of the variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from ..data import Array
from ..findings import Findings
from .axes import draw_bars, finish, height_of_names, write_names
from .display import Display, Names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class RelevanceDisplay(Display):
    """Relevance of the variables, coloured by selection.

    The variables are in decreasing order of relevance.

    Parameters
    ----------
    relevance : array of shape (n_features,)
        Relevance of each variable, between 0 and 1.
    ranking : int array of shape (n_features,)
        Rank of each variable, 1 for the most relevant.
    support : bool array of shape (n_features,)
        Mask of the selected variables.
    names : array of shape (n_features,)
        Names of the variables.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
    """

    attribute = "relevance_"
    part = "relevance"

    relevance: Array
    ranking: Array
    support: Array
    names: Names

    def __post_init__(self) -> None:
        super().__post_init__()
        order = np.argsort(self.ranking)
        self.relevance, self.support = self.relevance[order], self.support[order]
        self.names = self.names[order]

    @classmethod
    def _read(cls, findings: Findings) -> Self:
        return cls(findings.relevance, findings.ranking, findings.support, findings.names)

    def plot(self, ax: Axes | None = None, *, max_features: int | None = None) -> Self:
        """Draw into ``ax``, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        max_features : int, default=None
            Maximum number of variables, the most relevant first. By default, all are drawn.

        Returns
        -------
        RelevanceDisplay
        """
        shown = slice(0, max_features)
        ax = self._set_axes(ax, 3.8 + height_of_names(self.names[shown]))
        self.bars_ = draw_bars(ax, self.relevance[shown], self.support[shown], self.support)
        write_names(ax, self.names[shown], otherwise="variables, most relevant first")
        ax.set(ylabel="relevance", ylim=(0, 1.02))
        finish(ax)
        return self
