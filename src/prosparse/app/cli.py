"""The command, put together: ``prosparse select | fit | report | demo | reproduce``.

What ``select``, ``fit`` and ``report`` do, and their options, is in `commands`; ``reproduce`` and
``demo`` have a file each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import commands
from . import demo as demonstration
from .reproduce import reproduce

app = typer.Typer(
    help="Sparse probabilistic PCA: PCA that chooses its variables.",
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def about() -> None:
    """Sparse probabilistic PCA: PCA that chooses its variables.

    Start with: prosparse select FILE
    """


commands.add_to(app)


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(help="Where pictures and report go.")] = Path(
        "demo-output"
    ),
) -> None:
    """Fit built-in data, say what was chosen, draw why, and write a report."""
    with commands.told():
        demonstration.main([str(folder)])


app.command()(reproduce)
