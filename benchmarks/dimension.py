# ruff: noqa: E501
"""How often each rule finds the number of components: python -m benchmarks.dimension

On the simulators of the papers, 50 draws each; writes docs/number_of_components.md. The last
column is `GSPPCA(n_components="auto")`, which counts on the columns that share structure.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from prosparse import GSPPCA
from prosparse.datasets import make_globally_sparse, make_sparse_projection
from prosparse.selection.dimension import (
    bic_count,
    count_signals,
    hard_threshold_count,
    minka_count,
    parallel_count,
    variational_count,
)

RULES = {
    "count_signals": count_signals,
    "variational": variational_count,
    "Minka": minka_count,
    "BIC": bic_count,
    "hard threshold": hard_threshold_count,
}

TEXT = """# How many components?

`n_components="auto"` of `SCA`, `SPPCA` and `EMPCA` counts the eigenvalues that stand out from white
noise (Kritchman & Nadler 2008, `prosparse.selection.dimension.count_signals`). `FDRPCA` and `GSPPCA`
look for the columns that share structure first, and count on these, each measured in its own noise
(`prosparse.structure.search.count_components`): on real tables, whose columns have noise of
different size, nearly every eigenvalue stands out from white noise. Five other rules stand beside it in
`prosparse.selection.dimension`; all take the eigenvalues of X'X of a centred table.

| rule | what it maximises or tests | where it fails |
|---|---|---|
| `count_signals` (default) | next eigenvalue against the law of the largest one of noise, level 0.1 % | columns on different scales, correlated noise: too many; signals that hardly stand out of n < p noise: too few |
| `variational_count` | variational bound with one relevance (ARD) per component, exact maximum (Nakajima et al. 2015) | few samples: too few |
| `minka_count` | Laplace approximation of the evidence of PPCA (Minka 2000), also for n < p | few samples: too few |
| `bic_count` | BIC of PPCA | p in the order of n: too few, or up to the rank |
| `hard_threshold_count` | error of the rebuilt table (Gavish & Donoho 2014) | weak components are left out; signals in half of all directions |
| `parallel_count` | independent columns with the same variances (parallel analysis) | structure that raises the variance of its columns, as in the tables below: far too few |

Share of {draws} draws (seeds {first} to {last}) in which the number is exactly right, and the median
number in brackets. Written by `python -m benchmarks.dimension`.

"""


def settings() -> list[tuple[str, int, dict[str, object]]]:
    """Name, true number of components, and how to draw."""
    rows: list[tuple[str, int, dict[str, object]]] = []
    for n in (40, 50, 66, 100, 200):
        rows.append(
            (
                f"E4: {n} x 200, d 10, 20 active, noise 1",
                10,
                {"n_samples": n, "n_features": 200, "n_informative": 20, "noise": 1.0},
            )
        )
    for n, p in ((50, 150), (100, 100)):
        for noise in (0.05, 0.25, 0.5, 1.0):
            rows.append(
                (
                    f"E2: {n} x {p}, d 10, 20 active, noise {noise:g}",
                    10,
                    {"n_samples": n, "n_features": p, "n_informative": 20, "noise": noise},
                )
            )
    return rows


def answers(X: np.ndarray, seed: int) -> list[int]:
    centred = X - X.mean(axis=0)
    n, p = X.shape
    values = np.linalg.svd(centred, compute_uv=False)[: min(n - 1, p)] ** 2
    found = [rule(values, n, p) for rule in RULES.values()]
    return [*found, parallel_count(values, n, np.sum(centred**2, axis=0), seed)]


def main(draws: int, first: int, output: Path) -> None:
    header = ["setting", *RULES, "parallel", "GSPPCA auto"]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    seeds = range(first, first + draws)
    for name, d, options in settings():
        found = []
        for seed in seeds:
            X = make_globally_sparse(n_components=d, random_state=seed, **options).X
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                auto = GSPPCA().fit(X).n_components_
            found.append([*answers(X, seed), auto])
        lines.append(_row(name, np.array(found), d))
    for n in (100, 200, 400):
        found = [answers(make_sparse_projection(n, random_state=seed).X, seed) for seed in seeds]
        lines.append(_row(f"E9: {n} x 10, 4 components", np.array(found), 4))
    text = TEXT.format(draws=draws, first=first, last=first + draws - 1)
    output.write_text(text + "\n".join(lines) + "\n")
    print("\n".join(lines))


def _row(name: str, found: np.ndarray, d: int) -> str:
    cells = [f"{np.mean(column == d):.0%} ({np.median(column):g})" for column in found.T]
    cells += ["-"] * (7 - len(cells))
    return "| " + " | ".join([name, *cells]) + " |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--first-seed", type=int, default=2000)
    parser.add_argument("--output", type=Path, default=Path("docs/number_of_components.md"))
    options = parser.parse_args()
    with threadpool_limits(1):
        main(options.draws, options.first_seed, options.output)
