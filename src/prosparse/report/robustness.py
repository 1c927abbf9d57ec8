"""Robustness of a selection to influential rows and batch effects.

A selection can depend on one row, or on differences between batches. Refits reveal this: one
without the row that has the largest influence on the components, and one for each label associated
with the components, with the label as a covariate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..data.arrays import to_numpy
from ..data.covariates import take_rows
from ..data.row_groups import is_missing
from ..errors import InputError, plural
from ..interpretation import Association, associations
from ..models._base import SparseProjection, VariableSelector
from ..phrases import percent, quote_name
from ..stability.refitting import Refitter, refit_parameters
from ..structure.row_diagnostics import row_influence

MAX_REMAINING = 0.5  # maximum proportion selected again if a row or label explains the selection
MAX_QVALUE = 0.05  # maximum q-value of an association between a component and a label
MAX_NUMERIC_LEVELS = 10  # maximum number of distinct numbers of a categorical label
MAX_LABELS = 5  # maximum number of labels used as covariates
MAX_SENTENCES = 6


class Refit(NamedTuple):
    """Selection in a refit without a row, or with a covariate."""

    name: str  # name of the row or the label
    n_selected: int  # number of selected variables
    n_again: int  # number of selected variables that were selected before


class Robustness(NamedTuple):
    """Associations of components with labels, and selections of refits."""

    n_selected: int  # number of variables selected from all rows
    row: Refit | None = None  # without the most influential row
    labels: tuple[Refit, ...] = ()  # with a label as a covariate
    batches: tuple[str, ...] = ()  # labels that describe the measurement
    associations: tuple[Association, ...] = ()

    @property
    def rests_on_row(self) -> bool:
        """Whether most variables are not selected without one row."""
        return self.row is not None and self.row.n_again < MAX_REMAINING * self.n_selected

    @property
    def explained_by(self) -> tuple[Refit, ...]:
        """Labels that explain most of the selection."""
        return tuple(r for r in self.labels if r.n_again < MAX_REMAINING * self.n_selected)

    def headline(self) -> str | None:
        """Return a sentence that qualifies the main result, or None."""
        if self.rests_on_row and self.row is not None:
            return (
                f"The result depends on row {quote_name(self.row.name)}: without it, "
                f"{self._describe(self.row)}."
            )
        for refit in self.explained_by:
            if refit.name in self.batches:
                return (
                    f"Differences between the levels of {quote_name(refit.name)} explain the "
                    f"result: after their removal, {self._describe(refit)}."
                )
        return None

    def summary(self) -> list[str]:
        """Describe the associations, and refits that are not in the headline."""
        sentences = [describe_association(a) for a in self.significant[:MAX_SENTENCES]]
        tested = list(dict.fromkeys(a.covariate for a in self.associations))
        others = [n for n in tested if n not in {a.covariate for a in self.significant}]
        if others:
            names = ", ".join(map(quote_name, others[:MAX_SENTENCES]))
            sentences.append(f"No component is significantly associated with {names}.")
        sentences += [
            f"With {quote_name(refit.name)} as a covariate, {self._describe(refit)}."
            for refit in self.labels
            if refit.name not in self.batches or refit not in self.explained_by
        ]
        if self.row is not None and not self.rests_on_row:
            sentences.append(
                f"Without row {quote_name(self.row.name)}, which has the largest influence, "
                f"{self._describe(self.row)}."
            )
        return sentences

    def _describe(self, refit: Refit) -> str:
        """Describe in a clause how many variables a refit selects again."""
        again, before = refit.n_again, self.n_selected
        if again == before:
            return (
                "the variable is selected again"
                if before == 1
                else (f"all {before:,} variables are selected again")
            )
        number = "none" if again == 0 else f"{again:,}"
        verb = "is" if again <= 1 else "are"
        return f"{number} of the {plural(before, 'variable')} {verb} selected again"

    @property
    def significant(self) -> list[Association]:
        """Significant associations, in the order of the components."""
        found = [a for a in self.associations if a.q_value <= MAX_QVALUE]
        return sorted(found, key=lambda a: (a.factor, a.p_value))

    def to_json(self) -> dict[str, Any]:
        """Convert all fields to objects that JSON supports."""
        return {
            "n_selected": self.n_selected,
            "row": None if self.row is None else [*self.row],
            "labels": [[*refit] for refit in self.labels],
            "batches": [*self.batches],
            "associations": [[*test] for test in self.associations],
        }

    @classmethod
    def from_json(cls, saved: Any) -> Robustness | None:
        """Restore the output of `to_json`; return None if it is not valid."""
        try:
            return cls(
                int(saved["n_selected"]),
                None if saved["row"] is None else _read_refit(saved["row"]),
                tuple(map(_read_refit, saved["labels"])),
                tuple(map(str, saved["batches"])),
                tuple(map(_read_association, saved["associations"])),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None


def _read_refit(saved: Sequence[Any]) -> Refit:
    name, n_selected, n_again = saved
    return Refit(str(name), int(n_selected), int(n_again))


def _read_association(saved: Sequence[Any]) -> Association:
    factor, name, kind, effect, p_value, q_value, n = saved
    return Association(
        int(factor), str(name), str(kind), float(effect), float(p_value), float(q_value), int(n)
    )


def describe_association(association: Association) -> str:
    """Describe a significant association in a sentence."""
    name, component = quote_name(association.covariate), association.factor + 1
    q = association.q_value
    chance = f"p = {q:.1g}" if q >= 1e-10 else "p < 1e-10"
    if association.kind == "number":
        return (
            f"Component {component} is correlated with {name} (rank correlation "
            f"{association.effect:.2f}, {chance} after adjustment for all tests)."
        )
    return (
        f"The scores of component {component} differ between the levels of {name}, which explain "
        f"{percent(association.effect, 0)} of the variance of their ranks ({chance} after "
        "adjustment for all tests)."
    )


def parse_label(values: Sequence[Any]) -> np.ndarray:
    """Convert a label to floats if it has many numbers, otherwise to texts."""
    texts = [None if is_missing(v) or not str(v).strip() else str(v).strip() for v in values]
    try:
        numbers = {float(text) for text in texts if text is not None}
    except ValueError:
        numbers = set()
    if len(numbers) > MAX_NUMERIC_LEVELS:
        return np.array([None if t is None else float(t) for t in texts], dtype=object)
    return np.array(texts, dtype=object)


def examine_robustness(
    model: VariableSelector,
    X: Any,
    *,
    y: ArrayLike | None = None,
    groups: Sequence[Any] | None = None,
    covariates: Mapping[str, Any] | None = None,
    labels: Mapping[str, Sequence[Any]] | None = None,
    batches: Iterable[str] = (),
    ids: Sequence[str] | None = None,
    refit: bool = True,
) -> Robustness:
    """Refit without the most influential row and with labels as covariates.

    The model is not changed. ``X``, ``y``, ``groups`` and ``covariates`` are those of the fit.
    ``labels`` are tested against the components, and ``batches`` contains the names of labels that
    describe the measurement. ``ids`` are names of the rows, by default numbers from 1. Without
    ``refit``, only the associations are computed.
    """
    support = to_numpy(model.support_).astype(bool)
    result = Robustness(int(support.sum()), batches=tuple(batches))
    if not support.any() or not isinstance(model, SparseProjection):
        return result
    metadata = {} if covariates is None else {"covariates": covariates}
    scores = np.asarray(to_numpy(model.transform(X, **metadata)), dtype=float)
    known = np.isfinite(scores).all()
    if labels and known:
        columns = {name: parse_label(values) for name, values in labels.items()}
        result = result._replace(associations=tuple(associations(scores, columns, groups)))
    if not refit:
        return result
    refitter = Refitter(model, X, y, groups, covariates)
    fitted = vars(model).get("row_influence_")
    influence = row_influence(scores) if fitted is None else to_numpy(fitted)
    parameters = refit_parameters(model, refitter.n_rows, selection_only=True)
    if known and influence.size > 3:
        row = int(np.argmax(influence))
        rest = np.delete(np.arange(refitter.n_rows), row)
        selected = refitter.select_on_rows(rest, parameters)
        if not isinstance(selected, Exception):
            name = str(row + 1) if ids is None else str(ids[row])
            result = result._replace(row=_compare(name, selected, support))
    separated = dict.fromkeys(a.covariate for a in result.significant if a.kind == "category")
    if labels and refitter.method.accepts_covariates:
        refits = []
        for name in list(separated)[:MAX_LABELS]:
            given_label = _select_given(refitter, name, labels[name], parameters)
            if given_label is not None:
                refits.append(_compare(name, given_label, support))
        result = result._replace(labels=tuple(refits))
    return result


def _compare(name: str, selected: np.ndarray, before: np.ndarray) -> Refit:
    return Refit(name, int(selected.sum()), int(np.sum(selected & before)))


def _select_given(
    refitter: Refitter, name: str, label: Sequence[Any], parameters: dict[str, Any]
) -> np.ndarray | None:
    """Refit with a label as a further covariate; return None if this fails."""
    texts = np.array([str(value) for value in label], dtype=object)
    if any(is_missing(value) or not str(value).strip() for value in label):
        return None
    every = np.arange(refitter.n_rows)
    covariates = {**(take_rows(refitter.covariates, refitter.n_rows, every) or {}), name: texts}
    codes = None if refitter.groups is None else refitter.groups.codes
    try:
        model = refitter.refit(refitter.views, refitter.y, codes, covariates, parameters)
    except InputError:
        return None
    return None if isinstance(model, Exception) else to_numpy(model.support_).astype(bool)
