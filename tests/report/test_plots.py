"""Plots as files: every plot of every kind of model, in all formats, equal for equal results."""

from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from prosparse import EMPCA, FDRPCA, GSPPCA, SCA, Panel, ParameterError, SpinyRegressor
from prosparse.datasets import make_globally_sparse
from prosparse.interpretation import associations
from prosparse.plot import displays_of
from prosparse.report import write_plots

X = make_globally_sparse(n_samples=80, random_state=0).X
MODELS = {
    "FDRPCA": lambda: FDRPCA().fit(X),
    "Panel": lambda: Panel(3).fit(X),
    "GSPPCA": lambda: GSPPCA(2).fit(X),
    "SCA": lambda: SCA(2).fit([X[:, :12], X[:, 12:]]),
    "one component": lambda: EMPCA(1, n_nonzero=4).fit(X),
    "SpinyRegressor": lambda: SpinyRegressor().fit(X[:, 1:], X[:, 0]),
    "nothing selected": lambda: FDRPCA().fit(np.random.default_rng(0).standard_normal((30, 8))),
}


@pytest.mark.filterwarnings("ignore::prosparse.errors.NoStructureWarning")
@pytest.mark.parametrize("name", MODELS)
def test_every_plot_is_written(name, tmp_path):
    model = MODELS[name]()
    is_regression = name == "SpinyRegressor"
    data = np.zeros((30, 8)) if name == "nothing selected" else X
    scores = None if is_regression else model.transform(data)
    paths = write_plots(model, tmp_path, scores=scores, ids=[f"r{k}" for k in range(len(data))])
    assert {*tmp_path.iterdir()} == {*paths}
    stems = {path.stem for path in paths}
    has_scores = scores is not None and scores.shape[1] > 0
    n_scores = 0 if not has_scores else 2 if scores.shape[1] > 1 else 1
    others = [display for display in displays_of(model) if display.__name__ != "ScoresDisplay"]
    assert len(stems) == len(others) + n_scores
    assert ("plot-biplot" in stems) == (n_scores == 2)
    for path in paths:
        head = path.read_bytes()[:8]
        if path.suffix == ".svg":
            ElementTree.parse(path)
        else:
            assert head.startswith({".pdf": b"%PDF", ".png": b"\x89PNG"}[path.suffix])


def test_files_are_reproducible_and_state_the_test(tmp_path):
    model = MODELS["GSPPCA"]()
    scores = model.transform(X)
    label = np.where(scores[:, 0] > 0, "high <b>", "low")
    tests = associations(scores, {"level & sign": label})
    contents = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        paths = write_plots(model, tmp_path / name, formats=("svg", "pdf"), scores=scores,
                            label=label, label_name="level & sign", tests=tests)  # fmt: skip
        contents.append([path.read_bytes() for path in paths])
    assert contents[0] == contents[1]
    text = "".join(ElementTree.parse(tmp_path / "first" / "plot-scores.svg").getroot().itertext())
    assert "level & sign" in text
    assert "high <b>" in text
    assert "Kruskal-Wallis test, adjusted p < 1e-10 (component 1)" in text
    assert "of the variance)" in text


def test_unknown_format(tmp_path):
    with pytest.raises(ParameterError, match="formats"):
        write_plots(MODELS["GSPPCA"](), tmp_path, formats=("gif",))
