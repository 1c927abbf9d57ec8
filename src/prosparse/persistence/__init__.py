"""Model files: fitted estimators without pickle or executable code.

A model file is a zip archive of format version 1:

``model.json``
    ``{"format": "prosparse-model", "version": 1, "class": "GSPPCA", "parameters": {...},
    "fitted": {...}, "versions": {...}, "about": {...}}``. ``parameters`` and ``fitted`` contain the
    parameters and fitted attributes of the estimator, ``versions`` the versions of the packages
    that wrote the file, and ``about`` additional information.
``arrays/0.npy``, ``arrays/1.npy``, ...
    Arrays in NumPy's format, without pickles; ``numpy.load`` also opens the archive.

Values of types that JSON lacks are objects with one key: ``{"$array": 3}`` is ``arrays/3.npy``,
``{"$scalar": [dtype, value]}`` a NumPy scalar, ``{"$strings": [...]}`` an array of strings,
``{"$tuple": [...]}``, ``{"$dict": [[key, value], ...]}``, ``{"$slice": [start, stop, step]}``,
``{"$enum": [class, name]}``, and ``{"$record": [class, {field: value}]}`` a named tuple.

The file never refers to code: classes, enumerations and named tuples are looked up in fixed tables.
Members are not compressed and must fit into the file, so that loading requires memory in proportion
to the size of the file.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..data.arrays import to_numpy_if_foreign
from ..errors import ModelFileError, ParameterError
from ..models.description import Method
from ..phrases import truncate
from ..registry import METHODS
from .archive import HEADER, read_archive, write_archive
from .encoding import decode, encode
from .validation import check_fitted

__all__ = ["load", "load_with_about", "save", "versions"]

FORMAT, VERSION = "prosparse-model", 1


def versions() -> dict[str, str]:
    """Return the versions of the packages that affect the results.

    Returns
    -------
    dict of str to str
    """
    import scipy
    import sklearn

    return {
        "prosparse": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def save(model: Any, path: str | os.PathLike[str], *, about: dict[str, Any] | None = None) -> Path:
    """Save an estimator, fitted or unfitted, to a file.

    A temporary file is written and renamed once it is complete.

    Parameters
    ----------
    model : estimator
        Estimator of prosparse.
    path : str or path
        Name of the file.
    about : dict or None, default=None
        Additional information to store, of types that JSON supports.

    Returns
    -------
    Path
        Path of the file.

    Raises
    ------
    ModelFileError
        If ``model`` is not an estimator of prosparse, or has values that cannot be stored.

    Examples
    --------
    >>> import tempfile, prosparse
    >>> X = prosparse.datasets.make_globally_sparse(random_state=0).X
    >>> model = prosparse.GSPPCA(n_components=5).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     loaded = prosparse.load(prosparse.save(model, folder + "/model.prosparse"))
    >>> bool((loaded.transform(X) == model.transform(X)).all())
    True
    """
    name = type(model).__name__
    method = METHODS.get(name)
    if method is None or method.estimator is not type(model):
        raise ModelFileError(
            f"{name} is not an estimator that can be saved; use one of {', '.join(METHODS)}."
        )
    parameters = model.get_params(deep=False)
    fitted = _fitted_attributes(model)
    _check(method, model, {k: _to_numpy(v) for k, v in fitted.items()})
    arrays: list[np.ndarray] = []
    header = {
        "format": FORMAT,
        "version": VERSION,
        "class": name,
        "parameters": {k: encode(v, arrays, k) for k, v in parameters.items()},
        "fitted": {k: encode(v, arrays, k) for k, v in fitted.items()},
        "versions": versions(),
        "about": about or {},
    }
    return write_archive(Path(path), header, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Load an estimator from a file written by `save`.

    Loading never executes code from the file, and requires memory in proportion to the size of the
    file.

    Parameters
    ----------
    path : str or path
        Name of the file.

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        If the file is not a valid model file.
    """
    return load_with_about(path)[0]


def load_with_about(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Load an estimator and the additional information in the file.

    Parameters
    ----------
    path : str or path
        Name of the file.

    Returns
    -------
    model : estimator
    rest : dict
        Dictionary with the ``about`` passed to `save`, and the ``versions`` of the packages that
        wrote the file.

    Raises
    ------
    ModelFileError
        If the file is not a valid model file.
    """
    path = Path(path)
    try:
        header, arrays = read_archive(path)
        _check_header(header)
        model = _build_model(header, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {truncate(str(error), 600)}") from None
    except FileNotFoundError:
        raise ModelFileError(f"{path}: file not found.") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}.") from error
    except Exception as error:
        # The standard library raises errors of many types for damaged files.
        cause = truncate(f"{type(error).__name__}: {error}", 300)
        raise ModelFileError(
            f"{path}: not a valid model file ({cause}). It may be incomplete or damaged. Only "
            "files written by `prosparse.save` or the prosparse command can be loaded."
        ) from error
    return model, {key: header[key] for key in ("versions", "about")}


def _check_header(header: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(f"not a prosparse model: {HEADER} must have the format {FORMAT!r}.")
    if header.get("version") != VERSION:
        writer = header.get("versions")
        version = f" {writer.get('prosparse')}" if isinstance(writer, dict) else ""
        raise ModelFileError(
            f"the file has format version {header.get('version')!r}, but prosparse {__version__} "
            f"reads version {VERSION}. Install the version of prosparse that wrote the file"
            f"{version}."
        )
    for key in ("parameters", "fitted", "versions", "about"):
        if not isinstance(header.get(key), dict):
            value = truncate(repr(header.get(key)), 60)
            raise ModelFileError(f"{key!r} in {HEADER} must be an object, got {value}.")


def _build_model(header: dict[str, Any], arrays: dict[int, np.ndarray]) -> Any:
    name = header["class"]
    if not isinstance(name, str) or name not in METHODS:
        raise ModelFileError(f"unknown estimator {name!r}; known estimators: {', '.join(METHODS)}.")
    method = METHODS[name]
    model = method.estimator()
    parameters = {k: decode(v, arrays) for k, v in header["parameters"].items()}
    differing = set(parameters) ^ set(model.get_params(deep=False))
    if differing:
        raise ModelFileError(
            f"the parameters of {name} in the file differ from those of this version of prosparse "
            f"({', '.join(sorted(differing))}). Fit and save the model again."
        )
    for parameter, value in parameters.items():  # `set_params` would inspect the values
        setattr(model, parameter, value)
    private = {"_sklearn_output_config", *method.schema.fields}
    fitted: dict[str, Any] = {}
    for attribute, value in header["fitted"].items():
        # A fitted attribute must not replace a method or a hook of Python or scikit-learn, such
        # as `__sklearn_is_fitted__`.
        if (
            not attribute.isidentifier()
            or (attribute.startswith("_") and attribute not in private)
            or attribute in parameters
            or hasattr(method.estimator, attribute)
        ):
            raise ModelFileError(f"{attribute!r} cannot be a fitted attribute of {name}.")
        fitted[attribute] = decode(value, arrays)
    _check(method, model, fitted)
    for attribute, value in fitted.items():
        setattr(model, attribute, value)
    return model


def _fitted_attributes(model: Any) -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    return {k: v for k, v in model.__getstate__().items() if k not in parameters}


def _check(method: Method, model: Any, fitted: dict[str, Any]) -> None:
    """Check the fitted attributes, and the parameters of fitted models."""
    check_fitted(method, fitted)
    if fitted:
        try:
            model._check_parameters()
        except ParameterError as error:
            raise ModelFileError(f"invalid parameter of a fitted model: {error}") from None


def _to_numpy(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_numpy(entry) for entry in value]
    return to_numpy_if_foreign(value)
