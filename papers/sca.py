"""E9: denoising by sparse probabilistic projections, Archambeau & Bach (2008), Table 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prosparse.datasets import FACTOR_DISTRIBUTIONS, SparseProjectionData, make_sparse_projection
from prosparse.models.sca import SCA

from .base import Claim, Experiment, Result, claim_at_least, mean_row, seed_range
from .baselines import DSPCA, SPCA
from .data import Data

PAPER = "Archambeau & Bach, NeurIPS 2008"
SIZES = (100, 200, 400)
# Table 1 (its last row says N = 300 for 400).
PUBLISHED = {
    "gaussian": {"SCA-1": (39.9, 36.5, 35.5), "SCA-2": (40.8, 36.8, 35.5)},
    "uniform": {"SCA-1": (39.9, 36.8, 36.4), "SCA-2": (40.9, 37.0, 36.4)},
    "laplace": {"SCA-1": (39.3, 36.5, 35.8), "SCA-2": (40.3, 36.7, 35.8)},
}
OTHERS = {
    "gaussian": {
        "Zou": (42.2, 40.8, 39.8),
        "DSPCA": (42.9, 41.4, 40.3),
        "L1-PCA": (50.8, 50.4, 42.5),
    },
    "uniform": {
        "Zou": (42.6, 40.9, 40.5),
        "DSPCA": (43.6, 41.1, 40.7),
        "L1-PCA": (49.8, 48.1, 46.8),
    },
    "laplace": {
        "Zou": (42.7, 40.2, 40.6),
        "DSPCA": (43.4, 40.8, 40.9),
        "L1-PCA": (48.5, 46.2, 41.0),
    },
}


NOTES = {
    "SPCA": "Zou et al., 4 components, nonzeros tuned with the clean data",
    "DSPCA": "4 components, penalty tuned with the clean data",
    "PCA": "with the true number of components, 4",
    "oracle": "with the true loadings and noise variance",
}


def denoising_error(estimate: np.ndarray, clean: np.ndarray) -> float:
    """Return 100 times the mean squared norm of the difference, the unit of Table 1."""
    return 100.0 * float(np.mean(np.sum((estimate - clean) ** 2, axis=1)))


def denoise(data: SparseProjectionData, method: str) -> np.ndarray:
    """Return the data matrix reconstructed by one of the methods of E9."""
    X, W = data.X, data.loadings
    if method == "oracle":  # Posterior mean under the true model: the smallest possible error.
        precision = data.noise**2 * np.eye(W.shape[1]) + W.T @ W
        return X @ W @ np.linalg.solve(precision, W.T)
    mean = X.mean(axis=0)
    if method in ("SPCA", "DSPCA"):  # Tuned on the clean data; the paper does not state how.
        d = W.shape[1]
        models = (
            [SPCA(d, n_nonzero=K, max_iter=50) for K in (6, 8, 10)]
            if method == "SPCA"
            else [DSPCA(d, penalty=rho, tol=1e-3) for rho in (0.0, 0.03, 0.1)]
        )
        fits = [model.fit(X).components_ for model in models]
        bases = [np.linalg.qr(components.T)[0].T for components in fits]
        estimates = [mean + (X - mean) @ V.T @ V for V in bases]
        return min(estimates, key=lambda estimate: denoising_error(estimate, data.clean))
    if method == "PCA":  # Uses the true number of components.
        V = np.linalg.svd(X - mean, full_matrices=False)[2][: W.shape[1]]
        return mean + (X - mean) @ V.T @ V
    # Vague priors: automatic relevance determination, or the normal-Jeffreys limit of the
    # hyperbolic prior. As in the paper, each view has one noise variance and rows have equal scale.
    model = SCA(
        n_components=6,
        prior="ard" if method == "SCA-1" else "hyperbolic",
        noise="view",
        row_scale="equal",
    )
    return model.inverse_transform(model.fit(X).transform(X))


def denoising_table(
    replications: int,
    sizes: tuple[int, ...] = SIZES,
    distributions: tuple[str, ...] = FACTOR_DISTRIBUTIONS,
    seed: int = 0,
) -> dict[str, dict[str, np.ndarray]]:
    """Return errors by factor distribution and method, each of shape (sizes, replications)."""
    methods = ("SCA-1", "SCA-2", "SPCA", "DSPCA", "PCA", "oracle")
    table = {}
    for distribution in distributions:
        errors: dict[str, list[list[float]]] = {method: [] for method in methods}
        for n in sizes:
            datasets = [
                make_sparse_projection(n, factor_distribution=distribution, random_state=seed + r)
                for r in range(replications)
            ]
            for method in methods:
                errors[method].append(
                    [denoising_error(denoise(d, method), d.clean) for d in datasets]
                )
        table[distribution] = {method: np.array(values) for method, values in errors.items()}
    return table


def run_denoising(quick: bool, data: Data, output: Path) -> Result:
    """Run E9, Table 1."""
    replications, sizes = (2, SIZES[:1]) if quick else (50, SIZES)
    distributions = FACTOR_DISTRIBUTIONS[:1] if quick else FACTOR_DISTRIBUTIONS
    table = denoising_table(replications, sizes, distributions)
    rows, claims = [], []
    for distribution, errors in table.items():
        others = OTHERS[distribution]
        published = PUBLISHED[distribution] | {"SPCA": others["Zou"], "DSPCA": others["DSPCA"]}
        for method, values in errors.items():
            targets = published.get(method, (None, None, None))
            for n, runs, target in zip(sizes, values, targets, strict=False):
                note = NOTES.get(method, "")
                text = f"{distribution} factors, N = {n}: {method}"
                rows.append(mean_row(text, runs, target, note))
        means = {method: values.mean(axis=1) for method, values in errors.items()}
        for method, targets in PUBLISHED[distribution].items():
            for n, ours, theirs in zip(sizes, means[method], targets, strict=False):
                if not quick:
                    text = (
                        f"{distribution}, N = {n}: error of {method} at most 0.5 above the "
                        "published one"
                    )
                    note = f"{ours:.1f}, published {theirs}"
                    claims.append(Claim(text, bool(ours <= theirs + 0.5), note))
            text = (
                f"{distribution}: {method} has a smaller error than SPCA, DSPCA and PCA at every N"
            )
            smallest = np.min([means[other] for other in ("SPCA", "DSPCA", "PCA")], axis=0)
            claims.append(claim_at_least(text, smallest, means[method]))
        listed = ", ".join(map(str, others["L1-PCA"]))
        rows[-1] = rows[-1]._replace(note=f"{rows[-1].note}; published L1-PCA: {listed}")
    remarks = (
        "The error is 100 times the mean squared distance from the clean data. The oracle is a "
        "lower bound."
    )
    return Result(rows, claims, [], seed_range(replications), remarks)


EXPERIMENTS = [Experiment("E9", "Denoising (Table 1)", PAPER, (), run_denoising)]
