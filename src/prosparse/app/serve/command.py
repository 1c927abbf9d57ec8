"""Command ``serve``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, NoReturn

import typer

PASSWORD = "PROSPARSE_PASSWORD"

_EXAMPLES = """
Examples:

\b
  prosparse serve
  prosparse serve genes.csv
  prosparse serve --no-browser --port 8000
"""


def serve(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Table to start with.")
    ] = None,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port. Default: any free port.")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address without opening a browser.")
    ] = False,
    memory: Annotated[
        float | None,
        typer.Option(
            metavar="GIB",
            min=0.5,
            help="Memory limit of an analysis. Default: three quarters of the memory.",
        ),
    ] = None,
    max_upload: Annotated[
        float, typer.Option(metavar="GIB", min=0.001, help="Maximum size of an uploaded file.")
    ] = 4.0,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help=f"Address to bind to. Addresses other than loopback require a password in "
            f"{PASSWORD} and are not encrypted.",
        ),
    ] = "127.0.0.1",
) -> None:
    """Analyse tables on a local page in the browser."""
    try:
        from .access import MIN_PASSWORD_LENGTH, is_loopback
        from .jobs import available_memory
        from .server import run_server
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "python_multipart", "jinja2"):
            raise
        _refuse(f"the page requires {error.name}: pip install 'prosparse[serve]'")
    if file is not None and not file.is_file():
        _refuse(f"{file}: the file does not exist.", 1)
    password = None
    if not is_loopback(host):
        password = os.environ.get(PASSWORD, "")
        if len(password) < MIN_PASSWORD_LENGTH:
            _refuse(
                f"--host {host} can be reached from other machines: set the environment variable "
                f"{PASSWORD} to a password of at least {MIN_PASSWORD_LENGTH} characters."
            )
    try:
        run_server(
            file,
            host=host,
            port=port,
            password=password,
            memory=available_memory() if memory is None else int(memory * 2**30),
            max_bytes=int(max_upload * 2**30),
            open_browser=not no_browser,
        )
    except OSError as error:
        _refuse(f"--host {host} --port {port}: {error.strerror or error}.", 1)


def _refuse(message: str, code: int = 2) -> NoReturn:
    typer.echo(f"prosparse: {message}", err=True)
    raise typer.Exit(code)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    from ..cli import Command

    app.command(cls=Command, epilog=_EXAMPLES)(serve)
