"""The built site: every link inside it leads somewhere, and nothing is fetched from elsewhere.

`make docs` builds it, `make test` does so before the tests. Links to the outside are checked for
their form only, since a build needs no network.
"""

import re
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

import pytest

import prosparse
from pages import ROOT

SITE = ROOT / "build" / "docs"
# What makes a browser load something, as opposed to a link that a reader may follow.
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}
NAVIGATION = {"canonical", "next", "prev", "search", "index", "author", "help", "copyright"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads, self.missing_alt = set(), [], [], []
        self.formulas = 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        self.formulas += tag == "math"
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        for name in ("src", "href"):
            relation = set((found.get("rel") or "").split())
            if (tag, name) in LOADED and found.get(name) and not relation & NAVIGATION:
                self.loads.append(found[name])
        if tag == "img" and "alt" not in found:
            self.missing_alt.append(found.get("src"))


@pytest.fixture(scope="module")
def pages():
    if not (SITE / "index.html").is_file():
        pytest.skip("the site is not built: make docs")
    return {
        path.relative_to(SITE).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in SITE.rglob("*.html")
    }


def _inside(page, link):
    """The file of the site that a link of a page names, and the place in it."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    target = PurePosixPath(page).parent / unquote(parts.path) if parts.path else PurePosixPath(page)
    whole = (SITE / target).resolve().relative_to(SITE.resolve()).as_posix()
    return whole, unquote(parts.fragment)


def test_links_inside_lead_somewhere(pages):
    broken, checked = [], 0
    for name, page in pages.items():
        for link in page.links + page.loads:
            if (target := _inside(name, link)) is None:
                continue
            path, place = target
            checked += 1
            if not (SITE / path).is_file():
                broken.append(f"{name}: {link}: no such file")
            elif place and path in pages and place not in pages[path].ids:
                broken.append(f"{name}: {link}: no such place in the page")
    print(f"{checked} links inside the site")
    assert checked > 1000
    assert not broken


def test_links_to_the_outside_are_well_formed(pages):
    outside = sorted(
        {link for page in pages.values() for link in page.links if urlsplit(link).scheme}
    )
    print(f"{len(outside)} links to the outside, not followed: there is no network here")
    print(*outside, sep="\n")
    for link in outside:
        parts = urlsplit(link)
        assert parts.scheme in {"https", "mailto"}, link
        assert parts.scheme == "mailto" or re.fullmatch(r"[a-z0-9.-]+\.[a-z]{2,}", parts.netloc), (
            link
        )
        assert not re.search(r"\s", link), link


def test_nothing_is_loaded_from_elsewhere(pages):
    for name, page in pages.items():
        for link in page.loads:
            parts = urlsplit(link)
            assert parts.scheme in {"", "data"}, f"{name}: {link}"
            assert not parts.netloc, f"{name}: {link}"
    for sheet in SITE.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", text), sheet


def test_formulas_are_in_the_pages(pages):
    for name in (
        "gsppca",
        "sca",
        "sppca",
        "empca",
        "spinyregressor",
        "spinyclassifier",
        "baselines",
    ):
        assert pages[f"methods/{name}.html"].formulas >= 1, name


def test_pictures_have_words(pages):
    assert not [(name, page.missing_alt) for name, page in pages.items() if page.missing_alt]


def test_every_public_name_has_a_place_in_the_reference(pages):
    wanted = (
        "anndata",
        "baselines",
        "datasets",
        "interpretation",
        "metrics",
        "plot",
        "report",
        "stability",
        "tables",
    )
    modules = [name for name in wanted if find_spec(f"prosparse.{name}")]
    public = {f"prosparse.{name}" for name in prosparse.__all__ if name[0] != "_"}
    for module in modules:
        space = import_module(f"prosparse.{module}")
        names = getattr(space, "__all__", None) or [
            name
            for name, value in vars(space).items()
            if name[0] != "_" and getattr(value, "__module__", "") == space.__name__
        ]
        public |= {f"prosparse.{module}.{name}" for name in names}
    public -= {f"prosparse.{module}" for module in modules}
    reference = [page.ids for name, page in pages.items() if name.startswith("api/")]
    missing = sorted(name for name in public if not any(name in ids for ids in reference))
    assert not missing, "add them to docs/api/index.rst"
