"""Counts of real depths that share nothing: what is chosen of them all the same?

    python -m benchmarks.depth      # two minutes; needs PROSPARSE_DATA

Rows are drawn from one multinomial each, with the totals of the rows of a real table and the shares
of its columns (those that occur in more than ten rows), so that rows differ in nothing but size.
`FDRPCA` is given logarithms of shares per ten thousand, roots of shares, and the counts themselves.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

from prosparse import FDRPCA

TABLES = {
    "blood cells": "pbmc3k_2700x32738_csr.npz",
    "sorted blood cells": "pbmc_facs_3774x16791_csr.npz",
    "news texts": "text_ap_2246x10473_csr.npz",
}


def read(path):
    with np.load(path) as file:
        parts = file["data"].astype(float), file["indices"], file["indptr"]
        S = sparse.csr_array(parts, shape=tuple(file["shape"]))
    S = S[:, np.asarray((S > 0).sum(axis=0)).ravel() > 10]
    return S[np.asarray(S.sum(axis=1)).ravel() > 0]


def of_size_alone(S, seed=0):
    """Counts with the totals of these rows and the shares of these columns, and nothing else."""
    rng = np.random.default_rng(seed)
    share = np.asarray(S.sum(axis=0)).ravel()
    rows = [rng.multinomial(int(total), share / share.sum()) for total in S.sum(axis=1)]
    X = sparse.csr_array(np.stack(rows).astype(float))
    return X[:, np.asarray(X.sum(axis=0)).ravel() > 0]


def main():
    warnings.simplefilter("ignore")  # where nothing is chosen
    folder = Path(os.environ.get("PROSPARSE_DATA", "."))
    print(f"{'':22s}{'shape':>16s}{'sizes':>12s}{'logarithms':>12s}{'roots':>8s}{'counts':>8s}")
    for name, file in TABLES.items():
        if not (folder / file).exists():
            print(f"{name:22s}not measured: PROSPARSE_DATA has no {file}")
            continue
        X = of_size_alone(read(folder / file))
        total = np.asarray(X.sum(axis=1)).ravel()
        shares = sparse.csr_array(sparse.diags_array(1e4 / total) @ X)
        chosen = [
            FDRPCA(counts=model == "counts").fit(table).n_selected_
            for model, table in (
                ("logarithms", shares.log1p()),
                ("roots", shares.sqrt()),
                ("counts", X),
            )
        ]
        low, high = np.quantile(total, [0.05, 0.95])
        print(
            f"{name:22s}{f'{X.shape[0]:,} x {X.shape[1]:,}':>16s}{f'{low:,.0f}-{high:,.0f}':>12s}"
            f"{chosen[0]:>12,d}{chosen[1]:>8,d}{chosen[2]:>8,d}",
            flush=True,
        )


if __name__ == "__main__":
    main()
