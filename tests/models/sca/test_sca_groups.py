"""Groups of samples: steps against dense computations, estimation and new rows."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from test_sca_steps import slow_inclusion_prior, slow_noise_prior

import prosparse
from prosparse import SCA
from prosparse.data.row_groups import row_groups
from prosparse.errors import InputError, ParameterError
from prosparse.inference.loop import StopReason, iterate
from prosparse.models.sca.group_data import group_data
from prosparse.models.sca.grouped import GroupedSamples, optimal_factor_variances, sub_layout
from prosparse.models.sca.model import accelerator, init, step, view_layout
from prosparse.models.sca.samples import CompleteSamples
from prosparse.models.sca.start import initial_loadings

VIEWS = [slice(0, 14), slice(14, 24)]
ACTIVE = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])  # groups x factors
NAMES = np.array(["north", "south"])


def simulated(sizes=(90, 70), seed=0):
    """Simulate two groups with factors active in the first, the second or both."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat([0, 1], sizes))
    W = np.where(rng.random((3, 24)) < 0.5, rng.normal(0, 1.5, (3, 24)), 0.0)
    Z = rng.standard_normal((codes.size, 3)) * np.sqrt(ACTIVE[codes])
    noise = 0.4 + rng.random((2, 24))
    X = Z @ W + 3.0 * rng.standard_normal((2, 24))[codes]
    return X + noise[codes] * rng.standard_normal(X.shape), NAMES[codes], Z, noise**2


@pytest.fixture(scope="module")
def data():
    return simulated()


@pytest.fixture(scope="module")
def model(data):
    X, groups, _, _ = data
    return SCA("auto", views=VIEWS).fit(X, groups=groups)


# --- steps


CASES = {"complete": 0.0, "missing values": 0.15, "missing view": "view", "constant": "constant"}


def problem(case, noise):
    X, groups, _, _ = simulated((14, 11), seed=3)
    X = X.copy()
    rng = np.random.default_rng(1)
    if case == "missing values":
        X[rng.random(X.shape) < CASES[case]] = np.nan
    elif case == "missing view":
        X[groups == "south", 14:] = np.nan
    elif case == "constant":
        X[groups == "south", 3] = 7.0
    rows = row_groups(groups, len(X))
    table = group_data(X, rows, True, 3)
    columns = [np.arange(14), np.arange(14, 24)]
    lay = view_layout(columns, 2, [1, 0], noise)
    start, n = table.start, len(X)
    first = init(
        CompleteSamples(start, n), lay, *initial_loadings(start, n, columns, 2, [1, 0]), "ard"
    )
    Z = (X - table.mean[rows.codes]) / table.size
    seen = ~np.isnan(Z) & table.varying_in_group[rows.codes]
    samples = GroupedSamples(table.members, table.kept.size)
    return Z, seen, rows.codes, lay, samples, samples.initial(lay, first)


def slow_grouped_bound(X, seen, codes, lay, v, before, after):
    """Lower bound of the log evidence, sample by sample and variable by variable.

    q(z) is optimal for the parameters ``before`` the step and the factor variances ``v``; loadings,
    noise, offsets and variances are those ``after`` it.
    """
    Q = before.L.shape[1]
    total = slow_inclusion_prior(lay, after.t)
    moments = []
    for row, g in zip(range(len(X)), codes, strict=True):
        on = np.flatnonzero(v[g] > 0)
        precision, y = np.diag(1 / v[g, on]), np.zeros(on.size)
        for i in np.flatnonzero(seen[row]):
            second = np.outer(before.L[i], before.L[i]) + before.C[i]
            precision += before.tau[g, i] * second[np.ix_(on, on)]
            y += before.tau[g, i] * before.L[i, on] * (X[row, i] - before.mu[g, i])
        z, S = np.zeros(Q), np.zeros((Q, Q))
        S[np.ix_(on, on)] = np.linalg.inv(precision)
        z[on] = S[np.ix_(on, on)] @ y
        moments.append((z, S))
    # Factors have unit variance over all samples after the step.
    scale = np.sqrt(np.mean([np.diagonal(S) + z**2 for z, S in moments], axis=0))
    scale[scale == 0] = 1.0
    for row, g in zip(range(len(X)), codes, strict=True):
        z, S = moments[row]
        z, S = z / scale, S / np.outer(scale, scale)
        on = np.flatnonzero(v[g] > 0)
        prior, S_on = after.scores.v[g, on], S[np.ix_(on, on)]
        ratio = np.sum((np.diagonal(S_on) + z[on] ** 2) / prior)
        total -= 0.5 * (ratio - on.size + np.log(prior).sum() - np.linalg.slogdet(S_on)[1])
        for i in np.flatnonzero(seen[row]):
            loadings = np.outer(after.L[i], after.L[i]) + after.C[i]
            r = X[row, i] - after.mu[g, i]
            square = r**2 - 2 * r * after.L[i] @ z + np.sum((np.outer(z, z) + S) * loadings)
            total += 0.5 * np.log(after.tau[g, i] / (2 * np.pi)) - 0.5 * after.tau[g, i] * square
    for i in range(X.shape[1]):
        a = np.flatnonzero(after.t[i] > 0)
        if a.size:
            C, m, t = after.C[i][np.ix_(a, a)], after.L[i][a], after.t[i][a]
            total -= 0.5 * (
                np.sum((np.diagonal(C) + m**2) / t) - a.size - np.linalg.slogdet(C / t)[1]
            )
    for g in range(2):
        mine = np.flatnonzero(seen[codes == g].any(axis=0))
        part = sub_layout(lay, mine)
        group_tau = after.tau[g, mine]
        if lay.noise_has_prior:
            total += slow_noise_prior(
                X[codes == g][:, mine], seen[codes == g][:, mine], part, group_tau
            )
    return total


@pytest.mark.parametrize("noise", ["view", "feature"])
@pytest.mark.parametrize("case", CASES)
def test_bound_matches_slow_formula(case, noise):
    X, seen, codes, lay, samples, state = problem(case, noise)
    members = samples.members
    for _ in range(2):
        result = step(samples, lay, None, state)
        v = state.ahead.scores.v.copy()
        for g, member in enumerate(members):
            if isinstance(
                member.samples, CompleteSamples
            ):  # whose factor variances are updated first
                at, now = member.columns, state.ahead
                tau = now.tau[g, at]
                P = sum(
                    t * (np.outer(w, w) + C)
                    for t, w, C in zip(tau, now.L[at], now.C[at], strict=True)
                )
                Y = X[codes == g][:, at] @ (tau[:, None] * now.L[at])
                v[g] = optimal_factor_variances(v[g], P, Y.T @ Y / len(Y))
        expected = slow_grouped_bound(X, seen, codes, lay, v, state.ahead, result.fitted)
        assert result.bound == pytest.approx(expected, rel=1e-9, abs=1e-5)
        pooled = np.array([m.samples.n for m in members]) @ result.fitted.scores.v / len(X)
        np.testing.assert_allclose(pooled[pooled > 0], 1.0)
        state = result


@pytest.mark.parametrize("noise", ["view", "feature"])
@pytest.mark.parametrize("case", CASES)
def test_bound_is_non_decreasing(case, noise):
    *_, lay, samples, state = problem(case, noise)
    bounds = []
    for _ in range(40):
        state = step(samples, lay, None, state)
        bounds.append(state.bound)
    assert np.diff(bounds).min() > -1e-9 * abs(bounds[-1])
    accelerated = iterate(
        partial(step, samples, lay, None),
        state,
        max_iter=40,
        tol=0.0,
        accelerator=accelerator(samples.max_precisions(lay)),
    )
    assert np.diff([bounds[-1], *accelerated.bounds]).min() > -1e-9 * abs(bounds[-1])
    assert accelerated.reason in (StopReason.CONVERGED, StopReason.MAX_ITER)


def test_factor_variances_maximise_the_dense_marginal_likelihood(rng):
    """log N(x; 0, L diag(v) L' + noise) with dense covariances, one variance at a time."""
    L, noise = rng.standard_normal((7, 3)), 0.5 + rng.random(7)
    true = np.array([2.0, 0.0, 0.5])
    X = (rng.standard_normal((60, 3)) * np.sqrt(true)) @ L.T
    X += np.sqrt(noise) * rng.standard_normal(X.shape)

    def likelihood(v):
        covariance = L @ np.diag(v) @ L.T + np.diag(noise)
        return multivariate_normal.logpdf(X, np.zeros(7), covariance).sum()

    P, Y = (L.T / noise) @ L, X @ (L / noise[:, None])
    v, before = np.ones(3), -np.inf
    for _ in range(30):
        v = optimal_factor_variances(v, P, Y.T @ Y / len(X))
        assert likelihood(v) >= before - 1e-9
        before = likelihood(v)
    for k in range(3):
        for other in (0.0, 0.7 * v[k], 1.4 * v[k], v[k] + 0.05):
            moved = v.copy()
            moved[k] = other
            assert likelihood(moved) <= before + 1e-9
    assert v[0] > 1.0
    assert v[1] < 0.15


# --- estimation


def test_active_factors_of_each_group_are_recovered(model, data):
    X, groups, Z, noise = data
    assert model.n_components_ == 3
    assert model.groups_.tolist() == ["north", "south"]
    assert model.group_sizes_.tolist() == [90, 70]
    scores = model.transform(X, groups=groups)
    match = np.argmax(np.abs(np.corrcoef(scores.T, Z.T))[:3, 3:], axis=1)
    assert sorted(match) == [0, 1, 2]
    found = model.factor_variance_per_group_
    assert np.all(found[ACTIVE[:, match] == 0] < 0.03)
    assert np.all(found[ACTIVE[:, match] == 1] > 0.5)
    np.testing.assert_allclose(model.group_sizes_ @ found / 160, 1.0)
    shares = model.explained_variance_per_group_
    assert shares.shape == (2, 2, 3)
    np.testing.assert_allclose(shares, found[:, None, :] * model.explained_variance_per_view_)
    np.testing.assert_allclose(
        np.tensordot(model.group_sizes_ / 160, shares, axes=1), model.explained_variance_per_view_
    )
    for g, name in enumerate(model.groups_):
        np.testing.assert_allclose(model.group_means_[g], X[groups == name].mean(axis=0))
        assert np.median(np.abs(np.log(model.group_noise_variance_[g] / noise[g]))) < 0.15
    np.testing.assert_allclose(model.mean_, X.mean(axis=0))
    assert np.diff(model.objective_path_).min() >= 0


def test_one_noise_variance_per_view_and_group(data):
    X, groups, _, _ = data
    found = SCA(3, noise="view", views=VIEWS, tol=1e-6).fit(X, groups=groups)
    for g in range(2):
        assert [np.unique(found.group_noise_variance_[g, view]).size for view in VIEWS] == [1, 1]
    assert np.unique(found.group_noise_variance_).size == 4


def test_one_group_equals_no_groups(data):
    X = data[0]
    plain, one = SCA(3, views=VIEWS).fit(X), SCA(3, views=VIEWS).fit(X, groups=["a"] * len(X))
    for name in (
        "components_",
        "components_std_",
        "feature_noise_variance_",
        "mean_",
        "objective_path_",
    ):
        np.testing.assert_array_equal(getattr(plain, name), getattr(one, name))
    assert not hasattr(plain, "groups_")
    assert one.explained_variance_per_group_.shape == (1, 2, plain.n_components_)
    np.testing.assert_array_equal(plain.transform(X[:5]), one.transform(X[:5], groups=["a"] * 5))
    with pytest.raises(ParameterError, match="labels of the fit, 'a', got 'b'"):
        one.score(X[:2], groups=["a", "b"])


def test_invariance_to_units_and_row_order(model, data, rng):
    X, groups, _, _ = data
    order, units = rng.permutation(len(X)), np.exp(rng.normal(0, 3, 24))
    other = SCA("auto", views=VIEWS).fit(X[order] * units, groups=groups[order])
    np.testing.assert_allclose(other.components_, model.components_ * units, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(
        other.factor_variance_per_group_, model.factor_variance_per_group_, atol=1e-5
    )
    jacobian = len(X) * np.log(units).sum()
    assert other.objective_path_[-1] == pytest.approx(
        model.objective_path_[-1] - jacobian, rel=1e-7
    )


def test_sparse_input_and_lists_of_views(data):
    X, groups, _, _ = data
    X = np.where(np.abs(X) < 1.5, 0.0, X)
    dense = SCA(2, views=VIEWS, tol=1e-7).fit(X, groups=groups)
    listed = SCA(2, tol=1e-7).fit([X[:, view] for view in VIEWS], groups=groups)
    np.testing.assert_array_equal(dense.components_, listed.components_)
    thin = SCA(2, views=VIEWS, tol=1e-7).fit(sparse.csr_array(X), groups=groups)
    np.testing.assert_allclose(thin.components_, dense.components_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        thin.transform(sparse.csr_array(X), groups=groups),
        dense.transform(X, groups=groups),
        atol=1e-7,
    )


def test_results_in_the_array_library_of_the_data(data):
    strict = pytest.importorskip("array_api_strict")
    X, groups, _, _ = data
    options = {"views": VIEWS, "tol": 1e-5}
    fitted_numpy = SCA(2, **options).fit(X, groups=groups)
    fitted_strict = SCA(2, **options).fit(strict.asarray(X), groups=groups)
    np.testing.assert_allclose(
        np.asarray(fitted_strict.components_), fitted_numpy.components_, atol=1e-9
    )
    for known in ({"groups": groups}, {}):
        Z = fitted_strict.transform(strict.asarray(X), **known)
        assert isinstance(Z, type(strict.asarray(X)))
        np.testing.assert_allclose(np.asarray(Z), fitted_numpy.transform(X, **known), atol=1e-9)
        assert fitted_strict.score(strict.asarray(X), **known) == pytest.approx(
            fitted_numpy.score(X, **known)
        )


def test_data_outside_memory_raise_an_error(data):
    dask = pytest.importorskip("dask.array")
    X, groups, _, _ = data
    with pytest.raises(InputError, match="`groups` requires data in memory"):
        SCA(2).fit(dask.from_array(X, chunks=(40, -1)), groups=groups)


# --- new rows


def dense_moments(model):
    """Mean and covariance matrix of the rows of each group."""
    return [
        (
            model.group_means_[g],
            (model.components_.T * model.factor_variance_per_group_[g]) @ model.components_
            + np.diag(
                model.group_noise_variance_[g]
                + model.factor_variance_per_group_[g] @ model.components_std_**2
            ),
        )
        for g in range(len(model.groups_))
    ]


def test_covariance_of_each_group_matches_dense_formula(model, data):
    for label, (_, covariance) in zip(model.groups_, dense_moments(model), strict=True):
        found = model.get_covariance(group=label)
        np.testing.assert_allclose(found, covariance, rtol=1e-10)
        np.testing.assert_allclose(
            model.get_precision(group=label), np.linalg.inv(covariance), rtol=1e-7, atol=1e-9
        )
    for method in (model.get_covariance, model.get_precision):
        with pytest.raises(ParameterError, match=f"`{method.__name__}` requires `group`"):
            method()
        with pytest.raises(ParameterError, match=r"`group` must be one of `groups_`.* got 'east'"):
            method(group="east")
    one = SCA(2, tol=1e-4).fit(data[0], groups=["a"] * len(data[0]))
    np.testing.assert_array_equal(one.get_covariance(group="a"), one.get_covariance())


def test_explained_variance_ratio_is_a_proportion_of_the_variance_within_groups(model):
    proportions = model.group_sizes_ / model.group_sizes_.sum()
    traces = [np.trace(covariance) for _, covariance in dense_moments(model)]
    np.testing.assert_allclose(
        model.explained_variance_ratio_,
        model.explained_variance_ / (proportions @ traces),
        rtol=1e-10,
    )


def test_score_samples_is_the_dense_density(model, data):
    X, groups, _, _ = data
    each = np.stack(
        [multivariate_normal.logpdf(X, *moments) for moments in dense_moments(model)], axis=1
    )
    codes = np.searchsorted(NAMES, groups)
    np.testing.assert_allclose(
        model.score_samples(X, groups=groups), each[np.arange(len(X)), codes], rtol=1e-9
    )
    mixture = logsumexp(each + np.log(model.group_sizes_ / len(X)), axis=1)
    np.testing.assert_allclose(model.score_samples(X), mixture, rtol=1e-9)
    assert model.score(X, groups=groups) == pytest.approx(
        np.mean(model.score_samples(X, groups=groups))
    )


def test_predictions_are_dense_conditionals(model, data):
    X, groups, _, _ = data
    rows, codes = X[:6], np.searchsorted(NAMES, groups[:6])
    with_groups = model.predict_view([rows[:, :14], None], target=1, groups=groups[:6])
    without_groups = model.predict_view([rows[:, :14], None], target=1)
    incomplete = rows.copy()
    incomplete[:, 14:] = np.nan
    filled = model.impute(incomplete, groups=groups[:6])
    moments_of_groups = dense_moments(model)
    for n, row in enumerate(rows):
        means, variances, weights = [], [], []
        for proportion, (mean, covariance) in zip(
            model.group_sizes_ / len(X), moments_of_groups, strict=True
        ):
            observed_covariance, across = covariance[:14, :14], covariance[14:, :14]
            gain = across @ np.linalg.inv(observed_covariance)
            means.append(mean[14:] + gain @ (row[:14] - mean[:14]))
            variances.append(np.diagonal(covariance[14:, 14:] - gain @ across.T))
            weights.append(
                proportion * multivariate_normal.pdf(row[:14], mean[:14], observed_covariance)
            )
        np.testing.assert_allclose(with_groups.mean[n], means[codes[n]], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(with_groups.variance[n], variances[codes[n]], rtol=1e-6)
        np.testing.assert_allclose(filled[n, 14:], means[codes[n]], rtol=1e-6, atol=1e-8)
        w = np.array(weights) / np.sum(weights)
        np.testing.assert_allclose(without_groups.mean[n], w @ means, rtol=1e-6, atol=1e-8)
        second = w @ (np.array(variances) + np.array(means) ** 2)
        np.testing.assert_allclose(without_groups.variance[n], second - (w @ means) ** 2, rtol=1e-6)


def test_scores_of_rows_with_an_obvious_group(model, data):
    X, groups, _, _ = data
    with_groups = model.transform(X, groups=groups)
    np.testing.assert_allclose(
        model.transform(X), with_groups, atol=1e-3
    )  # the group means differ strongly
    again = SCA("auto", views=VIEWS).fit_transform(X, groups=groups)
    np.testing.assert_allclose(again, with_groups)


def test_group_with_a_missing_view_and_a_constant_column(data):
    X, groups, _, _ = data
    X = X.copy()
    south = groups == "south"
    X[south, 14:] = np.nan
    X[south, 2] = 5.0
    found = SCA(3, views=VIEWS, tol=1e-6).fit(X, groups=groups)
    varying_in_group = found.group_varying_
    assert varying_in_group[0].all()
    assert not varying_in_group[1, 14:].any()
    assert not varying_in_group[1, 2]
    np.testing.assert_array_equal(found.get_covariance(group="south")[2], 0.0)
    assert varying_in_group[1, 3:14].all()
    # Means and noise of a missing view are those of the other group.
    np.testing.assert_allclose(found.group_means_[1, 14:], X[~south, 14:].mean(axis=0))
    np.testing.assert_allclose(
        found.group_noise_variance_[1, 14:], found.group_noise_variance_[0, 14:]
    )
    assert found.group_means_[1, 2] == 5.0
    # Columns that are constant in a group are ignored for its rows.
    rows = X[south][:3]
    other = rows.copy()
    other[:, 2] = 99.0
    np.testing.assert_array_equal(
        found.transform(rows, groups=["south"] * 3), found.transform(other, groups=["south"] * 3)
    )
    with_groups = found.predict_view(rows, target=1, groups=["south"] * 3)
    assert np.isfinite(with_groups.mean).all()
    assert (with_groups.variance > 0).all()
    assert np.isfinite(found.score(X))
    assert np.isfinite(found.score(X, groups=groups))


def test_columns_constant_within_groups_are_ignored(data):
    X, groups, _, _ = data
    X = np.hstack([X, (groups == "south")[:, None] * 4.0])
    found = SCA(2, tol=1e-5).fit(X, groups=groups)
    assert not found.varying_[-1]
    assert found.components_[:, -1].tolist() == [0.0, 0.0]
    assert np.isfinite(found.score(X, groups=groups))


def test_save_and_load(model, data, tmp_path):
    X, groups, _, _ = data
    again = prosparse.load(prosparse.save(model, tmp_path / "model"))
    np.testing.assert_array_equal(again.groups_, model.groups_)
    np.testing.assert_array_equal(
        again.transform(X, groups=groups), model.transform(X, groups=groups)
    )
    del model.__dict__["groups_"]
    try:
        with pytest.raises(prosparse.ModelFileError, match="groups_"):
            prosparse.save(model, tmp_path / "broken")
    finally:
        model.groups_ = again.groups_


def test_views_display_of_a_group(model):
    pytest.importorskip("matplotlib").use("agg")
    from prosparse.plot import ViewsDisplay

    shown = ViewsDisplay.from_estimator(model, group="south").explained_variance_ratio
    noise = [model.group_noise_variance_[1, view].sum() for view in VIEWS]
    explained = model.explained_variance_per_group_[1]
    np.testing.assert_allclose(shown, (explained.T / (explained.sum(axis=1) + noise)).T)
    with pytest.raises(ParameterError, match="got 'east'; the groups are"):
        ViewsDisplay.from_estimator(model, group="east")


# --- invalid input


def test_invalid_groups(data):
    X, groups, _, _ = data
    with pytest.raises(ParameterError, match="`groups` requires `prior='point-normal'` or"):
        SCA(2, prior="hyperbolic").fit(X, groups=groups)
    with pytest.raises(
        ParameterError, match="`groups` requires Gaussian views, got `likelihood` 'poisson'"
    ):
        SCA(2, likelihood="poisson").fit(np.round(np.abs(X)), groups=groups)
    with pytest.raises(ParameterError, match="got 1 group with a single row, such as 'one'"):
        SCA(2).fit(X, groups=["one", *groups[1:]])
    with pytest.raises(
        ParameterError, match="`groups` must have one label for each of the 160 rows"
    ):
        SCA(2).fit(X, groups=groups[1:])
    with pytest.raises(InputError, match="X has no column that varies within group 'b'"):
        SCA(2).fit(np.vstack([X, np.zeros((3, 24))]), groups=["a"] * 160 + ["b"] * 3)
    still = np.repeat([[1.0, 2.0, 3.0], [4.0, 5.0, 9.0]], 5, axis=0)
    still[[1, 7], 0] += 1
    with pytest.raises(InputError, match="at least 2 columns that vary within groups, got 1 of 3"):
        SCA(1).fit(still, groups=["a"] * 5 + ["b"] * 5)


def test_unknown_groups_of_new_rows(model, data):
    X, _, _, _ = data
    with pytest.raises(
        ParameterError, match=r"got 'east'\. Refit with rows of the new group, or omit `groups`"
    ):
        model.transform(X[:2], groups=["north", "east"])
    plain = SCA(2, tol=1e-4).fit(X)
    with pytest.raises(
        ParameterError, match="`groups` must be None for a model fitted without groups"
    ):
        plain.impute(X[:2], groups=["north", "south"])


def test_categorical_labels(data):
    X, groups, _, _ = data
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(24)])
    found = SCA(1, tol=1e-4).fit(frame, groups=pd.Series(groups, dtype="category"))
    assert found.transform(frame, groups=list(groups)).shape == (160, 1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fit_resumes_from_a_checkpoint(data, tmp_path):
    X, groups, _, _ = data
    file = tmp_path / "fit.npz"
    SCA(2, max_iter=5, tol=1e-6).fit(X, groups=groups, checkpoint=file)
    resumed = SCA(2, tol=1e-6).fit(X, groups=groups, checkpoint=file)
    uninterrupted = SCA(2, tol=1e-6).fit(X, groups=groups)
    np.testing.assert_allclose(resumed.components_, uninterrupted.components_, rtol=1e-6, atol=1e-9)
    assert resumed.n_iter_ == uninterrupted.n_iter_
    with pytest.raises(prosparse.CheckpointError, match="groups was"):
        SCA(2, tol=1e-6).fit(X, groups=groups[::-1], checkpoint=file)
