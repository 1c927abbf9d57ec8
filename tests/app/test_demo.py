"""Demonstration on built-in data."""

import re

import pytest

from prosparse import ParameterError
from prosparse.app import demo


def test_demo_prints_the_selection_and_writes_plots_and_report(tmp_path, capsys):
    demo.run_demo(tmp_path / "out")
    output = capsys.readouterr().out
    assert "selected: 10 of 30 variables" in output
    assert "F-score of the selection: 1.000" in output
    assert "of 64 variables" in output
    assert re.search(r"with 64 permuted columns added: \d+ pixels", output)
    for name in ("evidence_simulated.png", "communality_digits.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")
    assert "<title>" in (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "report.html: open it in a browser" in output


def test_demo_without_pandas(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    demo.run_demo(tmp_path / "out")
    assert "of 64 variables" in capsys.readouterr().out
    assert (tmp_path / "out" / "report.html").exists()


def test_demo_replaces_its_own_plots_only(tmp_path):
    for name in ("evidence_simulated.png", "communality_digits.png"):
        (tmp_path / name).write_bytes(b"\x89PNG of another program")
        with pytest.raises(ParameterError, match=f"{name} exists and was not written by prosparse"):
            demo.run_demo(tmp_path)
        assert (tmp_path / name).read_bytes() == b"\x89PNG of another program"
        assert [path.name for path in tmp_path.iterdir()] == [name]
        (tmp_path / name).unlink()
    for _ in range(2):
        demo.run_demo(tmp_path)
