"""Directive ``command-options``: the commands of ``prosparse`` and their options, as tables.

The tables are built from the command itself while the site is built, so that they cannot differ
from ``prosparse COMMAND --help``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command

from prosparse.app.cli import app as application

ARGUMENTS = "Arguments"
OPTIONS = "Options"


def commands() -> Iterator[tuple[str, Any]]:
    """Yield the name of each command and the command with all its options."""
    group = get_command(application)
    context = group.context_class(group, info_name="prosparse")
    for name in group.list_commands(context):
        yield name, group.resolve_command(context, [name])[1]


def title_of(parameter: Any) -> str:
    """Return the heading under which ``--help`` lists a parameter."""
    default = ARGUMENTS if parameter.param_type_name == "argument" else OPTIONS
    return getattr(parameter, "rich_help_panel", None) or default


def spelling_of(parameter: Any) -> str:
    """Return how a parameter is typed, with its metavariable."""
    if parameter.param_type_name == "argument":
        return parameter.metavar or parameter.name.upper()
    names = ", ".join(sorted(parameter.opts, key=len, reverse=True))
    if parameter.is_flag:
        return names
    return f"{names} {parameter.metavar or 'VALUE'}"


def table(rows: list[tuple[str, str]]) -> nodes.table:
    """Return a table of two columns, the first in monospace."""
    group = nodes.tgroup(cols=2)
    group += [nodes.colspec(colwidth=width) for width in (35, 65)]
    body = nodes.tbody()
    for spelling, text in rows:
        left = nodes.entry("", nodes.paragraph("", "", nodes.literal(spelling, spelling)))
        right = nodes.entry("", nodes.paragraph(text, text))
        body += nodes.row("", left, right)
    group += body
    return nodes.table("", group, classes=["command-options"])


class CommandOptions(SphinxDirective):
    """Insert one section per command."""

    def run(self) -> list[nodes.Node]:
        sections: list[nodes.Node] = []
        for name, command in commands():
            heading = f"prosparse {name}"
            section = nodes.section(ids=[f"prosparse-{name}"])
            section += nodes.title("", "", nodes.literal(heading, heading))
            summary = inspect.cleandoc(command.help or "").partition("\n\n")[0]
            section += nodes.paragraph(summary, " ".join(summary.split()))
            by_title: dict[str, list[tuple[str, str]]] = {}
            for parameter in command.params:
                if not getattr(parameter, "hidden", False):
                    row = (spelling_of(parameter), parameter.help or "")
                    by_title.setdefault(title_of(parameter), []).append(row)
            for title, rows in by_title.items():
                section += nodes.rubric("", title)
                section += table(rows)
            sections.append(section)
        return sections


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("command-options", CommandOptions)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
