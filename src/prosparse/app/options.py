"""Groups of options that several commands have in common.

The types of a command's parameters, such as `TableOptions`, declare groups of options.
`with_options` replaces groups by single parameters, as typer requires. Options of the methods are
taken from their descriptions.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from ..errors import ParameterError, check_choice
from ..registry import Method, Option, offered
from ..report.plots import FORMATS
from ..tables import READERS, ReadOptions, file_extension
from ..tables.censored_values import CENSORED
from ..tables.delimited import read_delimited
from ..tables.number_format import THOUSANDS
from ..tables.roles_file import merge_options, read_roles
from ..tables.workbook import EXTENSIONS
from .estimators import DEFAULT_METHOD, MISSING
from .terminal import decode_argument

# Options by section of the help.
_column = functools.partial(typer.Option, metavar="COLUMN", rich_help_panel="Columns")
_file_format = functools.partial(typer.Option, rich_help_panel="File format")
_preprocessing = functools.partial(typer.Option, rich_help_panel="Preprocessing")
model_option = functools.partial(typer.Option, rich_help_panel="Model")
output_option = functools.partial(typer.Option, rich_help_panel="Output")
_TABLE_HELP = "Table: CSV, TSV, XLSX, ODS, Parquet, Arrow, NPZ, NPY, MTX or H5AD."
File = Annotated[Path, typer.Argument(metavar="FILE", help=_TABLE_HELP)]
_TEXT = tuple(extension for extension, reader in READERS.items() if reader is read_delimited)
# Extensions of the file formats to which an option applies.
_FORMATS = {
    "sheet": EXTENSIONS,
    "encoding": _TEXT,
    "separator": _TEXT,
    "no_header": (*_TEXT, *EXTENSIONS),
    "thousands": (*_TEXT, *EXTENSIONS),
    "censored": (*_TEXT, *EXTENSIONS),
    "skip_lines": (*_TEXT, *EXTENSIONS),
}


class TableOptions(NamedTuple):
    """Options for reading a table."""

    label: Annotated[
        list[str] | None,
        _column(
            help="Column that colours the scores and is tested against the components. Can be "
            "repeated."
        ),
    ] = None
    row_names: Annotated[str | None, _column(help="Column with the row names.")] = None
    ignore: Annotated[
        list[str] | None,
        _column(
            help="Column that is not used. Can be repeated, or contain several names separated by "
            "commas; 'text' ignores all non-numeric columns."
        ),
    ] = None
    as_variable: Annotated[
        list[str] | None,
        _column(help="Column that is a variable although it looks like an identifier."),
    ] = None
    groups: Annotated[
        str | None,
        _column(
            help="Column with the groups of the rows: patients, donors, batches. For "
            f"{', '.join(method.name for method in offered().values() if method.accepts_groups)}."
        ),
    ] = None
    covariates: Annotated[
        list[str] | None,
        _column(
            help="Columns whose effects are removed before the analysis: age,sex,C(batch). Text "
            "columns and C(...) are categorical. For "
            f"{', '.join(m.name for m in offered().values() if m.accepts_covariates)}."
        ),
    ] = None
    labels: Annotated[
        Path | None,
        _column(
            metavar="FILE",
            help="Second file with the row names and the columns of --label, --groups, "
            "--covariates or --response.",
        ),
    ] = None
    transpose: Annotated[
        bool,
        _file_format(
            "--transpose",
            help="Variables are in rows; --label, --groups, --covariates and --response are row "
            "names.",
        ),
    ] = False
    sheet: Annotated[
        str | None, _file_format(metavar="NAME", help="Name or number of a spreadsheet's sheet.")
    ] = None
    no_header: Annotated[
        bool, _file_format("--no-header", help="The first line contains data.")
    ] = False
    encoding: Annotated[
        str | None, _file_format(metavar="NAME", help="Encoding of a text file, if not UTF-8.")
    ] = None
    separator: Annotated[
        str | None,
        _file_format(metavar="CHARACTER", help="Separator of the columns of a text file."),
    ] = None
    decimal: Annotated[
        str | None, _file_format(metavar="point|comma|mixed", help="Decimal mark of the numbers.")
    ] = None
    thousands: Annotated[
        str | None,
        _file_format(metavar="|".join(THOUSANDS), help="Thousands separator of the numbers."),
    ] = None
    na: Annotated[
        list[str] | None,
        _file_format(
            metavar="CODES",
            help='Further codes for missing values, separated by commas: "don\'t know,n.d.,-999".',
        ),
    ] = None
    censored: Annotated[
        str | None,
        _file_format(
            metavar="|".join(CENSORED),
            help="Value of cells such as <0.5 and <LOD: half the limit of detection, the limit, or "
            "missing.",
        ),
    ] = None
    skip_lines: Annotated[
        str | None,
        _file_format(
            metavar="N,N", help="Numbers of lines that are not read, such as lines of units."
        ),
    ] = None
    ignore_rows: Annotated[
        list[str] | None,
        _column(
            metavar="ROWS",
            help="Rows that are not used: names, or row numbers from 1, separated by commas.",
        ),
    ] = None

    roles: Annotated[
        Path | None,
        _column(
            metavar="FILE",
            help="File of roles written by prosparse check --write. Options on the command line "
            "override it.",
        ),
    ] = None

    def analysis_settings(self) -> dict[str, Any]:
        """Return the settings of the analysis in the roles file."""
        return {} if self.roles is None else read_roles(self.roles).analysis

    def read_options(self, file: Path | None, response: str | None = None) -> ReadOptions:
        """Convert the options to `ReadOptions`; ``file`` may be None.

        Options that are invalid or have no effect on the file raise a `ParameterError`.
        """
        given = self._given_options(file, response)
        return given if self.roles is None else merge_options(read_roles(self.roles).options, given)

    def _given_options(self, file: Path | None, response: str | None) -> ReadOptions:
        self._refuse_unused(file)
        separator, decimal = self.separator, self.decimal
        if separator is not None:
            characters = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
            separator = characters.get(separator, separator)
            if len(separator) != 1:
                raise ParameterError(
                    f"--separator must be one character, or tab, got {separator!r}."
                )
        if decimal is not None:
            check_choice("--decimal", decimal, ("point", "comma", "mixed", ".", ","))
            decimal = {"point": ".", "comma": ","}.get(decimal, decimal)
        if self.thousands is not None:
            check_choice("--thousands", self.thousands, tuple(THOUSANDS))
        if self.censored is not None:
            check_choice("--censored", self.censored, CENSORED)
        return ReadOptions(
            row_names=_decode(self.row_names),
            label=decode_arguments(self.label),
            ignore=decode_arguments(self.ignore),
            transpose=self.transpose,
            header=not self.no_header,
            encoding=self.encoding,
            separator=separator,
            decimal=decimal,
            thousands=THOUSANDS.get(self.thousands or "", ""),
            na=decode_arguments(self.na),
            censored=self.censored,
            skip_lines=_parse_lines(self.skip_lines),
            ignore_rows=decode_arguments(self.ignore_rows),
            as_variables=decode_arguments(self.as_variable),
            groups=_decode(self.groups),
            covariates=decode_arguments(self.covariates),
            response=_decode(response),
            sheet=_decode(self.sheet),
            labels=None if self.labels is None else str(self.labels),
        )

    def _refuse_unused(self, file: Path | None) -> None:
        """Raise an error for options that have no effect on the file's format."""
        defaults = TableOptions()
        given = [name for name in self._fields if getattr(self, name) != getattr(defaults, name)]
        if file is None and given:
            flag = to_flag(given[0])
            raise ParameterError(
                f"{flag} has no effect without a table: add --data or remove {flag}."
            )
        extension = "" if file is None else file_extension(file).lower().removesuffix(".gz")
        for name in given:
            extensions = _FORMATS.get(name)
            if extensions is not None and extension not in extensions:
                raise ParameterError(
                    f"{to_flag(name)} has no effect on {file}: it applies to files with the "
                    f"extensions {', '.join(extensions)}. Remove it."
                )


def _decode(argument: str | None) -> str | None:
    return None if argument is None else decode_argument(argument)


def _parse_lines(value: str | None) -> tuple[int, ...]:
    """Parse a list of line numbers such as "2,3"."""
    parts = [] if value is None else [part.strip() for part in value.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ParameterError(
            f"--skip-lines must be line numbers separated by commas, such as 2,3, got {value!r}."
        )
    return tuple(map(int, parts))


def decode_arguments(arguments: list[str] | None) -> tuple[str, ...]:
    """Decode the arguments of a repeated option."""
    return tuple(map(decode_argument, arguments or ()))


class PreparationOptions(NamedTuple):
    """Options for preparing a table."""

    log1p: Annotated[bool, _preprocessing("--log1p", help="Apply log(1 + x).")] = False
    missing: Annotated[
        str,
        _preprocessing(
            metavar="|".join(MISSING),
            help="Handling of missing values. drop: remove rows or columns, whichever loses "
            "fewer values; impute: by the model itself (fdrpca, panel, sca), or by predictions "
            "from principal components (other methods).",
        ),
    ] = "error"


class ModelOptions(NamedTuple):
    """Options for the method and the number of components."""

    method: Annotated[str, typer.Option()] = DEFAULT_METHOD  # option from `_group_parameters`
    components: Annotated[str, model_option(metavar="N|auto", help="Number of components.")] = (
        "auto"
    )
    scale: Annotated[
        bool,
        _preprocessing(
            "--scale",
            help="Scale columns to unit variance. Always done by "
            f"{' and '.join(name for name, method in offered().items() if method.standardizes)}.",
        ),
    ] = False


class IterationOptions(NamedTuple):
    """Options for iterative methods."""

    max_iter: Annotated[
        int | None, model_option(metavar="N", min=1, help="Maximum number of iterations.")
    ] = None
    tol: Annotated[
        float | None,
        model_option(
            metavar="NUMBER", help="Increase of the objective below which iterations stop."
        ),
    ] = None


class DiagnosticOptions(NamedTuple):
    """Options for diagnostics of the selection."""

    permutations: Annotated[
        int | None,
        output_option(
            metavar="N",
            min=0,
            help="Number of null datasets (random signs, or permuted columns or response), which "
            "show the selection expected without shared variance; 0 disables these and all other "
            "refits. Default: 10 if a fit is fast.",
        ),
    ] = None
    stability: Annotated[
        int,
        output_option(
            metavar="N",
            min=0,
            help="Number of random halves of the rows for stability selection; an even number such "
            "as 50.",
        ),
    ] = 0


Plots = Annotated[
    str | None,
    output_option(
        metavar=",".join(FORMATS), help="Also write all plots as files in these formats."
    ),
]


def parse_plots(value: str | None) -> tuple[str, ...]:
    """Parse a list of formats such as "svg,pdf"."""
    formats = () if value is None else tuple(part.strip().lower() for part in value.split(","))
    for name in formats:
        check_choice("--plots", name, FORMATS)
    if formats and importlib.util.find_spec("matplotlib") is None:
        raise ParameterError("--plots requires Matplotlib: pip install 'prosparse[plot]'.")
    return formats


class OutputOptions(NamedTuple):
    """Options for the printed output."""

    quiet: Annotated[bool, output_option("--quiet", "-q", help="Print only errors.")] = False
    as_json: Annotated[bool, output_option("--json", help="Print the results as JSON.")] = False


class MethodOptions(dict[str, object]):
    """Values of the options of the methods by name; None if not given."""


_GROUPS: tuple[Any, ...] = (
    TableOptions,
    PreparationOptions,
    ModelOptions,
    IterationOptions,
    DiagnosticOptions,
    OutputOptions,
)


def with_options(
    command: Callable[..., None], methods: Iterable[Method] = ()
) -> Callable[..., None]:
    """Expand groups of options to single parameters for typer.

    A parameter of type `MethodOptions` contains the options of the ``methods``.
    """
    single: list[inspect.Parameter] = []
    groups: dict[str, list[inspect.Parameter]] = {}
    types: dict[str, Any] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if parameter.annotation is MethodOptions:
            types[name], groups[name] = MethodOptions, method_parameters(methods)
        elif parameter.annotation in _GROUPS:
            types[name] = parameter.annotation
            groups[name] = _group_parameters(parameter.annotation)
        else:
            single.append(parameter)

    @functools.wraps(command)
    def flat(**given: Any) -> None:
        arguments = {parameter.name: given[parameter.name] for parameter in single}
        for name, parameters in groups.items():
            values = {parameter.name: given[parameter.name] for parameter in parameters}
            if types[name] is MethodOptions:
                dashed = {key.replace("_", "-"): value for key, value in values.items()}
                arguments[name] = MethodOptions(dashed)
            else:
                arguments[name] = types[name](**values)
        command(**arguments)

    parameters = [*(parameter for group in groups.values() for parameter in group), *single]
    parameters.sort(key=lambda parameter: parameter.default is not parameter.empty)
    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return flat


def _group_parameters(group: Any) -> list[inspect.Parameter]:
    types = get_type_hints(group, include_extras=True)
    parameters = []
    for name, parameter in inspect.signature(group).parameters.items():
        annotation = types[name]
        if group is ModelOptions and name == "method":  # methods may be registered later
            text = f"Method: {', '.join(offered())}."
            option = model_option(metavar="NAME", help=text)
            annotation = Annotated[str, option]
        parameters.append(parameter.replace(annotation=annotation))
    return parameters


def to_flag(name: str) -> str:
    """Return the command-line option of a parameter."""
    return f"--{name.replace('_', '-')}"


def method_parameters(methods: Iterable[Method]) -> list[inspect.Parameter]:
    """Return the options of the methods as parameters for typer.

    Several methods may have an option of the same name and type.
    """
    options: dict[str, dict[str, Option]] = {}
    for method in methods:
        for option in method.options or ():
            options.setdefault(option.name, {})[method.name] = option
    several = len({name for by_method in options.values() for name in by_method}) > 1
    reserved = {field for group in _GROUPS for field in group._fields}
    parameters = []
    for name, by_method in options.items():
        types = {(option.type, option.minimum) for option in by_method.values()}
        identifier = name.replace("-", "_")
        if len(types) > 1 or identifier in reserved:
            raise ValueError(
                f"the option --{name} of {', '.join(by_method)} is reserved or has several types: "
                "rename it"
            )
        ((value_type, minimum),) = types
        method_names: dict[str, list[str]] = {}
        for method_name, option in by_method.items():
            method_names.setdefault(option.help, []).append(method_name)
        text = " ".join(
            f"For {' and '.join(names)}: {description}."
            if several
            else f"{description[0].upper()}{description[1:]}."
            for description, names in method_names.items()
        )
        # Flags have explicit names, so that typer adds no negative form.
        flags = (f"--{name}",) if value_type is bool else ()
        parameters.append(
            inspect.Parameter(
                identifier,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=model_option(
                    None,
                    *flags,
                    min=minimum,
                    metavar={int: "N", float: "NUMBER", bool: None}.get(value_type, "VALUE"),
                    help=text,
                ),
                annotation=value_type | None,
            )
        )
    return parameters
