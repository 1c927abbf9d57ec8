"""Papers: what the code and the pages cite stands in the list of references, and in the BibTeX."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
BIBTEX = (ROOT / "references.bib").read_text(encoding="utf-8")
KEY = re.compile(r"\[([A-Z]{1,4}\d\d)\]")
EXPERIMENTS = re.compile(r"E\d\d")  # [E12] on a page is an experiment's link


def plain(title):
    """A title without capitals, braces and signs."""
    return re.sub(r"[^a-z0-9]+", " ", title.lower().replace("{", "").replace("}", "")).strip()


def listed():
    """The entries of the page: key, title and DOI, which some have not."""
    found = {}
    for key, text in re.findall(r"^\[(\w+)\]\n: (.*?)(?=\n\n|\Z)", PAGE, re.S | re.M):
        title = re.search(r"\*(.*?)\.\*", text, re.S).group(1)
        doi = re.search(r"<https://doi\.org/(.*?)>", text)
        found[key] = (plain(title), doi and doi.group(1))
    return found


def entries():
    """The entries of the BibTeX file by title."""
    found = {}
    for kind, body in re.findall(r"^@(\w+)\{\w+,\n(.*?)^\}", BIBTEX, re.S | re.M):
        fields = dict(re.findall(r"^ +(\w+) += \{(.*)\},$", body, re.M))
        found[plain(fields["title"])] = fields | {"kind": kind}
    return found


def cited():
    """Keys in the code and on the pages, and where."""
    places = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    found = {}
    for path in places:
        if path.name != "references.md":
            for key in KEY.findall(path.read_text(encoding="utf-8")):
                if not EXPERIMENTS.fullmatch(key):
                    found.setdefault(key, str(path.relative_to(ROOT)))
    return found


def test_what_is_cited_is_listed():
    missing = {key: place for key, place in cited().items() if key not in listed()}
    assert not missing
    assert len(listed()) > 30


def test_the_page_and_the_bibtex_have_the_same_papers():
    assert {title for title, _ in listed().values()} == set(entries())


@pytest.mark.parametrize("key", listed())
def test_an_entry_is_whole(key):
    title, doi = listed()[key]
    fields = entries()[title]
    wanted = {
        "article": {"author", "title", "journal", "volume", "year"},
        "inproceedings": {"author", "title", "booktitle", "year"},
        "book": {"author", "title", "publisher", "year"},
    }
    assert wanted[fields["kind"]] <= set(fields)
    assert fields["year"][-2:] == key[-2:]
    if "doi" in fields:
        assert fields["doi"] == doi


def test_links_to_papers_have_their_place():
    anchors = set(re.findall(r"^\((\w+)\)=$", PAGE, re.M))
    for page in (ROOT / "docs").rglob("*.md"):
        for anchor in re.findall(r"\]\(#(\w+\d\d)\)", page.read_text(encoding="utf-8")):
            assert anchor in anchors, f"{page}: {anchor}"


def test_the_paper_cites_what_is_listed():
    """Its BibTeX is part of ours, word for word, and nothing in it is uncited."""
    paper, own = ((ROOT / f"paper.{end}").read_text(encoding="utf-8") for end in ("md", "bib"))
    entries_of_paper = re.findall(r"^@\w+\{.*?^\}\n", own, re.S | re.M)
    assert all(entry in BIBTEX for entry in entries_of_paper)
    keys = {re.match(r"@\w+\{(\w+),", entry)[1] for entry in entries_of_paper}
    assert keys == set(re.findall(r"@(\w+)", paper))
    for figure in re.findall(r"\]\((docs/.*?)\)", paper):
        assert (ROOT / figure).is_file()
