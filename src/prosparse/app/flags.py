"""Help of commands without a value type for flags."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


def hide_flag_types(parameters: list[Any]) -> list[Any]:
    """Remove the value type of flags from the help."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


class Command(TyperCommand):
    """Command whose flags are shown without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        return hide_flag_types(super().get_params(ctx))
