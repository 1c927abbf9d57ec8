"""Command-line interface: ``prosparse select | panel | regress | fit | report | demo``.

The module of a command is imported when the command is called, so that ``prosparse --help`` does
not import NumPy and scikit-learn.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from .._version import __version__
from .flags import hide_flag_types


class Entry(NamedTuple):
    """Module and summary of a command."""

    module: str  # module of this package, whose ``add_to(app)`` registers the command
    help: str


COMMANDS = {
    "select": Entry("commands", "Select the variables that share variance, and write a report."),
    "panel": Entry("commands", "Select a few variables that predict all others."),
    "regress": Entry("commands", "Select the variables that predict a response."),
    "fit": Entry("commands", "Fit a model and save it to a file."),
    "report": Entry("commands", "Write the report of a saved model."),
    "demo": Entry("commands", "Analyse built-in data, and write plots and a report."),
}


@cache
def load_commands(module: str) -> Any:
    """Return the commands of a module with their options."""
    group = typer.Typer()
    group.callback()(about)  # makes a group of a single command
    import_module(f".{module}", __package__).add_to(group)
    return typer.main.get_command(group)


class LazyGroup(TyperGroup):
    """Group of commands whose modules are imported when they are called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.help))

    def get_params(self, ctx: Any) -> list[Any]:
        return hide_flag_types(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and Path(args[0]).is_file():
            ctx.fail(f"{args[0]} is a file, not a command: use prosparse select {args[0]}")
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            command = load_commands(COMMANDS[name].module).get_command(ctx, name)
        return name, command, rest


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
)


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
