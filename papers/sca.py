"""E9: denoising by sparse probabilistic projections, Archambeau & Bach (2008), Table 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prosparse.datasets import FACTOR_DISTRIBUTIONS, SparseProjectionData, make_sparse_projection
from prosparse.models.sca import SCA

from .base import Claim, Experiment, Result, above, mean_row, seeds_of
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
    "PCA": "told that there are 4 components",
    "oracle": "knows loadings and noise",
}


def denoising_error(estimate: np.ndarray, clean: np.ndarray) -> float:
    """100 times the mean squared norm of the difference: the unit of Table 1."""
    return 100.0 * float(np.mean(np.sum((estimate - clean) ** 2, axis=1)))


def denoise(data: SparseProjectionData, method: str) -> np.ndarray:
    """The table rebuilt by one of the methods of E9."""
    X, W = data.X, data.loadings
    if method == "oracle":  # knows loadings and noise: the least error there is
        precision = data.noise**2 * np.eye(W.shape[1]) + W.T @ W
        return X @ W @ np.linalg.solve(precision, W.T)
    mean = X.mean(axis=0)
    if method in ("SPCA", "DSPCA"):  # tuned, as in the paper: here with the clean data
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
    if method == "PCA":  # knows the number of components
        V = np.linalg.svd(X - mean, full_matrices=False)[2][: W.shape[1]]
        return mean + (X - mean) @ V.T @ V
    # Vague priors: relevance determination, and the hyperbolic prior's Normal-Jeffreys limit.
    # The noise is the paper's.
    model = SCA(n_components=6, prior="ard" if method == "SCA-1" else "hyperbolic", noise="view")
    return model.inverse_transform(model.fit(X).transform(X))


def denoising_table(
    replications: int,
    sizes: tuple[int, ...] = SIZES,
    laws: tuple[str, ...] = FACTOR_DISTRIBUTIONS,
    seed: int = 0,
) -> dict[str, dict[str, np.ndarray]]:
    """Errors of every method: law -> method -> (sizes, replications)."""
    methods = ("SCA-1", "SCA-2", "SPCA", "DSPCA", "PCA", "oracle")
    table = {}
    for law in laws:
        errors: dict[str, list[list[float]]] = {method: [] for method in methods}
        for n in sizes:
            draws = [
                make_sparse_projection(n, factor_distribution=law, random_state=seed + r)
                for r in range(replications)
            ]
            for method in methods:
                errors[method].append([denoising_error(denoise(d, method), d.clean) for d in draws])
        table[law] = {method: np.array(values) for method, values in errors.items()}
    return table


def run_denoising(quick: bool, data: Data, output: Path) -> Result:
    """E9, Table 1."""
    replications, sizes = (2, SIZES[:1]) if quick else (50, SIZES)
    distributions = FACTOR_DISTRIBUTIONS[:1] if quick else FACTOR_DISTRIBUTIONS
    table = denoising_table(replications, sizes, distributions)
    rows, claims = [], []
    for law, errors in table.items():
        published = PUBLISHED[law] | {"SPCA": OTHERS[law]["Zou"], "DSPCA": OTHERS[law]["DSPCA"]}
        for method, values in errors.items():
            figures = published.get(method, (None, None, None))
            for n, runs, figure in zip(sizes, values, figures, strict=False):
                note = NOTES.get(method, "")
                rows.append(mean_row(f"{law} latents, N = {n}: {method}", runs, figure, note))
        means = {method: values.mean(axis=1) for method, values in errors.items()}
        for method in PUBLISHED[law]:
            for n, ours, theirs in zip(sizes, means[method], PUBLISHED[law][method], strict=False):
                if not quick:
                    text = f"{law}, N = {n}: {method} at most the published error plus 0.5"
                    note = f"{ours:.1f} and {theirs}"
                    claims.append(Claim(text, bool(ours <= theirs + 0.5), note))
            text = f"{law}: {method} has a smaller error than SPCA, DSPCA and PCA at every N"
            least = np.min([means[other] for other in ("SPCA", "DSPCA", "PCA")], axis=0)
            claims.append(above(text, least, means[method]))
        listed = ", ".join(map(str, OTHERS[law]["L1-PCA"]))
        rows[-1] = rows[-1]._replace(note=f"{rows[-1].note}; published L1-PCA: {listed}")
    remarks = "100 times the mean squared distance from the clean data; nothing beats the oracle."
    return Result(rows, claims, [], seeds_of(replications), remarks)


EXPERIMENTS = [Experiment("E9", "denoising (Table 1)", PAPER, (), run_denoising)]
