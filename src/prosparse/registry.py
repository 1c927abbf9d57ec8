"""Every estimator, registered once: files, command, report and contract tests read this."""

from __future__ import annotations

from typing import Any

from . import baselines
from .models.empca import EMPCA
from .models.gsppca import GSPPCA
from .models.sca import SCA
from .models.spinyreg import SpinyRegressor
from .models.sppca import SPPCA

METHODS: dict[str, type] = {"gsppca": GSPPCA, "sca": SCA, "sppca": SPPCA, "empca": EMPCA}
"""What ``prosparse select --method`` offers, by the name it is asked for."""

ESTIMATORS: dict[str, type[Any]] = {
    one.__name__: one
    for one in (
        *METHODS.values(),
        SpinyRegressor,
        *(getattr(baselines, name) for name in baselines.__all__),
    )
}
"""What can be saved and loaded, by class name."""
