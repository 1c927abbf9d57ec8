"""The experiments of Archambeau & Bach (2008), sparse probabilistic projections, and more views.

python -m prosparse.experiments.sca E9                                 # Table 1: denoising
python -m prosparse.experiments.sca E10 --data DIR --output DIR        # Fig. 2: power traces
python -m prosparse.experiments.sca E11 --data DIR --output DIR        # two, three, six views
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..datasets import LATENT_LAWS, SparseProjection, make_sparse_projection
from ..models.sca import SCA

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


def denoising_error(estimate: np.ndarray, clean: np.ndarray) -> float:
    """100 times the mean squared norm of the difference: the unit of Table 1."""
    return 100.0 * float(np.mean(np.sum((estimate - clean) ** 2, axis=1)))


def denoise(data: SparseProjection, method: str) -> np.ndarray:
    """The table rebuilt by one of the methods of E9."""
    X, W = data.X, data.loadings
    if method == "oracle":  # knows loadings and noise: the least error there is
        precision = data.noise**2 * np.eye(W.shape[1]) + W.T @ W
        return X @ W @ np.linalg.solve(precision, W.T)
    if method == "PCA":  # knows the number of components
        mean = X.mean(axis=0)
        V = np.linalg.svd(X - mean, full_matrices=False)[2][: W.shape[1]]
        return mean + (X - mean) @ V.T @ V
    # Vague priors: relevance determination, and the hyperbolic prior's Normal-Jeffreys limit.
    model = SCA(n_components=6, prior="ard" if method == "SCA-1" else "hyperbolic")
    return model.inverse_transform(model.fit(X).transform(X))


def denoising_table(replications: int, seed: int = 0) -> dict[str, dict[str, np.ndarray]]:
    """Errors of every method: law -> method -> (sizes, replications)."""
    methods = ("SCA-1", "SCA-2", "PCA", "oracle")
    table = {}
    for law in LATENT_LAWS:
        errors: dict[str, list[list[float]]] = {method: [] for method in methods}
        for n in SIZES:
            draws = [
                make_sparse_projection(n, latents=law, random_state=seed + r)
                for r in range(replications)
            ]
            for method in methods:
                errors[method].append([denoising_error(denoise(d, method), d.clean) for d in draws])
        table[law] = {method: np.array(values) for method, values in errors.items()}
    return table


def run_denoising(replications: int) -> bool:
    """E9: print Table 1; True if every cell of ours is at most the published figure plus 0.5."""
    table = denoising_table(replications)
    within = True
    print(f"E9, Table 1: denoising error, mean over {replications} replications (standard error)")
    for law, errors in table.items():
        print(f"\n{law} latents{'':12s}" + "".join(f"{'N = ' + str(n):>16s}" for n in SIZES))
        for method, values in errors.items():
            mean = values.mean(axis=1)
            error = values.std(axis=1, ddof=1) / np.sqrt(replications)
            cells = "".join(f"{m:9.1f} ({e:.2f})" for m, e in zip(mean, error, strict=True))
            print(f"  ours       {method:10s}" + cells)
            if method in PUBLISHED[law]:
                within &= bool(np.all(mean <= np.array(PUBLISHED[law][method]) + 0.5))
        for method, published in (PUBLISHED[law] | OTHERS[law]).items():
            print(f"  published  {method:10s}" + "".join(f"{v:9.1f}       " for v in published))
    verdict = "all" if within else "NOT all"
    print(f"\n{verdict} 18 cells of SCA-1 and SCA-2 are at most the published figure plus 0.5")
    return within


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="prosparse.experiments.sca", description=__doc__)
    parser.add_argument("experiment", choices=["E9", "E10", "E11"])
    parser.add_argument("--data", type=Path, help="folder with the data sets (E10, E11)")
    parser.add_argument("--output", type=Path, default=Path(), help="folder for figures")
    parser.add_argument("--replications", type=int, default=50, help="of E9")
    chosen = parser.parse_args(arguments)
    chosen.output.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", "self.within_class_std_dev_", UserWarning)
    if chosen.experiment == "E9":
        run_denoising(chosen.replications)
        return
    if chosen.data is None:
        parser.error(f"{chosen.experiment} needs --data, the folder with the data sets")
    if chosen.experiment == "E10":
        from .traces import run_traces

        run_traces(chosen.data, chosen.output)
    else:
        from .views import run_views

        run_views(chosen.data)


if __name__ == "__main__":
    main()
