"""Plot of the scores of the rows on two components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2

from ..data import Array
from ..data.arrays import to_numpy_if_foreign
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
    separate_labels,
    shorten_all,
    size_in_inches,
    write_message,
)
from .display import Display, Names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OTHER_GROUPS = "0.75"  # colour
MAX_GROUPS = 20  # maximum number of groups with distinct colours
MAX_NAMED_ROWS = 8  # maximum number of rows whose names are written
TAIL = 0.05  # proportion of rows that are extreme under a normal distribution
MIN_ELLIPSE_ROWS = 4
MAX_AVOIDED = 400  # maximum number of points that labels avoid
MAX_INSIDE = 8  # maximum number of groups in a legend inside the plot


@dataclass(eq=False, repr=False)
class ScoresDisplay(Display):
    """Scores of the rows on two components, optionally with variables as arrows.

    Parameters
    ----------
    scores : array of shape (n_samples, n_components)
        Scores of the rows.
    loadings : array of shape (2, n_arrows), default=None
        Loadings of the variables drawn as arrows.
    names : sequence of str, default=()
        Names of the variables drawn as arrows.
    pair : tuple of two int, default=(0, 1)
        Indices of the components.
    label : array of shape (n_samples,), default=None
        Values or group labels by which rows are coloured. Floats, and more than 20 distinct
        integers, are shown with a colour bar. With more than 20 groups, the smallest groups are
        drawn in grey.
    explained_variance_ratio : array of shape (n_components,), default=None
        Proportion of the variance that each component explains, written next to its name.
    ids : sequence of str, default=None
        Names of the rows. The names of the most extreme rows are written next to the points.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    points_ : list of matplotlib PathCollection
        One collection per group; the remaining groups come last.
    labels_ : list of matplotlib Annotation
        Names of variables and of extreme rows.
    """

    attribute = "components_"

    scores: Array
    loadings: Array | None = None
    names: Names = ()
    pair: tuple[int, int] = (0, 1)
    label: Array | None = None
    explained_variance_ratio: Array | None = None
    ids: Names | None = None

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
        ids: Sequence[Any] | None = None,
        ellipses: bool = False,
        ax: Axes | None = None,
        **points: Any,
    ) -> Self:
        """Draw ``transform(X)`` of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted estimator with components.
        X : array-like of shape (n_samples, n_features)
            Data matrix.
        components : tuple of two int, default=(0, 1)
            Indices of the components. A single component is drawn against the row numbers.
        label : array of shape (n_samples,), default=None
            Values or group labels by which rows are coloured.
        biplot : bool, default=False
            Whether variables are drawn as arrows.
        max_features : int, default=10
            Maximum number of arrows; the longest are drawn.
        covariates : DataFrame or array-like of shape (n_samples, n_covariates), default=None
            Covariates of the rows, for an estimator fitted with covariates.
        ids : sequence of length n_samples, default=None
            Names of the rows. The names of the most extreme rows are written next to the points.
        ellipses : bool, default=False
            Whether to draw an ellipse for each group.
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
        display = cls.from_findings(
            findings,
            scores,
            components=components,
            label=label,
            biplot=biplot,
            max_features=max_features,
            ids=ids,
        )
        return display.plot(ax, ellipses=ellipses, **points)

    @classmethod
    def from_findings(
        cls,
        findings: Findings,
        scores: np.ndarray,
        *,
        components: tuple[int, int] = (0, 1),
        label: ArrayLike | None = None,
        biplot: bool = False,
        max_features: int = 10,
        ids: Sequence[Any] | None = None,
    ) -> Self:
        """Create the Display from the results of a model and the scores of rows.

        The parameters have the same meaning as in `from_estimator`.
        """
        pair = components if scores.shape[1] > 1 else (0, 0)
        loadings, names = None, findings.names
        if biplot and scores.shape[1] > 1:
            both = findings.loadings[list(pair)]
            longest = np.argsort(-np.linalg.norm(both, axis=0), kind="stable")[:max_features]
            longest = longest[np.any(both[:, longest] != 0, axis=0)]
            loadings, names = both[:, longest], [names[k] for k in longest]
        return cls(scores, loadings, names, pair, label, findings.component_variance, ids)

    @classmethod
    def is_available(cls, findings: Findings) -> bool:
        return not findings.regression

    @classmethod
    def _read(cls, findings: Findings) -> Self:
        raise TypeError("Scores need a data matrix: use `from_estimator(estimator, X)`.")

    def plot(
        self,
        ax: Axes | None = None,
        *,
        label: ArrayLike | None = None,
        ellipses: bool = False,
        **points: Any,
    ) -> Self:
        """Draw into ``ax``, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        label : array of shape (n_samples,), default=None
            Values or group labels that replace the stored ones.
        ellipses : bool, default=False
            Whether to draw an ellipse for each group of at least four rows. The ellipse would
            contain 95 % of the rows if the scores were normally distributed.
        **points : dict
            Keyword arguments of Matplotlib's ``scatter``.

        Returns
        -------
        ScoresDisplay
        """
        colouring = _Colouring.from_label(
            self.label if label is None else np.asarray(to_numpy_if_foreign(label))
        )
        outside = self._legend_outside(colouring)
        ax = self._set_axes(ax, extra_width=colouring.legend_width if outside else 0.0)
        self.points_: list[Any] = []
        self.labels_: list[Any] = []
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
            if ellipses and not single:
                self._draw_ellipses(ax, colouring, x, y)
        else:
            self.points_.append(ax.scatter(x, y, **{"color": PATH, **style}))
        if self.loadings is not None and self.loadings.size:
            self._draw_arrows(ax, self.loadings, x, y)
        ax.set(
            xlabel="row" if single else self._component_label(first),
            ylabel=self._component_label(second),
        )
        if self.ids is not None:
            self._name_extreme_rows(ax, x, y)
        finish(ax)
        if self.labels_:
            separate_labels(ax, self.labels_, np.column_stack([x, y])[:MAX_AVOIDED])
        return self

    def _component_label(self, component: int) -> str:
        name = f"component {component + 1}"
        if self.explained_variance_ratio is None:
            return name
        return f"{name} ({self.explained_variance_ratio[component]:.1%} of the variance)"

    def _legend_outside(self, colouring: _Colouring) -> bool:
        """Return whether the legend would cover names, or is long."""
        has_names = self.loadings is not None or self.ids is not None
        return len(colouring.names) > (0 if has_names else MAX_INSIDE)

    def _draw_groups(
        self, ax: Axes, colouring: _Colouring, x: np.ndarray, y: np.ndarray, style: Style
    ) -> None:
        """Draw each group in its colour; place a long legend outside the plot."""
        from matplotlib import colormaps

        width, height = size_in_inches(ax)
        outside = self._legend_outside(colouring)
        n_lines = int(height / LINE_HEIGHT)
        names, codes = colouring.largest_groups(min(MAX_GROUPS, max(1, n_lines - 1)))
        # The ten saturated colours come first; the ten light colours have another marker.
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
        ax.update_datalim(arrows.T)
        ax.autoscale_view()
        length = int(0.4 * size_in_inches(ax)[0] / 0.08)
        length = max(MIN_NAME_LENGTH, min(MAX_NAME_LENGTH, length))
        for (dx, dy), name in zip(arrows.T, shorten_all(self.names, length), strict=True):
            ax.annotate("", (dx, dy), (0, 0), arrowprops={"arrowstyle": "->", "color": SELECTED})
            self._write_label(ax, name, dx, dy, SELECTED, 9)

    def _name_extreme_rows(self, ax: Axes, x: np.ndarray, y: np.ndarray) -> None:
        """Write the names of the rows farthest from the mean."""
        assert self.ids is not None
        distance = sum((v - v.mean()) ** 2 / (v.var() or 1.0) for v in (x, y))
        far = np.argsort(-distance, kind="stable")[:MAX_NAMED_ROWS]
        far = far[distance[far] > chi2.ppf(1.0 - TAIL, 2)]
        for row, name in zip(far, shorten_all(self.ids[far], 20), strict=True):
            self._write_label(ax, name, x[row], y[row], "0.25", 8)

    def _write_label(
        self, ax: Axes, name: str, x: float, y: float, color: str, size: float
    ) -> None:
        """Write a name beside a point, on the side away from the origin."""
        right = x >= 0 if self.scores.shape[1] > 1 else True
        self.labels_.append(
            ax.annotate(
                name,
                (x, y),
                (5 if right else -5, 0),
                textcoords="offset points",
                ha="left" if right else "right",
                va="center",
                color=color,
                fontsize=size,
                bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5},
                arrowprops={
                    "arrowstyle": "-",
                    "color": color,
                    "linewidth": 0.5,
                    "shrinkA": 0,
                    "shrinkB": 2,
                },
            )
        )

    def _draw_ellipses(self, ax: Axes, colouring: _Colouring, x: np.ndarray, y: np.ndarray) -> None:
        """Draw the ellipse of each group in its colour."""
        angles = np.linspace(0.0, 2.0 * np.pi, 100)
        circle = np.sqrt(chi2.ppf(0.95, 2)) * np.stack([np.cos(angles), np.sin(angles)])
        codes = colouring.largest_groups(len(self.points_))[1]
        for code, points in enumerate(self.points_):
            xy = np.stack([x, y])[:, codes == code]
            if xy.shape[1] < MIN_ELLIPSE_ROWS or code >= len(colouring.names):
                continue
            variances, axes = np.linalg.eigh(np.cov(xy))
            outline = xy.mean(axis=1)[:, None] + axes @ (
                np.sqrt(np.maximum(variances, 0.0))[:, None] * circle
            )
            ax.plot(*outline, color=points.get_facecolor()[0], alpha=1.0, linewidth=1.2)


class _Colouring(NamedTuple):
    """Colouring of the rows by values, by groups, or by neither."""

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
        return 0.4 + CHARACTER_WIDTH * max(map(len, shorten_all(self.names)))

    def largest_groups(self, count: int) -> tuple[list[str], np.ndarray]:
        """Return the names of the largest groups, and the code of each row.

        Rows of all other groups have the code ``count``.
        """
        if len(self.names) <= count:
            return self.names, self.codes
        sizes = np.bincount(self.codes)
        largest = np.sort(np.argsort(-sizes, kind="stable")[:count])
        new_code = np.full(len(self.names), count)
        new_code[largest] = np.arange(count)
        return [self.names[k] for k in largest], new_code[self.codes]
