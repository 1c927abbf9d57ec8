"""``prosparse select``, ``fit`` and ``report``: a table in a file, a question, an answer.

Exit codes: 0 all is well; 1 the file or the data cannot be used; 2 the command was misused; 130
it was interrupted.
"""

from __future__ import annotations

import functools
import inspect
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from ..errors import InputError, ModelFileError, ParameterError, check_choice
from ..files import write_text
from ..findings import findings_of
from ..persistence import load_with_about, save
from ..registry import Option, offered
from ..report import render
from ..report.page import doubts_of
from ..report.words import kept, percent, quoted, sharing_most
from ..stability import Chance, Stability, equally_good
from ..tables import Ask, Table, read_table
from .analysis import (
    DEFAULT,
    MISSING,
    Result,
    Wish,
    analyse,
    checked_about,
    prepared,
    remembered,
    scaled_as,
    scores_of_table,
)
from .places import (
    MODEL,
    REPORT,
    check_file,
    check_folder,
    check_not_of_another,
    check_page,
    earlier_table,
    page_of,
    stem_of,
)
from .results import whole_folder, write_results
from .terminal import as_typed, harmless, shows_everything

_FEW = 8  # variables to name on the terminal
_DATA = "The table: CSV, TSV, Parquet, Arrow, NPZ, NPY, MTX or H5AD."
File = Annotated[Path, typer.Argument(metavar="FILE", help=_DATA)]
Components = Annotated[str, typer.Option(help="How many components: a number, or auto.")]
IdColumn = Annotated[str | None, typer.Option(help="The column with the names of the rows.")]
Drop = Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.")]
Keep = Annotated[
    list[str] | None,
    typer.Option(help="A column that is a variable, though it looks like numbers of rows."),
]
Scale = Annotated[
    bool,
    typer.Option(
        "--scale",
        help="Columns to unit variance first, for methods that do not do so anyway, as "
        f"{' and '.join(one.name for one in offered().values() if one.scales)} do.",
    ),
]
Transpose = Annotated[bool, typer.Option("--transpose", help="Variables are in rows.")]
Log1p = Annotated[bool, typer.Option("--log1p", help="Take log(1 + x) first, as for counts.")]
Missing = Annotated[
    str,
    typer.Option(
        help=f"What to do about missing values: {', '.join(MISSING)}. drop: columns more than "
        "half empty, then rows; impute: fill in by SCA, large tables by principal components."
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        help="A column that says which rows belong together (patients, donors, batches). For "
        f"{' and '.join(one.name for one in offered().values() if one.takes_groups)}."
    ),
]
Label = Annotated[str | None, typer.Option(help="A column that colours the scores.")]
Shuffles = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Tables with every column shuffled on its own, to see what chance would choose; 0 for "
        "none. Left out: 5, where a fit takes no more than a few seconds.",
    ),
]
Halves = Annotated[
    int,
    typer.Option(
        "--stability",
        min=0,
        metavar="N",
        help="Fit N halves of the rows, an even number such as 50, and say how often each variable "
        "is chosen.",
    ),
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line is data.")]
Encoding = Annotated[str | None, typer.Option(help="Of a text file, if not UTF-8.")]
Separator = Annotated[str | None, typer.Option(help="Of the columns of a text file.")]
Decimal = Annotated[
    str | None, typer.Option(help="What begins decimals in a text file: point or comma.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]

_SELECT_EXAMPLES = """
Examples:

\b
  prosparse select genes.csv
  prosparse select genes.csv --min-communality 0.5 --label tumour
  prosparse select spectra.csv --fdr 0.01 --groups patient
  prosparse select counts.h5ad --log1p --label cell_type --output cells
  prosparse select table.csv --method empca --variables 10 --components 2
  prosparse select survey.csv --missing impute --drop comment --json

Exit codes: 0 all is well; 1 the file or the data cannot be used; 2 the command was misused.
"""
_FIT_EXAMPLES = """
Examples:

\b
  prosparse fit genes.csv --output genes.prosparse
  python -c "import prosparse; print(prosparse.load('genes.prosparse').support_)"
"""
_REPORT_EXAMPLES = """
Examples:

\b
  prosparse report genes.prosparse
  prosparse report genes.prosparse --data genes.csv --label tumour --output tumours.html
"""


class Options(NamedTuple):
    """What ``select`` and ``fit`` have in common; the fields are the options of the command."""

    file: File
    components: Components = "auto"
    method: str = DEFAULT
    methods: dict[str, object] = {}  # noqa: RUF012 the options of the methods, by name
    id_column: IdColumn = None
    drop: Drop = None
    keep: Keep = None
    groups: Groups = None
    scale: Scale = False
    transpose: Transpose = False
    log1p: Log1p = False
    missing: Missing = "error"
    no_header: NoHeader = False
    encoding: Encoding = None
    separator: Separator = None
    decimal: Decimal = None
    quiet: Quiet = False
    as_json: AsJson = False


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """``command(options, more)`` as a function of all the options, as typer wants it."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    types = get_type_hints(Options, include_extras=True)
    of_methods = method_options()
    parameters: list[inspect.Parameter] = []
    for name, one in inspect.signature(Options, eval_str=True).parameters.items():
        if name == "method":
            choices = typer.Option(help=f"One of {', '.join(offered())}.")
            parameters.append(one.replace(annotation=Annotated[str, choices]))
        elif name == "methods":
            parameters.extend(of_methods)
        else:
            parameters.append(one.replace(annotation=types[name]))
    parameters = sorted([*parameters, *own], key=lambda one: one.default is not one.empty)

    @functools.wraps(command)
    def flat(**given: Any) -> None:
        methods = {typed(one.name): given.pop(one.name) for one in of_methods}
        shared = {name: given.pop(name) for name in Options._fields if name != "methods"}
        command(Options(**shared, methods=methods), **given)

    flat.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return flat


def variable(option: str) -> str:
    """The name of an option as that of a variable, which has no dashes."""
    return option.replace("-", "_")


def typed(name: str) -> str:
    """The name of a variable as that of an option, which is typed with dashes."""
    return name.replace("_", "-")


def method_options() -> list[inspect.Parameter]:
    """The options of all methods, as typer wants them; methods may share one."""
    asked: dict[str, dict[str, Option]] = {}
    for method in offered().values():
        for option in method.options or ():
            asked.setdefault(option.name, {})[method.name] = option
    parameters = []
    for name, by_method in asked.items():
        kinds = {(option.kind, option.least) for option in by_method.values()}
        if len(kinds) > 1 or variable(name) in Options._fields:
            raise ValueError(
                f"the option --{name} of {', '.join(by_method)} is taken, or not of one kind for "
                "all of them: give it another name"
            )
        ((kind, least),) = kinds
        words = " ".join(f"For {method}: {one.help}." for method, one in by_method.items())
        parameters.append(
            inspect.Parameter(
                variable(name),
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=typer.Option(None, min=least, help=words),
                annotation=kind | None,
            )
        )
    return parameters


def select(
    options: Options,
    label: Label = None,
    shuffles: Shuffles = None,
    stability: Halves = 0,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the results; left out, FILE-prosparse.")
    ] = None,
) -> None:
    """Which variables of a table carry its structure, how many, and why: files and a report."""
    folder = output or Path(f"{stem_of(options.file)}-prosparse")
    with told():
        check_folder(folder, [options.file])
        if output is None:
            check_not_of_another(folder, folder / MODEL, options.file)
        result = _analysed(options, label, shuffles, stability)
        replaced = _replaces(folder / MODEL, result)
        with whole_folder(folder) as partial:
            write_results(result, partial)
    _answer(result, folder, replaced, options)


def fit(
    options: Options,
    output: Annotated[
        Path | None, typer.Option(help="The model's file; left out, FILE.prosparse.")
    ] = None,
) -> None:
    """Fit a model and save it, and nothing else."""
    path = output or Path(f"{stem_of(options.file)}.prosparse")
    with told():
        check_file(path, [options.file])
        if output is None:
            check_not_of_another(path, path, options.file)
        result = _analysed(options, None, shuffles=0)
        replaced = _replaces(path, result)
        save(result.model, path, about=result.about)
    _answer(result, path, replaced, options)


def report(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What fit or select wrote.")],
    data: Annotated[
        Path | None, typer.Option(help="The table, or new rows of it, for the scores.")
    ] = None,
    label: Label = None,
    output: Annotated[
        Path | None, typer.Option(help="The page; left out, MODEL with .html for its ending.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write the report of a saved model; a table is read as that of the model was."""
    path = output or page_of(model)
    with told():
        check_file(path, [model] if data is None else [model, data])
        if output is None:
            check_page(path)
        fitted, rest = load_with_about(model)
        about = {"title": f"What {model.name} found"} | checked_about(rest["about"])
        about["versions"] = {str(k): str(v) for k, v in rest["versions"].items()}
        found = findings_of(fitted, about.get("total_variance"))
        scores = table = None
        if data is not None:
            ask, wish = remembered(about)
            names = found.names if found.named else ()
            wanted = as_typed(label) if label else ask.label
            ask = ask._replace(label=wanted, variables=tuple(names))
            about["label"] = ask.label
            table = scaled_as(prepared(_read(data, ask, quiet), wish), about.get("scaled_by"))
            scores = scores_of_table(fitted, found, table)
        page = render(
            found,
            scores=scores,
            ids=table.ids if table else None,
            label=table.label if table else None,
            about=about,
        )
        write_text(path, page)
    if not quiet:
        Console().print(Text(f"wrote {harmless(str(path))}"), soft_wrap=True)


def add_to(app: typer.Typer) -> None:
    """Register the commands, with the options of all methods that are registered by now."""
    app.command(epilog=_SELECT_EXAMPLES)(takes_options(select))
    app.command(epilog=_FIT_EXAMPLES)(takes_options(fit))
    app.command(epilog=_REPORT_EXAMPLES)(report)


# --- from words to wishes


def _ask(options: Options, label: str | None) -> Ask:
    separator = options.separator
    if separator is not None:
        separator = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}.get(
            separator, separator
        )
        if len(separator) != 1:
            raise ParameterError(f"--separator must be one character, or tab, got {separator!r}")
    decimal = options.decimal
    if decimal is not None:
        check_choice("--decimal", decimal, ("point", "comma", ".", ","))
        decimal = {"point": ".", "comma": ","}.get(decimal, decimal)
    return Ask(
        id_column=None if options.id_column is None else as_typed(options.id_column),
        label=None if label is None else as_typed(label),
        drop=tuple(map(as_typed, options.drop or ())),
        transpose=options.transpose,
        header=not options.no_header,
        encoding=options.encoding,
        separator=separator,
        decimal=decimal,
        keep=tuple(map(as_typed, options.keep or ())),
        groups=None if options.groups is None else as_typed(options.groups),
    )


def _wish(options: Options) -> Wish:
    check_choice("--method", options.method, tuple(offered()))
    check_choice("--missing", options.missing, MISSING)
    given = options.components
    if given != "auto" and not (given.isdecimal() and int(given) > 0):
        raise ParameterError(f"--components must be a positive number or auto, got {given!r}")
    return Wish(
        options.method,
        "auto" if given == "auto" else int(given),
        options.methods,
        options.scale,
        options.log1p,
        options.missing,
        int(sys.stderr.isatty() and not options.quiet),
    )


def _command_line() -> str:
    return shlex.join(["prosparse", *sys.argv[1:]])


def _read(file: Path, ask: Ask, quiet: bool) -> Table:
    if quiet or not sys.stderr.isatty():
        return read_table(file, ask)
    columns = (SpinnerColumn("line"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading")

        def rows(done: int) -> None:
            bar.update(task, description=f"reading, {done:,} rows")

        return read_table(file, ask._replace(progress=rows))


def _analysed(
    options: Options, label: str | None, shuffles: int | None = None, stability: int = 0
) -> Result:
    if stability % 2:
        raise ParameterError(
            f"--stability must be even, as halves of the rows come in pairs, got {stability}"
        )
    wish = _wish(options)._replace(shuffles=shuffles, stability=stability)
    ask = _ask(options, label)
    table = _read(options.file, ask, options.quiet)
    if wish.verbose:
        n, p = table.X.shape
        words = f"fitting {n:,} rows of {p:,} variables"
        Console(stderr=True).print(Text(words, style="dim"))
    return analyse(table, ask, wish, _command_line())


@contextmanager
def told() -> Iterator[None]:
    """Our own errors, a full disk and Ctrl-C as one line and an exit code."""
    try:
        yield
    except ParameterError as error:
        _stop(str(error), 2)
    except (InputError, ModelFileError) as error:
        _stop(str(error), 1)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _stop(f"{place}{error.strerror or error}; nothing was written", 1)
    except KeyboardInterrupt:
        _stop("interrupted; earlier results are as they were", 130)
    except MemoryError:
        _stop("there is not enough memory for this table", 1)


def _stop(message: str, code: int) -> None:
    line = " ".join(message.split())
    Console(stderr=True).print(Text(f"prosparse: {harmless(line)}"), soft_wrap=True)
    raise typer.Exit(code)


# --- the answer


def _replaces(model: Path, result: Result) -> str | None:
    """The name of another table, or of an earlier state of this one, whose results were there."""
    earlier = earlier_table(model)
    same = earlier is None or earlier.digest == result.about["file"]["SHA-256"]
    return None if earlier is None or same else earlier.file


def _answer(result: Result, output: Path, replaced: str | None, options: Options) -> None:
    if options.as_json:
        answer = summary(result, output) | {"replaced": replaced}
        print(json.dumps(answer, ensure_ascii=not shows_everything(sys.stdout)))
    elif not options.quiet:
        show(result, output, replaced)


def summary(result: Result, output: Path) -> dict[str, Any]:
    """The answer as plain JSON."""
    found, about = result.found, result.about
    doubts = doubts_of(found, about)
    return {
        "file": str(result.table.path),
        "method": found.method,
        "rows": result.table.X.shape[0],
        "variables": result.table.X.shape[1],
        "n_selected": found.n_selected,
        "selected": [found.names[k] for k in found.chosen],
        "why": found.why,
        "communality": (
            None
            if found.shared is None
            else [float(found.shared.communality[k]) for k in found.chosen]
        ),
        "n_selected_by_chance": None if doubts.chance is None else doubts.chance.expected,
        "frequency_on_halves": (
            None
            if doubts.stability is None
            else [float(doubts.stability.frequency[k]) for k in found.chosen]
        ),
        "n_components": int(found.loadings.shape[0]),
        "variance_retained": found.retained,
        "notes": about["notes"],
        "warnings": about["warnings"],
        "seconds": about["seconds"],
        "output": str(output),
    }


def show(result: Result, output: Path, replaced: str | None = None) -> None:
    """The answer as a short table."""
    console, found, about = Console(), result.found, result.about
    n, p = result.table.X.shape
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")  # a long path is of no use with an ellipsis in it
    if found.shared is None:
        lead, first = "most relevant", [quoted(found.names[k]) for k in found.chosen[:_FEW]]
    else:
        lead, first = "share most", sharing_most(found, found.shared, _FEW)
    doubts = doubts_of(found, about)
    more = f", … ({found.n_selected - _FEW:,} more)" if found.n_selected > _FEW else ""
    for key, value in (
        ("table", f"{result.table.path.name}, {n:,} rows, {p:,} variables"),
        *(("", note) for note in about["notes"]),
        ("method", f"{found.method}, {found.loadings.shape[0]} component(s)"),
        ("variables kept", kept(found, doubts.chance)),
        ("why that many", found.why),
        *(("as good", equally_good(found).words()) for _ in range(found.by_evidence)),
        *(("by chance", one) for one in _first(doubts.chance)),
        *(("on half the rows", one) for one in _first(doubts.stability)),
        ("variance retained", percent(found.retained)),
        *([(lead, ", ".join(first) + more)] * bool(first)),
        ("results", str(output / REPORT if output.is_dir() else output)),
        *([("", f"earlier results were replaced, of {replaced} with other data")] * bool(replaced)),
    ):
        grid.add_row(Text(key, style="bold"), Text(harmless(value)))
    console.print(grid)
    for warning in about["warnings"]:
        Console(stderr=True).print(
            Text(f"warning: {harmless(warning)}", style="yellow"), soft_wrap=True
        )


def _first(looked: Chance | Stability | None) -> list[str]:
    """What was looked at says, in one entry of the short table, if it was."""
    return [] if looked is None else [" ".join(looked.words())]
