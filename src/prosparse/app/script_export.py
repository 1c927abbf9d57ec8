"""Export of a Python script that repeats an analysis."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

from ..models._base import VariableSelector
from ..tables import ReadOptions


def export_script(
    path: Path,
    read_options: ReadOptions,
    preparation: dict[str, Any],
    model: VariableSelector,
    *,
    scaled: bool,
    further: Sequence[tuple[Path, ReadOptions]] = (),
) -> str:
    """Write a script that reads and prepares a table, and fits the model.

    ``scaled`` states whether the columns were divided by their standard deviations before the fit.
    ``further`` contains the paths and options of other tables with the same rows.
    """
    reading = [_format_reading(*source) for source in ((path, read_options), *further)]
    preparing = {
        name: value
        for name, value in preparation.items()
        if value != {"log1p": False, "missing": "error"}[name]
    }
    estimator = type(model)
    parameters = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if value != signature(estimator).parameters[name].default
    }
    is_supervised = read_options.response is not None
    names = [
        *["ReadOptions"] * any("ReadOptions" in line for line in reading),
        *["join_tables"] * bool(further),
        *["prepare_table"] * bool(preparing),
        "read_table",
    ]
    fit_arguments = ["X" if scaled else "table.X"]
    if is_supervised:
        fit_arguments.append("np.array(table.response)")
    if read_options.groups is not None:
        fit_arguments.append("groups=table.groups")
    if read_options.covariates:
        fit_arguments.append("covariates=table.covariates")
    lines = [
        *["import numpy as np"] * is_supervised,
        *["from sklearn.preprocessing import StandardScaler"] * scaled,
        f"from prosparse import {estimator.__name__}",
        f"from prosparse.tables import {', '.join(names)}",
        "",
        f"table = join_tables([{', '.join(reading)}]).table"
        if further
        else f"table = {reading[0]}",
    ]
    if preparing:
        lines.append(f"table = prepare_table(table, {_format_arguments(preparing)})")
    if scaled:
        lines.append("X = StandardScaler(with_mean=False).fit_transform(table.X)")
    lines += [
        f"model = {estimator.__name__}({_format_arguments(parameters)})",
        f"model.fit({', '.join(fit_arguments)})",
        'print(model.get_support().sum(), "of", len(table.names), "variables selected")',
        "print([table.names[k] for k in model.get_support(indices=True)])",
    ]
    return "\n".join(lines)


def _format_reading(path: Path, read_options: ReadOptions) -> str:
    defaults = ReadOptions().to_json()
    given = {
        name: value for name, value in read_options.to_json().items() if value != defaults[name]
    }
    options = f", ReadOptions({_format_arguments(given)})" if given else ""
    return f"read_table({str(path)!r}{options})"


def _format_arguments(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
