"""What the attributes of a fitted estimator must be, for models that come from a file.

A file may have been written by anyone, or changed by hand. Whatever later uses a model (its
methods, reports, plots) believes that attributes belong together: that there are as many means as
columns, that a chosen variable exists. This is the one place that makes sure.

`FIELDS` says what kind of value an attribute holds and which shape it has, in letters that stand
for the same number throughout a model: p columns, d components, s variables chosen, k models on a
path, v views; s+1 is one more than s. `Contents` says what a fitted estimator of one method always
has, and what it has under the name of something else; every method of the registry brings its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from .data.row_groups import LABEL_TYPES
from .errors import ModelFileError
from .inference.loop import StopReason
from .selection.slope import Slope


class Field(NamedTuple):
    """What an attribute must be."""

    kinds: str  # of NumPy: b, i, f for arrays of truth values, integers and numbers; O for texts
    # alone or, with others, for labels
    shape: tuple[str, ...] = ()  # none for single numbers
    finite: bool = False
    least: float = -np.inf  # must not be below, or, of `positive` numbers, not at this
    positive: bool = False
    stacked: str = ""  # the letter of an axis that may come before the others


def numbers(
    *shape: str,
    finite: bool = False,
    least: float = -np.inf,
    positive: bool = False,
    stacked: str = "",
) -> Field:
    """A field of numbers, whole or not."""
    return Field("fiu", shape, finite, least, positive, stacked)


def counts(*shape: str, least: float = 0) -> Field:
    """A field of whole numbers."""
    return Field("iu", shape, least=least)


def labels(*shape: str) -> Field:
    """A field of labels: texts, numbers, truth values, bytes, dates or durations."""
    return Field("O" + LABEL_TYPES, shape)


# In this order: a letter is the first number that it stands for.
FIELDS: dict[str, Field] = {
    "n_features_in_": Field("iu", (), least=1),
    "feature_names_in_": Field("OU", ("p",)),
    "support_": Field("b", ("p",)),
    "varying_": Field("b", ("p",)),
    "ranking_": counts("p", least=1),
    "relevance_": numbers("p", finite=True),
    "mean_": numbers("p", finite=True),
    "scale_": numbers("p", finite=True, least=0, positive=True),
    "n_selected_": counts(),
    "components_": numbers("d", "p", finite=True),
    "components_std_": numbers("d", "p"),
    "n_components_": counts(),
    "n_nonzero_": counts("d"),
    "explained_variance_": numbers("d"),
    "explained_variance_ratio_": numbers("d"),
    "factor_view_": counts("d", least=-1),
    "_optimality_gap": numbers("d"),
    "certified_": Field("b", ("d",)),
    "coef_": numbers("p", finite=True),
    "coef_covariance_": numbers("s", "s", finite=True),
    "intercept_": numbers(finite=True),
    "intercept_variance_": numbers(finite=True, least=0),
    "alpha_": numbers(),
    "gamma_": numbers(),
    "n_samples_": numbers(finite=True, least=0, positive=True),
    "cardinalities_": counts("k"),
    "log_evidence_path_": numbers("k"),
    "log_posterior_path_": numbers("k"),
    "alpha_path_": numbers("k"),
    "gamma_path_": numbers("k"),
    "log_evidence_": numbers(),
    "penalty_": numbers(),
    "penalties_": numbers("k"),
    "cv_errors_": numbers("k"),
    "log_likelihood_path_": numbers("k"),
    "n_parameters_path_": counts("k"),
    "criterion_path_": numbers("k"),
    "order_": counts("d", "k"),
    "path_variances_": numbers("d", "k"),
    "objective_": numbers(),
    "noise_variance_": numbers(finite=True, least=0),
    "active_noise_variance_": numbers(finite=True, least=0),
    "n_iter_": counts(),
    "n_pruned_": counts(),
}
SELECTOR = (
    "n_features_in_",
    "support_",
    "varying_",
    "ranking_",
    "relevance_",
    "mean_",
    "scale_",
    "n_selected_",
)
"""What every fitted estimator has."""

PRIVATE = ("_optimality_gap", "_gap_problem", "_sklearn_output_config")
"""Attributes of fitted estimators whose names begin with an underscore."""

PROJECTION = (*SELECTOR, "components_", "n_components_", "explained_variance_")
"""What every fitted estimator has that gives rows scores."""


class Contents(NamedTuple):
    """What a saved model of one method must hold."""

    required: tuple[str, ...] = PROJECTION  # attributes that are always there after a fit
    fields: Mapping[str, Field] = {}  # what this method alone has, or has under a common name
    loadings: str = "components_"  # the attribute that is zero for variables that are not chosen
    parameters: Mapping[str, Field] = {}  # those that are spoken of when the choice is explained
    together: Mapping[str, str] = {}  # attributes that mean nothing without another one


def all_or_none(*names: str) -> dict[str, str]:
    """Attributes of which a model has all or none, for ``Contents.together``."""
    return dict(zip(names, (*names[1:], names[0]), strict=True))


# A path of models means nothing without what the models are.
TOGETHER = {
    "log_evidence_path_": "cardinalities_",
    "n_private_": "view_columns_",
    "likelihood_": "view_columns_",
    "factor_view_": "view_columns_",
}


def check_fitted(kind: str, contents: Contents, state: Mapping[str, Any]) -> None:
    """Refuse fitted attributes that are not what an estimator leaves behind, or do not belong
    together. An estimator without any of them is not fitted, which is no fault.

    Parameters
    ----------
    kind : str
        The name of the estimator's class.
    contents : Contents
        What the estimator must have.
    state : mapping
        Its attributes, without its parameters; arrays are NumPy's.

    Raises
    ------
    ModelFileError
    """
    fields = {**FIELDS, **contents.fields}
    if "_sklearn_output_config" in state:
        _check_output("_sklearn_output_config", state)
    if not any(name in state for name in (*fields, *_CHECKS)):
        return
    lacking = [name for name in contents.required if name not in state]
    if lacking:
        raise ModelFileError(f"a fitted {kind} has `{lacking[0]}`, which is not there")
    sizes = {"p": _whole("n_features_in_", state["n_features_in_"], 1), "one": 1}
    sizes["s"] = _whole("n_selected_", state["n_selected_"], 0)
    if "view_columns_" in state:
        _check_views(state, sizes)
    for name, field in fields.items():
        if name in state:
            _check_field(name, state[name], field, sizes)
    for name, needed in {**TOGETHER, **contents.together}.items():
        if name in state and needed not in state:
            raise ModelFileError(f"`{name}` is there without `{needed}`")
    for name, check in _CHECKS.items():
        if name in state:
            check(name, state)
    _check_selection(state, contents.loadings)


def check_told(contents: Contents, parameters: Mapping[str, Any]) -> None:
    """Refuse parameters of a fitted estimator that could not be told to anyone.

    Parameters
    ----------
    contents : Contents
        What the estimator must have.
    parameters : mapping
        Its parameters.

    Raises
    ------
    ModelFileError
    """
    for name, field in contents.parameters.items():
        _check_field(name, parameters[name], field, {})


# --- single attributes


def _whole(name: str, value: Any, least: int) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ModelFileError(f"`{name}` must be an integer of at least {least}, got {value!r}")
    return int(value)


def _check_field(name: str, value: Any, field: Field, sizes: dict[str, int]) -> None:
    if field.stacked:  # all of a model, or none: the first of them says which
        stacked = sizes.setdefault(f"{field.stacked} is there", np.ndim(value) > len(field.shape))
        field = field._replace(shape=(field.stacked, *field.shape) if stacked else field.shape)
    if not field.shape:
        integer = field.kinds == "iu"
        if not isinstance(value, Integral if integer else Real) or isinstance(value, bool):
            what = "an integer" if integer else "a number"
            raise ModelFileError(f"`{name}` must be {what}, got {_said(value)}")
    else:
        _check_shape(name, value, field, sizes)
    if "O" in field.kinds:
        if value.dtype.kind == "O" and not all(isinstance(text, str) for text in value):
            raise ModelFileError(f"`{name}` must hold texts only")
        return
    values = np.asarray(value)
    if field.finite and not np.isfinite(values).all():
        raise ModelFileError(f"`{name}` holds values that are not finite")
    if np.any(values < field.least) or (field.positive and np.any(values == field.least)):
        more = "above" if field.positive else "at least"
        raise ModelFileError(f"`{name}` must be {more} {field.least:g}")


def _check_shape(name: str, value: Any, field: Field, sizes: dict[str, int]) -> None:
    if not isinstance(value, np.ndarray) or not _has_kind(value, field):
        what = {"b": "truth values", "i": "integers", "O": "texts"}.get(field.kinds[0], "numbers")
        what = "labels" if field.kinds[1:] == LABEL_TYPES else what
        raise ModelFileError(f"`{name}` must be an array of {what}, got {_said(value)}")
    if value.ndim == len(field.shape):
        for letter, size in zip(field.shape, value.shape, strict=True):
            one_more = letter.removesuffix("+1")
            if one_more != letter and one_more in sizes:
                sizes[letter] = sizes[one_more] + 1
            sizes.setdefault(letter, size)
        if value.shape == tuple(sizes[letter] for letter in field.shape):
            return
    allowed = ", ".join(str(sizes.get(letter, letter)) for letter in field.shape)
    allowed += "," if len(field.shape) == 1 else ""
    raise ModelFileError(
        f"`{name}` has shape {value.shape}, which does not belong to the rest of the model: "
        f"({allowed}) would"
    )


def _has_kind(value: np.ndarray, field: Field) -> bool:
    """Whether an array is of one of the field's kinds; SciPy takes no long doubles."""
    too_wide = value.dtype.kind == "f" and value.dtype.itemsize > 8 and "O" not in field.kinds
    return value.dtype.kind in field.kinds and not too_wide


def _said(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


# --- attributes with a form of their own


def _check_reason(name: str, state: Mapping[str, Any]) -> None:
    if not isinstance(state[name], StopReason):
        raise ModelFileError(f"`{name}` must be one of the reasons to stop")


def _check_bounds(name: str, state: Mapping[str, Any]) -> None:
    """One trace, or one per component."""
    traces = state[name] if isinstance(state[name], list) else [state[name]]
    for trace in traces:
        _check_shape(name, trace, numbers("i"), {})
    several = isinstance(state[name], list)
    proved = "_optimality_gap" in state  # EMPCA has a gap, and a trace, for each component
    if (proved and not several) or (several and len(traces) != len(state["components_"])):
        raise ModelFileError(f"`{name}` must hold one trace for each component")
    if not all(trace.size for trace in traces):
        raise ModelFileError(f"`{name}` must hold at least one iteration")


def _check_averaged(name: str, state: Mapping[str, Any]) -> None:
    """Predictions may be averages only where there is one."""
    if not isinstance(state[name], bool):
        raise ModelFileError(f"`{name}` must be True or False, got {_said(state[name])}")
    if state[name] and "coef_mean_" not in state:
        raise ModelFileError(f"`{name}` is True without `coef_mean_`")


def _check_classes(name: str, state: Mapping[str, Any]) -> None:
    """Two different labels, the smaller one first."""
    classes = state[name]
    _check_field(name, classes, labels("c"), {})
    if classes.size != 2 or not classes[0] < classes[1]:
        raise ModelFileError(f"`{name}` must hold two different classes, the smaller one first")


def _check_likely(name: str, state: Mapping[str, Any]) -> None:
    _check_columns(name, state[name], state)


def _check_credible(name: str, state: Mapping[str, Any]) -> None:
    """One group of columns for each chosen variable."""
    groups = state[name]
    if not isinstance(groups, list) or len(groups) != state["n_selected_"]:
        raise ModelFileError(f"`{name}` must be a list of one group for each chosen variable")
    for group in groups:
        _check_shape(name, group, counts("i"), {})
        _check_columns(name, group, state)


def _check_columns(name: str, places: np.ndarray, state: Mapping[str, Any]) -> None:
    width = state["n_features_in_"]
    if np.any((places < 0) | (places >= width)):
        raise ModelFileError(f"`{name}` must hold columns from 0 to {width - 1}")


def _check_slope(name: str, state: Mapping[str, Any]) -> None:
    slope = state[name]
    if slope is not None and not isinstance(slope, Slope):
        raise ModelFileError(f"`{name}` must be a slope or None")


def _check_gap(name: str, state: Mapping[str, Any]) -> None:
    if state[name] is not None:
        raise ModelFileError(f"`{name}` must be None in a file")


def _check_output(name: str, state: Mapping[str, Any]) -> None:
    """What `set_output` asked for."""
    settings = state[name]
    containers = [None, "default", "pandas", "polars"]
    if (
        not isinstance(settings, dict)
        or not set(settings) <= {"transform"}
        or settings.get("transform") not in containers
    ):
        raise ModelFileError(f"`{name}` must say what `set_output` asked for")


def _check_private(name: str, state: Mapping[str, Any]) -> None:
    counts = state[name]
    if not isinstance(counts, list) or len(counts) != len(state["view_columns_"]):
        raise ModelFileError(f"`{name}` must hold one integer for each view")
    for count in counts:
        _whole(name, count, 0)


def _check_likelihood(name: str, state: Mapping[str, Any]) -> None:
    known = ("gaussian", "bernoulli", "poisson")
    names = state[name]
    if (
        not isinstance(names, list)
        or len(names) != len(state["view_columns_"])
        or any(not isinstance(one, str) or one not in known for one in names)
    ):
        raise ModelFileError(f"`{name}` must hold one of {known} for each view")
    if any(one != "gaussian" for one in names) and "linear_threshold_" not in state:
        raise ModelFileError(
            f"`{name}` has a view that is not Gaussian, but there is no `linear_threshold_`"
        )


def _check_shares(name: str, state: Mapping[str, Any]) -> None:
    """A share for every group of rows, by its label."""
    shares = state[name]
    if not isinstance(shares, dict) or not all(isinstance(label, str) for label in shares):
        raise ModelFileError(f"`{name}` must hold a number for the label of each group of rows")
    for share in shares.values():
        _check_field(name, share, numbers(finite=True), {})


# What may have chosen a penalty.
_RULES = ("slope", "aic", "bic", "ebic", "given")


def _check_criterion(name: str, state: Mapping[str, Any]) -> None:
    if not isinstance(state[name], str) or state[name] not in _RULES:
        raise ModelFileError(f"`{name}` must be one of {', '.join(map(repr, _RULES))}")


_CHECKS: dict[str, Callable[[str, Mapping[str, Any]], None]] = {
    "averaged_": _check_averaged,
    "classes_": _check_classes,
    "candidate_indices_": _check_likely,
    "credible_sets_": _check_credible,
    "stop_reason_": _check_reason,
    "objective_path_": _check_bounds,
    "slope_": _check_slope,
    "criterion_": _check_criterion,
    "_gap_problem": _check_gap,
    "n_private_": _check_private,
    "likelihood_": _check_likelihood,
    "heldout_r2_by_group_": _check_shares,
}


# --- attributes that belong together


def _check_views(state: Mapping[str, Any], sizes: dict[str, int]) -> None:
    """The views share out the columns; what is said of views is said of each."""
    views = state["view_columns_"]
    if not isinstance(views, list) or not views:
        raise ModelFileError("`view_columns_` must be a list of arrays, one for each view")
    sizes["v"] = len(views)
    for columns in views:
        _check_field("view_columns_", columns, counts("c"), {})
    together = np.sort(np.concatenate(views))
    if together.size != sizes["p"] or np.any(together != np.arange(sizes["p"])):
        raise ModelFileError(f"`view_columns_` must share out the {sizes['p']} columns")
    for name, shape, kinds in (
        ("view_components_", ("d", "c"), "fiu"),
        ("view_names_", ("c",), "OU"),
    ):
        if name not in state:
            continue
        parts = state[name]
        if not isinstance(parts, list) or len(parts) != len(views):
            raise ModelFileError(f"`{name}` must be a list with one entry for each view")
        for part, columns in zip(parts, views, strict=True):
            if not (part is None and name == "view_names_"):
                d = np.shape(state["components_"])[:1]
                known = {"c": columns.size} | ({"d": d[0]} if d else {})
                _check_field(name, part, Field(kinds, shape), known)


def _check_panel(state: Mapping[str, Any]) -> None:
    """The order is that of the chosen columns, which alone stand for others; the path reaches so
    far."""
    chosen = np.flatnonzero(state["support_"])
    if not np.array_equal(np.sort(state["order_"]), chosen):
        raise ModelFileError("`order_` must hold the columns of `support_`, each once")
    if not np.isin(state["proxy_"], [-1, *chosen]).all():
        raise ModelFileError("`proxy_` must hold columns of `support_`, or -1")
    if state["relative_r2_path_"].size < chosen.size:
        raise ModelFileError(f"`relative_r2_path_` must reach to {chosen.size} columns")


def _check_selection(state: Mapping[str, Any], loadings: str) -> None:
    """What was chosen, how many, and in which order."""
    support, p = state["support_"], state["n_features_in_"]
    if int(support.sum()) != state["n_selected_"]:
        raise ModelFileError(
            f"`n_selected_` is {state['n_selected_']}, but `support_` has {int(support.sum())}"
        )
    if np.any(np.sort(state["ranking_"]) != np.arange(1, p + 1)):
        raise ModelFileError(f"`ranking_` must hold every rank from 1 to {p}")
    if np.any(np.atleast_2d(state[loadings])[:, ~support]):
        raise ModelFileError(f"`{loadings}` must be zero outside of `support_`")
    if np.any(support & ~state["varying_"]):
        raise ModelFileError("`support_` has columns that do not vary, according to `varying_`")
    if "components_" in state:
        d, shared = len(state["components_"]), state["n_components_"]
        if shared > d or (shared < d and "factor_view_" not in state):
            raise ModelFileError(f"`n_components_` is {shared}, but `components_` has {d} rows")
    if "cardinalities_" in state and state["n_selected_"] not in state["cardinalities_"]:
        raise ModelFileError("`n_selected_` must be one of the `cardinalities_`")
    if "order_" in state and np.any(state["order_"] >= p):
        raise ModelFileError(f"`order_` must hold columns below {p}")
    if "proxy_" in state:
        _check_panel(state)
    if "factor_view_" in state:
        views = len(state.get("view_columns_", []))
        if np.any(state["factor_view_"] >= views):
            raise ModelFileError(f"`factor_view_` must hold views below {views}")
