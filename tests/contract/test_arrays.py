"""Estimators accept arrays of any array API library and return results in the same library.

Results agree with a NumPy fit of the same data, up to rounding errors of the precision.
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
    jax.config.update("jax_default_matmul_precision", "highest")  # otherwise three digits on a GPU
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
    "SPPCA, two iterations": SPPCA(2, penalty=30.0, max_iter=2),
}
SHAPES = {"wide": (40, 90), "tall": (150, 40)}
TOLERANCE = {"float64": 1e-6, "float32": 2e-3}


# Each library is tested with two of the four pairs of shape and precision. Another library on the
# same type of device covers the other two.
FIRST_PAIRS = [("wide", "float64"), ("tall", "float32")]
SECOND_PAIRS = [("wide", "float32"), ("tall", "float64")]
PAIRS = {
    "strict": SECOND_PAIRS,
    "torch": FIRST_PAIRS,
    "torch cuda": FIRST_PAIRS,
    "cupy": SECOND_PAIRS,
}
FITS = [
    (library, name, shape, dtype)
    for library, pairs in PAIRS.items()
    for name in ESTIMATORS
    for shape, dtype in pairs
]
# JAX compiles each operation for each shape, which takes long: few tests use it.
FITS += [("jax", "GSPPCA", "wide", "float64")]
FITS += [("jax", name, "wide", "float32") for name in ("SCA", "EMPCA")]


@pytest.fixture(scope="module", autouse=True)
def cache_jax_compilation(request):
    """Share compiled functions between test processes and runs in the cache of pytest."""
    with contextlib.suppress(ImportError):
        import jax

        jax.config.update("jax_compilation_cache_dir", str(request.config.cache.mkdir("jax")))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


@pytest.fixture(params=LIBRARIES)
def make(request):
    if request.param == "jax" and request.node.callspec.params.get("table") == "tall":
        pytest.skip("compilation takes too long")
    return LIBRARIES[request.param]


def make_data(shape):
    n, p = SHAPES[shape]
    X = make_globally_sparse(n, p, n_components=5, n_informative=20, noise=0.5, random_state=1).X
    X[:, 3] = 2.0  # constant
    return X


@pytest.fixture(params=SHAPES, ids=list(SHAPES))
def table(request):
    return make_data(request.param)


@functools.cache
def numpy_fit(name, shape):
    """Return the reference fit."""
    return clone(ESTIMATORS[name]).fit(make_data(shape))


CONVERGING = {
    "GSPPCA": GSPPCA(5),
    "SCA": SCA(3),
    "SCA hyperbolic": SCA(3, prior="hyperbolic"),
    "SPPCA": SPPCA(3, penalty=2.0),
}


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", CONVERGING)
@pytest.mark.parametrize("library", ["strict", "torch", "torch cuda", "cupy"])
def test_rounding_in_single_precision_does_not_stop_a_fit(library, name):
    model = clone(CONVERGING[name]).fit(LIBRARIES[library](make_data("wide"), "float32"))
    assert model.stop_reason_ is StopReason.CONVERGED
    objective = arrays.to_numpy(model.objective_path_)
    assert np.diff(objective).min() > -1e-5 * np.abs(objective[-1])  # rounding errors only


def array_attributes(model):
    return {k: v for k, v in vars(model).items() if k.endswith("_") and hasattr(v, "shape")}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("library", "name", "shape", "dtype"), FITS)
def test_results_are_in_the_library_of_the_data(library, name, shape, dtype, monkeypatch):
    if name == "SPPCA, two iterations":  # of EM, which is used for many columns
        monkeypatch.setattr(newton, "MAX_COLUMNS", 0)
    table = make_data(shape)
    X = LIBRARIES[library](table, dtype)
    ours = clone(ESTIMATORS[name]).fit(X)
    attributes = {k: arrays.to_numpy(v) for k, v in array_attributes(ours).items()}
    for key, value in array_attributes(ours).items():
        assert array_namespace(value) is array_namespace(X), key
        assert device(value) == device(X), key
    assert ours.components_.dtype == X.dtype
    scores, selected = ours.transform(X), ours.select(X)
    reconstructed = ours.inverse_transform(scores)
    for result in (scores, reconstructed, selected):
        assert array_namespace(result) is array_namespace(X)
        assert result.dtype == X.dtype
    density = ours.score(X) if hasattr(ours, "score") else 0.0

    plain = numpy_fit(name, shape)
    tol = TOLERANCE[dtype] * (10 if name.startswith("S") else 1)  # slow convergence
    for key, value in array_attributes(plain).items():
        if key in ("objective_path_", "cardinalities_", "ranking_"):
            continue  # of different lengths, or compared below
        if key == "n_parameters_path_" and dtype == "float32":
            continue  # some loadings are nearly zero
        # Relevances that tend to zero converge last.
        atol = 10 * tol if key == "relevance_" else tol
        np.testing.assert_allclose(attributes[key], value, rtol=tol, atol=atol, err_msg=key)
    if hasattr(plain, "cardinalities_"):
        np.testing.assert_array_equal(attributes["cardinalities_"], plain.cardinalities_)
    if isinstance(plain, EMPCA):  # one path per component
        for path, other in zip(ours.objective_path_, plain.objective_path_, strict=True):
            assert array_namespace(path) is array_namespace(X)
            assert float(path[-1]) == pytest.approx(other[-1], rel=tol)
    else:
        np.testing.assert_allclose(
            attributes["objective_path_"][-1], plain.objective_path_[-1], rtol=tol
        )
    np.testing.assert_allclose(
        arrays.to_numpy(scores), plain.transform(table), rtol=tol, atol=10 * tol
    )
    np.testing.assert_allclose(arrays.to_numpy(selected), table[:, plain.support_], rtol=1e-6)
    if hasattr(plain, "score"):
        assert density == pytest.approx(plain.score(table), rel=tol)
    assert (
        arrays.to_numpy(ours.get_support(indices=True)).tolist()
        == np.flatnonzero(plain.support_).tolist()
    )


SMALL = {
    "scalar": np.float64(2.5),
    "empty": np.zeros((0, 3)),
    "booleans": np.array([True, False, True]),
    "integers": np.arange(5),
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "reversed": np.arange(4.0)[::-1],
}


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("name", SMALL)
def test_small_arrays_are_copied_to_the_device_and_back(make, name, pinned, monkeypatch):
    if not pinned:
        monkeypatch.setattr(arrays, "MAX_PINNED_BYTES", 0)
    like, values = make(np.zeros((2, 2)), "float64"), SMALL[name]
    copy = arrays.from_numpy(values, like)
    assert array_namespace(copy) is array_namespace(like)
    assert device(copy) == device(like)
    wait = arrays.to_numpy_async(copy)
    del copy  # its memory may be reused before the copy is read
    product = like @ like
    np.testing.assert_array_equal(wait(), values)
    assert wait().dtype == values.dtype
    np.testing.assert_array_equal(arrays.to_numpy(product), 0.0)
    other = arrays.from_numpy(values, like, like.dtype)
    assert other.dtype == like.dtype
    np.testing.assert_array_equal(arrays.to_numpy(other), values)


def test_only_small_arrays_are_copied_to_cpu_memory(make, monkeypatch):
    """These are d x d matrices and vectors of length p."""
    X = make(make_globally_sparse(60, 100, random_state=1).X, "float64")
    if is_cupy_array(X) or not hasattr(type(X), "__array__"):
        pytest.skip("this library copies nothing implicitly")
    largest, original = [0], type(X).__array__

    def watched(array, *args, **kwargs):  # all copies use this method
        largest.append(int(np.prod(array.shape)))
        return original(array, *args, **kwargs)

    monkeypatch.setattr(type(X), "__array__", watched)
    arrays.to_numpy(X[:1, :1])
    if largest == [0]:
        pytest.skip("this version of the library copies in another way")
    GSPPCA(5, n_features_to_select=70, refine=False).fit(X)  # log K of large order
    assert 1 < max(largest) <= max(X.shape)


def test_jax_in_single_precision_raises(table):
    X = _jax(table, "float32")
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(InputError, match="jax_enable_x64"):
            GSPPCA(5).fit(X)
    finally:
        jax.config.update("jax_enable_x64", True)


def test_transform_accepts_arrays_of_another_library(make, table):
    model = GSPPCA(5).fit(table)
    X = make(table, "float64")
    scores = model.transform(X)
    assert array_namespace(scores) is array_namespace(X)
    np.testing.assert_allclose(arrays.to_numpy(scores), model.transform(table))
    back = GSPPCA(5).fit(X).transform(table)
    assert isinstance(back, np.ndarray)
    np.testing.assert_allclose(back, model.transform(table), atol=1e-6)


def test_invalid_arrays_raise(make, table):
    incomplete = table.copy()
    incomplete[3, 7] = np.nan
    with pytest.raises(InputError, match="contains NaN: 1 value, first in row 3, column 7"):
        GSPPCA(2).fit(make(incomplete, "float64"))
    with pytest.raises(InputError, match="Expected 2D array"):
        GSPPCA(2).fit(make(table[0], "float64"))
    with pytest.raises(InputError, match=r"0 sample"):
        GSPPCA(2).fit(make(table[:0], "float64"))
    with pytest.raises(ValueError, match="features"):
        GSPPCA(5).fit(make(table, "float64")).transform(make(table[:, :5], "float64"))


def test_missing_values_in_other_libraries_raise(make, table):
    incomplete = table.copy()
    incomplete[3, 7] = np.nan
    with pytest.raises(InputError, match="requires a NumPy array"):
        SCA(2).fit(make(incomplete, "float64"))
