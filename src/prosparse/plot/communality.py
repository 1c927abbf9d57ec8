"""Plot of the communality of the variables and its null expectation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from ..data import Array
from ..findings import Findings
from .axes import (
    NOT_SELECTED,
    SELECTED,
    finish,
    height_of_names,
    selection_labels,
    write_message,
    write_names,
)
from .display import Display, Names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class CommunalityDisplay(Display):
    """Communality of the variables, coloured by selection.

    The variables are in decreasing order of communality. A dashed line shows the null expectation.

    Parameters
    ----------
    communality : array of shape (n_features,)
        Communality of each variable.
    support : bool array of shape (n_features,)
        Mask of the selected variables.
    names : array of shape (n_features,)
        Names of the variables.
    null_communality : float
        Expected communality of a variable without shared variance.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    selected_ : matplotlib StepPatch
        Selected variables.
    not_selected_ : matplotlib StepPatch
        Other variables.
    null_line_ : matplotlib Line2D
        Null expectation, if there are components.
    """

    attribute = "communality_"
    part = "tests"

    communality: Array
    support: Array
    names: Names
    null_communality: float

    def __post_init__(self) -> None:
        super().__post_init__()
        order = np.argsort(-self.communality, kind="stable")
        self.communality, self.support = self.communality[order], self.support[order]
        self.names = self.names[order]

    @classmethod
    def _read(cls, findings: Findings) -> Self:
        tests = findings.tests
        assert tests is not None
        return cls(tests.communality, findings.support, findings.names, tests.null_communality)

    def plot(self, ax: Axes | None = None, *, max_features: int | None = None) -> Self:
        """Draw into ``ax``, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        max_features : int, default=None
            Maximum number of variables, the largest communality first. By default, all are drawn.

        Returns
        -------
        CommunalityDisplay
        """
        shown = slice(0, max_features)
        communality, support, names = (
            values[shown] for values in (self.communality, self.support, self.names)
        )
        ax = self._set_axes(ax, 3.8 + height_of_names(names))
        edges = np.arange(communality.size + 1) - 0.5
        self.selected_, self.not_selected_ = (
            ax.stairs(np.where(mask, communality, 0.0), edges, fill=True, color=colour, label=label)
            for mask, colour, label in zip(
                (support, ~support),
                (SELECTED, NOT_SELECTED),
                selection_labels(self.support),
                strict=True,
            )
        )
        if self.null_communality > 0.0:
            self.null_line_ = ax.axhline(
                self.null_communality,
                color="0.3",
                linestyle="--",
                linewidth=1,
                label="null expectation",
            )
        write_names(ax, names, otherwise="variables, largest communality first")
        if not self.support.any():
            write_message(ax, "no variable was selected")
        # The legend has a background, because bars may fill the whole plot.
        ax.legend(loc="upper right", facecolor="white", framealpha=0.9, edgecolor="none")
        ax.set(ylabel="communality", ylim=(0, 1.02), xlim=(edges[0], edges[-1]))
        finish(ax)
        return self
