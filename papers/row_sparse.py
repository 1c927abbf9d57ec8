"""E27: row-sparse PCA, compared with VBsparsePCA.

VBsparsePCA (Ning, Ning & Tian, R package, version 0.1.0) is variational PCA with a spike-and-slab
prior on the rows of the loadings. It is given the number of components, without scaling. Its
results on the same simulated datasets are typed from a run of the R package.

Further parts apply GSPPCA to the designs of E4 and E17 and to real tables without structure, and
compare inclusion probabilities with the proportions of true variables.

Each dataset is one call of a function. joblib runs the calls, in parallel within
``joblib.parallel_config(n_jobs=8)``.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.parallel import Parallel, delayed

from prosparse.errors import FewVariablesWarning, NoStructureWarning
from prosparse.metrics import support_f_score
from prosparse.models.gsppca import GSPPCA

from .base import Claim, Experiment, Result, Row, claim_at_least, mean_row, seed_range
from .data import Data
from .simulations import D, simulate
from .structure import CASES, FIRST_SEED, SIZES, load_case, simulate_unequal

Array = np.ndarray

N_DRAWS, N_FACTOR_DRAWS, N_WEAK_DRAWS = 20, 50, 2000
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


class Selection(NamedTuple):
    """Result of one fit."""

    selected: Array  # (p,) mask
    probability: Array  # (p,) inclusion probabilities
    components: Array  # (d, p)
    warned: bool  # whether a warning about missing structure was issued


def fit(X: Any, n_components: Any, **options: Any) -> Selection:
    """Fit GSPPCA and record its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = GSPPCA(n_components, **options).fit(X)
    kinds = NoStructureWarning, FewVariablesWarning
    warned = any(issubclass(w.category, kinds) for w in caught)
    return Selection(model.support_, model.inclusion_probability_, model.components_, warned)


class Probabilities(NamedTuple):
    """Inclusion probabilities, and whether the variables are true."""

    probability: Array
    truth: Array


def bin_probabilities(pairs: list[Probabilities]) -> list[tuple[float, float, int]]:
    """Return the mean probability, the proportion of true variables and their number."""
    probability, truth = map(np.concatenate, zip(*pairs, strict=True))
    index = np.minimum((N_BINS * probability).astype(int), N_BINS - 1)
    return [
        (float(probability[i].mean()), float(truth[i].mean()), int(i.sum()))
        for i in (index == k for k in range(N_BINS))
        if i.any()
    ]


# --- parts


class DesignScore(NamedTuple):
    """Accuracy of GSPPCA on one dataset."""

    refined: tuple[float, ...]  # MEASURES
    unrefined: tuple[float, ...]  # the same with refine=False
    probabilities: Probabilities


def score_design(name: str, draw: int) -> DesignScore:
    """Fit GSPPCA to one dataset on which VBsparsePCA was run."""
    X, U = simulate_design(name, draw)
    truth = np.any(U != 0, axis=1)

    def measure(found: Selection) -> tuple[float, ...]:
        selected = found.selected
        power = float((selected & truth).sum() / truth.sum())
        false = float((selected & ~truth).sum() / max(1, selected.sum()))
        return power, false, subspace_error(found.components, U)

    refined, unrefined = (fit(X, U.shape[1], refine=refine) for refine in (True, False))
    probabilities = Probabilities(refined.probability, truth)
    return DesignScore(measure(refined), measure(unrefined), probabilities)


def compare_designs(draws: int, pairs: list[Probabilities]) -> tuple[list[Row], list[Claim]]:
    """Compare with VBsparsePCA on its simulation and four variants."""
    calls = [(name, draw) for name in DESIGNS for draw in range(draws)]
    scores: list[DesignScore] = Parallel()(delayed(score_design)(*call) for call in calls)
    pairs += [score.probabilities for score in scores]
    rows: list[Row] = []
    means = {}
    for index, name in enumerate(DESIGNS):
        part = scores[index * draws : (index + 1) * draws]
        refined = np.array([score.refined for score in part])
        unrefined = np.array([score.unrefined for score in part])
        for k, measure in enumerate(MEASURES):
            published = VBSPARSEPCA[name][k]
            rows.append(mean_row(f"{name}, GSPPCA: {measure}", refined[:, k], published))
        for k, measure in enumerate(MEASURES):
            rows.append(mean_row(f"{name}, GSPPCA, refine=False: {measure}", unrefined[:, k]))
        means[name] = np.mean(refined, axis=0)
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


def score_factors(simulation: str, n: int, seed: int) -> tuple[float, Probabilities]:
    """Return the F-score of GSPPCA with d given, and its inclusion probabilities."""
    if simulation == "E4":
        X, truth, _ = simulate(n, 200, 1.0, seed)
    else:
        X, truth = simulate_unequal(n, FIRST_SEED + seed, simulation == "E17, lognormal noise")
    found = fit(X, D, scale=simulation != "E4")
    score = float(support_f_score(truth, found.selected))
    return score, Probabilities(found.probability, truth)


def compare_unit_variance(
    draws: int, sizes: tuple[int, ...], pairs: list[Probabilities]
) -> tuple[list[Row], list[Claim]]:
    """Apply GSPPCA with d given to E4 and to E17."""
    simulations = ("E4", "E17, unit variance", "E17, lognormal noise")
    calls = [(name, n, seed) for n in sizes for name in simulations for seed in range(draws)]
    scores: list[tuple[float, Probabilities]] = Parallel()(
        delayed(score_factors)(*call) for call in calls
    )
    pairs += [pair for _, pair in scores]
    F = np.array([score for score, _ in scores]).reshape(len(sizes), len(simulations), draws)
    rows, low_e4, low_e17 = [], [], []
    for n, of_size in zip(sizes, F, strict=True):
        for name, values in zip(simulations, of_size, strict=True):
            published, note = (PUBLISHED_E4[n], "refine=False") if name == "E4" else (None, "")
            rows.append(mean_row(f"{name}, n = {n}: F-score", values, published, note))
        low_e4.append(float(of_size[0].mean()) - PUBLISHED_E4[n])
        low_e17.append(float(of_size[1].mean()) - MIN_E17[n])
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


class NullScore(NamedTuple):
    """Result on a table without structure."""

    kind: str
    n_selected: int
    warned: bool
    excess: str  # description if too many variables are selected, otherwise empty


def score_nulls(name: str, data: Data) -> list[NullScore]:
    """Apply GSPPCA to one real table whose columns were made uncorrelated."""
    rng = np.random.default_rng(27)
    X = sample_table(load_case(CASES[name], data), rng)
    mean, p = X.mean(axis=0), X.shape[1]
    nulls = {
        "permuted columns": rng.permuted(X, axis=0),
        "random signs": mean + (X - mean) * rng.choice([-1.0, 1.0], X.shape),
    }
    scores = []
    for kind, Z in nulls.items():
        for scale in (False, True):
            found = fit(Z, 1, scale=scale)
            count = int(found.selected.sum())
            is_excess = count > max(MIN_SELECTED, MAX_PROPORTION * p)
            excess = f"{name}, {kind}: {count} of {p}" if is_excess else ""
            scores.append(NullScore(kind, count, found.warned, excess))
    return scores


def null_tables(quick: bool, data: Data) -> tuple[list[Row], list[Claim]]:
    """Apply GSPPCA to real tables whose columns were made uncorrelated."""
    names = list(CASES)[:2] if quick else list(CASES)
    parts: list[list[NullScore]] = Parallel()(delayed(score_nulls)(name, data) for name in names)
    scores = [score for part in parts for score in part]
    counts: dict[str, list[int]] = {}
    for score in scores:
        counts.setdefault(score.kind, []).append(score.n_selected)
    n_silent = sum(not score.warned for score in scores)
    excess = [score.excess for score in scores if score.excess]
    rows = [mean_row(f"{kind}: selected variables", values) for kind, values in counts.items()]
    rows.append(Row("fits to these tables without a warning", float(n_silent)))
    claim = Claim(
        "real tables with permuted columns or random signs: at most 1 % of the variables, or 2, "
        "are selected, with a warning",
        not excess and n_silent == 0,
        f"{len(scores)} fits; {n_silent} without a warning; "
        f"{'; '.join(excess) or 'none selects more'}",
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


def score_weak(draw: int) -> Probabilities:
    """Return inclusion probabilities of one dataset with weak loadings."""
    X, truth = simulate_weak(draw)
    return Probabilities(fit(X, 2).probability, truth)


def check_calibration(
    draws: int, pairs: list[Probabilities], quick: bool
) -> tuple[list[Row], list[Claim]]:
    """Compare inclusion probabilities with proportions of true variables in ten bins."""
    pairs = pairs + Parallel()(delayed(score_weak)(draw) for draw in range(draws))
    rows, excess = [], []
    for mean, proportion, count in bin_probabilities(pairs):
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
    pairs: list[Probabilities] = []
    parts = [
        compare_designs(draws, pairs),
        compare_unit_variance(2 if quick else N_FACTOR_DRAWS, sizes, pairs),
        null_tables(quick, data),
        check_calibration(4 if quick else N_WEAK_DRAWS, pairs, quick),
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
