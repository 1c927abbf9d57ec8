"""Command-line interface: ``prosparse check | select | panel | ...``.

Commands are imported on first use, so that ``prosparse --help`` does not import NumPy and
scikit-learn.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from .._version import __version__

# Summaries of the commands.
COMMANDS = {
    "check": "Check a table before it is analysed.",
    "select": "Select the variables that share variance, and write a report.",
    "panel": "Select a few variables that predict all others.",
    "regress": "Select the variables that predict a response.",
    "fit": "Fit a model and save it to a file.",
    "apply": "Apply a saved model to new rows: scores, predictions and drift.",
    "report": "Write the report of a saved model.",
    "demo": "Analyse built-in data, and write plots and a report.",
    "serve": "Analyse tables on a local page in the browser.",
}


@cache
def load_commands() -> Any:
    """Build the group of all commands with their options."""
    from .commands import add_to
    from .serve.command import add_to as add_page

    group = typer.Typer()
    add_to(group)
    add_page(group)
    return typer.main.get_command(group)


@cache
def _load_page() -> Any:
    """Build the command ``serve`` without importing the other commands."""
    from .serve.command import add_to

    single = typer.Typer()
    add_to(single)
    return typer.main.get_command(single)


def _hide_flag_types(parameters: list[Any]) -> list[Any]:
    """Remove the value type of flags from the help."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


class Command(TyperCommand):
    """Command whose help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _hide_flag_types(super().get_params(ctx))


class LazyGroup(TyperGroup):
    """Group of commands that are imported on first use."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, text in COMMANDS.items():
            self.add_command(TyperCommand(name, help=text))

    def get_params(self, ctx: Any) -> list[Any]:
        return _hide_flag_types(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and Path(args[0]).is_file():
            ctx.fail(f"{args[0]} is a file, not a command: use prosparse select {args[0]}")
        name, command, rest = super().resolve_command(ctx, args)
        if name == "serve":
            return name, _load_page(), rest
        return name, load_commands().get_command(ctx, name) if name in COMMANDS else command, rest


app = typer.Typer(cls=LazyGroup, no_args_is_help=True)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"prosparse {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Sparse PCA with false discovery rate control.

    Start with: prosparse select FILE
    """
