"""E22: regression at every signal-to-noise ratio, after Hastie, Tibshirani & Tibshirani (2020).

Rows x are N(0, Sigma) with Sigma_ij = .35^|i - j|, and y = x'b + noise of variance sigma2. Five
coefficients are nonzero. The signal-to-noise ratio (SNR) is b'Sigma b / sigma2. In the first
design, that of the paper, the first five coefficients are one, so true variables are positively
correlated, which favours the lasso. In the second design positions and signs are random.

Each dataset is one call of `fit_spiny` and one of `fit_competing`, which depend only on their
arguments. joblib runs the calls, in parallel within ``joblib.parallel_config(n_jobs=8)``. A full
run stores the scores of the competing methods in ``E22_competing.json`` next to its record. Later
runs in that folder read this file and fit competing methods only to missing datasets. Delete the
file to refit them.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterable
from importlib.metadata import version
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, toeplitz
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import ARDRegression, LassoCV, lasso_path
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from prosparse.files import write_text
from prosparse.metrics import support_f_score
from prosparse.models.spinyreg import SpinyRegressor

from .base import Claim, Experiment, Result, Row, make_figure, mean_row, save_figure, seed_range
from .data import Data
from .spinyreg import MCPWithBIC

Array = np.ndarray

SETTINGS = {  # samples, variables
    "100 x 10": (100, 10),
    "500 x 100": (500, 100),
    "50 x 1000": (50, 1000),
    "100 x 1000": (100, 1000),
}
SNRS = tuple(float(snr) for snr in np.geomspace(0.05, 6.0, 10))
FIRST, RANDOM = "first positions, ones", "random positions and signs"
DESIGNS = (FIRST, RANDOM)
N_TRUE = 5  # number of nonzero coefficients
CORRELATION = 0.35  # correlation of adjacent variables
N_TEST = 200  # number of test rows per dataset
NORMAL_QUANTILE = 1.96  # standard deviations of a 95 % interval
N_DATASETS = 40  # datasets per cell
COMPETING_FILE = "E22_competing.json"

OURS, RELAXED, LASSO = "SpinyRegressor", "relaxed lasso", "lasso"

# Published relative test errors at the ten SNRs. The lassos were tuned on n additional samples and
# fitted without an intercept.
PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = {
    LASSO: {
        "100 x 10": (1.031, 1.046, 1.059, 1.065, 1.071, 1.077, 1.078, 1.079, 1.078, 1.079),
        "500 x 100": (1.034, 1.039, 1.043, 1.043, 1.044, 1.043, 1.043, 1.043, 1.043, 1.043),
        "50 x 1000": (1.078, 1.089, 1.169, 1.230, 1.337, 1.456, 1.573, 1.686, 1.740, 1.750),
        "100 x 1000": (1.067, 1.105, 1.144, 1.201, 1.235, 1.249, 1.257, 1.258, 1.257, 1.257),
    },
    RELAXED: {
        "100 x 10": (1.035, 1.046, 1.055, 1.067, 1.068, 1.073, 1.041, 1.041, 1.041, 1.041),
        "500 x 100": (1.032, 1.037, 1.033, 1.022, 1.011, 1.011, 1.011, 1.011, 1.011, 1.011),
        "50 x 1000": (1.082, 1.116, 1.173, 1.229, 1.342, 1.417, 1.486, 1.468, 1.428, 1.320),
        "100 x 1000": (1.081, 1.116, 1.153, 1.205, 1.218, 1.195, 1.122, 1.100, 1.057, 1.068),
    },
}


# --- datasets


class Dataset(NamedTuple):
    """Simulated training data, true parameters and test rows."""

    X: Array  # (n, p)
    y: Array  # (n,)
    coef: Array  # (p,)
    Sigma: Array  # (p, p), covariance matrix of the rows
    sigma2: float  # noise variance
    test_X: Array  # (N_TEST, p)
    test_y: Array  # (N_TEST,)


def simulate(setting: str, snr: float, design: str, seed: int) -> Dataset:
    """Simulate one dataset of a cell, independent of all other cells and seeds."""
    n, p = SETTINGS[setting]
    # Seeds are integers: the SNR enters in millionths.
    rng = np.random.default_rng([seed, n, p, round(1e6 * snr), DESIGNS.index(design)])
    Sigma = toeplitz(CORRELATION ** np.arange(p))
    coef = np.zeros(p)
    if design == FIRST:
        coef[:N_TRUE] = 1.0
    else:
        coef[rng.choice(p, N_TRUE, replace=False)] = rng.choice([-1.0, 1.0], N_TRUE)
    sigma2 = float(coef @ Sigma @ coef) / snr
    rows = rng.standard_normal((n + N_TEST, p)) @ cholesky(Sigma)
    y = rows @ coef + np.sqrt(sigma2) * rng.standard_normal(n + N_TEST)
    return Dataset(rows[:n], y[:n], coef, Sigma, sigma2, rows[n:], y[n:])


def relative_error(coef: Array, truth: Dataset) -> float:
    """Return the exact expected test error relative to that of the true coefficients.

    The value is (E (x'(b - coef))^2 + sigma2) / sigma2. Intercepts are omitted, as in the published
    results.
    """
    difference = coef - truth.coef
    return 1.0 + float(difference @ truth.Sigma @ difference) / truth.sigma2


# --- methods


class RelaxedLassoCV(RegressorMixin, BaseEstimator):
    """Relaxed lasso with cross-validated penalty and weight.

    The coefficients are blend * lasso + (1 - blend) * least squares on the active set of the lasso
    (Meinshausen 2007, in the form of Hastie, Tibshirani & Tibshirani 2020).

    Parameters
    ----------
    n_alphas : int, default=50
        Number of penalties between the smallest with no active variable and ``eps`` times that.
    eps : float or None, default=None
        Ratio of the smallest to the largest penalty. None selects 0.01 if there are more variables
        than samples, and 0.001 otherwise.
    blends : tuple of float, default=(0.0, 0.25, 0.5, 0.75, 1.0)
        Candidate weights of the lasso.
    n_folds : int, default=10
        Number of cross-validation folds.
    tol : float, default=1e-4
        Tolerance of the duality gap of the lasso relative to y'y.

    Attributes
    ----------
    alpha_, blend_ : float
        Selected penalty and weight of the lasso.
    coef_ : ndarray of shape (n_features,)
        Coefficients.
    intercept_ : float
        Intercept.
    """

    def __init__(
        self,
        n_alphas: int = 50,
        eps: float | None = None,
        blends: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0),
        n_folds: int = 10,
        tol: float = 1e-4,
    ):
        self.n_alphas = n_alphas
        self.eps = eps
        self.blends = blends
        self.n_folds = n_folds
        self.tol = tol

    def fit(self, X: Array, y: Array) -> RelaxedLassoCV:
        n, p = X.shape
        largest = float(np.max(np.abs((X - X.mean(axis=0)).T @ (y - y.mean())))) / n
        eps = self.eps if self.eps is not None else (0.01 if p > n else 0.001)
        alphas = np.geomspace(largest, eps * largest, self.n_alphas)
        blends = np.asarray(self.blends)
        errors = np.zeros((self.n_alphas, blends.size))  # sums of squared errors
        for train, test in KFold(self.n_folds).split(X):
            mean = X[train].mean(axis=0)
            lasso, least_squares = relaxed_path(X[train], y[train], alphas, self.tol)
            held_out = (y[test] - y[train].mean())[:, None]
            residual_lasso = held_out - (X[test] - mean) @ lasso  # (held out, alphas)
            residual_least = held_out - (X[test] - mean) @ least_squares
            for k, blend in enumerate(blends):
                residual = blend * residual_lasso + (1.0 - blend) * residual_least
                errors[:, k] += np.sum(residual**2, axis=0)
        a, b = np.unravel_index(int(np.argmin(errors)), errors.shape)
        # The path up to the selected penalty gives warm starts, as in the cross-validation.
        lasso, least_squares = relaxed_path(X, y, alphas[: a + 1], self.tol)
        self.alpha_, self.blend_ = float(alphas[a]), float(blends[b])
        self.coef_ = self.blend_ * lasso[:, -1] + (1.0 - self.blend_) * least_squares[:, -1]
        self.intercept_ = float(y.mean() - X.mean(axis=0) @ self.coef_)
        return self

    def predict(self, X: Array) -> Array:
        return np.asarray(X @ self.coef_ + self.intercept_)


def relaxed_path(X: Array, y: Array, alphas: Array, tol: float) -> tuple[Array, Array]:
    """Return coefficients (p, alphas) of the lasso and of least squares on its active sets."""
    centred, response = X - X.mean(axis=0), y - y.mean()
    _, lasso, _ = lasso_path(centred, response, alphas=alphas, max_iter=5000, tol=tol)
    least_squares = np.zeros_like(lasso)
    for k in range(alphas.size):
        active = lasso[:, k] != 0.0
        if k and np.array_equal(active, lasso[:, k - 1] != 0.0):
            least_squares[:, k] = least_squares[:, k - 1]
        elif active.any():
            least_squares[active, k] = np.linalg.lstsq(centred[:, active], response, rcond=None)[0]
    return lasso, least_squares


def missing_packages() -> tuple[str, ...]:
    """Return the packages of competing methods that are not installed."""
    return tuple(name for name in ("abess", "skglm") if find_spec(name) is None)


def competing_methods() -> dict[str, Any]:
    """Return the installed competing estimators by name, all with standardised columns."""
    estimators: dict[str, Any] = {
        RELAXED: make_pipeline(StandardScaler(), RelaxedLassoCV()),
        LASSO: make_pipeline(StandardScaler(), LassoCV(cv=10, max_iter=5000)),
        "ARD": make_pipeline(StandardScaler(), ARDRegression()),
    }
    missing = missing_packages()
    if "abess" not in missing:
        from abess import LinearRegression

        estimators["best subset (abess)"] = make_pipeline(StandardScaler(), LinearRegression())
    if "skglm" not in missing:
        estimators["MCP, EBIC"] = make_pipeline(StandardScaler(), MCPWithBIC(extended=True))
    return estimators


def coefficients(model: Any) -> Array:
    """Return the coefficients that predict, in the units of the data."""
    if isinstance(model, Pipeline):
        return np.asarray(model[-1].coef_).ravel() / model[0].scale_
    return np.asarray(model.coef_)


def selected_variables(model: Any) -> Array:
    """Return the mask of the variables selected by a fitted estimator."""
    if isinstance(model, Pipeline):
        return np.asarray(model[-1].coef_).ravel() != 0.0
    return np.asarray(model.support_)


# --- evaluation of all datasets


class Score(NamedTuple):
    """Score of one method on one dataset."""

    error: float  # relative test error
    size: int  # number of selected variables
    F: float  # F-score of the selection
    seconds: float  # processor time


class SpinyScore(NamedTuple):
    """Score of SpinyRegressor on one dataset."""

    score: Score
    coverage: float  # of test responses by 95 % intervals
    intervals: Array  # (3, 2), see `count_covered`
    calibration: Array  # (10, 3), see `calibration_table`


class Evaluation(NamedTuple):
    """Scores of all methods on one dataset."""

    setting: str
    snr: float
    design: str
    seed: int
    ours: SpinyScore
    competing: dict[str, Score]

    @property
    def scores(self) -> dict[str, Score]:
        """Scores by method, SpinyRegressor first."""
        return {OURS: self.ours.score, **self.competing}


def evaluate(model: Any, truth: Dataset) -> Score:
    """Fit a method and score it."""
    start = time.process_time()
    model.fit(truth.X, truth.y)
    seconds = time.process_time() - start
    support = selected_variables(model)
    return Score(
        relative_error(coefficients(model), truth),
        int(support.sum()),
        support_f_score(truth.coef != 0.0, support),
        seconds,
    )


def fit_spiny(setting: str, snr: float, design: str, seed: int) -> SpinyScore:
    """Dataset a table and fit SpinyRegressor to it, on one thread."""
    truth, model = simulate(setting, snr, design, seed), SpinyRegressor()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # Some datasets have no detectable signal.
        score = evaluate(model, truth)
    mean, deviation = model.predict(truth.test_X, return_std=True)
    return SpinyScore(
        score,
        float(np.mean(np.abs(truth.test_y - mean) <= NORMAL_QUANTILE * deviation)),
        count_covered(model, truth.coef),
        calibration_table(model.inclusion_probability_, truth.coef != 0.0),
    )


def fit_competing(setting: str, snr: float, design: str, seed: int) -> dict[str, Score]:
    """Dataset the same table and fit all others to it, on one thread."""
    truth = simulate(setting, snr, design, seed)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # Some paths do not converge.
        return {name: evaluate(model, truth) for name, model in competing_methods().items()}


def calibration_table(probability: Array, true: Array) -> Array:
    """Return counts, sums of probabilities and numbers of true variables in ten bins."""
    index = np.minimum((10.0 * np.asarray(probability)).astype(int), 9)
    counts = [np.bincount(index, weights, 10) for weights in (None, probability, true)]
    return np.column_stack(counts)


def count_covered(model: SpinyRegressor, coef: Array) -> Array:
    """Count the selected, the true and all variables, and those covered by 95 % intervals."""
    low, high = model.coef_interval(0.95).T
    inside = (low <= coef) & (coef <= high)
    groups = (model.support_, coef != 0.0, np.ones(coef.size, dtype=bool))
    return np.array([(np.sum(group), np.sum(inside[group])) for group in groups], dtype=float)


Cell = tuple[str, str, float]  # design, setting, SNR
ALL_CELLS: tuple[Cell, ...] = tuple(product(DESIGNS, SETTINGS, SNRS))
QUICK_CELLS: tuple[Cell, ...] = (
    (FIRST, "100 x 10", SNRS[7]),
    (FIRST, "50 x 1000", SNRS[8]),
    (RANDOM, "100 x 10", SNRS[2]),
)


Call = tuple[str, float, str, int]  # setting, SNR, design, seed


def grid(
    cells: Iterable[Cell], n_datasets: int, known: dict[Call, dict[str, Score]]
) -> list[Evaluation]:
    """Evaluate all methods on all datasets, with the parallelism of ``joblib.parallel_config``.

    ``known`` contains scores of competing methods from an earlier run, which are reused.
    """
    calls = [
        (setting, snr, design, seed) for design, setting, snr in cells for seed in range(n_datasets)
    ]
    missing = [call for call in calls if call not in known]
    new: list[dict[str, Score]] = Parallel()(delayed(fit_competing)(*call) for call in missing)
    others = {**known, **dict(zip(missing, new, strict=True))}
    # The stored scores may come from a machine with other packages.
    names = [name for name in others[calls[0]] if all(name in others[call] for call in calls)]
    ours: list[SpinyScore] = Parallel()(delayed(fit_spiny)(*call) for call in calls)
    return [
        Evaluation(*call, own, {name: others[call][name] for name in names})
        for call, own in zip(calls, ours, strict=True)
    ]


def read_competing(path: Path) -> dict[Call, dict[str, Score]]:
    """Return the stored scores of the competing methods; empty without a file."""
    if not path.is_file():
        return {}
    return {
        (setting, SNRS[index], design, seed): {
            name: Score(*score) for name, score in scores.items()
        }
        for setting, index, design, seed, scores in json.loads(path.read_text())["datasets"]
    }


def write_competing(
    path: Path, evaluations: list[Evaluation], with_versions: dict[str, str]
) -> None:
    """Store the scores of the competing methods for later runs."""
    datasets = [
        [
            evaluation.setting,
            SNRS.index(evaluation.snr),
            evaluation.design,
            evaluation.seed,
            {
                name: [round(s.error, 6), s.size, round(s.F, 6), round(s.seconds, 3)]
                for name, s in evaluation.competing.items()
            },
        ]
        for evaluation in evaluations
    ]
    lines = ",\n".join(json.dumps(each) for each in datasets)
    head = json.dumps({"versions": with_versions})[:-1]
    write_text(path, f'{head}, "datasets": [\n{lines}\n]}}\n')


def package_versions() -> dict[str, str]:
    """Return the versions of the packages of competing methods."""
    missing = missing_packages()
    names = ("scikit-learn", "abess", "skglm")
    return {name: version(name) for name in names if name not in missing}


# --- averages


class Averages(NamedTuple):
    """Means over the datasets of each cell."""

    error: dict[Cell, dict[str, float]]  # by method
    F: dict[Cell, dict[str, float]]
    coverage: dict[Cell, float]
    intervals: Array  # (3, 2) summed over all datasets
    calibration: Array  # (10, 3) summed over all datasets

    def overall(self, values: dict[Cell, dict[str, float]], method: str, design: str = "") -> float:
        """Return the mean over the cells of one design, or over all cells."""
        return float(np.mean([v[method] for cell, v in values.items() if design in ("", cell[0])]))

    def best(self, cell: Cell) -> str:
        """Return the method with the smallest error."""
        errors = self.error[cell]
        return min(errors, key=lambda method: errors[method])

    def excess(self, cell: Cell) -> float:
        """Return the relative difference of the error to that of the relaxed lasso."""
        return self.error[cell][OURS] / self.error[cell][RELAXED] - 1.0


def group_by_cell(evaluations: list[Evaluation]) -> dict[Cell, list[Evaluation]]:
    """Group evaluations by cell."""
    grouped: dict[Cell, list[Evaluation]] = {}
    for evaluation in evaluations:
        grouped.setdefault((evaluation.design, evaluation.setting, evaluation.snr), []).append(
            evaluation
        )
    return grouped


def average(evaluations: list[Evaluation]) -> Averages:
    """Average over the datasets of each cell."""
    names = tuple(evaluations[0].scores)
    error, F, coverage = {}, {}, {}
    for cell, group in group_by_cell(evaluations).items():
        error[cell] = {m: float(np.mean([c.scores[m].error for c in group])) for m in names}
        F[cell] = {m: float(np.mean([c.scores[m].F for c in group])) for m in names}
        coverage[cell] = float(np.mean([c.ours.coverage for c in group]))
    intervals = np.sum([c.ours.intervals for c in evaluations], axis=0)
    return Averages(
        error, F, coverage, intervals, np.sum([c.ours.calibration for c in evaluations], axis=0)
    )


def setting_rows(evaluations: list[Evaluation]) -> list[Row]:
    """Return the mean error over SNRs by method and setting, with size and F-score."""
    rows = []
    for design in DESIGNS:
        for setting in SETTINGS:
            group = [c for c in evaluations if (c.design, c.setting) == (design, setting)]
            snrs = sorted({c.snr for c in group})
            if not group:
                continue
            for name in group[0].scores:
                scores = [c.scores[name] for c in group]
                theirs = published(name, design, setting, snrs)
                note = (
                    f"{np.mean([s.size for s in scores]):.1f} variables, F-score "
                    f"{np.mean([s.F for s in scores]):.3f}, "
                    f"{np.median([s.seconds for s in scores]):.2g} s per fit"
                )
                # The datasets of one seed at all SNRs form one repetition.
                means = [
                    np.mean([c.scores[name].error for c in group if c.seed == seed])
                    for seed in sorted({c.seed for c in group})
                ]
                rows.append(mean_row(f"{design}, {setting}, {name}", means, theirs, note))
    return rows


def published(name: str, design: str, setting: str, snrs: list[float]) -> float | None:
    """Return the published mean over some SNRs, or None."""
    if design != FIRST or name not in PUBLISHED:
        return None
    errors = PUBLISHED[name][setting]
    return float(np.mean([errors[SNRS.index(snr)] for snr in snrs]))


def cell_rows(evaluations: list[Evaluation]) -> list[Row]:
    """Return the error of SpinyRegressor in each cell, with the other methods in the note."""
    rows = []
    for (design, setting, snr), group in group_by_cell(evaluations).items():
        others = ", ".join(
            f"{name} {np.mean([c.scores[name].error for c in group]):.3f}"
            for name in group[0].scores
            if name != OURS
        )
        errors = [c.scores[OURS].error for c in group]
        rows.append(mean_row(f"{design}, {setting}, SNR {snr:.2g}", errors, note=others))
    return rows


def uncertainty_rows(evaluations: list[Evaluation], averages: Averages) -> list[Row]:
    """Return the coverage of intervals and the calibration of inclusion probabilities."""
    coverage = [c.ours.coverage for c in evaluations]
    rows = [mean_row("coverage of test responses by 95 % intervals", coverage)]
    groups = ("selected", "true", "all")
    for group, (count, inside) in zip(groups, averages.intervals, strict=True):
        name = f"coverage of coefficients by 95 % intervals, {group} variables"
        rows.append(Row(name, float(inside / max(count, 1)), note=f"{count:.0f} variables"))
    for k, (count, expected, true) in enumerate(averages.calibration):
        if count:
            note = f"{count:.0f} variables; mean probability {expected / count:.3f}"
            bin_ = f"{k / 10:.1f} to {(k + 1) / 10:.1f}"
            name = f"inclusion probability {bin_}: proportion of true variables"
            rows.append(Row(name, float(true / count), note=note))
    return rows


def calibration_error(averages: Averages) -> Array:
    """Return |proportion of true variables - mean probability| for each bin."""
    count, expected, true = averages.calibration.T
    return np.where(count > 0, np.abs(true - expected) / np.maximum(count, 1), 0.0)


def make_claims(averages: Averages) -> list[Claim]:
    """Return the claims about SpinyRegressor."""
    excess = {
        design: averages.overall(averages.error, OURS, design)
        / averages.overall(averages.error, RELAXED, design)
        - 1
        for design in DESIGNS
    }
    differences = {cell: averages.excess(cell) for cell in averages.error if cell[0] == FIRST}
    worst = max(differences, key=lambda cell: differences[cell])
    n_above = sum(value > 0.12 for value in differences.values())
    F = {name: averages.overall(averages.F, name) for name in next(iter(averages.F.values()))}
    best = max((name for name in F if name != OURS), key=lambda name: F[name])
    coverage = float(np.mean(list(averages.coverage.values())))
    least, most = min(averages.coverage.values()), max(averages.coverage.values())
    count, inside = averages.intervals[0]
    coefficient_coverage = float(inside / max(count, 1))
    deviation = calibration_error(averages)
    return [
        Claim(
            f"{FIRST}: the mean relative test error is at most 3 % above that of the relaxed lasso",
            excess[FIRST] <= 0.03,
            f"{excess[FIRST]:+.1%}",
        ),
        Claim(
            f"{FIRST}: in each cell the relative test error is at most 12 % above that of the "
            "relaxed lasso",
            n_above == 0,
            f"exceeded in {n_above} of {len(differences)} cells; largest "
            f"{differences[worst]:+.1%} at {worst[1]}, SNR {worst[2]:.2g}",
        ),
        Claim(
            f"{RANDOM}: the mean relative test error is at least 10 % below that of the relaxed "
            "lasso",
            excess[RANDOM] <= -0.10,
            f"{excess[RANDOM]:+.1%}",
        ),
        Claim(
            "the mean F-score is at most 0.02 below that of the best competing method",
            F[OURS] >= F[best] - 0.02,
            f"{F[OURS]:.3f}; {best} {F[best]:.3f}",
        ),
        Claim(
            "95 % intervals cover 92 to 97 % of test responses on average",
            0.92 <= coverage <= 0.97,
            f"{coverage:.1%}; between {least:.1%} and {most:.1%} by cell",
        ),
        Claim(
            "95 % intervals cover 92 to 97 % of the coefficients of selected variables",
            0.92 <= coefficient_coverage <= 0.97,
            f"{coefficient_coverage:.1%} of {count:.0f}",
        ),
        Claim(
            "in ten bins, inclusion probabilities are within 0.05 of the proportion of true "
            "variables",
            bool(np.all(deviation <= 0.05)),
            f"largest difference {deviation.max():.3f}, in the bin from "
            f"{np.argmax(deviation) / 10:.1f}",
        ),
    ]


def describe(averages: Averages, versions: dict[str, str], missing: tuple[str, ...]) -> str:
    """Describe the results and their limitations."""
    remarks = (
        "The relative test error is 1 for the true coefficients and 1 + SNR for the empty model. "
        "All methods use the same datasets, fit an intercept and select on the training data; the "
        "lassos use ten folds. The published lassos were tuned on n additional samples. Larger "
        "errors of other methods lie outside the plots. "
    )
    for design in DESIGNS:
        cells = [cell for cell in averages.error if cell[0] == design]
        best = [averages.best(cell) for cell in cells]
        worse = [cell for cell in cells if averages.excess(cell) > 0.0]
        remarks += (
            f"{design.capitalize()}: SpinyRegressor has the smallest error in "
            f"{best.count(OURS)} of {len(cells)} cells, and a larger error than the relaxed lasso "
            f"in {len(worse)}"
        )
        if worse:
            cell = max(worse, key=averages.excess)
            remarks += (
                f"; the excess is largest at {cell[1]}, SNR {cell[2]:.2g} "
                f"({averages.error[cell][OURS]:.3f} compared with "
                f"{averages.error[cell][RELAXED]:.3f})"
            )
        remarks += ". "
    least = min(averages.coverage, key=lambda cell: averages.coverage[cell])
    remarks += (
        f"The smallest coverage of test responses is {averages.coverage[least]:.1%} ({least[0]}, "
        f"{least[1]}, SNR {least[2]:.2g})."
    )
    remarks += f" Packages: {', '.join(f'{name} {number}' for name, number in versions.items())}."
    if missing:
        remarks += f" Omitted because not installed: {' and '.join(missing)}."
    return remarks


def plot_errors(averages: Averages, output: Path) -> Path:
    """Plot error against SNR, one panel for each design and setting.

    The range of a panel covers SpinyRegressor and the lassos; other methods may exceed it.
    """
    figure, axes = make_figure(len(SETTINGS), len(DESIGNS), 3.6, 3.2)
    for i, design in enumerate(DESIGNS):
        for j, setting in enumerate(SETTINGS):
            ax = axes[i][j]
            cells = [cell for cell in averages.error if cell[:2] == (design, setting)]
            ax.set_visible(bool(cells))
            if cells:
                plot_panel(ax, averages, cells)
    for ax in axes[-1]:
        ax.set_xlabel("signal-to-noise ratio")
    for ax in axes[:, 0]:
        ax.set_ylabel("relative test error")
    lines, names = axes[0][0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=len(names), frameon=False)
    return save_figure(figure, output / "E22_regression_grid.png")


def plot_panel(ax: Any, averages: Averages, cells: list[Cell]) -> None:
    """Plot the errors of all methods in the cells of one design and setting."""
    design, setting, _ = cells[0]
    snrs = [snr for _, _, snr in cells]
    top = 1.0
    for name in averages.error[cells[0]]:
        bold = {"lw": 2.5, "color": "black", "zorder": 3} if name == OURS else {"lw": 1.2}
        errors = [averages.error[cell][name] for cell in cells]
        ax.plot(snrs, errors, "o-", ms=3, label=name, **bold)
        if name in (OURS, RELAXED, LASSO):
            top = max(top, *errors)
    if design == FIRST:
        theirs = PUBLISHED[RELAXED][setting]
        ax.plot(SNRS, theirs, ":", color="gray", label="relaxed lasso, published")
        top = max(top, *theirs)
    ax.set(xscale="log", title=f"{setting}\n{design}", ylim=(1.0, 1.0 + 1.1 * (top - 1.0)))
    ax.set_xticks([0.05, 0.25, 1.22, 6.0], ["0.05", "0.25", "1.22", "6"])
    ax.minorticks_off()


def plot_calibration(averages: Averages, output: Path) -> Path:
    """Plot the proportion of true variables against the inclusion probability."""
    figure, axes = make_figure(1)
    ax = axes[0][0]
    count, expected, true = averages.calibration[averages.calibration[:, 0] > 0].T
    probability, proportion = expected / count, true / count
    ax.plot([0.0, 1.0], [0.0, 1.0], color="gray", lw=1.0)
    ax.fill_between([0.0, 1.0], [-0.05, 0.95], [0.05, 1.05], color="gray", alpha=0.15, lw=0)
    half_width = NORMAL_QUANTILE * np.sqrt(proportion * (1.0 - proportion) / count)
    ax.errorbar(probability, proportion, half_width, fmt="o", color="black")
    for x, y, number in zip(probability, proportion, count, strict=True):
        ax.annotate(f"{number:,.0f}", (x, y), (6, -11), textcoords="offset points", fontsize=8)
    ax.set(
        xlabel="inclusion probability",
        ylabel="proportion of true variables",
        title="calibration in ten bins",
        xlim=(-0.02, 1.08),
        ylim=(-0.02, 1.05),
    )
    return save_figure(figure, output / "E22_reliability.png")


def run(quick: bool, data: Data, output: Path) -> Result:
    """Run E22."""
    n_datasets = 2 if quick else N_DATASETS
    path = output / COMPETING_FILE
    known, versions, missing = read_competing(path), package_versions(), missing_packages()
    if known:
        versions = json.loads(path.read_text())["versions"]
        missing = tuple(name for name in missing if name not in versions)
    evaluations = grid(QUICK_CELLS if quick else ALL_CELLS, n_datasets, known)
    if not quick:
        write_competing(path, evaluations, versions)
    averages = average(evaluations)
    rows = setting_rows(evaluations) + cell_rows(evaluations)
    rows += uncertainty_rows(evaluations, averages)
    claims = [] if quick else make_claims(averages)  # Quick runs are too small for the claims.
    remarks = describe(averages, versions, missing)
    figures = [plot_errors(averages, output), plot_calibration(averages, output)]
    return Result(rows, claims, figures, seed_range(n_datasets), remarks)


EXPERIMENTS = (
    Experiment(
        "E22",
        "Regression at ten signal-to-noise ratios",
        "Hastie, Tibshirani & Tibshirani 2020",
        (),
        run,
    ),
)
