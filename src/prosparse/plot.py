"""Pictures of a fitted model, in scikit-learn's style: ``Display.from_estimator(model)``.

Matplotlib is imported when a picture is drawn, not before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

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


def _plain(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)


class EvidenceDisplay:
    """Log evidence against the number of variables, the choice marked.

    Where the choice is made by log evidence plus log prior, that is drawn as well.

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
        check_is_fitted(estimator, "log_evidence_path_")
        display = cls(
            estimator.cardinalities_,
            estimator.log_evidence_path_,
            estimator.n_selected_,
            getattr(estimator, "log_posterior_path_", None),
        )
        return display.plot(ax=ax, **line)

    def plot(self, *, ax: Any = None, **line: Any) -> EvidenceDisplay:
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
        check_is_fitted(estimator, "relevance_")
        width = estimator.n_features_in_
        names = getattr(estimator, "feature_names_in_", [f"x{i}" for i in range(width)])
        display = cls(estimator.relevance_, estimator.ranking_, estimator.support_, names)
        return display.plot(max_features=max_features, ax=ax)

    def plot(self, *, max_features: int | None = None, ax: Any = None) -> RelevanceDisplay:
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
        check_is_fitted(estimator, "log_likelihood_path_")
        return cls(estimator).plot(axes=axes)

    def plot(self, *, axes: Any = None) -> SlopeDisplay:
        model = self.estimator
        self.axes_ = _axes(axes, columns=2)
        left, right = self.axes_
        self.figure_ = left.figure
        best = int(np.argmax(model.criterion_path_))
        dimension, likelihood = model.n_parameters_path_, model.log_likelihood_path_
        left.plot(dimension, likelihood, ".", color=_PATH)
        if model.slope_ is not None and model.slope_.n_points:
            # the penalty's shape, read off the criterion: a line in it is a curve in dimension
            shape = (likelihood - model.criterion_path_) / (2.0 * model.slope_.slope)
            order = np.argsort(dimension)
            line = model.slope_.intercept + model.slope_.slope * shape
            left.plot(dimension[order], line[order], color=_REST, label="growth by noise alone")
            left.set_ylim(bottom=likelihood.min() - 0.05 * np.ptp(likelihood))
            left.legend(frameon=False, loc="lower right")
        left.plot(dimension[best], likelihood[best], "o", color=_CHOSEN)
        left.set(xlabel="number of parameters", ylabel="log-likelihood")
        right.plot(model.penalties_, model.criterion_path_, color=_PATH)
        right.plot(model.penalty_, model.criterion_path_[best], "o", color=_CHOSEN)
        right.annotate(
            f"penalty {model.penalty_:.3g}",
            (model.penalty_, model.criterion_path_[best]),
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
