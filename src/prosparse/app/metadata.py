"""Description of an analysis for reports and model files.

The description is a dictionary with the keys ``title``, ``check``, ``data``, ``settings``,
``notes``, ``warnings``, ``label``, ``total_variance``, ``column_scales``, ``command``, ``script``,
``file``, ``versions``, ``read_options``, ``preparation``, ``seconds`` and those of `diagnostics`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ..data.arrays import to_numpy
from ..errors import ModelFileError, plural
from ..files import sha256
from ..models._base import VariableSelector
from ..tables import ReadOptions, Table
from ..tables.preparation import MISSING_VALUES
from .estimators import AnalysisOptions

_TYPES: dict[str, type] = {
    "title": str, "data": dict, "settings": dict, "notes": list, "warnings": list, "label": str,
    "total_variance": float, "column_scales": list, "command": str, "file": dict,
    "read_options": dict, "preparation": dict, "script": str, "permutation_null": dict,
    "stability": dict, "redundancy": dict, "check": dict, "robustness": dict,
    "views": list, "shared_null": list, "n_imputed": int,
}  # fmt: skip


def describe_data(
    table: Table, model: VariableSelector, shape: tuple[int, int], read_options: ReadOptions
) -> dict[str, str]:
    """Describe the fitted table; ``shape`` is the shape of the file's table."""
    n, p = table.X.shape
    described = {"file": table.path.name, "rows": f"{n:,}", "variables": f"{p:,}"}
    if shape != (n, p):
        described["in the file"] = f"{shape[0]:,} rows, {shape[1]:,} variables"
    described["constant columns"] = f"{int(np.sum(~to_numpy(model.varying_))):,}"
    if table.labels:
        described["label"] = ", ".join(table.labels)
    for role in ("groups", "response"):
        if role in read_options.annotations:
            described[role] = read_options.annotations[role]
    if table.covariates:
        described["covariates"] = ", ".join(
            f"{name} ({describe_covariate(values)})" for name, values in table.covariates.items()
        )
    return described


def describe_covariate(values: np.ndarray) -> str:
    """Return "number", or the number of levels of a categorical covariate."""
    return "number" if values.dtype.kind == "f" else plural(np.unique(values).size, "level")


def describe_settings(options: AnalysisOptions, model: VariableSelector) -> dict[str, str]:
    """Describe the options of the analysis for the report."""
    method = options.description
    settings = {"method": type(model).__name__}
    parameters = model.get_params(deep=False)
    if "n_components" in parameters:
        is_auto = options.components == "auto"
        settings["components"] = "estimated from the data" if is_auto else str(options.components)
    settings["variables"] = "estimated from the data"
    for option in method.options or ():
        value = options.method_options.get(option.name)
        settings[option.name] = (
            option.default if value is None else "yes" if value is True else str(value)
        )
    for name in ("include", "exclude"):
        if getattr(options, name):
            settings[name] = ", ".join(getattr(options, name))
    if options.costs:
        settings["costs"] = "read from a file"
    for name in ("max_iter", "tol"):
        if getattr(options, name) is not None:
            settings[name.replace("_", "-")] = str(getattr(options, name))
    is_scaled = options.scale or method.standardizes or parameters.get("scale") is True
    settings["columns"] = "scaled to unit variance" if is_scaled else "in original units"
    settings["values"] = "log(1 + x)" if options.log1p else "untransformed"
    settings["missing values"] = {"error": "not allowed", "drop": "dropped", "impute": "imputed"}[
        options.missing
    ]
    return settings


def describe_file(path: Path) -> dict[str, str]:
    """Describe the content of the file by size and digest."""
    return {"file size": f"{path.stat().st_size:,} bytes", "SHA-256": sha256(path)}


def store_read_options(read_options: ReadOptions, table: Table) -> dict[str, Any]:
    """Return the options for reading another table in the same way, for JSON."""
    identifiers = (*read_options.identifiers, *table.identifiers)
    return read_options._replace(identifiers=identifiers).to_json()


def load_read_options(about: dict[str, Any]) -> ReadOptions:
    """Return the valid read options in a model file."""
    stored = about.get("read_options", {})
    options: dict[str, Any] = {}
    for name, default in ReadOptions()._asdict().items():
        value = stored.get(name)
        if isinstance(default, bool) and isinstance(value, bool):
            options[name] = value
        elif name == "label" and isinstance(value, str):
            options[name] = (value,)
        elif name == "skip_lines" and isinstance(value, list | tuple):
            options[name] = tuple(line for line in value if isinstance(line, int))
        elif isinstance(default, tuple) and isinstance(value, list | tuple):
            options[name] = tuple(map(str, value))
        elif (default is None or default == "") and isinstance(value, str):
            options[name] = value
    return ReadOptions(**options)


def load_preparation(about: dict[str, Any]) -> dict[str, Any]:
    """Return the valid arguments of `prepare_table` in a model file."""
    stored = about.get("preparation", {})
    arguments: dict[str, Any] = {}
    if isinstance(stored.get("log1p"), bool):
        arguments["log1p"] = stored["log1p"]
    if stored.get("missing") in MISSING_VALUES:
        arguments["missing"] = stored["missing"]
    return arguments


def validate_about(about: Any) -> dict[str, Any]:
    """Return the valid entries of the description in a model file.

    The file may come from an untrusted source. Invalid column scales raise a `ModelFileError`.
    """
    valid: dict[str, Any] = {}
    for key, value in about.items() if isinstance(about, dict) else ():
        if key in _TYPES and isinstance(value, _TYPES[key]):
            valid[key] = value
    scales = valid.get("column_scales", [])
    if not all(type(scale) in (int, float) and 0 < scale < math.inf for scale in scales):
        raise ModelFileError("`column_scales` must contain positive numbers.")
    for key in ("data", "settings", "file"):
        valid[key] = {str(name): str(value) for name, value in valid.get(key, {}).items()}
    for key in ("notes", "warnings"):
        valid[key] = [str(value) for value in valid.get(key, [])]
    return valid


def count_training_rows(about: dict[str, Any]) -> int | None:
    """Return the number of rows of the fit, or None if unknown."""
    count = about["data"].get("rows", "").replace(",", "")
    return int(count) if count.isdecimal() else None


def describe_new_data(about: dict[str, Any], table: Table, model: str) -> dict[str, Any]:
    """Adapt the description of a saved model to the scores of another table.

    The description is unchanged if the model was fitted to the same file.
    """
    if about["file"].get("SHA-256") == sha256(table.path):
        return about
    new, old = table.path.name, about["data"].get("file")
    fitted_to = f", fitted to {old}" if old else ""
    training = {f"{key} (model)": value for key, value in about["data"].items()}
    return about | {
        "title": f"Scores of {new} from the model {model}{fitted_to}",
        "data": {"file": new, "rows": f"{table.X.shape[0]:,}", "model": model, **training},
        "file": {f"{key} (model)": value for key, value in about["file"].items()},
        "notes": [*about["notes"], *(f"{new}: {note}" for note in table.notes)],
    }
