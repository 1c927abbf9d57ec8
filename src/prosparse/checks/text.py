"""Findings about text columns and columns that describe the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.stats import spearmanr

from ..phrases import join_items, percent
from ..tables.identifiers import is_identifier_name, is_row_number_name
from ..tables.quoting import quote_argument
from ..tables.roles import (
    MIN_ROWS_PER_LEVEL,
    Guess,
    Role,
    guess_text_role,
    names_covariate,
    names_repeated_units,
    numbers_visits,
    repeats_identifier,
)
from .columns import ignore_columns
from .numbers import Numbers
from .result import Finding, Severity, capitalise, list_names, name_columns

OPTIONS = {
    Role.ROW_NAMES: "--row-names",
    Role.LABEL: "--label",
    Role.GROUPS: "--groups",
    Role.COVARIATE: "--covariates",
    Role.IGNORED: "--ignore",
}
MAX_PVALUE = 0.001  # maximum p-value of an association of a covariate with a variable
MIN_ASSOCIATED = 0.25  # minimum proportion of variables associated with a covariate
MIN_VARIABLES = 5


def fix_role(role: Role, name: str) -> str:
    """Return the option that assigns a role to a column."""
    return "" if role not in OPTIONS else f"{OPTIONS[role]} {quote_argument(name)}"


def guess_text_roles(columns: Mapping[str, Sequence[str]], *, named: bool) -> dict[str, Guess]:
    """Guess the roles of the text columns.

    ``named`` states whether the rows have names.
    """
    guesses: dict[str, Guess] = {}
    has_groups = False
    for name, cells in columns.items():
        guess = guess_text_role(name, cells, may_name_rows=not named)
        named = named or guess.role is Role.ROW_NAMES
        if guess.role is Role.GROUPS and has_groups:
            guess = Guess(Role.LABEL, guess.reason)
        has_groups = has_groups or guess.role is Role.GROUPS
        guesses[name] = guess
    return guesses


def demote_constant_covariates(
    guesses: Mapping[str, Guess], columns: Mapping[str, Sequence[str]], groups: Sequence[str]
) -> dict[str, Guess]:
    """Convert covariates that are constant within groups to labels.

    Such covariates have no effect, because rows are compared within groups.
    """
    n_groups = len(set(groups))
    return {
        name: Guess(Role.LABEL, f"{guess.reason.partition(' and is ')[0]}, constant within groups")
        if guess.role is Role.COVARIATE
        and len(set(zip(groups, columns[name], strict=True))) == n_groups
        else guess
        for name, guess in guesses.items()
    }


def find_text_problems(guesses: Mapping[str, Guess], severity: Severity) -> Iterator[Finding]:
    """Find text columns that require a role.

    ``severity`` is the severity of a column without a role.
    """
    for name, guess in guesses.items():
        subject, fix = capitalise(name_columns([name])), fix_role(guess.role, name)
        if guess.role is Role.GROUPS:
            yield repeated_ids(name, guess.reason, severity)
        elif guess.role is Role.COVARIATE:
            consequence = (
                "Differences between batches make all variables correlated"
                if guess.is_batch
                else "Its effect makes otherwise unrelated variables correlated"
            )
            yield Finding(
                "text-covariate",
                severity,
                f"{subject} {guess.reason}. {consequence}. Use the column as a covariate to "
                "remove these differences, or as a label to colour the scores."
                if guess.is_batch
                else f"{subject} {guess.reason}. {consequence}. Remove it as a covariate.",
                columns=(name,),
                fix=fix,
            )
        elif guess.role is Role.LABEL:
            yield Finding(
                "text-label",
                severity,
                f"{subject} is text and {guess.reason}. As a label, it colours the scores and "
                "is tested against the components.",
                columns=(name,),
                fix=fix,
            )
        elif guess.role is Role.ROW_NAMES:
            yield Finding(
                "row-names", Severity.NOTE, f"{subject} {guess.reason}.", columns=(name,), fix=fix
            )
    ignored = tuple(name for name, guess in guesses.items() if guess.role is Role.IGNORED)
    if ignored:
        reasons = "; ".join(f"{list_names([k])} {guesses[k].reason}" for k in ignored[:5])
        yield Finding(
            "text-ignored",
            severity,
            f"{capitalise(name_columns(ignored))} cannot be used as "
            f"{'a variable' if len(ignored) == 1 else 'variables'}: {reasons}.",
            columns=ignored,
            fix=ignore_columns(ignored),
        )


def repeated_ids(name: str, reason: str, severity: Severity) -> Finding:
    """Build the finding of repeated measures."""
    return Finding(
        "repeated-ids",
        severity,
        f"{capitalise(name_columns([name]))} {reason}. Rows of one unit are repeated measures and "
        "not independent: differences between units make all variables correlated. Compare rows "
        "within units.",
        columns=(name,),
        fix=fix_role(Role.GROUPS, name),
    )


def find_numeric_roles(numbers: Numbers, *, groups_known: bool) -> Iterator[tuple[Role, Finding]]:
    """Find numeric columns that are identifiers, groups or covariates."""
    n = numbers.X.shape[0]
    for k, name in enumerate(numbers.names):
        column = numbers.X[:, k]
        if n < 5 or np.isnan(column).any() or not np.array_equal(column, np.round(column)):
            continue
        steps = np.diff(column)
        if np.all(steps == 1.0) and column[0] in (0.0, 1.0):
            finding = Finding(
                "row-numbers",
                Severity.WARNING,
                f"{capitalise(name_columns([name]))} contains row numbers, which are not "
                "measurements and correlate with any drift.",
                columns=(name,),
                fix=fix_role(Role.IGNORED, name),
            )
            yield Role.IGNORED, finding
            continue
        n_levels = len(np.unique(column))
        if numbers_visits(name, n_levels) and n >= MIN_ROWS_PER_LEVEL * n_levels:
            finding = Finding(
                "visit-numbers",
                Severity.WARNING,
                f"{capitalise(name_columns([name]))} contains visit numbers or time points, "
                "not measurements. As a label, it colours the scores and is tested against the "
                "components.",
                columns=(name,),
                fix=fix_role(Role.LABEL, name),
            )
            yield Role.LABEL, finding
            continue
        is_named = names_repeated_units(name) or is_identifier_name(name)
        is_unit = is_named or is_row_number_name(name)
        if is_unit and not groups_known:
            cells = [f"{value:.0f}" for value in column]
            if repeats_identifier(name, cells):
                units = len(set(cells))
                reason = f"identifies {units:,} units with {n / units:.2g} rows each on average"
                groups_known = True
                yield Role.GROUPS, repeated_ids(name, reason, Severity.WARNING)
    yield from _covariates(numbers)


def _covariates(numbers: Numbers) -> Iterator[tuple[Role, Finding]]:
    """Find covariates such as age that are associated with many variables."""
    candidates = [k for k in map(int, numbers.varying) if names_covariate(numbers.names[k])]
    position = {int(k): j for j, k in enumerate(numbers.varying)}
    others = [j for k, j in position.items() if k not in candidates]
    if not candidates or len(others) < MIN_VARIABLES or numbers.X.shape[0] < 10:
        return
    proportions = {
        k: _associated(numbers.filled[:, position[k]], numbers.filled[:, others])
        for k in candidates
    }
    found = [k for k in candidates if proportions[k] >= MIN_ASSOCIATED]
    if not found:
        return
    names = numbers.name(found)
    is_one = len(found) == 1
    beyond = "it, remove it as a covariate" if is_one else "these, remove them as covariates"
    yield (
        Role.COVARIATE,
        Finding(
            "covariate-columns",
            Severity.WARNING,
            f"{capitalise(name_columns(names))} {'is' if is_one else 'are'} associated with "
            f"{join_items([percent(proportions[k], 0) for k in found])} of the other variables "
            f"(p < {MAX_PVALUE:g}), which therefore share variance. To select what they share "
            f"beyond {beyond}.",
            columns=names,
            fix=f"{OPTIONS[Role.COVARIATE]} {quote_argument(','.join(names))}",
        ),
    )


def _associated(covariate: np.ndarray, columns: np.ndarray) -> float:
    """Return the proportion of columns with a significant rank correlation."""
    pvalues = [float(spearmanr(covariate, column).pvalue) for column in columns.T[:500]]
    return float(np.mean(np.array(pvalues) < MAX_PVALUE))
