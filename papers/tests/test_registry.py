"""Quick runs of all experiments, and their pages."""

import json
import math
import shutil
from pathlib import Path

import pytest

from papers import records
from papers.base import Claim, PageTable, Result, Row, mean_row
from papers.data import SOURCES, Data
from papers.registry import UnknownExperimentError, experiment, experiments

# Number of claims that do not hold; the results state the reasons.
N_FAILED_CLAIMS = {"E15": 1, "E34": 1}


@pytest.fixture(scope="session")
def data():
    return Data()


@pytest.mark.parametrize("name", list(experiments()))
def test_quick(name, data, tmp_path, request):
    if experiments()[name].data:
        request.getfixturevalue("data_folder")
    record = records.run(name, True, data, tmp_path)
    assert record["rows"]
    for row in record["rows"]:
        assert math.isfinite(row["ours"]), row
    failed = [claim["text"] for claim in record["claims"] if not claim["holds"]]
    assert len(failed) == N_FAILED_CLAIMS.get(name, 0), failed
    for figure in record["figures"]:
        assert (tmp_path / figure).read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / f"{name}.json").read_text()) == record


def test_names_titles_and_sources():
    known = experiments()
    assert {f"E{k}" for k in range(1, 16)} <= set(known)
    for entry in known.values():
        assert set(entry.data) <= set(SOURCES)
    assert experiment("e3") is not None
    with pytest.raises(UnknownExperimentError, match=r"Available: E1 \(Introductory"):
        experiment("E99")


def test_stored_pages_match_the_stored_records(tmp_path):
    stored = Path(__file__).parents[1] / "results"
    paths = list(stored.glob("*.json"))
    assert {path.stem for path in paths} == set(experiments())
    for path in paths:
        record = json.loads(path.read_text())
        assert not record["quick"], path
        for figure in record["figures"]:
            assert (stored / figure).is_file()
        shutil.copy(path, tmp_path)
    records.write_pages(tmp_path)
    for page in tmp_path.glob("*.md"):
        assert page.read_text() == (stored / page.name).read_text(), page.name


def test_page_shows_results_and_published_values(tmp_path):
    rows = [
        mean_row("some score", [0.9, 1.0, 1.1], 0.97, "a note"),
        Row("another", 12345.678),
        Row("nothing", float("nan")),
    ]
    claims = [Claim("first holds", True), Claim("second does not", False, "because")]
    result = Result(rows, claims, [tmp_path / "plot.png"], "0 to 2", "A remark.")
    record = records.record_of("E1", result, True, 1.23)
    (tmp_path / "E1.json").write_text(json.dumps(record))
    index = records.write_pages(tmp_path).read_text()
    assert "1 of 2 claims hold" in index
    assert "- [E1](E1.md): second does not (because)" in index
    page = (tmp_path / "E1.md").read_text()
    assert "| some score | 1 ± 0.058 | 0.97 | +0.03 | a note |" in page
    assert "| another | 12346 |  |  |  |" in page
    assert "| nothing | none |" in page
    assert "Quick run" in page
    assert "![Introductory example (Fig. 1)](plot.png)" in page
    assert "Seeds: 0 to 2. Run time: 1.2 s." in page


def test_page_shows_tables_instead_of_rows(tmp_path):
    table = PageTable("A title", ("situation", "rate"), [("Gaussian", "0.05"), ("outliers", "0.3")])
    result = Result([Row("some rate", 0.05)], [], [], "0", "", (table,))
    record = records.record_of("E1", result, False, 1.0)
    assert json.loads(json.dumps(record)) == record
    page = records.section(record)
    assert "## A title\n\n| situation | rate |\n|---|---|\n| Gaussian | 0.05 |\n" in page
    assert "some rate" not in page
    assert record["rows"][0]["quantity"] == "some rate"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.98765, "0.988"), (12.345, "12.35"), (-123.45, "-123.5"), (1e5, "100000")],
)
def test_cells_have_four_digits(value, text):
    assert records.cell(value) == text
