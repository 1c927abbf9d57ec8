"""Pictures of a fitted model, in scikit-learn's style: ``Display.from_estimator(model)``.

Matplotlib is imported when a picture is drawn, not before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .data.arrays import host
from .errors import InputError

_CHOSEN = "#c2410c"
_PATH = "#1e4e79"
_REST = "#9ab0c4"


def _axes(ax: Any, columns: int = 1) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "drawing needs matplotlib, which is not installed: pip install 'prosparse[plot]'"
        ) from error
    size = (6.4 if columns == 1 else 5.0 * columns, 3.8)
    return pyplot.subplots(1, columns, figsize=size, layout="constrained")[1]


def _check_has(estimator: Any, attribute: str) -> None:
    """Refuse what is not fitted, and what is fitted but never has what is to be drawn."""
    check_is_fitted(estimator)
    if not hasattr(estimator, attribute):
        raise InputError(
            f"{type(estimator).__name__} has no `{attribute}`, which this picture is of"
        )


def _plain(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)


def _names(estimator: Any) -> np.ndarray:
    width = estimator.n_features_in_
    return np.asarray(
        getattr(estimator, "feature_names_in_", [f"x{i}" for i in range(width)]), dtype=object
    )


class EvidenceDisplay:
    """Log evidence against the number of variables, the choice marked.

    Where the choice is made by log evidence plus log prior, that is drawn as well.

    Parameters
    ----------
    cardinalities, log_evidence : arrays
        Numbers of variables, and the log evidence of each.
    n_selected : int
        The number chosen.
    log_posterior : array or None
        Log evidence plus log prior.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    line_ : matplotlib Line2D
    posterior_line_ : matplotlib Line2D, if there is a posterior
    """

    def __init__(
        self, cardinalities: Any, log_evidence: Any, n_selected: int, log_posterior: Any = None
    ):
        self.cardinalities = np.asarray(cardinalities)
        self.log_evidence = np.asarray(log_evidence)
        self.n_selected = n_selected
        self.log_posterior = log_posterior

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **line: Any) -> EvidenceDisplay:
        """Draw the path of a fitted estimator that has ``log_evidence_path_``."""
        _check_has(estimator, "log_evidence_path_")
        display = cls(
            estimator.cardinalities_,
            estimator.log_evidence_path_,
            estimator.n_selected_,
            getattr(estimator, "log_posterior_path_", None),
        )
        return display.plot(ax=ax, **line)

    def plot(self, *, ax: Any = None, **line: Any) -> EvidenceDisplay:
        """Draw into ``ax``, or into a new figure."""
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        style = {"color": _PATH, "marker": "." if self.cardinalities.size <= 60 else ""} | line
        (self.line_,) = self.ax_.plot(self.cardinalities, self.log_evidence, **style)
        if self.log_posterior is not None:
            style = {"color": _CHOSEN, "linestyle": "--", "label": "with the prior of the models"}
            (self.posterior_line_,) = self.ax_.plot(self.cardinalities, self.log_posterior, **style)
            self.line_.set_label("evidence")
            self.ax_.legend(frameon=False)
        best = self.log_evidence[self.cardinalities == self.n_selected]
        self.ax_.axvline(self.n_selected, color=_CHOSEN, linestyle=":", linewidth=1)
        self.ax_.plot([self.n_selected], best, "o", color=_CHOSEN, zorder=3)
        self.ax_.margins(y=0.14)  # room for the label above the maximum
        self.ax_.annotate(
            f"{self.n_selected} variables",
            (self.n_selected, float(best[0])),
            textcoords="offset points",
            xytext=(0, 9),
            ha="center",
            color=_CHOSEN,
        )
        self.ax_.set(xlabel="number of variables", ylabel="log evidence")
        _plain(self.ax_)
        return self


class RelevanceDisplay:
    """Relevance of the variables in falling order, the chosen ones in colour.

    Parameters
    ----------
    relevance, ranking, support, names : arrays (n_features,)

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    bars_ : matplotlib BarContainer
    """

    def __init__(self, relevance: Any, ranking: Any, support: Any, names: Any):
        order = np.argsort(ranking)
        self.relevance = np.asarray(relevance)[order]
        self.support = np.asarray(support)[order]
        self.names = np.asarray(names, dtype=object)[order]

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, max_features: int | None = None, ax: Any = None
    ) -> RelevanceDisplay:
        """Draw ``relevance_`` of a fitted estimator, the first ``max_features`` of its ranking."""
        _check_has(estimator, "relevance_")
        display = cls(
            estimator.relevance_, estimator.ranking_, estimator.support_, _names(estimator)
        )
        return display.plot(max_features=max_features, ax=ax)

    def plot(self, *, max_features: int | None = None, ax: Any = None) -> RelevanceDisplay:
        """Draw into ``ax``, or into a new figure."""
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        shown = slice(0, max_features)
        relevance, support, names = self.relevance[shown], self.support[shown], self.names[shown]
        place = np.arange(relevance.size)
        colours = np.where(support, _CHOSEN, _REST)
        self.bars_ = self.ax_.bar(place, relevance, width=0.85, color=colours)
        if relevance.size <= 40:
            self.ax_.set_xticks(place, names, rotation=60, ha="right", fontsize=8)
        else:
            self.ax_.set_xlabel("variables, most relevant first")
        handles = [
            self.ax_.bar([0], [0], color=_CHOSEN, label=f"chosen ({int(self.support.sum())})"),
            self.ax_.bar([0], [0], color=_REST, label=f"not chosen ({int((~self.support).sum())})"),
        ]
        self.ax_.legend(handles=handles, frameon=False)
        self.ax_.set(ylabel="relevance", ylim=(0, 1.02), xlim=(-0.8, relevance.size - 0.2))
        _plain(self.ax_)
        return self


class SlopeDisplay:
    """The slope heuristic: log-likelihood against the number of parameters with the line through
    its linear part, and the criterion against the penalty.

    Attributes
    ----------
    axes_ : pair of matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, estimator: Any):
        self.estimator = estimator

    @classmethod
    def from_estimator(cls, estimator: Any, *, axes: Any = None) -> SlopeDisplay:
        """Draw the path of a fitted estimator that has ``log_likelihood_path_``."""
        _check_has(estimator, "log_likelihood_path_")
        return cls(estimator).plot(axes=axes)

    def plot(self, *, axes: Any = None) -> SlopeDisplay:
        """Draw into the pair ``axes``, or into a new figure."""
        model = self.estimator
        self.axes_ = _axes(axes, columns=2)
        left, right = self.axes_
        self.figure_ = left.figure
        names = ("n_parameters_path_", "log_likelihood_path_", "criterion_path_", "penalties_")
        dimension, likelihood, criterion, penalties = (host(getattr(model, n)) for n in names)
        best = int(np.flatnonzero(penalties == model.penalty_)[0])
        left.plot(dimension, likelihood, ".", color=_PATH)
        if model.slope_ is not None and model.slope_.n_points:
            # the penalty's shape, read off the criterion: a line in it is a curve in dimension
            shape = (likelihood - criterion) / (2.0 * model.slope_.slope)
            order = np.argsort(dimension)
            line = model.slope_.intercept + model.slope_.slope * shape
            left.plot(dimension[order], line[order], color=_REST, label="growth by noise alone")
            left.set_ylim(bottom=likelihood.min() - 0.05 * np.ptp(likelihood))
            left.legend(frameon=False, loc="lower right")
        left.plot(dimension[best], likelihood[best], "o", color=_CHOSEN)
        left.set(xlabel="number of parameters", ylabel="log-likelihood")
        right.plot(penalties, criterion, color=_PATH)
        right.plot(model.penalty_, criterion[best], "o", color=_CHOSEN)
        right.annotate(
            f"penalty {model.penalty_:.3g}",
            (model.penalty_, criterion[best]),
            textcoords="offset points",
            xytext=(0, 9),
            ha="center",
            color=_CHOSEN,
        )
        right.margins(y=0.14)
        right.set(xlabel="penalty", ylabel="criterion")
        for ax in self.axes_:
            _plain(ax)
        return self


class LoadingsDisplay:
    """Heat map of the loadings of the chosen variables, the largest first.

    Parameters
    ----------
    components : array (n_components, n_shown)
    names : array (n_shown,)

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    image_ : matplotlib AxesImage
    """

    def __init__(self, components: Any, names: Any):
        self.components = np.asarray(components)
        self.names = np.asarray(names, dtype=object)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, max_features: int | None = 40, ax: Any = None, **image: Any
    ) -> LoadingsDisplay:
        """Draw ``components_`` of a fitted estimator, or its ``coef_``."""
        _check_has(estimator, "support_")
        raw = estimator.components_ if hasattr(estimator, "components_") else estimator.coef_
        loadings = np.atleast_2d(host(raw))
        by_size = np.argsort(-np.linalg.norm(loadings, axis=0), kind="stable")
        chosen = by_size[host(estimator.support_)[by_size]][:max_features]
        return cls(loadings[:, chosen], _names(estimator)[chosen]).plot(ax=ax, **image)

    def plot(self, *, ax: Any = None, **image: Any) -> LoadingsDisplay:
        """Draw into ``ax``, or into a new figure."""
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        largest = float(np.max(np.abs(self.components), initial=0.0)) or 1.0
        style = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest, "aspect": "auto"} | image
        self.image_ = self.ax_.imshow(self.components, **style)
        d, q = self.components.shape
        self.ax_.set_xticks(np.arange(q), self.names, rotation=60, ha="right", fontsize=8)
        self.ax_.set_yticks(np.arange(d), np.arange(1, d + 1))
        self.ax_.set(ylabel="component")
        self.figure_.colorbar(self.image_, ax=self.ax_, label="loading")
        return self


class ScoresDisplay:
    """Scores of the rows on two components, with the variables as arrows if asked for.

    Parameters
    ----------
    scores : array (n_samples, n_components)
    loadings : array (2, n_arrows) or None
    names : array (n_arrows,)
    pair : two int
        The components to draw, counted from 0.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    points_ : list of matplotlib PathCollection, one per group
    """

    def __init__(self, scores: Any, loadings: Any = None, names: Any = (), pair: Any = (0, 1)):
        self.scores, self.pair = np.asarray(scores), pair
        self.loadings = None if loadings is None else np.asarray(loadings)
        self.names = np.asarray(names, dtype=object)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        components: tuple[int, int] = (0, 1),
        label: Any = None,
        biplot: bool = False,
        max_features: int = 10,
        ax: Any = None,
        **points: Any,
    ) -> ScoresDisplay:
        """Draw ``transform(X)``, coloured by ``label``; ``biplot=True`` adds the variables.

        ``components`` are counted from 0. A model with one component is drawn against the rows.
        """
        _check_has(estimator, "components_")
        scores, W = host(estimator.transform(X)), host(estimator.components_)
        pair = components if scores.shape[1] > 1 else (0, 0)
        loadings, names = None, _names(estimator)
        if biplot and scores.shape[1] > 1:
            both = W[list(pair)]
            longest = np.argsort(-np.linalg.norm(both, axis=0), kind="stable")[:max_features]
            longest = longest[np.any(both[:, longest] != 0, axis=0)]
            loadings, names = both[:, longest], names[longest]
        display = cls(scores, loadings, names, pair)
        return display.plot(label=label, ax=ax, **points)

    def plot(self, *, label: Any = None, ax: Any = None, **points: Any) -> ScoresDisplay:
        """Draw into ``ax``, or into a new figure."""
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        first, second = self.pair
        alone = self.scores.shape[1] == 1
        x = np.arange(1, self.scores.shape[0] + 1) if alone else self.scores[:, first]
        y = self.scores[:, second]
        style = {"s": 18, "alpha": 0.8, "linewidths": 0} | points
        self.points_ = []
        if label is None:
            self.points_.append(self.ax_.scatter(x, y, **({"color": _PATH} | style)))
        elif np.asarray(label).dtype.kind == "f":
            self.points_.append(self.ax_.scatter(x, y, c=np.asarray(label), **style))
            self.figure_.colorbar(self.points_[0], ax=self.ax_)
        else:
            groups = np.asarray(label).astype(str)
            for group in np.unique(groups):
                inside = groups == group
                self.points_.append(self.ax_.scatter(x[inside], y[inside], label=group, **style))
            self.ax_.legend(frameon=False)
        if self.loadings is not None and self.loadings.size:
            self._arrows(x, y)
        self.ax_.set(
            xlabel="row" if alone else f"component {first + 1}", ylabel=f"component {second + 1}"
        )
        _plain(self.ax_)
        return self

    def _arrows(self, x: np.ndarray, y: np.ndarray) -> None:
        """Variables as arrows, the longest as long as the cloud of points is wide."""
        arrows = np.asarray(self.loadings)
        reach = 0.9 * min(np.max(np.abs(x)), np.max(np.abs(y)))
        arrows = arrows * reach / np.max(np.linalg.norm(arrows, axis=0))
        for (dx, dy), name in zip(arrows.T, self.names, strict=True):
            self.ax_.annotate(
                "", (dx, dy), (0, 0), arrowprops={"arrowstyle": "->", "color": _CHOSEN}
            )
            self.ax_.annotate(str(name), (1.06 * dx, 1.06 * dy), color=_CHOSEN, ha="center")


class ConvergenceDisplay:
    """How far the objective was below its last value, after every iteration.

    Parameters
    ----------
    traces : array, or list of arrays
        The objective per iteration, one trace or one per component.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    lines_ : list of matplotlib Line2D, one per component where each was fitted by itself
    """

    def __init__(self, traces: Any):
        one = isinstance(traces, np.ndarray) and traces.ndim == 1
        self.traces = [np.asarray(trace, dtype=float) for trace in ([traces] if one else traces)]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **line: Any) -> ConvergenceDisplay:
        """Draw ``bounds_`` of a fitted estimator."""
        _check_has(estimator, "bounds_")
        return cls(estimator.bounds_).plot(ax=ax, **line)

    def plot(self, *, ax: Any = None, **line: Any) -> ConvergenceDisplay:
        """Draw into ``ax``, or into a new figure."""
        self.ax_ = _axes(ax)
        self.figure_ = self.ax_.figure
        self.lines_ = []
        for k, trace in enumerate(self.traces):
            below = trace[-1] - trace
            shown = below > 0  # the last value itself has no logarithm
            style = {"color": _PATH} if len(self.traces) == 1 else {"label": f"component {k + 1}"}
            self.lines_ += self.ax_.plot(np.flatnonzero(shown) + 1, below[shown], **(style | line))
        if len(self.traces) > 1:
            self.ax_.legend(frameon=False)
        if any(drawn.get_ydata().size for drawn in self.lines_):
            self.ax_.set_yscale("log")
        self.ax_.set(xlabel="iteration", ylabel="objective below its last value")
        _plain(self.ax_)
        return self
