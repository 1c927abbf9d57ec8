"""What `make bench` keeps of a run, and compares the next one with."""

import json
import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def track():
    return runpy.run_path(str(FOLDER / "track.py"))


def test_records_come_back_in_their_order(track, tmp_path):
    path = tmp_path / "records" / "track.json"
    assert track["read_records"](path) == []
    machine = track["Machine"](2e10, 1e10)
    for seconds in (0.5, 0.25):
        figure = track["Figure"]("a pass", seconds, 0.1, "two products")
        track["keep"](track["record_of"](machine, [figure]), path)
    first, second = track["read_records"](path)
    assert (first.seconds, second.seconds) == ({"a pass": 0.5}, {"a pass": 0.25})
    assert second.ratios == {"a pass": 2.5}
    assert second.flops == 2e10
    assert first.machine == track["described_machine"]()
    assert set(json.loads(path.read_text())[0]) >= {"date", "version", "machine"}


def test_seconds_are_compared_on_one_machine_and_ratios_across(track):
    def record(machine, seconds, ratio):
        return track["Record"]("2026-01-01", "0", machine, 1, 1, {"a": seconds}, {"a": ratio})

    here, there = {"processor": "this"}, {"processor": "that"}
    figure = track["Figure"]("a", 3.0, 1.0, "it")
    records = [record(here, 1.0, 9.0), record(here, 2.0, 9.0), record(there, 30.0, 6.0)]
    assert track["to_last"](figure, records, here) == "1.50"
    assert track["to_last"](figure, records, {"processor": "another"}) == "0.50*"
    assert track["to_last"](figure, [], here) == ""
    assert track["to_last"](figure._replace(name="new"), records, here) == ""


def test_the_records_of_the_repository_can_be_read(track):
    records = track["read_records"]()
    assert records
    assert all(len(record.seconds) == len(track["FIGURES"]) for record in records[-1:])
