"""The Python that repeats what a command did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..models._base import VariableSelector
from ..registry import method_of
from ..tables import ReadOptions


def as_python(
    path: Path,
    ask: ReadOptions,
    preparation: dict[str, Any],
    model: VariableSelector,
    *,
    scaled: bool,
    grouped: bool,
) -> str:
    """A script that reads the table, prepares it, fits the model and prints what it chose.

    Parameters
    ----------
    path : Path
        Of the table, as it was given.
    ask : ReadOptions
        How it was read.
    preparation : dict
        What of `prosparse.app.analysis.AnalysisOptions` changed the table; empty if nothing did.
    model : estimator
        As it was fitted.
    scaled : bool
        Whether the columns were divided by their standard deviations before the fit.
    grouped : bool
        Whether rows belong together.

    Returns
    -------
    str
    """
    defaults = type(model)().get_params(deep=False)
    parameters = model.get_params(deep=False)
    changed = {name: value for name, value in parameters.items() if value != defaults[name]}
    fields = {
        name: value
        for name, value in ask._asdict().items()
        if value != ReadOptions()._asdict()[name] and name not in ("progress", "variables")
    }
    how = f", ReadOptions({_arguments(fields)})" if fields else ""
    read = f"table = read_table({str(path)!r}{how})"
    imports = [f"from prosparse import {type(model).__name__}"]
    steps = []
    if preparation:
        names = ["AnalysisOptions", "prepared", *(["scaled_as", "scales_for"] if scaled else [])]
        imports.append(f"from prosparse.app.analysis import {', '.join(names)}")
        steps.append(f"wish = AnalysisOptions({_arguments(preparation)})")
        steps.append("table = prepared(table, wish)")
        if scaled:
            steps.append("table = scaled_as(table, scales_for(table, wish))")
    tools = "ReadOptions, read_table" if fields else "read_table"
    imports.append(f"from prosparse.tables import {tools}")
    given = ", groups=[str(one) for one in table.groups]" if grouped else ""
    if ask.response is not None:
        imports.insert(0, "import numpy as np")
        # rows without a response were left out, if there were any
        if method_of(model).classifies:
            imports.append("from prosparse.app.analysis import classes_of")
            steps.append("y = np.array(classes_of(table.response), dtype=object)")
            steps.append("known = np.array([one is not None for one in y])")
            steps.append("table, y = table._replace(X=table.X[known]), y[known]")
        else:
            steps.append("y = np.array(table.response, dtype=float)")
            steps.append("table, y = table._replace(X=table.X[~np.isnan(y)]), y[~np.isnan(y)]")
        given = ", y"
    chosen = "int(model.support_.sum())" if ask.response is not None else "model.n_selected_"
    return "\n".join(
        [
            *imports,
            "",
            read,
            *steps,
            f"model = {type(model).__name__}({_arguments(changed)}).fit(table.X{given})",
            f'print({chosen}, "of", len(table.names), "variables chosen")',
            "print([table.names[k] for k in model.get_support(indices=True)])",
        ]
    )


def _arguments(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
