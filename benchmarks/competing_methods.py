"""Compare the estimators with competing methods: python -m benchmarks.competing_methods

Simulated data: 10 factors with loadings on 20 variables at random positions (100 x 200, 100 x 1,000
and 200 x 5,000), with 200 additional test rows. If the folder PROSPARSE_DATA contains them, the
2,700 cells of pbmc3k (sparse) are added. The table shows the seconds of one fit on one thread, the
number of selected variables, their F-score, the proportion of test variance explained by the
components, and the test log-likelihood per entry if the method has one. Methods that use the true
number of variables are marked.

Competing methods that are not installed are omitted. A fit is stopped after ``--limit`` seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA, MiniBatchSparsePCA, SparsePCA
from threadpoolctl import threadpool_limits

from papers.baselines import DSPCA, NSPCA, SPCA, SSPCA, PathSPCA, ThresholdedPCA
from papers.competing_views import fit_cca_zoo, fit_mofa
from prosparse import EMPCA, GSPPCA, SCA, SPPCA
from prosparse.datasets import make_globally_sparse
from prosparse.metrics import adjusted_explained_variance, support_f_score

D, Q, N_TEST = 10, 20, 200  # factors, true variables, test rows
SIZES = ((100, 200), (100, 1000), (200, 5000))


class Fit(NamedTuple):
    """A fitted method."""

    components: np.ndarray  # (d, p)
    log_likelihood: Callable[[np.ndarray], float] | None  # mean over rows


class Method(NamedTuple):
    """A method to compare."""

    name: str
    fit: Callable[[np.ndarray], Fit]
    given_size: bool = False  # whether the method uses the true number of variables
    max_columns: int = 10**9
    package: str = "prosparse"


class TooLongError(Exception):
    """The time limit of a fit is exceeded."""


def estimator(make: Callable[[], Any], likelihood: bool = False) -> Callable[[np.ndarray], Fit]:
    """Return the fit function of a scikit-learn estimator."""

    def fit(X: np.ndarray) -> Fit:
        model = make().fit(X)
        return Fit(model.components_, model.score if likelihood else None)

    return fit


def fit_abess(X: np.ndarray) -> Fit:
    """Fit one component with 20 nonzeros; components of abess have disjoint supports."""
    from abess.decomposition import SparsePCA as AbessPCA

    model = AbessPCA(support_size=Q).fit(X, is_normal=False)
    return Fit(np.reshape(model.coef_, (-1, X.shape[1])), None)


def fit_one_view(X: np.ndarray) -> Fit:
    """Fit mofapy2 to a single view."""
    result = fit_mofa([X], D)
    assert result is not None
    likelihood = result.log_likelihood
    return Fit(result.loadings[0].T, None if likelihood is None else lambda Z: likelihood([Z]))


def fit_halves(X: np.ndarray) -> Fit:
    """Fit sparse CCA to the two halves of the columns."""
    half = X.shape[1] // 2
    result = fit_cca_zoo([X[:, :half], X[:, half:]], D, l1_bound=0.3)
    assert result is not None
    return Fit(np.vstack(result.loadings).T, None)


METHODS = [
    Method("GSPPCA", estimator(lambda: GSPPCA(D), True)),
    Method("SCA, ard", estimator(lambda: SCA(D, tol=1e-6), True)),
    Method("SCA, hyperbolic", estimator(lambda: SCA(D, prior="hyperbolic", tol=1e-6), True)),
    Method(
        "SPPCA, bic",
        estimator(lambda: SPPCA(D, penalty="bic", penalties=np.geomspace(5.0, 80.0, 8))),
    ),
    Method("EMPCA", estimator(lambda: EMPCA(D, n_nonzero=Q, random_state=0)), True),
    Method("ThresholdedPCA", estimator(lambda: ThresholdedPCA(D, n_nonzero=Q)), True),
    Method("PathSPCA", estimator(lambda: PathSPCA(D, n_nonzero=Q)), True),
    Method("SPCA", estimator(lambda: SPCA(D, n_nonzero=Q, ridge=np.inf)), True),
    Method("SSPCA, given size", estimator(lambda: SSPCA(D, n_features_to_select=Q)), True),
    Method("SSPCA, refitted cv", estimator(lambda: SSPCA(D, penalty="cv-refit", random_state=0))),
    Method("DSPCA", estimator(lambda: DSPCA(D, penalty=0.2, tol=1e-3)), max_columns=200),
    Method("NSPCA", estimator(lambda: NSPCA(D, beta=0.1, random_state=0)), max_columns=200),
    Method("PCA", estimator(lambda: PCA(D), True), package="sklearn"),
    Method("SparsePCA", estimator(lambda: SparsePCA(D, random_state=0)), package="sklearn"),
    Method(
        "MiniBatchSparsePCA",
        estimator(lambda: MiniBatchSparsePCA(D, random_state=0)),
        package="sklearn",
    ),
    Method("abess SparsePCA", fit_abess, True, package="abess"),
    Method("mofapy2", fit_one_view, package="mofapy2"),
    Method("cca-zoo PMDCCA, halves", fit_halves, package="cca_zoo"),
]


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TooLongError` after the given number of seconds."""

    def stop(*_: Any) -> None:
        raise TooLongError

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def format_row(method: Method, n: int, p: int, seed: int, limit: float) -> str:
    """Fit one method and return its row of the table."""
    if p > method.max_columns:
        return "too many columns"
    X, support, _ = make_globally_sparse(
        n + N_TEST, p, n_components=D, n_informative=Q, noise=1.0, random_state=seed
    )
    train, test = X[:n], X[n:]
    start = time.perf_counter()
    try:
        with time_limit(limit), contextlib.redirect_stdout(io.StringIO()):
            fit = method.fit(train)
    except TooLongError:
        return f"stopped after {limit:g} s"
    except Exception as error:  # Report the limitations of competing methods.
        return f"{type(error).__name__}: {str(error).splitlines()[0][:70]}"
    seconds = time.perf_counter() - start
    used = np.any(fit.components != 0, axis=0)
    explained = adjusted_explained_variance(test - train.mean(axis=0), fit.components).sum()
    likelihood = "" if fit.log_likelihood is None else f"{fit.log_likelihood(test) / p:.4f}"
    F = support_f_score(support, used)
    return f"{seconds:9.3f}{int(used.sum()):9d}{F:9.3f}{explained:11.3f}{likelihood:>14s}"


def compare_on_simulations(limit: float, seed: int, sizes: tuple[tuple[int, int], ...]) -> None:
    """Print one table per size."""
    missing = sorted({m.package for m in METHODS if find_spec(m.package) is None})
    for n, p in sizes:
        print(f"\n{n} x {p}, {D} factors on {Q} variables, noise 1; {N_TEST} test rows")
        print(f"{'':28s}{'seconds':>9s}{'selected':>9s}{'F-score':>9s}{'variance':>11s}", end="")
        print(f"{'log-lik./entry':>15s}")
        for method in METHODS:
            if method.package not in missing:
                name = method.name + (" (given 20)" if method.given_size else "")
                print(f"{name:28s}{format_row(method, n, p, seed, limit)}", flush=True)
    for package in missing:
        print(f"omitted because not installed: {package}")


def compare_on_cells(folder: Path) -> None:
    """Fit sparse log counts of pbmc3k, genes expressed in at least three cells."""
    path = folder / "pbmc3k_2700x32738_csr.npz"
    if not path.is_file():
        print(f"\npbmc3k: no file {path.name} in {folder}, omitted")
        return
    with np.load(path, allow_pickle=False) as file:
        parts = (file["data"].astype(float), file["indices"], file["indptr"])
        X = sparse.csr_array(parts, shape=tuple(file["shape"]))
    X = X[:, np.diff(X.tocsc().indptr) >= 3]
    X = sparse.csr_array(sparse.diags_array(1e4 / np.asarray(X.sum(axis=1))) @ X)
    X.data = np.log1p(X.data)
    dense = 8e-6 * X.shape[0] * X.shape[1]
    print(
        f"\npbmc3k: {X.shape[0]} cells x {X.shape[1]} genes, {X.nnz} entries; dense {dense:.0f} MB;"
        f"\nthe Gram matrix X X' has {8e-6 * X.shape[0] ** 2:.0f} MB, its eigendecomposition about "
        "four times that"
    )
    for name, model in {
        "GSPPCA, evidence": GSPPCA(D, tol=1e-7),
        "EMPCA, 200 nonzeros": EMPCA(D, n_nonzero=200, random_state=0, n_restarts=0),
        "SPCA, 200 nonzeros": SPCA(D, n_nonzero=200, ridge=np.inf),
    }.items():
        tracemalloc.start()
        start = time.perf_counter()
        model.fit(X)
        seconds = time.perf_counter() - start
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        explained = model.explained_variance_ratio_.sum()
        n_selected = int(model.support_.sum())
        print(f"{name:28s}{seconds:9.1f} s, {n_selected} genes, {explained:.3f} of the variance, "
              f"peak {peak:.0f} MB in addition to the data", flush=True)  # fmt: skip
    try:
        SparsePCA(D).fit(X)
    except TypeError as error:
        print(f"{'scikit-learn SparsePCA':28s}{str(error).splitlines()[0][:70]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds allowed for a fit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="only the smallest simulation")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        compare_on_simulations(options.limit, options.seed, SIZES[:1] if options.small else SIZES)
        if not options.small and os.environ.get("PROSPARSE_DATA"):
            compare_on_cells(Path(os.environ["PROSPARSE_DATA"]))


if __name__ == "__main__":
    main()
