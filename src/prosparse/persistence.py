"""Fitted models in a file that cannot run code: ``save(model, path)`` and ``load(path)``.

A model file is a zip archive, of format version 1:

``model.json``
    ``{"format": "prosparse-model", "version": 1, "class": "GSPPCA", "parameters": {...},
    "fitted": {...}, "versions": {...}, "about": {...}}``. ``parameters`` are those of the
    estimator, ``fitted`` its attributes after ``fit``, ``versions`` the packages that wrote the
    file, ``about`` whatever the writer wanted to remember.
``arrays/0.npy``, ``arrays/1.npy``, ...
    The arrays, in NumPy's own format, without pickles (``numpy.load`` opens the archive, too).

Values that JSON lacks are objects with one key: ``{"$array": 3}`` is ``arrays/3.npy``,
``{"$scalar": [dtype, value]}`` a NumPy number, ``{"$strings": [...]}`` an array of texts,
``{"$tuple": [...]}``, ``{"$dict": [[key, value], ...]}``, ``{"$slice": [start, stop, step]}``,
``{"$enum": [class, name]}``, and ``{"$record": [class, {field: value}]}`` a named tuple.

Nothing in the file names code: classes, enumerations and named tuples are looked up in tables of
ours. Members are stored, not compressed, and must fit into the file, so that loading takes no
more memory than the file's size, whatever the file says about itself.
"""

from __future__ import annotations

import json
import os
import platform
import zipfile
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ._version import __version__
from .data.arrays import to_numpy_if_foreign
from .errors import ModelFileError, ParameterError
from .files import whole_file
from .fitted import PRIVATE, check_fitted, check_told
from .inference.loop import StopReason
from .npy import PLAIN_TYPES, check_members, read_array
from .registry import ESTIMATORS, METHODS
from .selection.slope import Slope

FORMAT, VERSION = "prosparse-model", 1
ENUMS: dict[str, type[Enum]] = {"StopReason": StopReason}
RECORDS: dict[str, Any] = {"Slope": Slope}
_HEADER = "model.json"
_STATE, _REST = ("parameters", "fitted"), ("versions", "about")  # objects in it
_ARRAY = "arrays/{}.npy"
_ARRAY_TYPES = PLAIN_TYPES + "SMm"  # labels may be bytes, dates and durations, too
_WIDEST_SCALAR = 2**16  # bytes: a text of this length; a type may claim any width


def versions() -> dict[str, str]:
    """The packages that decide about the numbers."""
    import scipy
    import sklearn

    return {
        "prosparse": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


# --- writing


def save(model: Any, path: str | os.PathLike[str], *, about: dict[str, Any] | None = None) -> Path:
    """Write an estimator, fitted or not, to a file, which appears whole or not at all.

    Parameters
    ----------
    model : one of our estimators
    path : str or path
    about : dict or None
        Plain JSON to go with it.

    Returns
    -------
    Path

    Raises
    ------
    ModelFileError
        If it is not one of our estimators.

    Examples
    --------
    >>> import tempfile, prosparse
    >>> X = prosparse.datasets.make_globally_sparse(random_state=0).X
    >>> model = prosparse.GSPPCA(n_components=5).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = prosparse.load(prosparse.save(model, folder + "/model.prosparse"))
    >>> bool((again.transform(X) == model.transform(X)).all())
    True
    """
    kind = type(model).__name__
    if ESTIMATORS.get(kind) is not type(model):
        raise ModelFileError(
            f"{kind} is not an estimator that can be saved; these are: {', '.join(ESTIMATORS)}"
        )
    parameters = model.get_params(deep=False)
    fitted = {k: v for k, v in model.__getstate__().items() if k not in parameters}
    check_fitted(kind, METHODS[kind].saved, {k: _on_host(v) for k, v in fitted.items()})
    if fitted:
        _check_parameters(model)
    arrays: list[np.ndarray] = []
    header = {
        "format": FORMAT,
        "version": VERSION,
        "class": kind,
        "parameters": {k: _encode(v, arrays, k) for k, v in parameters.items()},
        "fitted": {k: _encode(v, arrays, k) for k, v in fitted.items()},
        "versions": versions(),
        "about": about or {},
    }
    return _write_whole(Path(path), json.dumps(header, indent=1), arrays)


def _check_parameters(model: Any) -> None:
    """Refuse parameters that no fit would have accepted; methods of a fitted model use them."""
    try:
        model._check_parameters()
    except ParameterError as error:
        _refuse(f"the parameters are not those of a fitted model: {error}")


def _write_whole(path: Path, header: str, arrays: list[np.ndarray]) -> Path:
    with whole_file(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        archive.writestr(_HEADER, header)
        for number, array in enumerate(arrays):
            with archive.open(_ARRAY.format(number), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return path


def _encode(value: Any, arrays: list[np.ndarray], where: str) -> Any:  # noqa: PLR0911
    """``value`` as JSON; arrays are added to ``arrays`` and referred to by number."""

    def inside(part: Any) -> Any:
        return _encode(part, arrays, where)

    value = to_numpy_if_foreign(
        value
    )  # of a fit on a GPU, a file keeps the numbers, not where they were
    if isinstance(value, np.ndarray):
        return _encode_array(value, arrays, where)
    # before float and str: np.float64 and np.str_ are such
    if isinstance(value, np.generic) and isinstance(value.item(), bool | int | float | str):
        return {"$scalar": [value.dtype.str, value.item()]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Enum) and ENUMS.get(type(value).__name__) is type(value):
        return {"$enum": [type(value).__name__, value.name]}
    if isinstance(value, tuple) and RECORDS.get(type(value).__name__) is type(value):
        fields = {k: inside(v) for k, v in zip(type(value)._fields, value)}  # type: ignore[attr-defined]
        return {"$record": [type(value).__name__, fields]}
    if type(value) in (list, range):  # columns may be given as a range
        return [inside(part) for part in value]
    if type(value) is tuple:
        return {"$tuple": [inside(part) for part in value]}
    if type(value) is dict:
        return {"$dict": [[inside(k), inside(v)] for k, v in value.items()]}
    if isinstance(value, slice):
        return {"$slice": [inside(value.start), inside(value.stop), inside(value.step)]}
    raise ModelFileError(
        f"`{where}` holds a {type(value).__name__}, which a model file cannot hold. Use plain "
        "numbers, texts, lists or NumPy arrays; for `random_state`, an integer or None."
    )


def _on_host(value: Any) -> Any:
    if isinstance(value, list):
        return [_on_host(part) for part in value]
    return to_numpy_if_foreign(value)


def _encode_array(value: np.ndarray, arrays: list[np.ndarray], where: str) -> Any:
    if value.dtype == object and all(type(text) is str for text in value.flat) and value.ndim == 1:
        return {"$strings": value.tolist()}
    if value.dtype.kind not in _ARRAY_TYPES or type(value) is not np.ndarray:
        raise ModelFileError(
            f"`{where}` is an array of {value.dtype}, which a model file cannot hold: only "
            "numbers, texts, bytes and dates can be saved"
        )
    arrays.append(value)
    return {"$array": len(arrays) - 1}


# --- reading


def load(path: str | os.PathLike[str]) -> Any:
    """The estimator that `save` wrote.

    A file never runs code, and loading takes no more memory than a small multiple of its size.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        For anything that is not such a file.
    """
    return load_with_about(path)[0]


def load_with_about(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """The estimator in ``path``, and the rest of the file: ``about`` and ``versions``."""
    path = Path(path)
    try:
        if path.exists() and not path.is_file():  # a pipe would never answer
            _refuse("this is not a regular file, but a folder, a pipe or a device")
        with zipfile.ZipFile(path) as archive:
            header, arrays = _members(archive, path)
        model = _rebuild(header, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except FileNotFoundError:
        raise ModelFileError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ModelFileError(f"{path}: it cannot be read: {error.strerror or error}") from error
    except Exception as error:
        # whatever the standard library says of a file that was damaged or made up
        raise ModelFileError(
            f"{path}: this is not a whole model file ({_short(error)}). Files made "
            "by `prosparse.save` or `prosparse fit` can be loaded; was it cut short?"
        ) from error
    return model, {key: header[key] for key in _REST}


def _members(archive: zipfile.ZipFile, path: Path) -> tuple[dict[str, Any], dict[int, np.ndarray]]:
    """The JSON and the arrays, once their declared sizes are known to fit into the file."""
    try:
        check_members(archive, path.stat().st_size)
    except ValueError as error:
        _refuse(str(error))
    if archive.namelist().count(_HEADER) != 1:
        _refuse(f"it is a zip archive without {_HEADER}, or with more than one")
    header = json.loads(archive.read(_HEADER))
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        _refuse("it does not say that it is a prosparse model")
    if header.get("version") != VERSION:
        _refuse(
            f"it has format version {header.get('version')!r}, this prosparse ({__version__}) "
            f"reads version {VERSION}: install the version that wrote it{_writer(header)}"
        )
    for key in (*_STATE, *_REST):
        if not isinstance(header.get(key), dict):
            _refuse(
                f"{key!r} in {_HEADER} must be an object, got {_cut(repr(header.get(key)), 60)}"
            )
    names = [name for name in archive.namelist() if name != _HEADER]
    if names != [_ARRAY.format(k) for k in range(len(names))]:
        _refuse("its arrays are not numbered one after the other")
    return header, {k: read_array(archive.read(name), _ARRAY_TYPES) for k, name in enumerate(names)}


def _writer(header: dict[str, Any]) -> str:
    written = header.get("versions")
    return f", {written.get('prosparse')}" if isinstance(written, dict) else ""


def _rebuild(header: dict[str, Any], arrays: dict[int, np.ndarray]) -> Any:
    kind = header["class"]
    if not isinstance(kind, str) or kind not in ESTIMATORS:
        _refuse(f"it holds a {kind!r}; known are {', '.join(ESTIMATORS)}")
    model = ESTIMATORS[kind]()
    parameters = {k: _decode(v, arrays) for k, v in header["parameters"].items()}
    if set(parameters) != set(model.get_params(deep=False)):
        _refuse(f"its parameters are not those of {kind}")
    for name, value in parameters.items():  # as they were: `set_params` might look inside
        setattr(model, name, value)
    fitted: dict[str, Any] = {}
    for name, value in header["fitted"].items():
        # A fitted attribute may not take the place of a method, nor be one that Python or
        # scikit-learn looks for, such as `__sklearn_is_fitted__`.
        hidden = name.startswith("_") and name not in PRIVATE
        if not name.isidentifier() or hidden or name in parameters or hasattr(type(model), name):
            _refuse(f"{name!r} cannot be a fitted attribute of {kind}")
        fitted[name] = _decode(value, arrays)
    check_fitted(kind, METHODS[kind].saved, fitted)
    if fitted:
        check_told(METHODS[kind].saved, parameters)
        _check_parameters(model)
    for name, value in fitted.items():
        setattr(model, name, value)
    return model


def _decode(value: Any, arrays: dict[int, np.ndarray]) -> Any:  # noqa: PLR0911
    def inside(part: Any) -> Any:
        return _decode(part, arrays)

    if isinstance(value, list):
        return [inside(part) for part in value]
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    match tag:
        case "$array":
            return arrays[content]
        case "$scalar":
            dtype = np.dtype(content[0])
            plain = isinstance(content[1], bool | int | float | str)
            if dtype.kind not in PLAIN_TYPES or dtype.itemsize > _WIDEST_SCALAR or not plain:
                _refuse(f"a number of type {dtype} is not allowed")
            return np.array([content[1]], dtype=dtype)[0]
        case "$strings":
            if not all(isinstance(text, str) for text in content):
                _refuse("an array of texts holds something else")
            return np.array(content, dtype=object)
        case "$tuple":
            return tuple(inside(part) for part in content)
        case "$dict":
            return {inside(k): inside(v) for k, v in content}
        case "$slice":
            return slice(*(inside(part) for part in content))
        case "$enum":
            return ENUMS[content[0]][content[1]]
        case "$record":
            return RECORDS[content[0]](**{k: inside(v) for k, v in content[1].items()})
    return _refuse(f"it holds a value of unknown kind {tag!r}")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _short(error: Exception) -> str:
    return _cut(f"{type(error).__name__}: {error}", 300)


def _refuse(message: str) -> NoReturn:
    raise ModelFileError(_cut(message, 600))
