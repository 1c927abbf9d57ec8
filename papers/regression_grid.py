"""E22: regression at every signal-to-noise ratio, after Hastie, Tibshirani & Tibshirani (2020).

Rows x are N(0, Sigma), Sigma_ij = .35^|i - j|; y = x'b + noise of variance sigma2; five
coefficients are not zero. The ratio is b'Sigma b / sigma2. In the first grid the five are ones and
come first, so that true variables are neighbours that help each other: what the lasso likes. In the
second, which is ours, places and signs are random.

Every draw is one call of `fit_ours` and one of `fit_peers`, which depend on their arguments alone.
`run` hands the calls to joblib: one after the other, or in a pool of processes where the caller
asks for one, with ``joblib.parallel_config(n_jobs=8)`` around it. A full run leaves the scores of
the peers in ``E22_peers.json`` beside its record; the next run in that folder reads them, and fits
peers only to draws that the file lacks. Delete it to fit them all anew.
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

from .base import Claim, Experiment, Result, Row, figure_of, mean_row, saved, seeds_of
from .data import Data
from .spinyreg import MCPWithBIC

Array = np.ndarray

SETTINGS = {  # samples, variables
    "100 x 10": (100, 10),
    "500 x 100": (500, 100),
    "50 x 1000": (50, 1000),
    "100 x 1000": (100, 1000),
}
RATIOS = tuple(float(ratio) for ratio in np.geomspace(0.05, 6.0, 10))
FIRST, RANDOM = "first places, ones", "random places and signs"
CONTAINERS = (FIRST, RANDOM)
TRUE = 5  # coefficients that are not zero
CORRELATION = 0.35  # of neighbours
NEW_ROWS = 200  # on which intervals are counted, a draw
NORMAL = 1.96  # deviations to each side of an interval of 95 %
DRAWS = 40
PEERS_FILE = "E22_peers.json"

OURS, RELAXED, LASSO = "SpinyRegressor", "relaxed lasso", "lasso"

# Relative test errors that were published, at the ten ratios: tuned on n more samples, and without
# an intercept.
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


# --- draws


class Draw(NamedTuple):
    """A table, its response, the truth, and new rows."""

    X: Array  # (n, p)
    y: Array  # (n,)
    coef: Array  # (p,)
    Sigma: Array  # (p, p), covariance of a row
    sigma2: float  # variance of the noise
    new_X: Array  # (NEW_ROWS, p)
    new_y: Array  # (NEW_ROWS,)


def draw(setting: str, ratio: float, kind: str, seed: int) -> Draw:
    """One draw of a cell; draws of different cells are independent of each other."""
    n, p = SETTINGS[setting]
    # the ratio enters in millionths: seeds are whole numbers
    rng = np.random.default_rng([seed, n, p, round(1e6 * ratio), CONTAINERS.index(kind)])
    Sigma = toeplitz(CORRELATION ** np.arange(p))
    coef = np.zeros(p)
    if kind == FIRST:
        coef[:TRUE] = 1.0
    else:
        coef[rng.choice(p, TRUE, replace=False)] = rng.choice([-1.0, 1.0], TRUE)
    sigma2 = float(coef @ Sigma @ coef) / ratio
    rows = rng.standard_normal((n + NEW_ROWS, p)) @ cholesky(Sigma)
    y = rows @ coef + np.sqrt(sigma2) * rng.standard_normal(n + NEW_ROWS)
    return Draw(rows[:n], y[:n], coef, Sigma, sigma2, rows[n:], y[n:])


def relative_error(coef: Array, truth: Draw) -> float:
    """Expected squared error of x'coef on new data over that of the truth, exactly:
    (E (x'(b - coef))^2 + sigma2) / sigma2.

    Intercepts are left out, as the published figures are without.
    """
    away = coef - truth.coef
    return 1.0 + float(away @ truth.Sigma @ away) / truth.sigma2


# --- methods


class RelaxedLassoCV(RegressorMixin, BaseEstimator):
    """The lasso blended with least squares on its active set (Meinshausen 2007; in the form of
    Hastie, Tibshirani & Tibshirani 2020).

    coef = blend * lasso + (1 - blend) * least squares; penalty and blend by cross-validation.

    Parameters
    ----------
    n_alphas : int, default=50
        Penalties between the smallest that leaves nothing and ``eps`` times that.
    eps : float or None, default=None
        None: 0.01 where there are more variables than samples, else 0.001.
    blends : tuple of float
        The shares of the lasso.
    n_folds : int, default=10
        Of the cross-validation.
    tol : float, default=1e-4
        The gap of the lasso's objective, over y'y, that ends its descent.

    Attributes
    ----------
    alpha_, blend_ : float
        The choice.
    coef_ : array (n_features,)
    intercept_ : float
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
        errors = np.zeros((self.n_alphas, blends.size))  # squared, summed over all samples
        for train, test in KFold(self.n_folds).split(X):
            mean = X[train].mean(axis=0)
            lasso, least = relaxed_path(X[train], y[train], alphas, self.tol)
            held = (y[test] - y[train].mean())[:, None]
            off_lasso = held - (X[test] - mean) @ lasso  # residuals, (held out, alphas)
            off_least = held - (X[test] - mean) @ least
            for k, blend in enumerate(blends):
                errors[:, k] += np.sum((blend * off_lasso + (1.0 - blend) * off_least) ** 2, axis=0)
        a, chosen_blend = np.unravel_index(int(np.argmin(errors)), errors.shape)
        # the whole path down to the choice, whose coefficients start from those before
        lasso, least = relaxed_path(X, y, alphas[: a + 1], self.tol)
        self.alpha_, self.blend_ = float(alphas[a]), float(blends[chosen_blend])
        self.coef_ = self.blend_ * lasso[:, -1] + (1.0 - self.blend_) * least[:, -1]
        self.intercept_ = float(y.mean() - X.mean(axis=0) @ self.coef_)
        return self

    def predict(self, X: Array) -> Array:
        return np.asarray(X @ self.coef_ + self.intercept_)


def relaxed_path(X: Array, y: Array, alphas: Array, tol: float) -> tuple[Array, Array]:
    """Coefficients (p, alphas) of the lasso, and of least squares on its active sets."""
    centred, response = X - X.mean(axis=0), y - y.mean()
    _, lasso, _ = lasso_path(centred, response, alphas=alphas, max_iter=5000, tol=tol)
    least = np.zeros_like(lasso)
    for k in range(alphas.size):
        active = lasso[:, k] != 0.0
        if k and np.array_equal(active, lasso[:, k - 1] != 0.0):
            least[:, k] = least[:, k - 1]
        elif active.any():
            least[active, k] = np.linalg.lstsq(centred[:, active], response, rcond=None)[0]
    return lasso, least


def missing_peers() -> tuple[str, ...]:
    """Packages of peers that are not installed."""
    return tuple(name for name in ("abess", "skglm") if find_spec(name) is None)


def peers() -> dict[str, Any]:
    """Estimators by name, those of packages that are installed. All get scaled columns."""
    found: dict[str, Any] = {
        RELAXED: make_pipeline(StandardScaler(), RelaxedLassoCV()),
        LASSO: make_pipeline(StandardScaler(), LassoCV(cv=10, max_iter=5000)),
        "ARD": make_pipeline(StandardScaler(), ARDRegression()),
    }
    missing = missing_peers()
    if "abess" not in missing:
        from abess import LinearRegression

        found["best subset (abess)"] = make_pipeline(StandardScaler(), LinearRegression())
    if "skglm" not in missing:
        found["MCP, EBIC"] = make_pipeline(StandardScaler(), MCPWithBIC(extended=True))
    return found


def coefficients(model: Any) -> Array:
    """Return the coefficients that predict, in the units of the data."""
    if isinstance(model, Pipeline):
        return np.asarray(model[-1].coef_).ravel() / model[0].scale_
    return np.asarray(model.coef_)


def chosen(model: Any) -> Array:
    """The variables of a fitted estimator."""
    if isinstance(model, Pipeline):
        return np.asarray(model[-1].coef_).ravel() != 0.0
    return np.asarray(model.support_)


# --- one draw, and all of them


class Scored(NamedTuple):
    """One method on one draw."""

    error: float  # relative test error
    size: int  # variables
    F: float  # of the set of variables
    seconds: float  # of processor time


class Ours(NamedTuple):
    """SpinyRegressor on one draw."""

    score: Scored
    covered: float  # share of new responses in its intervals of 95 %
    intervals: Array  # (3, 2) of coefficients, see `coefficients_covered`
    calibration: Array  # (10, 3), see `calibrated`


class Cell(NamedTuple):
    """All methods on one draw."""

    setting: str
    ratio: float
    kind: str
    seed: int
    ours: Ours
    peers: dict[str, Scored]

    @property
    def scores(self) -> dict[str, Scored]:
        """Of every method, ours first."""
        return {OURS: self.ours.score, **self.peers}


def scored(model: Any, truth: Draw) -> Scored:
    """Fit a method to a draw."""
    start = time.process_time()
    model.fit(truth.X, truth.y)
    seconds = time.process_time() - start
    support = chosen(model)
    return Scored(
        relative_error(coefficients(model), truth),
        int(support.sum()),
        support_f_score(truth.coef != 0.0, support),
        seconds,
    )


def fit_ours(setting: str, ratio: float, kind: str, seed: int) -> Ours:
    """Draw a table and fit SpinyRegressor to it, on one thread."""
    truth, model = draw(setting, ratio, kind, seed), SpinyRegressor()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # nothing found
        score = scored(model, truth)
    mean, deviation = model.predict(truth.new_X, return_std=True)
    return Ours(
        score,
        float(np.mean(np.abs(truth.new_y - mean) <= NORMAL * deviation)),
        coefficients_covered(model, truth.coef),
        calibrated(model.inclusion_probability_, truth.coef != 0.0),
    )


def fit_peers(setting: str, ratio: float, kind: str, seed: int) -> dict[str, Scored]:
    """Draw the same table and fit all others to it, on one thread."""
    truth = draw(setting, ratio, kind, seed)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # paths that did not converge
        return {name: scored(model, truth) for name, model in peers().items()}


def calibrated(probability: Array, true: Array) -> Array:
    """Of ten bins of probabilities: how many variables, the sum of their probabilities, and how
    many of them are true."""
    place = np.minimum((10.0 * np.asarray(probability)).astype(int), 9)
    counts = [np.bincount(place, weights, 10) for weights in (None, probability, true)]
    return np.column_stack(counts)


def coefficients_covered(model: SpinyRegressor, coef: Array) -> Array:
    """Of the chosen, the truly active and all variables: how many there are, and how many have
    their true coefficient in the interval of 95 %."""
    low, high = model.coef_interval(0.95).T
    inside = (low <= coef) & (coef <= high)
    groups = (model.support_, coef != 0.0, np.ones(coef.size, dtype=bool))
    return np.array([(np.sum(group), np.sum(inside[group])) for group in groups], dtype=float)


Place = tuple[str, str, float]  # kind, setting, ratio
EVERYWHERE: tuple[Place, ...] = tuple(product(CONTAINERS, SETTINGS, RATIOS))
FEW: tuple[Place, ...] = (  # in short
    (FIRST, "100 x 10", RATIOS[7]),
    (FIRST, "50 x 1000", RATIOS[8]),
    (RANDOM, "100 x 10", RATIOS[2]),
)


Call = tuple[str, float, str, int]  # setting, ratio, kind, seed


def grid(places: Iterable[Place], draws: int, known: dict[Call, dict[str, Scored]]) -> list[Cell]:
    """Every draw of every place; in a pool where ``joblib.parallel_config`` asks for one.

    ``known`` are scores of peers from an earlier run, which are taken as they are.
    """
    calls = [(setting, ratio, kind, s) for kind, setting, ratio in places for s in range(draws)]
    missing = [call for call in calls if call not in known]
    new: list[dict[str, Scored]] = Parallel()(delayed(fit_peers)(*call) for call in missing)
    others = {**known, **dict(zip(missing, new, strict=True))}
    # those that all draws have: another machine may have had other packages
    names = [name for name in others[calls[0]] if all(name in others[call] for call in calls)]
    ours: list[Ours] = Parallel()(delayed(fit_ours)(*call) for call in calls)
    return [
        Cell(*call, mine, {name: others[call][name] for name in names})
        for call, mine in zip(calls, ours, strict=True)
    ]


def read_peers(path: Path) -> dict[Call, dict[str, Scored]]:
    """The scores of peers that an earlier run left, none without a file."""
    if not path.is_file():
        return {}
    return {
        (setting, RATIOS[place], kind, seed): {
            name: Scored(*score) for name, score in scores.items()
        }
        for setting, place, kind, seed, scores in json.loads(path.read_text())["draws"]
    }


def write_peers(path: Path, cells: list[Cell], with_versions: dict[str, str]) -> None:
    """Leave the scores of peers for the next run, in digits that matter."""
    draws = [
        [
            one.setting,
            RATIOS.index(one.ratio),
            one.kind,
            one.seed,
            {
                name: [round(s.error, 6), s.size, round(s.F, 6), round(s.seconds, 3)]
                for name, s in one.peers.items()
            },
        ]
        for one in cells
    ]
    lines = ",\n".join(json.dumps(each) for each in draws)
    head = json.dumps({"versions": with_versions})[:-1]
    write_text(path, f'{head}, "draws": [\n{lines}\n]}}\n')


def versions_of_peers() -> dict[str, str]:
    """Of the packages that the peers come from."""
    missing = missing_peers()
    names = ("scikit-learn", "abess", "skglm")
    return {name: version(name) for name in names if name not in missing}


# --- what was found


class Found(NamedTuple):
    """Means over the draws."""

    error: dict[Place, dict[str, float]]  # by method
    F: dict[Place, dict[str, float]]
    covered: dict[Place, float]
    intervals: Array  # (3, 2) summed over all draws
    calibration: Array  # (10, 3) summed over all draws

    def overall(self, values: dict[Place, dict[str, float]], method: str, kind: str = "") -> float:
        """The mean over the places of a kind, or of all."""
        return float(np.mean([v[method] for at, v in values.items() if kind in ("", at[0])]))

    def best(self, place: Place) -> str:
        """The method of the lowest error."""
        errors = self.error[place]
        return min(errors, key=lambda method: errors[method])

    def apart(self, place: Place) -> float:
        """By what share ours is above the relaxed lasso."""
        return self.error[place][OURS] / self.error[place][RELAXED] - 1.0


def by_place(cells: list[Cell]) -> dict[Place, list[Cell]]:
    grouped: dict[Place, list[Cell]] = {}
    for one in cells:
        grouped.setdefault((one.kind, one.setting, one.ratio), []).append(one)
    return grouped


def found_in(cells: list[Cell]) -> Found:
    names = tuple(cells[0].scores)
    error, F, covered = {}, {}, {}
    for place, some in by_place(cells).items():
        error[place] = {m: float(np.mean([c.scores[m].error for c in some])) for m in names}
        F[place] = {m: float(np.mean([c.scores[m].F for c in some])) for m in names}
        covered[place] = float(np.mean([c.ours.covered for c in some]))
    intervals = np.sum([c.ours.intervals for c in cells], axis=0)
    return Found(error, F, covered, intervals, np.sum([c.ours.calibration for c in cells], axis=0))


def rows_of_settings(cells: list[Cell]) -> list[Row]:
    """Every method in every setting: the mean over the ratios, its variables and F-score."""
    rows = []
    for kind in CONTAINERS:
        for setting in SETTINGS:
            some = [c for c in cells if (c.kind, c.setting) == (kind, setting)]
            ratios = sorted({c.ratio for c in some})
            if not some:
                continue
            for name in some[0].scores:
                scores = [c.scores[name] for c in some]
                theirs = published(name, kind, setting, ratios)
                note = (
                    f"{np.mean([s.size for s in scores]):.1f} variables, F-score "
                    f"{np.mean([s.F for s in scores]):.3f}, "
                    f"{np.median([s.seconds for s in scores]):.2g} s a fit"
                )
                # draws of one seed at all ratios are one repetition
                means = [
                    np.mean([c.scores[name].error for c in some if c.seed == seed])
                    for seed in sorted({c.seed for c in some})
                ]
                rows.append(mean_row(f"{kind}, {setting}, {name}", means, theirs, note))
    return rows


def published(name: str, kind: str, setting: str, ratios: list[float]) -> float | None:
    """The published mean over some ratios, where there is one."""
    if kind != FIRST or name not in PUBLISHED:
        return None
    errors = PUBLISHED[name][setting]
    return float(np.mean([errors[RATIOS.index(ratio)] for ratio in ratios]))


def rows_of_places(cells: list[Cell]) -> list[Row]:
    """Ours at every ratio, the others beside it."""
    rows = []
    for (kind, setting, ratio), some in by_place(cells).items():
        others = ", ".join(
            f"{name} {np.mean([c.scores[name].error for c in some]):.3f}"
            for name in some[0].scores
            if name != OURS
        )
        errors = [c.scores[OURS].error for c in some]
        rows.append(mean_row(f"{kind}, {setting}, ratio {ratio:.2g}", errors, note=others))
    return rows


def rows_of_uncertainty(cells: list[Cell], found: Found) -> list[Row]:
    """Intervals of new responses and of coefficients, and probabilities of inclusion."""
    covered = [c.ours.covered for c in cells]
    rows = [mean_row("share of new responses in intervals of 95 %", covered)]
    whose = ("chosen", "truly active", "all")
    for of, (count, inside) in zip(whose, found.intervals, strict=True):
        name = f"share of coefficients in intervals of 95 %, {of} variables"
        rows.append(Row(name, float(inside / max(count, 1)), note=f"{count:.0f} variables"))
    for k, (count, promised, true) in enumerate(found.calibration):
        if count:
            note = f"{count:.0f} variables; {promised / count:.3f} on average"
            name = f"inclusion probability {k / 10:.1f} to {(k + 1) / 10:.1f}: share that is true"
            rows.append(Row(name, float(true / count), note=note))
    return rows


def away_from_calibrated(found: Found) -> Array:
    """For each bin, how far the share that is true lies from the mean probability."""
    count, promised, true = found.calibration.T
    return np.where(count > 0, np.abs(true - promised) / np.maximum(count, 1), 0.0)


def claims_of(found: Found) -> list[Claim]:
    """What should hold of SpinyRegressor."""
    apart = {
        kind: found.overall(found.error, OURS, kind) / found.overall(found.error, RELAXED, kind) - 1
        for kind in CONTAINERS
    }
    gaps = {place: found.apart(place) for place in found.error if place[0] == FIRST}
    worst = max(gaps, key=lambda place: gaps[place])
    above = sum(gap > 0.12 for gap in gaps.values())
    F = {name: found.overall(found.F, name) for name in next(iter(found.F.values()))}
    best = max((name for name in F if name != OURS), key=lambda name: F[name])
    covered = float(np.mean(list(found.covered.values())))
    least, most = min(found.covered.values()), max(found.covered.values())
    count, inside = found.intervals[0]
    held = float(inside / max(count, 1))
    away = away_from_calibrated(found)
    return [
        Claim(
            f"{FIRST}: the mean relative test error is at most 3 % above the relaxed lasso's",
            apart[FIRST] <= 0.03,
            f"{apart[FIRST]:+.1%}",
        ),
        Claim(
            f"{FIRST}: in no cell is it more than 12 % above",
            above == 0,
            f"{above} of {len(gaps)} are; largest {gaps[worst]:+.1%} at {worst[1]}, "
            f"ratio {worst[2]:.2g}",
        ),
        Claim(
            f"{RANDOM}: the mean relative test error is at least 10 % below the relaxed lasso's",
            apart[RANDOM] <= -0.10,
            f"{apart[RANDOM]:+.1%}",
        ),
        Claim(
            "the mean F-score is at least that of the best peer less .02",
            F[OURS] >= F[best] - 0.02,
            f"{F[OURS]:.3f}; {best} {F[best]:.3f}",
        ),
        Claim(
            "intervals of 95 % hold 92 to 97 % of new responses on average",
            0.92 <= covered <= 0.97,
            f"{covered:.1%}; between {least:.1%} and {most:.1%} by cell",
        ),
        Claim(
            "intervals of 95 % hold 92 to 97 % of the coefficients of chosen variables",
            0.92 <= held <= 0.97,
            f"{held:.1%} of {count:.0f}",
        ),
        Claim(
            "in ten bins of inclusion probability, the share of true variables is within .05",
            bool(np.all(away <= 0.05)),
            f"largest difference {away.max():.3f}, from {np.argmax(away) / 10:.1f} on",
        ),
    ]


def remarks_on(found: Found, versions: dict[str, str], missing: tuple[str, ...]) -> str:
    """The outcome in plain words, with what falls short."""
    words = (
        "Relative test error is 1 for the truth and 1 + the ratio for a model without variables. "
        "All methods have the same draws, fit an intercept, and choose on them alone, the lassos "
        "by ten folds; the published errors are of lassos that chose on n more samples. In the "
        "picture, lines of other methods leave the panels where their errors are larger. "
    )
    for kind in CONTAINERS:
        places = [place for place in found.error if place[0] == kind]
        lowest = [found.best(place) for place in places]
        beaten = [place for place in places if found.apart(place) > 0.0]
        words += (
            f"{kind.capitalize()}: SpinyRegressor has the lowest error of all methods in "
            f"{lowest.count(OURS)} of {len(places)} cells, and a higher one than the relaxed lasso "
            f"in {len(beaten)}"
        )
        if beaten:
            at = max(beaten, key=found.apart)
            words += (
                f", most of all at {at[1]}, ratio {at[2]:.2g} ({found.error[at][OURS]:.3f} against "
                f"{found.error[at][RELAXED]:.3f})"
            )
        words += ". "
    least = min(found.covered, key=lambda at: found.covered[at])
    words += (
        f"Its intervals hold the fewest new responses, {found.covered[least]:.1%}, at {least[1]}, "
        f"ratio {least[2]:.2g}, {least[0]}."
    )
    words += f" Peers: {', '.join(f'{name} {number}' for name, number in versions.items())}."
    if missing:
        words += f" Left out, as not installed: {' and '.join(missing)}."
    return words


def drawn(found: Found, output: Path) -> Path:
    """Error against ratio, one panel for each setting and grid.

    Panels are as high as the largest error of ours and the lassos needs: others may leave them.
    """
    figure, axes = figure_of(len(SETTINGS), len(CONTAINERS), 3.6, 3.2)
    for i, kind in enumerate(CONTAINERS):
        for j, setting in enumerate(SETTINGS):
            ax = axes[i][j]
            places = [place for place in found.error if place[:2] == (kind, setting)]
            ax.set_visible(bool(places))
            if places:
                panel(ax, found, places)
    for ax in axes[-1]:
        ax.set_xlabel("signal-to-noise ratio")
    for ax in axes[:, 0]:
        ax.set_ylabel("relative test error")
    lines, names = axes[0][0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=len(names), frameon=False)
    return saved(figure, output / "E22_regression_grid.png")


def panel(ax: Any, found: Found, places: list[Place]) -> None:
    """The errors of every method at the ratios of one setting and grid."""
    kind, setting, _ = places[0]
    ratios = [ratio for _, _, ratio in places]
    top = 1.0
    for name in found.error[places[0]]:
        bold = {"lw": 2.5, "color": "black", "zorder": 3} if name == OURS else {"lw": 1.2}
        errors = [found.error[place][name] for place in places]
        ax.plot(ratios, errors, "o-", ms=3, label=name, **bold)
        if name in (OURS, RELAXED, LASSO):
            top = max(top, *errors)
    if kind == FIRST:
        theirs = PUBLISHED[RELAXED][setting]
        ax.plot(RATIOS, theirs, ":", color="gray", label="relaxed lasso, published")
        top = max(top, *theirs)
    ax.set(xscale="log", title=f"{setting}\n{kind}", ylim=(1.0, 1.0 + 1.1 * (top - 1.0)))
    ax.set_xticks([0.05, 0.25, 1.22, 6.0], ["0.05", "0.25", "1.22", "6"])
    ax.minorticks_off()


def drawn_reliability(found: Found, output: Path) -> Path:
    """The share of variables that are true against their inclusion probability."""
    figure, axes = figure_of(1)
    ax = axes[0][0]
    count, promised, true = found.calibration[found.calibration[:, 0] > 0].T
    at, share = promised / count, true / count
    ax.plot([0.0, 1.0], [0.0, 1.0], color="gray", lw=1.0)
    ax.fill_between([0.0, 1.0], [-0.05, 0.95], [0.05, 1.05], color="gray", alpha=0.15, lw=0)
    ax.errorbar(at, share, NORMAL * np.sqrt(share * (1.0 - share) / count), fmt="o", color="black")
    for x, y, number in zip(at, share, count, strict=True):
        ax.annotate(f"{number:,.0f}", (x, y), (6, -11), textcoords="offset points", fontsize=8)
    ax.set(
        xlabel="inclusion probability",
        ylabel="share that is truly active",
        title="variables in ten bins of probability",
        xlim=(-0.02, 1.08),
        ylim=(-0.02, 1.05),
    )
    return saved(figure, output / "E22_reliability.png")


def run(quick: bool, data: Data, output: Path) -> Result:
    """E22."""
    draws = 2 if quick else DRAWS
    at = output / PEERS_FILE
    known, versions, missing = read_peers(at), versions_of_peers(), missing_peers()
    if known:
        versions = json.loads(at.read_text())["versions"]
        missing = tuple(name for name in missing if name not in versions)
    cells = grid(FEW if quick else EVERYWHERE, draws, known)
    if not quick:
        write_peers(at, cells, versions)
    found = found_in(cells)
    rows = rows_of_settings(cells) + rows_of_places(cells) + rows_of_uncertainty(cells, found)
    claims = [] if quick else claims_of(found)  # two draws of three cells say nothing of them
    remarks = remarks_on(found, versions, missing)
    figures = [drawn(found, output), drawn_reliability(found, output)]
    return Result(rows, claims, figures, seeds_of(draws), remarks)


EXPERIMENTS = (
    Experiment(
        "E22",
        "regression at every signal-to-noise ratio",
        "Hastie, Tibshirani & Tibshirani 2020",
        (),
        run,
    ),
)
