"""Estimators take arrays of any array API library and answer in kind, without leaving its device.

A NumPy fit of the same table is the measure: to rounding in double precision, and as far as
single precision goes otherwise.
"""

import contextlib
import functools

import array_api_strict
import numpy as np
import pytest
from array_api_compat import array_namespace, device, is_cupy_array
from sklearn.base import clone

from prosparse import EMPCA, GSPPCA, SCA, SPPCA, InputError
from prosparse.data import arrays
from prosparse.datasets import make_globally_sparse
from prosparse.inference.loop import StopReason
from prosparse.models.sppca import newton


def _torch(where):
    def make(X, dtype):
        torch = pytest.importorskip("torch", reason="Torch is not installed")
        if where == "cuda" and not torch.cuda.is_available():
            pytest.skip("Torch finds no CUDA GPU")
        return torch.asarray(X, dtype=getattr(torch, dtype), device=where)

    return make


def _cupy(X, dtype):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    return cupy.asarray(X, dtype=dtype)


def _jax(X, dtype):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")  # GPUs have three digits else
    return jax.numpy.asarray(X, dtype=dtype)


def _strict(X, dtype):
    return array_api_strict.asarray(X, dtype=getattr(array_api_strict, dtype))


LIBRARIES = {
    "strict": _strict,
    "torch": _torch("cpu"),
    "torch cuda": _torch("cuda"),
    "cupy": _cupy,
    "jax": _jax,
}
ESTIMATORS = {
    "GSPPCA": GSPPCA(5, tol=1e-13),
    "GSPPCA auto, scaled": GSPPCA(scale=True, tol=1e-13),
    "GSPPCA noisy": GSPPCA(4, tol=1e-13, evidence="noisy", model_prior="sparse"),
    "GSPPCA fixed": GSPPCA(3, n_features_to_select=12, noise="ml", tol=1e-13),
    "SCA": SCA(4, max_iter=60, tol=0.0),
    "SCA hyperbolic, views": SCA(
        3,
        prior="hyperbolic",
        rate=0.5,
        shape=100.0,
        n_private=1,
        views=[slice(0, 15), slice(15, None)],
        max_iter=60,
        tol=0.0,
    ),
}
ESTIMATORS |= {
    "EMPCA": EMPCA(3, n_nonzero=8, random_state=0),
    "EMPCA non-negative, disjoint": EMPCA(
        2, n_nonzero=6, nonnegative=True, orthogonality="disjoint", scale=True, random_state=0
    ),
    "EMPCA auto": EMPCA("auto", n_nonzero=10, random_state=0),
    "SPPCA": SPPCA(3, penalty="bic", penalties=[0.0, 2.0, 5.0, 20.0]),
    "SPPCA fixed": SPPCA(2, penalty=30.0),
    "SPPCA, two passes": SPPCA(2, penalty=30.0, max_iter=2),
}
SHAPES = {"wide": (40, 90), "tall": (150, 40)}
TOLERANCE = {"float64": 1e-6, "float32": 2e-3}


# Every library meets both shapes and both precisions in two of their four pairs; the other two
# pairs are left to another library, on the host and on a GPU.
ONE_HALF = [("wide", "float64"), ("tall", "float32")]
OTHER_HALF = [("wide", "float32"), ("tall", "float64")]
PAIRS = {
    "strict": OTHER_HALF,
    "torch": ONE_HALF,
    "torch cuda": ONE_HALF,
    "cupy": OTHER_HALF,
}
FITS = [
    (library, name, shape, dtype)
    for library, pairs in PAIRS.items()
    for name in ESTIMATORS
    for shape, dtype in pairs
]
# JAX compiles every operation anew for every shape: some of the tests are enough for it.
FITS += [("jax", "GSPPCA", "wide", "float64")]
FITS += [("jax", name, "wide", "float32") for name in ("SCA", "EMPCA")]


@pytest.fixture(scope="module", autouse=True)
def jax_keeps_what_it_compiled(request):
    """In the cache of pytest, for the other process of this run and for the next run."""
    with contextlib.suppress(ImportError):
        import jax

        jax.config.update("jax_compilation_cache_dir", str(request.config.cache.mkdir("jax")))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


@pytest.fixture(params=LIBRARIES)
def make(request):
    if request.param == "jax" and request.node.callspec.params.get("table") == "tall":
        pytest.skip("JAX would compile for longer than the test is worth")
    return LIBRARIES[request.param]


def of_shape(shape):
    n, p = SHAPES[shape]
    X = make_globally_sparse(n, p, n_components=5, n_informative=20, noise=0.5, random_state=1).X
    X[:, 3] = 2.0  # constant
    return X


@pytest.fixture(params=SHAPES, ids=list(SHAPES))
def table(request):
    return of_shape(request.param)


@functools.cache
def numpy_fit(name, shape):
    """The measure of every library's fit, and of both precisions'."""
    return clone(ESTIMATORS[name]).fit(of_shape(shape))


SETTLED = {
    "GSPPCA": GSPPCA(5),
    "SCA": SCA(3),
    "SCA hyperbolic": SCA(3, prior="hyperbolic"),
    "SPPCA": SPPCA(3, penalty=2.0),
}


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", SETTLED)
@pytest.mark.parametrize("library", ["strict", "torch", "torch cuda", "cupy"])
def test_single_precision_does_not_look_like_a_falling_objective(library, name):
    model = clone(SETTLED[name]).fit(LIBRARIES[library](of_shape("wide"), "float32"))
    assert model.stop_reason_ is StopReason.CONVERGED
    # rounding in the seventh digit, and no more
    height = arrays.to_numpy(model.objective_path_)
    assert np.diff(height).min() > -1e-5 * np.abs(height[-1])


def array_attributes(model):
    return {k: v for k, v in vars(model).items() if k.endswith("_") and hasattr(v, "shape")}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("library", "name", "shape", "dtype"), FITS)
def test_fit_in_kind(library, name, shape, dtype, monkeypatch):
    if name == "SPPCA, two passes":  # of EM, as where there are many columns
        monkeypatch.setattr(newton, "MOST_COLUMNS", 0)
    table = of_shape(shape)
    X = LIBRARIES[library](table, dtype)
    ours = clone(ESTIMATORS[name]).fit(X)
    attributes = {k: arrays.to_numpy(v) for k, v in array_attributes(ours).items()}
    for key, value in array_attributes(ours).items():
        assert array_namespace(value) is array_namespace(X), key
        assert device(value) == device(X), key
    assert ours.components_.dtype == X.dtype
    scores, chosen = ours.transform(X), ours.select(X)
    rebuilt = ours.inverse_transform(scores)
    for result in (scores, rebuilt, chosen):
        assert array_namespace(result) is array_namespace(X)
        assert result.dtype == X.dtype
    density = ours.score(X) if hasattr(ours, "score") else 0.0

    plain = numpy_fit(name, shape)
    tol = TOLERANCE[dtype] * (10 if name.startswith("S") else 1)  # their weights settle slowly
    for key, value in array_attributes(plain).items():
        if key in ("objective_path_", "cardinalities_", "ranking_"):
            continue  # as long as the iterations; integers are compared below
        if key == "n_parameters_path_" and dtype == "float32":
            continue  # loadings on the verge of zero
        # a relevance on its way to zero is the last to settle
        atol = 10 * tol if key == "relevance_" else tol
        np.testing.assert_allclose(attributes[key], value, rtol=tol, atol=atol, err_msg=key)
    if hasattr(plain, "cardinalities_"):
        np.testing.assert_array_equal(attributes["cardinalities_"], plain.cardinalities_)
    if isinstance(plain, EMPCA):  # one trace per component
        for trace, other in zip(ours.objective_path_, plain.objective_path_, strict=True):
            assert array_namespace(trace) is array_namespace(X)
            assert float(trace[-1]) == pytest.approx(other[-1], rel=tol)
    else:
        np.testing.assert_allclose(
            attributes["objective_path_"][-1], plain.objective_path_[-1], rtol=tol
        )
    np.testing.assert_allclose(
        arrays.to_numpy(scores), plain.transform(table), rtol=tol, atol=10 * tol
    )
    np.testing.assert_allclose(arrays.to_numpy(chosen), table[:, plain.support_], rtol=1e-6)
    if hasattr(plain, "score"):
        assert density == pytest.approx(plain.score(table), rel=tol)
    assert (
        arrays.to_numpy(ours.get_support(indices=True)).tolist()
        == np.flatnonzero(plain.support_).tolist()
    )


SMALL = {
    "a number": np.float64(2.5),
    "nothing": np.zeros((0, 3)),
    "yes and no": np.array([True, False, True]),
    "whole numbers": np.arange(5),
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "reversed": np.arange(4.0)[::-1],
}


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("what", SMALL)
def test_small_arrays_travel_there_and_back(make, what, pinned, monkeypatch):
    if not pinned:
        monkeypatch.setattr(arrays, "LARGEST_PINNED", 0)
    like, values = make(np.zeros((2, 2)), "float64"), SMALL[what]
    there = arrays.from_numpy(values, like)
    assert array_namespace(there) is array_namespace(like)
    assert device(there) == device(like)
    wait = arrays.to_numpy_async(there)
    del there  # its memory may be used again before the copy is looked at
    busy = like @ like
    np.testing.assert_array_equal(wait(), values)
    assert wait().dtype == values.dtype
    np.testing.assert_array_equal(arrays.to_numpy(busy), 0.0)
    other = arrays.from_numpy(values, like, like.dtype)
    assert other.dtype == like.dtype
    np.testing.assert_array_equal(arrays.to_numpy(other), values)


def test_only_small_arrays_go_to_the_host(make, monkeypatch):
    """d x d matrices, and vectors as long as the table is wide."""
    X = make(make_globally_sparse(60, 100, random_state=1).X, "float64")
    if is_cupy_array(X) or not hasattr(type(X), "__array__"):
        pytest.skip("this library lets nothing go to the host unseen")
    largest, original = [0], type(X).__array__

    def watched(array, *args, **kwargs):  # every way to the host ends here
        largest.append(int(np.prod(array.shape)))
        return original(array, *args, **kwargs)

    monkeypatch.setattr(type(X), "__array__", watched)
    arrays.to_numpy(X[:1, :1])
    if largest == [0]:
        pytest.skip("this version of the library goes to the host another way")
    GSPPCA(5, n_features_to_select=70).fit(X)  # no small order of log K
    assert 1 < max(largest) <= max(X.shape)


def test_single_precision_of_jax_is_refused(table):
    X = _jax(table, "float32")
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(InputError, match="jax_enable_x64"):
            GSPPCA(5).fit(X)
    finally:
        jax.config.update("jax_enable_x64", True)


def test_new_rows_of_another_library(make, table):
    model = GSPPCA(5).fit(table)
    X = make(table, "float64")
    scores = model.transform(X)
    assert array_namespace(scores) is array_namespace(X)
    np.testing.assert_allclose(arrays.to_numpy(scores), model.transform(table))
    back = GSPPCA(5).fit(X).transform(table)
    assert isinstance(back, np.ndarray)
    np.testing.assert_allclose(back, model.transform(table), atol=1e-6)


def test_bad_arrays_are_refused_in_words(make, table):
    holes = table.copy()
    holes[3, 7] = np.nan
    with pytest.raises(InputError, match=r"contains NaN: 1 value.*row 3, column 7"):
        GSPPCA(2).fit(make(holes, "float64"))
    with pytest.raises(InputError, match="Expected 2D array"):
        GSPPCA(2).fit(make(table[0], "float64"))
    with pytest.raises(InputError, match=r"0 sample"):
        GSPPCA(2).fit(make(table[:0], "float64"))
    with pytest.raises(ValueError, match="features"):
        GSPPCA(5).fit(make(table, "float64")).transform(make(table[:, :5], "float64"))


def test_gaps_elsewhere_are_refused_in_words(make, table):
    holes = table.copy()
    holes[3, 7] = np.nan
    with pytest.raises(InputError, match="only NumPy tables"):
        SCA(2).fit(make(holes, "float64"))
