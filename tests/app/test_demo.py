import re

from prosparse.app import demo


def test_demo_prints_the_choice_and_writes_the_pictures(tmp_path, capsys):
    demo.main([str(tmp_path / "out")])
    said = capsys.readouterr().out
    assert "chosen: 10 of 30 variables" in said
    assert "F-score against the truth: 1.000" in said
    assert "of 64 variables" in said
    assert "share at least half of their variance" in said
    assert re.search(r"among 64 shuffled columns.*: \d+ pixels found again", said)
    for name in ("evidence_simulated.png", "communality_digits.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "variables vary with others beyond chance" in page
    assert "report.html: open it in a browser" in said


def test_without_pandas(tmp_path, capsys, monkeypatch):
    """The extras of the command do not bring it."""
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    demo.main([str(tmp_path / "out")])
    assert "of 64 variables" in capsys.readouterr().out
    assert (tmp_path / "out" / "report.html").exists()
