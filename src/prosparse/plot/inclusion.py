"""Plots of inclusion probabilities and of model size probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from ..data import Array
from ..data.arrays import to_numpy
from ..findings import Findings
from .axes import (
    NOT_SELECTED,
    SELECTED,
    annotate_point,
    draw_bars,
    finish,
    height_of_names,
    write_names,
)
from .display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

MIN_PROBABILITY = 0.001  # model sizes of lower probability are not shown


class InclusionDisplay(Display):
    """Inclusion probability of the variables, coloured by selection.

    Variables with the same letter form a credible set: one of them has an effect, but the data do
    not identify which one.

    Parameters
    ----------
    probability : array of shape (n_features,)
        Inclusion probability of each variable.
    support : bool array of shape (n_features,)
        Mask of the selected variables.
    names : array of shape (n_features,)
        Names of the variables.
    credible_sets : sequence of int arrays, default=()
        Credible set of each selected variable, as column indices.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
    letters_ : dict of str to int arrays
        Credible sets of more than one variable, by letter.
    """

    attribute = "inclusion_probability_"
    part = "inclusion"
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
        sets = [to_numpy(indices).astype(int) for indices in credible_sets if len(indices) > 1]
        self.letters_ = {_letter(k): indices for k, indices in enumerate(sets)}

    @classmethod
    def _read(cls, findings: Findings) -> Self:
        inclusion = findings.inclusion
        assert inclusion is not None
        return cls(inclusion.probability, findings.support, findings.names, inclusion.credible_sets)

    def plot(self, ax: Axes | None = None, *, max_features: int | None = 30) -> Self:
        """Draw into ``ax``, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
        max_features : int or None, default=30
            Maximum number of variables, the most probable first. None draws all.

        Returns
        -------
        InclusionDisplay
        """
        order = np.argsort(-self.probability, kind="stable")[:max_features]
        names, probability = self.names[order], self.probability[order]
        ax = self._set_axes(ax, 3.8 + height_of_names(names))
        title = "same letter: credible set" if self.letters_ else None
        self.bars_ = draw_bars(
            ax, probability, self.support[order], self.support, title=title, title_fontsize="small"
        )
        for position, feature in enumerate(order):
            letters = [letter for letter, members in self.letters_.items() if feature in members]
            ax.annotate(
                "".join(letters),
                (position, probability[position]),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
        write_names(ax, names, otherwise="variables, most probable first")
        ax.set(ylabel="inclusion probability", ylim=(0, 1.1))
        finish(ax)
        return self


def _letter(k: int) -> str:
    """Return the letters for number k: a, b, ... z, aa, ab, ..."""
    return (_letter(k // 26 - 1) if k >= 26 else "") + chr(ord("a") + k % 26)


@dataclass(eq=False, repr=False)
class ModelSizeDisplay(Display):
    """Posterior probability of each number of variables.

    The selected number is marked.

    Parameters
    ----------
    probability : array of shape (max_size + 1,)
        Probability of 0, 1, ... variables.
    n_selected : int
        Selected number of variables.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
    """

    attribute = "model_size_probability_"

    probability: Array
    n_selected: int

    @classmethod
    def is_available(cls, findings: Findings) -> bool:
        return findings.inclusion is not None and findings.inclusion.model_size is not None

    @classmethod
    def _read(cls, findings: Findings) -> Self:
        assert findings.inclusion is not None
        return cls(findings.inclusion.model_size, findings.n_selected)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw into ``ax``, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, default=None

        Returns
        -------
        ModelSizeDisplay
        """
        ax = self._set_axes(ax)
        from matplotlib.ticker import MaxNLocator  # `_set_axes` reports a missing package

        size = np.arange(self.probability.size)
        colours = np.where(size == self.n_selected, SELECTED, NOT_SELECTED)
        self.bars_ = ax.bar(size, self.probability, width=0.85, color=colours)
        probable = np.flatnonzero(self.probability >= MIN_PROBABILITY)
        first, last = (int(probable[0]), int(probable[-1])) if probable.size else (0, size[-1])
        height = float(self.probability[min(self.n_selected, size[-1])])
        annotate_point(ax, f"{self.n_selected} selected", self.n_selected, height, offset=4)
        ax.set(
            xlabel="number of variables",
            ylabel="posterior probability",
            xlim=(min(first, self.n_selected) - 1.2, max(last, self.n_selected) + 1.2),
        )
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        finish(ax)
        return self
