"""Plot of the variance explained by view and factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..data import Array
from ..data.arrays import to_numpy
from ..errors import ParameterError
from ..findings import Findings
from ..models._base import VariableSelector
from .axes import LINE_HEIGHT, MAX_NAMES, Style, secure_size, shorten_all, size_in_inches
from .display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

MIN_WRITTEN = 0.005  # smaller proportions are not written into the cells


class ViewsDisplay(Display):
    """Heat map of the proportion of variance explained by view and factor.

    Parameters
    ----------
    explained_variance_ratio : array of shape (n_views, n_factors)
        Proportion of the variance of each view that each factor explains.
    factor_view : int array of shape (n_factors,)
        View of each private factor; -1 for shared factors.
    view_names : sequence of str, default=None
        Names of the views. By default: view 1, view 2, ...

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage
    """

    attribute = "view_columns_"
    part = "views"
    image_: AxesImage

    def __init__(
        self,
        explained_variance_ratio: Array,
        factor_view: Array,
        view_names: Sequence[str] | None = None,
    ) -> None:
        self.explained_variance_ratio = np.atleast_2d(to_numpy(explained_variance_ratio))
        self.factor_view = to_numpy(factor_view)
        n_views = self.explained_variance_ratio.shape[0]
        if view_names is None:
            view_names = [f"view {number + 1}" for number in range(n_views)]
        if isinstance(view_names, str) or len(view_names) != n_views:
            raise ParameterError(
                f"`view_names` must have one name per view ({n_views}), got {view_names!r}."
            )
        self.view_names = np.asarray(view_names, dtype=object)

    @classmethod
    def from_estimator(
        cls,
        estimator: VariableSelector,
        *,
        view_names: Sequence[str] | None = None,
        group: object = None,
        ax: Axes | None = None,
        **image: Any,
    ) -> Self:
        """Draw the variance explained by the factors of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted estimator of several views.
        view_names : sequence of str, default=None
            Names of the views. By default: view 1, view 2, ...
        group : object, default=None
            Label of a group of rows, if the estimator was fitted with groups. By default, the
            variance of all rows is drawn.
        ax : matplotlib Axes, default=None
            Axes to draw into. By default, a new figure is created.
        **image : dict
            Keyword arguments of Matplotlib's ``imshow``.

        Returns
        -------
        ViewsDisplay
        """
        views = cls._findings(estimator).views
        assert views is not None
        ratio = views.explained
        if group is not None:
            ratio = _ratio_in_group(estimator, group, views.columns)
        return cls(ratio, views.factor_view, view_names).plot(ax, **image)

    @classmethod
    def _read(cls, findings: Findings) -> Self:
        assert findings.views is not None
        return cls(findings.views.explained, findings.views.factor_view)

    def plot(self, ax: Axes | None = None, **image: Any) -> Self:
        """Draw into ``ax``, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        **image : dict
            Keyword arguments of Matplotlib's ``imshow``.

        Returns
        -------
        ViewsDisplay
        """
        ratio = self.explained_variance_ratio
        n_views, n_factors = ratio.shape
        height = 1.6 + 0.42 * max(2, min(n_views, 12))
        ax = self._set_axes(ax, height, 0.25 * max(0, n_factors - 16))
        largest = float(np.max(ratio, initial=0.0)) or 1.0
        style: Style = {"cmap": "Blues", "vmin": 0.0, "vmax": largest, "aspect": "auto"}
        self.image_ = ax.imshow(ratio, **(style | image))
        names = shorten_all(self.view_names, 22)
        totals = [f"{name} ({total:.0%})" for name, total in zip(names, ratio.sum(axis=1))]
        ax.set_yticks(np.arange(n_views), totals)
        self._write_factors(ax)
        self._write_ratios(ax, largest)
        label = "proportion of the view's variance"
        bar = self.figure_.colorbar(self.image_, ax=ax, label=label)
        bar.ax.yaxis.set_major_formatter("{x:.0%}")
        secure_size(ax)
        return self

    def _write_factors(self, ax: Axes) -> None:
        """Number the factors from 1 and mark private ones with a star."""
        n_factors = self.factor_view.size
        if n_factors > MAX_NAMES:
            ax.set_xticks([])
            ax.set_xlabel(f"{n_factors:,} factors")
            return
        private = self.factor_view >= 0
        labels = [f"{k + 1}{'*' if star else ''}" for k, star in enumerate(private)]
        ax.set_xticks(np.arange(n_factors), labels, fontsize=8)
        ax.set_xlabel("factor (* private to one view)" if private.any() else "factor")

    def _write_ratios(self, ax: Axes, largest: float) -> None:
        """Write proportions into the cells if there is space."""
        ratio = self.explained_variance_ratio
        n_views, n_factors = ratio.shape
        width, height = size_in_inches(ax)
        if width < 0.42 * n_factors or height < 1.3 * LINE_HEIGHT * n_views:
            return
        for view, factor in zip(*np.nonzero(ratio >= MIN_WRITTEN), strict=True):
            value = float(ratio[view, factor])
            colour = "white" if value > 0.55 * largest else "0.15"
            ax.text(
                factor, view, f"{value:.0%}", ha="center", va="center", fontsize=8, color=colour
            )


def _ratio_in_group(
    estimator: VariableSelector, group: object, columns: Sequence[np.ndarray]
) -> np.ndarray:
    """Compute the explained variance ratio of each view in a group of rows."""
    labels: list[object] = list(np.asarray(getattr(estimator, "groups_", ())).tolist())
    if group not in labels:
        available = f"the groups are {labels}" if labels else "the model was fitted without groups"
        raise ParameterError(f"`group` must be a label of a group, got {group!r}; {available}.")
    index = labels.index(group)
    explained, noise, varying = (
        to_numpy(getattr(estimator, f"{name}_"))[index].astype(float)
        for name in ("explained_variance_per_group", "group_noise_variance", "group_varying")
    )
    residual = np.array([np.sum((noise * varying)[positions]) for positions in columns])
    total = explained.sum(axis=1) + residual
    ratio: np.ndarray = explained / np.where(total > 0, total, 1.0)[:, None]
    return ratio
