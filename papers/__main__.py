"""Run experiments by name: ``python -m papers E17``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from joblib import parallel_config
from rich.console import Console
from rich.table import Table

from . import records
from .data import VARIABLE, Data, MissingDataError
from .registry import UnknownExperimentError, experiment, experiments


def main(arguments: list[str] | None = None) -> int:
    """Run the experiments named on the command line and return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    console, errors = Console(), Console(stderr=True)
    if options.list:
        console.print(_listing())
        return 0
    if options.all == bool(options.names):
        parser.error(
            "Name at least one experiment or pass --all, not both. --list shows the names."
        )
    try:
        names = [experiment(name).name for name in options.names or experiments()]
    except UnknownExperimentError as error:
        parser.error(str(error))
    n_failed = 0
    for name, outcome in _run(names, options):
        if isinstance(outcome, MissingDataError):
            n_failed += 1
            errors.print(f"{name}: {outcome}", soft_wrap=True, highlight=False)
        else:
            _show(console, outcome)
    page = records.write_pages(options.output)
    console.print(f"wrote {page}", soft_wrap=True)
    return 1 if n_failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m papers",
        description="Run experiments of the papers and compare with the published results.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="E1, E2, ...")
    parser.add_argument("--all", action="store_true", help="run all experiments")
    parser.add_argument("--list", action="store_true", help="list the experiments and stop")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, smaller grids")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help=f"folder of the data sets (default: ${VARIABLE})"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        default=Path("reproduced"),
        help="folder for records, pages and plots (default: %(default)s)",
    )
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel processes")
    return parser


def _run(
    names: list[str], options: argparse.Namespace
) -> Iterator[tuple[str, dict[str, Any] | MissingDataError]]:
    """Run experiments; yield the record of each, or the error if its data are missing."""
    data = Data(options.data)
    if options.jobs == 1 or len(names) == 1:
        for name in names:
            try:
                with parallel_config(n_jobs=options.jobs):
                    record = records.run(name, options.quick, data, options.output)
                yield name, record
            except MissingDataError as error:
                yield name, error
        return
    # Processes are spawned because threads of Torch, JAX or a BLAS do not survive a fork.
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        submitted = {
            pool.submit(records.run, name, options.quick, data, options.output): name
            for name in names
        }
        for future in as_completed(submitted):
            try:
                yield submitted[future], future.result()
            except MissingDataError as error:
                yield submitted[future], error


def _listing() -> Table:
    table = Table("name", "title", "paper", "data", box=None)
    for entry in experiments().values():
        data = ", ".join(entry.data) or "simulated"
        table.add_row(entry.name, entry.title, entry.paper, data)
    return table


def _show(console: Console, record: dict[str, Any]) -> None:
    experiment_ = experiments()[record["name"]]
    table = Table(
        "quantity",
        "prosparse",
        "published",
        "difference",
        "note",
        title=f"{experiment_.name}: {experiment_.title}",
        caption=f"seeds: {record['seeds']}; {record['seconds']:g} s",
        title_justify="left",
    )
    for column in (1, 2, 3):
        table.columns[column].justify = "right"
    for row in record["rows"]:
        table.add_row(*records.cells(row))
    console.print(table)
    for claim in record["claims"]:
        verdict = "[green]holds[/]" if claim["holds"] else "[red]does not hold[/]"
        note = f" ({claim['note']})" if claim["note"] else ""
        console.print(f"{verdict}: {claim['text']}{note}")


if __name__ == "__main__":
    sys.exit(main())
