"""Records of `make bench` and their comparison."""

import json
import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def track():
    return runpy.run_path(str(FOLDER / "track.py"))


def test_records_are_read_in_order(track, tmp_path):
    path = tmp_path / "records" / "track.json"
    assert track["read_records"](path) == []
    machine = track["Machine"](2e10, 1e10)
    for seconds in (0.5, 0.25):
        measurement = track["Measurement"]("an iteration", seconds, 0.1, "two products")
        track["append_record"](track["make_record"](machine, [measurement]), path)
    first, second = track["read_records"](path)
    assert (first.seconds, second.seconds) == ({"an iteration": 0.5}, {"an iteration": 0.25})
    assert second.ratios == {"an iteration": 2.5}
    assert second.flops == 2e10
    assert first.machine == track["describe_machine"]()
    assert set(json.loads(path.read_text())[0]) >= {"date", "version", "machine"}


def test_seconds_are_compared_on_one_machine_and_ratios_between_machines(track):
    def record(machine, seconds, ratio):
        return track["Record"]("2026-01-01", "0", machine, 1, 1, {"a": seconds}, {"a": ratio})

    here, there = {"processor": "this"}, {"processor": "that"}
    measurement = track["Measurement"]("a", 3.0, 1.0, "a product")
    records = [record(here, 1.0, 9.0), record(here, 2.0, 9.0), record(there, 30.0, 6.0)]
    assert track["compare_with_last"](measurement, records, here) == "1.50"
    assert track["compare_with_last"](measurement, records, {"processor": "another"}) == "0.50*"
    assert track["compare_with_last"](measurement, [], here) == ""
    assert track["compare_with_last"](measurement._replace(name="new"), records, here) == ""


def test_stored_records_are_complete(track):
    records = track["read_records"]()
    assert records
    assert all(len(record.seconds) == len(track["MEASUREMENTS"]) for record in records[-1:])
