"""Plot of the convergence of the objective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..data import Array
from ..data.arrays import to_numpy, to_numpy_if_foreign
from ..findings import Findings
from .axes import PATH, Style, finish
from .display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


class ConvergenceDisplay(Display):
    """Difference between the final objective and the objective of each iteration.

    Parameters
    ----------
    objective_path : array, or list of arrays
        Objective per iteration: one path, or one path per component.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
        One line per path.
    """

    attribute = "objective_path_"
    lines_: list[Line2D]

    def __init__(self, objective_path: Array | Sequence[Array]) -> None:
        given = to_numpy_if_foreign(objective_path)
        single = isinstance(given, np.ndarray) and given.ndim == 1
        self.paths = [to_numpy(path).astype(float) for path in ([given] if single else given)]

    @classmethod
    def is_available(cls, findings: Findings) -> bool:
        return bool(findings.objective_paths)

    @classmethod
    def _read(cls, findings: Findings) -> Self:
        return cls(findings.objective_paths)

    def plot(self, ax: Axes | None = None, **line: Any) -> Self:
        """Draw into ``ax``, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        **line : dict
            Keyword arguments of Matplotlib's ``plot``.

        Returns
        -------
        ConvergenceDisplay
        """
        ax = self._set_axes(ax)
        self.lines_ = []
        n_drawn = 0
        for k, path in enumerate(self.paths):
            difference = path[-1] - path
            shown = difference > 0  # the final value has no logarithm
            style: Style = (
                {"color": PATH} if len(self.paths) == 1 else {"label": f"component {k + 1}"}
            )
            self.lines_ += ax.plot(np.flatnonzero(shown) + 1, difference[shown], **(style | line))
            n_drawn += int(np.count_nonzero(shown))
        if len(self.paths) > 1:
            ax.legend(frameon=False)
        if n_drawn:
            ax.set_yscale("log")
        ax.set(xlabel="iteration", ylabel="final objective minus objective")
        finish(ax)
        return self
