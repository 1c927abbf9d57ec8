"""False selections of FDRPCA in counts whose rows differ only in sequencing depth.

    python -m benchmarks.depth      # two minutes; requires PROSPARSE_DATA

Each row is a multinomial sample with the total of a row of real data and the column proportions of
all rows (columns present in more than ten rows). `FDRPCA` is fitted to log counts per ten thousand,
to square roots of proportions, and to the counts.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

from prosparse import FDRPCA

DATASETS = {
    "blood cells": "pbmc3k_2700x32738_csr.npz",
    "sorted blood cells": "pbmc_facs_3774x16791_csr.npz",
    "news texts": "text_ap_2246x10473_csr.npz",
}


def read_counts(path):
    """Read a sparse count matrix."""
    with np.load(path) as file:
        parts = file["data"].astype(float), file["indices"], file["indptr"]
        S = sparse.csr_array(parts, shape=tuple(file["shape"]))
    S = S[:, np.asarray((S > 0).sum(axis=0)).ravel() > 10]
    return S[np.asarray(S.sum(axis=1)).ravel() > 0]


def simulate_null(S, seed=0):
    """Simulate multinomial counts with the row totals and column proportions of S."""
    rng = np.random.default_rng(seed)
    totals = np.asarray(S.sum(axis=0)).ravel()
    rows = [rng.multinomial(int(total), totals / totals.sum()) for total in S.sum(axis=1)]
    X = sparse.csr_array(np.stack(rows).astype(float))
    return X[:, np.asarray(X.sum(axis=0)).ravel() > 0]


def main():
    warnings.simplefilter("ignore")  # No structure is expected.
    folder = Path(os.environ.get("PROSPARSE_DATA", "."))
    print(f"{'':22s}{'shape':>16s}{'depth':>12s}{'logarithms':>12s}{'roots':>8s}{'counts':>8s}")
    for name, file in DATASETS.items():
        if not (folder / file).exists():
            print(f"{name:22s}omitted: {file} not found in PROSPARSE_DATA")
            continue
        X = simulate_null(read_counts(folder / file))
        total = np.asarray(X.sum(axis=1)).ravel()
        rates = sparse.csr_array(sparse.diags_array(1e4 / total) @ X)
        n_selected = [
            FDRPCA(counts=model == "counts").fit(data).n_selected_
            for model, data in (
                ("logarithms", rates.log1p()),
                ("roots", rates.sqrt()),
                ("counts", X),
            )
        ]
        low, high = np.quantile(total, [0.05, 0.95])
        print(
            f"{name:22s}{f'{X.shape[0]:,} x {X.shape[1]:,}':>16s}{f'{low:,.0f}-{high:,.0f}':>12s}"
            f"{n_selected[0]:>12,d}{n_selected[1]:>8,d}{n_selected[2]:>8,d}",
            flush=True,
        )


if __name__ == "__main__":
    main()
