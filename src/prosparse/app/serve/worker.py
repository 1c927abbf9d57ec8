"""Worker process that checks a table or runs a command.

Requests and events are JSON, so that a malicious table cannot make the server load Python objects.
A request has the keys ``task``, ``memory`` and the arguments of the task.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

MAX_SECONDS = 30 * 24 * 3600.0  # maximum CPU time of a task, in seconds
EVENT_INTERVAL = 0.2  # minimum time between reports of progress, in seconds
MAX_LISTED = 50  # maximum number of columns or rows listed in a finding
UNKNOWN_ERROR = (
    "An unexpected error stopped the analysis ({}). Details are in the terminal that runs "
    "`prosparse serve`. Please report them."
)


def main(connection: Connection) -> None:
    """Import the library, wait for a request, and answer the request."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its workers
    if hasattr(os, "setsid"):
        os.setsid()  # child processes end together with this process
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        _import_library()
        request = json.loads(connection.recv_bytes())
    except (EOFError, OSError):
        return  # the server has ended
    from ...inference.progress import observe
    from ...tables.reader_process import limit_resources

    events = _Events(connection)
    limit_resources(request["memory"], MAX_SECONDS)
    with observe(events.progress):
        events.send(answer(request))
    connection.close()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run a task in the folder of its files; return the last event."""
    os.chdir(request["folder"])
    try:
        return {"check": check, "command": run_command}[request["task"]](request)
    except MemoryError:
        return _failure("There is not enough memory for this table.")
    except Exception as error:  # the page shows no traceback
        traceback.print_exc()
        return _failure(UNKNOWN_ERROR.format(type(error).__name__))


def _import_library() -> None:
    from ...checks import files
    from .. import commands

    assert commands
    assert files


class _Events:
    def __init__(self, connection: Connection):
        self.connection, self.sent, self.stage = connection, 0.0, ""

    def send(self, event: dict[str, Any]) -> None:
        self.connection.send_bytes(json.dumps(event).encode("utf-8", "replace"))

    def progress(self, stage: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if stage != self.stage or now - self.sent >= EVENT_INTERVAL:
            self.sent, self.stage = now, stage
            self.send({"event": "progress", "stage": stage, "done": done, "total": total})


def _failure(message: str) -> dict[str, Any]:
    return {"event": "failed", "message": message}


# --- tasks


def check(request: dict[str, Any]) -> dict[str, Any]:
    """Check a table; do not apply fixes whose codes are in `refused`."""
    from ...checks.files import correct_file
    from ...checks.fixes import join_fixes
    from ...errors import InputError, ParameterError
    from ...inference.progress import announce
    from ...tables.roles_file import format_options
    from ..options import TableOptions

    path = Path(request["file"])
    given = {key: value for key, value in request["options"].items() if key != "response"}
    try:
        options = TableOptions(**given).read_options(path, request["options"].get("response"))
        announce("checking the table")
        checked = correct_file(path, options, request["refused"])
    except (InputError, ParameterError) as error:
        return _failure(str(error))
    if not checked.roles:
        return _failure(" ".join(found.message for found in checked.check.findings))
    result = {
        "n_rows": checked.shape[0],
        "n_columns": checked.shape[1],
        "shape": list(checked.check.shape),
        "roles": {name: str(role) for name, role in checked.roles.items()},
        "header": checked.preview.header,
        "rows": checked.preview.rows,
        "options": format_options(checked.options, checked.analysis),
        "transposed": checked.options.transpose,
        "notes": list(checked.notes),
        "accepted": _accepted_options(),
        "findings": [
            {
                "code": found.code,
                "severity": str(found.severity),
                "message": found.message,
                "columns": list(found.columns[:MAX_LISTED]),
                "rows": list(found.rows[:MAX_LISTED]),
                "fix": found.fix,
                "is_fixed": bool(join_fixes([found])),
            }
            for found in checked.check.findings
        ],
    }
    return {"event": "done", "result": result}


def _accepted_options() -> dict[str, list[str]]:
    """Return the options accepted by the command of each question."""
    from ...registry import METHODS
    from ..cli import load_commands
    from .questions import QUESTIONS

    methods = {method.name: method for method in METHODS.values()}
    accepted = {}
    of_methods = {f"--{o.name}" for method in METHODS.values() for o in method.options or ()}
    for name, question in QUESTIONS.items():
        command = load_commands().get_command(None, question.command)
        flags = {flag for parameter in command.params for flag in parameter.opts}
        method = methods[question.method]
        flags -= of_methods - {f"--{option.name}" for option in method.options or ()}
        flags -= set() if method.accepts_groups else {"--groups"}
        flags -= set() if method.accepts_covariates else {"--covariates"}
        accepted[name] = sorted(flags)
    return accepted


def run_command(request: dict[str, Any]) -> dict[str, Any]:
    """Run a command with `arguments` and additional `hidden` arguments."""
    from ..cli import app

    sys.argv = ["prosparse", *request["arguments"]]  # shown in the report
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        code = app(
            [*request["arguments"], *request["hidden"]],
            prog_name="prosparse",
            standalone_mode=False,
        )
    if code:
        message = " ".join(errors.getvalue().split()).removeprefix("prosparse: ")
        return _failure(message or UNKNOWN_ERROR.format(f"exit code {code}"))
    lines = output.getvalue().strip().splitlines()
    return {"event": "done", "result": json.loads(lines[-1]) if lines else {}}
