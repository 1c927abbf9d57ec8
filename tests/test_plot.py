import copy
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
    plot,
)
from prosparse.datasets import make_globally_sparse, make_sparse_regression
from prosparse.plot import (
    CommunalityDisplay,
    ConvergenceDisplay,
    EvidenceDisplay,
    InclusionDisplay,
    LoadingsDisplay,
    NumberDisplay,
    PanelDisplay,
    RelevanceDisplay,
    ScoresDisplay,
    SlopeDisplay,
    ViewsDisplay,
    displays_of,
)
from prosparse.selection.slope import choice_shape

pytestmark = pytest.mark.quick


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
    assert labels == ["chosen (10)", "not chosen (20)"]
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
    with pytest.raises(InputError, match="has no `model_size_probability_`, which NumberDisplay"):
        NumberDisplay.from_estimator(SpinyRegressor(selection_rule="map", average=False).fit(X, y))
    bars = RelevanceDisplay.from_estimator(model)
    assert [bar.get_height() for bar in bars.bars_][:20] == list(
        model.relevance_[np.argsort(model.ranking_)]
    )


def test_slope():
    X = make_globally_sparse(200, 30, n_components=2, noise=0.4, random_state=0).X
    model = SPPCA(n_components=2).fit(X)
    display = SlopeDisplay.from_estimator(model)
    left, right = display.axes_
    np.testing.assert_array_equal(left.lines[0].get_ydata(), model.log_likelihood_path_)
    # the line ends where all loadings are free, n_points of the largest models lie about it
    line = model.slope_.intercept + model.slope_.slope * choice_shape(60, 60)
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
def test_colours_tell_groups_apart(model, n_groups):
    """Up to 20 groups each have a colour; of more, the largest have, and the rest is named so."""
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


def test_integers_in_order_or_as_numbers(model):
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
def test_long_names_lose_their_middle(names, shown):
    assert plot._short_names(names, 12) == shown
    assert all(len(name) <= 12 for name in shown)


@pytest.fixture(scope="module")
def long_names():
    """A table of 38 variables whose names are longer than a page is wide; three models of it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 38)) + 0.5 * rng.normal(size=(80, 38))
    X = pd.DataFrame(X, columns=[f"g{k}" + "abcdefghij" * 15 for k in range(38)])
    y = X.iloc[:, 0] + rng.normal(size=80)
    return X, FDRPCA(2).fit(X), Panel(4).fit(X), SpinyRegressor().fit(X, y)


def test_probabilities_with_credible_sets():
    """Variables that could stand for each other have the same letter."""
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
    assert legend_of(display) == ["chosen (4)", "not chosen (17)"]
    number = NumberDisplay.from_estimator(model)
    assert [bar.get_height() for bar in number.bars_] == list(model.model_size_probability_)
    assert number.ax_.texts[0].get_text() == "4 chosen"
    with pytest.raises(InputError, match="has no `inclusion_probability_`, which InclusionDisplay"):
        InclusionDisplay.from_estimator(EMPCA(1, n_nonzero=2).fit(X))


def test_letters_go_on_after_z():
    groups = [np.array([0, 1])] * 28
    letters = list(InclusionDisplay(np.ones(2), np.ones(2), ["x", "y"], groups).letters_)
    assert letters[24:] == ["y", "z", "aa", "ab"]


@pytest.mark.parametrize("size", [None, (3.0, 2.0), (0.9, 0.9)])
def test_the_layout_never_collapses(long_names, size):
    """Whatever the figure and the names, there is a picture left: a warning would be an error."""
    X, model, panel, regression = long_names
    label = X.columns.to_numpy()[np.arange(80) % 38]
    for display, fitted, needs in (
        (CommunalityDisplay, model, {}),
        (LoadingsDisplay, model, {}),
        (InclusionDisplay, regression, {}),
        (NumberDisplay, regression, {}),
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
    """Falling, the chosen in colour, and the line of chance."""
    model = FDRPCA().fit(make_globally_sparse(random_state=0, scale=True).X)
    display = CommunalityDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.communality, np.sort(model.communality_)[::-1])
    both = display.chosen_.get_data().values + display.rest_.get_data().values
    np.testing.assert_array_equal(both, display.communality)
    assert np.count_nonzero(display.chosen_.get_data().values) == model.n_selected_
    assert set(display.chance_line_.get_ydata()) == {model.null_communality_}
    few = CommunalityDisplay.from_estimator(model, max_features=4)
    assert [one.get_text() for one in few.ax_.get_xticklabels()] == list(few.names[:4])
    with pytest.raises(InputError, match="EMPCA has no `communality_`"):
        CommunalityDisplay.from_estimator(EMPCA(1, n_nonzero=2).fit(np.eye(4)))


@pytest.fixture(scope="module")
def panel():
    """Three groups of near copies of a variable, and columns that share nothing."""
    rng = np.random.default_rng(0)
    z = np.repeat(rng.standard_normal((200, 3)), (8, 6, 4), axis=1)
    X = np.hstack([z + 0.4 * rng.standard_normal(z.shape), rng.standard_normal((200, 5))])
    names = [f"{'abcn'[g]}{k}" for g, size in enumerate((8, 6, 4, 5)) for k in range(size)]
    return Panel(3).fit(pd.DataFrame(X, columns=names))


def test_panel(panel):
    display = PanelDisplay.from_estimator(panel)
    np.testing.assert_array_equal(display.line_.get_ydata(), panel.heldout_r2_path_)
    np.testing.assert_array_equal(display.attained_line_.get_ydata(), panel.relative_r2_path_)
    assert set(display.attainable_line_.get_ydata()) == {panel.attainable_r2_}
    edge = np.concatenate([path.vertices[:, 1] for path in display.band_.get_paths()])
    assert edge.max() == pytest.approx((panel.heldout_r2_path_ + panel.heldout_r2_path_std_).max())
    left, right = display.ax_
    at = panel.heldout_r2_path_[2]
    assert [text.get_text() for text in left.texts] == [f"3 variables: {at:.2f}"]
    rows = [text.get_text() for text in right.get_yticklabels()]
    assert rows == [panel.feature_names_in_[k] for k in panel.order_]
    columns = [text.get_text() for text in right.get_xticklabels()]
    assert {name[0] for name in columns} == set("abc")  # what shares nothing is not drawn
    assert [name for name in columns if name in rows] == rows  # each before those it stands for
    stand_in = dict(zip(panel.feature_names_in_, panel.proxy_))
    for name, row in zip(columns, display.stand_in):
        assert panel.feature_names_in_[stand_in[name]] == rows[row]
    drawn = int(np.sum(panel.proxy_ >= 0))
    assert display.shares.shape == (3, drawn)
    assert f"{drawn} variables" in right.get_xlabel()
    assert f"{23 - drawn} others are not drawn" in right.get_xlabel()
    np.testing.assert_array_equal(display.image_.get_array(), display.shares)
    assert display.image_.get_clim() == (0.0, 1.0)
    assert PanelDisplay.from_estimator(panel, vmax=0.5).image_.get_clim()[1] == 0.5


def test_panel_shares_end_where_held_out_rows_say(panel):
    display = PanelDisplay.from_estimator(panel)
    place = {name: k for k, name in enumerate(panel.feature_names_in_)}
    recovered = panel.heldout_r2_[[place[name] for name in display.column_names]]
    np.testing.assert_allclose(display.shares[-1], recovered)
    assert np.all(np.diff(display.shares, axis=0) >= 0)
    groups = [name[0] for name in display.chosen_names]
    for column, name in enumerate(display.column_names):  # told when one of its own group comes
        mine = groups.index(name[0])
        before = display.shares[mine - 1, column] if mine else 0.0
        assert before < 0.1 * display.shares[-1, column]
        assert display.shares[mine, column] > 0.8 * display.shares[-1, column]
    few = PanelDisplay.from_estimator(panel, max_features=2)
    assert few.chosen_names.tolist() == display.chosen_names[:2].tolist()
    shown = few.column_names.size
    np.testing.assert_allclose(few.shares, display.shares[:2, :shown])


def test_panel_that_the_data_decide_on():
    X = make_globally_sparse(100, 60, n_components=3, n_informative=50, random_state=0).X
    model = Panel().fit(X)
    display = PanelDisplay.from_estimator(model)
    assert model.heldout_r2_path_.size > model.n_selected_ == display.n_selected
    labels = [text.get_text() for text in display.ax_[0].get_legend().get_texts()]
    assert labels[-1] == "asked for: 0.9 of what all tell"
    assert display.column_names.size > 40
    assert not list(display.ax_[1].get_xticklabels())
    with pytest.raises(InputError, match="GSPPCA has no `heldout_r2_path_`"):
        PanelDisplay.from_estimator(GSPPCA(2).fit(X))
    assert PanelDisplay in displays_of(Panel)
    assert PanelDisplay not in displays_of(FDRPCA)


@pytest.fixture(scope="module")
def two_views():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 2))
    genes = Z @ [[2, 2, 1, 0], [0, 0, 2, 2]] + 0.5 * rng.normal(size=(80, 4))
    lipids = Z[:, :1] * [1, 1, 0] + 0.5 * rng.normal(size=(80, 3))
    return SCA(1, n_private=[1, 0]).fit([genes, lipids])


def test_what_latents_explain_of_views(two_views):
    display = ViewsDisplay.from_estimator(two_views, view_names=["genes", "lipids"])
    display.figure_.canvas.draw()
    squares = [np.sum(L**2, axis=1) for L in two_views.view_components_]
    for v, (width, of_latents) in enumerate(zip((4, 3), squares, strict=True)):
        total = of_latents.sum() + width * two_views.noise_variance_[v]
        np.testing.assert_allclose(display.shares[v], of_latents / total)
    np.testing.assert_array_equal(display.image_.get_array(), display.shares)
    assert display.shares[1, 1] == 0  # the latent of the genes alone
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == ["1", "2*"]
    assert display.ax_.get_yticklabels()[0].get_text().startswith("genes (")
    assert len(display.ax_.texts) == 3
    many = ViewsDisplay(np.full((2, 60), 0.01), np.full(60, -1)).plot()
    assert many.ax_.get_xlabel() == "60 latents"
    assert not many.ax_.texts
    with pytest.raises(ParameterError, match="one name for each of the 2 views"):
        ViewsDisplay.from_estimator(two_views, view_names=["genes"])
    assert ViewsDisplay in displays_of(SCA)
    assert ViewsDisplay not in displays_of(FDRPCA)
    plt.close("all")


def test_shares_of_views_of_an_earlier_file(two_views):
    """It has one noise variance per view, and none per column."""
    earlier = copy.copy(two_views)
    del earlier.feature_noise_variance_
    shares = [ViewsDisplay.from_estimator(model).shares for model in (two_views, earlier)]
    np.testing.assert_allclose(shares[0], shares[1])
    plt.close("all")


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_nothing_chosen_is_drawn_in_words():
    X = np.random.default_rng(0).normal(size=(60, 30))
    model = FDRPCA().fit(X)
    assert model.n_selected_ == 0
    for display in displays_of(model):
        drawn = display.from_estimator(model, **({"X": X} if display is ScoresDisplay else {}))
        drawn.figure_.canvas.draw()
        if display is not RelevanceDisplay:
            assert "no variable was chosen" in drawn.ax_.texts[0].get_text()
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
    """Every method that fits tables where they are, fitted once to each kind of array."""
    done = {}

    def fitted(name, library):
        if (name, library) not in done:
            xp = pytest.importorskip(library, reason=f"{library} is not installed")
            X = xp.asarray(make_globally_sparse(random_state=0).X)
            done[name, library] = (clone(FITS[name]).fit(X), X)
        return done[name, library]

    return fitted


def attributes(display):
    """The data of a Display, not what it drew."""
    return {k: v for k, v in vars(display).items() if not k.endswith("_")}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("name", "library"),
    [
        pytest.param(name, library, marks=pytest.mark.slow if slow else ())
        for name in FITS
        for library in LIBRARIES
        for slow in [library == "torch" or (name, library) == ("SPPCA", "array_api_strict")]
    ],
)
def test_every_display_whatever_the_model_was_fitted_on(fits, name, library):
    """Data on the host, the same as after a fit of a NumPy array; drawn anew by ``plot``."""
    ours, X = fits(name, library)
    plain, table = fits(name, "numpy")
    for display in displays_of(ours):
        needs = {"X": X} if display is ScoresDisplay else {}
        drawn = display.from_estimator(ours, **needs)
        expected = display.from_estimator(plain, **({"X": table} if needs else {}))
        for key, value in attributes(expected).items():
            if key == "traces":  # rounding may cost one library an iteration
                assert len(drawn.traces) == len(value)
                assert all(type(trace) is np.ndarray and trace.size > 1 for trace in drawn.traces)
                assert drawn.traces[0][-1] == pytest.approx(value[0][-1], rel=1e-6)
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
    """What a user gives to the constructors is brought to the host as well."""
    xp = pytest.importorskip("array_api_strict")
    numbers = xp.asarray([1.0, 2.0, 4.0])
    assert type(ConvergenceDisplay(numbers).traces[0]) is np.ndarray
    assert type(ConvergenceDisplay([numbers, numbers]).traces[1]) is np.ndarray
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


def test_a_picture_of_what_a_model_has_not_got():
    """It is fitted, which is not what is wrong with it."""
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
def test_what_can_be_drawn_instead(fits, name, instead):
    """How a method chose comes first, and all that is named can be drawn."""
    model, _ = fits(name, "numpy")
    with pytest.raises(InputError, match=f"For {name}, use {instead}Display, Rel") as refused:
        EvidenceDisplay.from_estimator(model)
    named = re.findall(r"(?<!which )\b(\w+Display)\b", str(refused.value))
    assert {display.__name__ for display in displays_of(model)} == set(named)
