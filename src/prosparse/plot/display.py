"""Base class of all Displays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data.arrays import to_numpy
from ..errors import InputError
from ..findings import Findings, findings_of
from ..models._base import VariableSelector
from ..registry import method_of
from .axes import new_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


Names = Any  # sequence or array of strings

# Conversion of the fields of a Display by their declared types.
_CONVERSIONS: dict[str, Callable[[Any], np.ndarray]] = {
    "Array": to_numpy,
    "Names": lambda names: np.asarray(names, dtype=object),
}


class Display(ABC):
    """Plot of a fitted estimator, in the style of scikit-learn's Displays.

    A Display stores its data as NumPy arrays. ``from_estimator`` creates and draws the Display, and
    ``plot`` draws it again. Subclasses specify the required fitted attribute and part of
    `Findings`, and how to read and draw the data.
    """

    attribute: ClassVar[str]  # fitted attribute to draw
    part: ClassVar[str]  # field of `Findings` that is None unless a model has the attribute
    n_axes: ClassVar[int] = 1

    ax_: Any  # matplotlib Axes, or a sequence of ``n_axes`` Axes
    figure_: Figure | SubFigure

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            convert = _CONVERSIONS.get(str(field.type).removesuffix(" | None"))
            value = getattr(self, field.name)
            if convert is not None and value is not None:
                setattr(self, field.name, convert(value))

    @classmethod
    def is_available(cls, findings: Findings) -> bool:
        """Return whether the Display can draw a fitted model."""
        return getattr(findings, cls.part) is not None

    @classmethod
    @abstractmethod
    def _read(cls, findings: Findings) -> Self:
        """Create the Display from the results of a fitted model."""

    plot: Callable[..., Self]  # draws into the given Axes or into a new figure

    @classmethod
    def from_estimator(cls, estimator: VariableSelector, *, ax: Any = None, **options: Any) -> Self:
        """Draw a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted estimator with the attribute to draw.
        ax : matplotlib Axes, or sequence of two, default=None
            Axes to draw into. By default, a new figure is created.
        **options : dict
            Keyword arguments of ``plot``.

        Returns
        -------
        Display
        """
        return cls._read(cls._findings(estimator)).plot(ax, **options)

    @classmethod
    def _findings(cls, estimator: VariableSelector) -> Findings:
        """Read a fitted estimator; raise an error if it cannot be drawn."""
        method_of(estimator)
        check_is_fitted(estimator)
        findings = findings_of(estimator)
        if not cls.is_available(findings):
            *first, last = (display.__name__ for display in available_displays(findings))
            raise InputError(
                f"{findings.method} has no `{cls.attribute}`, which {cls.__name__} draws. For "
                f"{findings.method}, use {', '.join(first)} or {last}."
            )
        return findings

    def _set_axes(self, ax: Any, height: float = 3.8, extra_width: float = 0.0) -> Any:
        """Store and return the given Axes, or those of a new figure."""
        self.ax_ = new_axes(self.n_axes, height, extra_width) if ax is None else ax
        first = self.ax_[0] if self.n_axes > 1 else self.ax_
        self.figure_ = first.figure
        return self.ax_


DISPLAYS: list[type[Display]] = []  # filled by the package; displays of the selection come first


def available_displays(findings: Findings) -> Sequence[type[Display]]:
    """Return the Displays available for a fitted model."""
    return [display for display in DISPLAYS if display.is_available(findings)]


def displays_of(estimator: VariableSelector) -> Sequence[type[Display]]:
    """Return the Displays available for a fitted estimator.

    Parameters
    ----------
    estimator : estimator
        Fitted estimator of prosparse.

    Returns
    -------
    list of Display subclasses
        Available Displays; those of the selection come first.
    """
    return available_displays(findings_of(estimator))
