"""Docstrings of the AnnData functions, completed from the estimators."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import cleandoc, signature
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")

# Parameters common to several functions.
SHARED = """\
adata : AnnData or MuData
    Annotated data. Every modality of a MuData is fitted separately, and every parameter may be a
    dictionary from modality to value.
batch_key : str or list of str, default=None
    Column of ``.obs`` with the donor, batch or run of each observation. Differences between
    batches are removed. With several columns, each combination of their labels is a batch.
covariate_keys : str or list of str, default=None
    Columns of ``.obs`` with covariates, such as age, sex and batch. Their effects are removed
    before variables are tested and components are fitted.
layer : str, default=None
    Layer to use instead of ``.X``.
mask_var : str or array of bool, default=None
    Variables to consider: a column of ``.var``, or one value for each variable. All others
    are excluded.
modality : str or list of str, default=None
    Modalities of a MuData. By default, all are used.
pca_names : bool, default=False
    Whether to store scores, loadings and variances under the names of ``scanpy.pp.pca`` as well
    (``X_pca``, ``PCs``, ``pca``), which functions such as ``scanpy.pl.pca_loadings`` read.
key_added : str
    Name under which the results are stored.
copy : bool, default=False
    Whether to return a copy with the results instead of modifying ``adata``."""


def complete_docstring(
    estimator: type,
) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Add parameters shared with an estimator to the docstring of a function.

    The function documents only its specific parameters. All other descriptions are taken from
    ``estimator`` or from `SHARED`, in the order of the signature.
    """

    def decorate(function: Callable[Given, Result]) -> Callable[Given, Result]:
        text = cleandoc(function.__doc__ or "")
        head, specific, tail = _split(text)
        known = (
            _entries(SHARED)
            | _entries(_split(cleandoc(estimator.__doc__ or ""))[1])
            | _entries(specific)
        )
        entries = [known[name] for name in signature(function).parameters]
        parameters = "\n".join(["Parameters", "----------", *entries])
        function.__doc__ = "\n\n".join([head, parameters, tail]) + "\n"
        return function

    return decorate


def _split(docstring: str) -> tuple[str, str, str]:
    """Split a docstring into head, parameters and the other sections."""
    sections = re.split(r"^(?=\w[^\n]*\n-{3,}$)", docstring, flags=re.M)
    parameters, others = "", []
    for section in sections[1:]:
        title, _, body = section.partition("\n")
        if title == "Parameters":
            parameters = body.partition("\n")[2]
        else:
            others.append(section.strip())
    return sections[0].strip(), parameters.strip(), "\n\n".join(others)


def _entries(section: str) -> dict[str, str]:
    """Split a parameter section into entries by name."""
    entries = re.split(r"\n(?=\w)", section) if section else []
    return {entry.partition(" :")[0]: entry.rstrip() for entry in entries}
