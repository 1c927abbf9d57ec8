"""E25: false discovery rate control by knockoffs.

The knockoff filter of `FDRPCA` is compared with the Benjamini-Hochberg procedure:

* error rate in the situations of E23 that satisfy the assumption of one null hypothesis: rows are
  exchangeable (within groups), or deviations from the centre have random signs; and with missing
  values;
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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from prosparse.models.fdrpca import FDRPCA

from .base import Claim, Experiment, PageTable, Result, Row, mean_row
from .data import Data
from .situations import (
    REAL_DATASETS,
    REAL_SOURCES,
    SITUATIONS,
    Distorted,
    Situation,
    simulated,
)
from .structure import CASES, load_case, mix_with_permuted, score_selection, simulate_unequal
from .trust import seeded

Array = np.ndarray
Null = Literal["robust", "exchangeable"]

RATES = (0.05, 0.1, 0.2)
SHADOWS = (1, 4)
N_DRAWS = {1: 50, 4: 20, 0: 20}  # numbers of draws of each cell, by number of shadows; 0: BH
N_EMPTY_DRAWS = {1: 100, 4: 300}  # datasets without shared variance
EMPTY_SHAPE = (50, 80)
FIRST_SEED = 20_000
E17_SIZES, N_E17_DRAWS = (40, 100, 200), 10
N_E18_DRAWS = 1
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
    "rare group of 8 of 200 rows",
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
    "weak covariates, given",
    "strong covariates, given",
    "20 batches of unequal noise, given as covariate",
    "12 rows",
    "20 rows",
)
MISSING = "a fifth of the values missing"
CELLS: tuple[tuple[str, Null], ...] = (
    *((name, "exchangeable") for name in (*EXCHANGEABLE, MISSING)),
    *((name, "robust") for name in (*SYMMETRIC, MISSING)),
)
SOME_CELLS: tuple[tuple[str, Null], ...] = (  # cells of a quick run
    ("Gaussian", "exchangeable"),
    ("three rows times 5", "robust"),
)


def remove_values(Z: Array, truth: Array, rng: np.random.Generator) -> Distorted:
    """Remove a fifth of the values, half of them in the same rows of a quarter of the columns."""
    missing: Array = rng.random(Z.shape) < 0.1
    block = rng.random(Z.shape[1]) < 0.25
    missing |= block & (rng.random((Z.shape[0], 1)) < 0.4)
    return Distorted(np.where(missing, np.nan, Z))


ALL_SITUATIONS = {
    situation.name: situation
    for situation in (*SITUATIONS, Situation(MISSING, simulated(remove_values), effort=0.2))
}


# --- fits


def fit(X: Array, groups: Array | None = None, covariates: Any = None, **parameters: Any) -> FDRPCA:
    """Fit without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FDRPCA(**parameters).fit(X, groups=groups, covariates=covariates)


def run_calls(function: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Call a function with each tuple of arguments, in parallel if joblib is configured so."""
    return list(Parallel()(delayed(function)(*call) for call in calls))


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
    name: str, null: Null, n_shadows: int, draw: int, data: Data
) -> list[tuple[float, float]]:
    """Return false discovery proportion and power at all rates; without shadows, of BH."""
    situation = ALL_SITUATIONS[name]
    sample = situation.draw(seeded(situation, draw, True), True, data)
    design = sample.groups, sample.covariates
    with threadpool_limits(1):
        if n_shadows == 0:
            model = fit(sample.X, *design, null=null, fdr=RATES[0])
            return [false_and_power(np.asarray(model.support_), sample.truth)]
        model = fit(
            sample.X,
            *design,
            null=null,
            control="knockoff",
            n_shadows=n_shadows,
            random_state=draw,
        )
    selections = np.asarray(model.qvalues_) <= np.array(RATES)[:, None]
    return [false_and_power(selected, sample.truth) for selected in selections]


def evaluate_cells(names: tuple[tuple[str, Null], ...], quick: bool, data: Data) -> list[Cell]:
    """Evaluate all draws of some situations."""

    def count(name: str, n_shadows: int) -> int:
        n_draws = 2 if quick else N_DRAWS[n_shadows]
        return max(2, round(ALL_SITUATIONS[name].effort * n_draws))

    keys = [
        (name, null, n_shadows) for (name, null), n_shadows in itertools.product(names, N_DRAWS)
    ]
    calls = [(*key, draw, data) for key in keys for draw in range(count(key[0], key[2]))]
    found = iter(run_calls(evaluate_draw, calls))
    # (2, n_draws, n_rates): false discovery proportions and powers
    results = {
        key: np.moveaxis(np.array(list(itertools.islice(found, count(key[0], key[2])))), 2, 0)
        for key in keys
    }
    return [
        Cell(
            name,
            null,
            {n_shadows: results[name, null, n_shadows][0] for n_shadows in SHADOWS},
            {n_shadows: results[name, null, n_shadows][1] for n_shadows in SHADOWS},
            *results[name, null, 0][:, :, 0],
        )
        for name, null in names
    ]


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
    controlled = True
    for cell in cells:
        for n_shadows, (k, rate) in itertools.product(SHADOWS, enumerate(RATES)):
            false = cell.false[n_shadows][:, k]
            key = f"{cell.situation} ({cell.null}, {n_shadows} shadows, {rate:g})"
            excess[key] = float(false.mean()) - rate - 2.0 * standard_error(false)
        if cell.bh_false.mean() > RATES[0] + 2.0 * standard_error(cell.bh_false):
            first = cell.false[1][:, 0]
            controlled &= float(first.mean()) <= RATES[0] + 2.0 * standard_error(first)
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
            "the knockoff filter with one shadow controls the rate where Benjamini-Hochberg "
            "exceeds it by more than two standard errors",
            controlled,
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


def power_sample(title: str, draw: int, data: Data) -> tuple[Array, Array]:
    """Return the data matrix and the true columns of a draw of E17 or E18."""
    experiment, case = title.split(", ", 1)
    if experiment == "E17":
        return simulate_unequal(int(case.removeprefix("n = ")), FIRST_SEED + draw, False)
    return mix_with_permuted(load_case(CASES[case], data), FIRST_SEED + draw)


def evaluate_fit(title: str, parameters: dict[str, Any], draw: int, data: Data) -> list[float]:
    """Return F-score, false discovery proportion and processor time of a fit."""
    X, truth = power_sample(title, draw, data)
    with threadpool_limits(1):
        start = time.process_time()
        model = fit(X, **parameters)
        seconds = time.process_time() - start
    return [*score_selection(truth, np.asarray(model.support_)), seconds]


def evaluate_power(counts: dict[str, int], data: Data) -> dict[str, Power]:
    """Fit some draws of each kind of data in all ways."""
    calls = [
        (title, parameters, draw, data)
        for title, count in counts.items()
        for draw in range(count)
        for _, parameters in FITS
    ]
    found = iter(run_calls(evaluate_fit, calls))
    powers = {}
    for title, count in counts.items():
        of_title = np.array(list(itertools.islice(found, count * len(FITS))))
        F, false, seconds = np.moveaxis(of_title.reshape(count, len(FITS), 3), 2, 0)
        names = [name for name, _ in FITS]
        powers[title] = Power(
            dict(zip(names, F.T, strict=True)),
            dict(zip(names, false.T, strict=True)),
            dict(zip(names, seconds.mean(axis=0).tolist(), strict=True)),
        )
    return powers


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
    name = "4 shadows, 0.05"
    claims.append(
        Claim(
            f"real columns: mean F-score of {name} at least {MIN_RELATIVE_F[100]:g} times that of "
            "Benjamini-Hochberg",
            float(np.mean([value[name] for value in real.values()])) >= MIN_RELATIVE_F[100],
            ", ".join(f"{title}: {value[name]:.3f}" for title, value in real.items()),
        )
    )
    slowdown = {
        name: {title: power.seconds[name] / power.seconds[bh] for title, power in powers.items()}
        for name in ("1 shadow, 0.05", "4 shadows, 0.05")
    }
    slowest = {name: max(ratios, key=ratios.__getitem__) for name, ratios in slowdown.items()}
    name = "1 shadow, 0.05"
    claims.append(
        Claim(
            f"one draw of one shadow takes at most {MAX_TIME:g} times as long as "
            "Benjamini-Hochberg",
            slowdown[name][slowest[name]] <= MAX_TIME,
            "; ".join(
                f"{name}: ratios from {min(slowdown[name].values()):.2f} to "
                f"{slowdown[name][title]:.2f} ({title})"
                for name, title in slowest.items()
            ),
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


def select_with_seed(name: str, n_draws: int, seed: int, data: Data) -> Array:
    """Return the selection from real and permuted columns with one seed of the shadows."""
    X = some_columns(*power_sample(f"E18, {name}", 0, data))
    with threadpool_limits(1):
        model = fit(X, control="knockoff", n_shadows=4, n_draws=n_draws, random_state=seed)
    return np.asarray(model.support_)


def evaluate_agreement(
    names: tuple[str, ...], n_seeds: int, data: Data
) -> dict[tuple[str, int], float]:
    """Return the mean Jaccard index of all pairs of seeds, by dataset and number of draws."""
    keys = list(itertools.product(names, (1, N_AVERAGED)))
    calls = [(*key, seed, data) for key in keys for seed in range(n_seeds)]
    found = iter(run_calls(select_with_seed, calls))
    return {key: mean_jaccard(list(itertools.islice(found, n_seeds))) for key in keys}


def mean_jaccard(selections: list[Array]) -> float:
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
    cells = evaluate_cells(SOME_CELLS if quick else CELLS, quick, data)
    names = REAL_DATASETS[:1] if quick else REAL_DATASETS
    sizes = {f"E17, n = {n}": n for n in (E17_SIZES[1:2] if quick else E17_SIZES)}
    counts = {
        **dict.fromkeys(sizes, 2 if quick else N_E17_DRAWS),
        **dict.fromkeys((f"E18, {name}" for name in names), 1 if quick else N_E18_DRAWS),
    }
    powers = evaluate_power(counts, data)
    agreements = evaluate_agreement(names, 2 if quick else N_SEEDS, data)
    rows = [
        *(row for cell in cells for row in rows_of_cell(cell)),
        *(
            Row(f"{name}, {n_draws} draws: mean Jaccard index of two seeds", value)
            for (name, n_draws), value in agreements.items()
        ),
        *(row for title, power in powers.items() for row in rows_of_power(title, power)),
    ]
    smallest = {
        n_draws: min(agreements[name, n_draws] for name in names) for n_draws in (1, N_AVERAGED)
    }
    claims = [
        *claims_of_rate(cells),
        *claims_of_power(powers, sizes),
        Claim(
            f"the selections of {N_SEEDS} seeds from real columns have a mean Jaccard index of at "
            f"least {MIN_JACCARD:g} with {N_AVERAGED} draws, on each dataset",
            smallest[N_AVERAGED] >= MIN_JACCARD,
            f"smallest {smallest[N_AVERAGED]:.3f}; with one draw {smallest[1]:.3f}",
        ),
    ]
    for n_shadows in SHADOWS:
        n_empty = 5 if quick else N_EMPTY_DRAWS[n_shadows]
        calls = [(n_shadows, draw) for draw in range(n_empty)]
        any_selected = np.array(run_calls(select_from_noise, calls), dtype=float)
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
        f"{N_DRAWS[1]} with one shadow, {N_DRAWS[4]} with four, {N_DRAWS[0]} of "
        'Benjamini-Hochberg (BH) with the same `null`. Power and agreement: `null="robust"`; '
        f"{N_E17_DRAWS} draws of E17, {N_E18_DRAWS} of each dataset of E18. Fewer draws of 400 "
        "rows and of missing values. At least 1 / (rate "
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
