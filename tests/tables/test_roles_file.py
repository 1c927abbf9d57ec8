"""Files of roles: what is written is read, and mistakes are named."""

import pytest

from prosparse.errors import TableError
from prosparse.tables import ReadOptions
from prosparse.tables.roles_file import (
    format_options,
    is_roles_file,
    merge_options,
    read_roles,
    write_roles,
)

pytestmark = pytest.mark.quick

OPTIONS = ReadOptions(
    row_names="sämple\x7f",
    label=("tissue", 'a "quoted", name'),
    ignore=("x,y",),
    transpose=True,
    header=False,
    decimal=",",
    thousands=".",
    na=("n.d.", "-999"),
    censored="half",
    skip_lines=(2, 3),
    groups="patient",
    covariates=("age", "C(batch)"),
)


def test_written_options_are_read(tmp_path):
    path = tmp_path / "roles.toml"
    analysis = {"missing": "impute", "counts": True}
    write_roles(path, OPTIONS, analysis)
    assert read_roles(path) == (OPTIONS, analysis)
    assert is_roles_file(path)


def test_options_of_the_command():
    text = format_options(OPTIONS, {"counts": True, "missing": "drop"})
    for part in ("--transpose", "--no-header", "--thousands point", "--decimal comma"):
        assert part in text
    assert "--label tissue --label 'a \"quoted\", name'" in text
    assert "--skip-lines 2,3" in text
    assert text.endswith("--counts --missing drop")


def test_given_options_override_those_of_the_file():
    merged = merge_options(OPTIONS, ReadOptions(groups="donor"))
    assert merged == OPTIONS._replace(groups="donor")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups = 3", "groups must be a text"),
        ("group = 'a'", "there is no key 'group'"),
        ("transpose = 'yes'", "transpose must be true or false"),
        ("groups = ", "not valid TOML"),
        ("thousands = 'dot'", "thousands must be one of"),
        ("skip-lines = ['a']", "skip-lines must be a list of line numbers"),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    path = tmp_path / "roles.toml"
    path.write_text(text)
    with pytest.raises(TableError, match=message):
        read_roles(path)


def test_missing_file(tmp_path):
    with pytest.raises(TableError, match="does not exist"):
        read_roles(tmp_path / "none.toml")
