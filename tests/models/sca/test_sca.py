"""SCA as its users meet it."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.linalg import subspace_angles
from scipy.stats import multivariate_normal, norm
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from prosparse import SCA, InputError, NoStructureWarning, ParameterError
from prosparse.datasets import make_sparse_projection
from prosparse.metrics import support_f_score
from prosparse.models.sca import solve

BOTH = ["ard", "hyperbolic"]


def two_views(n=200, seed=0, gap=0.0):
    """Two shared latents with disjoint sparse directions, one strong private latent per view."""
    rng = np.random.default_rng(seed)
    W1, W2 = np.zeros((15, 2)), np.zeros((20, 2))
    W1[:4, 0], W1[5:9, 1], W2[:5, 0], W2[10:14, 1] = 1.0, -1.0, 0.8, 1.0
    V1, V2 = np.zeros((15, 1)), np.zeros((20, 1))
    V1[6:15], V2[3:12] = 1.5, 1.5
    z, own1, own2 = (rng.standard_normal((n, k)) for k in (2, 1, 1))
    X1 = z @ W1.T + own1 @ V1.T + 0.4 * rng.standard_normal((n, 15))
    X2 = z @ W2.T + own2 @ V2.T + 0.6 * rng.standard_normal((n, 20))
    return X1, X2, np.vstack([W1, W2]), z, np.hstack([own1, own2])


def low_rank(n=100, p=20, k=3, noise=0.3, missing=0.3, seed=0):
    rng = np.random.default_rng(seed)
    L = np.where(rng.random((p, k)) < 0.6, rng.standard_normal((p, k)), 0)
    X = rng.standard_normal((n, k)) @ L.T + noise * rng.standard_normal((n, p)) + 3.0
    return X, np.where(rng.random((n, p)) < missing, np.nan, X)


@pytest.fixture(scope="module", params=BOTH)
def fitted(request):
    X1, X2, *_ = two_views()
    return X1, X2, SCA(2, n_private=1, prior=request.param).fit([X1, X2])


# --- what is found


@pytest.mark.parametrize("prior", [{"prior": "ard"}, {"prior": "hyperbolic", "a": 36.0, "b": 0.0}])
def test_dense_data_and_a_vague_prior_give_the_ppca_subspace(prior, rng):
    X = rng.standard_normal((400, 3)) @ rng.normal(2, 1, (3, 12)) + rng.standard_normal((400, 12))
    model = SCA(3, noise="view", tol=1e-12, max_iter=5000, **prior).fit(X)
    angles = subspace_angles(model.components_.T, PCA(3).fit(X).components_.T)
    # least squares exactly, relevance determination up to its slight shrinkage
    assert angles.max() < (0.03 if prior["prior"] == "ard" else 1e-3)
    if prior["prior"] == "hyperbolic":
        assert model.noise_variance_[0] == pytest.approx(
            np.linalg.eigvalsh(np.cov(X.T, bias=True))[:-3].mean(), rel=1e-4
        )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("prior", BOTH)
def test_two_views_recover_planted_directions(prior, seed):
    X1, X2, W, z, own = two_views(seed=seed)
    model = SCA(2, n_private=1, prior=prior).fit([X1, X2])
    assert model.factor_view_.tolist() == [-1, -1, 0, 1]
    Z = model.transform([X1, X2])
    both = np.corrcoef(np.hstack([Z, z, own]).T)[:4, 4:]
    shared = np.abs(both[:2, :2])
    assert np.all(shared.max(axis=1) > 0.95)
    # the private latents, twice as strong, do not leak: less than chance correlation and a bit
    assert np.abs(both[:2, 2:]).max() < 0.25
    assert np.all(np.diagonal(np.abs(both[2:, 2:])) > 0.97)
    order = np.argmax(shared, axis=1)
    directions = model.components_[:2].T
    cosines = np.sum(directions * W[:, order], axis=0)
    cosines /= np.linalg.norm(directions, axis=0) * np.linalg.norm(W[:, order], axis=0)
    assert np.all(np.abs(cosines) > 0.97)
    if prior == "hyperbolic":
        for j in range(2):
            assert support_f_score(W[:, order[j]] != 0, directions[:, j] != 0) > 0.75


def test_without_private_latents_the_private_structure_leaks():
    """The control of the test above: it could fail."""
    X1, X2, _, _, own = two_views()
    Z = SCA(2).fit([X1, X2]).transform([X1, X2])
    assert np.abs(np.corrcoef(np.hstack([Z, own]).T)[:2, 2:]).max() > 0.8


@pytest.mark.filterwarnings("ignore:.IterativeImputer. Early stopping")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("prior", BOTH)
def test_imputation(prior, seed):
    X, holes = low_rank(seed=seed)
    gone = np.isnan(holes)
    model = SCA(3, prior=prior).fit(holes)

    def error(full):
        return np.sqrt(np.mean((full - X)[gone] ** 2))

    imputed = model.impute(holes)
    np.testing.assert_array_equal(imputed[~gone], X[~gone])
    assert error(imputed) < 0.5 * error(np.where(gone, np.nanmean(holes, axis=0), X))
    # by BayesianRidge, its default
    peer = IterativeImputer(max_iter=50, random_state=0).fit_transform(holes)
    assert error(imputed) < error(peer)


@pytest.mark.parametrize(
    ("near", "limit"), [((1e-9, 1e-14), (0.0, 0.0)), ((60.0001, 8.0), (60.0, 8.0))]
)
def test_normal_jeffreys_and_laplace_are_limits(near, limit):
    """The same fit just beside the limit, by Bessel functions, and at it, in closed form."""
    X = make_sparse_projection(100, random_state=2).X
    fits = [SCA(6, prior="hyperbolic", shape=a, rate=b).fit(X) for a, b in (near, limit)]
    np.testing.assert_allclose(
        fits[0].inverse_transform(fits[0].transform(X)),
        fits[1].inverse_transform(fits[1].transform(X)),
        atol=2e-3,
    )


def test_a_larger_b_gives_more_zeros():
    X = make_sparse_projection(100, random_state=2).X
    counts = [
        np.sum(SCA(4, prior="hyperbolic", shape=40.0, rate=b).fit(X).components_ != 0)
        for b in (0.0, 10.0, 1000.0)
    ]
    assert counts[0] > counts[1] > counts[2] > 0


def test_dead_components_are_removed():
    data = make_sparse_projection(2000, n_components=2, random_state=1)
    model = SCA(5, prior="hyperbolic").fit(data.X)
    assert model.n_components_ + model.n_pruned_ == 5
    assert model.n_components_ < 5
    assert model.components_.shape == (model.n_components_, 10)
    assert np.all(np.any(model.components_ != 0, axis=1))


def test_components_are_counted():
    X = make_sparse_projection(500, n_features=30, n_nonzero=12, random_state=0).X
    assert SCA().fit(X).n_components_ == 4


def test_counting_does_not_begin_with_all_that_stands_out_from_white_noise(monkeypatch, rng):
    """Where noise differs between columns, dozens do."""
    W = np.where(rng.random((3, 60)) < 0.4, rng.standard_normal((3, 60)), 0.0)
    loud = np.exp(rng.normal(0, 1.2, 60))
    X = (rng.standard_normal((80, 3)) @ W + rng.standard_normal((80, 60))) * loud
    X[:, 40:] += 2 * loud[40:] * rng.standard_t(2, (80, 20))  # heavy tails stand out, too
    tried, iterated = [], solve._run_model

    def counting(samples, lay, *others):
        tried.append(lay.block.size)
        return iterated(samples, lay, *others)

    monkeypatch.setattr(solve, "_run_model", counting)
    monkeypatch.setattr(solve, "counted", lambda *given: 40)
    found = SCA().fit(X)
    assert found.n_components_ <= 4
    assert max(tried) <= 12


# --- what is returned


def test_attributes(fitted):
    X1, X2, model = fitted
    assert model.components_.shape == (4, 35)
    assert [part.shape for part in model.view_components_] == [(4, 15), (4, 20)]
    np.testing.assert_array_equal(np.hstack(model.view_components_), model.components_)
    assert np.all(model.components_[2, 15:] == 0)  # fixed zeros
    assert np.all(model.components_[3, :15] == 0)
    np.testing.assert_allclose(model.noise_variance_, [0.16, 0.36], rtol=0.1)
    np.testing.assert_allclose(model.mean_, np.hstack([X1, X2]).mean(axis=0))
    assert model.n_components_ == 2
    assert model.n_private_ == [1, 1]
    assert model.n_pruned_ == 0
    assert np.all(np.diff(model.objective_path_) >= 0)
    assert len(model.objective_path_) == model.n_iter_
    np.testing.assert_array_equal(model.support_, np.any(model.components_ != 0, axis=0))
    if model.prior == "ard":
        std = model.components_std_
        np.testing.assert_array_equal(std == 0, model.components_ == 0)
        # about 1 / sqrt(n tau)
        assert np.median(std[:, :15][std[:, :15] > 0]) == pytest.approx(0.4 / 200**0.5, rel=0.3)
    else:
        assert not hasattr(model, "components_std_")


def covariance(model):
    own = model.feature_noise_variance_.copy()
    if hasattr(model, "components_std_"):  # what is not known of the weights
        own += np.sum(model.components_std_**2, axis=0)
    return model.components_.T @ model.components_ + np.diag(own)


def test_what_is_predicted_knows_what_is_not_known_of_the_weights(rng):
    """Rows drawn from the model with weights drawn from their posterior, against the scores."""
    z = rng.standard_normal((12, 1))
    X = z * [1.0, 1.0, 1.0, 0.7, 0.7] + 0.6 * rng.standard_normal((12, 5))
    model = SCA(1, noise="view").fit(X)
    assert np.sum(model.components_std_**2) > 0.05 * np.sum(model.feature_noise_variance_)
    draws = 100_000
    weights = model.components_ + model.components_std_ * rng.standard_normal((draws, 5))
    rows = model.mean_ + rng.standard_normal((draws, 1)) * weights
    rows += np.sqrt(model.feature_noise_variance_) * rng.standard_normal(rows.shape)
    np.testing.assert_allclose(np.cov(rows.T), covariance(model), atol=0.02)
    told = model.predict_view(rows, target=0)  # from nothing
    np.testing.assert_allclose(told.variance[0], np.diagonal(covariance(model)), rtol=1e-6)


def test_score_is_the_dense_density(fitted):
    *_, model = fitted
    X = np.hstack(two_views(20, seed=9)[:2])
    dense = multivariate_normal.logpdf(X, model.mean_, covariance(model))
    np.testing.assert_allclose(model.score_samples(X), dense)
    assert model.score(X) == pytest.approx(dense.mean())
    holes = X.copy()
    holes[0, 3] = holes[1, :15] = holes[2, :] = np.nan
    got = model.score_samples(holes)
    sigma = covariance(model)
    for row in (0, 1):
        a = np.flatnonzero(~np.isnan(holes[row]))
        expected = multivariate_normal.logpdf(X[row, a], model.mean_[a], sigma[np.ix_(a, a)])
        assert got[row] == pytest.approx(expected)
    assert got[2] == pytest.approx(0.0)


def test_predict_view_is_the_conditional_gaussian(fitted):
    X1, X2, model = fitted
    mean, variance = model.predict_view([X1, None], target=1)
    sigma, a, b = covariance(model), np.arange(15), np.arange(15, 35)
    gain = sigma[np.ix_(b, a)] @ np.linalg.inv(sigma[np.ix_(a, a)])
    np.testing.assert_allclose(mean, model.mean_[b] + (X1 - model.mean_[a]) @ gain.T)
    expected = np.diagonal(sigma[np.ix_(b, b)] - gain @ sigma[np.ix_(a, b)])
    np.testing.assert_allclose(variance, np.broadcast_to(expected, variance.shape))
    for same in ({0: X1}, [X1, X2], np.hstack([X1, X2])):
        np.testing.assert_allclose(model.predict_view(same, 1).mean, mean)
    # it predicts, and knows how well
    X1, X2, *_ = two_views(2000, seed=5)
    mean, variance = model.predict_view({0: X1}, 1)
    inside = np.mean(np.abs(X2 - mean) < 1.96 * np.sqrt(variance))
    assert inside == pytest.approx(0.95, abs=0.02)
    assert np.mean((X2 - mean) ** 2) < 0.9 * np.mean((X2 - X2.mean(axis=0)) ** 2)


def test_transform_is_the_posterior_mean(fitted):
    X1, X2, model = fitted
    X = np.hstack([X1, X2])
    Z = (X - model.mean_) @ np.linalg.solve(covariance(model), model.components_.T)
    np.testing.assert_allclose(model.transform([X1, X2]), Z, atol=1e-10)
    np.testing.assert_allclose(model.transform(X), Z, atol=1e-10)
    denoised = model.inverse_transform(Z)
    assert denoised.shape == X.shape
    np.testing.assert_allclose(denoised, Z @ model.components_ + model.mean_)
    # from one view only, and from nothing at all
    some = model.transform([X1, None])
    sigma = covariance(model)[:15, :15]
    expected = (X1 - model.mean_[:15]) @ np.linalg.solve(sigma, model.components_[:, :15].T)
    np.testing.assert_allclose(some, expected, atol=1e-10)
    np.testing.assert_array_equal(model.transform(np.full((1, 35), np.nan)), np.zeros((1, 4)))


@pytest.mark.parametrize("prior", BOTH)
def test_ways_to_give_views(prior):
    X1, X2, *_ = two_views(60)
    X = np.hstack([X1, X2])
    frame = pd.DataFrame(X, columns=[f"v{i}" for i in range(35)])
    reference = SCA(2, n_private=[1, 0], prior=prior).fit([X1, X2]).components_
    for views, data in [
        ([slice(0, 15), slice(15, 35)], X),
        ([list(range(15)), np.arange(15, 35)], X),
        ([np.arange(35) < 15, np.arange(35) >= 15], X),
        ([list(frame.columns[:15]), list(frame.columns[15:])], frame),
    ]:
        model = SCA(2, n_private=[1, 0], prior=prior, views=views).fit(data)
        np.testing.assert_allclose(model.components_, reference)
    mixed = np.argsort(np.arange(35) % 3, kind="stable")
    views = [np.flatnonzero(mixed < 15), np.flatnonzero(mixed >= 15)]
    model = SCA(2, n_private=[1, 0], prior=prior, views=views).fit(X[:, mixed])
    np.testing.assert_allclose(np.abs(model.components_), np.abs(reference[:, mixed]), atol=1e-4)
    parts = [X[:, mixed][:, columns] for columns in views]
    np.testing.assert_allclose(model.transform(parts), model.transform(X[:, mixed]))


@pytest.mark.parametrize("prior", BOTH)
def test_sparse_tables_stay_sparse_and_agree(prior, rng):
    X = rng.poisson(0.3 * np.exp(rng.standard_normal((40, 2)) @ rng.standard_normal((2, 60)) / 2))
    X = X[:, X.max(axis=0) > X.min(axis=0)].astype(float)
    dense = SCA(2, prior=prior).fit(X)
    model = SCA(2, prior=prior).fit(sparse.csr_array(X))
    np.testing.assert_allclose(model.components_, dense.components_, atol=1e-6)
    np.testing.assert_allclose(model.transform(sparse.csr_array(X)), dense.transform(X), atol=1e-6)
    assert model.score(sparse.csr_array(X)) == pytest.approx(dense.score(X))
    assert sparse.issparse(model.select(sparse.csr_array(X)))


@pytest.mark.parametrize("prior", BOTH)
@pytest.mark.parametrize("factor", [1e-100, 1e-6, 1e5, 1e100])
def test_units_do_not_matter(prior, factor):
    X = make_sparse_projection(60, random_state=3).X
    small, large = (SCA(4, prior=prior).fit(c * X) for c in (1.0, factor))
    np.testing.assert_allclose(large.components_ / factor, small.components_, rtol=1e-3, atol=1e-4)


def test_a_missing_view_in_fit():
    X1, X2, *_ = two_views(300)
    hidden = X2.copy()
    hidden[:150] = np.nan
    model = SCA(2, n_private=1).fit([X1, hidden])
    guess = model.impute([X1, hidden])[:150, 15:]
    assert np.mean((guess - X2[:150]) ** 2) < 0.85 * np.mean((X2[:150] - X2.mean(axis=0)) ** 2)
    assert np.all(np.isfinite(model.components_))


def test_impute_keeps_a_frame():
    _, holes = low_rank(40, 6, 1)
    frame = pd.DataFrame(holes, columns=list("abcdef"))
    full = SCA(1).fit(frame).impute(frame)
    assert list(full.columns) == list("abcdef")
    assert not full.isna().any().any()
    whole = full.copy()
    pd.testing.assert_frame_equal(SCA(1).fit(frame).impute(whole), whole)


@pytest.mark.filterwarnings("ignore:X has feature names")  # polars always names columns
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars", "masked", "single precision"])
def test_impute_gives_a_new_table_of_the_same_kind(kind, gaps):
    polars = pytest.importorskip("polars")
    X, holes = low_rank(40, 6, 1)
    model = SCA(1).fit(X)
    given = holes if gaps else X
    make = {
        "numpy": np.array,
        "pandas": pd.DataFrame,
        "polars": polars.DataFrame,
        "masked": lambda values: np.ma.MaskedArray(np.nan_to_num(values), np.isnan(values)),
        "single precision": lambda values: np.array(values, dtype=np.float32),
    }[kind]
    table = make(given)
    full = model.impute(table)
    assert type(full) is type(table)
    assert full is not table
    values = np.asarray(full)
    assert values.dtype == (np.float32 if kind == "single precision" else np.float64)
    np.testing.assert_allclose(values, model.impute(given), rtol=1e-5)
    if kind == "numpy":
        assert not np.shares_memory(full, table)


def test_impute_of_sparse_rows_with_gaps_is_dense():
    X, holes = low_rank(40, 6, 1)
    model = SCA(1).fit(X)
    np.testing.assert_allclose(model.impute(sparse.csr_array(holes)), model.impute(holes))


# --- bad input


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "`n_components` must be an integer of at least 1"),
        ({"prior": "laplace"}, "`prior` must be one of 'ard', 'hyperbolic'"),
        ({"a": -1.0}, "`a` must be a non-negative"),
        ({"b": "1"}, "`b` must be a non-negative"),
        ({"n_private": -1}, "`n_private` must be an integer of at least 0"),
        ({"n_private": [1, 1]}, "one per view; there are 1 views"),
        ({"views": []}, "`views` must be a list of column groups"),
        ({"views": [[0, 1], [1, 2, 3]]}, "1 of 4 columns are in more than one view"),
        ({"views": [[0, 1], [2]]}, "1 of 4 columns are in no view"),
        ({"views": [["a"], ["b"]]}, "column names, but X has none"),
        ({"views": [[0, 9], [1]]}, "names column 9; X has 4 columns"),
        ({"views": [slice(0, 4), slice(4, 9)]}, "view 1 of `views` is empty"),
        ({"views": [[0.5], [1]]}, "must be names, a slice or positions"),
    ],
)
def test_bad_parameters(parameters, message, rng):
    with pytest.raises(ParameterError, match=message):
        SCA(**{"n_components": 1} | parameters).fit(rng.standard_normal((10, 4)))


def test_bad_tables(rng):
    X = rng.standard_normal((10, 4))
    with pytest.raises(InputError, match=r"they have \[10, 9\] rows"):
        SCA(1).fit([X, X[:9]])
    with pytest.raises(InputError, match="two dimensions"):
        SCA(1).fit([X, X[:, 0]])
    with pytest.raises(ParameterError, match="not both"):
        SCA(1, views=[[0]]).fit([X, X])
    with pytest.raises(ParameterError, match="not a column of X"):
        SCA(1, views=[["a", "z"], ["b"]]).fit(pd.DataFrame(X[:, :2], columns=["a", "b"]))
    with pytest.raises(InputError, match="every column of view 1 is constant"):
        SCA(1).fit([X, np.ones((10, 2))])
    with pytest.raises(InputError, match="no observed entry, the first of them column 2"):
        SCA(1).fit(np.where(np.arange(4) == 2, np.nan, X))
    with pytest.raises(InputError, match="sparse X may not hold NaN"):
        SCA(1).fit(sparse.csr_array(np.where(X > 1, np.nan, X)))
    with pytest.raises(ValueError, match="infinity"):
        SCA(1).fit(np.where(X > 1, np.inf, X))
    with pytest.raises(NotFittedError):
        SCA(1).transform(X)
    model = SCA(1).fit([X, X[:, :2] + rng.standard_normal((10, 2))])
    with pytest.raises(InputError, match="2 views were fitted, got 1"):
        model.transform([X])
    with pytest.raises(InputError, match="view 0 was fitted with 4 columns, got 3"):
        model.transform([X[:, :3], None])
    with pytest.raises(ParameterError, match="`target` must be below the number of views, 2"):
        model.predict_view([X, None], 2)
    with pytest.raises(InputError, match="other than `target`"):
        model.predict_view([X, None], 0)


# More latents than such tables support: some are still moving when the passes end.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.parametrize("prior", BOTH)
@pytest.mark.parametrize(
    "spoil",
    [
        "constant column",
        "constant column, gaps",
        "missing row",
        "one observation",
        "duplicate columns",
        "rank one",
        "narrow view",
        "exact",
    ],
)
def test_awkward_tables_give_numbers(spoil, prior, rng):
    X, holes = low_rank(30, 8, 2)
    views = None
    if spoil == "constant column":
        X[:, 3] = 7.0
    elif spoil == "constant column, gaps":
        X = np.where(np.arange(8) == 3, np.where(np.isnan(holes), np.nan, 7.0), holes)
    elif spoil == "missing row":
        X = holes
        X[4] = np.nan
    elif spoil == "one observation":
        X[1:, 2] = np.nan
    elif spoil == "duplicate columns":
        X[:, 1] = X[:, 0]
    elif spoil == "rank one":
        X = np.outer(rng.standard_normal(30), np.arange(1.0, 9.0))
    elif spoil == "narrow view":
        views = [[0], list(range(1, 8))]
    elif spoil == "exact":
        X = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 8))
    model = SCA(6, prior=prior, views=views, n_private=1, max_iter=200, tol=1e-6).fit(X)
    for result in (
        model.components_,
        model.noise_variance_,
        model.mean_,
        model.objective_path_,
        model.transform(X),
        model.impute(X),
        model.inverse_transform(model.transform(X)),
        model.score_samples(X),
    ):
        assert np.all(np.isfinite(result))
    assert np.all(np.diff(model.objective_path_) >= 0)
    if "constant" in spoil:
        assert not model.support_[3]
        assert np.all(model.impute(X)[:, 3] == 7.0)


def test_more_components_than_rank(rng):
    X = 5.0 * rng.standard_normal((8, 2)) @ rng.standard_normal((2, 5))
    X += 0.1 * rng.standard_normal((8, 5))
    model = SCA(12, max_iter=3000, tol=1e-5).fit(X)
    assert model.n_components_ <= 5
    assert np.all(np.isfinite(model.transform(X)))


@pytest.mark.parametrize("noise", ["feature", "view"])
def test_weights_that_noise_lets_in_are_few(noise, rng):
    """Without a prior of the zeros, relevance determination keeps a third of the others."""
    W = np.where(rng.random((60, 3)) < 0.15, rng.choice([-1.0, 1.0], (60, 3)), 0.0)
    X = rng.standard_normal((150, 3)) @ W.T + 0.7 * rng.standard_normal((150, 60))
    model = SCA(3, noise=noise).fit(X)
    match = np.argmax(np.abs(model.components_ @ W), axis=1)
    assert sorted(match) == [0, 1, 2]
    found, there = model.components_.T != 0, W[:, match] != 0
    assert found[there].mean() > 0.95
    assert found[~there].mean() < 0.15


def test_noise_of_its_own_tells_a_loud_column_from_one_that_matters(rng):
    """Two columns carry a latent, one is loud by itself: with one noise variance for all, the loud
    one is a latent."""
    X = rng.standard_normal((200, 1)) * np.r_[1.0, 1.0, np.zeros(6)]
    X += rng.standard_normal((200, 8)) * np.r_[np.full(7, 0.5), 6.0]
    own, same = (SCA(1, noise=noise).fit(X) for noise in ("feature", "view"))
    assert sorted(np.argsort(own.relevance_)[-2:]) == [0, 1]
    assert not own.support_[7]
    assert same.ranking_[7] == 1
    np.testing.assert_allclose(
        own.feature_noise_variance_, np.r_[np.full(7, 0.25), 36.0], rtol=0.35
    )
    assert own.score(X) > same.score(X) + 1.0


def test_a_column_that_a_latent_fits_exactly_keeps_noise(rng):
    """A Heywood case: without its prior the noise of such a column goes to nothing."""
    X = rng.standard_normal((60, 6))
    X[:, 1] = X[:, 0]
    for prior in BOTH:
        model = SCA(2, prior=prior, max_iter=3000, tol=1e-6).fit(X)
        assert model.feature_noise_variance_.min() > 1e-3 * model.feature_noise_variance_.max()


def test_nothing_there_is_said(rng):
    X = rng.standard_normal((300, 6))
    with pytest.warns(NoStructureWarning, match="no common structure"):
        model = SCA(1, prior="hyperbolic", shape=6.0, rate=1e5).fit(X)
    assert not model.support_.any()
    assert model.transform(X).shape == (300, 1)
    assert model.n_pruned_ == 1


def noise_tables():
    rng = np.random.default_rng(5)
    X, counts = rng.standard_normal((150, 30)), rng.poisson(2.0, (150, 20)).astype(float)
    binary = (rng.random((150, 25)) < 0.4).astype(float)
    gaps = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    spreads = np.exp(rng.standard_normal(12))
    return {
        "one view": ([X], {}, {}),
        "columns of different variance": ([X, spreads * rng.standard_normal((150, 12))], {}, {}),
        "hyperbolic": ([X], {"prior": "hyperbolic"}, {}),
        "private": ([X, rng.standard_normal((150, 10))], {"n_private": [1, 1]}, {}),
        "gaps": ([gaps], {}, {}),
        "groups": ([X], {}, {"groups": np.repeat(["a", "b"], 75)}),
        "sparse": (sparse.random(300, 80, 0.1, format="csr", random_state=0), {}, {}),
        "0 and 1": ([binary], {"likelihood": "bernoulli"}, {}),
        "mixed": ([X, counts], {"likelihood": ["gaussian", "poisson"]}, {}),
    }


@pytest.mark.parametrize("name", list(noise_tables()))
def test_noise_has_no_latents(name):
    """Relevance determination lets some weights in; the evidence is higher without any latent."""
    views, options, more = noise_tables()[name]
    with pytest.warns(NoStructureWarning, match="no common structure"):
        model = SCA(**options).fit(views, **more)
    assert not model.support_.any()
    scores = model.transform(views, **more)
    assert scores.shape[1] == 1
    assert not scores.any()


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_the_objective_without_latents_is_the_density_of_noise(rng):
    X = 3.0 * rng.standard_normal((150, 30)) + 1.0
    model = SCA(noise="view").fit(X)
    assert not model.support_.any()
    centred = X - X.mean(axis=0)
    slow = norm.logpdf(centred, scale=centred.std()).sum()
    np.testing.assert_allclose(model.objective_path_[-1], slow, rtol=1e-12)


def test_running_out_of_passes_is_said():
    with pytest.warns(ConvergenceWarning, match="raise `max_iter`"):
        SCA(3, max_iter=2).fit(make_sparse_projection(50, random_state=0).X)


def test_names_and_output_in_kind():
    X = pd.DataFrame(make_sparse_projection(50, random_state=0).X).rename(columns=str)
    model = SCA(2).set_output(transform="pandas").fit(X)
    assert list(model.get_feature_names_out()) == ["sca0", "sca1"]
    assert list(model.transform(X).columns) == ["sca0", "sca1"]
    assert list(model.select(X).columns) == list(X.columns[model.get_support()])
    assert model.transform(X.astype(np.float32)).to_numpy().dtype == np.float32


def test_rows_in_blocks_cannot_be_imputed_in_silence(rng):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    X = rng.standard_normal((40, 1)) + 0.3 * rng.standard_normal((40, 5))
    model = SCA(1).fit(X)
    whole = model.impute(da.from_array(X, chunks=(10, -1)))
    np.testing.assert_array_equal(whole.compute(), X)
    X[3, 2] = np.nan
    with pytest.raises(InputError, match="NaN or infinity"):
        model.impute(da.from_array(X, chunks=(10, -1))).compute()
