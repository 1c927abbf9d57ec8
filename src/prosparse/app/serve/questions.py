"""Questions on the page, and the commands and options that answer them."""

from __future__ import annotations

from typing import NamedTuple


class Choice(NamedTuple):
    """Option of a question.

    ``kind`` is ``number``, ``flag``, ``text`` or ``select``; ``choices`` contains values and their
    titles.
    """

    name: str  # name on the command line, without dashes
    title: str
    help: str
    kind: str = "number"
    choices: tuple[tuple[str, str], ...] = ()
    placeholder: str = ""
    step: str = "1"


class Question(NamedTuple):
    """Question answered by a command."""

    name: str
    title: str
    explanation: str  # description of the answer
    assumption: str  # assumptions of the method
    command: str
    method: str  # of the command
    choices: tuple[Choice, ...] = ()
    options: tuple[tuple[str, str | None], ...] = ()  # options implied by the question
    needs_response: bool = False
    needs_tables: bool = False


_MISSING = Choice(
    "missing",
    "Missing values",
    "Imputed values are estimated from the other variables. Dropping removes rows or columns, "
    "whichever loses fewer values.",
    "select",
    (
        ("", "as the check suggests"),
        ("error", "stop"),
        ("drop", "drop"),
        ("impute", "impute"),
    ),
)
_LOG1P = Choice("log1p", "Logarithms", "Replace every value x by log(1 + x).", "flag")
_COUNTS = Choice(
    "counts",
    "Counts",
    "The values are raw counts, such as reads or individuals, and rows may differ in their totals.",
    "flag",
)
_COMPONENTS = Choice("components", "Components", "Number of components.", placeholder="estimated")
_PERMUTATIONS = Choice(
    "permutations",
    "Null datasets",
    "Number of randomised tables without shared variance that are analysed in the same way. The "
    "results show how many variables are selected under the null hypothesis.",
    placeholder="10 if fast",
)
_STABILITY = Choice(
    "stability",
    "Random halves",
    "Number of random halves of the rows, an even number such as 50. The "
    "fits to these halves show how often each variable is selected.",
    placeholder="none",
)
_COMMON = (_MISSING, _LOG1P, _PERMUTATIONS, _STABILITY)

TOGETHER = Question(
    "together",
    "Which variables vary together?",
    "Selects the variables that share variance with others, and summarises them by a few "
    "components.",
    "Assumes that rows are independent (or that their groups are given) and that relations are "
    "roughly linear. By default, at most 5 % of the selected variables are expected to be false "
    "discoveries.",
    "select",
    "fdrpca",
    (
        _COMPONENTS,
        Choice(
            "fdr",
            "False discovery rate",
            "Maximum expected proportion of false discoveries among the selected variables.",
            placeholder="0.05",
            step="any",
        ),
        Choice(
            "min-communality",
            "Minimum communality",
            "Proportion of a variable's variance that it must share with the components.",
            placeholder="0",
            step="any",
        ),
        _COUNTS,
        *_COMMON,
    ),
)
FEW = Question(
    "few",
    "Which few variables predict all others?",
    "Selects a small panel of variables that predicts all others, so that new samples need fewer "
    "measurements.",
    "Assumes that new rows resemble these rows. Predictions are evaluated on rows that were not "
    "used to select the panel.",
    "panel",
    "panel",
    (
        Choice("variables", "Variables", "Number of variables.", placeholder="estimated"),
        Choice(
            "target-recovery",
            "Target recovery",
            "Held-out R2 to reach, as a proportion of the R2 of prediction from all variables.",
            placeholder="0.9",
            step="any",
        ),
        Choice("include", "Include", "Variable that the panel must contain.", "text"),
        Choice("exclude", "Exclude", "Variable that the panel must not contain.", "text"),
        _COUNTS,
        *_COMMON,
    ),
)
PREDICT = Question(
    "predict",
    "What predicts one column?",
    "Selects the variables that predict a response, which is a number or one of two classes.",
    "Assumes that the response depends linearly on few variables. Predictors need not be causes.",
    "regress",
    "spinyreg",
    _COMMON,
    needs_response=True,
)

SHARE = Question(
    "share",
    "What do several tables share?",
    "Estimates components of two or more tables of the same samples, such as genes and proteins of "
    "the same patients, and states which components the tables share.",
    "Assumes that rows with the same name are the same sample, and that relations are roughly "
    "linear. Rows absent from a table count as missing values. Batches that affect several tables "
    "are shared, too.",
    "select",
    "sca",
    (_COMPONENTS, _LOG1P, _PERMUTATIONS, _STABILITY),
    (("--method", "sca"), ("--missing", "impute")),
    needs_tables=True,
)
FILL = Question(
    "fill",
    "Fill in missing values",
    "Estimates each missing value from the other variables of its row, with a 95 % interval. You "
    "can download the completed table.",
    "Assumes that a value is missing for reasons that do not depend on the value itself, and that "
    "relations are roughly linear. Do not test hypotheses on the completed table as if all values "
    "had been measured.",
    "select",
    "sca",
    (_COMPONENTS, _LOG1P),
    (("--method", "sca"), ("--missing", "impute"), ("--permutations", "0")),
)

QUESTIONS = {question.name: question for question in (TOGETHER, FEW, PREDICT, SHARE, FILL)}
