"""Messages of errors and warnings."""

import ast
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import prosparse
from prosparse import SpinyClassifier
from prosparse.errors import InputError, TableError, end_sentence, plural
from prosparse.tables import read_table

pytestmark = pytest.mark.quick

SOURCE = Path(prosparse.__file__).parent
ISSUED = {
    "CheckpointError",
    "InputError",
    "ModelFileError",
    "ParameterError",
    "TableError",
    "warn",
}


def literal_messages():
    """Position and last part of each message that ends with literal text."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            if ast.unparse(node.func) not in ISSUED:
                continue
            message = node.args[0]
            end = message.values[-1] if isinstance(message, ast.JoinedStr) else message
            if isinstance(end, ast.Constant) and isinstance(end.value, str):
                yield f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}", end.value


@pytest.mark.slow
def test_messages_end_with_a_period():
    messages = dict(literal_messages())
    assert len(messages) > 200
    # A command is printed without a period, so that it can be copied.
    unfinished = {
        position: end
        for position, end in messages.items()
        if not end.endswith((".", "]'")) and "pip install" not in end
    }
    assert not unfinished


def test_end_sentence():
    assert end_sentence("a text") == "a text."
    assert end_sentence(ValueError("a text.")) == "a text."
    assert end_sentence("a, b, ...") == "a, b, ..."


def test_plural():
    assert plural(1, "row") == "1 row"
    assert plural(2000, "row") == "2,000 rows"


def test_message_of_another_library_is_one_sentence():
    X = np.random.default_rng(0).standard_normal((20, 3))
    with pytest.raises(InputError) as raised:
        SpinyClassifier().fit(X, X[:, 0])
    assert ".." not in str(raised.value)
    assert "`y` must contain the labels of two classes" in str(raised.value)


def test_one_row_is_singular(tmp_path):
    path = tmp_path / "t.npz"
    X = sparse.csr_array(([1.0], ([0], [0])), shape=(1, 10**7))
    sparse.save_npz(path, X)
    with pytest.raises(
        TableError, match="has 1 row and 10,000,000 columns but only 1 stored value"
    ):
        read_table(path)
