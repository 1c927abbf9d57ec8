"""Restrict the reference to members of prosparse, and resolve bare names in docstrings."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

PACKAGE = "prosparse"
TYPE_OR_SHAPE = re.compile(r"(?<=\w : )[^`]*$|\([^()`]*\)")
NAME_WITH_UNDERSCORE = re.compile(r"(\w+)_(?!\w)")


def skip(app: Any, what: str, name: str, obj: Any, skipped: bool, options: Any) -> bool | None:
    """Skip members inherited from other libraries, and fields of named tuples.

    The docstring of a named tuple describes its fields.
    """
    if type(obj).__name__ == "_tuplegetter":
        return True
    function = obj.fget if isinstance(obj, property) else obj
    function = getattr(function, "__func__", function)
    module = getattr(function, "__module__", None)
    if what == "class" and callable(function) and not str(module).startswith(PACKAGE):
        return True
    return None


def resolve(app: Any, env: Any, node: Any, child: nodes.Node) -> Any:
    """Resolve a bare name, such as `EMPCA`, if exactly one documented object has it."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target:
        return None
    domain = env.get_domain("py")
    found = {name for name in domain.objects if name == target or name.endswith("." + target)}
    found = {name for name in found if not domain.objects[name].aliased}
    if len(found) != 1:
        return None
    entry = domain.objects[found.pop()]
    uri = app.builder.get_relative_uri(node["refdoc"], entry.docname)
    return nodes.reference("", "", child, internal=True, refuri=f"{uri}#{entry.node_id}")


def escape(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape trailing underscores in types and shapes, which reStructuredText reads as links."""
    for k, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[k] = TYPE_OR_SHAPE.sub(
                lambda found: NAME_WITH_UNDERSCORE.sub(r"\1\\_", found[0]), line
            )


def setup(app: Any) -> dict[str, Any]:
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", escape, priority=400)  # numpydoc comes after
    app.connect("missing-reference", resolve)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
