"""Sparse probabilistic PCA with an l1 penalty."""

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning

from prosparse import SPPCA, InputError, NoStructureWarning, ParameterError
from prosparse.data import DenseOperator
from prosparse.datasets import make_globally_sparse
from prosparse.findings import findings_of
from prosparse.inference.loop import StopReason
from prosparse.metrics import support_f_score
from prosparse.models.sppca import model as sppca
from prosparse.models.sppca import path
from prosparse.models.sppca.path import find_largest_penalty, fit_one, fit_path, problem_of, refit
from prosparse.numerics.spectrum import spectrum
from prosparse.selection.criteria import ebic

SHAPES = [(60, 8, 1), (60, 8, 3), (15, 40, 2), (40, 40, 4)]


def centred_data(n, p, d, seed=0, noise=0.5):
    X = make_globally_sparse(
        n, p, n_components=d, n_informative=max(d, p // 2), noise=noise, random_state=seed
    ).X
    return X - X.mean(axis=0)


def objective(X, W, sigma2, penalty):
    covariance = W.T @ W + sigma2 * np.eye(W.shape[1])
    log_det = np.linalg.slogdet(2.0 * np.pi * covariance)[1]
    distance = np.sum(X * np.linalg.solve(covariance, X.T).T)
    return -0.5 * (len(X) * log_det + distance) - penalty * np.abs(W).sum()


def slow_step(X, W, sigma2, penalty):
    """Iterate [BJ15] (6), (7), (10) row by row, with soft thresholds entry by entry."""
    n, p = X.shape
    W = W.T.copy()  # the paper's p x d
    d = W.shape[1]
    M = W.T @ W + sigma2 * np.eye(d)
    e = np.array([np.linalg.solve(M, W.T @ x) for x in X])
    S = [sigma2 * np.linalg.inv(M) + np.outer(ei, ei) for ei in e]
    s = sum(S)
    for _ in range(200):
        for j in range(p):
            for k in range(d):
                rest = e[:, k] @ X[:, j] - sum(s[k, m] * W[j, m] for m in range(d) if m != k)
                W[j, k] = np.sign(rest) * max(abs(rest) - sigma2 * penalty, 0) / s[k, k]
    residual = sum(
        x @ x - 2 * ei @ W.T @ x + np.trace(Si @ W.T @ W) for x, ei, Si in zip(X, e, S, strict=True)
    )
    return W.T, residual / (n * p)


@pytest.mark.parametrize(("n", "p", "d"), [(12, 6, 1), (12, 6, 2), (6, 9, 2)])
@pytest.mark.parametrize("penalty", [0.0, 3.0])
def test_an_iteration_equals_the_paper(n, p, d, penalty):
    X = centred_data(n, p, d)
    op = DenseOperator(X)
    start = sppca.init(spectrum(op), d)
    start = start._replace(W=start.W + 0.1)
    result = sppca.make_step(op, n, penalty, sweeps=200)(start)
    W, sigma2 = slow_step(X, start.W, start.sigma2, penalty)
    np.testing.assert_allclose(result.W, W, atol=1e-9)
    assert result.sigma2 == pytest.approx(sigma2)
    assert result.bound <= objective(X, W, sigma2, penalty) + 1e-9
    assert result.bound >= objective(X, start.W, start.sigma2, penalty)


@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
def test_the_likelihood_is_the_normal_one(n, p, d, rng):
    X = centred_data(n, p, d)
    state = sppca.State(rng.standard_normal((d, p)), 0.7, 0.0)
    ours = sppca.log_likelihood(DenseOperator(X), n, state)
    assert ours == pytest.approx(objective(X, state.W, 0.7, 0.0))


@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
@pytest.mark.parametrize("penalty", [0.5, 5.0])
def test_the_objective_is_non_decreasing(n, p, d, penalty):
    X = centred_data(n, p, d)
    op = DenseOperator(X)
    step = sppca.make_step(op, n, penalty)
    state = sppca.init(spectrum(op), d)
    last = objective(X, state.W, state.sigma2, penalty)
    for _ in range(60):
        state = step(state)
        now = objective(X, state.W, state.sigma2, penalty)
        assert now >= last - 1e-9 * abs(last)
        assert state.bound <= now + 1e-9 * abs(now)
        last = now


@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
def test_optimality_conditions_hold_along_a_path(n, p, d):
    """dl/dw = penalty sign(w) if w != 0, |dl/dw| <= penalty if w = 0, by finite differences."""
    X = centred_data(n, p, d)
    parts = spectrum(DenseOperator(X))
    penalties = np.array([0.3, 1.0, 3.0, 10.0, 30.0])
    fits = fit_path(problem_of(parts, 5000, 1e-10), sppca.init(parts, d), penalties)
    zeros = [np.sum(np.asarray(fit.state.W) == 0) for fit in fits]
    assert zeros[-1] > 0
    for penalty, fit in zip(penalties, fits, strict=True):
        W, sigma2 = np.asarray(fit.state.W), fit.state.sigma2
        gap = sppca.subgradient_gap(parts.op, n, fit.state, penalty)
        assert gap < 1e-4
        gradient = np.zeros_like(W)
        for index in np.ndindex(W.shape):
            up, down = W.copy(), W.copy()
            up[index] += 1e-5
            down[index] -= 1e-5
            gradient[index] = (objective(X, up, sigma2, 0) - objective(X, down, sigma2, 0)) / 2e-5
        inside = W != 0
        np.testing.assert_allclose(
            gradient[inside], penalty * np.sign(W[inside]), atol=1e-4 * penalty + 1e-4
        )
        assert np.all(np.abs(gradient[~inside]) <= penalty * (1 + 1e-4) + 1e-4)
        objective_value = objective(X, W, sigma2, penalty)
        assert fit.state.bound == pytest.approx(objective_value, rel=1e-8)


@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
def test_without_penalty_it_is_probabilistic_pca(n, p, d):
    X = centred_data(n, p, d)
    problem = problem_of(spectrum(DenseOperator(X)), 2000, 1e-12)
    fit = fit_path(problem, sppca.init(problem.parts, d), np.array([0.0]))[0]
    values = np.sort(np.linalg.eigvalsh(X.T @ X / n))[::-1]
    sigma2 = values[d:].mean()
    closed = (
        -0.5
        * n
        * (p * np.log(2 * np.pi) + np.sum(np.log(values[:d])) + (p - d) * np.log(sigma2) + p)
    )
    ours = sppca.log_likelihood(DenseOperator(X), n, fit.state)
    assert ours == pytest.approx(closed, rel=1e-8)
    assert fit.state.sigma2 == pytest.approx(sigma2, rel=1e-6)


def test_zero_loadings_are_stationary():
    X = centred_data(60, 8, 2)
    op = DenseOperator(X)
    parts = spectrum(op)
    nothing = sppca.State(np.zeros((2, 8)), float(np.mean(X**2)), -np.inf)
    assert not np.any(sppca.make_step(op, 60, 1e-9)(nothing).W)
    start = sppca.init(parts, 2)
    problem = problem_of(parts, 2000, 1e-10)
    largest = find_largest_penalty(problem, start).vanishing
    below, above = fit_path(problem, sppca.init(problem.parts, 2), largest * np.array([0.5, 1.0]))
    assert np.any(below.state.W)
    assert not np.any(above.state.W)


def test_steps_use_the_array_api_only():
    X = centred_data(20, 30, 2)
    values = []
    for make in (np.asarray, array_api_strict.asarray):
        parts = spectrum(DenseOperator(make(X)))
        problem = problem_of(parts, 100, 1e-9)
        fit = fit_path(problem, sppca.init(problem.parts, 2), np.array([2.0]))[0]
        assert isinstance(fit.state.W, type(parts.op.X))
        best = refit(problem, fit.state)
        values.append([sppca.log_likelihood(parts.op, 20, state) for state in (fit.state, best)])
    np.testing.assert_allclose(values[0], values[1], rtol=1e-9)


@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
def test_the_refit_maximises_the_likelihood_on_the_nonzeros(n, p, d):
    """The gradient on the nonzeros is zero, by finite differences of the dense likelihood."""
    X = centred_data(n, p, d)
    parts = spectrum(DenseOperator(X))
    fit = fit_path(
        problem_of(parts, 2000, 1e-12), sppca.init(parts, d), np.array([0.0, 0.3, 1.0]) * n / 4
    )[-1]
    best = refit(problem_of(parts, 5000, 1e-14), fit.state)
    mask = fit.state.W != 0
    assert 0 < mask.sum() < mask.size
    assert np.all(best.W[~mask] == 0)
    assert objective(X, best.W, best.sigma2, 0.0) > objective(X, fit.state.W, fit.state.sigma2, 0.0)
    scale = np.abs(best.W).max()
    for place in np.argwhere(mask):
        step = np.zeros_like(best.W)
        step[tuple(place)] = 1e-4 * scale
        up, down = (objective(X, best.W + s * step, best.sigma2, 0.0) for s in (1, -1))
        here = objective(X, best.W, best.sigma2, 0.0)
        assert abs(up - down) <= 0.1 * (2 * here - up - down) + 1e-6  # within 5 % of a step


def test_the_start_of_a_refit_does_not_change_its_result():
    """Also if the preceding refit lacks loadings, or is zero."""
    X = centred_data(60, 8, 2)
    parts = spectrum(DenseOperator(X))
    problem = problem_of(parts, 5000, 1e-14)
    many, few = fit_path(problem, sppca.init(parts, 2), np.array([1.0, 15.0]))
    assert np.count_nonzero(few.state.W) < np.count_nonzero(many.state.W)
    alone = [refit(problem, fit.state) for fit in (many, few)]
    shrunken = many.state._replace(W=0.1 * many.state.W)
    nothing = many.state._replace(W=np.zeros_like(many.state.W))
    cases = [(few.state, *alone), (shrunken, *alone[::-1]), (many.state, nothing, alone[0])]
    for fitted, near, best in cases:
        state = refit(problem, fitted, near)
        assert np.array_equal(state.W != 0, fitted.W != 0)
        np.testing.assert_allclose(state.W, best.W, atol=1e-6 * np.abs(best.W).max())
        assert state.bound == pytest.approx(best.bound, rel=1e-11)


def test_a_known_state_replaces_a_poor_start():
    parts = spectrum(DenseOperator(centred_data(60, 8, 2)))
    problem, start = problem_of(parts, 2, 1e-10), sppca.init(parts, 2)  # two iterations per fit
    known = fit_one(problem_of(parts, 2000, 1e-10), start, 1.0).state
    poor = start._replace(W=0.05 * start.W)
    alone, helped = (fit_path(problem, poor, np.array([1.0]), known=k)[0] for k in ([], [known]))
    assert helped.state.bound == pytest.approx(known.bound)
    assert alone.state.bound < known.bound - 1.0


def test_extrapolation_is_linear_and_keeps_signs(rng):
    xp = spectrum(DenseOperator(centred_data(60, 8, 2))).op.xp
    before, last = (sppca.State(rng.standard_normal((2, 8)), s, 0.0) for s in (0.5, 0.4))
    ahead = path.extrapolate(before, last, 0.5, xp)
    line = last.W + 0.5 * (last.W - before.W)
    inside = line * last.W > 0.1 * last.W**2
    np.testing.assert_allclose(ahead.W, np.where(inside, line, 0.1 * last.W))
    assert 0 < np.count_nonzero(inside) < inside.size
    assert ahead.sigma2 == pytest.approx(0.4 * np.sqrt(0.8))


def test_zero_loadings_remain_zero_along_the_path():
    parts = spectrum(DenseOperator(centred_data(60, 8, 2)))
    problem, start = problem_of(parts, 2000, 1e-10), sppca.init(parts, 2)
    known = [fit_one(problem, start, 1.0).state]
    largest = find_largest_penalty(problem, start).vanishing
    fits = fit_path(problem, start, largest * np.array([0.5, 3.0, 4.0]), known=known)
    assert [bool(np.any(fit.state.W)) for fit in fits] == [True, False, False]


# --- the estimator


@pytest.fixture(scope="module")
def example():
    return make_globally_sparse(
        200, 30, n_components=2, n_informative=10, noise=0.4, random_state=0
    )


@pytest.mark.parametrize("seed", range(4))
def test_without_a_penalty_only_the_rotation_makes_zeros(seed, example):
    """Exactly one zero per plane, by Newton steps and by EM."""
    X = example.X + 0.01 * np.random.default_rng(seed).standard_normal(example.X.shape)
    parts = spectrum(DenseOperator(X - X.mean(axis=0)))
    problem = problem_of(parts, 200, 1e-10)
    for case in (problem, problem._replace(sums=None)):
        W = fit_one(case, sppca.init(parts, 2), 0.0).state.W
        assert np.count_nonzero(W == 0) == 1


def test_the_true_variables_are_selected(example):
    X, support, _ = example
    model = SPPCA(n_components=2).fit(X)
    assert support_f_score(support, model.support_) >= 0.9
    assert model.criterion_path_.argmax() == np.flatnonzero(model.penalties_ == model.penalty_)[0]
    # PPCA has 30 x 2 loadings, minus one for the rotation, and the noise variance.
    assert model.n_parameters_path_[0] == 60
    assert model.n_parameters_path_[-1] == 1  # only the noise variance at the largest penalty
    assert np.all(np.diff(model.objective_path_) >= 0)
    assert model.stop_reason_ is StopReason.CONVERGED
    assert len(model.objective_path_) == model.n_iter_


def test_aic_and_bic_of_the_path(example):
    X, _, _ = example
    grid = np.linspace(0, 100, 12)
    for penalty, price in (("aic", 1.0), ("bic", 0.5 * np.log(200))):
        model = SPPCA(n_components=2, penalty=penalty, penalties=grid).fit(X)
        expected = model.log_likelihood_path_ - price * model.n_parameters_path_
        np.testing.assert_allclose(model.criterion_path_, expected)
        assert model.penalty_ == model.penalties_[expected.argmax()]


def test_attributes_and_projection(example):
    X, _, _ = example
    model = SPPCA(n_components=2, penalty=50.0).fit(X)
    W, sigma2 = model.components_, model.noise_variance_
    assert np.any(W == 0)
    np.testing.assert_array_equal(model.support_, np.any(W != 0, axis=0))
    np.testing.assert_array_equal(model.n_selected_, model.support_.sum())
    assert model.relevance_.max() == 1
    centred = X - X.mean(0)
    scores = centred @ W.T @ np.linalg.inv(W @ W.T + sigma2 * np.eye(2))
    np.testing.assert_allclose(model.transform(X), scores)
    np.testing.assert_allclose(model.inverse_transform(scores), scores @ W + X.mean(0))
    normal = multivariate_normal(X.mean(0), W.T @ W + sigma2 * np.eye(30))
    np.testing.assert_allclose(model.score_samples(X), normal.logpdf(X))
    assert model.score(X) == pytest.approx(normal.logpdf(X).mean())
    assert model.log_likelihood_path_[-1] > normal.logpdf(X).sum()  # no shrinkage
    norms = np.linalg.norm(W, axis=1)
    assert norms[0] >= norms[1]
    assert model.penalty_ == 50.0


def test_penalties_are_in_the_units_of_the_data(example):
    X, _, _ = example
    model = SPPCA(n_components=2, penalty=50.0).fit(X)
    larger = SPPCA(n_components=2, penalty=50.0 / 1000).fit(1000 * X)
    np.testing.assert_array_equal(model.support_, larger.support_)
    np.testing.assert_allclose(larger.components_, 1000 * model.components_, rtol=1e-4, atol=1e-6)


def test_sparse_and_data_frames(example):
    X, _, _ = example
    model = SPPCA(n_components=2, penalty=50.0).fit(X)
    thin = SPPCA(n_components=2, penalty=50.0).fit(sparse.csr_array(X))
    np.testing.assert_allclose(thin.components_, model.components_, atol=1e-5)
    frame = pd.DataFrame(X, columns=[f"v{i}" for i in range(30)])
    named = SPPCA(n_components=2, penalty=50.0).set_output(transform="pandas").fit(frame)
    assert list(named.transform(frame).columns) == ["sppca0", "sppca1"]
    assert list(named.select(frame).columns) == [f"v{i}" for i in named.get_support(indices=True)]


def test_given_penalties(example):
    X, _, _ = example
    model = SPPCA(n_components=2, penalty="aic", penalties=[30, 10, 20]).fit(X)
    np.testing.assert_allclose(model.penalties_, [10, 20, 30])
    assert model.slope_ is None
    with pytest.raises(InputError, match="at least 10 models"):
        SPPCA(n_components=2, penalties=[30, 10, 20]).fit(X)


@pytest.mark.parametrize("width", [10, 8])
def test_few_columns_are_selected_by_extended_bic(width):
    """The path has too few large models for the slope heuristic."""
    X = load_diabetes().data[:, :width]
    model = SPPCA(2).fit(X)
    assert model.criterion_ == "ebic"
    assert model.slope_ is None
    n_nonzero = model.n_parameters_path_ - 1
    values = ebic(model.log_likelihood_path_, n_nonzero, 442, 2 * width)
    np.testing.assert_array_equal(model.criterion_path_, values)
    assert model.penalty_ == model.penalties_[np.argmax(values)]
    assert 0 < model.n_selected_ <= width
    assert (
        "selected by extended BIC because the slope heuristic found too few"
        in findings_of(model).reason
    )


def test_the_criterion_is_stored(example):
    X = example[0]
    grid = [30, 10, 20]
    for asked in ("aic", "bic", "ebic"):
        assert SPPCA(2, penalty=asked, penalties=grid).fit(X).criterion_ == asked
    assert SPPCA(2, penalty=20.0, penalties=grid).fit(X).criterion_ == "given"


def test_a_large_penalty_warns(example):
    with pytest.warns(NoStructureWarning, match="all loadings are zero"):
        model = SPPCA(n_components=2, penalty=1e6).fit(example.X)
    assert not model.support_.any()
    assert np.isfinite(model.transform(example.X)).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": "most"}, "`penalty` must be one of 'slope', 'aic', 'bic', 'ebic', got 'most'"),
        ({"penalty": -1.0}, "`penalty` must be a non-negative number, got -1.0"),
        ({"penalties": [1, -2]}, "`penalties` must be a list of finite non-negative"),
        ({"penalties": []}, "`penalties` must be a list of finite non-negative"),
        ({"n_components": 30}, "`n_components` must be less than"),
        ({"max_iter": 0}, "`max_iter` must be an integer of at least 1, got 0"),
    ],
)
def test_invalid_parameters(example, parameters, message):
    with pytest.raises(ParameterError, match=message):
        SPPCA(**({"n_components": 2} | parameters)).fit(example.X)


def test_a_given_penalty_is_added_to_the_grid(example):
    X = example[0]
    assert SPPCA(2, penalty=7.0, penalties=[1, 50.0]).fit(X).penalty_ == 7.0
    with pytest.raises(ParameterError, match="`penalty` must be finite"):
        SPPCA(2, penalty=np.inf).fit(X)


def test_the_slope_heuristic_selects_the_penalty():
    X = make_globally_sparse(200, 60, n_components=3, random_state=0).X
    model = SPPCA(3).fit(X)
    assert model.penalties_[model.slope_.best] == model.penalty_
    assert model.criterion_ == "slope"
    norms = np.linalg.norm(model.components_, axis=1)
    assert np.all(np.diff(norms) <= 0)


def test_pure_noise_has_no_slope():
    """Extended BIC selects no loading on the default grid; a given grid raises an error."""
    X = np.random.default_rng(0).standard_normal((60, 12))
    with pytest.warns(NoStructureWarning, match="largest without components"):
        model = SPPCA(1).fit(X)
    assert model.n_selected_ == 0
    with pytest.raises(InputError, match=r"no linear part|selects the smallest model"):
        SPPCA(1, penalties=model.penalties_).fit(X)


@pytest.mark.parametrize("grid", ["abc", ["a"], [[1.0]], [], 3.0, [np.nan], [1e300]])
def test_invalid_grids(grid):
    with pytest.raises(ParameterError, match="`penalties` must be"):
        SPPCA(1, penalties=grid).fit(np.random.default_rng(0).standard_normal((9, 4)))


@pytest.mark.parametrize(
    ("bound", "reason"),
    [(-1e9, StopReason.DECREASED), (float("nan"), StopReason.NOT_FINITE)],
)
def test_a_decreasing_objective_is_reported(bound, reason, monkeypatch):
    """A fit whose objective decreased, or was NaN, is not reported as converged.

    This holds although the next run, with a smaller tolerance, converges.
    """
    make, runs = path.make_step, []

    def broken(op, n, penalty, *rest):
        step, calls = make(op, n, penalty, *rest), []
        runs.append(penalty)
        first = runs.count(penalty) == 1

        def broken_step(state):
            calls.append(state)
            result = step(state)
            return result._replace(bound=bound) if first and len(calls) == 2 else result

        return broken_step

    monkeypatch.setattr(path, "make_step", broken)
    monkeypatch.setattr(path.newton, "MAX_COLUMNS", 0)  # by EM alone
    with pytest.warns(ConvergenceWarning, match="the best result so far"):
        model = SPPCA(2, penalty=20.0).fit(centred_data(60, 12, 2))
    assert runs.count(max(runs)) > 1
    assert model.stop_reason_ is reason


@pytest.mark.parametrize("seed", [3, 4, 9])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_penalties_may_be_far_apart(seed):
    """The extrapolation is bounded, so that no number overflows."""
    X = np.random.default_rng(seed).integers(-3, 4, (6, 4)).astype(float)
    model = SPPCA(2, penalty="aic", max_iter=1, penalties=[0.0, 1e-3, 3.0, 1e6]).fit(X)
    assert np.all(np.isfinite(model.components_))
