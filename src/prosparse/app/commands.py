"""``prosparse select``, ``panel``, ``regress``, ``fit`` and ``report``: a table in a file, a
question, an answer.

Exit codes: 0 all is well; 1 the file or the data cannot be used; 2 the command was misused; 130
it was interrupted.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from ..errors import InputError, ModelFileError, ParameterError, TableError, check_choice
from ..files import write_text
from ..findings import findings_of
from ..persistence import load_with_about, save
from ..registry import METHODS, offered
from ..report import render
from ..report.narrative import kept, percent, quoted, sharing_most
from ..report.page import doubts_of
from ..stability import PermutationNull, Stability, near_optimal_sizes
from ..tables import ReadOptions, Table, read_table
from ..tables.labels import read_labels
from .analysis import (
    MISSING,
    AnalysisOptions,
    Result,
    about_new_data,
    analyse,
    checked_about,
    prepared,
    remembered,
    scaled_as,
    scores_of_table,
)
from .cli_messages import in_words_of_the_command
from .flags import Command
from .options import (
    ANSWER,
    LOOKED_FOR,
    Answering,
    Choosing,
    Doubting,
    File,
    Iterating,
    OfMethods,
    Preparing,
    Reading,
    with_options,
)
from .output_paths import (
    MODEL,
    REPORT,
    check_file,
    check_folder,
    check_model,
    check_not_of_another,
    check_page,
    earlier_table,
    inputs_of,
    name_of,
    page_of,
    stem_of,
    table_of,
)
from .results import intercept_of, scores_in, whole_folder, write_results
from .terminal import as_typed, harmless, shows_everything

_FEW = 8  # variables to name on the terminal
Folder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", rich_help_panel=ANSWER, help="For the results; left out, FILE-prosparse."
    ),
]

_SELECT_EXAMPLES = """
Examples:

\b
  prosparse select genes.csv
  prosparse select genes.csv --min-communality 0.5 --label tumour
  prosparse select spectra.csv --fdr 0.01 --groups patient
  prosparse select counts.h5ad --counts --label cell_type --output cells
  prosparse select table.csv --method empca --variables 10 --components 2
  prosparse select survey.csv --missing impute --drop comment --json

Exit codes: 0 all is well; 1 the file or the data cannot be used; 2 the command was misused.
"""
_PANEL_EXAMPLES = """
Examples:

\b
  prosparse panel genes.csv --variables 50
  prosparse panel genes.csv --variables 50 --keep CD3E --keep CD19 --exclude MALAT1
  prosparse panel sensors.csv --recover 0.8 --costs prices.csv
"""
_REGRESS_EXAMPLES = """
Examples:

\b
  prosparse regress patients.csv --response survival
  prosparse regress patients.csv --response diagnosis
  prosparse regress genes.csv --transpose --labels samples.csv --response age
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
  prosparse report genes-prosparse
  prosparse report genes.prosparse
  prosparse report genes.prosparse --data genes.csv --label tumour --output tumours.html
"""


def select(
    file: File,
    choosing: Choosing,
    of_methods: OfMethods,
    iterating: Iterating,
    preparing: Preparing,
    reading: Reading,
    doubting: Doubting,
    answering: Answering,
    output: Folder = None,
) -> None:
    """Which variables of a table carry its structure, how many, and why: files and a report."""
    with told(choosing.method):
        check_choice("--method", choosing.method, tuple(offered()))
        wish = _wish(choosing, of_methods, iterating, preparing, answering)
        written = _to_folder(file, reading.ask(file), _doubted(wish, doubting), answering, output)
    _answer(*written, answering)


def panel(
    file: File,
    of_methods: OfMethods,
    preparing: Preparing,
    reading: Reading,
    doubting: Doubting,
    answering: Answering,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VARIABLE",
            rich_help_panel=LOOKED_FOR,
            help="It must be in the panel; may be repeated.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VARIABLE",
            rich_help_panel=LOOKED_FOR,
            help="It must not be in the panel; may be repeated.",
        ),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=LOOKED_FOR,
            help="What each variable costs: a file of names and numbers.",
        ),
    ] = None,
    output: Folder = None,
) -> None:
    """The few variables from which all others can be told: markers, sensors, questions."""
    with told("panel"):
        wish = _wish(Choosing(method="panel"), of_methods, Iterating(), preparing, answering)
        wish = wish._replace(
            variables={"keep": _names(keep), "exclude": _names(exclude)},
            costs={} if costs is None else _costs(costs),
        )
        written = _to_folder(
            file, reading.ask(file), _doubted(wish, doubting), answering, output, costs
        )
    _answer(*written, answering)


def regress(
    file: File,
    response: Annotated[
        str,
        typer.Option(
            metavar="COLUMN", rich_help_panel=LOOKED_FOR, help="The column that is to be predicted."
        ),
    ],
    iterating: Iterating,
    preparing: Preparing,
    reading: Reading,
    doubting: Doubting,
    answering: Answering,
    output: Folder = None,
) -> None:
    """The few variables that predict a column, and their coefficients.

    The column holds numbers, or two classes.
    """
    with told("spinyreg"):
        wish = _wish(Choosing(method="spinyreg"), OfMethods(), iterating, preparing, answering)
        written = _to_folder(
            file, reading.ask(file, response), _doubted(wish, doubting), answering, output
        )
    _answer(*written, answering)


def fit(
    file: File,
    choosing: Choosing,
    of_methods: OfMethods,
    iterating: Iterating,
    preparing: Preparing,
    reading: Reading,
    answering: Answering,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=ANSWER,
            help="The model's file; left out, FILE.prosparse.",
        ),
    ] = None,
) -> None:
    """Fit a model and save it, and nothing else."""
    path = output or Path(f"{stem_of(file)}.prosparse")
    with told(choosing.method):
        ask = reading.ask(file)
        check_file(path, inputs_of(ask, file))
        check_model(path)
        if output is None:
            check_not_of_another(path, path, file)
        check_choice("--method", choosing.method, tuple(offered()))
        wish = _wish(choosing, of_methods, iterating, preparing, answering)
        result = _analysed(file, ask, wish, answering)
        replaced = _replaces(path, result)
        save(result.model, path, about=result.about)
    _answer(result, path, replaced, answering)


def report(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="A folder that select wrote, or a model that fit wrote."
        ),
    ],
    reading: Reading,
    answering: Answering,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The table, or new rows of it, for the scores."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=ANSWER,
            help="The page; left out, that in the folder, or MODEL with .html for its ending.",
        ),
    ] = None,
) -> None:
    """Write the page of results again; a table is read as the model's own was, unless told."""
    folder = model if model.is_dir() else None
    source = model if folder is None else folder / MODEL
    path = output or (page_of(model) if folder is None else folder / REPORT)
    with told():
        now = reading.ask(data)
        check_file(path, inputs_of(now, source, data))
        if folder is not None and not source.is_file():
            raise ModelFileError(
                f"{folder}: this folder holds no {MODEL}: it is no folder of results"
            )
        fitted, rest = load_with_about(source)
        about = {"title": f"What {source.name} found"} | checked_about(rest["about"])
        about["versions"] = {str(k): str(v) for k, v in rest["versions"].items()}
        check_page(path, table_of(about))
        found = findings_of(fitted, about.get("total_variance"))
        scores = ids = label = None
        notes: list[str] = []
        if data is not None:
            ask, wish = remembered(about)
            names = tuple(found.names) if found.named else ()
            ask = _asked_again(ask, now)._replace(variables=names)
            about["label"] = ask.label
            table = scaled_as(prepared(_read(data, ask, answering), wish), about.get("scaled_by"))
            scores = scores_of_table(fitted, found, table)
            ids, label, notes = table.ids, table.label, table.notes
            about = about_new_data(about, table, name_of(model))
        elif folder is not None:
            scores, ids, label = scores_in(folder, found)
        page = render(found, scores=scores, ids=ids, label=label, about=about)
        write_text(path, page)
    if answering.as_json:
        said = {"output": str(path), "notes": notes, "warnings": about.get("warnings", [])}
        print(json.dumps(said, ensure_ascii=not shows_everything(sys.stdout)))
    elif not answering.quiet:
        Console().print(Text(f"wrote {harmless(str(path))}"), soft_wrap=True)


def demo(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where pictures and report go.")
    ] = Path("demo-output"),
) -> None:
    """Fit built-in data, say what was chosen, draw why, and write a report."""
    from . import demo as demonstration

    with told():
        demonstration.main([str(folder)])


def add_to(app: typer.Typer) -> None:
    """Register the commands, with the options of all methods that are registered by now."""
    every = list(offered().values())
    app.command(cls=Command, epilog=_SELECT_EXAMPLES)(with_options(select, every))
    one = [method for method in every if method.name == "panel"]
    app.command(cls=Command, epilog=_PANEL_EXAMPLES)(with_options(panel, one))
    app.command(cls=Command, epilog=_REGRESS_EXAMPLES)(with_options(regress))
    app.command(cls=Command, epilog=_FIT_EXAMPLES)(with_options(fit, every))
    app.command(cls=Command, epilog=_REPORT_EXAMPLES)(with_options(report))
    app.command(cls=Command)(demo)


# --- from words to wishes


def _wish(
    choosing: Choosing,
    of_methods: OfMethods,
    iterating: Iterating,
    preparing: Preparing,
    answering: Answering,
) -> AnalysisOptions:
    check_choice("--missing", preparing.missing, MISSING)
    given = choosing.components
    if given != "auto" and not (given.isdecimal() and int(given) > 0):
        raise ParameterError(f"--components must be a positive number or auto, got {given!r}")
    return AnalysisOptions(
        choosing.method,
        "auto" if given == "auto" else int(given),
        of_methods,
        choosing.scale,
        preparing.log1p,
        preparing.missing,
        int(sys.stderr.isatty() and not answering.quiet),
        iterating.max_iter,
        iterating.tol,
    )


def _doubted(wish: AnalysisOptions, doubting: Doubting) -> AnalysisOptions:
    return wish._replace(**doubting.checked()._asdict())


def _names(given: list[str] | None) -> tuple[str, ...]:
    return tuple(map(as_typed, given or ()))


def _costs(path: Path) -> dict[str, float]:
    """What each variable costs, by name: the first two columns of a file."""
    names, values = list(read_labels(path).columns.items())[:2]
    costs: dict[str, float] = {}
    for name, value in zip(names[1], values[1], strict=True):
        if name in costs:
            raise TableError(
                f"{path}, column {names[0]!r}: {name!r} occurs more than once: give one cost for "
                "each variable"
            )
        try:
            costs[name] = float(value)
        except ValueError:
            raise TableError(
                f"{path}, column {values[0]!r}: {value!r}, the cost of {name!r}, is not a number"
            ) from None
    return costs


def _asked_again(ask: ReadOptions, now: ReadOptions) -> ReadOptions:
    """How a table is read: as before, but for what is said now."""
    left_out = ReadOptions()
    if ask.labels is not None:  # they were those of other rows
        ask = ask.without_aside()._replace(labels=None)
    ask = ask._replace(response=None)
    said = {k: v for k, v in now._asdict().items() if v != getattr(left_out, k)}
    return ask._replace(**said)


def _command_line() -> str:
    return shlex.join(["prosparse", *sys.argv[1:]])


def _read(file: Path, ask: ReadOptions, answering: Answering) -> Table:
    if answering.quiet or not sys.stderr.isatty():
        return read_table(file, ask)
    columns = (SpinnerColumn("line"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading")

        def rows(done: int) -> None:
            bar.update(task, description=f"reading, {done:,} rows")

        return read_table(file, ask._replace(progress=rows))


def _analysed(file: Path, ask: ReadOptions, wish: AnalysisOptions, answering: Answering) -> Result:
    table = _read(file, ask, answering)
    if wish.verbose:
        n, p = table.X.shape
        words = f"fitting {n:,} rows of {p:,} variables"
        Console(stderr=True).print(Text(words, style="dim"))
    return analyse(table, ask, wish, _command_line())


def _to_folder(
    file: Path,
    ask: ReadOptions,
    wish: AnalysisOptions,
    answering: Answering,
    output: Path | None,
    costs: Path | None = None,
) -> tuple[Result, Path, str | None]:
    """From a table to a folder of results: what was found, where it is, and the table whose
    results were replaced."""
    folder = output or Path(f"{stem_of(file)}-prosparse")
    check_folder(folder, inputs_of(ask, file, costs))
    if output is None:
        check_not_of_another(folder, folder / MODEL, file)
    result = _analysed(file, ask, wish, answering)
    replaced = _replaces(folder / MODEL, result)
    with whole_folder(folder) as partial:
        write_results(result, partial)
    return result, folder, replaced


@contextmanager
def told(method: str | None = None) -> Iterator[None]:
    """Our own errors, a full disk and Ctrl-C as one line and an exit code; parameters of the method
    under the names of the options that set them."""
    known = next((one for one in METHODS.values() if one.name == method), None)

    def said(error: Exception) -> str:
        return in_words_of_the_command(str(error), known or next(iter(METHODS.values())))

    try:
        yield
    except ParameterError as error:
        _stop(said(error), 2)
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


def _answer(result: Result, output: Path, replaced: str | None, answering: Answering) -> None:
    if answering.as_json:
        answer = summary(result, output) | {"replaced": replaced}
        print(json.dumps(answer, ensure_ascii=not shows_everything(sys.stdout)))
    elif not answering.quiet:
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
        **_strength(result),
        "notes": about["notes"],
        "warnings": about["warnings"],
        "seconds": about["seconds"],
        "output": str(output),
    }


def _strength(result: Result) -> dict[str, Any]:
    """How much the chosen variables hold, as plain JSON."""
    found = result.found
    if not found.regression:
        return {
            "n_components": int(found.loadings.shape[0]),
            "variance_retained": found.retained,
        }
    return {
        "response": result.about["data"]["response"],
        "coefficients": {found.names[k]: float(found.loadings[0, k]) for k in found.chosen},
        "intercept": intercept_of(result.model),
        **{name: result.about[name] for name in ("r2", "accuracy") if name in result.about},
        **_classes(result),
    }


def _classes(result: Result) -> dict[str, Any]:
    """The two classes of a classifier, the one that coefficients speak for last."""
    classes = getattr(result.model, "classes_", None)
    return {} if classes is None else {"classes": classes.tolist()}


def show(result: Result, output: Path, replaced: str | None = None) -> None:
    """The answer as a short table."""
    console, found, about = Console(), result.found, result.about
    n, p = result.table.X.shape
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")  # a long path is of no use with an ellipsis in it
    if found.regression:
        lead = "coefficients"
        first = [f"{quoted(found.names[k])} ({found.loadings[0, k]:.3g})" for k in found.chosen]
        first = first[:_FEW]
    elif found.shared is None:
        lead, first = "most relevant", [quoted(found.names[k]) for k in found.chosen[:_FEW]]
    else:
        lead, first = "share most", sharing_most(found, found.shared, _FEW)
    doubts = doubts_of(found, about)
    more = f", … ({found.n_selected - _FEW:,} more)" if found.n_selected > _FEW else ""
    for key, value in (
        ("table", f"{result.table.path.name}, {n:,} rows, {p:,} variables"),
        *(("", note) for note in about["notes"]),
        ("method", _method_words(result)),
        ("variables kept", kept(found, doubts.chance)),
        ("why that many", found.why),
        *(("as good", near_optimal_sizes(found).summary()) for _ in range(found.by_evidence)),
        *(("by chance", one) for one in _in_short(doubts.chance)),
        *(("on half the rows", one) for one in _in_short(doubts.stability)),
        _strength_words(result),
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


def _method_words(result: Result) -> str:
    found = result.found
    if found.regression:
        return f"{found.method}, which predicts {result.about['data']['response']}"
    return f"{found.method}, {found.loadings.shape[0]} component(s)"


def _strength_words(result: Result) -> tuple[str, str]:
    if "accuracy" in result.about:
        return "classes told", f"of {percent(result.about['accuracy'])} of these rows"
    if result.found.regression:
        return "variance explained", f"{percent(result.about['r2'])} of the response, in these rows"
    return "variance retained", percent(result.found.retained)


def _in_short(looked: PermutationNull | Stability | None) -> list[str]:
    """What was looked at says, in one entry of the short table, if it was."""
    return [] if looked is None else [" ".join(looked.summary())]
