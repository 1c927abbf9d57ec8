"""E26: sparse factor analysis, compared with flashier, SuSiE-PCA and FactorAnalysis.

flashier (R package, version 1.0.60) is empirical Bayes matrix factorisation. It ran with
point-normal priors and was given the structure of the noise. Its results on the same simulated
datasets, and those of SuSiE-PCA on its own simulation, are typed from runs of these programs.

Further parts measure held-out entries of z-scores (GTEx), held-out log-likelihoods of real tables
compared with factor analysis tuned by cross-validation, and the calibration of local false sign
rates.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.decomposition import FactorAnalysis
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils.parallel import Parallel, delayed

from prosparse.models.sca import SCA

from .base import Claim, Experiment, Result, Row, mean_row, seed_range
from .data import Data

Array = np.ndarray

N_DRAWS, N_MASKS, N_SUSIE_DRAWS = 10, 5, 3
N_FACTORS = 5
OPTIONS = {"prior": "point-normal", "noise": "learned"}
N_BINS, MAX_CALIBRATION_ERROR = 10, 0.05
STRENGTHS, NOISES, MISSING = ("strong", "weak"), ("equal", "column"), (0.0, 0.1, 0.3)
CELLS = [(strength, noise, m) for strength in STRENGTHS for noise in NOISES for m in MISSING]
# flashier, means over draws 0 to 9: relative squared error of the signal, proportion of draws with
# five factors, F-score of non-zero loadings.
FLASHIER = {
    ("strong", "equal", 0.0): (0.03188, 1.0, 0.88437),
    ("strong", "equal", 0.1): (0.03857, 1.0, 0.87721),
    ("strong", "equal", 0.3): (0.05342, 1.0, 0.85715),
    ("strong", "column", 0.0): (0.02433, 1.0, 0.89015),
    ("strong", "column", 0.1): (0.02929, 1.0, 0.88335),
    ("strong", "column", 0.3): (0.04025, 1.0, 0.87432),
    ("weak", "equal", 0.0): (0.20646, 1.0, 0.71393),
    ("weak", "equal", 0.1): (0.24924, 1.0, 0.69558),
    ("weak", "equal", 0.3): (0.35310, 0.8, 0.62935),
    ("weak", "column", 0.0): (0.16009, 0.9, 0.76570),
    ("weak", "column", 0.1): (0.19319, 0.8, 0.74056),
    ("weak", "column", 0.3): (0.29073, 0.6, 0.68195),
}
FLASHIER_GTEX = 1.4833  # root mean squared error of hidden entries, one noise variance per column
GTEX_KEY = 4  # of the random masks


def simulate_factors(
    strength: str, noise: str, missing: float, draw: int, n: int = 200, p: int = 300
) -> tuple[Array, Array, Array]:
    """Simulate data with NaN for missing values; return them, the signal and the loadings (p, K).

    The squared singular values of the factors are multiples of the largest squared singular value
    of noise, from 4 to 12 (strong) or from 0.7 to 2 (weak).
    """
    rng = np.random.default_rng([1, draw, STRENGTHS.index(strength), NOISES.index(noise)])
    Z = rng.standard_normal((n, N_FACTORS)) * (rng.random((n, N_FACTORS)) < 0.3)
    W = rng.standard_normal((p, N_FACTORS)) * (rng.random((p, N_FACTORS)) < 0.15)
    edge = (np.sqrt(n) + np.sqrt(p)) ** 2
    ends = (4.0, 12.0) if strength == "strong" else (0.7, 2.0)
    size = np.sqrt(np.geomspace(*ends, N_FACTORS) * edge)
    W = W * size / (np.linalg.norm(Z, axis=0) * np.linalg.norm(W, axis=0))
    sd = np.ones(p) if noise == "equal" else np.exp(rng.uniform(np.log(0.4), np.log(2.5), p))
    sd = sd / np.sqrt(np.mean(sd**2))
    Y = Z @ W.T + sd * rng.standard_normal((n, p))
    hidden = rng.random((n, p)) < missing
    return np.where(hidden, np.nan, Y), Z @ W.T, W


def signal_error(fitted: Array, signal: Array, X: Array) -> float:
    """Return the relative squared error of the signal, on missing entries if there are any."""
    where = np.isnan(X) if np.isnan(X).any() else np.ones(X.shape, dtype=bool)
    centred = signal - signal.mean(axis=0)
    return float(((fitted - signal)[where] ** 2).sum() / (centred[where] ** 2).sum())


def match_factors(components: Array, W: Array) -> tuple[Array, Array]:
    """Match components (k, p) with true loadings (p, K) by absolute correlation."""

    def unit(A: Array) -> Array:
        return A / np.maximum(np.linalg.norm(A, axis=0), 1e-12)

    return linear_sum_assignment(-np.abs(unit(components.T).T @ unit(W)))


def loadings_f_score(components: Array, W: Array) -> float:
    """Return the F-score of the non-zero loadings of matched factors."""
    nonzero = components.T != 0
    pairs = zip(*match_factors(components, W), strict=True)
    hits = sum(int((nonzero[:, a] & (W[:, b] != 0)).sum()) for a, b in pairs)
    return 2.0 * hits / max(1, int(nonzero.sum()) + int((W != 0).sum()))


def simulate_susie(design: str, draw: int) -> tuple[Array, Array]:
    """Simulate the designs of SuSiE-PCA: four factors, each with 40 effects on its own variables.

    Returns the data and the loadings (p, 4).
    """
    n, p, effect = (250, 1000, 0.4) if design == "small effects" else (1000, 6000, 1.0)
    rng = np.random.default_rng([26, draw, SUSIE_DESIGNS.index(design)])
    W = np.zeros((p, 4))
    for k in range(4):
        W[40 * k : 40 * (k + 1), k] = effect * rng.standard_normal(40)
    sd = np.ones(p)
    if design == "unequal noise":
        sd = np.exp(rng.uniform(np.log(0.4), np.log(2.5), p))
        sd /= np.sqrt(np.mean(sd**2))
    return rng.standard_normal((n, 4)) @ W.T + sd * rng.standard_normal((n, p)), W


SUSIE_DESIGNS = ("equal noise", "unequal noise", "small effects")
SUSIE = {"equal noise": 0.0021, "unequal noise": 0.0066, "small effects": 0.177}


def procrustes_error(components: Array, W: Array) -> float:
    """Return the squared Procrustes distance of unit-norm loadings (k, p) and (p, K)."""
    A, B = np.zeros((2, W.shape[0], max(W.shape[1], components.shape[0])))
    A[:, : components.shape[0]], B[:, : W.shape[1]] = components.T, W
    A, B = A / max(np.linalg.norm(A), 1e-300), B / np.linalg.norm(B)
    return float(1.0 - np.linalg.svd(A.T @ B, compute_uv=False).sum() ** 2)


# --- parts


class CellScore(NamedTuple):
    """Accuracy on one dataset."""

    error: float
    n_factors: int
    f_score: float
    lfsr: Array  # of all loadings of matched factors
    wrong_sign: Array


def fit(X: Any, **options: Any) -> SCA:
    """Fit SCA without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SCA(**{**OPTIONS, **options}).fit(X)


def score_cell(strength: str, noise: str, missing: float, draw: int, **options: Any) -> CellScore:
    """Fit SCA to one dataset on which flashier was run."""
    X, signal, W = simulate_factors(strength, noise, missing, draw)
    model = fit(X, **options)
    fitted = model.inverse_transform(model.transform(X))
    lfsr, wrong = loading_signs(model, W)
    return CellScore(
        signal_error(fitted, signal, X),
        model.n_components_ if model.n_selected_ else 0,
        loadings_f_score(model.components_, W),
        lfsr,
        wrong,
    )


def loading_signs(model: SCA, W: Array) -> tuple[Array, Array]:
    """Return the local false sign rates of matched factors, and which signs are wrong."""
    if not hasattr(model, "loadings_lfsr_"):
        return np.empty(0), np.empty(0, dtype=bool)
    found, true = match_factors(model.components_, W)
    sign = np.sign(model.loadings_mean_[found])
    inner = np.sum(model.loadings_mean_[found] * W.T[true], axis=1)
    wrong = sign * np.sign(inner)[:, None] != np.sign(W.T[true])
    return model.loadings_lfsr_[found].ravel(), wrong.ravel()


def compare_cells(draws: int, cells: list[tuple[str, str, float]]) -> tuple[list[Row], list[Claim]]:
    """Compare with flashier on twelve designs."""
    calls = [(*cell, draw) for cell in cells for draw in range(draws)]
    scores: list[CellScore] = Parallel()(delayed(score_cell)(*call) for call in calls)
    rows, ours = [], []
    for index, cell in enumerate(cells):
        part = scores[index * draws : (index + 1) * draws]
        title = f"{cell[0]} factors, {cell[1]} noise, {100 * cell[2]:.0f} % missing"
        measures = np.array([(s.error, s.n_factors == N_FACTORS, s.f_score) for s in part])
        names = ("relative signal error", "proportion with 5 factors", "F-score of loadings")
        for k, name in enumerate(names):
            rows.append(mean_row(f"{title}: {name}", measures[:, k], FLASHIER[cell][k]))
        ours.append(measures.mean(axis=0))
    found, theirs = np.array(ours), np.array([FLASHIER[cell] for cell in cells])
    better = found[:, 0] <= theirs[:, 0]
    means = [(found[:, k].mean(), theirs[:, k].mean()) for k in range(3)]
    claims = [
        Claim(
            "signal error at most that of flashier in five of six designs",
            bool(better.mean() >= 5 / 6),
            f"{better.sum()} of {better.size}",
        ),
        Claim(
            "signal error at most that of flashier on average",
            bool(means[0][0] <= means[0][1]),
            f"{means[0][0]:.4f}, flashier {means[0][1]:.4f}",
        ),
        Claim(
            "the number of factors is correct at least as often as with flashier",
            bool(means[1][0] >= means[1][1]),
            f"{means[1][0]:.3f}, flashier {means[1][1]:.3f}",
        ),
        Claim(
            "F-score of the loadings higher than that of flashier on average",
            bool(means[2][0] > means[2][1]),
            f"{means[2][0]:.3f}, flashier {means[2][1]:.3f}",
        ),
    ]
    calibration = calibrate_signs(scores)
    return rows + calibration[0], claims + calibration[1]


def calibrate_signs(scores: list[CellScore]) -> tuple[list[Row], list[Claim]]:
    """Compare local false sign rates with the proportion of wrong signs in ten bins."""
    lfsr = np.concatenate([score.lfsr for score in scores])
    wrong = np.concatenate([score.wrong_sign for score in scores])
    if not lfsr.size:
        return [], []
    index = np.minimum((N_BINS * lfsr).astype(int), N_BINS - 1)
    rows, errors = [], []
    for k in np.unique(index):
        members = index == k
        mean, proportion = float(lfsr[members].mean()), float(wrong[members].mean())
        title = f"local false sign rate {k / N_BINS:.1f} to {(k + 1) / N_BINS:.1f}"
        note = f"{members.sum()} loadings, mean rate {mean:.3f}"
        rows.append(Row(f"{title}: proportion of wrong signs", proportion, note=note))
        errors.append(abs(mean - proportion))
    claim = Claim(
        f"local false sign rates differ by at most {MAX_CALIBRATION_ERROR:g} from the proportion "
        "of wrong signs in ten bins",
        max(errors) <= MAX_CALIBRATION_ERROR,
        f"largest difference {max(errors):.3f}",
    )
    return rows, [claim]


def score_mask(X: Array, mask: int, **options: Any) -> float:
    """Return the root mean squared error of hidden entries."""
    hidden = np.random.default_rng([GTEX_KEY, mask]).random(X.shape) < 0.1
    model = fit(np.where(hidden, np.nan, X), **options)
    imputed = model.impute(np.where(hidden, np.nan, X))
    return float(np.sqrt(np.mean((imputed - X)[hidden] ** 2)))


def compare_z_scores(masks: int, data: Data, step: int = 1) -> tuple[list[Row], list[Claim]]:
    """Compare with flashier on hidden entries of the z-scores of GTEx."""
    X = np.asarray(data("gtex")["X"][::step], dtype=float)
    errors: list[float] = Parallel()(delayed(score_mask)(X, mask) for mask in range(masks))
    row = mean_row("GTEx z-scores: error of hidden entries", errors, FLASHIER_GTEX)
    claim = Claim(
        "GTEx z-scores: error of hidden entries at most that of flashier",
        row.ours <= FLASHIER_GTEX,
        f"{row.ours:.4f}, flashier {FLASHIER_GTEX}",
    )
    return [row], [claim]


def score_susie(design: str, draw: int) -> float:
    """Return the Procrustes error of one dataset."""
    X, W = simulate_susie(design, draw)
    return procrustes_error(fit(X).components_, W)


def compare_susie(draws: int) -> tuple[list[Row], list[Claim]]:
    """Compare with SuSiE-PCA on its own simulation."""
    calls = [(design, draw) for design in SUSIE_DESIGNS for draw in range(draws)]
    errors: list[float] = Parallel()(delayed(score_susie)(*call) for call in calls)
    parts = np.array(errors).reshape(len(SUSIE_DESIGNS), draws)
    rows, claims = [], []
    for design, values in zip(SUSIE_DESIGNS, parts, strict=True):
        title = f"SuSiE-PCA, {design}"
        rows.append(mean_row(f"{title}: Procrustes error", values, SUSIE[design]))
        claims.append(
            Claim(
                f"{title}: Procrustes error at most that of SuSiE-PCA",
                bool(values.mean() <= SUSIE[design]),
                f"{values.mean():.4f}, SuSiE-PCA {SUSIE[design]}",
            )
        )
    return rows, claims


def real_tables(data: Data) -> dict[str, Array]:
    """Return thirteen tables of standardised columns."""
    tcga, nutrimouse = data("tcga"), data("nutrimouse")
    digits = np.asarray(data("mfeat")["fac"], dtype=float)
    tables = {
        "diabetes": load_diabetes().data,
        "wine": load_wine().data,
        "breast cancer": load_breast_cancer().data,
        "TCGA mRNA": tcga["mrna_train"],
        "TCGA miRNA": tcga["mirna_train"],
        "TCGA protein": tcga["protein_train"],
        "nutrimouse genes": nutrimouse["gene"],
        "nutrimouse lipids": nutrimouse["lipid"],
        "urine": data("urine")["X"],
        "VDX": data("vdx")["X"],
        "colon": data("colon")["X"],
        "digits, profiles": digits[::5],
        "GTEx z-scores": data("gtex")["X"],
    }
    return {name: _largest_columns(np.asarray(X, dtype=float)) for name, X in tables.items()}


def _largest_columns(X: Array, most: int = 200) -> Array:
    """Return the standardised columns of largest variance."""
    X = X[:, ~np.isnan(X).any(axis=0)]
    X = X[:, X.std(axis=0) > 0]
    columns = np.sort(np.argsort(-X.var(axis=0), kind="stable")[:most])
    return (X[:, columns] - X[:, columns].mean(axis=0)) / X[:, columns].std(axis=0)


TABLE_METHODS = ("SCA", "SCA, noise per column", "SCA, noise per view", "FactorAnalysis")
TABLE_OPTIONS: dict[str, dict[str, str]] = {
    "SCA": {},
    "SCA, noise per column": {"noise": "feature"},
    "SCA, noise per view": {"noise": "view"},
}


def heldout_log_likelihood(X: Array, method: str) -> float:
    """Return the mean log density of held-out rows, in three folds."""
    values = []
    for train, test in KFold(3, shuffle=True, random_state=0).split(X):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if method == "FactorAnalysis":
                most = min(30, train.size - 2, X.shape[1] - 1)
                sizes = np.unique(np.round(np.geomspace(1, most, 8)).astype(int))
                model: Any = GridSearchCV(FactorAnalysis(), {"n_components": sizes.tolist()}, cv=3)
            else:
                model = SCA().set_params(**{**OPTIONS, **TABLE_OPTIONS[method]})
            values.append(float(model.fit(X[train]).score(X[test])))
    return float(np.mean(values))


def compare_tables(data: Data, names: list[str] | None = None) -> tuple[list[Row], list[Claim]]:
    """Compare held-out log-likelihoods of real tables."""
    tables = real_tables(data)
    tables = tables if names is None else {name: tables[name] for name in names}
    calls = [(X, method) for X in tables.values() for method in TABLE_METHODS]
    found: list[float] = Parallel()(delayed(heldout_log_likelihood)(*call) for call in calls)
    values = np.array(found).reshape(len(tables), len(TABLE_METHODS))
    rows = [
        Row(f"{name}, {method}: held-out log-likelihood", float(value))
        for name, of_table in zip(tables, values, strict=True)
        for method, value in zip(TABLE_METHODS, of_table, strict=True)
    ]
    wins = values[:, 0] > values[:, 3]
    lost = [name for name, won in zip(tables, wins, strict=True) if not won]
    close = values[:, 0] >= values[:, 1] - 1e-3 * np.abs(values[:, 1])
    below = [name for name, fine in zip(tables, close, strict=True) if not fine]
    claims = [
        Claim(
            "held-out log-likelihood higher than that of FactorAnalysis tuned by cross-validation "
            "on 11 of 13 tables",
            bool(wins.sum() >= 11 * len(tables) / 13),
            f"{wins.sum()} of {wins.size}; lower on {', '.join(lost) or 'none'}",
        ),
        Claim(
            "held-out log-likelihood at most 0.1 % below that with noise='feature' on all tables",
            not below,
            f"lower on {', '.join(below) or 'none'}",
        ),
    ]
    return rows, claims


def run(quick: bool, data: Data, output: Path) -> Result:
    """Run E26."""
    draws = 1 if quick else N_DRAWS
    parts = [
        compare_cells(draws, CELLS[::6] if quick else CELLS),
        compare_z_scores(1, data, 10) if quick else compare_z_scores(N_MASKS, data),
    ]
    if not quick:
        parts.append(compare_susie(N_SUSIE_DRAWS))
    parts.append(compare_tables(data, ["wine"] if quick else None))
    rows = [row for part in parts for row in part[0]]
    # A single draw is not sufficient.
    claims = [] if quick else [claim for part in parts for claim in part[1]]
    remarks = (
        "Published: flashier 1.0.60 on the same datasets (200 x 300, five factors, 30 % non-zero "
        "scores, 15 % non-zero loadings; errors of the signal on missing entries if there are "
        "any), with point-normal priors and the true structure of the noise. SuSiE-PCA: its code "
        "of January 2023 on other draws of the same designs, with the true number of factors. "
        "SCA has point-normal priors and learned noise variances everywhere."
    )
    return Result(rows, claims, [], seed_range(draws), remarks)


EXPERIMENTS = (
    Experiment(
        "E26",
        "Sparse factor analysis",
        "Wang & Stephens 2021, R package flashier; Yuan & Mancuso 2023, SuSiE-PCA",
        ("gtex", "tcga", "nutrimouse", "urine", "vdx", "colon", "mfeat"),
        run,
    ),
)
