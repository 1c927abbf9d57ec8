"""Displays of fitted estimators."""

import re
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("agg")
from matplotlib import pyplot as plt
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from prosparse import (
    EMPCA,
    FDRPCA,
    GSPPCA,
    SCA,
    SPPCA,
    InputError,
    Panel,
    ParameterError,
    SpinyRegressor,
)
from prosparse.datasets import make_globally_sparse, make_sparse_regression
from prosparse.plot import (
    CommunalityDisplay,
    ConvergenceDisplay,
    EvidenceDisplay,
    InclusionDisplay,
    LoadingsDisplay,
    ModelSizeDisplay,
    PanelDisplay,
    RelevanceDisplay,
    ScoresDisplay,
    SlopeDisplay,
    ViewsDisplay,
    displays_of,
)
from prosparse.plot.axes import shorten_all
from prosparse.selection.slope import selection_shape


@pytest.fixture(scope="module")
def model():
    return GSPPCA(5).fit(make_globally_sparse(random_state=0).X)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_evidence(model):
    display = EvidenceDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.line_.get_xdata(), model.cardinalities_)
    np.testing.assert_array_equal(display.line_.get_ydata(), model.log_evidence_path_)
    assert any("10 variables" in text.get_text() for text in display.ax_.texts)
    assert display.ax_.get_ylabel() == "log evidence"


def test_relevance(model):
    display = RelevanceDisplay.from_estimator(model)
    heights = [bar.get_height() for bar in display.bars_]
    assert heights == sorted(model.relevance_, reverse=True)
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["selected (10)", "not selected (20)"]
    few = RelevanceDisplay.from_estimator(model, max_features=7)
    names = [text.get_text() for text in few.ax_.get_xticklabels()]
    assert names == [f"x{i}" for i in np.argsort(model.ranking_)[:7]]


def test_regression():
    X, y, _ = make_sparse_regression(60, 20, n_informative=4, random_state=0)
    model = SpinyRegressor().fit(X, y)
    display = EvidenceDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.line_.get_ydata(), model.log_evidence_path_)
    posterior = display.posterior_line_.get_ydata()
    assert display.posterior_line_.get_xdata()[np.argmax(posterior)] == model.n_selected_ == 4
    assert any("4 variables" in text.get_text() for text in display.ax_.texts)
    with pytest.raises(
        InputError, match="has no `model_size_probability_`, which ModelSizeDisplay"
    ):
        ModelSizeDisplay.from_estimator(
            SpinyRegressor(selection_rule="map", average=False).fit(X, y)
        )
    bars = RelevanceDisplay.from_estimator(model)
    assert [bar.get_height() for bar in bars.bars_][:20] == list(
        model.relevance_[np.argsort(model.ranking_)]
    )


def test_slope():
    X = make_globally_sparse(200, 30, n_components=2, noise=0.4, random_state=0).X
    model = SPPCA(n_components=2).fit(X)
    display = SlopeDisplay.from_estimator(model)
    left, right = display.ax_
    np.testing.assert_array_equal(left.lines[0].get_ydata(), model.log_likelihood_path_)
    # the line ends where all loadings are free, n_points of the largest models lie about it
    line = model.slope_.intercept + model.slope_.slope * selection_shape(60, 60)
    assert left.lines[1].get_ydata()[-1] == pytest.approx(line)
    np.testing.assert_array_equal(right.lines[0].get_ydata(), model.criterion_path_)
    assert any("penalty" in text.get_text() for text in right.texts)


def test_loadings(model):
    display = LoadingsDisplay.from_estimator(model)
    sizes = np.linalg.norm(model.components_, axis=0)
    order = np.argsort(-sizes)[:10]
    np.testing.assert_array_equal(display.image_.get_array(), model.components_[:, order])
    names = [text.get_text() for text in display.ax_.get_xticklabels()]
    assert names == [f"x{k}" for k in order]
    low, high = display.image_.get_clim()
    assert low == -high == -np.abs(model.components_).max()
    few = LoadingsDisplay.from_estimator(model, max_features=3)
    assert few.image_.get_array().shape == (5, 3)


def test_scores(model):
    X = make_globally_sparse(random_state=0).X
    scores = model.transform(X)
    display = ScoresDisplay.from_estimator(model, X, components=(1, 2))
    np.testing.assert_array_equal(display.points_[0].get_offsets(), scores[:, 1:3])
    share = model.explained_variance_ratio_[1]
    assert display.ax_.get_xlabel() == f"component 2 ({share:.1%} of the variance)"
    assert not display.ax_.texts
    groups = np.array(["a", "b"])[np.arange(50) % 2]
    grouped = ScoresDisplay.from_estimator(model, X, label=groups, biplot=True, max_features=4)
    np.testing.assert_array_equal(grouped.points_[1].get_offsets(), scores[1::2, :2])
    arrows = [text.get_text() for text in grouped.ax_.texts if text.get_text()]
    longest = np.argsort(-np.linalg.norm(model.components_[:2], axis=0))[:4]
    assert arrows == [f"x{k}" for k in longest]
    numbers = ScoresDisplay.from_estimator(model, X, label=scores[:, 0])
    np.testing.assert_array_equal(numbers.points_[0].get_array(), scores[:, 0])
    one = EMPCA(1, n_nonzero=5, random_state=0).fit(X)
    alone = ScoresDisplay.from_estimator(one, X, biplot=True)
    np.testing.assert_array_equal(alone.points_[0].get_offsets()[:, 1], one.transform(X)[:, 0])
    assert alone.ax_.get_xlabel() == "row"


def legend_of(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


@pytest.mark.parametrize("n_groups", [2, 8, 9, 20, 21, 40])
def test_groups_have_distinct_colours(model, n_groups):
    """At most 20 groups have colours; the smallest of more groups are drawn as others."""
    X = make_globally_sparse(random_state=0).X
    X = np.repeat(X, 4, axis=0)
    label = np.arange(200) % n_groups
    label[:20] = 0  # the largest
    display = ScoresDisplay.from_estimator(model, X, label=[f"type {k:02d}" for k in label])
    drawn = {tuple(points.get_facecolor()[0][:3]) for points in display.points_}
    named = min(n_groups, 20)
    assert len(drawn) == len(display.points_) == named + (n_groups > 20)
    names = legend_of(display)
    assert names[:2] == ["type 00", "type 20" if n_groups == 40 else "type 01"]  # the largest
    assert names[named:] == ([f"others ({n_groups - 20} groups)"] if n_groups > 20 else [])
    assert sum(len(points.get_offsets()) for points in display.points_) == 200
    display.figure_.canvas.draw()
    inside = display.ax_.get_window_extent().x1
    beside = display.ax_.get_legend().get_window_extent().x0
    assert (beside >= inside) == (n_groups > 8)
    assert display.ax_.get_legend().get_window_extent().x1 <= display.figure_.bbox.x1


def test_integer_labels(model):
    X = make_globally_sparse(random_state=0).X
    few = ScoresDisplay.from_estimator(model, X, label=np.arange(50) % 12)
    assert legend_of(few) == [str(k) for k in range(12)]
    many = ScoresDisplay.from_estimator(model, X, label=np.arange(50))
    np.testing.assert_array_equal(many.points_[0].get_array(), np.arange(50))


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["a", "b"], ["a", "b"]),
        (["x" * 20 + "1", "y" * 20 + "1"], ["xxxxxx…xxxx1", "yyyyyy…yyyy1"]),
        (["what a mean radius of it all", "what a mean area of it all"], ["…radius…", "…area…"]),
        (["same" * 9, "same" * 9], ["samesa…esame", "samesa…esame"]),
    ],
)
def test_long_names_are_shortened(names, shown):
    assert shorten_all(names, 12) == shown
    assert all(len(name) <= 12 for name in shown)


@pytest.fixture(scope="module")
def long_names():
    """Fit three models to 38 variables with very long names."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 38)) + 0.5 * rng.normal(size=(80, 38))
    X = pd.DataFrame(X, columns=[f"g{k}" + "abcdefghij" * 15 for k in range(38)])
    y = X.iloc[:, 0] + rng.normal(size=80)
    return X, FDRPCA(2).fit(X), Panel(4).fit(X), SpinyRegressor().fit(X, y)


def test_inclusion_with_credible_sets():
    """Redundant variables have the same letter."""
    X, y, coef = make_sparse_regression(60, 20, n_informative=4, random_state=0)
    true = np.flatnonzero(coef)[0]
    model = SpinyRegressor().fit(np.column_stack([X, X[:, true]]), y)
    display = InclusionDisplay.from_estimator(model, max_features=8)
    order = np.argsort(-model.inclusion_probability_, kind="stable")[:8]
    assert [bar.get_height() for bar in display.bars_] == list(model.inclusion_probability_[order])
    assert {letter: set(group.tolist()) for letter, group in display.letters_.items()} == {
        "a": {true, 20}
    }
    letters = [text.get_text() for text in display.ax_.texts]
    assert [order[k] for k, letter in enumerate(letters) if letter] == [
        j for j in order if j in (true, 20)
    ]
    assert legend_of(display) == ["selected (4)", "not selected (17)"]
    number = ModelSizeDisplay.from_estimator(model)
    assert [bar.get_height() for bar in number.bars_] == list(model.model_size_probability_)
    assert number.ax_.texts[0].get_text() == "4 selected"
    with pytest.raises(InputError, match="has no `inclusion_probability_`, which InclusionDisplay"):
        InclusionDisplay.from_estimator(EMPCA(1, n_nonzero=2).fit(X))


def test_letters_after_z():
    groups = [np.array([0, 1])] * 28
    letters = list(InclusionDisplay(np.ones(2), np.ones(2), ["x", "y"], groups).letters_)
    assert letters[24:] == ["y", "z", "aa", "ab"]


@pytest.mark.parametrize("size", [None, (3.0, 2.0), (0.9, 0.9)])
def test_layout_with_long_names_and_small_figures(long_names, size):
    """The plot keeps a positive size, without a warning of the layout engine."""
    X, model, panel, regression = long_names
    label = X.columns.to_numpy()[np.arange(80) % 38]
    for display, fitted, needs in (
        (CommunalityDisplay, model, {}),
        (LoadingsDisplay, model, {}),
        (InclusionDisplay, regression, {}),
        (ModelSizeDisplay, regression, {}),
        (ScoresDisplay, model, {"X": X, "biplot": True, "label": label}),
        (PanelDisplay, panel, {}),
    ):
        if size is not None:
            columns = 2 if display is PanelDisplay else 1
            needs["ax"] = plt.subplots(1, columns, figsize=size, layout="constrained")[1]
        drawn = display.from_estimator(fitted, **needs)
        drawn.figure_.draw_without_rendering()
        assert all(ax.bbox.width > 0 and ax.bbox.height > 0 for ax in np.ravel(drawn.ax_))


def test_convergence(model):
    display = ConvergenceDisplay.from_estimator(model)
    below = model.objective_path_[-1] - model.objective_path_
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), below[below > 0])
    assert display.ax_.get_yscale() == "log"
    two = EMPCA(2, n_nonzero=5, random_state=0).fit(make_globally_sparse(random_state=0).X)
    several = ConvergenceDisplay.from_estimator(two)
    assert len(several.lines_) == 2


def test_communality():
    """Communality decreases, and a line marks the null expectation."""
    model = FDRPCA().fit(make_globally_sparse(random_state=0, scale=True).X)
    display = CommunalityDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.communality, np.sort(model.communality_)[::-1])
    both = display.selected_.get_data().values + display.not_selected_.get_data().values
    np.testing.assert_array_equal(both, display.communality)
    assert np.count_nonzero(display.selected_.get_data().values) == model.n_selected_
    assert set(display.null_line_.get_ydata()) == {model.null_communality_}
    few = CommunalityDisplay.from_estimator(model, max_features=4)
    assert [one.get_text() for one in few.ax_.get_xticklabels()] == list(few.names[:4])
    with pytest.raises(InputError, match="EMPCA has no `communality_`"):
        CommunalityDisplay.from_estimator(EMPCA(1, n_nonzero=2).fit(np.eye(4)))


@pytest.fixture(scope="module")
def panel():
    """Fit a panel to three groups of correlated columns and independent columns."""
    rng = np.random.default_rng(0)
    z = np.repeat(rng.standard_normal((200, 3)), (8, 6, 4), axis=1)
    X = np.hstack([z + 0.4 * rng.standard_normal(z.shape), rng.standard_normal((200, 5))])
    names = [f"{'abcn'[g]}{k}" for g, size in enumerate((8, 6, 4, 5)) for k in range(size)]
    return Panel(3).fit(pd.DataFrame(X, columns=names))


def test_panel(panel):
    display = PanelDisplay.from_estimator(panel)
    np.testing.assert_array_equal(display.line_.get_ydata(), panel.heldout_r2_path_)
    np.testing.assert_array_equal(display.relative_line_.get_ydata(), panel.relative_r2_path_)
    assert set(display.attainable_line_.get_ydata()) == {panel.attainable_r2_}
    edge = np.concatenate([path.vertices[:, 1] for path in display.band_.get_paths()])
    assert edge.max() == pytest.approx((panel.heldout_r2_path_ + panel.heldout_r2_path_std_).max())
    left, right = display.ax_
    at = panel.heldout_r2_path_[2]
    assert [text.get_text() for text in left.texts] == [f"3 variables: {at:.2f}"]
    rows = [text.get_text() for text in right.get_yticklabels()]
    assert rows == [panel.feature_names_in_[k] for k in panel.order_]
    columns = [text.get_text() for text in right.get_xticklabels()]
    assert {name[0] for name in columns} == set("abc")  # no noise variables
    assert [name for name in columns if name in rows] == rows  # each before those it represents
    proxies = dict(zip(panel.feature_names_in_, panel.proxy_))
    for name, row in zip(columns, display.proxy):
        assert panel.feature_names_in_[proxies[name]] == rows[row]
    drawn = int(np.sum(panel.proxy_ >= 0))
    assert display.r2.shape == (3, drawn)
    assert f"{drawn} variables" in right.get_xlabel()
    assert f"{23 - drawn} others are not drawn" in right.get_xlabel()
    np.testing.assert_array_equal(display.image_.get_array(), display.r2)
    assert display.image_.get_clim() == (0.0, 1.0)
    assert PanelDisplay.from_estimator(panel, vmax=0.5).image_.get_clim()[1] == 0.5


def test_panel_r2_ends_at_the_heldout_r2(panel):
    display = PanelDisplay.from_estimator(panel)
    place = {name: k for k, name in enumerate(panel.feature_names_in_)}
    recovered = panel.heldout_r2_[[place[name] for name in display.column_names]]
    np.testing.assert_allclose(display.r2[-1], recovered)
    assert np.all(np.diff(display.r2, axis=0) >= 0)
    groups = [name[0] for name in display.selected_names]
    for column, name in enumerate(display.column_names):  # explained by its group
        mine = groups.index(name[0])
        before = display.r2[mine - 1, column] if mine else 0.0
        assert before < 0.1 * display.r2[-1, column]
        assert display.r2[mine, column] > 0.8 * display.r2[-1, column]
    few = PanelDisplay.from_estimator(panel, max_features=2)
    assert few.selected_names.tolist() == display.selected_names[:2].tolist()
    shown = few.column_names.size
    np.testing.assert_allclose(few.r2, display.r2[:2, :shown])


def test_panel_of_automatic_size():
    X = make_globally_sparse(100, 60, n_components=3, n_informative=50, random_state=0).X
    model = Panel().fit(X)
    display = PanelDisplay.from_estimator(model)
    assert model.heldout_r2_path_.size > model.n_selected_ == display.n_selected
    labels = [text.get_text() for text in display.ax_[0].get_legend().get_texts()]
    assert labels[-1] == "target recovery: 0.9"
    assert display.column_names.size > 40
    assert not list(display.ax_[1].get_xticklabels())
    with pytest.raises(InputError, match="GSPPCA has no `heldout_r2_path_`"):
        PanelDisplay.from_estimator(GSPPCA(2).fit(X))
    assert PanelDisplay in displays_of(model)
    assert PanelDisplay not in displays_of(FDRPCA().fit(X))


@pytest.fixture(scope="module")
def two_views():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 2))
    genes = Z @ [[2, 2, 1, 0], [0, 0, 2, 2]] + 0.5 * rng.normal(size=(80, 4))
    lipids = Z[:, :1] * [1, 1, 0] + 0.5 * rng.normal(size=(80, 3))
    return SCA(1, n_private=[1, 0]).fit([genes, lipids])


def test_explained_variance_of_views(two_views):
    display = ViewsDisplay.from_estimator(two_views, view_names=["genes", "lipids"])
    display.figure_.canvas.draw()
    squares = [np.sum(L**2, axis=1) for L in two_views.view_components_]
    for v, (width, of_latents) in enumerate(zip((4, 3), squares, strict=True)):
        total = of_latents.sum() + width * two_views.noise_variance_[v]
        np.testing.assert_allclose(display.explained_variance_ratio[v], of_latents / total)
    np.testing.assert_array_equal(display.image_.get_array(), display.explained_variance_ratio)
    assert display.explained_variance_ratio[1, 1] == 0  # the factor private to the genes
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == ["1", "2*"]
    assert display.ax_.get_yticklabels()[0].get_text().startswith("genes (")
    assert len(display.ax_.texts) == 3
    many = ViewsDisplay(np.full((2, 60), 0.01), np.full(60, -1)).plot()
    assert many.ax_.get_xlabel() == "60 factors"
    assert not many.ax_.texts
    with pytest.raises(ParameterError, match="one name per view"):
        ViewsDisplay.from_estimator(two_views, view_names=["genes"])
    assert ViewsDisplay in displays_of(two_views)
    plt.close("all")


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_empty_selection_is_written():
    X = np.random.default_rng(0).normal(size=(60, 30))
    model = FDRPCA().fit(X)
    assert model.n_selected_ == 0
    for display in displays_of(model):
        drawn = display.from_estimator(model, **({"X": X} if display is ScoresDisplay else {}))
        drawn.figure_.canvas.draw()
        if display is not RelevanceDisplay:
            assert "no variable was selected" in drawn.ax_.texts[0].get_text()
    plt.close("all")


LIBRARIES = ("numpy", "array_api_strict", "torch")
FITS = {
    "FDRPCA": FDRPCA(),
    "GSPPCA": GSPPCA(3),
    "SCA": SCA(2, max_iter=30, tol=0.0),
    "SPPCA": SPPCA(2, penalty="slope", penalties=np.linspace(0, 80, 25), max_iter=10),
    "EMPCA": EMPCA(2, n_nonzero=5, random_state=0),
    "Panel": Panel(5),
}


@pytest.fixture(scope="module")
def fits():
    """Fit each method once per array library."""
    done = {}

    def fitted(name, library):
        if (name, library) not in done:
            xp = pytest.importorskip(library, reason=f"{library} is not installed")
            X = xp.asarray(make_globally_sparse(random_state=0).X)
            done[name, library] = (clone(FITS[name]).fit(X), X)
        return done[name, library]

    return fitted


def attributes(display):
    """Return the data of a Display, without its artists."""
    return {k: v for k, v in vars(display).items() if not k.endswith("_")}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("name", "library"),
    [(name, library) for name in FITS for library in LIBRARIES],
)
def test_displays_of_models_fitted_on_other_arrays(fits, name, library):
    """The stored data are NumPy arrays and equal those of a fit to NumPy arrays."""
    ours, X = fits(name, library)
    plain, table = fits(name, "numpy")
    for display in displays_of(ours):
        needs = {"X": X} if display is ScoresDisplay else {}
        drawn = display.from_estimator(ours, **needs)
        expected = display.from_estimator(plain, **({"X": table} if needs else {}))
        for key, value in attributes(expected).items():
            if key == "paths":  # rounding may cost one library an iteration
                assert len(drawn.paths) == len(value)
                assert all(type(trace) is np.ndarray and trace.size > 1 for trace in drawn.paths)
                assert drawn.paths[0][-1] == pytest.approx(value[0][-1], rel=1e-6)
                assert all(line.get_ydata().size for line in drawn.lines_)
            elif isinstance(value, np.ndarray):
                found = getattr(drawn, key)
                assert type(found) is np.ndarray, key
                if value.dtype.kind == "f":
                    np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-5, err_msg=key)
                else:
                    np.testing.assert_array_equal(found, value, err_msg=key)
        ax = drawn.ax_
        assert drawn.figure_ is np.ravel(ax)[0].figure
        several = display in (PanelDisplay, SlopeDisplay)
        given = plt.subplots(1, 2)[1] if several else plt.subplots()[1]
        again = drawn.plot(given)
        assert again is drawn
        assert drawn.ax_ is given
        assert [len(one.lines) for one in np.ravel(given)] == [len(o.lines) for o in np.ravel(ax)]
        plt.close("all")


def test_displays_take_arrays_of_any_library():
    """Constructors convert arrays of other libraries."""
    xp = pytest.importorskip("array_api_strict")
    numbers = xp.asarray([1.0, 2.0, 4.0])
    assert type(ConvergenceDisplay(numbers).paths[0]) is np.ndarray
    assert type(ConvergenceDisplay([numbers, numbers]).paths[1]) is np.ndarray
    shown = EvidenceDisplay(xp.asarray([1, 2, 3]), numbers, 2).plot()
    np.testing.assert_array_equal(shown.line_.get_ydata(), [1.0, 2.0, 4.0])


def test_given_axes_are_used(model):
    for display in (EvidenceDisplay, RelevanceDisplay, LoadingsDisplay, ConvergenceDisplay):
        _, ax = plt.subplots()
        drawn = display.from_estimator(model, ax=ax)
        assert drawn.ax_ is ax
        assert drawn.figure_ is ax.figure


def test_without_matplotlib(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'prosparse\[plot\]'"):
        EvidenceDisplay.from_estimator(model)


def test_missing_attribute():
    """The error of a fitted model differs from that of an unfitted one."""
    X = make_globally_sparse(40, 8, n_components=1, n_informative=4, random_state=0).X
    model = FDRPCA(1)
    for display, attribute in (
        (EvidenceDisplay, "log_evidence_path_"),
        (SlopeDisplay, "log_likelihood_path_"),
        (ConvergenceDisplay, "objective_path_"),
    ):
        with pytest.raises(NotFittedError):
            display.from_estimator(clone(model))
        said = f"FDRPCA has no `{attribute}`, which {display.__name__} draws. For FDRPCA, use "
        with pytest.raises(InputError, match=re.escape(said)):
            display.from_estimator(clone(model).fit(X))
    with pytest.raises(InputError, match="SpinyRegressor has no `components_`"):
        ScoresDisplay.from_estimator(SpinyRegressor().fit(X, X[:, 0]), X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "instead"), [("FDRPCA", "Communality"), ("Panel", "Panel")])
def test_error_names_available_displays(fits, name, instead):
    """The error lists exactly the Displays that can draw the model."""
    model, _ = fits(name, "numpy")
    with pytest.raises(InputError, match=f"For {name}, use {instead}Display, Rel") as refused:
        EvidenceDisplay.from_estimator(model)
    named = re.findall(r"(?<!which )\b(\w+Display)\b", str(refused.value))
    assert {display.__name__ for display in displays_of(model)} == set(named)


@pytest.mark.parametrize("seed", range(3))
def test_labels_do_not_overlap(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 20)) + rng.standard_normal((60, 20))
    X = pd.DataFrame(X, columns=[f"variable {k}" for k in range(20)])
    ids = [f"sample {k}" for k in range(60)]
    model = EMPCA(2, n_nonzero=[20, 20], scale=True).fit(X)
    display = ScoresDisplay.from_estimator(model, X, biplot=True, max_features=12, ids=ids)
    display.figure_.draw_without_rendering()
    boxes = [mpl.text.Text.get_window_extent(label) for label in display.labels_]  # no lines
    assert len(boxes) >= 12
    limits = display.ax_.get_window_extent().padded(2)
    for k, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:k])
        assert limits.x0 <= box.x0 <= box.x1 <= limits.x1


def test_names_of_extreme_rows(model):
    X = make_globally_sparse(random_state=0).X.copy()
    scores = model.transform(X)
    X[7] += 8.0 * model.components_[0]
    ids = [f"row {k}" for k in range(len(X))]
    display = ScoresDisplay.from_estimator(model, X, ids=ids)
    names = [label.get_text() for label in display.labels_]
    assert names[0] == "row 7"
    assert len(names) <= 8
    assert ScoresDisplay(scores).plot().labels_ == []


def test_ellipses_contain_the_rows_of_their_group(model):
    X = make_globally_sparse(random_state=0).X
    label = np.repeat(["a", "b"], [len(X) - 3, 3])
    display = ScoresDisplay.from_estimator(model, X, label=label, ellipses=True)
    (line,) = display.ax_.lines  # three rows have no ellipse
    scores = model.transform(X)[:-3, :2]
    deviations = scores - scores.mean(axis=0)
    squares = np.sum(deviations @ np.linalg.inv(np.cov(scores.T)) * deviations, axis=1)
    inside = mpl.path.Path(line.get_xydata()).contains_points(scores)
    np.testing.assert_array_equal(inside, squares < -2.0 * np.log(0.05))


def test_dollars_in_names_are_no_formulas():
    X = make_globally_sparse(random_state=0).X
    names = [rf"cost $\\x_{k}$ {k}" for k in range(X.shape[1])]
    display = RelevanceDisplay.from_estimator(
        GSPPCA(5).fit(pd.DataFrame(X, columns=names)), max_features=6
    )
    display.figure_.draw_without_rendering()
    assert "$" in display.ax_.get_xticklabels()[0].get_text()
