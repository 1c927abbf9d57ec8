"""Scores of the rows on two components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from ..data import Array
from ..data.arrays import to_numpy, to_numpy_if_foreign
from ..findings import Findings, scores_of
from ..models._base import VariableSelector
from .axes import (
    CHARACTER_WIDTH,
    LINE_HEIGHT,
    MAX_NAME_LENGTH,
    MIN_NAME_LENGTH,
    PATH,
    SELECTED,
    Style,
    finish,
    shorten_all,
    size_in_inches,
    write_message,
)
from .display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection

OTHER_GROUPS = "0.75"  # colour
MAX_GROUPS = 20  # maximum number of groups with distinct colours
MAX_INSIDE = 8  # maximum number of groups in a legend inside the plot


class ScoresDisplay(Display):
    """Scores of the rows on two components, optionally with variables as arrows.

    Parameters
    ----------
    scores : array of shape (n_samples, n_components)
        Scores of the rows.
    loadings : array of shape (2, n_arrows), default=None
        Loadings of the variables that are drawn as arrows.
    names : sequence of str, default=()
        Names of these variables.
    pair : tuple of two int, default=(0, 1)
        Indices of the components.
    label : array of shape (n_samples,), default=None
        Values or group labels that colour the rows. Floats, and more than 20 different integers,
        give a colour bar. With more than 20 groups, the smallest groups are drawn in grey.
    explained_variance_ratio : array of shape (n_components,), default=None
        Proportion of the variance that each component explains, written next to its name.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    points_ : list of matplotlib PathCollection
        One collection per group, the remaining groups last.
    """

    attribute = "components_"
    points_: list[PathCollection]

    def __init__(
        self,
        scores: Array,
        loadings: Array | None = None,
        names: Sequence[str] | np.ndarray = (),
        pair: tuple[int, int] = (0, 1),
        label: ArrayLike | None = None,
        explained_variance_ratio: Array | None = None,
    ) -> None:
        self.scores = to_numpy(scores)
        self.loadings = None if loadings is None else to_numpy(loadings)
        self.names = np.asarray(names, dtype=object)
        self.pair = pair
        self.label = None if label is None else np.asarray(to_numpy_if_foreign(label))
        ratio = explained_variance_ratio
        self.explained_variance_ratio = None if ratio is None else to_numpy(ratio)

    @classmethod
    def from_estimator(  # type: ignore[override]
        cls,
        estimator: VariableSelector,
        X: Any,
        *,
        components: tuple[int, int] = (0, 1),
        label: ArrayLike | None = None,
        biplot: bool = False,
        max_features: int = 10,
        covariates: Any = None,
        ax: Axes | None = None,
        **points: Any,
    ) -> Self:
        """Draw ``transform(X)`` of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted estimator with components.
        X : array-like of shape (n_samples, n_features)
            Data matrix.
        components : tuple of two int, default=(0, 1)
            Indices of the components. A single component is drawn against the rows.
        label : array of shape (n_samples,), default=None
            Values or group labels that colour the rows.
        biplot : bool, default=False
            Whether variables are drawn as arrows.
        max_features : int, default=10
            Maximum number of arrows, the longest first.
        covariates : DataFrame or array-like of shape (n_samples, n_covariates), default=None
            Covariates of the rows, for an estimator that was fitted with covariates.
        ax : matplotlib Axes, default=None
            Axes to draw into. By default, a new figure is created.
        **points : dict
            Keyword arguments of Matplotlib's ``scatter``.

        Returns
        -------
        ScoresDisplay
        """
        findings = cls._findings(estimator)
        scores = scores_of(estimator, X, covariates)
        assert scores is not None
        pair = components if scores.shape[1] > 1 else (0, 0)
        loadings, names = None, findings.names
        if biplot and scores.shape[1] > 1:
            both = findings.loadings[list(pair)]
            longest = np.argsort(-np.linalg.norm(both, axis=0), kind="stable")[:max_features]
            longest = longest[np.any(both[:, longest] != 0, axis=0)]
            loadings, names = both[:, longest], [names[k] for k in longest]
        ratio = vars(estimator).get("explained_variance_ratio_")
        if ratio is not None and not np.all(np.isfinite(to_numpy(ratio))):
            ratio = None
        return cls(scores, loadings, names, pair, label, ratio).plot(ax, **points)

    @classmethod
    def is_available(cls, findings: Findings) -> bool:
        return not findings.regression

    @classmethod
    def _read(cls, findings: Findings) -> Self:
        raise TypeError("Scores need a data matrix: use `from_estimator(estimator, X)`.")

    def plot(
        self, ax: Axes | None = None, *, label: ArrayLike | None = None, **points: Any
    ) -> Self:
        """Draw into ``ax``, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        label : array of shape (n_samples,), default=None
            Values or group labels that replace those given before.
        **points : dict
            Keyword arguments of Matplotlib's ``scatter``.

        Returns
        -------
        ScoresDisplay
        """
        colouring = _Colouring.from_label(
            self.label if label is None else np.asarray(to_numpy_if_foreign(label))
        )
        ax = self._set_axes(ax, extra_width=colouring.legend_width)
        self.points_ = []
        if self.scores.shape[1] == 0:
            write_message(ax, "no variable was selected: there are no components")
            ax.set_axis_off()
            return self
        first, second = self.pair
        single = self.scores.shape[1] == 1
        x = np.arange(1, self.scores.shape[0] + 1) if single else self.scores[:, first]
        y = self.scores[:, second]
        style: Style = {"s": 18, "alpha": 0.8, "linewidths": 0} | points
        if colouring.values is not None:
            self.points_.append(ax.scatter(x, y, c=colouring.values, **style))
            self.figure_.colorbar(self.points_[0], ax=ax)
        elif colouring.names:
            self._draw_groups(ax, colouring, x, y, style)
        else:
            self.points_.append(ax.scatter(x, y, **{"color": PATH, **style}))
        if self.loadings is not None and self.loadings.size:
            self._draw_arrows(ax, self.loadings, x, y)
        ax.set(
            xlabel="row" if single else self._component_label(first),
            ylabel=self._component_label(second),
        )
        finish(ax)
        return self

    def _component_label(self, component: int) -> str:
        name = f"component {component + 1}"
        if self.explained_variance_ratio is None:
            return name
        return f"{name} ({self.explained_variance_ratio[component]:.1%} of the variance)"

    def _draw_groups(
        self, ax: Axes, colouring: _Colouring, x: np.ndarray, y: np.ndarray, style: Style
    ) -> None:
        """Draw each group in its colour; a long legend is placed outside the plot."""
        from matplotlib import colormaps

        width, height = size_in_inches(ax)
        outside = len(colouring.names) > MAX_INSIDE
        n_lines = int(height / LINE_HEIGHT)
        names, codes = colouring.largest_groups(min(MAX_GROUPS, max(1, n_lines - 1)))
        # The ten saturated colours come first; the ten light ones have another marker.
        palette = colormaps["tab20"].colors  # type: ignore[attr-defined]
        colours = [*palette[::2], *palette[1::2]]
        length = min(MAX_NAME_LENGTH, int((0.28 if outside else 0.4) * width / CHARACTER_WIDTH))
        for code, label in enumerate(shorten_all(names, max(length, MIN_NAME_LENGTH))):
            rows = codes == code
            group: Style = {"color": colours[code], "marker": "o" if code < 10 else "^"}
            self.points_.append(ax.scatter(x[rows], y[rows], label=label, **(group | style)))
        rest = codes == len(names)
        if rest.any():
            label = f"others ({len(colouring.names) - len(names)} groups)"
            label = label if len(label) <= length else "others"
            group = {"color": OTHER_GROUPS, "zorder": 0.9}
            self.points_.append(ax.scatter(x[rest], y[rest], label=label, **(group | style)))
        if length < MIN_NAME_LENGTH or n_lines < 2:
            return  # a legend would be illegible
        if outside:
            location: Style = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "fontsize": 8}
            ax.legend(frameon=False, borderaxespad=0.0, labelspacing=0.2, **location)
        else:
            ax.legend(frameon=False)

    def _draw_arrows(self, ax: Axes, arrows: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        """Draw variables as arrows, scaled to the range of the scores."""
        reach = 0.9 * min(np.max(np.abs(x)), np.max(np.abs(y)))
        arrows = arrows * reach / np.max(np.linalg.norm(arrows, axis=0))
        length = int(0.4 * size_in_inches(ax)[0] / 0.08)
        length = max(MIN_NAME_LENGTH, min(MAX_NAME_LENGTH, length))
        for (dx, dy), name in zip(arrows.T, shorten_all(self.names, length), strict=True):
            ax.annotate("", (dx, dy), (0, 0), arrowprops={"arrowstyle": "->", "color": SELECTED})
            ax.annotate(name, (1.06 * dx, 1.06 * dy), color=SELECTED, ha="center")


class _Colouring(NamedTuple):
    """Colouring of the rows: by values, by groups, or neither."""

    names: list[str]
    codes: np.ndarray  # (n_samples,) index of each row's group in ``names``
    values: np.ndarray | None = None  # (n_samples,)

    @classmethod
    def from_label(cls, label: np.ndarray | None) -> _Colouring:
        no_codes = np.zeros(0, dtype=int)
        if label is None:
            return cls([], no_codes)
        if label.dtype.kind not in "iuf":
            label = label.astype(str)
        values, codes = np.unique(label, return_inverse=True)
        if label.dtype.kind == "f" or (label.dtype.kind in "iu" and values.size > MAX_GROUPS):
            return cls([], no_codes, label)
        return cls([str(value) for value in values], codes)

    @property
    def legend_width(self) -> float:
        """Width in inches of a legend outside the plot."""
        if len(self.names) <= MAX_INSIDE:
            return 0.0
        return 0.4 + CHARACTER_WIDTH * max(map(len, shorten_all(self.names)))

    def largest_groups(self, count: int) -> tuple[list[str], np.ndarray]:
        """Return the names of the largest groups, and codes of all rows.

        Rows of all other groups have the code ``count``.
        """
        if len(self.names) <= count:
            return self.names, self.codes
        sizes = np.bincount(self.codes)
        largest = np.sort(np.argsort(-sizes, kind="stable")[:count])
        new_code = np.full(len(self.names), count)
        new_code[largest] = np.arange(count)
        return [self.names[k] for k in largest], new_code[self.codes]
