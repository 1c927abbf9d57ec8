"""Construction of estimators from command-line options."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from sklearn.utils import get_tags

from ..errors import ParameterError
from ..models._base import VariableSelector
from ..registry import METHODS, Method, offered

DEFAULT_METHOD = next(iter(offered()))
MISSING = ("error", "drop", "impute")  # values of --missing
CLASSIFIER = next(method.name for method in METHODS.values() if method.classifies)


class AnalysisOptions(NamedTuple):
    """Options of an analysis."""

    method: str = DEFAULT_METHOD  # name of the method on the command line
    components: int | str = "auto"
    method_options: Mapping[str, object] = {}  # values by option; None if not given
    scale: bool = False  # whether to scale columns to unit variance
    log1p: bool = False  # whether to replace every value x by log(1 + x)
    missing: str = "error"  # one of `MISSING`
    max_iter: int | None = None
    tol: float | None = None
    include: tuple[str, ...] = ()  # variables that a panel must contain
    exclude: tuple[str, ...] = ()  # variables that a panel must not contain
    costs: Mapping[str, float] = {}  # cost of each variable of a panel by name
    tables: tuple[Path, ...] = ()  # further tables of the same rows
    permutations: int | None = 0  # number of null datasets; None: by default, if a fit is fast
    stability: int = 0  # number of random halves of the rows, for stability selection

    @property
    def description(self) -> Method:
        """Description of the selected method."""
        return next(method for method in METHODS.values() if method.name == self.method)


def build_estimator(options: AnalysisOptions) -> VariableSelector:
    """Build the estimator, except for parameters that refer to variables.

    Options without an effect on the method raise a `ParameterError`.
    """
    method = options.description
    if options.tables and not method.fits_views:
        names = [other.name for other in offered().values() if other.fits_views]
        _refuse_unused("--table", options.method, names)
    parameters: dict[str, Any] = {}
    for parameter, flag, value, is_given in (
        ("n_components", "--components", options.components, options.components != "auto"),
        ("max_iter", "--max-iter", options.max_iter, options.max_iter is not None),
        ("tol", "--tol", options.tol, options.tol is not None),
    ):
        if is_given and not method.has_parameter(parameter):
            names = [other.name for other in offered().values() if other.has_parameter(parameter)]
            _refuse_unused(flag, options.method, names)
        if is_given or (parameter == "n_components" and method.has_parameter(parameter)):
            parameters[parameter] = value
    if method.has_parameter("random_state"):
        parameters["random_state"] = 0
    if options.scale and method.has_parameter("scale"):
        parameters["scale"] = True
    return method.estimator(**parameters, **_method_parameters(options))


def _method_parameters(options: AnalysisOptions) -> dict[str, Any]:
    """Convert the options of the methods to parameters."""
    known = {option.name: option for option in options.description.options or ()}
    for name, value in options.method_options.items():
        if value is not None and name not in known:
            names = [
                method.name
                for method in offered().values()
                if any(option.name == name for option in method.options or ())
            ]
            _refuse_unused(f"--{name}", options.method, names)
    if options.log1p and options.method_options.get("counts"):
        raise ParameterError("--counts requires raw counts: remove --log1p or --counts.")
    parameters: dict[str, Any] = {}
    for name, option in known.items():
        value = options.method_options.get(name)
        if value is not None:
            parameters[option.parameter] = option.parse(str(value)) if option.parse else value
    return parameters


def _refuse_unused(flag: str, method: str, names: Sequence[str]) -> NoReturn:
    raise ParameterError(f"{flag} has no effect with --method {method}; use {' or '.join(names)}.")


def set_variables(model: VariableSelector, options: AnalysisOptions, names: Sequence[str]) -> None:
    """Set the parameters of a panel that refer to single variables."""
    position = {name: k for k, name in enumerate(names)}
    parameters: dict[str, Any] = {}
    for parameter in ("include", "exclude"):
        given = getattr(options, parameter)
        for name in given:
            if name not in position:
                close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
                hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else "."
                raise ParameterError(f"--{parameter}: there is no variable {name!r}{hint}")
        if given:
            parameters[parameter] = [position[name] for name in given]
    both = {*options.include} & {*options.exclude}
    if both:
        raise ParameterError(
            f"--include and --exclude both contain {min(both)!r}: remove it from one of them."
        )
    if options.costs:
        missing = [name for name in names if name not in options.costs]
        if missing:
            raise ParameterError(
                f"--costs: {len(missing):,} of the {len(names):,} variables have no cost, such as "
                f"{missing[0]!r}. Add them to the file."
            )
        parameters["costs"] = [options.costs[name] for name in names]
    model.set_params(**parameters)


def set_views(model: VariableSelector, views: Mapping[str, list[int]]) -> None:
    """Set the columns of each of several joined tables."""
    if len(views) > 1:
        model.set_params(views=[slice(min(k), max(k) + 1) for k in views.values()])


def missing_strategy(options: AnalysisOptions, model: VariableSelector) -> str:
    """Return the argument ``missing`` of `prosparse.tables.prepare_table`."""
    if options.missing != "impute" and not options.tables:
        return options.missing
    if get_tags(model).input_tags.allow_nan:
        return "allow"
    return "components"
