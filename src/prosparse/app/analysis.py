"""From a table in a file to a folder of results: what the command does, without the command."""

from __future__ import annotations

import hashlib
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

from ..data import kind_of
from ..data.arrays import host
from ..errors import InputError, ModelFileError, ParameterError, TableError
from ..findings import Findings, findings_of, scores_of
from ..models._base import VariableSelector
from ..models.sca import SCA
from ..persistence import versions
from ..registry import method_of, offered
from ..selection.dimension import completed
from ..tables import Ask, Table
from .doubts import look
from .python import as_python

_MOSTLY = 0.5  # a column with more gaps than this share is dropped before rows are
_LARGEST_SCA = 2_000_000  # values: filling gaps by SCA takes half a minute up to here
_EXACT_SIDE = 2_000  # up to this side all eigenvalues of a table are computed, beyond only the
_LEADING = 50  # first
_ROWS = 2**22  # entries looked at together, so that no second table is made
DEFAULT = next(iter(offered()))  # the method, where none is named
MISSING = ("error", "drop", "impute")  # what can be done about missing values


class Wish(NamedTuple):
    """What the user wants done with the table."""

    method: str = DEFAULT
    components: int | str = "auto"
    options: Mapping[str, object] = {}  # those of the methods, by name; None: left out
    scale: bool = False
    log1p: bool = False
    missing: str = "error"
    verbose: int = 0
    shuffles: int | None = None  # tables that share nothing; None: a few, if that is quick
    stability: int = 0  # halves of the rows


class Result(NamedTuple):
    """What was done, and what came of it."""

    table: Table  # as it was fitted
    model: VariableSelector
    about: dict[str, Any]  # what the report and the model file say about it, plain JSON
    found: Findings


# --- the table made ready


def prepared(table: Table, wish: Wish) -> Table:
    """Logarithms taken, missing values treated."""
    X = table.X.data if kind_of(table.X).is_sparse else table.X
    if wish.log1p:
        _refuse(table, lambda block: block <= -1, "is not above -1 and has no log(1 + x)")
        np.log1p(X, out=X)
        table = table._replace(notes=[*table.notes, "every value x became log(1 + x), as asked"])
    _refuse(table, np.isinf, "is infinite")
    return _without_gaps(table, wish)


def scaled_as(table: Table, scales: Sequence[float] | None) -> Table:
    """Every column divided by its number in ``scales``; for methods without scales of their own."""
    if scales is None:
        return table
    if len(scales) != table.X.shape[1]:
        raise TableError(
            f"{table.path}: {table.X.shape[1]} variables, but the model has {len(scales)}"
        )
    scaler = StandardScaler(with_mean=False, copy=False)
    scaler.scale_, scaler.n_features_in_ = np.asarray(scales, dtype=float), len(scales)
    note = "every column was divided by its standard deviation first, as asked"
    return table._replace(X=scaler.transform(table.X), notes=[*table.notes, note])


def scales_for(table: Table, wish: Wish) -> list[float] | None:
    """Standard deviations of the columns, if the method cannot scale by itself."""
    method = offered()[wish.method]
    if not wish.scale or method.scales or method.takes("scale"):
        return None
    return [float(s) for s in StandardScaler(with_mean=False).fit(table.X).scale_]


def _blocks(X: Any) -> Iterator[tuple[int, np.ndarray]]:
    step = max(1, _ROWS // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        rows = X[start : start + step]
        yield start, rows.toarray() if kind_of(rows).is_sparse else rows


def _row_called(table: Table, row: int) -> str:
    return f"row {row + 1} of the data" + (f" ({table.ids[row]!r})" if table.ids else "")


def _refuse(table: Table, bad: Callable[[np.ndarray], np.ndarray], what: str) -> None:
    values = table.X.data if kind_of(table.X).is_sparse else None
    if values is not None and not bad(values).any():
        return
    for start, block in _blocks(table.X):
        found = np.argwhere(bad(block))
        if found.size:
            row, column = found[0]
            raise TableError(
                f"{table.path}, {_row_called(table, start + row)}, column "
                f"{table.names[column]!r}: {block[row, column]:g} {what}"
            )


def _without_gaps(table: Table, wish: Wish) -> Table:
    if kind_of(table.X).is_sparse:
        _refuse(table, np.isnan, "is missing; a sparse table cannot have gaps")
        return table
    gaps = np.zeros(table.X.shape[1], dtype=int)
    first: tuple[int, int] | None = None
    for start, block in _blocks(table.X):
        empty = np.isnan(block)
        if first is None and empty.any():
            row, column = np.argwhere(empty)[0]
            first = (start + int(row), int(column))
        gaps += empty.sum(axis=0)
    if first is None:
        return table
    count, columns = int(gaps.sum()), int(np.count_nonzero(gaps))
    if wish.missing == "error":
        raise TableError(
            f"{table.path}, {_row_called(table, first[0])}, column {table.names[first[1]]!r}: the "
            f"value is missing, and {count - 1} more are. Say --missing drop or --missing impute"
        )
    said = f"{count:,} values in {columns:,} columns were missing"
    table = _drop_columns(table, gaps > _MOSTLY * table.X.shape[0])
    if wish.missing == "drop":
        return _drop_rows(table, said)
    asked = offered()[wish.method]
    if asked.allows_gaps:
        name = asked.estimator.__name__
        return table._replace(notes=[*table.notes, f"{said}: {name} leaves them open, exactly"])
    method = "SCA" if table.X.size <= _LARGEST_SCA else "principal components"
    note = f"{said} and were filled in by {method}, from the other values of their rows"
    return table._replace(X=imputed(table.X), notes=[*table.notes, note])


def _drop_columns(table: Table, empty: np.ndarray) -> Table:
    if not empty.any():
        return table
    if np.sum(~empty) < 2:
        raise TableError(f"{table.path}: all but {np.sum(~empty)} columns are mostly empty")
    names = [table.names[k] for k in np.flatnonzero(~empty)]
    lost = ", ".join(table.names[k] for k in np.flatnonzero(empty)[:5])
    note = f"{int(empty.sum()):,} columns, more than half of them empty, were left out: {lost}"
    return table._replace(X=table.X[:, ~empty], names=names, notes=[*table.notes, note])


def _drop_rows(table: Table, said: str) -> Table:
    full = np.concatenate([~np.isnan(block).any(axis=1) for _, block in _blocks(table.X)])
    if full.sum() < 2:
        raise TableError(
            f"{table.path}: {int(full.sum())} rows are left without those that have missing "
            "values; say --missing impute"
        )
    kept = np.flatnonzero(full)
    note = f"{said}: {int(np.sum(~full)):,} of {full.size:,} rows were left out"
    return table._replace(
        X=table.X[kept],
        ids=None if table.ids is None else [table.ids[k] for k in kept],
        label=None if table.label is None else [table.label[k] for k in kept],
        groups=None if table.groups is None else [table.groups[k] for k in kept],
        notes=[*table.notes, note],
    )


def imputed(X: np.ndarray) -> np.ndarray:
    """The table with every gap filled by its mean given the rest of the row: under SCA, or, if it
    is large, by its principal components alone."""
    scaler = StandardScaler()
    Z = scaler.fit_transform(X)
    seen = ~np.isnan(X)
    if X.size > _LARGEST_SCA:
        count = None if min(X.shape) <= _EXACT_SIDE else _LEADING
        Z = completed(np.where(seen, Z, 0.0), seen, count)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a rough fit fills gaps well; no structure means 0
            Z = SCA(max_iter=20, tol=1e-6).fit(Z).impute(Z)
    return np.where(seen, X, scaler.inverse_transform(Z))


# --- the fit


def estimator(wish: Wish) -> VariableSelector:
    """The estimator that was asked for."""
    method = offered()[wish.method]
    if wish.components != "auto" and not method.takes("n_components"):
        known_to = [one.name for one in offered().values() if one.takes("n_components")]
        raise ParameterError(
            f"--components has no effect with --method {wish.method}; use {' or '.join(known_to)}"
        )
    wanted: dict[str, object] = {
        "n_components": wish.components,
        "scale": wish.scale,
        "verbose": wish.verbose,
        "random_state": 0,
    }
    parameters = {name: value for name, value in wanted.items() if method.takes(name)}
    known = {option.name: option for option in method.options or ()}
    for name, value in wish.options.items():
        if value is not None and name not in known:
            raise ParameterError(
                f"--{name} has no effect with --method {wish.method}; "
                f"use {' or '.join(_that_take(name))}"
            )
    for name, option in known.items():
        value = wish.options.get(name)
        if value is not None:
            parameters[option.parameter] = option.read(str(value)) if option.read else value
        elif option.needed:
            raise ParameterError(f"--method {wish.method} needs to know {option.needed}")
    return method.estimator(**parameters)


def _that_take(name: str) -> list[str]:
    """The methods that have an option of that name."""
    return [
        method.name
        for method in offered().values()
        if any(option.name == name for option in method.options or ())
    ]


def _groups(table: Table, ask: Ask, wish: Wish) -> dict[str, list[str]]:
    """Which rows belong together, as a fit takes it, if that was said."""
    if table.groups is None:
        return {}
    for row, label in enumerate(table.groups):
        if label is None or str(label).strip() in ("", "nan"):
            raise TableError(
                f"{table.path}, {_row_called(table, row)}: it has no {ask.groups!r}, by which rows "
                "belong together; give it one, or leave the row out"
            )
    return {"groups": [str(label) for label in table.groups]}


def _refuse_groups(ask: Ask, wish: Wish) -> None:
    """Groups that the method would not look at."""
    if ask.groups is not None and not offered()[wish.method].takes_groups:
        known = " or ".join(one.name for one in offered().values() if one.takes_groups)
        raise ParameterError(f"--groups has no effect with --method {wish.method}; use {known}")


def analyse(table: Table, ask: Ask, wish: Wish, command: str = "") -> Result:
    """Prepare the table, fit it, and put together what there is to say."""
    started = time.perf_counter()
    model = estimator(wish)
    _refuse_groups(ask, wish)
    read = table.X.shape
    table = prepared(table, wish)
    scales = scales_for(table, wish)
    table = scaled_as(table, scales)
    total = total_variance(table.X)
    groups = _groups(table, ask, wish)
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(table.X, **groups)
        except TableError:
            raise
        except InputError as error:
            raise TableError(f"{table.path}: {error}") from error
    model.feature_names_in_ = np.array(table.names, dtype=object)
    if method_of(model).takes("verbose"):
        model.set_params(verbose=0)
    found = findings_of(model, total)
    looked = look(
        model,
        found,
        table.X,
        groups=groups.get("groups"),
        seconds=time.perf_counter() - began,
        shuffles=wish.shuffles,
        halves=wish.stability,
    )
    about = {
        "title": f"What carries the structure of {table.path.name}",
        "data": _data_words(table, model, read, ask),
        "asked": _asked(wish),
        "notes": [*table.notes, *looked.notes],
        **looked.about,
        "warnings": list(dict.fromkeys(str(w.message) for w in caught)),
        "label": ask.label,
        "total_variance": total,
        "scaled_by": scales,
        "command": command,
        "python": as_python(
            table.path, ask, _preparation(wish), model, scaled=bool(scales), grouped=bool(groups)
        ),
        "file": fingerprint_of_file(table.path),
        "versions": versions(),
        "read": _as_read(ask, table),
        "wish": _as_wished(wish),
        "seconds": round(time.perf_counter() - started, 2),
    }
    return Result(table, model, about, found)


def _preparation(wish: Wish) -> dict[str, Any]:
    """What was wished that changes the table itself."""
    known = wish._asdict()
    changed = {name: known[name] for name in ("scale", "log1p", "missing")}
    standard = Wish()._asdict()
    asked = {name: value for name, value in changed.items() if value != standard[name]}
    return {"method": wish.method, **asked} if asked else {}


def _as_read(ask: Ask, table: Table) -> dict[str, Any]:
    """How to read another table as this one was read, in plain JSON."""
    known = ask._replace(row_numbers=(*ask.row_numbers, *table.row_numbers))
    return {k: v for k, v in known._asdict().items() if k not in ("progress", "variables")}


def _as_wished(wish: Wish) -> dict[str, object]:
    """What was asked for, in plain JSON."""
    plain = wish._replace(verbose=0)._asdict()
    return {**plain.pop("options"), **plain}


def _data_words(
    table: Table, model: VariableSelector, read: tuple[int, int], ask: Ask
) -> dict[str, str]:
    n, p = table.X.shape
    words = {"file": table.path.name, "rows": f"{n:,}", "variables": f"{p:,}"}
    if read != (n, p):
        words["in the file"] = f"{read[0]:,} rows, {read[1]:,} variables"
    constant = int(np.sum(~host(model.varying_)))
    words["constant columns"] = f"{constant:,}"
    if ask.groups is not None:
        words["rows compared within each"] = ask.groups
    if ask.label is not None:
        words["coloured by"] = ask.label
    return words


def _asked(wish: Wish) -> dict[str, str]:
    method = offered()[wish.method]
    settings = {"variables": "decided by the data"}
    for option in method.options or ():
        value = wish.options.get(option.name)
        settings[option.name] = option.left_out if value is None else str(value)
    return {
        "method": method.estimator.__name__,
        "components": "decided by the data" if wish.components == "auto" else str(wish.components),
        **settings,
        "columns": (
            "scaled to unit variance" if wish.scale or method.scales else "in their own units"
        ),
        "values": "log(1 + x)" if wish.log1p else "as they are",
        "missing values": {"error": "not allowed", "drop": "dropped", "impute": "filled in"}[
            wish.missing
        ],
    }


_ABOUT: dict[str, type | tuple[type, ...]] = {
    "title": str, "data": dict, "asked": dict, "notes": list, "warnings": list, "label": str,
    "total_variance": float, "scaled_by": list, "command": str, "file": dict, "read": dict,
    "wish": dict, "python": str, "shuffled": dict, "stability": dict, "alike": dict,
}  # fmt: skip


def checked_about(about: Any) -> dict[str, Any]:
    """What `analyse` said about a model, from a file that anyone may have written."""
    known: dict[str, Any] = {}
    for key, value in about.items() if isinstance(about, dict) else ():
        if key in _ABOUT and isinstance(value, _ABOUT[key]):
            known[key] = value
    scales = known.get("scaled_by", [])
    if not all(type(s) in (int, float) and 0 < s < math.inf for s in scales):
        raise ModelFileError("`scaled_by` must hold the positive scales of the columns")
    for key in ("data", "asked", "file"):
        known[key] = {str(k): str(v) for k, v in known.get(key, {}).items()}
    for key in ("notes", "warnings"):
        known[key] = [str(v) for v in known.get(key, [])]
    return known


def remembered(about: dict[str, Any]) -> tuple[Ask, Wish]:
    """How the table of a saved model was read and prepared; it was scaled by ``scaled_by``."""
    read, wish = about.get("read", {}), about.get("wish", {})
    ask: dict[str, Any] = {}
    for name, default in Ask()._asdict().items():
        value = read.get(name)
        if isinstance(default, bool) and isinstance(value, bool):
            ask[name] = value
        elif isinstance(default, tuple) and isinstance(value, list | tuple):
            ask[name] = tuple(map(str, value))
        elif default is None and isinstance(value, str):
            ask[name] = value
    # of the preparation, only what is done to a table that is not fitted
    steps = {k: wish[k] for k in ("scale", "log1p") if isinstance(wish.get(k), bool)}
    for name, choices in (("method", tuple(offered())), ("missing", MISSING)):
        if wish.get(name) in choices:
            steps[name] = wish[name]
    return Ask(**ask), Wish(**steps)


def total_variance(X: Any) -> float:
    """Sum of the variances of the columns, of the values that are there."""
    with np.errstate(over="ignore", invalid="ignore"):  # too large to be a number
        return _total_variance(X)


def _total_variance(X: Any) -> float:
    n = np.zeros(X.shape[1])
    mean, squares = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for _, block in _blocks(X):  # means and squares of blocks, put together
        there = ~np.isnan(block)
        m = there.sum(axis=0)  # none, perhaps: such a block says nothing of the column
        centre = np.where(m > 0, np.nansum(block, axis=0) / np.maximum(m, 1), mean)
        spread = np.nansum((block - centre) ** 2, axis=0)
        both = n + m
        share = m / np.maximum(both, 1)
        squares += spread + (centre - mean) ** 2 * n * share
        mean += (centre - mean) * share
        n = both
    return float(np.sum(squares / np.maximum(n, 1)))


def fingerprint_of_file(path: Path) -> dict[str, str]:
    """What tells this file from one that was changed."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"file size": f"{path.stat().st_size:,} bytes", "SHA-256": digest}


def scores_of_table(model: VariableSelector, found: Findings, table: Table) -> np.ndarray:
    """Scores of the rows; the table must have the model's variables, in their order."""
    if not method_of(model).projects:
        raise InputError(f"{found.method} gives rows no scores: leave the table out")
    if not found.named and len(table.names) != len(found.names):  # fitted to an array
        raise TableError(
            f"{table.path}: {len(table.names)} variables, but the model has {len(found.names)}"
        )
    if found.named and found.names != table.names:
        missing = [name for name in found.names if name not in set(table.names)]
        what = f"lacks {missing[0]!r}" if missing else "has other variables, or in another order"
        raise TableError(f"{table.path}: it is not the table of the model: it {what}")
    with warnings.catch_warnings():
        # the names were compared above; the rows are a plain array, which has none
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.asarray(scores_of(model, table.X))
