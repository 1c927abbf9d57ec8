"""The options of the commands: what they are called, what they say, and how commands share them.

A command names the groups of options that it has by the types of its parameters, such as `Reading`;
`with_options` turns it into the flat function that typer wants. The options of the methods come
from the registry.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from ..errors import ParameterError, check_choice
from ..registry import Method, Option, offered
from ..tables import READERS, ReadOptions, ending_of
from ..tables.delimited import read_delimited
from ..tables.workbook import ENDINGS
from .analysis import DEFAULT, MISSING
from .terminal import as_typed

_COLUMNS, _FILE = "Which column is what", "How the file is read"
_TABLE, ANSWER = "What is done to the table", "The answer"
LOOKED_FOR = "What is looked for"
_DATA = "The table: CSV, TSV, XLSX, ODS, Parquet, Arrow, NPZ, NPY, MTX or H5AD."
File = Annotated[Path, typer.Argument(metavar="FILE", help=_DATA)]
_TEXT = tuple(ending for ending, reader in READERS.items() if reader is read_delimited)
# Options that only some formats use, and the endings of these.
_OF_FORMATS = {
    "sheet": ENDINGS,
    "encoding": _TEXT,
    "separator": _TEXT,
    "no_header": (*_TEXT, *ENDINGS),
}
_Column = functools.partial(typer.Option, metavar="COLUMN", rich_help_panel=_COLUMNS)


class Reading(NamedTuple):
    """How a table is read, and which column is what."""

    label: Annotated[str | None, _Column(help="A column that colours the scores.")] = None
    id_column: Annotated[str | None, _Column(help="The column with the names of the rows.")] = None
    drop: Annotated[
        list[str] | None,
        _Column(
            help="A column to leave out; may be repeated, or names with commas between them; text "
            "for all columns that are not numbers."
        ),
    ] = None
    keep: Annotated[
        list[str] | None,
        _Column(help="A column that is a variable, though it looks like numbers of rows."),
    ] = None
    groups: Annotated[
        str | None,
        _Column(
            help="A column that says which rows belong together (patients, donors, batches). For "
            f"{' and '.join(one.name for one in offered().values() if one.takes_groups)}."
        ),
    ] = None
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_COLUMNS,
            help="Another file, with the names of the rows and the columns that --label, --groups "
            "or --response name.",
        ),
    ] = None
    transpose: Annotated[
        bool,
        typer.Option(
            "--transpose",
            rich_help_panel=_FILE,
            help="Variables are in rows; --label, --groups and --response then name rows.",
        ),
    ] = False
    sheet: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", rich_help_panel=_FILE, help="Of a spreadsheet: a name or a number."
        ),
    ] = None
    no_header: Annotated[
        bool, typer.Option("--no-header", rich_help_panel=_FILE, help="The first line is data.")
    ] = False
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", rich_help_panel=_FILE, help="Of a text file, if not UTF-8."),
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(
            metavar="CHARACTER", rich_help_panel=_FILE, help="Of the columns of a text file."
        ),
    ] = None
    decimal: Annotated[
        str | None,
        typer.Option(
            metavar="point|comma",
            rich_help_panel=_FILE,
            help="What begins decimals in a text file.",
        ),
    ] = None

    def ask(self, file: Path | None, response: str | None = None) -> ReadOptions:
        """Return the options for the reader of a table.

        Parameters
        ----------
        file : Path or None
            The table; None if the command reads none.
        response : str or None
            Name of the response.

        Returns
        -------
        ReadOptions

        Raises
        ------
        ParameterError
            If an option has no effect on the file, or no possible value.
        """
        self._refuse_unused(file)
        separator, decimal = self.separator, self.decimal
        if separator is not None:
            separator = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}.get(
                separator, separator
            )
            if len(separator) != 1:
                raise ParameterError(
                    f"--separator must be one character, or tab, got {separator!r}"
                )
        if decimal is not None:
            check_choice("--decimal", decimal, ("point", "comma", ".", ","))
            decimal = {"point": ".", "comma": ","}.get(decimal, decimal)
        return ReadOptions(
            id_column=_typed(self.id_column),
            label=_typed(self.label),
            drop=tuple(map(as_typed, self.drop or ())),
            transpose=self.transpose,
            header=not self.no_header,
            encoding=self.encoding,
            separator=separator,
            decimal=decimal,
            keep=tuple(map(as_typed, self.keep or ())),
            groups=_typed(self.groups),
            response=_typed(response),
            sheet=_typed(self.sheet),
            labels=None if self.labels is None else str(self.labels),
        )

    def _refuse_unused(self, file: Path | None) -> None:
        """Refuse options that the file's format does not use."""
        left_out = Reading()
        given = [name for name in self._fields if getattr(self, name) != getattr(left_out, name)]
        if file is None and given:
            raise ParameterError(
                f"--{typed(given[0])} has no effect without a table: name one with --data, or "
                f"leave out --{typed(given[0])}"
            )
        ending = "" if file is None else ending_of(file).lower().removesuffix(".gz")
        for name in given:
            endings = _OF_FORMATS.get(name)
            if endings is not None and ending not in endings:
                raise ParameterError(
                    f"--{typed(name)} has no effect on {file}: it is for files that end in "
                    f"{', '.join(endings)}. Leave it out"
                )


def _typed(word: str | None) -> str | None:
    return None if word is None else as_typed(word)


class Preparing(NamedTuple):
    """What is done to the table before it is fitted."""

    log1p: Annotated[
        bool,
        typer.Option("--log1p", rich_help_panel=_TABLE, help="Take log(1 + x) first."),
    ] = False
    missing: Annotated[
        str,
        typer.Option(
            metavar="|".join(MISSING),
            rich_help_panel=_TABLE,
            help="What to do about missing values. drop: leave out rows or columns, whichever "
            "loses less; impute: fill with column means (fdrpca) or by principal components (other "
            "methods).",
        ),
    ] = "error"


class Choosing(NamedTuple):
    """Which method, and how many components."""

    method: Annotated[
        str, typer.Option(metavar="NAME", rich_help_panel=LOOKED_FOR, help="see `with_options`")
    ] = DEFAULT
    components: Annotated[
        str,
        typer.Option(
            metavar="N|auto", rich_help_panel=LOOKED_FOR, help="How many components, or auto."
        ),
    ] = "auto"
    scale: Annotated[
        bool,
        typer.Option(
            "--scale",
            rich_help_panel=_TABLE,
            help="Columns to unit variance first, for methods that do not do so anyway, as "
            f"{' and '.join(one.name for one in offered().values() if one.scales)} do.",
        ),
    ] = False


class Iterating(NamedTuple):
    """When iterations end."""

    max_iter: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, rich_help_panel=LOOKED_FOR, help="At most so many iterations."
        ),
    ] = None
    tol: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            rich_help_panel=LOOKED_FOR,
            help="Iterations end when the objective grows by less than that.",
        ),
    ] = None


class Doubting(NamedTuple):
    """What is done to see how sure the choice is."""

    shuffles: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            rich_help_panel=ANSWER,
            help="Tables with every column shuffled on its own, to see what chance would choose; "
            "0 for none. Left out: 5, where a fit is quick.",
        ),
    ] = None
    stability: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            rich_help_panel=ANSWER,
            help="Fit N halves of the rows, an even number such as 50, and say how often each "
            "variable is chosen.",
        ),
    ] = 0

    def checked(self) -> Doubting:
        """Refuse halves that come in no pairs."""
        if self.stability % 2:
            raise ParameterError(
                "--stability must be even, as halves of the rows come in pairs, got "
                f"{self.stability}"
            )
        return self


class Answering(NamedTuple):
    """What is printed."""

    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", rich_help_panel=ANSWER, help="Print nothing but errors."),
    ] = False
    as_json: Annotated[
        bool, typer.Option("--json", rich_help_panel=ANSWER, help="Print the answer as JSON.")
    ] = False


class OfMethods(dict[str, object]):
    """The options of the methods, by name; None where they were left out."""


_GROUPS: tuple[Any, ...] = (Reading, Preparing, Choosing, Iterating, Doubting, Answering)


def with_options(
    command: Callable[..., None], methods: Iterable[Method] = ()
) -> Callable[..., None]:
    """A command as a function of all its options, as typer wants it.

    Parameters
    ----------
    command : function
        Parameters whose type is a group of options stand for all of these. A parameter of the
        command's own goes before an option of the same name, and the group has its value, too.
    methods : iterable of Method
        Those whose options a parameter of type `OfMethods` stands for.

    Returns
    -------
    function
    """
    own: list[inspect.Parameter] = []
    shared: dict[str, Any] = {}
    of_methods: list[inspect.Parameter] = []
    for name, one in inspect.signature(command, eval_str=True).parameters.items():
        if one.annotation is OfMethods:
            shared[name] = OfMethods
            of_methods = method_options(methods)
        elif one.annotation in _GROUPS:
            shared[name] = one.annotation
        else:
            own.append(one)
    parameters = {one.name: one for one in own}
    for group in shared.values():
        for one in of_methods if group is OfMethods else _parameters(group):
            parameters.setdefault(one.name, one)

    @functools.wraps(command)
    def flat(**given: Any) -> None:
        words = {one.name: given[one.name] for one in own}
        for name, group in shared.items():
            if group is OfMethods:
                words[name] = OfMethods({typed(one.name): given[one.name] for one in of_methods})
            else:
                words[name] = group(**{field: given[field] for field in group._fields})
        command(**words)

    ordered = sorted(parameters.values(), key=lambda one: one.default is not one.empty)
    flat.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    return flat


def _parameters(group: Any) -> list[inspect.Parameter]:
    types = get_type_hints(group, include_extras=True)
    parameters = []
    for name, one in inspect.signature(group).parameters.items():
        annotation = types[name]
        if group is Choosing and name == "method":
            words = f"One of {', '.join(offered())}."
            option = typer.Option(metavar="NAME", rich_help_panel=LOOKED_FOR, help=words)
            annotation = Annotated[str, option]
        parameters.append(one.replace(annotation=annotation))
    return parameters


def variable(option: str) -> str:
    """The name of an option as that of a variable, which has no dashes."""
    return option.replace("-", "_")


def typed(name: str) -> str:
    """The name of a variable as that of an option, which is typed with dashes."""
    return name.replace("_", "-")


def method_options(methods: Iterable[Method]) -> list[inspect.Parameter]:
    """The options of methods, as typer wants them; methods may share one."""
    asked: dict[str, dict[str, Option]] = {}
    for method in methods:
        for option in method.options or ():
            asked.setdefault(option.name, {})[method.name] = option
    several = len({name for by_method in asked.values() for name in by_method}) > 1
    taken = {field for group in _GROUPS for field in group._fields}
    parameters = []
    for name, by_method in asked.items():
        kinds = {(option.kind, option.least) for option in by_method.values()}
        if len(kinds) > 1 or variable(name) in taken:
            raise ValueError(
                f"the option --{name} of {', '.join(by_method)} is taken, or not of one kind for "
                "all of them: give it another name"
            )
        ((kind, least),) = kinds
        words = " ".join(
            f"For {method}: {one.help}." if several else f"{one.help[0].upper()}{one.help[1:]}."
            for method, one in by_method.items()
        )
        # a flag has one name, as not to say it is to leave it out
        names = (f"--{name}",) if kind is bool else ()
        parameters.append(
            inspect.Parameter(
                variable(name),
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=typer.Option(
                    None,
                    *names,
                    min=least,
                    metavar={int: "N", float: "NUMBER", bool: None}.get(kind, "VALUE"),
                    rich_help_panel=LOOKED_FOR,
                    help=words,
                ),
                annotation=kind | None,
            )
        )
    return parameters
