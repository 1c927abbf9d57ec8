"""Output paths: defaults, replacement of files, and terminals."""

import json
import os
import signal
import stat
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest

from programs import Program
from prosparse import GSPPCA, ModelFileError, load, save
from prosparse.datasets import make_globally_sparse
from prosparse.files import replace_file, write_text

pytest.importorskip("pyarrow")
typer_testing = pytest.importorskip("typer.testing")

from prosparse.app.cli import app  # noqa: E402
from prosparse.app.output_paths import RESULTS  # noqa: E402
from prosparse.report import write_report  # noqa: E402

run = typer_testing.CliRunner().invoke
X = make_globally_sparse(40, 8, n_components=1, n_informative=4, random_state=0).X
unix = pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="needs the files of Unix")


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(path, names=None, scale=1.0):
    names = names or [f"v{k}" for k in range(8)]
    rows = [",".join(names), *(",".join(map(repr, row)) for row in (scale * X).tolist())]
    path.write_text("\n".join(rows) + "\n", "utf-8")
    return str(path)


def select(*arguments):
    return run(app, ["select", *arguments, "--components", "1"])


def text_of(result):
    return " ".join((result.stdout + result.stderr).split())


# --- single files


WRITERS = {
    "text": lambda path: write_text(path, "new"),
    "model": lambda path: save(GSPPCA(1).fit(X), path),
    "report": lambda path: write_report(GSPPCA(1).fit(X), path),
    "checkpoint": lambda path: GSPPCA(1).fit(X, checkpoint=path),
    "fit": lambda path: command("fit", path),
    "report command": lambda path: command("report", path),
}


def command(name, path):
    source = table(path.parent / "t.csv") if name == "fit" else path.parent / "m.prosparse"
    if name == "report":
        save(GSPPCA(1).fit(X), source)
    result = run(app, [name, str(source), "--output", str(path)])
    if result.exit_code:
        raise OSError(text_of(result))


@unix
@pytest.mark.parametrize("name", WRITERS)
def test_special_files_are_not_replaced(inside, name):
    os.mkfifo(inside / "pipe")
    (inside / "link").symlink_to("pipe")
    before = sorted(p.name for p in inside.iterdir())
    for place in ("pipe", "link"):
        if name == "checkpoint":
            with pytest.raises(OSError, match="not a regular file"), replace_file(inside / place):
                pass
            continue
        with pytest.raises(OSError, match="not a regular file"):
            WRITERS[name](inside / place)
    assert stat.S_ISFIFO((inside / "pipe").stat().st_mode)
    assert (inside / "link").is_symlink()
    left = sorted(p.name for p in inside.iterdir())
    assert [p for p in left if p not in ("t.csv", "m.prosparse")] == before


@unix
@pytest.mark.parametrize("name", WRITERS)
def test_links_are_followed_and_permissions_preserved(inside, name):
    (inside / "far").mkdir()
    real = inside / "far" / "real"
    (inside / "link").symlink_to("far/real")
    WRITERS[name](inside / "link")  # the link points nowhere yet
    assert (inside / "link").is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o666 & ~_umask()
    if name == "checkpoint":
        with replace_file(inside / "link") as partial:
            partial.write_text("new")
        real.unlink()
        WRITERS[name](inside / "link")
    real.chmod(0o600)
    written = real.read_bytes()
    if name != "checkpoint":
        if name not in ("fit", "report command"):  # these refuse files of others
            real.write_text("old")
        WRITERS[name](inside / "link")
    assert (inside / "link").is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    # The duration of the fit may have more or fewer digits.
    assert abs(len(real.read_bytes()) - len(written)) < 10
    assert [p.name for p in (inside / "far").iterdir()] == ["real"]


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@unix
def test_temporary_file_has_the_permissions_of_the_target(inside):
    write_text("secret", "old")
    os.chmod("secret", 0o600)
    with replace_file("secret") as partial:
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600


@unix
def test_circular_links_and_read_only_files(inside):
    (inside / "a").symlink_to("b")
    (inside / "b").symlink_to("a")
    with pytest.raises(OSError, match="a'"):
        write_text("a", "new")
    write_text("fixed", "old")
    os.chmod("fixed", 0o400)
    script = "from prosparse.files import write_text; write_text('fixed', 'new')"
    if os.geteuid() == 0:  # root may write anything: change the user
        inside.chmod(0o777)
        os.chown("fixed", 65534, 65534)
        for folder in (inside.parent, inside.parent.parent):
            folder.chmod(folder.stat().st_mode | 0o055)
        script = f"import os; import prosparse.files; os.setuid(65534); {script}"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=inside
    )
    assert "PermissionError" in ended.stderr
    assert (inside / "fixed").read_text() == "old"


# --- folders of results


def test_default_folders_of_tables_differ(inside):
    for name in ("x.v1.csv", "x.v2.csv", ".hidden.csv"):
        assert select(table(inside / name), "--quiet").exit_code == 0
    folders = sorted(p.name for p in inside.iterdir() if p.is_dir())
    assert folders == [".hidden-prosparse", "x.v1-prosparse", "x.v2-prosparse"]
    assert run(app, ["fit", "x.v1.csv", "--components", "1", "-q"]).exit_code == 0
    assert (inside / "x.v1.prosparse").is_file()


def test_results_of_another_table_need_output_to_be_replaced(inside):
    table(inside / "x.csv")
    assert select("x.csv").exit_code == 0
    first = (inside / "x-prosparse" / "model.prosparse").read_bytes()
    table(inside / "x.txt")
    refused = select("x.txt")
    assert refused.exit_code == 2
    assert "x-prosparse contains the results of x.csv, not of x.txt" in text_of(refused)
    assert (inside / "x-prosparse" / "model.prosparse").read_bytes() == first
    again = select("x.csv")  # the same table: nothing is lost, nothing is printed
    assert "replaced" not in text_of(again)
    table(inside / "x.csv", scale=2.0)
    assert "replaced earlier results of x.csv" in text_of(select("x.csv"))
    named = select("x.txt", "--output", "x-prosparse", "--json")
    assert json.loads(named.stdout)["replaced"] == "x.csv"
    assert run(app, ["fit", "x.csv", "-q"]).exit_code == 0
    assert "x.prosparse contains the results of x.csv" in text_of(run(app, ["fit", "x.txt"]))
    (inside / "x.prosparse").write_text("precious")
    assert "is not a model" in text_of(run(app, ["fit", "x.csv"]))
    assert (inside / "x.prosparse").read_text() == "precious"


def test_default_reports_of_two_folders_differ(inside):
    for name in ("x", "y"):
        assert select(table(inside / f"{name}.csv"), "-q").exit_code == 0
        assert run(app, ["report", f"{name}-prosparse/model.prosparse", "-q"]).exit_code == 0
    assert sorted(p.name for p in inside.glob("*.html")) == ["x-prosparse.html", "y-prosparse.html"]


def test_inputs_are_not_replaced(inside):
    (inside / "d").mkdir()
    text = table(inside / "d" / "selected.csv")
    (inside / "link").symlink_to("d")
    (inside / "far.csv").symlink_to("d/selected.csv")
    (inside / "e").mkdir()
    (inside / "e" / "scores.csv").symlink_to("../d/selected.csv")
    before = (inside / "d" / "selected.csv").read_bytes()
    for source, output in (
        ("d/selected.csv", "d"),
        ("d/selected.csv", "link"),
        ("link/selected.csv", "d"),
        ("far.csv", "d"),
        ("e/scores.csv", "e"),
        (text, "d/../d"),
    ):
        refused = select(source, "--output", output)
        assert refused.exit_code == 2, text_of(refused)
        assert "which the results would replace" in text_of(refused)
    refused = run(app, ["fit", "far.csv", "--output", "d/selected.csv"])
    assert (refused.exit_code, "is an input of this command" in text_of(refused)) == (2, True)
    save(GSPPCA(1).fit(X), "m")
    for data, output in (("far.csv", "m"), ("far.csv", "d/selected.csv")):
        refused = run(app, ["report", "m", "--data", data, "--output", output])
        assert (refused.exit_code, "is an input of this command" in text_of(refused)) == (2, True)
    assert (inside / "d" / "selected.csv").read_bytes() == before
    assert load("m").n_features_in_ == 8


def test_folders_with_other_content_are_not_replaced(inside, monkeypatch):
    table(inside / "t.csv")
    (inside / "d" / "report.html").mkdir(parents=True)
    (inside / "d" / "report.html" / "precious").touch()
    assert "contains other files (report.html)" in text_of(select("t.csv", "--output", "d"))
    (inside / "empty" / "er").mkdir(parents=True)
    monkeypatch.chdir(inside / "empty" / "er")
    for place in (".", "../er"):
        assert "contains the current folder" in text_of(select("../../t.csv", "--output", place))


@unix
def test_links_and_permissions_of_folders_are_preserved(inside):
    table(inside / "t.csv")
    (inside / "real").mkdir(mode=0o700)
    (inside / "link").symlink_to("real")
    for _ in range(2):
        assert select("t.csv", "--output", "link").exit_code == 0
        assert (inside / "link").is_symlink()
        assert stat.S_IMODE((inside / "real").stat().st_mode) == 0o700
        assert sorted(p.name for p in (inside / "real").iterdir()) == sorted(RESULTS)
        (inside / "real" / "scores.csv").chmod(0o600)
    assert stat.S_IMODE((inside / "real" / "scores.csv").stat().st_mode) == 0o600
    (inside / "nowhere").symlink_to("new")
    assert select("t.csv", "--output", "nowhere").exit_code == 0
    assert (inside / "new" / "report.html").is_file()
    assert sorted(p.name for p in inside.iterdir()) == ["link", "new", "nowhere", "real", "t.csv"]


@pytest.mark.parametrize("length", [230, 245, 255])
@pytest.mark.parametrize("letter", ["n", "ä"])
def test_long_file_names(inside, monkeypatch, length, letter):
    stem = letter * ((length - 4) // len(letter.encode()))
    name = f"{stem}.csv"
    table(inside / name)
    for arguments, place in (
        (["select", name, "--components", "1"], f"{stem}-prosparse"),
        (["fit", name, "--components", "1"], f"{stem}.prosparse"),
    ):
        result = run(app, arguments)
        fits = len(place.encode()) <= 255
        assert result.exit_code == (0 if fits else 2), text_of(result)
        assert (inside / place).exists() if fits else "select a shorter one" in text_of(result)
    save(GSPPCA(1).fit(X), "a" * 255)
    assert load("a" * 255).n_features_in_ == 8
    assert not [p for p in inside.iterdir() if p.name.startswith(".")]


def test_too_long_names_raise_errors_before_reading(inside, monkeypatch):
    monkeypatch.setattr("prosparse.app.commands.read_table", lambda *a: 1 / 0)
    for arguments in (["select", "t.csv"], ["fit", "t.csv"], ["report", "m"]):
        result = run(app, [*arguments, "--output", "n" * 256])
        assert result.exit_code == 2
        assert "(256 bytes): select a shorter one with --output" in text_of(result)


@pytest.mark.parametrize("command", ["select", "fit"])
def test_paths_below_files_raise_errors_before_reading(inside, monkeypatch, command):
    monkeypatch.setattr("prosparse.app.commands.read_table", lambda *a: 1 / 0)
    (inside / "file").touch()
    for place in ("file/results", "file/deep/er"):
        result = run(app, [command, "t.csv", "--output", place])
        assert result.exit_code == 2
        assert "is a file" in text_of(result) or "does not exist" in text_of(result)


@unix
def test_pipe_as_table(inside):
    os.mkfifo(inside / "t.csv")
    refused = select("t.csv")
    assert refused.exit_code == 1
    assert "not a regular file" in text_of(refused)


def test_invalid_stored_options_are_ignored(inside):
    table(inside / "t.csv")
    for about in (
        {"read_options": {"drop": 3, "keep": "x", "header": "no", "label": 3, "progress": 1}},
        {"preparation": {"missing": 7, "log1p": "yes", "verbose": "x"}},
    ):
        save(GSPPCA(1).fit(X), "m", about=about)
        result = run(app, ["report", "m", "--data", "t.csv", "--output", "r.html"])
        assert result.exit_code == 0, result.output


def test_files_named_like_results_are_not_replaced(inside):
    table(inside / "t.csv")
    for name, text in (("scores.csv", "name,score"), ("model.prosparse", "no model")):
        (inside / "exam").mkdir(exist_ok=True)
        (inside / "exam" / name).write_text(text)
        refused = select("t.csv", "--output", "exam")
        assert (refused.exit_code, "no valid model.prosparse" in text_of(refused)) == (2, True), (
            text_of(refused)
        )
        assert (inside / "exam" / name).read_text() == text


@unix
def test_pipe_as_model(inside):
    table(inside / "t.csv")
    (inside / "d").mkdir()
    os.mkfifo(inside / "d" / "model.prosparse")
    assert "no valid model.prosparse" in text_of(select("t.csv", "--output", "d"))
    with pytest.raises(ModelFileError, match="not a regular file"):
        load(inside / "d" / "model.prosparse")


@unix
def test_hard_links_of_inputs_are_not_replaced(inside):
    table(inside / "t.csv")
    os.link("t.csv", "hard.prosparse")
    refused = run(app, ["fit", "t.csv", "--output", "hard.prosparse"])
    assert (refused.exit_code, "is an input of this command" in text_of(refused)) == (2, True)


@pytest.mark.parametrize("arguments", [["report", "m.prosparse"], ["demo", "."]])
def test_other_html_files_are_not_replaced(inside, arguments):
    save(GSPPCA(1).fit(X), "m.prosparse")
    for name in ("m.html", "report.html"):
        (inside / name).write_text("precious")
    refused = run(app, arguments)
    assert (refused.exit_code, "report written by prosparse" in text_of(refused)) == (2, True)
    assert {(inside / name).read_text() for name in ("m.html", "report.html")} == {"precious"}


def test_earlier_reports_are_replaced(inside):
    save(GSPPCA(1).fit(X), "m.prosparse")
    for _ in range(2):
        assert run(app, ["report", "m.prosparse"]).exit_code == 0
    assert run(app, ["report", "m.prosparse", "--output", "m.html"]).exit_code == 0
    (inside / "m.html").write_text("precious")
    refused = run(app, ["report", "m.prosparse", "--output", "m.html"])
    assert (refused.exit_code, "report written by prosparse" in text_of(refused)) == (2, True)
    assert (inside / "m.html").read_text() == "precious"


def test_report_replaces_only_reports(inside):
    table(inside / "b.csv")
    assert select("b.csv", "--output", "found").exit_code == 0
    (inside / "page.html").write_text("<!DOCTYPE html>\n<title>prosparse</title>")
    protected = {
        "b.csv": "is not a report written by prosparse",
        "found/selected.csv": "is not a report written by prosparse",
        "page.html": "is not a report written by prosparse",
        "found/model.prosparse": "is an input of this command",
    }
    before = {name: (inside / name).read_bytes() for name in protected}
    for name, message in protected.items():
        refused = run(app, ["report", "found", "--output", name])
        assert refused.exit_code == 2, name
        assert message in text_of(refused)
        assert (inside / name).read_bytes() == before[name]


def test_fit_replaces_only_models(inside):
    table(inside / "t.csv")
    (inside / "other.csv").write_text("precious")
    (inside / "damaged.zip").write_bytes(b"PK\x05\x06" + 8 * b"\xff" + 10 * b"\0")
    for name in ("other.csv", "damaged.zip"):
        before = (inside / name).read_bytes()
        refused = run(app, ["fit", "t.csv", "--output", name])
        assert (refused.exit_code, "model written by prosparse" in text_of(refused)) == (2, True)
        assert (inside / name).read_bytes() == before
    for _ in range(2):
        assert run(app, ["fit", "t.csv", "--output", "m", "-q"]).exit_code == 0


def named_rows(path):
    names = [f"v{k}" for k in range(8)]
    rows = [",".join([f"s{k}", *map(repr, row)]) for k, row in enumerate(X.tolist())]
    path.write_text("\n".join([",".join(["sample", *names]), *rows]) + "\n", "utf-8")
    return str(path)


def test_labels_and_costs_are_not_replaced(inside):
    named_rows(inside / "t.csv")
    assert select("t.csv", "--output", "ot").exit_code == 0
    labels = "\n".join(["sample,age", *(f"s{k},{20 + k}" for k in range(len(X)))])
    costs = "\n".join(["name,cost", *(f"v{k},1" for k in range(8))])
    for name in ("lab.csv", "ot/scores.csv"):
        (inside / name).write_text(labels)
    (inside / "ot" / "selected.csv").write_text(costs)
    (inside / "costs.csv").write_text(costs)
    files = ("t.csv", "lab.csv", "costs.csv", "ot/scores.csv", "ot/selected.csv", "ot/report.html")
    before = {name: (inside / name).read_bytes() for name in files}
    aside = ["--labels", "ot/scores.csv", "--label", "age"]
    for arguments in (
        ["fit", "t.csv", "--labels", "lab.csv", "--label", "age", "--output", "lab.csv"],
        ["select", "t.csv", *aside, "--output", "ot"],
        ["regress", "t.csv", *aside[:2], "--response", "age", "--output", "ot"],
        ["panel", "t.csv", *aside, "--output", "ot"],
        ["panel", "t.csv", "--costs", "ot/selected.csv", "--output", "ot"],
        ["report", "ot", "--data", "t.csv", *aside, "--output", "ot/scores.csv"],
        ["report", "ot", "--data", "t.csv", *aside, "--output", "t.csv"],
    ):
        refused = run(app, arguments)
        assert refused.exit_code == 2, text_of(refused)
        assert "is an input" in text_of(refused) or "which the results would replace" in text_of(
            refused
        )
        assert {name: (inside / name).read_bytes() for name in files} == before, arguments


# --- terminals


NAMES = ["\x1b[31mred", "\x1b]0;title\x07", "a\x9b31m", "\u202eback", "u\nv", *"xyz"]


def test_control_characters_in_names_are_escaped(inside):
    quoted = [f'"{name}"' for name in NAMES]
    table(inside / "t.csv", quoted)
    result = select("t.csv", "--method", "gsppca", "--variables", "8")
    assert result.exit_code == 0
    assert "\\x1b[31mred" in result.stdout
    folder = inside / "d"
    folder.mkdir()
    (folder / "\x1b[2J").touch()
    for shown in (result.stdout, text_of(select("t.csv", "--output", "d"))):
        assert not any(one in shown for one in "\x1b\x07\x9b\u202e")


@unix
def test_all_streams_closed(inside):
    table(inside / "t.csv")
    line = f"'{sys.executable}' -m prosparse select t.csv --components 1 >&- 2>&- <&-"
    assert subprocess.run(["sh", "-c", line], check=False).returncode == 0
    assert (inside / "t-prosparse" / "report.html").is_file()


# The command runs in a process forked from one that has imported everything. Its streams are as
# Python finds them after the shell closed or redirected them.
FORKED = "import os, sys; from prosparse.__main__ import main\n{streams}\nmain()"
NO_OUTPUT = "os.close(1); sys.stdout = sys.__stdout__ = None"
NO_ERRORS = "os.close(2); sys.stderr = sys.__stderr__ = None"
INTO = "os.dup2(os.open({path!r}, os.O_WRONLY | os.O_CREAT), 1); sys.stdout = os.fdopen(1, 'w')"


def forked(streams, *arguments):
    return Program(FORKED.format(streams=streams), os.getcwd(), *arguments).ended(100)


@unix
@pytest.mark.parametrize(
    ("streams", "arguments"), [(NO_OUTPUT, []), (NO_ERRORS, []), (NO_OUTPUT, ["--json"])]
)
def test_closed_streams(inside, streams, arguments):
    table(inside / "t.csv")
    assert forked(streams, "select", "t.csv", "--components", "1", *arguments).returncode == 0
    assert (inside / "t-prosparse" / "report.html").is_file()


full = pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs a device that is always full"
)
NO_SPACE = "prosparse: the output could not be printed (No space left on device)"


@unix
@full
def test_full_disk(inside):
    table(inside / "t.csv")
    line = f"'{sys.executable}' -m prosparse select t.csv >/dev/full"
    ended = subprocess.run(["sh", "-c", line], capture_output=True, check=False, text=True)
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [NO_SPACE]


@unix
@full
def test_full_disk_with_json(inside):
    table(inside / "t.csv")
    ended = forked(INTO.format(path="/dev/full"), "select", "t.csv", "--json")
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [NO_SPACE]


ENCODINGS = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "utf-8": {"PYTHONIOENCODING": "utf-8"},
}

# Several commands run in one process. Null characters separate their outputs, and the exit codes
# come last.
SEVERAL = """
import json, os, sys
from prosparse.__main__ import main
codes = []
for command in sys.argv[1:]:
    sys.argv = ["prosparse", *command.split()]
    try:
        main()
    except SystemExit as ended:
        codes.append(ended.code)
    sys.stdout.flush(), sys.stderr.flush()
    os.write(1, b"\\0"), os.write(2, b"\\0")
print(json.dumps(codes))
"""


class Ended(NamedTuple):
    """Exit code and output of a command."""

    code: int
    stdout: bytes
    stderr: bytes


def program(encoding, *commands):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))}
    ended = subprocess.run(
        [sys.executable, "-c", SEVERAL, *commands],
        capture_output=True,
        check=False,
        env=environment | {"PYTHONUTF8": "1"} | ENCODINGS[encoding],
    )
    assert b"Traceback" not in ended.stderr, ended.stderr.decode("utf-8", "replace")
    *answers, codes = ended.stdout.split(b"\0")
    return [
        Ended(code, answer, error)
        for code, answer, error in zip(
            json.loads(codes), answers, ended.stderr.split(b"\0")[:-1], strict=True
        )
    ]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_names_on_limited_terminals(inside, encoding):
    names = ["αβγ", "变量", "x😀", *(f"v{k} …" for k in range(5))]
    table(inside / "t.csv", names)
    shown, answer, lacking, helped = program(
        encoding,
        "select t.csv --components 1",
        "select t.csv --components 1 --json",
        "select t.csv --label αβ",
        "select --help",
    )
    assert shown.code == 0
    printed = json.loads(answer.stdout.decode("utf-8" if encoding == "utf-8" else "ascii"))
    assert set(printed["selected"]) <= set(names)
    assert printed["selected"]
    assert lacking.code == 1
    assert b"did you mean" in lacking.stderr
    assert helped.code == 0


def test_ascii_fallback():
    script = (
        "from prosparse.app.terminal import install_ascii_fallback; install_ascii_fallback(); "
        "print('\\u201c\\u03b1\\u201d\\u2026\\U0001f600\\udce9')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=True,
        env=os.environ | ENCODINGS["ascii"],
    )
    assert ended.stdout == b'"\\u03b1"...\\U0001f600\\udce9\n'


@unix
def test_file_name_that_is_not_unicode(inside):
    name = b"caf\xe9.csv"
    table(inside / "t.csv")
    os.rename(b"t.csv", name)
    arguments = ["select", os.fsdecode(name), "--components", "1", "--json"]
    ended = forked(INTO.format(path="printed"), *arguments)
    assert ended.returncode == 0, ended.stderr
    assert json.loads((inside / "printed").read_bytes())["rows"] == 40
    assert os.path.exists(b"caf\xe9-prosparse/report.html")
    ended = forked("", "report", os.fsdecode(b"caf\xe9-prosparse/model.prosparse"))
    assert ended.returncode == 0, ended.stderr


def test_long_paths_are_printed_completely(inside):
    place = "/".join(["d" * 60] * 3)
    table(inside / "t.csv")
    result = select("t.csv", "--output", place)
    assert f"{place}/report.html" in "".join(result.stdout.split())


def test_negative_numbers_are_not_escaped(inside):
    table(inside / "t.csv")
    assert select("t.csv", "--output", "o").exit_code == 0
    scores = np.genfromtxt(inside / "o" / "scores.csv", delimiter=",", skip_header=1)
    assert (scores[:, 1] < 0).any()
    assert np.isfinite(scores).all()
