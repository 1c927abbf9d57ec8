"""Links inside the built site are valid, and pages load nothing from other servers.

`make test-docs` builds the site first. Links to other servers are checked for their form only.
"""

import re
from html.parser import HTMLParser
from importlib import import_module
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

import pytest

import prosparse
from pages import DOCS, ROOT

SITE = ROOT / "build" / "docs"
# Attributes that make a browser load a resource, in contrast to links that a reader may follow.
LOADING = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("link", "href"),
}
NAVIGATION = {"canonical", "next", "prev", "search", "index", "author", "help", "copyright"}
PUBLIC_MODULES = (
    "anndata",
    "datasets",
    "interpretation",
    "knockoffs",
    "metrics",
    "plot",
    "report",
    "stability",
    "tables",
)


class Page(HTMLParser):
    """Anchors, links, loaded resources and formulas of a page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.resources, self.without_alt = set(), [], [], []
        self.n_formulas = 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        self.n_formulas += tag == "math"
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        for name in ("src", "href"):
            relation = set((values.get("rel") or "").split())
            if (tag, name) in LOADING and values.get(name) and not relation & NAVIGATION:
                self.resources.append(values[name])
        if tag == "img" and "alt" not in values:
            self.without_alt.append(values.get("src"))


@pytest.fixture(scope="module")
def pages():
    if not (SITE / "index.html").is_file():
        pytest.skip("the site is not built; run make docs")
    return {
        path.relative_to(SITE).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in SITE.rglob("*.html")
    }


def internal_target(page, link):
    """Return the file and the anchor that a link names, or None for links to other servers."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = PurePosixPath(page).parent / unquote(parts.path) if parts.path else PurePosixPath(page)
    path = (SITE / target).resolve().relative_to(SITE.resolve()).as_posix()
    return path, unquote(parts.fragment)


def test_internal_links_are_valid(pages):
    broken, n_checked = [], 0
    for name, page in pages.items():
        for link in page.links + page.resources:
            if (target := internal_target(name, link)) is None:
                continue
            path, anchor = target
            n_checked += 1
            if not (SITE / path).is_file():
                broken.append(f"{name}: {link}: no such file")
            elif anchor and path in pages and anchor not in pages[path].anchors:
                broken.append(f"{name}: {link}: no such anchor")
    assert n_checked > 1000
    assert not broken


def test_external_links_are_well_formed(pages):
    for link in {link for page in pages.values() for link in page.links if urlsplit(link).scheme}:
        parts = urlsplit(link)
        assert parts.scheme in {"https", "mailto"}, link
        assert parts.scheme == "mailto" or re.fullmatch(r"[a-z0-9.-]+\.[a-z]{2,}", parts.netloc), (
            link
        )
        assert not re.search(r"\s", link), link


def test_pages_load_nothing_from_other_servers(pages):
    for name, page in pages.items():
        for link in page.resources:
            parts = urlsplit(link)
            assert parts.scheme in {"", "data"}, f"{name}: {link}"
            assert not parts.netloc, f"{name}: {link}"
    for sheet in SITE.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", text), sheet


def test_formulas_are_rendered(pages):
    for source in (DOCS / "methods").glob("*.md"):
        if re.search(r"^\$\$$", source.read_text(encoding="utf-8"), re.M):
            assert pages[f"methods/{source.stem}.html"].n_formulas >= 1, source


def test_images_have_alternative_text(pages):
    assert not [(name, page.without_alt) for name, page in pages.items() if page.without_alt]


def test_reference_lists_every_command(pages):
    from prosparse.app.cli import COMMANDS

    assert {f"prosparse-{name}" for name in COMMANDS} <= pages["command.html"].anchors


def test_reference_contains_every_public_name(pages):
    public = {f"prosparse.{name}" for name in prosparse.__all__ if name[0] != "_"}
    for module in PUBLIC_MODULES:
        namespace = import_module(f"prosparse.{module}")
        names = getattr(namespace, "__all__", None) or [
            name
            for name, value in vars(namespace).items()
            if name[0] != "_" and getattr(value, "__module__", "") == namespace.__name__
        ]
        public |= {f"prosparse.{module}.{name}" for name in names}
    public -= {f"prosparse.{module}" for module in PUBLIC_MODULES}
    reference = [page.anchors for name, page in pages.items() if name.startswith("api/")]
    missing = sorted(name for name in public if not any(name in anchors for anchors in reference))
    assert not missing, "add them to docs/api/index.rst"
