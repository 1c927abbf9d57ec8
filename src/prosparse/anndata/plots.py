"""Displays of results in an AnnData or a MuData (``pl``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..plot import (
    CommunalityDisplay,
    ConvergenceDisplay,
    Display,
    EvidenceDisplay,
    LoadingsDisplay,
    PanelDisplay,
    RelevanceDisplay,
    ScoresDisplay,
    ViewsDisplay,
)
from .annotated import column_of
from .stored_models import ENTRY, entry_of, unpack

if TYPE_CHECKING:
    from anndata import AnnData
    from mudata import MuData

_SHARED = """

Parameters
----------
adata : AnnData or MuData
    Data with the results of a function of this package.
key : str or None, default=None
    Name under which the results are stored. Required if several results are stored.
modality : str or None, default=None
    Modality of a MuData, for methods that are fitted separately to each.
**options : dict
    Arguments of ``from_estimator`` of the Display, such as ``ax``.

Returns
-------
Display
"""


def _drawer(display: type[Display], name: str, summary: str) -> Callable[..., Any]:
    """Build the function of a Display that requires only the fitted model."""

    def draw(
        adata: AnnData | MuData,
        key: str | None = None,
        *,
        modality: str | None = None,
        **options: Any,
    ) -> Display:
        return display.from_estimator(_model(adata, key, modality), **options)

    draw.__name__ = draw.__qualname__ = name
    draw.__doc__ = f"{summary}, by `{display.__name__}`.{_SHARED}"
    return draw


communality = _drawer(CommunalityDisplay, "communality", "Draw the communality of the variables")
relevance = _drawer(RelevanceDisplay, "relevance", "Draw the relevance of the variables")
loadings = _drawer(LoadingsDisplay, "loadings", "Draw the loadings of the components")
evidence = _drawer(EvidenceDisplay, "evidence", "Draw the evidence of each number of variables")
convergence = _drawer(ConvergenceDisplay, "convergence", "Draw the objective of the iterations")
panel = _drawer(PanelDisplay, "panel", "Draw the held-out R² of a panel")


def views(
    adata: AnnData | MuData, key: str | None = None, *, modality: str | None = None, **options: Any
) -> ViewsDisplay:
    """Draw the variance explained by view and factor, by `ViewsDisplay`."""
    names = entry_of(adata, key, modality)[1].get("views")
    options.setdefault("view_names", None if names is None else [str(name) for name in names])
    return ViewsDisplay.from_estimator(_model(adata, key, modality), **options)


def scores(
    adata: AnnData | MuData,
    key: str | None = None,
    *,
    components: tuple[int, int] = (0, 1),
    color: str | None = None,
    modality: str | None = None,
    **options: Any,
) -> ScoresDisplay:
    """Draw the scores of the observations, by `ScoresDisplay`.

    Parameters
    ----------
    adata : AnnData or MuData
        Data with the results of a function of this package.
    key : str or None, default=None
        Name under which the results are stored. Required if several results are stored.
    components : tuple of two int, default=(0, 1)
        Indices of the components.
    color : str or None, default=None
        Column of ``.obs`` by which observations are coloured.
    modality : str or None, default=None
        Modality of a MuData, for methods that are fitted separately to each.
    **options : dict
        Arguments of ``plot`` of the Display, such as ``ax``.

    Returns
    -------
    Display
    """
    key, entry = entry_of(adata, key, modality)
    data: Any = adata if modality is None else adata.mod[modality]
    values = np.asarray(data.obsm[f"X_{key}"])
    pair = components if values.shape[1] > 1 else (0, 0)
    label = None if color is None else column_of(data, "color", color, axis="obs").to_numpy()
    return ScoresDisplay(
        values, pair=pair, label=label, explained_variance_ratio=entry.get("variance_ratio")
    ).plot(**options)


def _model(data: Any, key: str | None, modality: str | None) -> Any:
    return unpack(entry_of(data, key, modality)[1][ENTRY])


views.__doc__ = f"{views.__doc__}{_SHARED}"
