"""Random extreme tables, with descriptions that make failures readable."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from prosparse.registry import METHODS

DTYPES = ("float64", "float32", "int64", "uint8", "bool")
LAYOUTS = ("C", "F", "strided", "reversed", "read-only")
FORMATS = ("dense", "csr_array", "csc_array", "coo_array", "csr_matrix", "csc_matrix", "coo_matrix")
BLEMISHES = ("constant column", "duplicate columns", "duplicate rows", "outlier", "large mean")


class Spec(NamedTuple):
    """All that a table is made from; `build` is a pure function of it."""

    n: int
    p: int
    structure: str = "noise"
    rank: int = 1  # of "low rank"
    exponent: int = 0  # the whole table times 10**exponent
    spread: int = 0  # columns on scales from 10**-spread to 10**spread
    blemishes: frozenset[str] = frozenset()
    dtype: str = "float64"
    layout: str = "C"
    form: str = "dense"
    seed: int = 0


def low_rank(rng: np.random.Generator, n: int, p: int, rank: int) -> np.ndarray:
    W = rng.standard_normal((rank, p)) * (rng.random(p) < 0.6)
    return rng.standard_normal((n, rank)) @ W


STRUCTURES: dict[str, Any] = {
    "noise": lambda rng, n, p, rank: rng.standard_normal((n, p)),
    "low rank": low_rank,
    "noisy low rank": lambda rng, n, p, rank: (
        3.0 * low_rank(rng, n, p, rank) + rng.standard_normal((n, p))
    ),
    "zero rank": lambda rng, n, p, rank: np.tile(rng.standard_normal(p), (n, 1)),
    "counts": lambda rng, n, p, rank: rng.poisson(1.5, (n, p)).astype(float),
    "binary": lambda rng, n, p, rank: (rng.random((n, p)) < 0.3).astype(float),
    "ties": lambda rng, n, p, rank: rng.integers(-2, 3, (n, p)) / 2.0,
    "one-hot": lambda rng, n, p, rank: np.eye(p)[rng.integers(0, p, n)],
}


def rows(spec: Spec) -> np.ndarray:
    """The numbers, before they are scaled."""
    rng = np.random.default_rng(spec.seed)
    return STRUCTURES[spec.structure](rng, spec.n, spec.p, spec.rank)


def blemished(X: np.ndarray, spec: Spec) -> np.ndarray:
    rng = np.random.default_rng(spec.seed + 1)
    n, p = X.shape
    if "duplicate columns" in spec.blemishes:
        X[:, rng.integers(p)] = X[:, rng.integers(p)]
    if "duplicate rows" in spec.blemishes:
        X[rng.random(n) < 0.5] = X[rng.integers(n)]
    if "outlier" in spec.blemishes:
        X[rng.integers(n), rng.integers(p)] = 1e8
    if "large mean" in spec.blemishes:
        X = X + 1e4 * rng.standard_normal(p)
    if "constant column" in spec.blemishes:
        X[:, rng.integers(p)] = rng.integers(-1, 2)
    return X


def laid_out(X: np.ndarray, layout: str) -> np.ndarray:
    """The same numbers, elsewhere in memory."""
    if layout == "F":
        return np.asfortranarray(X)
    if layout == "strided":
        wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), X.dtype)
        wide[::2, ::3] = X
        return wide[::2, ::3]
    if layout == "reversed":
        return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
    X = np.ascontiguousarray(X)
    X.flags.writeable = layout != "read-only"
    return X


def build(spec: Spec) -> Any:
    X = blemished(rows(spec), spec)
    powers = np.random.default_rng(spec.seed + 2).integers(-spec.spread, spec.spread + 1, spec.p)
    X = X * 10.0**powers * 10.0**spec.exponent
    if spec.dtype == "bool":
        X = X > 0
    elif spec.dtype == "uint8":
        X = np.clip(np.abs(X), 0, 255).astype("uint8")
    elif spec.dtype == "int64":
        X = np.clip(np.round(X), -1e15, 1e15).astype("int64")
    else:
        X = X.astype(spec.dtype)
    X = laid_out(X, spec.layout)
    return X if spec.form == "dense" else getattr(sparse, spec.form)(X)


def response(spec: Spec, exponent: int, estimator: str) -> np.ndarray | None:
    """What is to be predicted: the first column and noise, times 10**exponent, or which half of
    the rows has more of it."""
    if not METHODS[estimator].supervised:
        return None
    rng = np.random.default_rng(spec.seed + 3)
    y = rows(spec)[:, 0] + rng.integers(0, 2) * rng.standard_normal(spec.n)
    if METHODS[estimator].classifies:
        return np.argsort(np.argsort(y)) >= spec.n // 2
    return 10.0**exponent * y


@st.composite
def specs(draw: Any, widest: int = 200, tallest: int = 50, moderate: bool = False) -> Spec:
    """Mostly small tables, some of them wide; ``moderate`` ones are floats of ordinary size."""
    n = draw(st.one_of(st.integers(2, 12), st.integers(2, tallest)))
    p = draw(st.one_of(st.integers(1, 10), st.integers(1, 30), st.integers(1, widest)))
    structure = draw(st.sampled_from(tuple(STRUCTURES)))
    dtype = "float64" if moderate else draw(st.sampled_from(DTYPES))
    largest = {"float64": 150, "float32": 15}.get(dtype, 0)
    exponent, spread = 0, 0
    if largest and not moderate:
        exponent = draw(st.one_of(st.just(0), st.integers(-largest, largest)))
        room = largest - abs(exponent)
        spread = draw(st.one_of(st.just(0), st.integers(0, room)))
    return Spec(
        n,
        p,
        structure,
        draw(st.integers(0, 5)) if "low rank" in structure else 1,
        exponent,
        spread,
        frozenset(draw(st.sets(st.sampled_from(BLEMISHES), max_size=2))),
        dtype,
        draw(st.sampled_from(LAYOUTS)),
        draw(st.sampled_from(FORMATS)),
        draw(st.integers(0, 2**16)),
    )
