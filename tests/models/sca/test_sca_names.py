"""Column names of views: checked view by view, as scikit-learn checks those of one table."""

import numpy as np
import pandas as pd
import pytest

from prosparse import SCA, InputError, ParameterError, load, save

rng = np.random.default_rng(0)
LATENT = rng.normal(size=(80, 2))
A, B = (
    pd.DataFrame(LATENT @ rng.normal(size=(2, p)) + 0.3 * rng.normal(size=(80, p)), columns=names)
    for p, names in ((4, list("abcd")), (3, list("xyz")))
)
TURNED = A[list("dcba")]
BOTH = pd.concat([A, B], axis=1)


@pytest.fixture(scope="module")
def model():
    return SCA(2).fit([A, B])


def test_the_names_are_remembered(model):
    assert model.feature_names_in_.tolist() == list("abcdxyz")
    assert [names.tolist() for names in model.view_names_] == [list("abcd"), list("xyz")]


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.transform([TURNED, B]),
        lambda model: model.score_samples([TURNED, B]),
        lambda model: model.score([TURNED, None]),
        lambda model: model.select([TURNED, B]),
        lambda model: model.impute([TURNED, B]),
        lambda model: model.predict_view([TURNED, None], 1),
        lambda model: model.predict_view({0: TURNED}, 1),
    ],
)
def test_columns_in_another_order_are_refused(model, call):
    with pytest.raises(InputError, match=r"view 0: .* They must be in the same order"):
        call(model)


def test_other_names_are_refused(model, tmp_path):
    message = (
        r"view 1: .* Feature names unseen at fit time: 'w'\. "
        r"Feature names seen at fit time, yet now missing: 'z'\."
    )
    for fitted in (model, load(save(model, tmp_path / "model"))):
        with pytest.raises(InputError, match=message):
            fitted.transform([A, B.rename(columns={"z": "w"})])
    with pytest.raises(ValueError, match="same order"):
        model.transform(pd.concat([TURNED, B], axis=1))


def test_one_table_of_all_views_is_the_same(model):
    expected = model.transform([A, B])
    np.testing.assert_array_equal(model.transform(BOTH), expected)
    np.testing.assert_array_equal(
        model.predict_view(BOTH, 1).mean, model.predict_view([A, None], 1).mean
    )
    grouped = SCA(2, views=[list("abcd"), list("xyz")]).fit(BOTH)
    np.testing.assert_array_equal(grouped.transform([A, B]), expected)
    with pytest.raises(InputError, match="view 0"):
        grouped.transform([TURNED, B])


def test_views_may_share_names():
    shared = B.set_axis(list("abc"), axis=1)
    model = SCA(2).fit([A, shared])
    assert not hasattr(model, "feature_names_in_")
    both = pd.concat([A, shared], axis=1)
    np.testing.assert_array_equal(model.transform(both), model.transform([A, shared]))
    with pytest.raises(InputError, match="view 0"):
        model.transform(pd.concat([TURNED, shared], axis=1))
    with pytest.raises(InputError, match="X has 6 features, but SCA is expecting 7"):
        model.transform(both.iloc[:, 1:].set_axis(list("aabbcc"), axis=1))
    with pytest.raises(InputError, match="view 1: X has more than one column named 'a'"):
        SCA(2).fit([A, B.set_axis(list("aba"), axis=1)])


def test_views_with_and_without_names(model):
    mixed = SCA(2).fit([A, B.to_numpy()])
    np.testing.assert_array_equal(mixed.transform([A, B.to_numpy()]), model.transform([A, B]))
    with pytest.raises(InputError, match="view 0"):
        mixed.transform([TURNED, B.to_numpy()])
    with pytest.warns(UserWarning, match="view 1 has feature names, but SCA was fitted without"):
        mixed.transform([A, B])
    with pytest.warns(UserWarning, match="view 0 does not have valid feature names, but SCA was"):
        mixed.transform([A.to_numpy(), None])
    with pytest.raises(InputError, match="view 0: Feature names are only supported if all"):
        SCA(2).fit([A.set_axis(["a", "b", "c", 4], axis=1), B])


def test_what_is_chosen_of_every_view(model):
    parts = model.select([A, None])
    assert parts[1] is None
    pd.testing.assert_frame_equal(parts[0], A.loc[:, model.support_[:4]])
    both = model.select([A, B])
    pd.testing.assert_frame_equal(pd.concat(both, axis=1), model.select(BOTH))


def test_views_without_gaps_are_imputed_like_those_with(model):
    """One table, and not the list that was given."""
    full = model.impute([A, B])
    np.testing.assert_array_equal(full, BOTH)
    holes = A.mask(A > 1.5)
    assert model.impute([holes, B]).shape == full.shape


def test_only_views_that_there_are(model):
    for views in ({"0": A}, {0: A, 5: B}):
        with pytest.raises(ParameterError, match="numbered from 0 to 1; there is no view"):
            model.predict_view(views, 1)
