"""Render mathematics as MathML during the build, so that pages need no script and no network."""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)

# Corrections of the converter's output: relations are operators, the logarithm is followed by a
# space, names of functions are identifiers, and limits of min and max stand below.
CORRECTIONS = (
    (r"<mi>&#x0007E;</mi>", "<mo>&#x223C;</mo>"),
    (r"<mi>log</mi>(?!<mo[^>]*>&#x00028;)", '<mi>log</mi><mspace width="0.17em" />'),
    (r"<mo>(diag|tr|soft|sign)</mo>", r"<mi>\1</mi>"),
)
UNDER = (
    r"<msub><mo>(min|max)</mo>(<mrow>.*?</mrow>|<mi>.</mi>)</msub>",
    r"<munder><mo>\1</mo>\2</munder>",
)


def _mathml(node: nodes.Element, display: str) -> str:
    text = node.astext()
    try:
        formula = convert(text, display=display)
        if "\\" in formula:
            raise ValueError("unknown command")
    except Exception as error:  # the converter raises many types
        reason = f"{type(error).__name__}: {error}"
        logger.warning("cannot convert the formula %s (%s)", text, reason, location=node)
        return f"<code>{html.escape(text)}</code>"
    for pattern, replacement in (*CORRECTIONS, UNDER) if display == "block" else CORRECTIONS:
        formula = re.sub(pattern, replacement, formula)
    return formula


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
