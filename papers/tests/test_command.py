"""The command ``python -m papers``."""

import json

import pytest

from papers import __main__ as command


def test_list(capsys):
    assert command.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("E1", "E9", "E15"))


def test_one_experiment(tmp_path, capsys):
    assert command.main(["e1", "--quick", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "F-score" in printed
    assert "holds: the model" in printed
    assert json.loads((tmp_path / "E1.json").read_text())["quick"]
    assert (tmp_path / "E1.md").read_text().startswith("# E1: ")
    assert "[E1: " in (tmp_path / "index.md").read_text()


def test_missing_data_are_reported_and_the_others_run(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("PROSPARSE_DATA", raising=False)
    arguments = ["E1", "E5", "E2", "--quick", "--jobs", "2", "--data", str(tmp_path)]
    assert command.main([*arguments, "--output", str(tmp_path)]) == 1
    errors = capsys.readouterr().err
    assert "E5: " in errors
    assert "golub_leukemia_38x3051.npz" in errors
    index = (tmp_path / "index.md").read_text()
    assert index.index("[E1: ") < index.index("[E2: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "--all"), (["E1", "--all"], "--all"), (["E99"], "Unknown experiment 'E99'")],
)
def test_wrong_arguments_exit_with_status_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        command.main(arguments)
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err
