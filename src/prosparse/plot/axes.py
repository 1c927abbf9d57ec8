"""Axes, names and legends common to all plots."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.text import Annotation

Style = dict[str, Any]  # keyword arguments of Matplotlib functions

SELECTED = "#c2410c"
PATH = "#1e4e79"
NOT_SELECTED = "#9ab0c4"

MAX_NAMES = 40  # maximum number of legible names along an axis
MAX_NAME_LENGTH = 30  # characters; longer names are shortened in the middle
MIN_NAME_LENGTH = 4
CHARACTER_WIDTH, LINE_HEIGHT = 0.067, 0.135  # inches, for text of eight points
MAX_MARGIN = 0.6  # maximum size of names and labels relative to the plot


def new_axes(columns: int = 1, height: float = 3.8, extra_width: float = 0.0) -> Any:
    """Create a figure and return its Axes, or an array of adjacent Axes."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "Plots need Matplotlib, which is not installed: pip install 'prosparse[plot]'"
        ) from error
    size = ((6.4 if columns == 1 else 5.0 * columns) + extra_width, height)
    return pyplot.subplots(1, columns, figsize=size, layout="constrained")[1]


def size_in_inches(ax: Axes) -> tuple[float, float]:
    """Return the width and height of the plot."""
    return ax.bbox.width / ax.figure.dpi, ax.bbox.height / ax.figure.dpi


def shorten(name: object, length: int = MAX_NAME_LENGTH) -> str:
    """Shorten a name by removing its middle.

    Both ends are retained, because names often have a common prefix or suffix.
    """
    text = str(name)
    if len(text) <= length:
        return text
    head = length // 2
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"


def shorten_all(names: Sequence[object] | np.ndarray, length: int = MAX_NAME_LENGTH) -> list[str]:
    """Shorten names and keep them distinct if possible.

    If names would become equal, their common prefix and suffix are removed first.
    """
    full = [str(name) for name in names]
    short = [shorten(name, length) for name in full]
    if len(set(short)) != len(set(full)) > 1:
        head = _common_prefix_length(full)
        tail = _common_prefix_length([name[head:][::-1] for name in full])
        middles = [f"…{name[head : len(name) - tail]}{'…' if tail else ''}" for name in full]
        short = [shorten(middle, length) for middle in middles]
    return [name.replace("$", r"\$") for name in short]  # dollar signs do not delimit formulas


def _common_prefix_length(texts: Sequence[str]) -> int:
    equal = takewhile(lambda characters: len(set(characters)) == 1, zip(*texts))
    return sum(1 for _ in equal)


def height_of_names(names: np.ndarray) -> float:
    """Compute the extra height in inches for slanted names below a plot."""
    longest = max(map(len, shorten_all(names)), default=0)
    return 0.0 if names.size > MAX_NAMES else 0.058 * max(0, longest - 12)


def write_names(ax: Axes, names: np.ndarray, otherwise: str, rotation: int = 60) -> None:
    """Write names below positions 0, 1, ..., or ``otherwise`` if illegible."""
    width, height = size_in_inches(ax)
    rise = np.sin(np.deg2rad(rotation))
    length = min(MAX_NAME_LENGTH, int(0.4 * height / (CHARACTER_WIDTH * rise)))
    if names.size > MAX_NAMES or names.size * 0.1 > width or length < MIN_NAME_LENGTH:
        ax.set_xticks([])
        ax.set_xlabel(otherwise)
        return
    ax.set_xticks(
        np.arange(names.size),
        shorten_all(names, length),
        rotation=rotation,
        ha="right" if rotation < 90 else "center",
        fontsize=8,
    )


def draw_bars(
    ax: Axes, heights: np.ndarray, selected: np.ndarray, all_selected: np.ndarray, **legend: Any
) -> BarContainer:
    """Draw bars coloured by selection.

    The legend counts ``all_selected``, including variables that are not drawn.
    """
    colours = np.where(selected, SELECTED, NOT_SELECTED)
    bars = ax.bar(np.arange(heights.size), heights, width=0.85, color=colours)
    labels = selection_labels(all_selected)
    handles = [
        ax.bar([0], [0], color=colour, label=label)
        for colour, label in zip((SELECTED, NOT_SELECTED), labels, strict=True)
    ]
    ax.legend(handles=handles, frameon=False, **legend)
    ax.set_xlim(-0.8, heights.size - 0.2)
    return bars


def selection_labels(selected: np.ndarray) -> tuple[str, str]:
    """Return legend entries with the numbers of selected and other variables."""
    return f"selected ({int(selected.sum()):,})", f"not selected ({int((~selected).sum()):,})"


def annotate_point(ax: Axes, text: str, x: float, y: float, offset: float = 9) -> None:
    """Write ``text`` above a point, and extend the axis."""
    ax.annotate(
        text, (x, y), xytext=(0, offset), textcoords="offset points", ha="center", color=SELECTED
    )
    ax.margins(y=0.14)


def separate_labels(ax: Axes, labels: Sequence[Annotation], others: np.ndarray) -> None:
    """Move labels of points vertically until they do not overlap.

    Labels are offset from their points. Each label moves to the nearest free position above or
    below, and also avoids ``others``, an array (n, 2) of further points.
    """
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    figure: Any = ax.get_figure(root=True)
    for label in labels:
        label.set_in_layout(False)
    figure.draw_without_rendering()  # the layout determines the positions
    limits = ax.get_window_extent()
    marks = [Bbox.from_bounds(x - 2, y - 2, 4, 4) for x, y in ax.transData.transform(others)]
    occupied = list(marks)
    for label in labels:
        box = Text.get_window_extent(label).expanded(1.02, 1.1)  # without the connecting line
        shifts = sorted(np.arange(-60, 61) * 0.25 * box.height, key=abs)
        left = max(0.0, limits.x0 - box.x0) - max(0.0, box.x1 - limits.x1)
        places = [box.translated(left, shift) for shift in shifts]
        inside = [b for b in places if b.y0 >= limits.y0 and b.y1 <= limits.y1] or places[:1]
        best = min(inside, key=lambda b: sum(map(b.overlaps, occupied)))  # the nearest among ties
        x, y = label.xyann
        points = 72.0 / figure.dpi
        label.xyann = (x + points * left, y + points * (best.y0 - box.y0))
        occupied.append(best)


def write_message(ax: Axes, message: str) -> None:
    """Write a message in the middle of a plot that has no data."""
    ax.text(0.5, 0.5, message, transform=ax.transAxes, ha="center", va="center", color="0.3")


def finish(ax: Axes) -> None:
    """Remove the upper and right spines, and preserve the size of the plot."""
    ax.spines[["top", "right"]].set_visible(False)
    secure_size(ax)


def secure_size(ax: Axes) -> None:
    """Exclude the Axes from the layout if text leaves no space for the plot.

    A constrained layout reserves space for all text. If no space remains for the plot, the layout
    fails with a warning. In very small figures, some text is therefore cut off.
    """
    box = ax.get_tightbbox()
    if box is None:
        return
    for outer, inner in ((box.width, ax.bbox.width), (box.height, ax.bbox.height)):
        if outer - inner > MAX_MARGIN * inner:
            ax.set_in_layout(False)
