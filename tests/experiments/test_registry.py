"""Every experiment in short: finite rows, the papers' findings, figures, one page."""

import json
import math
import shutil
from pathlib import Path

import pytest

from prosparse.experiments import report
from prosparse.experiments.base import Claim, Result, Row, mean_row
from prosparse.experiments.data import SOURCES, Data
from prosparse.experiments.registry import UnknownExperimentError, experiment, experiments

# What a paper found and is not found here, with the reason beside it in the results.
NOT_FOUND = {"E15": 1}


@pytest.fixture(scope="session")
def data():
    return Data()


@pytest.mark.parametrize("name", list(experiments()))
def test_quick(name, data, tmp_path, request):
    if experiments()[name].data:
        request.getfixturevalue("data_folder")  # or skip, in words
    record = report.run(name, True, data, tmp_path)
    assert record["rows"]
    for row in record["rows"]:
        assert math.isfinite(row["ours"]), row
    failed = [claim["text"] for claim in record["claims"] if not claim["holds"]]
    assert len(failed) == NOT_FOUND.get(name, 0), failed
    for figure in record["figures"]:
        assert (tmp_path / "results" / figure).read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "results" / f"{name}.json").read_text()) == record


def test_names_titles_and_sources():
    known = experiments()
    assert {f"E{k}" for k in range(1, 16)} <= set(known)
    for one in known.values():
        assert set(one.data) <= set(SOURCES)
    assert experiment("e3") is not None
    with pytest.raises(UnknownExperimentError, match=r"there are E1 \(introductory"):
        experiment("E99")


def test_the_page_of_results_is_what_the_records_say(tmp_path):
    docs = Path(__file__).parents[2] / "docs"
    shutil.copytree(docs / "results", tmp_path / "results")
    records = {path.stem for path in (tmp_path / "results").glob("*.json")}
    assert records == set(experiments())
    for name in records:
        record = json.loads((tmp_path / "results" / f"{name}.json").read_text())
        assert not record["quick"], name
        for figure in record["figures"]:
            assert (tmp_path / "results" / figure).is_file()
    page = report.write_page(tmp_path).read_text(encoding="utf-8")
    assert page == (docs / "results.md").read_text(encoding="utf-8")


def test_page_puts_ours_beside_published(tmp_path):
    rows = [
        mean_row("some score", [0.9, 1.0, 1.1], 0.97, "a note"),
        Row("another", 12345.678),
        Row("nothing", float("nan")),
    ]
    claims = [Claim("first holds", True), Claim("second does not", False, "because")]
    result = Result(rows, claims, [tmp_path / "picture.png"], "0 to 2", "A remark.")
    record = report.record_of("E1", result, True, 1.23)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "E1.json").write_text(json.dumps(record))
    page = report.write_page(tmp_path).read_text()
    assert "| some score | 1 ± 0.058 | 0.97 | +0.03 | a note |" in page
    assert "| another | 12346 |  |  |  |" in page
    assert "| nothing | none |" in page
    assert "1 of 2 hold here" in page
    assert "- E1: second does not (because)" in page
    assert "A quick run" in page
    assert "![introductory example (Fig. 1)](results/picture.png)" in page
    assert "Seeds: 0 to 2. 1.2 s." in page


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.98765, "0.988"), (12.345, "12.35"), (-123.45, "-123.5"), (1e5, "100000")],
)
def test_cells_have_four_digits(value, text):
    assert report.cell(value) == text


def test_page_in_the_docs_is_what_the_runs_wrote(tmp_path):
    docs = Path(__file__).parents[2] / "docs"
    shutil.copytree(docs / "results", tmp_path / "results")
    assert report.write_page(tmp_path).read_text() == (docs / "results.md").read_text()
    for path in (docs / "results").glob("*.json"):
        record = json.loads(path.read_text())
        assert not record["quick"]
        for figure in record["figures"]:
            assert (docs / "results" / figure).is_file()
