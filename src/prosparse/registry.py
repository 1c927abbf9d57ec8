"""Registry of all methods, in the order presented to users.

A new method is added by importing its description and listing it in `METHODS`.
"""

from __future__ import annotations

from .errors import InputError
from .models.description import Method, Option
from .models.empca.description import METHOD as EMPCA
from .models.fdrpca.description import METHOD as FDRPCA
from .models.gsppca.description import METHOD as GSPPCA
from .models.panel.description import METHOD as PANEL
from .models.sca.description import METHOD as SCA
from .models.spinyreg.description import CLASSIFIER, REGRESSOR
from .models.sppca.description import METHOD as SPPCA

__all__ = ["METHODS", "Method", "Option", "method_of", "offered"]

METHODS: dict[str, Method] = {
    method.estimator.__name__: method
    for method in (FDRPCA, GSPPCA, SCA, SPPCA, EMPCA, PANEL, REGRESSOR, CLASSIFIER)
}
"""Descriptions of all methods by the class name of the estimator."""


def offered() -> dict[str, Method]:
    """Return the methods of ``prosparse select`` by name, the default first."""
    return {method.name: method for method in METHODS.values() if method.options is not None}


def method_of(model: object) -> Method:
    """Return the description of an estimator or of its base class."""
    for cls in type(model).__mro__:
        method = METHODS.get(cls.__name__)
        if method is not None and method.estimator is cls:
            return method
    raise InputError(
        f"{type(model).__name__} is not an estimator of prosparse; use one of {', '.join(METHODS)}."
    )
