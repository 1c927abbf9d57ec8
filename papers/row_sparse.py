"""E27: row-sparse PCA, compared with VBsparsePCA.

VBsparsePCA (Ning, Ning & Tian, R package, version 0.1.0) is variational PCA with a spike-and-slab
prior on the rows of the loadings. It is given the number of components, without scaling. Its
results on the same simulated datasets are typed from a run of the R package.

Further parts apply GSPPCA to the designs of E4 and E17 and to real tables without structure, and
compare inclusion probabilities with the proportions of true variables.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from prosparse.errors import FewVariablesWarning, NoStructureWarning
from prosparse.metrics import support_f_score
from prosparse.models.gsppca import GSPPCA

from .base import Claim, Experiment, Result, Row, claim_at_least, mean_row, seed_range
from .data import Data
from .simulations import D, simulate
from .structure import CASES, FIRST_SEED, SIZES, load_case, simulate_unequal

Array = np.ndarray

N_DRAWS, N_FACTOR_DRAWS, N_WEAK_DRAWS = 20, 50, 200
MAX_FALSE = 0.05
# Maximum numbers of variables selected without structure; the minimum for one component is 2.
MAX_PROPORTION, MIN_SELECTED = 0.01, 2
MAX_CALIBRATION_ERROR = 0.05
N_BINS = 10
MAX_NULL_ROWS, MAX_NULL_COLUMNS = 300, 800


class Design(NamedTuple):
    """Eigenvalues and noise of a simulation."""

    n_true: int
    noise_variance: float
    eigenvalues: tuple[float, ...]
    unequal: bool = False  # noise standard deviations log-uniform between 0.4 and 2.5 times


DESIGNS = {
    "help page": Design(20, 0.1, (20.0, 10.0)),
    "noise 1": Design(20, 1.0, (20.0, 10.0)),
    "weak": Design(20, 1.0, (6.0, 4.0)),
    "rank 5": Design(70, 0.1, (20.0, 17.5, 15.0, 12.5, 10.0)),
    "unequal noise": Design(20, 0.1, (20.0, 10.0), True),
}
VBSPARSEPCA = {  # mean power, false discovery proportion and subspace error over draws 0 to 19
    "help page": (0.995, 0.0, 0.038965),
    "noise 1": (0.9175, 0.0, 0.1533),
    "weak": (0.71, 0.0, 0.377415),
    "rank 5": (1.0, 0.0, 0.110205),
    "unequal noise": (0.97, 0.085795, 0.083925),
}
MEASURES = ("power", "false discovery proportion", "subspace error")
PUBLISHED_E4 = {40: 0.9969, 66: 0.9974, 100: 0.9969, 200: 0.999}  # the method of the papers
MIN_E17 = {40: 0.95, 66: 0.97, 100: 0.97, 200: 0.98}


def simulate_design(name: str, draw: int, n: int = 200, p: int = 1000) -> tuple[Array, Array]:
    """Simulate a dataset on which VBsparsePCA was run, and its orthonormal loadings."""
    design = DESIGNS[name]
    rng = np.random.default_rng([2, draw, list(DESIGNS).index(name)])
    d, s = len(design.eigenvalues), design.n_true
    U = np.zeros((p, d))
    U[:s] = np.linalg.qr(rng.standard_normal((s, s)))[0][:, :d]
    noise = np.full(p, np.sqrt(design.noise_variance))
    if design.unequal:
        noise = noise * np.exp(rng.uniform(np.log(0.4), np.log(2.5), p))
    scores = rng.standard_normal((n, d)) * np.sqrt(design.eigenvalues)
    return scores @ U.T + noise * rng.standard_normal((n, p)), U


def subspace_error(components: Array, U: Array) -> float:
    """Return the distance |P - P'|_F / sqrt(2) of the spans of components (d, p) and U (p, d)."""
    Q = components.T
    return float(np.linalg.norm(Q @ Q.T - U @ U.T) / np.sqrt(2.0))


class Fit(NamedTuple):
    """Selection and inclusion probabilities of one fit."""

    model: GSPPCA
    warned: bool  # whether a warning about missing structure was issued


def fit(X: Any, n_components: Any, **options: Any) -> Fit:
    """Fit GSPPCA and record its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = GSPPCA(n_components, **options).fit(X)
    kinds = NoStructureWarning, FewVariablesWarning
    return Fit(model, any(issubclass(w.category, kinds) for w in caught))


class Calibration:
    """Inclusion probabilities and the variables that are true."""

    def __init__(self) -> None:
        self.probabilities: list[Array] = []
        self.truths: list[Array] = []

    def add(self, model: GSPPCA, truth: Array) -> None:
        """Add the probabilities of one fit."""
        self.probabilities.append(np.asarray(model.inclusion_probability_))
        self.truths.append(truth)

    def bins(self) -> list[tuple[float, float, int]]:
        """Return the mean probability, the proportion of true variables and their number."""
        probability, truth = np.concatenate(self.probabilities), np.concatenate(self.truths)
        index = np.minimum((N_BINS * probability).astype(int), N_BINS - 1)
        return [
            (float(probability[i].mean()), float(truth[i].mean()), int(i.sum()))
            for i in (index == k for k in range(N_BINS))
            if i.any()
        ]


# --- parts


def compare_designs(draws: int, calibration: Calibration) -> tuple[list[Row], list[Claim]]:
    """Compare with VBsparsePCA on its simulation and four variants."""
    rows: list[Row] = []
    means = {}
    for name, design in DESIGNS.items():
        d = len(design.eigenvalues)
        variants = {"GSPPCA": True, "GSPPCA, refine=False": False}
        values: dict[str, list[tuple[float, ...]]] = {variant: [] for variant in variants}
        for draw in range(draws):
            X, U = simulate_design(name, draw)
            truth = np.any(U != 0, axis=1)
            for variant, refine in variants.items():
                model = fit(X, d, refine=refine).model
                found = model.support_
                values[variant].append(
                    (
                        float((found & truth).sum() / truth.sum()),
                        float((found & ~truth).sum() / max(1, found.sum())),
                        subspace_error(model.components_, U),
                    )
                )
                if refine:
                    calibration.add(model, truth)
        for variant, scores in values.items():
            for k, measure in enumerate(MEASURES):
                column = np.array(scores)[:, k]
                published = VBSPARSEPCA[name][k] if variant == "GSPPCA" else None
                rows.append(mean_row(f"{name}, {variant}: {measure}", column, published))
        means[name] = np.mean(values["GSPPCA"], axis=0)
    ours = np.array([means[name] for name in DESIGNS])
    theirs = np.array([VBSPARSEPCA[name] for name in DESIGNS])
    ratio = ours[:, 2] / theirs[:, 2]
    claims = [
        claim_at_least(
            "power of GSPPCA at least that of VBsparsePCA minus 0.01 in every design",
            ours[:, 0],
            theirs[:, 0],
            0.01,
        ),
        Claim(
            "subspace error of GSPPCA at most 1.05 times that of VBsparsePCA in every design",
            bool(np.all(ratio <= 1.05)),
            f"largest ratio {ratio.max():.3g}",
        ),
        Claim(
            f"false discovery proportion of GSPPCA at most {MAX_FALSE:g} in every design",
            bool(np.all(ours[:, 1] <= MAX_FALSE)),
            f"largest {ours[:, 1].max():.3g}",
        ),
    ]
    return rows, claims


def compare_unit_variance(
    draws: int, sizes: tuple[int, ...], calibration: Calibration
) -> tuple[list[Row], list[Claim]]:
    """Apply GSPPCA with d given to E4 and to E17."""
    rows, low_e4, low_e17 = [], [], []
    for n in sizes:
        F_e4 = []
        for seed in range(draws):
            X, support, _ = simulate(n, 200, 1.0, seed)
            model = fit(X, D).model
            F_e4.append(support_f_score(support, model.support_))
            calibration.add(model, support)
        rows.append(
            mean_row(f"E4, n = {n}: F-score", F_e4, PUBLISHED_E4[n], "published: refine=False")
        )
        low_e4.append(float(np.mean(F_e4)) - PUBLISHED_E4[n])
        for lognormal in (False, True):
            F = []
            for seed in range(draws):
                X, support = simulate_unequal(n, FIRST_SEED + seed, lognormal)
                model = fit(X, D, scale=True).model
                F.append(support_f_score(support, model.support_))
                calibration.add(model, support)
            noise = "lognormal noise" if lognormal else "unit variance"
            rows.append(mean_row(f"E17, {noise}, n = {n}: F-score", F))
            if not lognormal:
                low_e17.append(float(np.mean(F)) - MIN_E17[n])
    listed = ", ".join(f"{MIN_E17[n]:g}" for n in sizes)
    claims = [
        Claim(
            "E4: the F-score is at least that of the method of the papers",
            min(low_e4) >= 0.0,
            f"smallest difference {min(low_e4):+.4f}",
        ),
        Claim(
            f"E17, unit variance, d given: F-scores of at least {listed} at n = "
            f"{', '.join(map(str, sizes))}",
            min(low_e17) >= 0.0,
            f"smallest difference {min(low_e17):+.3f}",
        ),
    ]
    return rows, claims


def sample_table(X: Any, rng: np.random.Generator) -> Array:
    """Return random rows and columns of a table, without constant columns."""
    rows = rng.permutation(X.shape[0])[:MAX_NULL_ROWS]
    columns = rng.permutation(X.shape[1])[:MAX_NULL_COLUMNS]
    part = X[rows][:, columns]
    table = np.asarray(part.toarray() if sparse.issparse(part) else part, dtype=float)
    return table[:, np.ptp(table, axis=0) > 0.0]


def null_tables(quick: bool, data: Data) -> tuple[list[Row], list[Claim]]:
    """Apply GSPPCA to real tables whose columns were made uncorrelated."""
    counts: dict[str, list[int]] = {"permuted columns": [], "random signs": []}
    n_silent, excess = 0, []
    for name in list(CASES)[:2] if quick else list(CASES):
        rng = np.random.default_rng(27)
        X = sample_table(load_case(CASES[name], data), rng)
        mean = X.mean(axis=0)
        nulls = {
            "permuted columns": rng.permuted(X, axis=0),
            "random signs": mean + (X - mean) * rng.choice([-1.0, 1.0], X.shape),
        }
        for kind, Z in nulls.items():
            for scale in (False, True):
                found = fit(Z, 1, scale=scale)
                counts[kind].append(found.model.n_selected_)
                n_silent += not found.warned
                limit = max(MIN_SELECTED, MAX_PROPORTION * X.shape[1])
                if found.model.n_selected_ > limit:
                    excess.append(f"{name}, {kind}: {found.model.n_selected_} of {X.shape[1]}")
    rows = [mean_row(f"{kind}: selected variables", values) for kind, values in counts.items()]
    rows.append(Row("fits to these tables without a warning", float(n_silent)))
    n_fits = sum(len(values) for values in counts.values())
    claim = Claim(
        "real tables with permuted columns or random signs: at most 1 % of the variables, or 2, "
        "are selected, with a warning",
        not excess and n_silent == 0,
        f"{n_fits} fits; {n_silent} without a warning; {'; '.join(excess) or 'none selects more'}",
    )
    return rows, [claim]


def simulate_weak(draw: int, n: int = 100, p: int = 200) -> tuple[Array, Array]:
    """Simulate two components of 20 variables, many of whose loadings are small.

    The noise variances of every second dataset are unequal.
    """
    rng = np.random.default_rng([27, FIRST_SEED + draw])
    scale = np.where(np.arange(p) < 20, np.exp(rng.uniform(np.log(0.1), np.log(1.5), p)), 0.0)
    W = rng.standard_normal((p, 2)) * scale[:, None]
    noise = np.exp(rng.uniform(np.log(0.4), np.log(2.5), p)) if draw % 2 else np.ones(p)
    X = noise * (rng.standard_normal((n, 2)) @ W.T + rng.standard_normal((n, p)))
    return X, scale > 0.0


def check_calibration(
    draws: int, calibration: Calibration, quick: bool
) -> tuple[list[Row], list[Claim]]:
    """Compare inclusion probabilities with proportions of true variables in ten bins."""
    for draw in range(draws):
        X, truth = simulate_weak(draw)
        calibration.add(fit(X, 2).model, truth)
    rows, excess = [], []
    for mean, proportion, count in calibration.bins():
        error = np.sqrt(max(proportion * (1.0 - proportion), 0.25 / count) / count)
        note = f"{count} variables, mean probability {mean:.3f}"
        low = np.floor(N_BINS * min(mean, 1.0 - 1e-12)) / N_BINS
        title = f"inclusion probability {low:.1f} to {low + 0.1:.1f}: proportion of true variables"
        rows.append(Row(title, proportion, float(error), note=note))
        excess.append(abs(mean - proportion))
    claim = Claim(
        f"inclusion probabilities differ by at most {MAX_CALIBRATION_ERROR:g} from the proportion "
        "of true variables in ten bins",
        quick or max(excess) <= MAX_CALIBRATION_ERROR,
        f"largest difference {max(excess):.3f}",
    )
    return rows, [claim]


def run(quick: bool, data: Data, output: Path) -> Result:
    """Run E27."""
    draws, sizes = (2, (100,)) if quick else (N_DRAWS, SIZES)
    calibration = Calibration()
    parts = [
        compare_designs(draws, calibration),
        compare_unit_variance(2 if quick else N_FACTOR_DRAWS, sizes, calibration),
        null_tables(quick, data),
        check_calibration(4 if quick else N_WEAK_DRAWS, calibration, quick),
    ]
    rows = [row for part in parts for row in part[0]]
    claims = [claim for part in parts for claim in part[1]]
    remarks = (
        "Published: VBsparsePCA 0.1.0 on the same datasets (200 x 1000), given the number of "
        "components. GSPPCA is given it as well. "
        "refine=False is the method of the papers. E4 and E17 (200 columns, 20 of them true): the "
        "ten components are given. Real tables: at most 300 rows and 800 columns of each dataset "
        "of E18, with and without scale=True, one component. Inclusion probabilities: all "
        "simulated datasets with the number of components given, and "
        f"{N_WEAK_DRAWS} of 100 x 200 with two components, in which many loadings are small."
    )
    seeds = f"{seed_range(draws)}; E17: from {FIRST_SEED}"
    return Result(rows, claims, [], seeds, remarks)


EXPERIMENTS = (
    Experiment(
        "E27",
        "Row-sparse PCA",
        "Ning, Ning & Tian, R package VBsparsePCA",
        tuple(dict.fromkeys(case.source for case in CASES.values())),
        run,
    ),
)
