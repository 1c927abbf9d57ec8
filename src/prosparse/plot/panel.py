"""Plots of the held-out R² of panels and of the R² of each variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..data import Array
from ..findings import Findings
from ..models._base import VariableSelector
from .axes import (
    CHARACTER_WIDTH,
    LINE_HEIGHT,
    MAX_NAME_LENGTH,
    MAX_NAMES,
    MIN_NAME_LENGTH,
    PATH,
    SELECTED,
    Style,
    finish,
    secure_size,
    shorten_all,
    size_in_inches,
    write_names,
)
from .display import Display, Names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class PanelDisplay(Display):
    """Held-out R² against the size of the panel, and R² of each variable.

    The left plot shows the held-out R² of panels of 1, 2, ... variables with its standard
    deviation, and the R² of the other variables relative to prediction from all variables. The heat
    map on the right shows how the R² of each variable increases as members are added.

    Parameters
    ----------
    heldout_r2_path : array of shape (n_sizes,)
        Held-out R² of all variables for panels of 1, 2, ... variables.
    heldout_r2_path_std : array of shape (n_sizes,)
        Standard deviation of ``heldout_r2_path`` over the folds.
    relative_r2_path : array of shape (n_sizes,)
        R² of the other variables, relative to prediction from all variables.
    attainable_r2 : float
        Mean R² of a variable predicted from all others.
    target_recovery : float or None
        Relative R² that determined the size. None if the size was given.
    n_selected : int
        Size of the panel.
    r2 : array of shape (n_shown, n_columns)
        R² of each drawn variable given the first, the first two, ... members.
    selected_names : array of shape (n_shown,)
        Names of the members in the order of selection.
    column_names : array of shape (n_columns,)
        Names of the drawn variables.
    proxy : int array of shape (n_columns,)
        Row of ``r2`` of the member that best predicts each variable; non-decreasing.
    n_features : int
        Number of all variables.

    Attributes
    ----------
    ax_ : array of two matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        Held-out R².
    band_ : matplotlib FillBetweenPolyCollection
        Standard deviation of the held-out R².
    relative_line_ : matplotlib Line2D
        Relative R².
    attainable_line_ : matplotlib Line2D
        Attainable R².
    image_ : matplotlib AxesImage
        R² of each variable.
    """

    attribute = "heldout_r2_path_"
    part = "reconstruction"
    n_axes = 2

    heldout_r2_path: Array
    heldout_r2_path_std: Array
    relative_r2_path: Array
    attainable_r2: float
    target_recovery: float | None
    n_selected: int
    r2: Array
    selected_names: Names
    column_names: Names
    proxy: Array
    n_features: int

    @classmethod
    def from_estimator(
        cls,
        estimator: VariableSelector,
        *,
        max_features: int = 30,
        ax: Sequence[Axes] | None = None,
        **image: Any,
    ) -> Self:
        """Draw a fitted `Panel`.

        Parameters
        ----------
        estimator : Panel
            Fitted panel.
        max_features : int, default=30
            Maximum number of members in the heat map, in the order of selection.
        ax : sequence of two matplotlib Axes, default=None
            Axes to draw into. By default, a new figure is created.
        **image : dict
            Keyword arguments of Matplotlib's ``imshow``.

        Returns
        -------
        PanelDisplay
        """
        return cls._read(cls._findings(estimator), max_features).plot(ax, **image)

    @classmethod
    def _read(cls, findings: Findings, max_features: int = 30) -> Self:
        found = findings.reconstruction
        assert found is not None
        members = found.order[:max_features]
        position = np.full(len(findings.names) + 1, -1)  # the last entry stands for a missing proxy
        position[members] = np.arange(members.size)
        row = position[found.proxy]
        drawn = np.flatnonzero(row >= 0)
        # Each member precedes the variables that it predicts.
        drawn = drawn[np.lexsort((-found.heldout_r2[drawn], row[drawn]))]
        return cls(
            found.heldout_r2_path,
            found.heldout_r2_path_std,
            found.relative_r2_path,
            found.attainable_r2,
            found.target_recovery,
            findings.n_selected,
            np.cumsum(found.incremental_r2(members.size), axis=0)[:, drawn],
            [findings.names[k] for k in members],
            [findings.names[k] for k in drawn],
            row[drawn],
            len(findings.names),
        )

    def plot(self, ax: Sequence[Axes] | None = None, **image: Any) -> Self:
        """Draw into two Axes, or into a new figure.

        Parameters
        ----------
        ax : sequence of two matplotlib Axes, default=None
        **image : dict
            Keyword arguments of Matplotlib's ``imshow``.

        Returns
        -------
        PanelDisplay
        """
        longest = max(map(len, shorten_all(self.column_names)))
        height = max(4.0, 1.6 + 0.16 * self.selected_names.size)
        height += 0.07 * longest if self.column_names.size <= MAX_NAMES else 0.0
        left, right = self._set_axes(ax, height)
        self._draw_path(left)
        self._draw_r2(right, image)
        return self

    def _draw_path(self, ax: Axes) -> None:
        size = np.arange(1, self.heldout_r2_path.size + 1)
        mean, std = self.heldout_r2_path, self.heldout_r2_path_std
        marker = "." if size.size <= MAX_NAMES else ""
        (self.line_,) = ax.plot(size, mean, color=PATH, marker=marker, label="R² of all variables")
        self.band_ = ax.fill_between(
            size, mean - std, mean + std, color=PATH, alpha=0.2, linewidth=0
        )
        (self.relative_line_,) = ax.plot(
            size,
            self.relative_r2_path,
            color=PATH,
            linestyle="--",
            linewidth=1,
            label="R² of the others, relative to all variables",
        )
        self.attainable_line_ = ax.axhline(
            self.attainable_r2,
            color="0.4",
            linestyle=":",
            linewidth=1,
            label=f"R² given all others: {self.attainable_r2:.2f}",
        )
        if self.target_recovery is not None:
            ax.axhline(
                self.target_recovery,
                color=SELECTED,
                linestyle="--",
                linewidth=0.8,
                label=f"target recovery: {self.target_recovery:g}",
            )
        self._annotate_size(ax, n_sizes=size.size)
        ax.set(xlabel="number of variables", ylabel="held-out R²")
        ax.set_ylim(min(0.0, float(np.min(mean - std))), 1.04)
        ax.locator_params(axis="x", integer=True)
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), fontsize=8)
        finish(ax)

    def _annotate_size(self, ax: Axes, n_sizes: int) -> None:
        r2 = float(self.heldout_r2_path[self.n_selected - 1])
        on_the_right = self.n_selected > 0.6 * n_sizes
        ax.plot([self.n_selected], [r2], "o", color=SELECTED, zorder=3)
        ax.annotate(
            f"{self.n_selected} variables: {r2:.2f}",
            (self.n_selected, r2),
            textcoords="offset points",
            xytext=(0, -38) if on_the_right else (6, -16),
            ha="right" if on_the_right else "left",
            color=SELECTED,
            bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1.0},
        )

    def _draw_r2(self, ax: Axes, image: Style) -> None:
        from matplotlib.colors import PowerNorm

        style: Style = {"cmap": "Blues", "aspect": "auto"}
        if not {"vmin", "vmax", "norm"} & set(image):
            # Most values are far below 1, the value of the members.
            style["norm"] = PowerNorm(0.5, 0.0, 1.0)
        self.image_ = ax.imshow(self.r2, **(style | image))
        n_rows, n_columns = self.r2.shape
        width, height = size_in_inches(ax)
        length = min(MAX_NAME_LENGTH, int(0.35 * width / CHARACTER_WIDTH))
        if length >= MIN_NAME_LENGTH and n_rows * 0.8 * LINE_HEIGHT <= height:
            ax.set_yticks(np.arange(n_rows), shorten_all(self.selected_names, length), fontsize=8)
        else:
            ax.set_yticks([])
        write_names(ax, self.column_names, otherwise="", rotation=90)
        n_omitted = self.n_features - n_columns
        omitted = f"\n({n_omitted:,} others are not drawn)" if n_omitted else ""
        ax.set_xlabel(f"{n_columns:,} variables, grouped by proxy{omitted}", fontsize=9)
        ax.set_ylabel("members, in order of selection", fontsize=9)
        for edge in np.flatnonzero(np.diff(self.proxy)) + 0.5:
            ax.axvline(edge, color="0.75", linewidth=0.4)
        self.figure_.colorbar(self.image_, ax=ax, label="R² given the members so far")
        secure_size(ax)
