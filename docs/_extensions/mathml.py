"""Mathematics as MathML, made while the site is built: readers need no script and no network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)


def _mathml(node: nodes.Element, display: str) -> str:
    text = node.astext()
    try:
        return convert(text, display=display)
    except Exception as error:  # whatever the converter raises, the build must say where
        reason = f"{type(error).__name__}: {error}"
        logger.warning("this formula cannot be shown: %s (%s)", text, reason, location=node)
        return f"<code>{nodes.unescape(text)}</code>"


def inline(writer: Any, node: nodes.Element) -> None:
    writer.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.Element) -> None:
    writer.body.append(writer.starttag(node, "div", CLASS="math-block"))
    writer.body.append(_mathml(node, "block"))
    writer.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
