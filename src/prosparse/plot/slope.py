"""Plots of the log-likelihood and the criterion along a path of penalties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from ..data import Array
from ..findings import Findings
from ..selection.slope import Slope
from .axes import NOT_SELECTED, PATH, SELECTED, annotate_point, finish
from .display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class SlopeDisplay(Display):
    """Log-likelihood and criterion along a path of penalties.

    The log-likelihood is drawn against the number of parameters, and the criterion against the
    penalty. The line through the linear part of the log-likelihood is drawn if the slope heuristic
    selected the penalty.

    Parameters
    ----------
    n_parameters : array of shape (n_models,)
        Number of parameters of each model.
    log_likelihood : array of shape (n_models,)
        Log-likelihood of each model.
    criterion : array of shape (n_models,)
        Criterion that the selected model maximises.
    penalties : array of shape (n_models,)
        Penalty of each model.
    penalty : float
        Selected penalty.
    slope : Slope, default=None
        Line through the linear part of the log-likelihood.

    Attributes
    ----------
    ax_ : array of two matplotlib Axes
    figure_ : matplotlib Figure
    """

    attribute = "log_likelihood_path_"
    part = "penalties"
    n_axes = 2

    n_parameters: Array
    log_likelihood: Array
    criterion: Array
    penalties: Array
    penalty: float
    slope: Slope | None = None

    @classmethod
    def _read(cls, findings: Findings) -> Self:
        assert findings.penalties is not None
        return cls(*findings.penalties)

    def plot(self, ax: Sequence[Axes] | None = None) -> Self:
        """Draw into two Axes, or into a new figure.

        Parameters
        ----------
        ax : sequence of two matplotlib Axes, default=None

        Returns
        -------
        SlopeDisplay
        """
        left, right = self._set_axes(ax)
        likelihood, criterion = self.log_likelihood, self.criterion
        # The nearest penalty is marked, because single precision may not represent the selected
        # penalty.
        best = int(np.lexsort((-criterion, np.abs(self.penalties - self.penalty)))[0])
        left.plot(self.n_parameters, likelihood, ".", color=PATH)
        if self.slope is not None and self.slope.n_points:
            self._draw_line(left, self.slope)
        left.plot(self.n_parameters[best], likelihood[best], "o", color=SELECTED)
        left.set(xlabel="number of parameters", ylabel="log-likelihood")
        right.plot(self.penalties, criterion, color=PATH)
        right.plot(self.penalty, criterion[best], "o", color=SELECTED)
        annotate_point(right, f"penalty {self.penalty:.3g}", self.penalty, float(criterion[best]))
        right.set(xlabel="penalty", ylabel="criterion")
        for axes in (left, right):
            finish(axes)
        return self

    def _draw_line(self, ax: Axes, slope: Slope) -> None:
        """Draw the line through the linear part of the log-likelihood.

        The line is a curve if the penalty shape is not linear in the dimension.
        """
        likelihood = self.log_likelihood
        shape = (likelihood - self.criterion) / (2.0 * slope.slope)
        order = np.argsort(self.n_parameters)
        line = slope.intercept + slope.slope * shape
        ax.plot(self.n_parameters[order], line[order], color=NOT_SELECTED, label="linear part")
        ax.set_ylim(bottom=likelihood.min() - 0.05 * np.ptp(likelihood))
        ax.legend(frameon=False, loc="lower right")
