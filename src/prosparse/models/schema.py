"""Schema of the attributes in a model file: types, shapes and ranges.

A model file may be edited or damaged. Each method declares its attributes in a `Schema`, and
`prosparse.persistence` checks models against this declaration before use.

Shapes are written as letters, each of which denotes the same number throughout a model: p columns,
d components, s selected variables, k models on a path, v views. "s+1" is one more than s, "*" any
length, "+" any length of at least one, and a digit a fixed length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..data.row_groups import LABEL_TYPES
from ..errors import ModelFileError, plural
from ..inference.loop import StopReason
from ..phrases import truncate

State = Mapping[str, Any]
Sizes = dict[str, int]
_FREE_LENGTHS = {"*": 0, "+": 1}  # minimum length of an axis without a letter


class Field(Protocol):
    """Declaration of the valid values of an attribute."""

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        """Raise `ModelFileError` unless ``value`` conforms to the declaration.

        ``sizes`` contains the number denoted by each letter. A new letter is assigned the first
        length with which it is compared.
        """
        ...


@dataclass(frozen=True)
class Array:
    """Number, or array of numbers, booleans, strings or labels."""

    dtypes: str  # accepted kinds of NumPy dtypes; "O" denotes arrays of strings
    shape: tuple[str, ...] = ()  # letters of the axes; empty for a single number
    finite: bool = False
    minimum: float = -np.inf
    exclusive: bool = False  # whether the values must exceed `minimum`
    below: str = ""  # letter of an upper bound that all values must be below
    stack: str = ""  # letter of a leading axis that either all such attributes have or none
    optional: bool = False  # whether None is accepted

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if self.optional and value is None:
            return
        if self.stack:
            stacked = sizes.setdefault(f"has {self.stack}", np.ndim(value) > len(self.shape))
            shape = (self.stack, *self.shape) if stacked else self.shape
            replace(self, shape=shape, stack="").check(name, value, sizes)
            return
        if self.shape:
            self._check_dtype(name, value)
            _check_shape(name, value, self.shape, sizes)
        else:
            integer = self.dtypes == "iu"
            if not isinstance(value, Integral if integer else Real) or isinstance(value, bool):
                expected = "an integer" if integer else "a number"
                raise ModelFileError(f"`{name}` must be {expected}, got {shorten(value)}.")
        if "O" not in self.dtypes:
            self._check_range(name, np.asarray(value), sizes)
        elif value.dtype.kind == "O" and not all(isinstance(text, str) for text in value):
            raise ModelFileError(f"`{name}` must contain strings only.")

    def _check_dtype(self, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.dtype.kind in self.dtypes:
            long_double = value.dtype.kind == "f" and value.dtype.itemsize > 8
            if not long_double or "O" in self.dtypes:  # SciPy does not accept long doubles
                return
        kinds = {"b": "booleans", "i": "integers", "O": "strings"}
        expected = kinds.get(self.dtypes[0], "numbers")
        if self.dtypes[1:] == LABEL_TYPES:
            expected = "labels"
        raise ModelFileError(f"`{name}` must be an array of {expected}, got {shorten(value)}.")

    def _check_range(self, name: str, values: np.ndarray, sizes: Sizes) -> None:
        if self.finite and not np.isfinite(values).all():
            raise ModelFileError(f"`{name}` must be finite, got NaN or infinite values.")
        too_small = values <= self.minimum if self.exclusive else values < self.minimum
        if np.any(too_small):
            bound = "greater than" if self.exclusive else "at least"
            raise ModelFileError(
                f"`{name}` must be {bound} {self.minimum:g}, got {values[too_small].min()}."
            )
        if self.below and np.any(values >= sizes[self.below]):
            raise ModelFileError(f"`{name}` must be below {sizes[self.below]}, got {values.max()}.")


def numbers(
    *shape: str,
    finite: bool = False,
    minimum: float = -np.inf,
    exclusive: bool = False,
    stack: str = "",
) -> Array:
    """Declare a real number, or an array of real numbers."""
    return Array("fiu", shape, finite, minimum, exclusive, stack=stack)


def positive(*shape: str) -> Array:
    """Declare finite numbers above zero."""
    return numbers(*shape, finite=True, minimum=0, exclusive=True)


def nonnegative(*shape: str, stack: str = "") -> Array:
    """Declare finite numbers of at least zero."""
    return numbers(*shape, finite=True, minimum=0, stack=stack)


def integers(*shape: str, minimum: float = 0, below: str = "") -> Array:
    """Declare integers, by default non-negative."""
    return Array("iu", shape, minimum=minimum, below=below)


def booleans(*shape: str) -> Array:
    """Declare an array of booleans."""
    return Array("b", shape)


def strings(*shape: str, optional: bool = False) -> Array:
    """Declare an array of strings."""
    return Array("OU", shape, optional=optional)


def labels(*shape: str) -> Array:
    """Declare an array of strings, numbers, booleans, bytes, dates or durations."""
    return Array("O" + LABEL_TYPES, shape)


@dataclass(frozen=True)
class Instance:
    """Instance of a class, or None if ``optional``."""

    type: type
    optional: bool = False

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, self.type) and not (self.optional and value is None):
            expected = f"{self.type.__name__}{' or None' if self.optional else ''}"
            raise ModelFileError(f"`{name}` must be {expected}, got {shorten(value)}.")


@dataclass(frozen=True)
class OneOf:
    """One of several allowed strings."""

    allowed: tuple[str, ...]

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, str) or value not in self.allowed:
            allowed = ", ".join(map(repr, self.allowed))
            raise ModelFileError(f"`{name}` must be one of {allowed}, got {shorten(value)}.")


@dataclass(frozen=True)
class ListOf:
    """List whose length is denoted by a letter, as in shapes."""

    entry: Field
    length: str
    counted: str  # noun for the objects that have an entry, such as "view"

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, list) or len(value) != sizes.setdefault(self.length, len(value)):
            raise ModelFileError(
                f"`{name}` must be a list with one entry for each {self.counted}, got "
                f"{shorten(value)}."
            )
        for entry in value:
            self.entry.check(name, entry, sizes)


@dataclass(frozen=True)
class DictOf:
    """Dictionary from labels, as strings, to values."""

    entry: Field

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if not isinstance(value, dict) or not all(isinstance(label, str) for label in value):
            raise ModelFileError(
                f"`{name}` must be a dictionary with strings as keys, got {shorten(value)}."
            )
        for entry in value.values():
            self.entry.check(name, entry, sizes)


def _check_shape(name: str, value: np.ndarray, shape: tuple[str, ...], sizes: Sizes) -> None:
    if value.ndim == len(shape):
        for letter, length in zip(shape, value.shape, strict=True):
            smaller = letter.removesuffix("+1")
            if smaller != letter and smaller in sizes:
                sizes[letter] = sizes[smaller] + 1
            if letter not in _FREE_LENGTHS:
                sizes.setdefault(letter, int(letter) if letter.isdigit() else length)
        if all(
            length >= _FREE_LENGTHS[letter] if letter in _FREE_LENGTHS else length == sizes[letter]
            for letter, length in zip(shape, value.shape, strict=True)
        ):
            return
    names = {"*": "any", "+": "at least 1"}
    expected = ", ".join(str(sizes.get(letter, names.get(letter, letter))) for letter in shape)
    raise ModelFileError(
        f"`{name}` has shape {value.shape}, but the other attributes imply "
        f"({expected}{',' if len(shape) == 1 else ''})."
    )


def shorten(value: Any) -> str:
    """Describe a value in at most 60 characters for a message."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return truncate(repr(value), 60)


# --- schemas

SELECTOR: Mapping[str, Field] = {
    "n_features_in_": integers(minimum=1),
    "support_": booleans("p"),
    "varying_": booleans("p"),
    "ranking_": integers("p", minimum=1),
    "relevance_": numbers("p", finite=True),
    "mean_": numbers("p", finite=True),
    "scale_": positive("p"),
    "n_selected_": integers(),
}
"""Attributes of every fitted estimator."""

PROJECTION: Mapping[str, Field] = {
    **SELECTOR,
    "components_": numbers("d", "p", finite=True),
    "n_components_": integers(),
    "explained_variance_": numbers("d"),
}
"""Attributes of every fitted estimator that computes scores."""

COMMON: Mapping[str, Field] = {
    "feature_names_in_": strings("p"),
    "explained_variance_ratio_": numbers("d"),
    "noise_variance_": nonnegative(),
    "objective_path_": numbers("+"),
    "stop_reason_": Instance(StopReason),
    "n_iter_": integers(),
}
"""Attributes that several methods have."""


def check_components(state: State) -> None:
    """Check that ``n_components_`` is the number of rows of ``components_``."""
    n_rows = len(state["components_"])
    if state["n_components_"] != n_rows:
        raise ModelFileError(
            f"`n_components_` is {state['n_components_']}, but `components_` has "
            f"{plural(n_rows, 'row')}."
        )


def check_cardinalities(state: State) -> None:
    """Check that the selected number of variables is on the path."""
    if state["n_selected_"] not in state["cardinalities_"]:
        raise ModelFileError(
            f"`n_selected_` is {state['n_selected_']}, which is not in `cardinalities_`."
        )


COVARIATES: Mapping[str, Field] = {
    "covariate_names_": strings("+"),
    "covariate_levels_": DictOf(strings("+")),
    "covariate_mean_": numbers("c", finite=True),
    "covariate_coef_": numbers("c", "p", finite=True),
    "covariate_r2_": nonnegative("p"),
}
"""Attributes of a model that was fitted with covariates; they exist together."""


def check_covariates(state: State) -> None:
    """Check the number of coefficients of covariates.

    There is one coefficient for each numeric covariate and for each level but the first.
    """
    if "covariate_names_" not in state:
        return
    names, levels = state["covariate_names_"].tolist(), state["covariate_levels_"]
    widths = [len(levels[name]) - 1 if name in levels else 1 for name in names]
    expected, found = sum(widths), len(state["covariate_mean_"])
    if len(set(names)) < len(names) or set(levels) - set(names) or expected != found:
        raise ModelFileError(
            f"`covariate_names_` and `covariate_levels_` imply {plural(expected, 'coefficient')}, "
            f"but `covariate_mean_` has {found}."
        )


class Schema(NamedTuple):
    """Declaration of the fitted attributes of one method."""

    required: Mapping[str, Field] = PROJECTION  # exist after every fit
    optional: Mapping[str, Field] = {}  # exist after some fits, in addition to those in `COMMON`
    all_or_none: tuple[tuple[str, ...], ...] = ()  # groups that exist together
    # Conditions between attributes that conform to their own declarations.
    checks: tuple[Callable[[State], None], ...] = (check_components,)

    @property
    def fields(self) -> dict[str, Field]:
        """Declarations of all attributes, in the order in which letters are assigned."""
        common = {name: COMMON[name] for name in COMMON if name not in self.required}
        return {**self.required, **common, **self.optional}
