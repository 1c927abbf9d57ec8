"""Tables, setups and analyses of a session."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .arguments import Settings, analysis_words, table_options, to_arguments
from .jobs import Job, Status, Workers
from .questions import QUESTIONS, Question

SELECTED = "selected.csv"  # of the results of a selection


class TableFile(NamedTuple):
    """File with a table."""

    number: int
    path: Path

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name


class Setup(NamedTuple):
    """Settings of a table, and the check with these settings.

    Each change creates a new setup, so that the back button and several browser tabs can be used.
    """

    number: int
    table: TableFile
    settings: Settings
    check: Job

    @property
    def question(self) -> Question:
        """Selected question."""
        return QUESTIONS[self.settings.question]

    def arguments(self, names: Sequence[str]) -> list[str]:
        """Build the command-line arguments for the selected question.

        ``names`` contains the file names of the tables.
        """
        question, check = self.question, self.check.result
        accepted = check["accepted"][question.name]
        words = analysis_words(self.settings, [*question.options], check["options"], accepted)
        words += [("--table", name) for name in names[1:]]
        return [question.command, names[0], *to_arguments(words)]


class Analysis(NamedTuple):
    """Run of a command and its results."""

    number: int
    title: str
    table: TableFile
    setup: Setup
    arguments: list[str]
    folder: Path  # of the results
    job: Job
    started: str  # time of day

    @property
    def files(self) -> list[Path]:
        """Files of the results."""
        if self.job.status is not Status.DONE or not self.folder.is_dir():
            return []
        return sorted(path for path in self.folder.iterdir() if path.is_file())

    @property
    def selects(self) -> bool:
        """Whether the results contain selected variables, which can be compared."""
        return any(path.name == SELECTED for path in self.files)


class Workspace:
    """State of a session.

    Parameters
    ----------
    workers : Workers
        Processes that check tables and run commands.
    """

    def __init__(self, workers: Workers):
        self.workers = workers
        self.folder = Path(tempfile.mkdtemp(prefix="prosparse-serve-"))  # private to the user
        self.tables: dict[int, TableFile] = {}
        self.setups: dict[int, Setup] = {}
        self.analyses: dict[int, Analysis] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def new_path(self, name: str) -> Path:
        """Return the path of a new file in a folder with a generated name."""
        return Path(tempfile.mkdtemp(dir=self.folder, prefix="file-")) / name

    def add_table(self, path: Path) -> TableFile:
        """Add the file of a table to the session."""
        table = TableFile(next(self._numbers), path)
        with self._lock:
            self.tables[table.number] = table
        return table

    def add_setup(self, table: TableFile, settings: Settings) -> Setup:
        """Add a setup and start the check of its table."""
        job = self.workers.submit(
            {
                "task": "check",
                "folder": str(table.path.parent),
                "file": table.name,
                "options": table_options(settings),
                "refused": list(settings.refused),
            }
        )
        setup = Setup(next(self._numbers), table, settings, job)
        with self._lock:
            self.setups[setup.number] = setup
        return setup

    def with_question(self, setup: Setup, settings: Settings) -> Setup:
        """Add a setup with a changed question and the same check."""
        changed = setup._replace(number=next(self._numbers), settings=settings)
        with self._lock:
            self.setups[changed.number] = changed
        return changed

    def tables_of(self, setup: Setup) -> list[TableFile]:
        """Return the tables of an analysis; that of the setup comes first."""
        further = setup.settings.tables if setup.question.needs_tables else ()
        others = [self.tables[n] for n in further if n in self.tables and n != setup.table.number]
        return [setup.table, *others]

    def arguments(self, setup: Setup) -> list[str]:
        """Build the arguments of the command of a setup."""
        return setup.arguments(_distinct_names(self.tables_of(setup)))

    def add_analysis(self, setup: Setup) -> Analysis:
        """Run the command of a setup as a new analysis."""
        tables = self.tables_of(setup)
        folder = setup.table.path.parent if len(tables) == 1 else self._gather(tables)
        arguments = self.arguments(setup)
        return self.add_command(setup, setup.question.title, setup.table, arguments, folder)

    def _gather(self, tables: Sequence[TableFile]) -> Path:
        """Create a folder with links to the files of tables, or copies."""
        folder = Path(tempfile.mkdtemp(dir=self.folder, prefix="tables-"))
        for table, name in zip(tables, _distinct_names(tables), strict=True):
            try:
                os.link(table.path, folder / name)
            except OSError:  # another disk, or a system without links
                shutil.copyfile(table.path, folder / name)
        return folder

    def add_plots(self, analysis: Analysis) -> Job:
        """Write all plots of an analysis to its results."""
        return self.workers.submit(
            {
                "task": "command",
                "folder": str(analysis.folder.parent),
                "arguments": ["report", analysis.folder.name, "--plots", "svg,pdf,png"],
                "hidden": ["--json"],
            }
        )

    def add_command(
        self,
        setup: Setup,
        title: str,
        table: TableFile,
        arguments: list[str],
        inputs: Path | None = None,
    ) -> Analysis:
        """Run a command that writes its results to a new folder.

        ``inputs`` is the folder of the input files, by default that of the table.
        """
        folder = Path(tempfile.mkdtemp(dir=self.folder, prefix="results-")) / "results"
        job = self.workers.submit(
            {
                "task": "command",
                "folder": str(inputs or table.path.parent),
                "arguments": arguments,
                "hidden": ["--output", str(folder), "--json"],
            }
        )
        number = next(self._numbers)
        analysis = Analysis(
            number, title, table, setup, arguments, folder, job, time.strftime("%H:%M")
        )
        with self._lock:
            self.analyses[number] = analysis
        return analysis

    def remove_table(self, table: TableFile) -> None:
        """Remove a table with its setups and analyses, but not the user's files."""
        with self._lock:
            self.tables.pop(table.number, None)
            analyses = [a for a in self.analyses.values() if a.table.number == table.number]
            for analysis in analyses:
                del self.analyses[analysis.number]
            setups = [s for s in self.setups.values() if s.table.number == table.number]
            for setup in setups:
                del self.setups[setup.number]
        for job in (*(a.job for a in analyses), *(s.check for s in setups)):
            job.cancel()
        folders = [analysis.folder.parent for analysis in analyses]
        if self.folder in table.path.parents:
            folders.append(table.path.parent)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """End all jobs and remove all files of the session."""
        self.workers.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def size(self) -> int:
        """Compute the total size of all files of the session in bytes."""
        return sum(
            entry.stat().st_size
            for folder, _, names in os.walk(self.folder)
            for entry in (Path(folder) / name for name in names)
            if entry.is_file()
        )


def _distinct_names(tables: Sequence[TableFile]) -> list[str]:
    """Make the file names of tables distinct by numeric prefixes."""
    names: list[str] = []
    for table in tables:
        is_new = table.name not in names
        names.append(table.name if is_new else f"{len(names) + 1}-{table.name}")
    return names


def same_check(first: Settings, second: Settings) -> bool:
    """Return whether the same check is valid for both settings."""

    def key(settings: Settings) -> tuple[Mapping[str, str], Mapping[str, Any], tuple[str, ...]]:
        return settings.roles, settings.file_format, settings.refused

    return key(first) == key(second)
