"""Selections on permuted datasets."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config

from prosparse import EMPCA, FDRPCA, GSPPCA, SCA, InputError, Panel, SpinyRegressor
from prosparse.datasets import make_globally_sparse, make_sparse_regression
from prosparse.stability import PermutationNull, permutation_null

pytestmark = pytest.mark.quick

X = make_globally_sparse(60, 30, n_components=2, n_informative=8, random_state=1).X


@pytest.fixture(scope="module")
def by_evidence():
    """GSPPCA selects variables of permuted data if the noise variances are unequal."""
    rng = np.random.default_rng(0)
    data = X + rng.normal(size=X.shape) * np.linspace(0.1, 3.0, 30)
    return permutation_null(GSPPCA(2).fit(data), data, 5, random_state=0)


def test_fdrpca_selects_almost_nothing_under_the_null():
    null = permutation_null(FDRPCA().fit(X), X, 10, random_state=0)
    assert null.n_selected >= 8
    assert null.expected_n_selected < 0.5
    assert not null.consistent_with_null
    assert null.statistic == pytest.approx(FDRPCA().fit(X).explained_variance_ratio_.sum())


def test_selection_under_the_null(by_evidence):
    assert by_evidence.selects_under_null
    assert by_evidence.expected_n_selected == by_evidence.null_n_selected.mean() > 0
    assert repr(by_evidence).startswith("GSPPCA on 5 permuted datasets")


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
    )
    assert null.headline() == "GSPPCA selected 8 of 30 variables; 4 are expected under the null"
    assert null.summary() == [
        "GSPPCA selected 4 variables on average (3 to 5) in 3 datasets with independently permuted "
        "columns.",
        "The components explain 50.0% of the total variance, compared with 15.0% on average in the "
        "permuted datasets.",
    ]
    given = replace(null, size_given=True)
    assert given.summary() == null.summary()[1:]
    nothing = replace(null, null_n_selected=np.zeros(5, int), null_statistic=np.zeros(5))
    assert nothing.summary() == [
        "GSPPCA selected no variables in 5 datasets with independently permuted columns."
    ]
    one = replace(nothing, null_n_selected=np.zeros(1, int), statistic_name="accuracy")
    assert one.summary() == ["GSPPCA selected no variables in 1 dataset with a permuted response."]


@pytest.mark.parametrize(
    ("statistic_name", "text"),
    [
        ("attainable_r2", "explain 50.0% of the variance of a variable, compared with 15.0%"),
        ("response_r2", "explains 50.0% of the variance of the response in these rows, compared"),
        ("accuracy", "classifies 50.0% of these rows correctly, compared with 15.0% on average"),
    ],
)
def test_summary_of_other_statistics(statistic_name, text):
    null = PermutationNull(
        "M", 30, 8, True, np.array([3, 5]), 0.5, np.array([0.1, 0.2]), statistic_name
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


def test_panel_explains_little_of_permuted_data():
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
    with pytest.raises(InputError, match="pass it as `y`"):
        permutation_null(model, data.X)


def test_permutation_within_groups():
    """Differences between groups remain in the permuted data and count as shared variance."""
    groups = np.repeat([0, 1], 30)
    data = X + 5.0 * groups[:, None]
    model = GSPPCA(1, n_features_to_select=6).fit(data)
    within = permutation_null(model, data, 2, groups=groups, random_state=0)
    free = permutation_null(model, data, 2, random_state=0)
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
    null = PermutationNull("GSPPCA", 9, 5, True, counts, statistic, values, "explained_variance")
    assert null.consistent_with_null == consistent


def test_json_round_trip(by_evidence):
    again = PermutationNull.from_json(by_evidence.to_json())
    assert again.summary() == by_evidence.summary()
    for wrong in (None, 3, {}, {**by_evidence.to_json(), "null_n_selected": []},
                  {**by_evidence.to_json(), "statistic_name": "<script>"}):  # fmt: skip
        assert PermutationNull.from_json(wrong) is None


def test_time_limit():
    assert (
        permutation_null(FDRPCA().fit(X), X, 500, random_state=0, max_seconds=0.0).n_permutations
        == 1
    )


def test_names_of_columns_are_kept_in_permuted_data():
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
        again = permutation_null(GSPPCA(2).fit(data), data, 5, random_state=0, n_jobs=2)
    np.testing.assert_array_equal(again.null_n_selected, by_evidence.null_n_selected)
    np.testing.assert_array_equal(again.null_statistic, by_evidence.null_statistic)


def test_statistic_is_zero_without_selected_variables():
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(30, 1)) + 0.5 * rng.normal(size=(30, 4))
    X = np.hstack([factor, rng.normal(size=(30, 12))])
    found = permutation_null(SCA().fit(X), X, 6, random_state=0)
    none = found.null_n_selected == 0
    assert 0 < none.sum() < 6
    assert np.all(found.null_statistic[none] == 0.0)
    assert found.expected_statistic == pytest.approx(np.sum(found.null_statistic[~none]) / 6)
