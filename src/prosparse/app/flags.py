"""Flags in the help of commands: they take no value, and none is shown for them."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


def plain_flags(parameters: list[Any]) -> list[Any]:
    """The options of a command, of which flags have nothing in place of a value."""
    for one in parameters:
        if getattr(one, "is_flag", False) and one.metavar is None:
            one.metavar = ""
    return parameters


class Command(TyperCommand):
    """A command whose flags are shown without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        return plain_flags(super().get_params(ctx))
