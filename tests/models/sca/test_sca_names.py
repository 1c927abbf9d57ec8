"""Column names of views, which are checked view by view."""

import numpy as np
import pandas as pd
import pytest

from prosparse import SCA, InputError, ParameterError, load, save

rng = np.random.default_rng(0)
FACTORS = rng.normal(size=(80, 2))
A, B = (
    pd.DataFrame(FACTORS @ rng.normal(size=(2, p)) + 0.3 * rng.normal(size=(80, p)), columns=names)
    for p, names in ((4, list("abcd")), (3, list("xyz")))
)
REORDERED = A[list("dcba")]
BOTH = pd.concat([A, B], axis=1)


@pytest.fixture(scope="module")
def model():
    return SCA(2).fit([A, B])


def test_names_are_stored(model):
    assert model.feature_names_in_.tolist() == list("abcdxyz")
    assert [names.tolist() for names in model.view_names_] == [list("abcd"), list("xyz")]


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.transform([REORDERED, B]),
        lambda model: model.score_samples([REORDERED, B]),
        lambda model: model.score([REORDERED, None]),
        lambda model: model.select([REORDERED, B]),
        lambda model: model.impute([REORDERED, B]),
        lambda model: model.predict_view([REORDERED, None], 1),
        lambda model: model.predict_view({0: REORDERED}, 1),
    ],
)
def test_reordered_columns_raise_an_error(model, call):
    with pytest.raises(InputError, match=r"View 0: .* They must be in the same order"):
        call(model)


def test_different_names_raise_an_error(model, tmp_path):
    message = (
        r"View 1: .* Feature names unseen at fit time: 'w'\. "
        r"Feature names seen at fit time, yet now missing: 'z'\."
    )
    for fitted in (model, load(save(model, tmp_path / "model"))):
        with pytest.raises(InputError, match=message):
            fitted.transform([A, B.rename(columns={"z": "w"})])
    with pytest.raises(ValueError, match="same order"):
        model.transform(pd.concat([REORDERED, B], axis=1))


def test_dataframe_of_all_views(model):
    expected = model.transform([A, B])
    np.testing.assert_array_equal(model.transform(BOTH), expected)
    np.testing.assert_array_equal(
        model.predict_view(BOTH, 1).mean, model.predict_view([A, None], 1).mean
    )
    grouped = SCA(2, views=[list("abcd"), list("xyz")]).fit(BOTH)
    np.testing.assert_array_equal(grouped.transform([A, B]), expected)
    with pytest.raises(InputError, match="View 0"):
        grouped.transform([REORDERED, B])


def test_views_with_common_names():
    shared = B.set_axis(list("abc"), axis=1)
    model = SCA(2).fit([A, shared])
    assert not hasattr(model, "feature_names_in_")
    both = pd.concat([A, shared], axis=1)
    np.testing.assert_array_equal(model.transform(both), model.transform([A, shared]))
    with pytest.raises(InputError, match="View 0"):
        model.transform(pd.concat([REORDERED, shared], axis=1))
    with pytest.raises(InputError, match="X has 6 features, but SCA is expecting 7"):
        model.transform(both.iloc[:, 1:].set_axis(list("aabbcc"), axis=1))
    with pytest.raises(InputError, match="View 1: X has more than one column named 'a'"):
        SCA(2).fit([A, B.set_axis(list("aba"), axis=1)])


def test_views_with_and_without_names(model):
    mixed = SCA(2).fit([A, B.to_numpy()])
    np.testing.assert_array_equal(mixed.transform([A, B.to_numpy()]), model.transform([A, B]))
    with pytest.raises(InputError, match="View 0"):
        mixed.transform([REORDERED, B.to_numpy()])
    with pytest.warns(UserWarning, match="View 1 has feature names, but SCA was fitted without"):
        mixed.transform([A, B])
    with pytest.warns(UserWarning, match="View 0 does not have valid feature names, but SCA was"):
        mixed.transform([A.to_numpy(), None])
    with pytest.raises(InputError, match="View 0: Feature names are only supported if all"):
        SCA(2).fit([A.set_axis(["a", "b", "c", 4], axis=1), B])


def test_select_by_view(model):
    parts = model.select([A, None])
    assert parts[1] is None
    pd.testing.assert_frame_equal(parts[0], A.loc[:, model.support_[:4]])
    both = model.select([A, B])
    pd.testing.assert_frame_equal(pd.concat(both, axis=1), model.select(BOTH))


def test_impute_of_a_list_returns_one_array(model):
    full = model.impute([A, B])
    np.testing.assert_array_equal(full, BOTH)
    incomplete = A.mask(A > 1.5)
    assert model.impute([incomplete, B]).shape == full.shape


def test_unknown_views_raise_an_error(model):
    for views in ({"0": A}, {0: A, 5: B}):
        with pytest.raises(ParameterError, match="`views` must have keys from 0 to 1, got"):
            model.predict_view(views, 1)
