"""Loaded models equal the saved ones."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import prosparse
from prosparse import (
    EMPCA,
    FDRPCA,
    GSPPCA,
    SCA,
    SPPCA,
    ModelFileError,
    Panel,
    SpinyClassifier,
    load,
    save,
)
from prosparse.inference.loop import StopReason
from prosparse.persistence import load_with_about
from prosparse.registry import METHODS
from prosparse.selection.slope import Slope
from saved_models import CLASSES, FRAME, MODELS, RESPONSE, X, assert_same

pytestmark = pytest.mark.quick


def test_every_estimator_is_covered():
    assert {type(model).__name__ for model in MODELS.values()} == set(METHODS)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_round_trip(name, tmp_path):
    y = CLASSES if METHODS[type(MODELS[name]).__name__].classifies else RESPONSE
    model = clone(MODELS[name]).fit(FRAME, y)
    again = load(save(model, tmp_path / "model.prosparse"))
    assert type(again) is type(model)
    assert_same(vars(model), vars(again), name)
    assert_same(model.get_params(), again.get_params(), name)
    pd.testing.assert_frame_equal(model.select(FRAME), again.select(FRAME))
    for method in ("transform", "predict", "predict_proba", "score_samples"):
        if hasattr(model, method):
            np.testing.assert_array_equal(
                getattr(model, method)(FRAME), getattr(again, method)(FRAME)
            )
    if hasattr(model, "transform"):
        scores = model.transform(FRAME)
        np.testing.assert_array_equal(
            model.inverse_transform(scores), again.inverse_transform(scores)
        )
        assert list(model.get_feature_names_out()) == list(again.get_feature_names_out())
    again.fit(FRAME, y)


@pytest.mark.slow
def test_arrays_of_another_library_are_saved_as_numpy_arrays(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    model = GSPPCA(2).fit(torch.asarray(X))
    again = load(save(model, tmp_path / "model"))
    np.testing.assert_array_equal(again.components_, np.asarray(model.components_))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(
        again.transform(torch.asarray(X)), model.transform(torch.asarray(X))
    )


def test_optimality_gap_is_computed_before_saving(tmp_path):
    first, second = (EMPCA(2, n_nonzero=4, random_state=0).fit(X) for _ in range(2))
    gap = first.optimality_gap_
    again = load(save(second, tmp_path / "model"))
    np.testing.assert_array_equal(again.optimality_gap_, gap)


def test_named_tuples_and_enumerations(tmp_path):
    model = SPPCA(2, penalties=np.linspace(0, 160, 40), max_iter=200).fit(X)
    again = load(save(model, tmp_path / "model"))
    assert type(again.slope_) is Slope
    assert again.stop_reason_ is StopReason.CONVERGED
    assert load(save(SPPCA(2, penalty=9.0).fit(X), tmp_path / "model")).slope_ is None


def test_unfitted_model_and_output_setting(tmp_path):
    again = load(save(GSPPCA(3, tol=1e-5), tmp_path / "model"))
    assert again.get_params()["tol"] == 1e-5
    assert not hasattr(again, "components_")
    model = GSPPCA(2).fit(FRAME).set_output(transform="pandas")
    again = load(save(model, tmp_path / "model"))
    pd.testing.assert_frame_equal(again.transform(FRAME), model.transform(FRAME))


def test_additional_information(tmp_path):
    _, rest = load_with_about(save(GSPPCA(), tmp_path / "model", about={"rows": 3, "é": [None]}))
    assert rest["about"] == {"rows": 3, "é": [None]}
    assert rest["versions"]["prosparse"] == prosparse.__version__


def test_numpy_reads_the_arrays(tmp_path):
    model = GSPPCA(2).fit(X)
    save(model, tmp_path / "model")
    with np.load(tmp_path / "model", allow_pickle=False) as archive:
        arrays = [archive[name] for name in archive.files if name.startswith("arrays")]
    assert any(np.array_equal(array, model.components_) for array in arrays)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (EMPCA(random_state=np.random.RandomState(0)), r"`random_state` contains a RandomState"),
        (GSPPCA(tol=np.array([object()])), r"`tol` is an array of object"),
        (object(), "object is not an estimator that can be saved"),
        (type("GSPPCA", (GSPPCA,), {})(), "GSPPCA is not an estimator that can be saved"),
    ],
)
def test_values_that_cannot_be_saved(model, message, tmp_path):
    with pytest.raises(ModelFileError, match=message):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_ranges_of_columns_are_saved_as_lists(tmp_path):
    model = SCA(1, views=[range(6), range(6, 12)]).fit(X)
    again = load(save(model, tmp_path / "model"))
    assert again.views == [list(range(6)), list(range(6, 12))]
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def test_values_keep_their_types(tmp_path):
    model = GSPPCA(tol=np.float32(0.1))
    model.values_ = (math.inf, -0.0, np.int8(3), "ü", {"a": [1.5, None, True]}, 2**70)
    model.fortran_ = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    again = load(save(model, tmp_path / "model"))
    assert_same(model.values_, again.values_)
    assert type(again.tol) is np.float32
    assert again.fortran_.flags.f_contiguous
    np.testing.assert_array_equal(again.fortran_, model.fortran_)


def test_parameters_are_checked_before_a_fitted_model_is_saved(tmp_path):
    model = GSPPCA(2).fit(X).set_params(max_iter="many")
    with pytest.raises(ModelFileError, match="`max_iter` must be an integer"):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


LABELS = {
    "integers": np.array([3, 7]),
    "bytes of integers": np.array([3, 7], dtype=np.uint8),
    "numbers": np.array([0.5, 1.5]),
    "single precision": np.array([0.1, 1.5], dtype=np.float32),
    "booleans": np.array([False, True]),
    "complex numbers": np.array([1j, 2.0]),
    "bytes": np.array([b"a", b"\xff"]),
    "dates": np.array(["2024-02-29", "2024-03-01"], dtype="datetime64[D]"),
    "times": np.array(["2024-02-29T12:00", "2024-03-01"], dtype="datetime64[ns]"),
    "durations": np.array([1, 2], dtype="timedelta64[h]"),
    "strings": np.array(["a", "höher"]),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_labels_of_groups_keep_their_type(labels, tmp_path):
    groups = np.tile(labels, 30)
    model = SCA(1).fit(X, groups=groups)
    again = load(save(model, tmp_path / "model"))
    np.testing.assert_array_equal(model.groups_, labels)
    np.testing.assert_array_equal(again.groups_, labels)
    assert again.groups_.dtype == model.groups_.dtype == labels.dtype
    np.testing.assert_array_equal(
        again.transform(X, groups=groups), model.transform(X, groups=groups)
    )


@pytest.mark.parametrize(
    "labels",
    [
        np.array([(1, 2.5), (2, 0.5)], dtype=[("donor", int), ("dose", float)]),
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]),
        np.array([b"\xff", b"a"], dtype=object),
    ],
    ids=["records", "tuples", "bytes as objects"],
)
@pytest.mark.parametrize("estimator", [SCA(1), Panel(2), FDRPCA(1)], ids=lambda e: type(e).__name__)
def test_labels_without_an_order_are_saved_as_strings(estimator, labels, tmp_path):
    model = clone(estimator).fit(X, groups=np.tile(np.asarray(labels), 30))
    again = load(save(model, tmp_path / "model"))
    if isinstance(estimator, SCA):
        assert again.groups_.tolist() == sorted(str(label) for label in labels.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["integers", "booleans", "dates", "times", "durations", "strings"])
def test_classes_keep_their_type(name, tmp_path):
    labels = LABELS[name]
    model = SpinyClassifier().fit(X, labels[(RESPONSE > 0).astype(int)])
    again = load(save(model, tmp_path / "model"))
    np.testing.assert_array_equal(again.classes_, labels)
    assert again.classes_.dtype == model.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "scalar", [np.complex128(1j), np.datetime64("2024-02-29"), np.bytes_(b"a")]
)
def test_unsupported_scalars_are_errors(scalar, tmp_path):
    with pytest.raises(ModelFileError, match="`n_features_to_select` contains a"):
        save(Panel(n_features_to_select=scalar), tmp_path / "model")
