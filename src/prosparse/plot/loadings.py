"""Loadings of the selected variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..data import Array
from ..findings import Findings
from .axes import Style, height_of_names, secure_size, write_message, write_names
from .display import Display, Names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class LoadingsDisplay(Display):
    """Heat map of the loadings of the selected variables, largest first.

    Parameters
    ----------
    components : array of shape (n_components, n_selected)
        Loadings of the selected variables.
    names : array of shape (n_selected,)
        Names of the selected variables.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage
        Heat map, if there are loadings.
    """

    attribute = "components_"
    part = "loadings"

    components: Array
    names: Names

    @classmethod
    def _read(cls, findings: Findings) -> Self:
        by_norm = np.argsort(-np.linalg.norm(findings.loadings, axis=0), kind="stable")
        selected = by_norm[findings.support[by_norm]]
        return cls(findings.loadings[:, selected], [findings.names[k] for k in selected])

    def plot(self, ax: Axes | None = None, *, max_features: int | None = 40, **image: Any) -> Self:
        """Draw into ``ax``, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        max_features : int or None, default=40
            Maximum number of variables, the largest loadings first. None draws all.
        **image : dict
            Keyword arguments of Matplotlib's ``imshow``.

        Returns
        -------
        LoadingsDisplay
        """
        components, names = self.components[:, :max_features], self.names[:max_features]
        ax = self._set_axes(ax, 3.8 + height_of_names(names))
        if not components.size:
            write_message(ax, "no variable was selected: there are no loadings")
            ax.set_axis_off()
            return self
        largest = float(np.max(np.abs(components), initial=0.0)) or 1.0
        style: Style = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest, "aspect": "auto"}
        self.image_ = ax.imshow(components, **(style | image))
        d, q = components.shape
        write_names(ax, names, otherwise=f"{q:,} variables, largest loadings first")
        ax.set_yticks(np.arange(d), np.arange(1, d + 1))
        ax.set(ylabel="component")
        self.figure_.colorbar(self.image_, ax=ax, label="loading")
        secure_size(ax)
        return self
