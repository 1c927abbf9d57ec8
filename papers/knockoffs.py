"""E25: false discovery rate control by knockoffs.

The knockoff filter of `FDRPCA` is compared with the Benjamini-Hochberg procedure:

* error rate in the situations of E23 that satisfy the assumption of one null hypothesis: rows are
  exchangeable (within groups), or deviations from the mean have random signs;
* power in the simulations of E17 and on the real columns of E18;
* agreement of the selections of ten seeds on real columns;
* proportion of datasets without shared variance in which a variable is selected.

The statistics do not depend on the rate: one fit gives the selections at all rates.
"""

from __future__ import annotations

import itertools
import math
import time
import warnings
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from prosparse.models.fdrpca import FDRPCA

from .base import Claim, Experiment, PageTable, Result, Row, mean_row
from .data import Data
from .situations import REAL_DATASETS, REAL_SOURCES, SITUATIONS, Sample, Situation
from .structure import CASES, load_case, mix_with_permuted, score_selection, simulate_unequal
from .trust import seeded

Array = np.ndarray
Null = Literal["robust", "exchangeable"]

RATES = (0.05, 0.1, 0.2)
SHADOWS = (1, 4)
N_DRAWS = {1: 200, 4: 20}  # numbers of draws of each cell, by number of shadows
N_BH_DRAWS = 10
N_EMPTY_DRAWS = 1_000  # datasets without shared variance
EMPTY_SHAPE = (50, 80)
FIRST_SEED = 20_000
E17_SIZES, N_E17_DRAWS = (40, 100, 200), 10
N_E18_DRAWS = 2
N_SEEDS = 10
N_AVERAGED = 10  # draws of the shadows in a fit
N_REAL, N_PERMUTED = 100, 200  # columns from which ten seeds select
MIN_RELATIVE_F = {40: 0.8, 100: 0.95, 200: 0.95}  # F-score relative to Benjamini-Hochberg
MIN_JACCARD = 0.9
MAX_TIME = 3.0  # run time relative to Benjamini-Hochberg

# Situations whose null variables satisfy the assumptions. Groups are passed if they are given.
EXCHANGEABLE = (
    "Gaussian",
    "real columns, permuted",
    "batches shift columns, groups given",
    "batches differ in noise, groups given",
    "two laboratories, groups given",
    "repeated measures, groups given",
    "counts of mean 0.03 alongside Gaussian structure",
    "counts of mean 0.1 alongside Gaussian structure",
    "lognormal columns, sigma 1",
    "lognormal columns, sigma 1.5",
    "lognormal columns, sigma 1.5, alongside Gaussian structure",
    "t columns, 2 degrees of freedom",
    "spiky columns",
    "binary columns",
    "15 pairs of correlation 0.9, 400 rows",
    "10 triples of correlation 0.8",
    "6 blocks of five, correlation 0.6",
    "rare group of 5 of 200 rows",
    "rare group of 12 of 200 rows",
    "8 rows",
    "12 rows",
    "20 rows",
    "10 columns",
)
SYMMETRIC = (
    "Gaussian",
    "real columns, random signs",
    "row scale lognormal, sigma 0.15",
    "row scale lognormal, sigma 0.3",
    "rows multivariate t, 5 degrees of freedom",
    "rows multivariate t, 3 degrees of freedom",
    "one row times 3",
    "three rows times 5",
    "one row times 30",
    "a fifth of the rows times 3 in half of the columns",
    "batches differ in noise, groups given",
    "batches differ in noise, groups not given",
    "two laboratories, groups given",
    "two laboratories, groups not given",
    "t columns, 2 degrees of freedom",
    "spiky columns",
    "12 rows",
    "20 rows",
)
CELLS: tuple[tuple[str, Null], ...] = (
    *((name, "exchangeable") for name in EXCHANGEABLE),
    *((name, "robust") for name in SYMMETRIC),
)
SOME_CELLS: tuple[tuple[str, Null], ...] = (  # cells of a quick run
    ("Gaussian", "exchangeable"),
    ("three rows times 5", "robust"),
)


# --- fits


def fit(X: Array, groups: Array | None = None, **parameters: Any) -> FDRPCA:
    """Fit without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FDRPCA(**parameters).fit(X, groups=groups)


def select_at_rates(sample: Sample, null: Null, n_shadows: int, seed: int) -> Array:
    """Return the selections at all rates, (n_rates, p)."""
    model = fit(
        sample.X,
        sample.groups,
        null=null,
        control="knockoff",
        n_shadows=n_shadows,
        random_state=seed,
    )
    return np.asarray(model.qvalues_) <= np.array(RATES)[:, None]


def false_and_power(selected: Array, truth: Array) -> tuple[float, float]:
    """Return the false discovery proportion and the power of a selection."""
    n_found = int(np.sum(selected & truth))
    false = (int(selected.sum()) - n_found) / max(1, int(selected.sum()))
    return false, n_found / max(1, int(truth.sum()))


# --- error rate


class Cell(NamedTuple):
    """False discovery proportions and powers in one situation."""

    situation: str
    null: Null
    false: dict[int, Array]  # (n_draws, n_rates), by number of shadows
    power: dict[int, Array]
    bh_false: Array  # (n_draws,) of Benjamini-Hochberg at the first rate
    bh_power: Array


def evaluate_draw(
    situation: Situation, null: Null, n_shadows: int, draw: int, data: Data
) -> list[tuple[float, float]]:
    """Return false discovery proportion and power at all rates; without shadows, of BH."""
    sample = situation.draw(seeded(situation, draw, True), True, data)
    with threadpool_limits(1):
        if n_shadows == 0:
            model = fit(sample.X, sample.groups, null=null, fdr=RATES[0])
            return [false_and_power(np.asarray(model.support_), sample.truth)]
        selections = select_at_rates(sample, null, n_shadows, draw)
    return [false_and_power(selected, sample.truth) for selected in selections]


def evaluate_cell(name: str, null: Null, quick: bool, data: Data) -> Cell:
    """Evaluate all draws of a situation."""
    situation = next(situation for situation in SITUATIONS if situation.name == name)

    def evaluate(n_shadows: int, n_draws: int) -> Array:
        count = max(2, n_draws // 20) if quick else max(2, round(situation.effort * n_draws))
        found = Parallel()(
            delayed(evaluate_draw)(situation, null, n_shadows, draw, data) for draw in range(count)
        )
        return np.moveaxis(np.array(found), 2, 0)  # (2, n_draws, n_rates)

    by_shadows = {n_shadows: evaluate(n_shadows, N_DRAWS[n_shadows]) for n_shadows in SHADOWS}
    bh = evaluate(0, N_BH_DRAWS)
    return Cell(
        name,
        null,
        {n_shadows: found[0] for n_shadows, found in by_shadows.items()},
        {n_shadows: found[1] for n_shadows, found in by_shadows.items()},
        bh[0, :, 0],
        bh[1, :, 0],
    )


def standard_error(values: Array) -> float:
    return float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else 0.0


def rows_of_cell(cell: Cell) -> list[Row]:
    """Return the rows of a cell."""
    title = f"{cell.situation}, {cell.null}"
    rows = [
        mean_row(f"{title}, BH at {RATES[0]:g}: false discovery proportion", cell.bh_false),
        mean_row(f"{title}, BH at {RATES[0]:g}: power", cell.bh_power),
    ]
    for n_shadows, (k, rate) in itertools.product(SHADOWS, enumerate(RATES)):
        label = f"{title}, {n_shadows} shadows at {rate:g}"
        rows.append(mean_row(f"{label}: false discovery proportion", cell.false[n_shadows][:, k]))
        rows.append(mean_row(f"{label}: power", cell.power[n_shadows][:, k]))
    return rows


def table_of_cells(cells: list[Cell]) -> PageTable:
    """Return false discovery proportion / power of all cells."""

    def show(false: Array, power: Array) -> str:
        return f"{false.mean():.3f} / {power.mean():.2f}"

    header = (
        "situation",
        "null",
        f"BH, {RATES[0]:g}",
        *(f"{n} shadows, {rate:g}" for n in SHADOWS for rate in RATES),
    )
    rows = [
        (
            cell.situation,
            cell.null,
            show(cell.bh_false, cell.bh_power),
            *(
                show(cell.false[n][:, k], cell.power[n][:, k])
                for n in SHADOWS
                for k in range(len(RATES))
            ),
        )
        for cell in cells
    ]
    return PageTable("False discovery proportion / power", header, rows)


def claims_of_rate(cells: list[Cell]) -> list[Claim]:
    """Return the claims about the rate."""
    excess: dict[str, float] = {}
    slipped: list[str] = []
    for cell in cells:
        for n_shadows, (k, rate) in itertools.product(SHADOWS, enumerate(RATES)):
            false = cell.false[n_shadows][:, k]
            key = f"{cell.situation} ({cell.null}, {n_shadows} shadows, {rate:g})"
            excess[key] = float(false.mean()) - rate - 2.0 * standard_error(false)
        if cell.bh_false.mean() > RATES[0] + 2.0 * standard_error(cell.bh_false):
            first = cell.false[1][:, 0]
            slipped.append(
                f"{cell.situation}, {cell.null}: BH {cell.bh_false.mean():.3f}, knockoffs "
                f"{first.mean():.3f}"
            )
    above = [f"{key} by {value:.3f}" for key, value in excess.items() if value > 0.0]
    return [
        Claim(
            "the mean false discovery proportion of the knockoff filter is at most the rate plus "
            "two standard errors in each situation that satisfies the assumption",
            not above,
            "; ".join(above) if above else f"{len(excess)} cells",
        ),
        Claim(
            "Benjamini-Hochberg exceeds the rate plus two standard errors in situations in which "
            "the knockoff filter does not",
            bool(slipped),
            "; ".join(slipped),
        ),
    ]


# --- power


class Fit(NamedTuple):
    """One way to control the rate."""

    name: str
    parameters: dict[str, Any]


FITS = (
    Fit("BH, 0.05", {}),
    Fit("1 shadow, 0.05", {"control": "knockoff"}),
    Fit("1 shadow, 0.1", {"control": "knockoff", "fdr": 0.1}),
    Fit("4 shadows, 0.05", {"control": "knockoff", "n_shadows": 4}),
    Fit("4 shadows, 0.1", {"control": "knockoff", "n_shadows": 4, "fdr": 0.1}),
    Fit(
        f"4 shadows, {N_AVERAGED} draws, 0.05",
        {"control": "knockoff", "n_shadows": 4, "n_draws": N_AVERAGED},
    ),
)


class Power(NamedTuple):
    """Accuracy and run time of each way, means over draws."""

    F: dict[str, Array]
    false: dict[str, Array]
    seconds: dict[str, float]


def evaluate_power(datasets: list[tuple[Array, Array]]) -> Power:
    """Fit all datasets in all ways."""
    F: dict[str, Array] = {}
    false: dict[str, Array] = {}
    seconds = {}
    for name, parameters in FITS:
        start = time.process_time()
        scores = [
            score_selection(truth, np.asarray(fit(X, **parameters).support_))
            for X, truth in datasets
        ]
        seconds[name] = (time.process_time() - start) / len(datasets)
        F[name], false[name] = np.array(scores).T
    return Power(F, false, seconds)


def rows_of_power(title: str, power: Power) -> list[Row]:
    rows = []
    for name in power.F:
        rows.append(mean_row(f"{title}, {name}: F-score", power.F[name]))
        rows.append(mean_row(f"{title}, {name}: false discovery proportion", power.false[name]))
        rows.append(Row(f"{title}, {name}: seconds", power.seconds[name]))
    return rows


def table_of_power(powers: dict[str, Power]) -> PageTable:
    header = ("data", *(name for name, _ in FITS))
    rows = [
        (
            title,
            *(
                f"{power.F[name].mean():.3f} / {power.false[name].mean():.3f} / "
                f"{power.seconds[name]:.2g}"
                for name, _ in FITS
            ),
        )
        for title, power in powers.items()
    ]
    return PageTable("F-score / false discovery proportion / seconds", header, rows)


def claims_of_power(powers: dict[str, Power], sizes: dict[str, int]) -> list[Claim]:
    """Return the claims about F-score and run time relative to Benjamini-Hochberg."""
    bh = FITS[0].name
    relative = {
        title: {
            name: float(power.F[name].mean() / max(power.F[bh].mean(), 1e-9)) for name in power.F
        }
        for title, power in powers.items()
    }
    claims = []
    for title, n in sizes.items():
        name = "1 shadow, 0.1" if n == 40 else "1 shadow, 0.05"
        best = {name: relative[title][name] for name in (name, "4 shadows, 0.05")}
        claims.append(
            Claim(
                f"{title}: F-score of {' or '.join(best)} at least {MIN_RELATIVE_F[n]:g} times "
                "that of Benjamini-Hochberg",
                max(best.values()) >= MIN_RELATIVE_F[n],
                ", ".join(f"{name}: {value:.3f}" for name, value in best.items()),
            )
        )
    real = {title: value for title, value in relative.items() if title not in sizes}
    if real:
        means = {
            name: float(np.mean([value[name] for value in real.values()]))
            for name in ("1 shadow, 0.05", "4 shadows, 0.05")
        }
        claims.append(
            Claim(
                "real columns: mean F-score at least 0.95 times that of Benjamini-Hochberg",
                min(means.values()) >= 0.95,
                ", ".join(f"{name}: {value:.3f}" for name, value in means.items()),
            )
        )
    slowdown = {
        f"{title}, {name}": power.seconds[name] / power.seconds[bh]
        for title, power in powers.items()
        for name in ("1 shadow, 0.05", "4 shadows, 0.05")
    }
    slowest = max(slowdown, key=lambda key: slowdown[key])
    claims.append(
        Claim(
            f"one draw takes at most {MAX_TIME:g} times as long as Benjamini-Hochberg",
            slowdown[slowest] <= MAX_TIME,
            f"largest ratio {slowdown[slowest]:.2f}, {slowest}",
        )
    )
    return claims


# --- agreement and datasets without shared variance


def jaccard(first: Array, second: Array) -> float:
    union = int(np.sum(first | second))
    return 1.0 if union == 0 else int(np.sum(first & second)) / union


def some_columns(X: Array, truth: Array) -> Array:
    """Return the first real and permuted columns."""
    real, permuted = np.flatnonzero(truth)[:N_REAL], np.flatnonzero(~truth)[:N_PERMUTED]
    return X[:, np.concatenate([real, permuted])]


def agreement(X: Array, n_draws: int, n_seeds: int) -> float:
    """Return the mean Jaccard index of the selections of all pairs of seeds."""
    selections = [
        np.asarray(
            fit(X, control="knockoff", n_shadows=4, n_draws=n_draws, random_state=seed).support_
        )
        for seed in range(n_seeds)
    ]
    pairs = itertools.combinations(selections, 2)
    return float(np.mean([jaccard(first, second) for first, second in pairs]))


def select_from_noise(n_shadows: int, draw: int) -> bool:
    """Return whether a variable is selected without shared variance."""
    X = np.random.default_rng([FIRST_SEED, draw]).standard_normal(EMPTY_SHAPE)
    with threadpool_limits(1):
        model = fit(X, control="knockoff", n_shadows=n_shadows, random_state=draw)
    return bool(model.n_selected_ > 0)


def run(quick: bool, data: Data, output: Path) -> Result:
    """Run E25."""
    cells = [evaluate_cell(*cell, quick, data) for cell in (SOME_CELLS if quick else CELLS)]
    rows = [row for cell in cells for row in rows_of_cell(cell)]
    claims = claims_of_rate(cells)

    powers, sizes = {}, {}
    for n in E17_SIZES[1:2] if quick else E17_SIZES:
        n_draws = 2 if quick else N_E17_DRAWS
        sizes[title := f"E17, n = {n}"] = n
        powers[title] = evaluate_power(
            [simulate_unequal(n, FIRST_SEED + draw, False) for draw in range(n_draws)]
        )
    agreements: dict[int, list[float]] = {1: [], N_AVERAGED: []}
    for name in REAL_DATASETS[:1] if quick else REAL_DATASETS:
        X = load_case(CASES[name], data)
        datasets = [
            mix_with_permuted(X, FIRST_SEED + draw) for draw in range(1 if quick else N_E18_DRAWS)
        ]
        powers[f"E18, {name}"] = evaluate_power(datasets)
        for n_draws, values in agreements.items():
            values.append(agreement(some_columns(*datasets[0]), n_draws, 2 if quick else N_SEEDS))
            rows.append(
                Row(f"{name}, {n_draws} draws: mean Jaccard index of two seeds", values[-1])
            )
    rows += [row for title, power in powers.items() for row in rows_of_power(title, power)]
    claims += claims_of_power(powers, sizes)
    claims.append(
        Claim(
            f"the selections of {N_SEEDS} seeds from real columns have a mean Jaccard index of at "
            f"least {MIN_JACCARD:g} with {N_AVERAGED} draws, on each dataset",
            min(agreements[N_AVERAGED]) >= MIN_JACCARD,
            f"smallest {min(agreements[N_AVERAGED]):.3f}; with one draw {min(agreements[1]):.3f}",
        )
    )
    n_empty = 20 if quick else N_EMPTY_DRAWS
    for n_shadows in SHADOWS:
        found = Parallel()(delayed(select_from_noise)(n_shadows, draw) for draw in range(n_empty))
        any_selected = np.array(found, dtype=float)
        name = f"noise, {n_shadows} shadows at {RATES[0]:g}: proportion with any selection"
        rows.append(mean_row(name, any_selected, note=f"{n_empty} datasets"))
        claims.append(
            Claim(
                f"no variable is selected in at least 95 % of datasets without shared variance, "
                f"{n_shadows} shadows",
                bool(any_selected.mean() <= RATES[0]),
                f"selected in {int(any_selected.sum())} of {n_empty} datasets",
            )
        )
    seeds = f"those of E23; {FIRST_SEED} and later for the others"
    tables = (table_of_cells(cells), table_of_power(powers))
    return Result(rows, claims, [], seeds, describe(), tables)


def describe() -> str:
    """Describe the experiment."""
    return (
        "Shared variance in 20 of 150 columns and 100 rows unless the situation states otherwise "
        '(E23). Null: `null="exchangeable"` (permuted shadows) or "robust" (random signs); each '
        "situation satisfies the assumption of its null hypothesis. Draws per cell: "
        f"{N_DRAWS[1]} with one shadow, {N_DRAWS[4]} with four, {N_BH_DRAWS} of "
        'Benjamini-Hochberg (BH) with the same `null`. Power and agreement: `null="robust"`; '
        f"{N_E17_DRAWS} draws of E17, {N_E18_DRAWS} of each dataset of E18. At least 1 / (rate "
        "times shadows) variables, or none, are selected: with one shadow at 0.05 that is 20, "
        "which is the number of true variables."
    )


EXPERIMENTS = (
    Experiment(
        "E25",
        "False discovery rate control by knockoffs",
        "Barber & Candes, Annals of Statistics 2015; Gimenez & Zou, AISTATS 2019; Ren & Barber, "
        "JRSS B 2024",
        tuple(dict.fromkeys((*REAL_SOURCES, *(CASES[name].source for name in REAL_DATASETS)))),
        run,
    ),
)
