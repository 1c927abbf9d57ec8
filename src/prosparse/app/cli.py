"""The command, put together: ``prosparse select | panel | regress | fit | report | ...``.

What a command does, and its options, is in the module that `COMMANDS` names; that is imported when
the command is called, so that ``prosparse --help`` need not wait for NumPy and scikit-learn.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from .._version import __version__
from .flags import plain_flags


class Entry(NamedTuple):
    """Where a command is, and what it does in one sentence."""

    module: str  # of this package; its ``add_to(app)`` registers the command
    help: str


COMMANDS = {
    "select": Entry(
        "commands",
        "Which variables of a table carry its structure, how many, and why: files and a report.",
    ),
    "panel": Entry(
        "commands",
        "The few variables from which all others can be told: markers, sensors, questions.",
    ),
    "regress": Entry(
        "commands", "The few variables that predict a column, and their coefficients."
    ),
    "fit": Entry("commands", "Fit a model and save it, and nothing else."),
    "report": Entry(
        "commands",
        "Write the page of results again; a table is read as the model's own was, unless told.",
    ),
    "demo": Entry(
        "commands", "Fit built-in data, say what was chosen, draw why, and write a report."
    ),
}


@cache
def loaded(module: str) -> Any:
    """The commands of a module, with all their options."""
    part = typer.Typer()
    part.callback()(about)  # a single command would be no group
    import_module(f".{module}", __package__).add_to(part)
    return typer.main.get_command(part)


class WhenCalled(TyperGroup):
    """Commands that are known by name and by one sentence until one of them is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, known in COMMANDS.items():
            self.add_command(TyperCommand(name, help=known.help))

    def get_params(self, ctx: Any) -> list[Any]:
        return plain_flags(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and Path(args[0]).is_file():
            ctx.fail(f"{args[0]} is a file, not a command: prosparse select {args[0]}")
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            command = loaded(COMMANDS[name].module).get_command(ctx, name)
        return name, command, rest


app = typer.Typer(
    cls=WhenCalled,
    no_args_is_help=True,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"prosparse {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say which, and stop."),
    ] = False,
) -> None:
    """Sparse probabilistic PCA: PCA that chooses its variables.

    Start with: prosparse select FILE
    """
