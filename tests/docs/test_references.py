"""Papers cited in the code and on the pages are in the list of references and in the BibTeX."""

import re

import pytest

from pages import PAGES, ROOT

PAGE = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
BIBTEX = (ROOT / "references.bib").read_text(encoding="utf-8")
KEY = re.compile(r"\[([A-Z]{1,4}\d\d)\]")
EXPERIMENT = re.compile(r"E\d\d")  # [E12] is a link to an experiment
REQUIRED_FIELDS = {
    "article": {"author", "title", "journal", "volume", "year"},
    "incollection": {"author", "title", "booktitle", "publisher", "year"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "book": {"author", "title", "publisher", "year"},
    "manual": {"author", "title", "note", "year"},
}


def normalise(title):
    """Return a title in lower case without braces and punctuation."""
    return re.sub(r"[^a-z0-9]+", " ", title.lower().replace("{", "").replace("}", "")).strip()


def listed_papers():
    """Return the title and the DOI, or None, of each key on the page."""
    papers = {}
    for key, text in re.findall(r"^\[(\w+)\]\n: (.*?)(?=\n\n|\Z)", PAGE, re.S | re.M):
        title = re.search(r"\*(.*?)\.\*", text, re.S).group(1)
        doi = re.search(r"<https://doi\.org/(.*?)>", text)
        papers[key] = (normalise(title), doi and doi.group(1))
    return papers


def bibtex_entries():
    """Return the fields of the BibTeX entries by title."""
    entries = {}
    for kind, body in re.findall(r"^@(\w+)\{\w+,\n(.*?)^\}", BIBTEX, re.S | re.M):
        fields = dict(re.findall(r"^ +(\w+) += \{(.*)\},$", body, re.M))
        entries[normalise(fields["title"])] = fields | {"kind": kind}
    return entries


def cited_keys():
    """Return the keys in the code and on the pages, each with one file that cites it."""
    cited = {}
    for path in [*(ROOT / "src").rglob("*.py"), *PAGES]:
        if path.name != "references.md":
            for key in KEY.findall(path.read_text(encoding="utf-8")):
                if not EXPERIMENT.fullmatch(key):
                    cited.setdefault(key, str(path.relative_to(ROOT)))
    return cited


def test_cited_papers_are_listed():
    assert not {key: path for key, path in cited_keys().items() if key not in listed_papers()}
    assert len(listed_papers()) > 30


def test_page_and_bibtex_contain_the_same_papers():
    assert {title for title, _ in listed_papers().values()} == set(bibtex_entries())


@pytest.mark.parametrize("key", listed_papers())
def test_entries_are_complete(key):
    title, doi = listed_papers()[key]
    fields = bibtex_entries()[title]
    assert REQUIRED_FIELDS[fields["kind"]] <= set(fields)
    assert fields["year"][-2:] == key[-2:]
    if "doi" in fields:
        assert fields["doi"] == doi


def test_links_to_papers_have_anchors():
    anchors = set(re.findall(r"^\((\w+)\)=$", PAGE, re.M))
    for page in PAGES:
        for anchor in re.findall(r"\]\(#(\w+\d\d)\)", page.read_text(encoding="utf-8")):
            assert anchor in anchors, f"{page}: {anchor}"


def test_bibliography_of_the_paper_contains_exactly_its_citations():
    paper, bibtex = ((ROOT / f"paper.{end}").read_text(encoding="utf-8") for end in ("md", "bib"))
    entries = re.findall(r"^@\w+\{.*?^\}\n", bibtex, re.S | re.M)
    assert all(entry in BIBTEX for entry in entries)
    keys = {re.match(r"@\w+\{(\w+),", entry)[1] for entry in entries}
    assert keys == set(re.findall(r"@(\w+)", paper))
    for figure in re.findall(r"\]\(([\w/.]+\.png)\)", paper):
        assert (ROOT / figure).is_file()
