"""Data from a folder or from OpenML, and the error for missing data."""

import numpy as np
import pytest
import sklearn.datasets

from papers.data import SOURCES, Data, MissingDataError


@pytest.fixture
def no_folder(monkeypatch):
    monkeypatch.delenv("PROSPARSE_DATA", raising=False)


def test_folder_takes_precedence(tmp_path, no_folder, monkeypatch):
    np.savez(tmp_path / SOURCES["sevens"].file, X=np.arange(6).reshape(2, 3))
    assert Data(tmp_path)("sevens")["X"].shape == (2, 3)
    monkeypatch.setenv("PROSPARSE_DATA", str(tmp_path))
    assert Data()("sevens")["X"].shape == (2, 3)


def test_data_are_read_once(tmp_path):
    path = tmp_path / SOURCES["urine"].file
    np.savez(path, X=np.ones((2, 2)))
    data = Data(tmp_path)
    first = data("urine")
    path.unlink()
    assert data("urine") is first


def fake_openml(requests):
    def fetch(name, *, version, return_X_y, as_frame, parser):
        requests.append((name, version))
        if name == "mnist_784":
            y = np.array(["7", "1"] * 35000)
            return np.tile(np.arange(4.0), (70000, 1)), y
        if name == "USPS":
            return np.full((9298, 3), 0.1234), np.tile(np.arange(1, 11), 930)[:9298].astype(str)
        return np.ones((2000, 5)), np.repeat(np.arange(10), 200).astype(str)

    return fetch


@pytest.mark.parametrize("name", ["sevens", "usps", "mfeat"])
def test_openml_by_name(name, no_folder, monkeypatch):
    requests = []
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fake_openml(requests))
    arrays = Data()(name)
    if name == "sevens":
        assert requests == [("mnist_784", 1)]
        assert arrays["X"].shape == (30000, 4)  # training images only
        assert arrays["X"].dtype == np.uint8
    elif name == "usps":
        assert arrays["X"].shape == (7291, 3)
        assert np.all(arrays["X"] == 123)  # thousandths
        assert set(arrays["y"]) == set(range(10))
    else:
        assert len(requests) == 6
        assert {"fac", "fou", "kar", "mor", "pix", "zer", "y"} == set(arrays)


def test_message_without_a_source(tmp_path, no_folder):
    with pytest.raises(MissingDataError) as caught:
        Data(tmp_path)("golub")
    message = str(caught.value)
    for part in (str(tmp_path), "golub_leukemia_38x3051.npz", "X (38 x 3051", "--data"):
        assert part in message
    assert "PROSPARSE_DATA" in message


def test_message_when_openml_does_not_answer(no_folder, monkeypatch):
    def fetch(*_, **__):
        raise OSError("no route")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    with pytest.raises(MissingDataError, match=r"OpenML could not be read \(OSError: no route\)"):
        Data()("usps")
