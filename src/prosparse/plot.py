"""Pictures of a fitted model, in scikit-learn's style: ``Display.from_estimator(model)``.

A Display holds what it draws as attributes, all of it on the host whatever the model was fitted on;
``plot`` draws it, as often as wanted. All of it comes from ``prosparse.findings``: where several
pictures are wanted of one model, ``Display.from_findings(findings_of(model))`` reads it once.
Matplotlib is imported when a picture is drawn, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .data import Array
from .data.arrays import to_numpy, to_numpy_if_foreign
from .errors import InputError, ParameterError
from .findings import TELLS, VIEWS, Findings, findings_of, scores_of, variance_shares
from .models._base import VariableSelector
from .registry import method_of
from .selection.slope import Slope

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection, PathCollection
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D
    from matplotlib.patches import StepPatch

Style = dict[str, Any]  # keywords of matplotlib's functions, of which there are many

_CHOSEN = "#c2410c"
_PATH = "#1e4e79"
_REST = "#9ab0c4"
_OTHERS = "0.75"
# More names than these along an axis cannot be read.
_MOST_NAMES = 40
# Characters of a name that is drawn; longer ones lose their middle.
_LONGEST_NAME = 30
_FEWEST_CHARACTERS = 4
# Of text of eight points, in inches: the width of a character, the height of a line.
_CHARACTER, _LINE = 0.067, 0.135
# Groups of rows that colours can tell apart, and those that a legend in the picture has room for.
_MOST_GROUPS, _MOST_INSIDE = 20, 8
# Of the room that a picture has, the share that names and labels around it may take.
_LARGEST_MARGIN = 0.6


def _new_axes(columns: int = 1, height: float = 3.8, more_width: float = 0.0) -> Any:
    """One Axes in a new figure, or an array of several side by side."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "drawing needs matplotlib, which is not installed: pip install 'prosparse[plot]'"
        ) from error
    size = ((6.4 if columns == 1 else 5.0 * columns) + more_width, height)
    return pyplot.subplots(1, columns, figsize=size, layout="constrained")[1]


def _inches(ax: Axes) -> tuple[float, float]:
    """Width and height of a picture."""
    return ax.bbox.width / ax.figure.dpi, ax.bbox.height / ax.figure.dpi


def _shortened(name: object, most: int = _LONGEST_NAME) -> str:
    """A name of at most ``most`` characters. What is too much is taken from its middle: the names
    of one table often begin alike, and others end alike."""
    text = str(name)
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"


def _short_names(names: Sequence[object] | np.ndarray, most: int = _LONGEST_NAME) -> list[str]:
    """Names of at most ``most`` characters that stay different where they can: if their middles
    are what tells them apart, what all of them begin and end with goes first."""
    whole = [str(name) for name in names]
    short = [_shortened(name, most) for name in whole]
    if len(set(short)) == len(set(whole)) or len(set(whole)) == 1:
        return short
    head = _length_in_common(whole)
    tail = _length_in_common([name[head:][::-1] for name in whole])
    middles = [f"…{name[head : len(name) - tail]}{'…' if tail else ''}" for name in whole]
    return [_shortened(middle, most) for middle in middles]


def _length_in_common(texts: Sequence[str]) -> int:
    """How many characters all of them begin with."""
    alike = takewhile(lambda characters: len(set(characters)) == 1, zip(*texts))
    return sum(1 for _ in alike)


def _room_below(names: np.ndarray) -> float:
    """Inches that a new figure needs for long slanted names below it, beyond the usual."""
    longest = max(map(len, _short_names(names)), default=0)
    many = names.size > _MOST_NAMES
    return 0.0 if many else 0.058 * max(0, longest - 12)


def _write_names(ax: Axes, names: np.ndarray, otherwise: str, rotation: int = 60) -> None:
    """Names below the columns 0, 1, ... of a picture, as long as there is room for; ``otherwise``
    is said instead where they could not be read."""
    width, height = _inches(ax)
    rise = np.sin(np.deg2rad(rotation))
    most = min(_LONGEST_NAME, int(0.4 * height / (_CHARACTER * rise)))
    if names.size > _MOST_NAMES or names.size * 0.1 > width or most < _FEWEST_CHARACTERS:
        ax.set_xticks([])
        ax.set_xlabel(otherwise)
        return
    ax.set_xticks(
        np.arange(names.size),
        _short_names(names, most),
        rotation=rotation,
        ha="right" if rotation < 90 else "center",
        fontsize=8,
    )


def _keep_room(ax: Axes) -> None:
    """Let a picture keep its place where what stands around it would leave nothing of it.

    A constrained layout makes room for all names and labels, gives up where none is left for the
    picture itself, and warns. In a very small figure some of them are rather cut off.
    """
    around = ax.get_tightbbox()
    if around is None:
        return
    for outer, inner in ((around.width, ax.bbox.width), (around.height, ax.bbox.height)):
        if outer - inner > _LARGEST_MARGIN * inner:
            ax.set_in_layout(False)


def _found(estimator: VariableSelector) -> Findings:
    method_of(estimator)
    check_is_fitted(estimator)
    return findings_of(estimator)


def _lacks(display: Display, found: Findings, attribute: str) -> InputError:
    """Fitted, but never with what is to be drawn: say what can be drawn instead."""
    first, last = (names := [one.__name__ for one in _drawable(found)])[:-1], names[-1]
    return InputError(
        f"{found.method} has no `{attribute}`, which {display.__name__} draws. For "
        f"{found.method}, use {', '.join(first)} or {last}."
    )


def _say(ax: Axes, words: str) -> None:
    """Words in the middle of a picture that has nothing else to show."""
    ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center", color="0.3")


def _finish(ax: Axes) -> None:
    """What every picture with two axes gets once all of it is drawn."""
    ax.spines[["top", "right"]].set_visible(False)
    _keep_room(ax)


class EvidenceDisplay:
    """Log evidence against the number of variables, the choice marked.

    Where the choice is made by log evidence plus log prior, that is drawn as well.

    Parameters
    ----------
    cardinalities : array (n_models,)
        Numbers of variables.
    log_evidence : array (n_models,)
        The log evidence of each.
    n_selected : int
        The number chosen.
    log_posterior : array (n_models,) or None
        Log evidence plus log prior.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
    posterior_line_ : matplotlib Line2D
        If there is a posterior.
    """

    ax_: Axes
    figure_: Figure | SubFigure
    line_: Line2D
    posterior_line_: Line2D

    def __init__(
        self,
        cardinalities: Array,
        log_evidence: Array,
        n_selected: int,
        log_posterior: Array | None = None,
    ) -> None:
        self.cardinalities = to_numpy(cardinalities)
        self.log_evidence = to_numpy(log_evidence)
        self.n_selected = n_selected
        self.log_posterior = None if log_posterior is None else to_numpy(log_posterior)

    @classmethod
    def from_estimator(
        cls, estimator: VariableSelector, *, ax: Axes | None = None, **line: Any
    ) -> Self:
        """Draw the path of a fitted estimator that has ``log_evidence_path_``.

        Parameters
        ----------
        estimator : fitted estimator
        ax : matplotlib Axes or None
            None: in a new figure.
        **line
            For matplotlib's ``plot``.

        Returns
        -------
        EvidenceDisplay
        """
        return cls.from_findings(_found(estimator), ax=ax, **line)

    @classmethod
    def from_findings(cls, found: Findings, *, ax: Axes | None = None, **line: Any) -> Self:
        """As `from_estimator`, of what was read already."""
        path = found.path
        if path is None or not path.evidence:
            raise _lacks(cls, found, "log_evidence_path_")
        return cls(path.x, path.y, found.n_selected, path.posterior).plot(ax, **line)

    def plot(self, ax: Axes | None = None, **line: Any) -> Self:
        """Draw into ``ax``, or into a new figure."""
        self.ax_ = _new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        style: Style = {"color": _PATH, "marker": "." if self.cardinalities.size <= 60 else ""}
        (self.line_,) = self.ax_.plot(self.cardinalities, self.log_evidence, **(style | line))
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
        _finish(self.ax_)
        return self


class RelevanceDisplay:
    """Relevance of the variables in falling order, the chosen ones in colour.

    Parameters
    ----------
    relevance : array (n_features,)
        Between 0 and 1.
    ranking : int array (n_features,)
        1 for the most relevant variable.
    support : bool array (n_features,)
        Which variables were chosen.
    names : array (n_features,)
        Names of the variables.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
    """

    ax_: Axes
    figure_: Figure | SubFigure
    bars_: BarContainer

    def __init__(
        self, relevance: Array, ranking: Array, support: Array, names: Sequence[str] | np.ndarray
    ) -> None:
        order = np.argsort(to_numpy(ranking))
        self.relevance = to_numpy(relevance)[order]
        self.support = to_numpy(support)[order]
        self.names = np.asarray(names, dtype=object)[order]

    @classmethod
    def from_estimator(
        cls,
        estimator: VariableSelector,
        *,
        max_features: int | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw ``relevance_`` of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
        max_features : int or None
            How many variables, from the most relevant on; None: all.
        ax : matplotlib Axes or None
            None: in a new figure.

        Returns
        -------
        RelevanceDisplay
        """
        return cls.from_findings(_found(estimator), max_features=max_features, ax=ax)

    @classmethod
    def from_findings(
        cls, found: Findings, *, max_features: int | None = None, ax: Axes | None = None
    ) -> Self:
        """As `from_estimator`, of what was read already."""
        display = cls(found.relevance, found.ranking, found.support, found.names)
        return display.plot(ax, max_features=max_features)

    def plot(self, ax: Axes | None = None, *, max_features: int | None = None) -> Self:
        """Draw into ``ax``, or into a new figure."""
        shown = slice(0, max_features)
        height = 3.8 + _room_below(self.names[shown])
        self.ax_ = _new_axes(height=height) if ax is None else ax
        self.figure_ = self.ax_.figure
        relevance, support, names = self.relevance[shown], self.support[shown], self.names[shown]
        place = np.arange(relevance.size)
        colours = np.where(support, _CHOSEN, _REST)
        self.bars_ = self.ax_.bar(place, relevance, width=0.85, color=colours)
        _write_names(self.ax_, names, otherwise="variables, most relevant first")
        handles = [
            self.ax_.bar([0], [0], color=_CHOSEN, label=f"chosen ({int(self.support.sum())})"),
            self.ax_.bar([0], [0], color=_REST, label=f"not chosen ({int((~self.support).sum())})"),
        ]
        self.ax_.legend(handles=handles, frameon=False)
        self.ax_.set(ylabel="relevance", ylim=(0, 1.02), xlim=(-0.8, relevance.size - 0.2))
        _finish(self.ax_)
        return self


class InclusionDisplay:
    """The probability that each variable is active, and which could stand for which.

    The chosen variables are in colour. Variables with the same letter are a credible set: one of
    them is active, but the data hardly tell which.

    Parameters
    ----------
    probability : array (n_features,)
        Between 0 and 1.
    support : bool array (n_features,)
        Which variables were chosen.
    names : array (n_features,)
        Names of the variables.
    credible_sets : list of int arrays
        For each chosen variable, those that could stand for it and itself.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
    letters_ : dict of str to int arrays
        The credible sets of more than one variable, by their letters.
    """

    ax_: Axes
    figure_: Figure | SubFigure
    bars_: BarContainer

    def __init__(
        self,
        probability: Array,
        support: Array,
        names: Sequence[str] | np.ndarray,
        credible_sets: Sequence[np.ndarray] = (),
    ) -> None:
        self.probability = to_numpy(probability)
        self.support = to_numpy(support).astype(bool)
        self.names = np.asarray(names, dtype=object)
        several = [to_numpy(group).astype(int) for group in credible_sets if len(group) > 1]
        self.letters_ = {_letter(k): group for k, group in enumerate(several)}

    @classmethod
    def from_estimator(
        cls, estimator: VariableSelector, *, max_features: int | None = 30, ax: Axes | None = None
    ) -> Self:
        """Draw ``inclusion_probability_`` and ``credible_sets_`` of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
        max_features : int or None
            How many variables, from the most probable on; None: all.
        ax : matplotlib Axes or None
            None: in a new figure.

        Returns
        -------
        InclusionDisplay
        """
        return cls.from_findings(_found(estimator), max_features=max_features, ax=ax)

    @classmethod
    def from_findings(
        cls, found: Findings, *, max_features: int | None = 30, ax: Axes | None = None
    ) -> Self:
        """As `from_estimator`, of what was read already."""
        if found.probable is None:
            raise _lacks(cls, found, "inclusion_probability_")
        probable = found.probable
        display = cls(probable.inclusion, found.support, found.names, probable.groups)
        return display.plot(ax, max_features=max_features)

    def plot(self, ax: Axes | None = None, *, max_features: int | None = None) -> Self:
        """Draw into ``ax``, or into a new figure."""
        order = np.argsort(-self.probability, kind="stable")[:max_features]
        names = self.names[order]
        self.ax_ = _new_axes(height=3.8 + _room_below(names)) if ax is None else ax
        self.figure_ = self.ax_.figure
        probability, support = self.probability[order], self.support[order]
        colours = np.where(support, _CHOSEN, _REST)
        self.bars_ = self.ax_.bar(np.arange(order.size), probability, width=0.85, color=colours)
        for k, j in enumerate(order):
            own = [letter for letter, group in self.letters_.items() if j in group]
            self.ax_.annotate(
                "".join(own),
                (k, probability[k]),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
        _write_names(self.ax_, names, otherwise="variables, most probable first")
        handles = [
            self.ax_.bar([0], [0], color=_CHOSEN, label=f"chosen ({int(self.support.sum())})"),
            self.ax_.bar([0], [0], color=_REST, label=f"not chosen ({int((~self.support).sum())})"),
        ]
        title = "same letter: one of them" if self.letters_ else None
        self.ax_.legend(handles=handles, frameon=False, title=title, title_fontsize="small")
        self.ax_.set(
            ylabel="probability of being active", ylim=(0, 1.1), xlim=(-0.8, order.size - 0.2)
        )
        _finish(self.ax_)
        return self


def _letter(k: int) -> str:
    """a, b, ... z, aa, ab, ..."""
    return (_letter(k // 26 - 1) if k >= 26 else "") + chr(ord("a") + k % 26)


class NumberDisplay:
    """The probability of every number of active variables, the chosen number marked.

    Parameters
    ----------
    probability : array (Q + 1,)
        Of 0, 1, ... Q active variables.
    n_selected : int
        The number chosen.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
    """

    ax_: Axes
    figure_: Figure | SubFigure
    bars_: BarContainer

    def __init__(self, probability: Array, n_selected: int) -> None:
        self.probability = to_numpy(probability)
        self.n_selected = n_selected

    @classmethod
    def from_estimator(cls, estimator: VariableSelector, *, ax: Axes | None = None) -> Self:
        """Draw ``model_size_probability_`` of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
        ax : matplotlib Axes or None
            None: in a new figure.

        Returns
        -------
        NumberDisplay
        """
        return cls.from_findings(_found(estimator), ax=ax)

    @classmethod
    def from_findings(cls, found: Findings, *, ax: Axes | None = None) -> Self:
        """As `from_estimator`, of what was read already."""
        if found.probable is None or found.probable.number is None:
            raise _lacks(cls, found, "model_size_probability_")
        return cls(found.probable.number, found.n_selected).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw into ``ax``, or into a new figure."""
        self.ax_ = _new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        from matplotlib.ticker import MaxNLocator  # `_new_axes` says what to install

        number = np.arange(self.probability.size)
        colours = np.where(number == self.n_selected, _CHOSEN, _REST)
        self.bars_ = self.ax_.bar(number, self.probability, width=0.85, color=colours)
        likely = np.flatnonzero(self.probability >= 0.001)
        first, last = (int(likely[0]), int(likely[-1])) if likely.size else (0, number.size - 1)
        top = float(self.probability[min(self.n_selected, number.size - 1)])
        self.ax_.annotate(
            f"{self.n_selected} chosen",
            (self.n_selected, top),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            color=_CHOSEN,
        )
        self.ax_.margins(y=0.14)
        self.ax_.set(
            xlabel="number of active variables",
            ylabel="probability",
            xlim=(min(first, self.n_selected) - 1.2, max(last, self.n_selected) + 1.2),
        )
        self.ax_.xaxis.set_major_locator(MaxNLocator(integer=True))
        _finish(self.ax_)
        return self


class CommunalityDisplay:
    """What each variable shares with the others, in falling order: the chosen ones in colour, and
    a line for what chance alone would give.

    Parameters
    ----------
    communality : array (n_features,)
        Shares of the variables' variances.
    support : bool array (n_features,)
        Which variables were chosen.
    names : array (n_features,)
        Names of the variables.
    chance : float
        What chance alone gives on average.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    chosen_ : matplotlib StepPatch
        The variables that were chosen.
    rest_ : matplotlib StepPatch
        The others.
    chance_line_ : matplotlib Line2D
        What chance alone gives, if there are components.
    """

    ax_: Axes
    figure_: Figure | SubFigure
    chosen_: StepPatch
    rest_: StepPatch
    chance_line_: Line2D

    def __init__(
        self,
        communality: Array,
        support: Array,
        names: Sequence[str] | np.ndarray,
        chance: float,
    ) -> None:
        order = np.argsort(-to_numpy(communality), kind="stable")
        self.communality = to_numpy(communality)[order]
        self.support = to_numpy(support)[order]
        self.names = np.asarray(names, dtype=object)[order]
        self.chance = float(chance)

    @classmethod
    def from_estimator(
        cls,
        estimator: VariableSelector,
        *,
        max_features: int | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw ``communality_`` of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
        max_features : int or None
            How many variables, from the one that shares most on; None: all.
        ax : matplotlib Axes or None
            None: in a new figure.

        Returns
        -------
        CommunalityDisplay
        """
        return cls.from_findings(_found(estimator), max_features=max_features, ax=ax)

    @classmethod
    def from_findings(
        cls, found: Findings, *, max_features: int | None = None, ax: Axes | None = None
    ) -> Self:
        """As `from_estimator`, of what was read already."""
        shared = found.shared
        if shared is None:
            raise _lacks(cls, found, "communality_")
        display = cls(shared.communality, found.support, found.names, shared.chance)
        return display.plot(ax, max_features=max_features)

    def plot(self, ax: Axes | None = None, *, max_features: int | None = None) -> Self:
        """Draw into ``ax``, or into a new figure."""
        shown = slice(0, max_features)
        height = 3.8 + _room_below(self.names[shown])
        self.ax_ = _new_axes(height=height) if ax is None else ax
        self.figure_ = self.ax_.figure
        communality, support = self.communality[shown], self.support[shown]
        edges = np.arange(communality.size + 1) - 0.5
        counts = f"chosen ({int(self.support.sum()):,})", f"not chosen ({np.sum(~self.support):,})"
        self.chosen_, self.rest_ = (
            self.ax_.stairs(
                np.where(which, communality, 0.0), edges, fill=True, color=colour, label=label
            )
            for which, colour, label in zip((support, ~support), (_CHOSEN, _REST), counts)
        )
        if self.chance > 0.0:
            self.chance_line_ = self.ax_.axhline(
                self.chance, color="0.3", linestyle="--", linewidth=1, label="chance alone"
            )
        _write_names(self.ax_, self.names[shown], otherwise="variables, highest first")
        if not self.support.any():
            _say(self.ax_, "no variable was chosen")
        # variables may fill the whole picture
        self.ax_.legend(loc="upper right", facecolor="white", framealpha=0.9, edgecolor="none")
        self.ax_.set(ylabel="communality", ylim=(0, 1.02), xlim=(edges[0], edges[-1]))
        _finish(self.ax_)
        return self


class PanelDisplay:
    """What a panel of few variables tells of all.

    Left, the share of the variance that panels of 1, 2, ... variables recover in held-out rows,
    with its standard deviation, and what they tell of the other variables as a share of what all
    variables together do. Right, how much of each variable is recovered as the chosen ones come one
    after the other: where a column turns dark, its variable is told.

    Parameters
    ----------
    recovered_path : array (n_tried,)
        Share of the variance of all variables, for 1, 2, ... variables.
    recovered_path_std : array (n_tried,)
        Its standard deviation.
    attained_path : array (n_tried,)
        What they tell of the others, as a share of what all variables together do.
    attainable : float
        The share of a variable that all others together tell, on average.
    wanted : float or None
        The share of what is attainable that decided how many; None: the number was given.
    n_selected : int
        How many were chosen.
    shares : array (n_shown, n_columns)
        Of each variable that is drawn, the share that the first, the first two, ... recover.
    chosen_names : array (n_shown,)
        Names of the chosen variables, the first worth most.
    column_names : array (n_columns,)
        Names of the variables that are drawn.
    stand_in : int array (n_columns,)
        Which row of ``shares`` stands for each of them; rising.
    n_features : int
        How many variables there are in all.

    Attributes
    ----------
    ax_ : array of two matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The share that is recovered.
    band_ : matplotlib FillBetweenPolyCollection
        Its standard deviation.
    attained_line_ : matplotlib Line2D
        What is told of the others, as a share of what is attainable.
    attainable_line_ : matplotlib Line2D
        What all others tell of a variable.
    image_ : matplotlib AxesImage
        What is recovered of each variable.
    """

    ax_: Sequence[Axes]
    figure_: Figure | SubFigure
    line_: Line2D
    band_: FillBetweenPolyCollection
    attained_line_: Line2D
    attainable_line_: Line2D
    image_: AxesImage

    def __init__(
        self,
        recovered_path: Array,
        recovered_path_std: Array,
        attained_path: Array,
        attainable: float,
        wanted: float | None,
        n_selected: int,
        shares: Array,
        chosen_names: Sequence[str] | np.ndarray,
        column_names: Sequence[str] | np.ndarray,
        stand_in: Array,
        n_features: int,
    ) -> None:
        self.recovered_path = to_numpy(recovered_path)
        self.recovered_path_std = to_numpy(recovered_path_std)
        self.attained_path = to_numpy(attained_path)
        self.attainable = float(attainable)
        self.wanted = wanted
        self.n_selected = n_selected
        self.shares = to_numpy(shares)
        self.chosen_names = np.asarray(chosen_names, dtype=object)
        self.column_names = np.asarray(column_names, dtype=object)
        self.stand_in = to_numpy(stand_in)
        self.n_features = n_features

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
        estimator : fitted Panel
        max_features : int
            How many of the chosen variables have a row on the right, from the first on.
        ax : two matplotlib Axes or None
            None: in a new figure.
        **image
            For matplotlib's ``imshow``.

        Returns
        -------
        PanelDisplay
        """
        return cls.from_findings(_found(estimator), max_features=max_features, ax=ax, **image)

    @classmethod
    def from_findings(
        cls,
        found: Findings,
        *,
        max_features: int = 30,
        ax: Sequence[Axes] | None = None,
        **image: Any,
    ) -> Self:
        """As `from_estimator`, of what was read already."""
        told = found.told
        if told is None:
            raise _lacks(cls, found, TELLS)
        first = told.order[:max_features]
        place = np.full(len(found.names) + 1, -1)  # the last for what nothing stands for
        place[first] = np.arange(first.size)
        row = place[told.stand_in]
        drawn = np.flatnonzero(row >= 0)
        # a chosen variable, of which all is known, comes before those that it stands for
        drawn = drawn[np.lexsort((-told.recovered[drawn], row[drawn]))]
        display = cls(
            told.recovered_path,
            told.recovered_path_std,
            told.attained_path,
            told.attainable,
            told.wanted,
            found.n_selected,
            np.cumsum(told.added(first.size), axis=0)[:, drawn],
            [found.names[k] for k in first],
            [found.names[k] for k in drawn],
            row[drawn],
            len(found.names),
        )
        return display.plot(ax, **image)

    def plot(self, ax: Sequence[Axes] | None = None, **image: Any) -> Self:
        """Draw into the two Axes ``ax``, or into a new figure."""
        # room for every name, those of the columns upright
        longest = max(map(len, _short_names(self.column_names)))
        height = max(4.0, 1.6 + 0.16 * self.chosen_names.size)
        height += 0.07 * longest if self.column_names.size <= _MOST_NAMES else 0.0
        self.ax_ = _new_axes(columns=2, height=height) if ax is None else ax
        left, right = self.ax_
        self.figure_ = left.figure
        self._draw_path(left)
        self._draw_shares(right, image)
        return self

    def _draw_path(self, ax: Axes) -> None:
        count = np.arange(1, self.recovered_path.size + 1)
        mean, std = self.recovered_path, self.recovered_path_std
        marker = "." if count.size <= _MOST_NAMES else ""
        (self.line_,) = ax.plot(
            count, mean, color=_PATH, marker=marker, label="of the variance of all variables"
        )
        self.band_ = ax.fill_between(
            count, mean - std, mean + std, color=_PATH, alpha=0.2, linewidth=0
        )
        (self.attained_line_,) = ax.plot(
            count,
            self.attained_path,
            color=_PATH,
            linestyle="--",
            linewidth=1,
            label="of what all variables tell of the others",
        )
        self.attainable_line_ = ax.axhline(
            self.attainable,
            color="0.4",
            linestyle=":",
            linewidth=1,
            label=f"all others tell {self.attainable:.2f} of a variable",
        )
        at = float(mean[self.n_selected - 1])
        late = self.n_selected > 0.6 * count.size
        ax.plot([self.n_selected], [at], "o", color=_CHOSEN, zorder=3)
        ax.annotate(
            f"{self.n_selected} variables: {at:.2f}",
            (self.n_selected, at),
            textcoords="offset points",
            xytext=(0, -38) if late else (6, -16),
            ha="right" if late else "left",
            color=_CHOSEN,
            bbox={"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1.0},
        )
        if self.wanted is not None:
            ax.axhline(
                self.wanted,
                color=_CHOSEN,
                linestyle="--",
                linewidth=0.8,
                label=f"asked for: {self.wanted:g} of what all tell",
            )
        ax.set(xlabel="number of variables", ylabel="share recovered in held-out rows")
        ax.set_ylim(min(0.0, float(np.min(mean - std))), 1.04)
        ax.locator_params(axis="x", integer=True)
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), fontsize=8)
        _finish(ax)

    def _draw_shares(self, ax: Axes, image: Style) -> None:
        from matplotlib.colors import PowerNorm

        style: Style = {"cmap": "Blues", "aspect": "auto"}
        if not {"vmin", "vmax", "norm"} & set(image):
            # most shares are far below those of the chosen variables themselves, which are 1
            style["norm"] = PowerNorm(0.5, 0.0, 1.0)
        self.image_ = ax.imshow(self.shares, **(style | image))
        rows, columns = self.shares.shape
        width, tall = _inches(ax)
        most = min(_LONGEST_NAME, int(0.35 * width / _CHARACTER))
        if most >= _FEWEST_CHARACTERS and rows * 0.8 * _LINE <= tall:
            ax.set_yticks(np.arange(rows), _short_names(self.chosen_names, most), fontsize=8)
        else:
            ax.set_yticks([])
        without = self.n_features - columns
        _write_names(ax, self.column_names, otherwise="", rotation=90)
        rest = f"\n({without:,} others are not drawn)" if without else ""
        ax.set_xlabel(f"{columns:,} variables, by what stands for them{rest}", fontsize=9)
        ax.set_ylabel("chosen, one after the other", fontsize=9)
        # where the variables end that the next chosen one stands for
        for edge in np.flatnonzero(np.diff(self.stand_in)) + 0.5:
            ax.axvline(edge, color="0.75", linewidth=0.4)
        self.figure_.colorbar(self.image_, ax=ax, label="share of it that is recovered so far")
        _keep_room(ax)


class SlopeDisplay:
    """The slope heuristic: log-likelihood against the number of parameters with the line through
    its linear part, and the criterion against the penalty.

    Parameters
    ----------
    n_parameters : array (n_models,)
        Of the models along the path.
    log_likelihood : array (n_models,)
        Their log-likelihoods.
    criterion : array (n_models,)
        What the chosen model maximises.
    penalties : array (n_models,)
        Their penalties.
    penalty : float
        The chosen one.
    slope : Slope or None
        The line through the linear part, if it was the slope heuristic that chose.

    Attributes
    ----------
    ax_ : array of two matplotlib Axes
    axes_ : array of two matplotlib Axes
        The same.
    figure_ : matplotlib Figure
    """

    ax_: Sequence[Axes]
    axes_: Sequence[Axes]
    figure_: Figure | SubFigure

    def __init__(
        self,
        n_parameters: Array,
        log_likelihood: Array,
        criterion: Array,
        penalties: Array,
        penalty: float,
        slope: Slope | None = None,
    ) -> None:
        self.n_parameters = to_numpy(n_parameters)
        self.log_likelihood = to_numpy(log_likelihood)
        self.criterion = to_numpy(criterion)
        self.penalties = to_numpy(penalties)
        self.penalty = penalty
        self.slope = slope

    @classmethod
    def from_estimator(
        cls,
        estimator: VariableSelector,
        *,
        ax: Sequence[Axes] | None = None,
        axes: Sequence[Axes] | None = None,
    ) -> Self:
        """Draw the path of a fitted estimator that has ``log_likelihood_path_``.

        Parameters
        ----------
        estimator : fitted estimator
        ax : two matplotlib Axes or None
            None: in a new figure.
        axes : two matplotlib Axes or None
            Another name for ``ax``.

        Returns
        -------
        SlopeDisplay
        """
        return cls.from_findings(_found(estimator), ax=axes if ax is None else ax)

    @classmethod
    def from_findings(cls, found: Findings, *, ax: Sequence[Axes] | None = None) -> Self:
        """As `from_estimator`, of what was read already."""
        if found.penalties is None:
            raise _lacks(cls, found, "log_likelihood_path_")
        return cls(*found.penalties).plot(ax)

    def plot(self, ax: Sequence[Axes] | None = None, *, axes: Sequence[Axes] | None = None) -> Self:
        """Draw into the two Axes ``ax`` (or ``axes``), or into a new figure."""
        given = axes if ax is None else ax
        self.ax_ = self.axes_ = _new_axes(columns=2) if given is None else given
        left, right = self.ax_
        self.figure_ = left.figure
        dimension, likelihood, criterion = self.n_parameters, self.log_likelihood, self.criterion
        # the nearest, as in `findings`
        best = int(np.lexsort((-criterion, np.abs(self.penalties - self.penalty)))[0])
        left.plot(dimension, likelihood, ".", color=_PATH)
        if self.slope is not None and self.slope.n_points:
            # the penalty's shape, read off the criterion: a line in it is a curve in dimension
            shape = (likelihood - criterion) / (2.0 * self.slope.slope)
            order = np.argsort(dimension)
            line = self.slope.intercept + self.slope.slope * shape
            left.plot(dimension[order], line[order], color=_REST, label="growth by noise alone")
            left.set_ylim(bottom=likelihood.min() - 0.05 * np.ptp(likelihood))
            left.legend(frameon=False, loc="lower right")
        left.plot(dimension[best], likelihood[best], "o", color=_CHOSEN)
        left.set(xlabel="number of parameters", ylabel="log-likelihood")
        right.plot(self.penalties, criterion, color=_PATH)
        right.plot(self.penalty, criterion[best], "o", color=_CHOSEN)
        right.annotate(
            f"penalty {self.penalty:.3g}",
            (self.penalty, criterion[best]),
            textcoords="offset points",
            xytext=(0, 9),
            ha="center",
            color=_CHOSEN,
        )
        right.margins(y=0.14)
        right.set(xlabel="penalty", ylabel="criterion")
        for one in self.ax_:
            _finish(one)
        return self


class LoadingsDisplay:
    """Heat map of the loadings of the chosen variables, the largest first.

    Parameters
    ----------
    components : array (n_components, n_shown)
        Loadings of the variables to show.
    names : array (n_shown,)
        Their names.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage
        If there are loadings.
    """

    ax_: Axes
    figure_: Figure | SubFigure
    image_: AxesImage

    def __init__(self, components: Array, names: Sequence[str] | np.ndarray) -> None:
        self.components = to_numpy(components)
        self.names = np.asarray(names, dtype=object)

    @classmethod
    def from_estimator(
        cls,
        estimator: VariableSelector,
        *,
        max_features: int | None = 40,
        ax: Axes | None = None,
        **image: Any,
    ) -> Self:
        """Draw ``components_`` of a fitted estimator, or its ``coef_``.

        Parameters
        ----------
        estimator : fitted estimator
        max_features : int or None
            How many of the chosen variables, from the largest loadings on; None: all.
        ax : matplotlib Axes or None
            None: in a new figure.
        **image
            For matplotlib's ``imshow``.

        Returns
        -------
        LoadingsDisplay
        """
        return cls.from_findings(_found(estimator), max_features=max_features, ax=ax, **image)

    @classmethod
    def from_findings(
        cls,
        found: Findings,
        *,
        max_features: int | None = 40,
        ax: Axes | None = None,
        **image: Any,
    ) -> Self:
        """As `from_estimator`, of what was read already."""
        by_size = np.argsort(-np.linalg.norm(found.loadings, axis=0), kind="stable")
        chosen = by_size[found.support[by_size]][:max_features]
        names = [found.names[k] for k in chosen]
        return cls(found.loadings[:, chosen], names).plot(ax, **image)

    def plot(self, ax: Axes | None = None, **image: Any) -> Self:
        """Draw into ``ax``, or into a new figure."""
        self.ax_ = _new_axes(height=3.8 + _room_below(self.names)) if ax is None else ax
        self.figure_ = self.ax_.figure
        if not self.components.size:
            _say(self.ax_, "no variable was chosen: there are no loadings")
            self.ax_.set_axis_off()
            return self
        largest = float(np.max(np.abs(self.components), initial=0.0)) or 1.0
        style: Style = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest, "aspect": "auto"}
        self.image_ = self.ax_.imshow(self.components, **(style | image))
        d, q = self.components.shape
        _write_names(self.ax_, self.names, otherwise=f"{q:,} variables, largest loadings first")
        self.ax_.set_yticks(np.arange(d), np.arange(1, d + 1))
        self.ax_.set(ylabel="component")
        self.figure_.colorbar(self.image_, ax=self.ax_, label="loading")
        _keep_room(self.ax_)
        return self


class ViewsDisplay:
    """Heat map of what every latent explains of every view.

    Parameters
    ----------
    shares : array (views, latents)
        Of the variance of each view.
    latent_view : int array (latents,)
        -1 for latents that all views share, else the view of each.
    view_names : sequence of str or None, default=None
        None: view 1, view 2, ...

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage
    """

    ax_: Axes
    figure_: Figure | SubFigure
    image_: AxesImage

    def __init__(
        self,
        shares: Array,
        latent_view: Array,
        view_names: Sequence[str] | None = None,
    ) -> None:
        self.shares = np.atleast_2d(to_numpy(shares))
        self.latent_view = to_numpy(latent_view)
        views = self.shares.shape[0]
        if view_names is None:
            view_names = [f"view {number + 1}" for number in range(views)]
        if isinstance(view_names, str) or len(view_names) != views:
            raise ParameterError(
                f"`view_names` must be one name for each of the {views} views, got {view_names!r}"
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
        """Draw what the latents of a fitted estimator of several views explain.

        Parameters
        ----------
        estimator : fitted estimator
        view_names : sequence of str or None
            None: view 1, view 2, ...
        group : label or None
            What they explain in one group of the samples, of an `SCA` that was fitted with groups;
            None: in all samples.
        ax : matplotlib Axes or None
            None: in a new figure.
        **image
            For matplotlib's ``imshow``.

        Returns
        -------
        ViewsDisplay
        """
        found = _found(estimator)
        if group is not None and found.views is not None:
            shares = _shares_in_group(estimator, group, found.views.columns)
            found = found._replace(views=found.views._replace(shares=shares))
        return cls.from_findings(found, view_names=view_names, ax=ax, **image)

    @classmethod
    def from_findings(
        cls,
        found: Findings,
        *,
        view_names: Sequence[str] | None = None,
        ax: Axes | None = None,
        **image: Any,
    ) -> Self:
        """As `from_estimator`, of what was read already."""
        if found.views is None:
            raise _lacks(cls, found, VIEWS)
        views = found.views
        return cls(views.shares, views.latent_view, view_names).plot(ax, **image)

    def plot(self, ax: Axes | None = None, **image: Any) -> Self:
        """Draw into ``ax``, or into a new figure."""
        views, latents = self.shares.shape
        height = 1.6 + 0.42 * max(2, min(views, 12))
        self.ax_ = (
            _new_axes(height=height, more_width=0.25 * max(0, latents - 16)) if ax is None else ax
        )
        self.figure_ = self.ax_.figure
        largest = float(np.max(self.shares, initial=0.0)) or 1.0
        style: Style = {"cmap": "Blues", "vmin": 0.0, "vmax": largest, "aspect": "auto"}
        self.image_ = self.ax_.imshow(self.shares, **(style | image))
        totals = [
            f"{name} ({total:.0%})"
            for name, total in zip(
                _short_names(self.view_names, 22), self.shares.sum(axis=1), strict=True
            )
        ]
        self.ax_.set_yticks(np.arange(views), totals)
        self._write_latents()
        self._write_shares(largest)
        bar = self.figure_.colorbar(self.image_, ax=self.ax_, label="share of the view's variance")
        bar.ax.yaxis.set_major_formatter("{x:.0%}")
        _keep_room(self.ax_)
        return self

    def _write_latents(self) -> None:
        """Numbers from 1 below the columns, starred where a latent is one view's own."""
        latents = self.latent_view.size
        if latents > _MOST_NAMES:
            self.ax_.set_xticks([])
            self.ax_.set_xlabel(f"{latents:,} latents")
            return
        own = self.latent_view >= 0
        marks = [f"{k + 1}{'*' if alone else ''}" for k, alone in enumerate(own)]
        self.ax_.set_xticks(np.arange(latents), marks, fontsize=8)
        self.ax_.set_xlabel("latent (*: of one view alone)" if own.any() else "latent")

    def _write_shares(self, largest: float) -> None:
        """Shares in the cells, where there is room: a share under half a percent is left out."""
        views, latents = self.shares.shape
        width, height = _inches(self.ax_)
        if width < 0.42 * latents or height < 1.3 * _LINE * views:
            return
        for v, k in zip(*np.nonzero(self.shares >= 0.005), strict=True):
            share = float(self.shares[v, k])
            colour = "white" if share > 0.55 * largest else "0.15"
            self.ax_.text(k, v, f"{share:.0%}", ha="center", va="center", fontsize=8, color=colour)


def _shares_in_group(
    estimator: VariableSelector, group: object, columns: Sequence[np.ndarray]
) -> np.ndarray:
    """Shares (views, latents) of the variance of every view in one group of the samples."""
    labels: list[object] = list(np.asarray(getattr(estimator, "groups_", ())).tolist())
    if group not in labels:
        there = f"the groups are {labels}" if labels else "the model was fitted without groups"
        raise ParameterError(f"`group` must be one of the groups, got {group!r}; {there}")
    place = labels.index(group)
    explained, noise, varying = (
        to_numpy(getattr(estimator, f"{name}_"))[place].astype(float)
        for name in ("explained_variance_per_group", "group_noise_variance", "group_varying")
    )
    left = np.array([np.sum((noise * varying)[positions]) for positions in columns])
    total = explained.sum(axis=1) + left
    shares: np.ndarray = explained / np.where(total > 0, total, 1.0)[:, None]
    return shares


class ScoresDisplay:
    """Scores of the rows on two components, with the variables as arrows if asked for.

    Parameters
    ----------
    scores : array (n_samples, n_components)
        Of the rows.
    loadings : array (2, n_arrows) or None
        Of the variables that become arrows.
    names : array (n_arrows,)
        Names of these variables.
    pair : two int
        The components to draw, counted from 0.
    label : array (n_samples,) or None
        What colours the rows. Decimal numbers, and more than 20 different integers, get a colour
        bar. Anything else names groups: up to 20 have colours of their own, the largest if there
        are more, and the rest are drawn in grey as "others".
    shares : array (n_components,) or None
        The share of the variance that each component has, to be written beside its name.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    points_ : list of matplotlib PathCollection
        One per group; that of the others, if there are any, is the last.
    """

    ax_: Axes
    figure_: Figure | SubFigure
    points_: list[PathCollection]

    def __init__(
        self,
        scores: Array,
        loadings: Array | None = None,
        names: Sequence[str] | np.ndarray = (),
        pair: tuple[int, int] = (0, 1),
        label: ArrayLike | None = None,
        shares: Array | None = None,
    ) -> None:
        self.scores = to_numpy(scores)
        self.loadings = None if loadings is None else to_numpy(loadings)
        self.names = np.asarray(names, dtype=object)
        self.pair = pair
        self.label = None if label is None else np.asarray(to_numpy_if_foreign(label))
        self.shares = None if shares is None else to_numpy(shares)

    @classmethod
    def from_estimator(
        cls,
        estimator: VariableSelector,
        X: Any,
        *,
        components: tuple[int, int] = (0, 1),
        label: ArrayLike | None = None,
        biplot: bool = False,
        max_features: int = 10,
        ax: Axes | None = None,
        **points: Any,
    ) -> Self:
        """Draw ``transform(X)``.

        Parameters
        ----------
        estimator : fitted estimator
        X : table (n_samples, n_features_in_)
        components : two int
            Which components, counted from 0. A model that has one is drawn against the rows.
        label : array (n_samples,) or None
            What colours the rows: numbers, or names of groups.
        biplot : bool
            Whether to add the variables as arrows.
        max_features : int
            How many arrows, from the longest on.
        ax : matplotlib Axes or None
            None: in a new figure.
        **points
            For matplotlib's ``scatter``.

        Returns
        -------
        ScoresDisplay
        """
        found = _found(estimator)
        scores = scores_of(estimator, X)
        if scores is None:
            raise _lacks(cls, found, "components_")
        pair = components if scores.shape[1] > 1 else (0, 0)
        loadings, names = None, found.names
        if biplot and scores.shape[1] > 1:
            both = found.loadings[list(pair)]
            longest = np.argsort(-np.linalg.norm(both, axis=0), kind="stable")[:max_features]
            longest = longest[np.any(both[:, longest] != 0, axis=0)]
            loadings, names = both[:, longest], [names[k] for k in longest]
        shares = variance_shares(estimator)
        return cls(scores, loadings, names, pair, label, shares).plot(ax, **points)

    def plot(
        self, ax: Axes | None = None, *, label: ArrayLike | None = None, **points: Any
    ) -> Self:
        """Draw into ``ax``, or into a new figure; ``label`` takes the place of the one given."""
        groups = _Groups.of(self.label if label is None else np.asarray(to_numpy_if_foreign(label)))
        self.ax_ = _new_axes(more_width=groups.width_beside) if ax is None else ax
        self.figure_ = self.ax_.figure
        self.points_ = []
        if self.scores.shape[1] == 0:
            _say(self.ax_, "no variable was chosen: there are no components")
            self.ax_.set_axis_off()
            return self
        first, second = self.pair
        alone = self.scores.shape[1] == 1
        x = np.arange(1, self.scores.shape[0] + 1) if alone else self.scores[:, first]
        y = self.scores[:, second]
        style: Style = {"s": 18, "alpha": 0.8, "linewidths": 0} | points
        if groups.numbers is not None:
            self.points_.append(self.ax_.scatter(x, y, c=groups.numbers, **style))
            self.figure_.colorbar(self.points_[0], ax=self.ax_)
        elif groups.names:
            self._draw_groups(groups, x, y, style)
        else:
            self.points_.append(self.ax_.scatter(x, y, **{"color": _PATH, **style}))
        if self.loadings is not None and self.loadings.size:
            self._arrows(self.loadings, x, y)
        self.ax_.set(
            xlabel="row" if alone else self._axis_label(first), ylabel=self._axis_label(second)
        )
        _finish(self.ax_)
        return self

    def _axis_label(self, component: int) -> str:
        name = f"component {component + 1}"
        if self.shares is None:
            return name
        return f"{name} ({self.shares[component]:.1%} of the variance)"

    def _draw_groups(self, groups: _Groups, x: np.ndarray, y: np.ndarray, style: Style) -> None:
        """Every group in its colour, with a legend: inside the picture while that has room."""
        from matplotlib import colormaps

        width, height = _inches(self.ax_)
        outside = len(groups.names) > _MOST_INSIDE
        lines = int(height / _LINE)
        names, codes = groups.largest(min(_MOST_GROUPS, max(1, lines - 1)))
        # the ten strong colours first; the ten light ones have another marker, too
        palette = colormaps["tab20"].colors  # type: ignore[attr-defined]
        colours = [*palette[::2], *palette[1::2]]
        most = min(_LONGEST_NAME, int((0.28 if outside else 0.4) * width / _CHARACTER))
        for code, label in enumerate(_short_names(names, max(most, _FEWEST_CHARACTERS))):
            inside = codes == code
            own: Style = {"color": colours[code], "marker": "o" if code < 10 else "^"}
            self.points_.append(
                self.ax_.scatter(x[inside], y[inside], label=label, **(own | style))
            )
        rest = codes == len(names)
        if rest.any():
            label = f"others ({len(groups.names) - len(names)} groups)"
            label = label if len(label) <= most else "others"
            own = {"color": _OTHERS, "zorder": 0.9}
            self.points_.append(self.ax_.scatter(x[rest], y[rest], label=label, **(own | style)))
        if most < _FEWEST_CHARACTERS or lines < 2:
            return  # no legend could be read
        if outside:
            beside: Style = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "fontsize": 8}
            self.ax_.legend(frameon=False, borderaxespad=0.0, labelspacing=0.2, **beside)
        else:
            self.ax_.legend(frameon=False)

    def _arrows(self, arrows: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        """Variables as arrows, the longest as long as the cloud of points is wide."""
        reach = 0.9 * min(np.max(np.abs(x)), np.max(np.abs(y)))
        arrows = arrows * reach / np.max(np.linalg.norm(arrows, axis=0))
        most = max(_FEWEST_CHARACTERS, min(_LONGEST_NAME, int(0.4 * _inches(self.ax_)[0] / 0.08)))
        for (dx, dy), name in zip(arrows.T, _short_names(self.names, most), strict=True):
            self.ax_.annotate(
                "", (dx, dy), (0, 0), arrowprops={"arrowstyle": "->", "color": _CHOSEN}
            )
            self.ax_.annotate(name, (1.06 * dx, 1.06 * dy), color=_CHOSEN, ha="center")


class _Groups(NamedTuple):
    """What colours the rows: numbers, names of groups, or neither."""

    names: list[str]
    codes: np.ndarray  # (n_samples,) position of every row's group in ``names``
    numbers: np.ndarray | None = None  # (n_samples,)

    @classmethod
    def of(cls, label: np.ndarray | None) -> _Groups:
        nothing = np.zeros(0, dtype=int)
        if label is None:
            return cls([], nothing)
        if label.dtype.kind not in "iuf":
            label = label.astype(str)
        values, codes = np.unique(label, return_inverse=True)
        if label.dtype.kind == "f" or (label.dtype.kind in "iu" and values.size > _MOST_GROUPS):
            return cls([], nothing, label)
        return cls([str(value) for value in values], codes)

    @property
    def width_beside(self) -> float:
        """Inches that a legend beside a new figure needs."""
        if len(self.names) <= _MOST_INSIDE:
            return 0.0
        return 0.4 + _CHARACTER * max(map(len, _short_names(self.names)))

    def largest(self, most: int) -> tuple[list[str], np.ndarray]:
        """The largest groups in their order, and the codes of all rows among them; those of other
        groups come after the last."""
        if len(self.names) <= most:
            return self.names, self.codes
        sizes = np.bincount(self.codes)
        kept = np.sort(np.argsort(-sizes, kind="stable")[:most])
        among = np.full(len(self.names), most)
        among[kept] = np.arange(most)
        return [self.names[k] for k in kept], among[self.codes]


class ConvergenceDisplay:
    """How far the objective was below its last value, after every iteration.

    Parameters
    ----------
    traces : array, or list of arrays
        The objective per iteration, one trace or one per component.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib Line2D
        One per component where each was fitted by itself.
    """

    ax_: Axes
    figure_: Figure | SubFigure
    lines_: list[Line2D]

    def __init__(self, traces: Array | Sequence[Array]) -> None:
        traces = to_numpy_if_foreign(traces)
        one = isinstance(traces, np.ndarray) and traces.ndim == 1
        self.traces = [to_numpy(trace).astype(float) for trace in ([traces] if one else traces)]

    @classmethod
    def from_estimator(
        cls, estimator: VariableSelector, *, ax: Axes | None = None, **line: Any
    ) -> Self:
        """Draw ``objective_path_`` of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
        ax : matplotlib Axes or None
            None: in a new figure.
        **line
            For matplotlib's ``plot``.

        Returns
        -------
        ConvergenceDisplay
        """
        return cls.from_findings(_found(estimator), ax=ax, **line)

    @classmethod
    def from_findings(cls, found: Findings, *, ax: Axes | None = None, **line: Any) -> Self:
        """As `from_estimator`, of what was read already."""
        if not found.traces:
            raise _lacks(cls, found, "objective_path_")
        return cls(found.traces).plot(ax, **line)

    def plot(self, ax: Axes | None = None, **line: Any) -> Self:
        """Draw into ``ax``, or into a new figure."""
        self.ax_ = _new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        self.lines_ = []
        drawn = 0
        for k, trace in enumerate(self.traces):
            below = trace[-1] - trace
            shown = below > 0  # the last value itself has no logarithm
            alone = len(self.traces) == 1
            style: Style = {"color": _PATH} if alone else {"label": f"component {k + 1}"}
            self.lines_ += self.ax_.plot(np.flatnonzero(shown) + 1, below[shown], **(style | line))
            drawn += int(np.count_nonzero(shown))
        if len(self.traces) > 1:
            self.ax_.legend(frameon=False)
        if drawn:
            self.ax_.set_yscale("log")
        self.ax_.set(xlabel="iteration", ylabel="objective below its last value")
        _finish(self.ax_)
        return self


Display = type[
    EvidenceDisplay
    | RelevanceDisplay
    | InclusionDisplay
    | NumberDisplay
    | CommunalityDisplay
    | PanelDisplay
    | ViewsDisplay
    | SlopeDisplay
    | LoadingsDisplay
    | ScoresDisplay
    | ConvergenceDisplay
]


def displays_of(estimator: type[VariableSelector] | VariableSelector) -> list[Display]:
    """The Display classes that there are for an estimator, by what the registry says of it.

    Parameters
    ----------
    estimator : estimator, or its class
        Fitted or not.

    Returns
    -------
    list of Display classes
    """
    method = method_of(estimator() if isinstance(estimator, type) else estimator)
    displays: list[Display] = [RelevanceDisplay, LoadingsDisplay]
    if method.path is not None and method.path.evidence:
        displays.append(EvidenceDisplay)
    if "inclusion_probability_" in method.saved.fields:
        displays.append(InclusionDisplay)
    if "model_size_probability_" in method.saved.fields:
        displays.append(NumberDisplay)
    if method.tests:
        displays.append(CommunalityDisplay)
    if TELLS in method.saved.required:
        displays.append(PanelDisplay)
    if VIEWS in method.saved.required:
        displays.append(ViewsDisplay)
    if method.slope:
        displays.append(SlopeDisplay)
    if method.projects:
        displays.append(ScoresDisplay)
    if method.traces is not None:
        displays.append(ConvergenceDisplay)
    return displays


def _drawable(found: Findings) -> list[Display]:
    """The Display classes that there are for what a model found, how it chose first."""
    there: list[tuple[Display, bool]] = [
        (EvidenceDisplay, found.path is not None and found.path.evidence),
        (InclusionDisplay, found.probable is not None),
        (NumberDisplay, found.probable is not None and found.probable.number is not None),
        (CommunalityDisplay, found.shared is not None),
        (PanelDisplay, found.told is not None),
        (ViewsDisplay, found.views is not None),
        (SlopeDisplay, found.penalties is not None),
        (RelevanceDisplay, True),
        (LoadingsDisplay, True),
        (ScoresDisplay, not found.regression),
        (ConvergenceDisplay, bool(found.traces)),
    ]
    return [display for display, possible in there if possible]
