"""Routes of the page, and the handlers that render the templates."""

from __future__ import annotations

import csv
import itertools
import shlex
import shutil
import zipfile
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route
from starlette.types import ASGIApp

from ..._version import __version__
from .access import MIN_PASSWORD_LENGTH, AccessControl, Gate
from .arguments import Settings
from .comparison import compare_analyses
from .forms import MAX_NAMES, ROLE_HELP, ROLE_TITLES, read_settings, show_table
from .jobs import Job, Status
from .questions import QUESTIONS, SHARE
from .uploads import DEFAULT_MAX_BYTES, Form, UploadError, format_size, read_fields, read_form
from .workspace import Analysis, Setup, TableFile, Workspace, same_check

CHECK_SECONDS = 1.5  # time in seconds before a page shows the progress of a check
RUN_CHECK_SECONDS = 60.0  # maximum time in seconds that a run waits for the check of changed roles
PLOT_SECONDS = 300.0  # maximum time in seconds for drawing the plots of an analysis
MAX_IMPUTED = 10  # maximum number of imputed values on the page
# Files of the results. The server does not import the modules that write them.
REPORT, IMPUTED_CELLS, PLOT_PREFIX = "report.html", "imputed_cells.csv", "plot-"
# The report has a separate policy, which allows its script by hash, and no access to the page.
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads allow-popups; default-src 'none'; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; "
    "frame-ancestors 'self'"
)
_TYPES = {
    ".csv": "text/csv; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".png": "image/png",
}
EXTENSIONS = (
    ".csv,.tsv,.tab,.txt,.gz,.xlsx,.xls,.xlsm,.xlsb,.ods,.parquet,.pq,.arrow,.feather,.npy,.npz,"
    ".mtx,.h5ad"
)
_STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
Item = TypeVar("Item")


class Pages:
    """Handlers of the requests.

    Parameters
    ----------
    workspace : Workspace
        State of the session.
    gate : Gate
        Secrets of the session.
    max_bytes : int
        Maximum size of an upload.
    stop : callable
        Function that ends the server.
    """

    def __init__(self, workspace: Workspace, gate: Gate, max_bytes: int, stop: Callable[[], None]):
        self.workspace, self.gate, self.max_bytes, self.stop = workspace, gate, max_bytes, stop
        self.templates = Environment(
            loader=PackageLoader("prosparse.app.serve"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
        )
        self.templates.globals |= {
            "version": __version__,
            "role_help": ROLE_HELP,
            "role_titles": ROLE_TITLES,
            "Status": Status,
            "extensions": EXTENSIONS,
        }
        self.templates.filters |= {
            "size": format_size,
            "duration": format_duration,
            "short": _shorten_number,
            "sentence": _to_sentence,
        }

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/", self.home),
            Route("/login", self.show_login),
            Route("/login", self.log_in, methods=["POST"]),
            Route("/stop", self.end, methods=["POST"]),
            Route("/static/{name}", self.static),
            Route("/tables", self.upload, methods=["POST"]),
            Route("/tables/{number:int}", self.open_table),
            Route("/tables/{number:int}/remove", self.remove_table, methods=["POST"]),
            Route("/setups/{number:int}", self.show_setup),
            Route("/setups/{number:int}", self.change_setup, methods=["POST"]),
            Route("/setups/{number:int}/progress", self.setup_progress),
            Route("/setups/{number:int}/tables", self.add_tables, methods=["POST"]),
            Route("/analyses/{number:int}", self.show_analysis),
            Route("/analyses/{number:int}/progress", self.analysis_progress),
            Route("/analyses/{number:int}/cancel", self.cancel, methods=["POST"]),
            Route("/analyses/{number:int}/report", self.report),
            Route("/analyses/{number:int}/files/{name}", self.download),
            Route("/analyses/{number:int}/all.zip", self.download_all),
            Route("/analyses/{number:int}/apply", self.apply, methods=["POST"]),
            Route("/analyses/{number:int}/plots", self.add_plots, methods=["POST"]),
            Route("/compare", self.compare),
        ]

    def render(self, template: str, status: int = 200, **context: Any) -> Response:
        """Render a template."""
        page = self.templates.get_template(f"{template}.html.j2").render(context)
        return HTMLResponse(page, status)

    def show_error(self, status: int, message: str) -> Response:
        """Render an error."""
        return self.render("error", status, message=message)

    # --- session

    def home(self, request: Request) -> Response:
        """Show the upload form and the tables and analyses of this session."""
        return self.render(
            "home",
            tables=list(reversed(self.workspace.tables.values())),
            analyses=list(reversed(self.workspace.analyses.values())),
            limit=self.max_bytes,
        )

    def show_login(self, request: Request) -> Response:
        """Show the password form."""
        if self.gate.password is None:
            raise HTTPException(404)
        return self.render("login", failed=False)

    async def log_in(self, request: Request) -> Response:
        """Set the cookie in exchange for the password."""
        given = dict(await read_fields(request)).get("password", "")
        if not self.gate.accepts_password(given[: 100 * MIN_PASSWORD_LENGTH]):
            return self.render("login", 403, failed=True)
        return self.gate.admit(RedirectResponse("/", 303))

    def end(self, request: Request) -> Response:
        """End the server."""
        self.stop()
        return self.render("ended")

    def static(self, request: Request) -> Response:
        """Return the style sheet or the script."""
        name = request.path_params["name"]
        if name not in _STATIC:
            raise HTTPException(404)
        content = resources.files(__package__).joinpath("static", name).read_bytes()
        return Response(content, media_type=_STATIC[name])

    # --- tables

    async def upload(self, request: Request) -> Response:
        """Store uploaded files and show the setup of the first."""
        form = await self._read_form(request)
        first, *others = [self.workspace.add_table(upload.path) for upload in form.files]
        settings = Settings()
        if others:
            settings = Settings(question=SHARE.name, tables=tuple(t.number for t in others))
        setup = self.workspace.add_setup(first, settings)
        return RedirectResponse(f"/setups/{setup.number}", 303)

    async def _read_form(self, request: Request) -> Form:
        form = await read_form(request, self.workspace.new_path, self.max_bytes)
        if not form.files:
            raise UploadError(400, "Choose a file first.")
        return form

    def open_table(self, request: Request) -> Response:
        """Show the latest setup of a table, or a new setup."""
        table = _find(self.workspace.tables, request)
        setups = [s for s in self.workspace.setups.values() if s.table.number == table.number]
        setup = setups[-1] if setups else self.workspace.add_setup(table, Settings())
        return RedirectResponse(f"/setups/{setup.number}", 303)

    def remove_table(self, request: Request) -> Response:
        """Remove a table and its analyses."""
        self.workspace.remove_table(_find(self.workspace.tables, request))
        return RedirectResponse("/", 303)

    # --- setups

    def show_setup(self, request: Request) -> Response:
        """Show the table and the question of a setup."""
        setup = _find(self.workspace.setups, request)
        setup.check.finished.wait(CHECK_SECONDS)
        if setup.check.status is Status.DONE:
            return self._render_setup(setup)
        if setup.check.is_active:
            return self.render("reading", setup=setup, job=setup.check)
        return self.render("unreadable", 200, setup=setup, message=setup.check.message)

    def _render_setup(self, setup: Setup, message: str = "", status: int = 200) -> Response:
        check = setup.check.result
        response = next((n for n, r in setup.settings.roles.items() if r == "response"), "")
        return self.render(
            "setup",
            status,
            setup=setup,
            settings=setup.settings,
            check=check,
            shown=show_table(check, setup.settings),
            names=list(check["roles"])[:MAX_NAMES],
            questions=QUESTIONS.values(),
            response=response,
            extension=setup.table.path.suffix.lower(),
            message=message,
            others=[t for t in self.workspace.tables.values() if t is not setup.table],
            command=shlex.join(["prosparse", *self.workspace.arguments(setup)]),
        )

    async def change_setup(self, request: Request) -> Response:
        """Apply the submitted settings, and run the analysis if requested."""
        setup = _find(self.workspace.setups, request)
        fields = await read_fields(request)
        return await _in_thread(lambda: self._apply_changes(setup, fields))

    def _apply_changes(self, setup: Setup, fields: list[tuple[str, str]]) -> Response:
        if setup.check.status is not Status.DONE:
            changed = self._change(setup, read_settings(fields, setup.settings, {}))
            return RedirectResponse(f"/setups/{changed.number}", 303)
        changed = self._change(setup, read_settings(fields, setup.settings, setup.check.result))
        if dict(fields).get("do") != "run":
            return RedirectResponse(f"/setups/{changed.number}", 303)
        changed.check.finished.wait(RUN_CHECK_SECONDS)
        if changed.check.status is not Status.DONE:
            return RedirectResponse(f"/setups/{changed.number}", 303)
        if changed.question.needs_response and "response" not in changed.settings.roles.values():
            message = "Enter the column to predict below, or give a column the role “Response”."
            return self._render_setup(changed, message, 422)
        if changed.question.needs_tables and len(self.workspace.tables_of(changed)) < 2:
            message = "Add another table of the same samples first."
            return self._render_setup(changed, message, 422)
        analysis = self.workspace.add_analysis(changed)
        return RedirectResponse(f"/analyses/{analysis.number}", 303)

    def _change(self, setup: Setup, settings: Settings) -> Setup:
        if settings == setup.settings:
            return setup
        if same_check(settings, setup.settings):
            return self.workspace.with_question(setup, settings)
        return self.workspace.add_setup(setup.table, settings)

    async def add_tables(self, request: Request) -> Response:
        """Store other tables with the same rows; select the question on them."""
        setup = _find(self.workspace.setups, request)
        form = await self._read_form(request)
        numbers = tuple(self.workspace.add_table(upload.path).number for upload in form.files)
        tables = (*setup.settings.tables, *numbers)
        settings = setup.settings._replace(question=SHARE.name, answers={}, tables=tables)
        changed = self.workspace.with_question(setup, settings)
        return RedirectResponse(f"/setups/{changed.number}#question-title", 303)

    def setup_progress(self, request: Request) -> Response:
        """Return the progress of a check."""
        return _progress(_find(self.workspace.setups, request).check)

    # --- analyses

    def show_analysis(self, request: Request) -> Response:
        """Show the progress or the results of an analysis."""
        analysis = _find(self.workspace.analyses, request)
        analysis.job.finished.wait(CHECK_SECONDS)
        command = shlex.join(["prosparse", *analysis.arguments])
        if analysis.job.is_active:
            return self.render("running", analysis=analysis, job=analysis.job, command=command)
        if analysis.job.status is not Status.DONE:
            return self.render("failed", analysis=analysis, job=analysis.job, command=command)
        others = [a for a in self.workspace.analyses.values() if a is not analysis and a.selects]
        others.sort(key=lambda other: (other.table.name != analysis.table.name, -other.number))
        return self.render(
            "analysis",
            analysis=analysis,
            summary=analysis.job.result,
            imputed=_read_imputed(analysis.folder / IMPUTED_CELLS),
            plots=[path for path in analysis.files if path.name.startswith(PLOT_PREFIX)],
            plot_prefix=PLOT_PREFIX,
            command=command,
            others=others if analysis.selects else [],
            files=[
                path
                for path in analysis.files
                if path.name != REPORT and not path.name.startswith(PLOT_PREFIX)
            ],
            has_report=(analysis.folder / REPORT).is_file(),
        )

    def analysis_progress(self, request: Request) -> Response:
        """Return the progress of an analysis."""
        return _progress(_find(self.workspace.analyses, request).job)

    def cancel(self, request: Request) -> Response:
        """Cancel an analysis."""
        analysis = _find(self.workspace.analyses, request)
        analysis.job.cancel()
        return RedirectResponse(f"/analyses/{analysis.number}", 303)

    def report(self, request: Request) -> Response:
        """Return the report, in a sandbox."""
        analysis = _find(self.workspace.analyses, request)
        path = analysis.folder / REPORT
        if path not in analysis.files:
            raise HTTPException(404)
        headers = {"Content-Security-Policy": REPORT_POLICY}
        return FileResponse(path, media_type=_TYPES[".html"], headers=headers)

    def download(self, request: Request) -> Response:
        """Return a file of the results."""
        analysis = _find(self.workspace.analyses, request)
        by_name = {path.name: path for path in analysis.files}
        path = by_name.get(request.path_params["name"])
        if path is None:
            raise HTTPException(404)
        return _attachment(path, f"{_stem(analysis)}-{path.name}")

    def download_all(self, request: Request) -> Response:
        """Return all files of the results in an archive."""
        analysis = _find(self.workspace.analyses, request)
        if not analysis.files:
            raise HTTPException(404)
        archive = analysis.folder.parent / "all.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as content:
            for path in analysis.files:
                content.write(path, path.name)
        return _attachment(archive, f"{_stem(analysis)}-results.zip")

    def add_plots(self, request: Request) -> Response:
        """Write the plots of an analysis to files."""
        analysis = _find(self.workspace.analyses, request)
        if not analysis.files:
            raise HTTPException(404)
        job = self.workspace.add_plots(analysis)
        job.finished.wait(PLOT_SECONDS)
        if job.status is not Status.DONE:
            job.cancel()
            return self.show_error(500, f"The plots were not written. {job.message}")
        return RedirectResponse(f"/analyses/{analysis.number}#download", 303)

    async def apply(self, request: Request) -> Response:
        """Apply the model of an analysis to an uploaded table."""
        analysis = _find(self.workspace.analyses, request)
        form = await self._read_form(request)
        model = analysis.folder / "model.prosparse"
        if model not in analysis.files:
            raise HTTPException(404)
        upload = form.files[0]
        name = f"{_stem(analysis)}.prosparse"
        shutil.copyfile(model, upload.path.parent / name)
        table = self.workspace.add_table(upload.path)
        title = f"{analysis.title} Applied to {table.name}"
        arguments = ["apply", name, table.name]
        applied = self.workspace.add_command(analysis.setup, title, table, arguments)
        return RedirectResponse(f"/analyses/{applied.number}", 303)

    def compare(self, request: Request) -> Response:
        """Compare the variables of two analyses."""
        numbers = request.query_params.getlist("analysis")
        pair = [
            analysis
            for number in dict.fromkeys(numbers)
            if number.isdecimal()
            and (analysis := self.workspace.analyses.get(int(number))) is not None
            and analysis.selects
        ]
        if len(pair) != 2:
            return self.show_error(400, "Select two finished analyses to compare.")
        return self.render("compare", pair=pair, comparison=compare_analyses(*pair))


def _to_sentence(text: str) -> str:
    """Capitalise a text and add a full stop; other letters are unchanged."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _shorten_number(text: str) -> str:
    return f"{float(text):.4g}"


def _read_imputed(path: Path) -> list[dict[str, str]]:
    """Return the first imputed values."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [*itertools.islice(csv.DictReader(file), MAX_IMPUTED)]


def format_duration(seconds: float) -> str:
    """Return a duration in words."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


def _find(items: dict[int, Item], request: Request) -> Item:
    try:
        return items[request.path_params["number"]]
    except KeyError:
        raise HTTPException(404) from None


async def _in_thread(work: Callable[[], Response]) -> Response:
    import asyncio

    return await asyncio.to_thread(work)


def _progress(job: Job) -> Response:
    progress = job.progress
    return JSONResponse(
        {
            "active": job.is_active,
            "stage": progress.stage,
            "done": progress.done,
            "total": progress.total,
            "seconds": round(job.seconds, 1),
            "remaining": progress.remaining(),
        }
    )


def _stem(analysis: Analysis) -> str:
    return analysis.table.path.name.partition(".")[0] or "table"


def _attachment(path: Path, name: str) -> Response:
    media_type = _TYPES.get(path.suffix, "application/octet-stream")
    disposition = f"attachment; filename*=utf-8''{quote(name, safe='')}"
    headers = {
        "Content-Disposition": disposition,
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return FileResponse(path, media_type=media_type, headers=headers)


def create_application(
    workspace: Workspace,
    gate: Gate,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    stop: Callable[[], None] = lambda: None,
) -> ASGIApp:
    """Return the application of the page."""
    pages = Pages(workspace, gate, max_bytes, stop)

    async def show_http_error(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        messages = {
            404: "There is no such page. The table or analysis may have been removed.",
            405: "This address does not accept requests of this type.",
        }
        return pages.show_error(status, messages.get(status, "The request is invalid."))

    async def show_upload_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, UploadError)
        return pages.show_error(error.status, error.message)

    async def show_unknown_error(request: Request, error: Exception) -> Response:
        # The server prints the traceback; the page shows no details.
        return pages.show_error(
            500,
            "An unexpected error occurred. Details are in the terminal that runs `prosparse "
            "serve`.",
        )

    handlers: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
        HTTPException: show_http_error,
        UploadError: show_upload_error,
        Exception: show_unknown_error,
    }
    public = ("/static/page.css", "/login") if gate.password else ()
    application = Starlette(routes=pages.routes(), exception_handlers=handlers)
    application.router.redirect_slashes = False
    return AccessControl(application, gate, public)  # outermost, also of errors


__all__ = ["Pages", "TableFile", "create_application"]
