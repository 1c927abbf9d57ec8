"""Commands of ``prosparse``, except for ``serve``.

Exit codes: 0 success; 1 the file or the data cannot be used; 2 invalid usage; 130 interrupted.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from ..checks import Severity, correct_file
from ..errors import InputError, ModelFileError, ParameterError, TableError, check_choice
from ..files import write_text
from ..findings import findings_of
from ..inference.progress import announce, observe
from ..persistence import load_with_about, save
from ..registry import METHODS, offered
from ..report import render
from ..tables import ReadOptions, Table, prepare_table, read_table
from ..tables.labels import read_labels
from ..tables.roles_file import ANALYSIS, format_options, merge_options, write_roles
from .analysis import Result, compute_scores, run, scale_columns
from .application import apply_model
from .check_output import advise, print_check, summarize_check
from .cli import Command
from .cli_messages import translate_parameters
from .estimators import MISSING, AnalysisOptions
from .metadata import (
    count_training_rows,
    describe_new_data,
    load_preparation,
    load_read_options,
    validate_about,
)
from .options import (
    DiagnosticOptions,
    File,
    IterationOptions,
    MethodOptions,
    ModelOptions,
    OutputOptions,
    Plots,
    PreparationOptions,
    TableOptions,
    decode_arguments,
    model_option,
    output_option,
    parse_plots,
    with_options,
)
from .output_paths import (
    MODEL,
    check_model_path,
    check_output_file,
    check_report_path,
    check_results_folder,
    check_roles_path,
    check_same_table,
    default_report_path,
    file_stem,
    input_files,
    model_name,
    read_fitted_table,
)
from .results import plot_model, read_scores, replace_folder, write_application, write_results
from .summary import print_application, print_summary, summarize, summarize_application
from .terminal import escape_control, supports_unicode

Folder = Annotated[
    Path | None,
    output_option(metavar="FOLDER", help="Folder for the results. Default: FILE-prosparse."),
]

_CHECK_EXAMPLES = """
Examples:

\b
  prosparse check patients.xlsx
  prosparse check patients.xlsx --write roles.toml
  prosparse select patients.xlsx --roles roles.toml

Exit codes: 0 the table can be analysed; 1 a problem prevents it; 2 invalid usage.
"""
_SELECT_EXAMPLES = """
Examples:

\b
  prosparse select genes.csv
  prosparse select genes.csv --min-communality 0.5 --label tumour
  prosparse select spectra.csv --fdr 0.01 --groups patient
  prosparse select counts.h5ad --counts --label cell_type --output cells
  prosparse select table.csv --method empca --variables 10 --components 2
  prosparse select survey.csv --missing impute --ignore comment --json

Exit codes: 0 success; 1 the file or the data cannot be used; 2 invalid usage.
"""
_PANEL_EXAMPLES = """
Examples:

\b
  prosparse panel genes.csv --variables 50
  prosparse panel genes.csv --variables 50 --include CD3E --include CD19 --exclude MALAT1
  prosparse panel sensors.csv --target-recovery 0.8 --costs prices.csv
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
_APPLY_EXAMPLES = """
Examples:

\b
  prosparse apply genes-prosparse new_patients.csv
  prosparse apply genes.prosparse new_patients.csv --output new_scores
"""
_REPORT_EXAMPLES = """
Examples:

\b
  prosparse report genes-prosparse
  prosparse report genes.prosparse
  prosparse report genes.prosparse --data genes.csv --label tumour --output tumours.html
"""


def check(
    file: File,
    table_options: TableOptions,
    output_options: OutputOptions,
    write: Annotated[
        Path | None,
        output_option(
            metavar="FILE",
            help="Write the roles of the columns and the fixes to this file, for --roles.",
        ),
    ] = None,
) -> None:
    """Check a table before it is analysed."""
    with errors_to_exit_code():
        read_options = table_options.read_options(file)
        if write is not None:
            check_output_file(write, input_files(read_options, file))
            check_roles_path(write)
        result = correct_file(file, read_options)
        analysis = {**table_options.analysis_settings(), **result.analysis}
        if write is not None:
            write_roles(write, result.options, analysis)
    if output_options.as_json:
        _print_json(summarize_check(file, result))
    elif not output_options.quiet:
        fix = format_options(result.options, analysis) if result.fix else ""
        print_check(file, result, fix, write)
    if result.check.select(Severity.STOP):
        raise typer.Exit(1)


def select(
    file: File,
    model_options: ModelOptions,
    method_options: MethodOptions,
    iteration_options: IterationOptions,
    preparation_options: PreparationOptions,
    table_options: TableOptions,
    diagnostic_options: DiagnosticOptions,
    output_options: OutputOptions,
    table: Annotated[
        list[Path] | None,
        model_option(
            metavar="FILE",
            help="Further table of the same rows, for sca. Can be repeated. Rows are matched by "
            "name, and the fixes of the check are applied.",
        ),
    ] = None,
    plots: Plots = None,
    output: Folder = None,
) -> None:
    """Select the variables that share variance, and write a report."""
    with errors_to_exit_code(model_options.method):
        check_choice("--method", model_options.method, tuple(offered()))
        options = _analysis_options(
            (model_options, iteration_options, preparation_options, diagnostic_options),
            method_options,
            **table_options.analysis_settings(),
            tables=tuple(table or ()),
        )
        written = _write_analysis(
            file, table_options.read_options(file), options, output_options, output, plots
        )
    _print_result(*written, output_options)


def panel(
    file: File,
    method_options: MethodOptions,
    preparation_options: PreparationOptions,
    table_options: TableOptions,
    diagnostic_options: DiagnosticOptions,
    output_options: OutputOptions,
    include: Annotated[
        list[str] | None,
        model_option(
            metavar="VARIABLE", help="Variable that the panel must contain. Can be repeated."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        model_option(
            metavar="VARIABLE", help="Variable that the panel must not contain. Can be repeated."
        ),
    ] = None,
    costs: Annotated[
        Path | None,
        model_option(
            metavar="FILE",
            help="File with the names and the costs of the variables in two columns.",
        ),
    ] = None,
    plots: Plots = None,
    output: Folder = None,
) -> None:
    """Select a few variables that predict all others."""
    with errors_to_exit_code("panel"):
        options = _analysis_options(
            (ModelOptions("panel"), preparation_options, diagnostic_options),
            method_options,
            **table_options.analysis_settings(),
            include=decode_arguments(include),
            exclude=decode_arguments(exclude),
            costs={} if costs is None else _read_costs(costs),
        )
        written = _write_analysis(
            file,
            table_options.read_options(file),
            options,
            output_options,
            output,
            plots,
            costs,
        )
    _print_result(*written, output_options)


def regress(
    file: File,
    response: Annotated[
        str,
        model_option(metavar="COLUMN", help="Column with the response: numbers, or two classes."),
    ],
    iteration_options: IterationOptions,
    preparation_options: PreparationOptions,
    table_options: TableOptions,
    diagnostic_options: DiagnosticOptions,
    output_options: OutputOptions,
    plots: Plots = None,
    output: Folder = None,
) -> None:
    """Select the variables that predict a response.

    The response is numeric, or has two classes.
    """
    with errors_to_exit_code("spinyreg"):
        options = _analysis_options(
            (
                ModelOptions("spinyreg"),
                iteration_options,
                preparation_options,
                diagnostic_options,
            ),
            {},
            **table_options.analysis_settings(),
        )
        written = _write_analysis(
            file, table_options.read_options(file, response), options, output_options, output, plots
        )
    _print_result(*written, output_options)


def fit(
    file: File,
    model_options: ModelOptions,
    method_options: MethodOptions,
    iteration_options: IterationOptions,
    preparation_options: PreparationOptions,
    table_options: TableOptions,
    output_options: OutputOptions,
    output: Annotated[
        Path | None, output_option(metavar="FILE", help="Model file. Default: FILE.prosparse.")
    ] = None,
) -> None:
    """Fit a model and save it to a file."""
    path = output or Path(f"{file_stem(file)}.prosparse")
    with errors_to_exit_code(model_options.method):
        read_options = table_options.read_options(file)
        check_output_file(path, input_files(read_options, file))
        check_model_path(path)
        if output is None:
            check_same_table(path, path, file)
        check_choice("--method", model_options.method, tuple(offered()))
        options = _analysis_options(
            (model_options, iteration_options, preparation_options),
            method_options,
            **table_options.analysis_settings(),
        )
        result = _analyse_file(file, read_options, options, output_options)
        replaced = _find_replaced(path, result)
        save(result.model, path, about=result.about)
    _print_result(result, path, replaced, output_options)


def report(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Folder of results, or a model file of fit.")
    ],
    table_options: TableOptions,
    output_options: OutputOptions,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Table whose scores the report shows. It is read with the options of the model, "
            "which options on the command line override.",
        ),
    ] = None,
    plots: Plots = None,
    output: Annotated[
        Path | None,
        output_option(
            metavar="FILE",
            help="Report. Default: report.html in the folder, MODEL.html, or, with --data, "
            "DATA-report.html.",
        ),
    ] = None,
) -> None:
    """Write the report of a saved model."""
    folder = model if model.is_dir() else None
    source = model if folder is None else folder / MODEL
    path = output or default_report_path(model, data)
    with errors_to_exit_code():
        formats = parse_plots(plots)
        given_options = table_options.read_options(data)
        check_output_file(path, input_files(given_options, source, data))
        check_report_path(path)
        if folder is not None and not source.is_file():
            raise ModelFileError(f"{folder}: the folder contains no {MODEL}.")
        fitted, stored = load_with_about(source)
        about = {"title": f"Model {source.name}"} | validate_about(stored["about"])
        about["versions"] = {str(name): str(value) for name, value in stored["versions"].items()}
        found = findings_of(fitted, about.get("total_variance"))
        scores = ids = label = None
        notes: Sequence[str] = ()
        if data is not None:
            read_options = _merge_options(load_read_options(about), given_options)
            read_options = read_options._replace(
                variables=tuple(found.names) if found.named else ()
            )
            about["label"] = next(iter(read_options.label_names), None)
            table = _read_table(data, read_options, output_options)
            table = prepare_table(table, **load_preparation(about))
            table = scale_columns(table, about.get("column_scales"))
            scores = compute_scores(fitted, found, table)
            ids, label, notes = table.ids, table.label, table.notes
            about = describe_new_data(about, table, model_name(model))
        elif folder is not None:
            scores, ids, label = read_scores(folder, found)
        write_text(path, render(found, scores=scores, ids=ids, label=label, about=about))
        if formats:
            plot_model(fitted, path.parent, formats, scores, ids, label, about)
    if output_options.as_json:
        _print_json({"output": str(path), "notes": notes, "warnings": about.get("warnings", [])})
    elif not output_options.quiet:
        Console().print(Text(f"wrote {escape_control(str(path))}"), soft_wrap=True)


def apply(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Folder of results, or a model file of fit.")
    ],
    file: File,
    table_options: TableOptions,
    output_options: OutputOptions,
    plots: Plots = None,
    output: Annotated[
        Path | None,
        output_option(metavar="FOLDER", help="Folder for the results. Default: FILE-applied."),
    ] = None,
) -> None:
    """Apply a saved model to new rows: scores, predictions and drift.

    The table is read like that of the model, except for options that are given. Columns may have
    another order, and columns that the model does not use may be absent.
    """
    folder = output or Path(f"{file_stem(file)}-applied")
    source = model / MODEL if model.is_dir() else model
    with errors_to_exit_code():
        formats = parse_plots(plots)
        given_options = table_options.read_options(file)
        check_results_folder(folder, input_files(given_options, source, file))
        if model.is_dir() and not source.is_file():
            raise ModelFileError(f"{model}: the folder contains no {MODEL}.")
        fitted, stored = load_with_about(source)
        about = {"title": f"Model {source.name}"} | validate_about(stored["about"])
        about["versions"] = {str(name): str(value) for name, value in stored["versions"].items()}
        found = findings_of(fitted, about.get("total_variance"))
        read_options = _merge_options(load_read_options(about), given_options)
        with _show_stage(output_options):
            announce("applying the model")
            applied = apply_model(
                fitted,
                found,
                file,
                read_options,
                load_preparation(about),
                about.get("column_scales"),
                count_training_rows(about),
            )
        about = describe_new_data(about, applied.table, model_name(model))
        about["title"] = f"Model {model_name(model)} applied to {file.name}"
        about["notes"] = applied.notes
        about["warnings"] = applied.warnings
        for diagnostic in ("robustness", "check"):
            about.pop(diagnostic, None)
        with replace_folder(folder) as partial:
            write_application(applied, fitted, found, partial, source, about, formats)
    if output_options.as_json:
        _print_json(summarize_application(applied, file, model, folder))
    elif not output_options.quiet:
        print_application(applied, file, model, folder)


def demo(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder for plots and report.")
    ] = Path("demo-output"),
) -> None:
    """Analyse built-in data, and write plots and a report."""
    from .demo import run_demo

    with errors_to_exit_code():
        run_demo(folder)


def add_to(app: typer.Typer) -> None:
    """Register the commands, with the options of all registered methods."""
    methods = list(offered().values())
    panel_method = [method for method in methods if method.name == "panel"]
    app.command(cls=Command, epilog=_CHECK_EXAMPLES)(with_options(check))
    app.command(cls=Command, epilog=_SELECT_EXAMPLES)(with_options(select, methods))
    app.command(cls=Command, epilog=_PANEL_EXAMPLES)(with_options(panel, panel_method))
    app.command(cls=Command, epilog=_REGRESS_EXAMPLES)(with_options(regress))
    app.command(cls=Command, epilog=_FIT_EXAMPLES)(with_options(fit, methods))
    app.command(cls=Command, epilog=_APPLY_EXAMPLES)(with_options(apply))
    app.command(cls=Command, epilog=_REPORT_EXAMPLES)(with_options(report))
    app.command(cls=Command)(demo)


# --- options


def _analysis_options(
    groups: Iterable[Any],
    method_options: Mapping[str, object],
    **others: Any,
) -> AnalysisOptions:
    """Combine groups of options into the options of an analysis.

    ``others`` may contain the settings of a roles file, which are overridden by given options.
    """
    settings = {name: others.pop(name) for name in (*ANALYSIS,) if name in others}
    for group in groups:
        others |= group._asdict()
    if "missing" in settings and others["missing"] == PreparationOptions().missing:
        others["missing"] = settings["missing"]
    if settings.get("scale") and "scale" in others:
        others["scale"] = True
    if settings.get("counts") and method_options.get("counts", True) is None:
        method_options = {**method_options, "counts": True}
    check_choice("--missing", others["missing"], MISSING)
    components = others.pop("components")
    if components != "auto" and not (components.isdecimal() and int(components) > 0):
        raise ParameterError(
            f"--components must be a positive integer or auto, got {components!r}."
        )
    if others.get("stability", 0) % 2:
        raise ParameterError(
            "--stability must be even, because halves are complementary pairs, got "
            f"{others['stability']}."
        )
    return AnalysisOptions(
        components="auto" if components == "auto" else int(components),
        method_options=method_options,
        **others,
    )


def _read_costs(path: Path) -> dict[str, float]:
    """Read the costs of variables from the first two columns of a file."""
    names, values = list(read_labels(path).columns.items())[:2]
    costs: dict[str, float] = {}
    for name, value in zip(names[1], values[1], strict=True):
        if name in costs:
            raise TableError(
                f"{path}, column {names[0]!r}: {name!r} occurs more than once. Give one cost per "
                "variable."
            )
        try:
            costs[name] = float(value)
        except ValueError:
            raise TableError(
                f"{path}, column {values[0]!r}: the cost of {name!r} is {value!r}, which is not a "
                "number."
            ) from None
    return costs


def _merge_options(stored: ReadOptions, given: ReadOptions) -> ReadOptions:
    """Replace stored options by given options."""
    if stored.labels is not None:  # stored labels belong to other rows
        stored = stored.without_annotations()._replace(labels=None)
    return merge_options(stored._replace(response=None), given)


# --- analysis


@contextmanager
def _show_stage(output_options: OutputOptions) -> Iterator[Callable[[str, int], None] | None]:
    """Show the current stage of the analysis in a terminal."""
    if output_options.quiet or not sys.stderr.isatty():
        yield None
        return
    columns = (SpinnerColumn("line"), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading")

        def show(stage: str, n_rows: int) -> None:
            bar.update(task, description=f"{stage}, {n_rows:,} rows" if n_rows else stage)

        def show_step(label: str, n_steps: int, total: int | None) -> None:
            bar.update(task, description=f"{label}, step {n_steps:,}" if n_steps else label)

        with observe(show_step):
            yield show


def _read_table(file: Path, read_options: ReadOptions, output_options: OutputOptions) -> Table:
    with _show_stage(output_options) as show:
        if show is None:
            return read_table(file, read_options)
        return read_table(file, read_options._replace(progress=lambda n: show("reading", n)))


def _analyse_file(
    file: Path, read_options: ReadOptions, options: AnalysisOptions, output_options: OutputOptions
) -> Result:
    command = shlex.join(["prosparse", *sys.argv[1:]])
    try:
        with _show_stage(output_options) as show:
            return run(file, read_options, options, command=command, progress=show)
    except ParameterError:
        raise
    except TableError as error:
        if file.is_file():
            raise TableError(advise(str(error), correct_file(file, read_options))) from error
        raise


def _write_analysis(
    file: Path,
    read_options: ReadOptions,
    options: AnalysisOptions,
    output_options: OutputOptions,
    output: Path | None,
    plots: str | None = None,
    costs: Path | None = None,
) -> tuple[Result, Path, str | None]:
    """Analyse a table and write a folder of results.

    The result of the analysis, the folder, and the name of the table whose results were replaced
    (or None) are returned.
    """
    folder = output or Path(f"{file_stem(file)}-prosparse")
    formats = parse_plots(plots)
    check_results_folder(folder, input_files(read_options, file, costs, *options.tables))
    if output is None:
        check_same_table(folder, folder / MODEL, file)
    result = _analyse_file(file, read_options, options, output_options)
    replaced = _find_replaced(folder / MODEL, result)
    announce("writing the results")
    with replace_folder(folder) as partial:
        write_results(result, partial, formats)
    return result, folder, replaced


def _find_replaced(model: Path, result: Result) -> str | None:
    """Return the name of another table whose results are replaced, or None."""
    earlier = read_fitted_table(model)
    if earlier is None or earlier.digest == result.about["file"]["SHA-256"]:
        return None
    return earlier.file


# --- output


@contextmanager
def errors_to_exit_code(method: str | None = None) -> Iterator[None]:
    """Print errors on one line and exit with the corresponding code.

    Parameters of ``method`` are translated to command-line options.
    """
    known = {description.name: description for description in METHODS.values()}
    description = known.get(method or "", next(iter(METHODS.values())))
    try:
        yield
    except ParameterError as error:
        _exit(translate_parameters(str(error), description), 2)
    except (InputError, ModelFileError) as error:
        _exit(str(error), 1)
    except OSError as error:
        path = f"{error.filename}: " if error.filename else ""
        _exit(f"{path}{error.strerror or error}; no results were written", 1)
    except KeyboardInterrupt:
        _exit("interrupted; earlier results are unchanged", 130)
    except MemoryError:
        _exit("not enough memory for this table", 1)


def _exit(message: str, code: int) -> NoReturn:
    line = " ".join(message.split())
    Console(stderr=True).print(Text(f"prosparse: {escape_control(line)}"), soft_wrap=True)
    raise typer.Exit(code)


def _print_result(
    result: Result, output: Path, replaced: str | None, output_options: OutputOptions
) -> None:
    if output_options.as_json:
        _print_json(summarize(result, output) | {"replaced": replaced})
    elif not output_options.quiet:
        print_summary(result, output, replaced)


def _print_json(values: dict[str, Any]) -> None:
    print(json.dumps(values, ensure_ascii=not supports_unicode(sys.stdout)))
