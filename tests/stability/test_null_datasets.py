"""Selections on datasets with random signs and with permuted columns."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import sparse

from prosparse import (
    EMPCA,
    FDRPCA,
    GSPPCA,
    SCA,
    InputError,
    Panel,
    ParameterError,
    SpinyRegressor,
)
from prosparse.datasets import make_globally_sparse, make_sparse_regression
from prosparse.stability import PermutationNull, permutation_null

X = make_globally_sparse(60, 30, n_components=2, n_informative=8, random_state=1).X


@pytest.fixture(scope="module")
def by_evidence():
    """The method of the papers selects variables of null datasets if noise is unequal."""
    rng = np.random.default_rng(0)
    data = X + rng.normal(size=X.shape) * np.linspace(0.1, 3.0, 30)
    return permutation_null(GSPPCA(2, refine=False).fit(data), data, 5, random_state=0)


@pytest.mark.parametrize("kind", ["signs", "permutation"])
def test_fdrpca_selects_almost_nothing_under_the_null(kind):
    null = permutation_null(FDRPCA().fit(X), X, 10, kind=kind, random_state=0)
    assert null.null_kind == (kind,) * 10
    assert null.n_selected >= 8
    assert null.expected_n_selected < 0.5
    assert not null.consistent_with_null
    assert null.statistic == pytest.approx(FDRPCA().fit(X).explained_variance_ratio_.sum())


def test_selection_under_the_null(by_evidence):
    assert by_evidence.selects_under_null
    by_kind = by_evidence.expected_n_selected_by_kind
    assert by_evidence.null_kind == ("signs", "permutation", "signs", "permutation", "signs")
    assert by_kind["signs"] == by_evidence.null_n_selected[::2].mean() > 0
    assert by_kind["permutation"] == by_evidence.null_n_selected[1::2].mean() > 0
    assert by_evidence.expected_n_selected == max(by_kind.values())
    assert repr(by_evidence).startswith("GSPPCA selected ")


def test_summary():
    """Numbers in the sentences are those of the fields."""
    null = PermutationNull(
        method="GSPPCA",
        n_features=30,
        n_selected=8,
        size_given=False,
        null_n_selected=np.array([3, 5, 4]),
        statistic=0.5,
        null_statistic=np.array([0.1, 0.2, np.nan]),
        statistic_name="explained_variance",
        null_kind=("permutation",) * 3,
    )
    assert null.headline() == "GSPPCA selected 8 of 30 variables; 4 are expected under the null"
    assert null.summary() == [
        "GSPPCA selected 4 variables on average (3 to 5) in 3 datasets with independently permuted "
        "columns.",
        "The components explain 50.0% of the total variance, compared with 15.0% on average in "
        "these datasets.",
    ]
    given = replace(null, size_given=True)
    assert given.summary() == [
        "The components explain 50.0% of the total variance, compared with 15.0% on average in 3 "
        "datasets with independently permuted columns."
    ]
    nothing = replace(
        null,
        null_n_selected=np.zeros(5, int),
        null_statistic=np.zeros(5),
        null_kind=("permutation",) * 5,
    )
    assert nothing.summary() == [
        "GSPPCA selected no variables in 5 datasets with independently permuted columns."
    ]
    one = replace(
        nothing,
        null_n_selected=np.zeros(1, int),
        null_statistic=np.zeros(1),
        statistic_name="accuracy",
        null_kind=("permutation",),
    )
    assert one.summary() == ["GSPPCA selected no variables in 1 dataset with a permuted response."]


def test_summary_of_two_kinds():
    null = PermutationNull(
        method="GSPPCA",
        n_features=30,
        n_selected=8,
        size_given=False,
        null_n_selected=np.array([6, 2, 4]),
        statistic=0.5,
        null_statistic=np.array([0.4, 0.1, 0.2]),
        statistic_name="explained_variance",
        null_kind=("signs", "permutation", "signs"),
    )
    assert null.headline() == (
        "GSPPCA selected 8 of 30 variables; 2 to 5 are expected under the null"
    )
    assert (null.expected_n_selected, null.expected_statistic) == (5.0, pytest.approx(0.3))
    comparison = (
        "The components explain 50.0% of the total variance, compared with 30.0% (random signs) "
        "and 10.0% (permuted columns) on average in "
    )
    assert null.summary() == [
        "GSPPCA selected 5 variables on average (4 to 6) in 2 datasets with random signs of the "
        "deviations from the mean.",
        "GSPPCA selected 2 variables on average in 1 dataset with independently permuted columns.",
        "Random signs remove all correlations but keep magnitudes, so outlying rows or rows of "
        "unequal scale can cause such selections.",
        f"{comparison}these datasets.",
    ]
    both = "2 datasets with random signs of the deviations from the mean and 1 with independently"
    assert replace(null, size_given=True).summary() == [f"{comparison}3 null datasets."]
    nothing = replace(null, null_n_selected=np.zeros(3, int), null_statistic=np.zeros(3))
    assert nothing.summary() == [f"GSPPCA selected no variables in {both} permuted columns."]
    for counts in ([3, 2, 3], [0, 0, 1]):
        similar = replace(null, null_n_selected=np.array(counts))
        assert not any("outlying rows" in sentence for sentence in similar.summary())


def test_the_statistic_must_exceed_the_limits_of_both_kinds():
    values = np.array([0.4, 0.1, 0.38, 0.12])
    kinds = ("signs", "permutation") * 2
    for statistic, consistent in ((0.3, True), (0.41, False), (0.05, True)):
        for null_kind in (kinds, tuple(reversed(kinds))):
            null = PermutationNull(
                "M", 9, 5, False, np.full(4, 5), statistic, values, "explained_variance", null_kind
            )
            assert null.consistent_with_null == consistent


@pytest.mark.parametrize(
    ("statistic_name", "text"),
    [
        ("attainable_r2", "explain 50.0% of the variance of a variable, compared with 15.0%"),
        ("response_r2", "explains 50.0% of the variance of the response in these rows, compared"),
        ("accuracy", "classifies 50.0% of these rows correctly, compared with 15.0% on average"),
    ],
)
def test_summary_of_other_statistics(statistic_name, text):
    kinds = ("permutation",) * 2
    null = PermutationNull(
        "M", 30, 8, True, np.array([3, 5]), 0.5, np.array([0.1, 0.2]), statistic_name, kinds
    )
    assert text in null.summary()[0]


def test_given_number_is_not_compared():
    null = permutation_null(EMPCA(1, n_nonzero=6, random_state=0).fit(X), X, 3, random_state=0)
    assert null.size_given
    assert not null.selects_under_null
    assert list(null.null_n_selected) == [6, 6, 6]
    assert null.statistic > null.null_statistic.max()
    assert not null.consistent_with_null
    assert len(null.summary()) == 1


def test_panel_explains_little_of_null_datasets():
    null = permutation_null(Panel(5).fit(X), X, 2, random_state=0)
    assert null.statistic > null.null_statistic.max()
    assert "held-out rows" in null.summary()[-1]
    assert null.null_statistic.max() < 0.1


def test_response_of_a_regression_is_permuted():
    data = make_sparse_regression(60, 12, random_state=0)
    model = SpinyRegressor().fit(data.X, data.y)
    null = permutation_null(model, data.X, 4, y=data.y, random_state=0)
    assert null.statistic == pytest.approx(model.score(data.X, data.y))
    assert null.null_statistic.max() < 0.5 < null.statistic
    assert "with a permuted response" in null.summary()[0]
    assert null.null_kind == ("permutation",) * 4
    with pytest.raises(InputError, match="pass it as `y`"):
        permutation_null(model, data.X)


@pytest.mark.parametrize("kind", ["signs", "permutation"])
def test_randomisation_within_groups(kind):
    """Differences between groups remain in the null datasets and count as shared variance."""
    groups = np.repeat([0, 1], 30)
    data = X + 5.0 * groups[:, None]
    model = GSPPCA(1, n_features_to_select=6).fit(data)
    within = permutation_null(model, data, 2, kind=kind, groups=groups, random_state=0)
    free = permutation_null(model, data, 2, kind=kind, random_state=0)
    assert within.null_statistic.min() > 2 * free.null_statistic.max()


def test_noise_is_consistent_with_the_null():
    noise = np.random.default_rng(0).normal(size=(40, 12))
    model = EMPCA(1, n_nonzero=4, random_state=0).fit(noise)
    assert permutation_null(model, noise, 8, random_state=0).consistent_with_null


@pytest.mark.parametrize(
    ("statistic", "null_statistic", "consistent"),
    [
        (0.5, [0.2, 0.3], False),  # the maximum of two is the limit
        (0.29, [0.2, 0.3], True),
        (0.31, [0.2, 0.3, 0.2, 0.3], True),  # above all of them, but below the prediction limit
        (0.5, [0.2, 0.3, 0.2, 0.3, 0.25], False),
        (None, [0.2, 0.3], False),
    ],
)
def test_consistency_with_the_null(statistic, null_statistic, consistent):
    counts, values = np.full(len(null_statistic), 5), np.array(null_statistic)
    null = PermutationNull(
        "M", 9, 5, True, counts, statistic, values, "explained_variance", ("signs",) * counts.size
    )
    assert null.consistent_with_null == consistent


def test_empty_selections_do_not_raise_the_limit():
    counts, values = np.array([0, 9, 0, 8]), np.array([0.0, 0.6, 0.0, 0.5])
    null = PermutationNull(
        "M", 30, 30, False, counts, 0.98, values, "explained_variance", ("signs",) * 4
    )
    assert not null.consistent_with_null
    assert replace(null, statistic=0.59).consistent_with_null


def test_json_round_trip(by_evidence):
    again = PermutationNull.from_json(by_evidence.to_json())
    assert again.summary() == by_evidence.summary()
    assert again.null_kind == by_evidence.null_kind
    np.testing.assert_array_equal(again.null_statistic, by_evidence.null_statistic)
    for wrong in (None, 3, {}, {**by_evidence.to_json(), "null_n_selected": []},
                  {**by_evidence.to_json(), "statistic_name": "<script>"},
                  {**by_evidence.to_json(), "null_kind": ["bootstrap"] * 5},
                  {**by_evidence.to_json(), "null_kind": [["signs"]] * 5},
                  {**by_evidence.to_json(), "null_kind": ["signs"]}):  # fmt: skip
        assert PermutationNull.from_json(wrong) is None


def test_time_limit():
    assert (
        permutation_null(FDRPCA().fit(X), X, 500, random_state=0, max_seconds=0.0).n_permutations
        == 1
    )


def test_names_of_columns_are_kept_in_null_datasets():
    frame = pd.DataFrame(X, columns=[f"v{k}" for k in range(30)])
    bundles = [["v0", "v1"]]
    model = Panel(4, bundles=bundles).fit(frame)
    assert (
        permutation_null(model, frame, 1, random_state=0).null_n_selected[0] == model.support_.sum()
    )


@pytest.mark.parametrize("missing", [False, True])
def test_correlated_factors(missing):
    """The statistic is the variance in the span of the factors, unknown for missing values."""
    data = X.copy()
    if missing:
        data[3, 5] = np.nan
    model = SCA(2, prior="hyperbolic", max_iter=50, tol=1e-4).fit(data)
    null = permutation_null(model, data, 3, random_state=0)
    assert (null.statistic is None) == missing
    assert not null.consistent_with_null
    if not missing:
        assert null.statistic > null.null_statistic.max()


def test_result_does_not_depend_on_the_number_of_jobs(by_evidence):
    rng = np.random.default_rng(0)
    data = X + rng.normal(size=X.shape) * np.linspace(0.1, 3.0, 30)
    with parallel_config(backend="threading"):
        again = permutation_null(
            GSPPCA(2, refine=False).fit(data), data, 5, random_state=0, n_jobs=2
        )
    np.testing.assert_array_equal(again.null_n_selected, by_evidence.null_n_selected)
    np.testing.assert_array_equal(again.null_statistic, by_evidence.null_statistic)


def test_statistic_is_zero_without_selected_variables():
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(30, 1)) + 0.5 * rng.normal(size=(30, 4))
    X = np.hstack([factor, rng.normal(size=(30, 12))])
    found = permutation_null(SCA().fit(X), X, 6, kind="permutation", random_state=0)
    none = found.null_n_selected == 0
    assert 0 < none.sum() < 6
    assert np.all(found.null_statistic[none] == 0.0)
    assert found.expected_statistic == pytest.approx(np.sum(found.null_statistic[~none]) / 6)


@pytest.mark.parametrize(
    "informative",
    [
        pytest.param(
            False,
            marks=pytest.mark.filterwarnings("ignore::prosparse.errors.NoStructureWarning"),
            id="noise",
        ),
        pytest.param(True, id="signal"),
    ],
)
@pytest.mark.filterwarnings("ignore::prosparse.OutlyingRowsWarning")
def test_three_noisy_rows(informative):
    """Only random signs reveal that a test of exchangeable rows mistakes noisy rows for signal."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(200, 60))
    data[:, :10] += informative * rng.normal(size=(200, 1))
    data[:3] *= 5.0
    exchangeable = FDRPCA(null="exchangeable").fit(data)
    assert exchangeable.n_selected_ > 30
    null = permutation_null(exchangeable, data, 4, random_state=0)
    assert null.null_n_selected[1::2].tolist() == [0, 0]
    assert null.null_n_selected[::2].min() > 30
    assert null.consistent_with_null != informative
    assert "2 datasets with random signs of the deviations" in null.summary()[0]
    assert "outlying rows" in null.summary()[2]

    robust = FDRPCA().fit(data)
    assert robust.support_[:10].all() == informative
    assert robust.support_[10:].sum() <= 1
    assert permutation_null(robust, data, 2, random_state=0).summary() == [
        "FDRPCA selected no variables in 1 dataset with random signs of the deviations from the "
        "mean and 1 with independently permuted columns."
    ]


@pytest.mark.parametrize(
    "estimator",
    [GSPPCA(1, scale=True, refine=False), SCA(1, row_scale="equal")],
    ids=["GSPPCA", "SCA"],
)
def test_noisy_rows_in_other_estimators(estimator):
    data = np.random.default_rng(0).normal(size=(100, 60))
    data[:3] *= 5.0
    model = estimator.fit(data)
    assert model.support_.sum() > 40
    null = permutation_null(model, data, 8, random_state=0)
    by_kind = null.expected_n_selected_by_kind
    assert by_kind["signs"] > 40 > by_kind["permutation"]
    assert null.consistent_with_null
    permuted = permutation_null(model, data, 4, kind="permutation", random_state=0)
    assert not permuted.consistent_with_null


COUNTS = np.random.default_rng(0).poisson(np.exp(1.0 + X[:, :1] * np.linspace(-1.0, 1.0, 8)))
SHARED = X[:, :1] + 0.5 * np.random.default_rng(1).normal(size=(60, 9))


@pytest.mark.parametrize(
    ("model", "data", "y", "message"),
    [
        (FDRPCA(counts=True), COUNTS, None, "X contains counts, which would become negative"),
        (Panel(3, counts=True), COUNTS, None, "X contains counts"),
        (SCA(1, likelihood="poisson"), COUNTS, None, "the poisson likelihood allows only"),
        (SCA(1, likelihood=["gaussian", "bernoulli"]), [SHARED[:, :4], SHARED[:, 4:] > 0], None,
         "the bernoulli likelihood allows only"),
        (FDRPCA(), sparse.csr_array(X), None, "X is a sparse matrix, whose zeros would become"),
        (SpinyRegressor(), X, X[:, 0] + X[:, 3], "a regression have a permuted response"),
    ],
)  # fmt: skip
def test_data_without_random_signs_are_permuted(model, data, y, message):
    model.fit(data) if y is None else model.fit(data, y)
    null = permutation_null(model, data, 2, y=y, random_state=0)
    assert null.null_kind == ("permutation", "permutation")
    with pytest.raises(ParameterError, match=f'`kind="signs"` is not possible: .*{message}'):
        permutation_null(model, data, 2, y=y, kind="signs")


def test_invalid_kind():
    for kind in ("bootstrap", None, 1):
        with pytest.raises(ParameterError, match="`kind` must be one of 'auto', 'signs', 'perm"):
            permutation_null(FDRPCA().fit(X), X, 2, kind=kind)


def test_missing_values_and_views():
    data = X.copy()
    data[2, 3] = np.nan
    for given in (data, [data[:, :12], pd.DataFrame(data[:, 12:])]):
        model = SCA(2, max_iter=30).fit(given)
        null = permutation_null(model, given, 2, kind="signs", random_state=0)
        assert null.null_kind == ("signs", "signs")
        assert null.expected_n_selected < null.n_selected
