"""Plots of fitted estimators, such as ``CommunalityDisplay``.

The classes follow scikit-learn's Displays: ``CommunalityDisplay.from_estimator(model)`` draws a
plot. Matplotlib is imported when a plot is drawn.
"""

from .communality import CommunalityDisplay
from .convergence import ConvergenceDisplay
from .display import DISPLAYS, Display, displays_of
from .evidence import EvidenceDisplay
from .inclusion import InclusionDisplay, ModelSizeDisplay
from .loadings import LoadingsDisplay
from .panel import PanelDisplay
from .relevance import RelevanceDisplay
from .scores import ScoresDisplay
from .slope import SlopeDisplay
from .views import ViewsDisplay

__all__ = [
    "CommunalityDisplay",
    "ConvergenceDisplay",
    "Display",
    "EvidenceDisplay",
    "InclusionDisplay",
    "LoadingsDisplay",
    "ModelSizeDisplay",
    "PanelDisplay",
    "RelevanceDisplay",
    "ScoresDisplay",
    "SlopeDisplay",
    "ViewsDisplay",
    "displays_of",
]

DISPLAYS.extend(
    [
        EvidenceDisplay,
        InclusionDisplay,
        ModelSizeDisplay,
        CommunalityDisplay,
        PanelDisplay,
        ViewsDisplay,
        SlopeDisplay,
        RelevanceDisplay,
        LoadingsDisplay,
        ScoresDisplay,
        ConvergenceDisplay,
    ]
)
