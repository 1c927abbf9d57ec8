"""SCA and competing methods for several views, with a common interface.

Each function fits centred training views and returns a `Fit`, or None if the package is not
installed. Times are processor times, which depend little on the load of the machine.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from prosparse.models.sca import SCA
from prosparse.models.sca.conditional import Factors, predictive_moments, row_log_densities

Array = np.ndarray
Views = list[Array]


class Fit(NamedTuple):
    """A fitted method."""

    seconds: float  # processor time
    predict: Callable[[Views, int], Array]  # (test views, index of the target) -> target view
    log_likelihood: Callable[[Views], float] | None  # mean per sample, if the model has a density
    scores: Callable[[Views], Views]  # canonical or factor scores of each view
    zeros: float  # proportion of loadings that are exactly zero
    loadings: Views  # of shape (columns, factors) for each view


def fit_sca(train: Views, k: int | Literal["auto"], **options: Any) -> Fit:
    """Fit `SCA` with k factors."""
    start = time.process_time()
    model = SCA(k, **options).fit(train)
    seconds = time.process_time() - start

    def scores(views: Views) -> Views:
        single = [[x if v == w else None for w, x in enumerate(views)] for v in range(len(views))]
        return [model.transform(parts)[:, : model.n_components_] for parts in single]

    unrestricted = np.concatenate(
        [
            part[(model.factor_view_ == -1) | (model.factor_view_ == v)].ravel()
            for v, part in enumerate(model.view_components_)
        ]
    )
    return Fit(
        seconds,
        lambda views, target: model.predict_view(views, target).mean,
        model.score,
        scores,
        float(np.mean(unrestricted == 0)),
        [part.T for part in model.view_components_],
    )


def fit_mofa(train: Views, k: int, spike_and_slab: bool = True) -> Fit | None:
    """Fit mofapy2 with ARD priors, with or without spikes, in convergence mode "fast"."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            from mofapy2.run.entry_point import entry_point
    except ImportError:
        return None
    logging.disable(logging.WARNING)
    start = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        run = entry_point()
        run.set_data_options(scale_views=False, center_groups=True)
        run.set_data_matrix([[x] for x in train], likelihoods=["gaussian"] * len(train))
        run.set_model_options(
            factors=k, spikeslab_weights=spike_and_slab, ard_weights=True, ard_factors=False
        )
        run.set_train_options(convergence_mode="fast", seed=1, quiet=True, dropR2=None)
        run.build()
        run.run()
    seconds = time.process_time() - start
    logging.disable(logging.NOTSET)
    nodes = run.model.nodes
    W = [np.asarray(w["E"] if isinstance(w, dict) else w) for w in nodes["W"].getExpectations()]
    tau = [np.asarray(t).mean(axis=0) for t in nodes["Tau"].getExpectation()]
    mean = [x.mean(axis=0) for x in train]
    # mofapy2 does not standardise its factors.
    Z = np.asarray(nodes["Z"].getExpectation())
    W = [w * Z.std(axis=0) for w in W]
    return _factor_fit(seconds, W, tau, mean)


def fit_mofaflex(train: Views, k: int) -> Fit | None:
    """Fit mofaflex with its MOFA preset: horseshoe loadings and normal noise."""
    try:
        import mofaflex as package
        import torch
        from anndata import AnnData
    except ImportError:
        return None
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    mean = [x.mean(axis=0) for x in train]
    # mofaflex divides each view by its standard deviation. Scaling here makes this reversible.
    scales = [float(np.std(x - m)) for x, m in zip(train, mean, strict=True)]
    names = [f"view {v}" for v in range(len(train))]
    tables = {
        name: AnnData(((x - m) / s).astype(np.float32))
        for name, x, m, s in zip(names, train, mean, scales, strict=True)
    }
    start = time.process_time()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),  # mofaflex writes a file per fit to the working directory.
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        model = package.MOFAFLEX(
            {"all": tables},
            package.DataOptions(plot_data_overview=False, subset_var=None),
            package.ModelOptions(
                n_factors=k, weight_prior="Horseshoe", factor_prior="Normal", likelihoods="Normal"
            ),
            package.TrainingOptions(device="cpu", lr=0.05, seed=1, save_path=False),
        )
    seconds = time.process_time() - start
    logging.disable(logging.NOTSET)
    Z = np.asarray(model.get_factors("numpy")["all"], dtype=float)
    Z = Z if Z.shape[0] == len(train[0]) else Z.T
    weights, inverse_deviation = model.get_weights("numpy"), model.get_dispersion("numpy")
    W, tau = [], []
    for name, x, s in zip(names, train, scales, strict=True):
        w = np.asarray(weights[name], dtype=float)
        w = w if w.shape[0] == x.shape[1] else w.T
        W.append(s * w * Z.std(axis=0))
        tau.append(np.asarray(inverse_deviation[name], dtype=float) ** 2 / s**2)
    return _factor_fit(seconds, W, tau, mean)


def _factor_fit(seconds: float, W: Views, tau: Views, mean: Views) -> Fit:
    """Return the fit of a factor model with loadings W and noise precisions tau."""
    model = Factors(np.vstack(W), np.concatenate(tau), np.concatenate(mean))
    edges = np.cumsum([0, *(w.shape[0] for w in W)])

    def predict(views: Views, target: int) -> Array:
        X = np.hstack([np.full_like(x, np.nan) if v == target else x for v, x in enumerate(views)])
        return predictive_moments(X, model, np.arange(edges[target], edges[target + 1]))[0]

    def scores(views: Views) -> Views:
        parts = []
        for x, w, t, m in zip(views, W, tau, mean, strict=True):
            S = np.linalg.inv(np.eye(w.shape[1]) + (t[:, None] * w).T @ w)
            parts.append((x - m) @ (t[:, None] * w) @ S)
        return parts

    def log_likelihood(views: Views) -> float:
        return float(np.mean(row_log_densities(np.hstack(views), model)))

    return Fit(seconds, predict, log_likelihood, scores, float(np.mean(np.vstack(W) == 0)), W)


def fit_cca_zoo(train: Views, k: int, **options: Any) -> Fit | None:
    """Fit the sparse CCA of cca-zoo, a penalised matrix decomposition.

    Predictions are least squares on the scores of the other views.
    """
    try:
        from cca_zoo.sparse import PMDCCA
    except ImportError:
        return None
    k = min(k, *(x.shape[1] for x in train))  # maximum of cca-zoo
    start = time.process_time()
    model = PMDCCA(n_components=k, **options).fit([np.asarray(x, float) for x in train])
    seconds = time.process_time() - start
    weights = [np.asarray(w) for w in model.weights_]

    def scores(views: Views) -> Views:
        return [(x - t.mean(axis=0)) @ w for x, t, w in zip(views, train, weights, strict=True)]

    def predict(views: Views, target: int) -> Array:
        def others(parts: Views) -> Array:
            return np.hstack([s for v, s in enumerate(scores(parts)) if v != target])

        mean = train[target].mean(axis=0)
        coefficients = np.linalg.lstsq(others(train), train[target] - mean, rcond=None)[0]
        return mean + others(views) @ coefficients

    zeros = float(np.mean(np.vstack(weights) == 0))
    return Fit(seconds, predict, None, scores, zeros, weights)
