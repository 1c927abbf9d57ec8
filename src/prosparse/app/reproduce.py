"""``prosparse reproduce``: the experiments of the papers, ours beside the published."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ..experiments import report
from ..experiments.data import VARIABLE, Data, MissingDataError
from ..experiments.registry import UnknownExperimentError, experiment, experiments
from .commands import told
from .flags import Command


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="E1, E2, ...; see --list.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run all experiments.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List them, and stop.")] = False,
    quick: Annotated[bool, typer.Option(help="Fewer repetitions, smaller grids.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help=f"Folder with the data sets; or set {VARIABLE}.", file_okay=False),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="Where results.md and the folder results go.", file_okay=False)
    ] = Path("reproduced"),
    jobs: Annotated[int, typer.Option(min=1, help="Experiments at a time.")] = 1,
) -> None:
    """Run experiments of the papers and put our figures beside the published ones."""
    console, errors = Console(), Console(stderr=True)
    if listed:
        console.print(_listing())
        return
    if everything == bool(names):
        _stop(errors, "name some experiments, or say --all; `--list` shows what there is")
    try:
        wanted = [experiment(name).name for name in names or experiments()]
    except UnknownExperimentError as error:
        _stop(errors, str(error))
    with told():
        failures = _run(wanted, quick, data, output, jobs, console, errors)
        page = report.write_page(output)
    console.print(f"wrote {page}", soft_wrap=True)
    if failures:
        raise typer.Exit(1)


def _run(
    names: list[str],
    quick: bool,
    data: Path | None,
    output: Path,
    jobs: int,
    console: Console,
    errors: Console,
) -> int:
    """Run and show every experiment; how many could not run for want of data."""
    failures = 0
    if jobs == 1:
        shared = Data(data)
        for name in names:
            try:
                _show(console, report.run(name, quick, shared, output))
            except MissingDataError as error:
                failures += 1
                errors.print(f"{name}: {error}", soft_wrap=True, highlight=False)
        return failures
    # not forked: the threads of Torch, JAX or a BLAS do not survive that
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        started = {pool.submit(report.run, n, quick, Data(data), output): n for n in names}
        for future in as_completed(started):
            try:
                _show(console, future.result())
            except MissingDataError as error:
                failures += 1
                errors.print(f"{started[future]}: {error}", soft_wrap=True, highlight=False)
    return failures


def _stop(errors: Console, message: str) -> Any:
    errors.print(message, soft_wrap=True, highlight=False, markup=False)
    raise typer.Exit(2)


def _listing() -> Table:
    table = Table("name", "what", "paper", "data", box=None)
    for one in experiments().values():
        table.add_row(one.name, one.title, one.paper, ", ".join(one.data) or "simulated")
    return table


def _show(console: Console, record: dict[str, Any]) -> None:
    about_it = experiments()[record["name"]]
    title = f"{about_it.name} {about_it.title}"
    shown = f"seeds: {record['seeds']}; {record['seconds']:g} s"
    table = Table(
        "", "ours", "published", "difference", "", title=title, caption=shown, title_justify="left"
    )
    for column in (1, 2, 3):
        table.columns[column].justify = "right"
    for row in record["rows"]:
        table.add_row(*report.cells(row))
    console.print(table)
    for claim in record["claims"]:
        held = "[green]holds[/]" if claim["holds"] else "[red]does not hold[/]"
        console.print(f"{held}: {claim['text']}" + (f" ({claim['note']})" if claim["note"] else ""))


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(cls=Command)(reproduce)
