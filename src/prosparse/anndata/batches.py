"""Labels of batches, and a check for components that separate batches.

A component that separates batches describes a technical difference. Columns of batches are
recognised by name, because a column of cell types also explains components.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..errors import BatchWarning, ParameterError, warn
from .annotated import Annotated, column_of, of_modality

# Words that occur in the names of batch columns.
_WORDS = (
    "batch|donor|patient|subject|individual|sample|specimen|library|lane|channel|chip|plate|run|"
    "replicate|pool|experiment|study|dataset|source|site|center|centre|lab|laboratory|sequencer|"
    "flowcell|chemistry|technology|platform|assay|protocol|project|mouse|animal"
)
_BATCH_NAME = re.compile(rf"(^|[^a-z])({_WORDS})s?(id|ids)?\d*($|[^a-z])")
_MAX_BATCHES = 50  # maximum number of batches; columns with more labels are identifiers
_N_LEADING = 10  # number of leading components compared with the batches
MIN_R2 = 0.25  # minimum proportion of the variance of a component explained by batches


def labels_of_rows(table: Annotated, key: Any, parameter: str = "batch_key") -> np.ndarray | None:
    """Return the label of every observation, or None if ``key`` is None.

    For several columns of ``.obs``, each combination of labels is one label. A missing column or
    label raises a `ParameterError`.
    """
    modality = table.source["modality"]
    names = of_modality(key, modality)
    if names is None:
        return None
    where = "" if modality is None else f" of modality {modality!r}"
    listed = [names] if isinstance(names, str) else names
    if (
        not isinstance(listed, list | tuple)
        or not listed
        or not all(isinstance(name, str) for name in listed)
    ):
        raise ParameterError(
            f"`{parameter}` must be None, or the name or names of columns of `.obs`{where}, got "
            f"{names!r}."
        )
    parts = []
    for name in listed:
        column = column_of(table.data, parameter, name, where, axis="obs")
        n_missing = int(column.isna().sum())
        if n_missing:
            raise ParameterError(
                f"`{parameter}` ({name!r}{where}) must have a label for every observation; "
                f"{n_missing} have none. Label or drop these observations."
            )
        parts.append(column.astype(str).to_numpy(dtype=object))
    joined = parts[0]
    for part in parts[1:]:
        joined = joined + " | " + part
    return np.asarray(joined.astype(str))


def warn_about_batches(
    table: Annotated, scores: np.ndarray, function: str, has_batch_key: bool
) -> None:
    """Warn if a batch column explains a leading component.

    ``has_batch_key`` states whether the function has a parameter of that name.
    """
    if scores.shape[1] == 0:
        return
    leading = scores[:, :_N_LEADING]
    worst = (MIN_R2, "", 0)
    for name, codes in candidate_batches(table.data.obs):
        r2 = explained_by_labels(leading, codes)
        if float(r2.max()) > worst[0]:
            worst = (float(r2.max()), name, int(r2.argmax()) + 1)
    r2_max, name, component = worst
    if not name:
        return
    where = "" if has_batch_key else " to `tl.fdrpca`"
    warn(
        f"{function}: the column {name!r} of `.obs` explains {r2_max:.0%} of the variance of "
        f"component {component}, and no batches were given. If {name!r} names batches, pass "
        f"`batch_key={name!r}`{where}, which removes the differences between them.",
        BatchWarning,
    )


def candidate_batches(obs: Any) -> list[tuple[str, np.ndarray]]:
    """Return the names and codes of the columns that may contain batches."""
    found = []
    for position, name in enumerate(obs.columns):
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(name)).lower()
        if not _BATCH_NAME.search(words):
            continue
        column = obs.iloc[:, position]
        if column.isna().any():
            continue
        labels, codes = np.unique(column.astype(str).to_numpy(dtype=str), return_inverse=True)
        if 2 <= labels.size <= min(_MAX_BATCHES, len(column) // 5):
            found.append((str(name), codes))
    return found


def explained_by_labels(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Compute the proportion of each component explained by labels, (d,)."""
    counts = np.bincount(codes).astype(float)
    centred = scores - scores.mean(axis=0)
    sums = np.stack([np.bincount(codes, weights=column) for column in centred.T])
    total = np.sum(centred**2, axis=0)
    between = np.sum(sums**2 / counts, axis=1)
    return np.asarray(between / np.where(total > 0.0, total, 1.0))
