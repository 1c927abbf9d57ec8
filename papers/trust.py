"""E23: error rates and interval coverage in situations that violate assumptions.

Each `Guarantee` is an estimator, an error rate and its maximum; each `Situation` of `situations`
draws data. A cell is the mean error over independent draws. Its verdict follows from a rule:

* holds: the mean is at most the maximum plus two standard errors. The standard error of a
  proportion of draws is that at the maximum; with few draws, the estimated one is too large;
* warns: it is not, but a diagnostic warning is issued in at least 90 % of the draws;
* limitation: neither, but `LIMITATIONS` quotes the page that documents it;
* fails: none of these.

To test another estimator, add a `Guarantee`; to test another violation, add a `Situation`.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from prosparse.errors import (
    FewerComponentsWarning,
    FewVariablesWarning,
    NoStructureWarning,
    ShortPanelWarning,
)
from prosparse.models.fdrpca import FDRPCA
from prosparse.models.panel import Panel
from prosparse.models.spinyreg import SpinyClassifier, SpinyRegressor
from prosparse.stability import stability_selection

from .base import Claim, Experiment, PageTable, Result, Row
from .data import Data
from .situations import SITUATIONS, Sample, Situation

Array = np.ndarray

SEED = 23
MAX_RATE = 0.06  # maximum error rate at a nominal rate of 0.05
MAX_MISSED = 0.08  # maximum proportion outside 95 % intervals, as in E22
MIN_WARNED = 0.9  # proportion of draws with a warning in a cell that "warns"
MAX_FALSE_ALARMS = 0.1  # maximum proportion of draws of Gaussian data with a diagnostic warning
N_EFFECTS = 5  # number of nonzero coefficients of a regression
N_SUBSAMPLES = 10  # number of halves in stability selection
PANEL_SIZE = 10
N_NULL_DRAWS, N_SHARED_DRAWS = 75, 75  # numbers of draws of FDRPCA
N_DRAWS, N_STABILITY_DRAWS = 18, 2  # numbers of draws of the others
SOME_SITUATIONS = (  # situations of a quick run
    "Gaussian",
    "three rows times 5",
    "time series, AR(1) with correlation 0.7",
    "10 columns",
)
# These warnings report the result, not a violated assumption.
UNINFORMATIVE = (
    ConvergenceWarning,
    FewerComponentsWarning,
    FewVariablesWarning,
    NoStructureWarning,
    ShortPanelWarning,
)

Verdict = Literal["holds", "warns", "limitation", "fails"]


# --- guarantees


class Outcome(NamedTuple):
    """Error of one draw; None if it is undefined, e.g. if no variable is selected."""

    error: float | None
    power: float | None = None  # proportion of the true variables that are selected


Evaluate = Callable[[Sample, np.random.Generator], Outcome]


class Guarantee(NamedTuple):
    """An error rate that an estimator claims."""

    estimator: str
    quantity: str
    limit: float
    shared: bool  # whether some columns share variance
    evaluate: Evaluate
    n_draws: int
    max_columns: int = 1_000
    min_rows: int = 1
    min_groups: int = 1

    @property
    def accepts_covariates(self) -> bool:
        """Whether the estimator accepts covariates of the rows."""
        return "FDRPCA" in self.estimator

    @property
    def name(self) -> str:
        return f"{self.estimator}: {self.quantity}"

    @property
    def is_proportion_of_draws(self) -> bool:
        """Whether the error of a draw is 0 or 1."""
        return self.quantity.startswith("any selection")


def score_support(support: Array, truth: Array) -> Outcome:
    """Return the false discovery proportion and the power of a selection."""
    n_true = int(truth.sum())
    false = float(np.sum(support & ~truth)) / max(1, int(support.sum()))
    return Outcome(false, float(np.sum(support & truth)) / n_true if n_true else None)


def select_shared(null: Literal["robust", "exchangeable"]) -> Evaluate:
    """Return the evaluation of FDRPCA. Without true columns the error is that of any selection."""

    def evaluate(sample: Sample, rng: np.random.Generator) -> Outcome:
        model = FDRPCA(null=null, counts=sample.counts)
        model.fit(sample.X, groups=sample.groups, covariates=sample.covariates)
        return score_support(model.support_, sample.truth)

    return evaluate


def regress_noise(sample: Sample, rng: np.random.Generator) -> Outcome:
    """Regress an independent column on the others."""
    model = SpinyRegressor().fit(sample.X, sample.response, groups=sample.groups)
    return Outcome(float(model.n_selected_ > 0))


def classify_noise(sample: Sample, rng: np.random.Generator) -> Outcome:
    """Classify rows by an independent column: above its median, or above 0 if that is a tie."""
    y = sample.response > np.median(sample.response)
    if min(y.sum(), y.size - y.sum()) < 2:  # Each class needs two rows.
        return Outcome(None)
    model = SpinyClassifier().fit(sample.X, y, groups=sample.groups)
    return Outcome(float(model.n_selected_ > 0))


def cover_coefficients(sample: Sample, rng: np.random.Generator) -> Outcome:
    """Return the proportion of selected coefficients outside their 95 % intervals.

    Five random columns have an effect of one standard deviation of the noise; the noise is a column
    of the same kind as the others.
    """
    scale = sample.X.std(axis=0)
    active = rng.permutation(np.flatnonzero(scale > 0.0))[:N_EFFECTS]
    coef = np.zeros(scale.size)
    coef[active] = rng.choice([-1.0, 1.0], active.size) * sample.response.std() / scale[active]
    y = sample.X @ coef + sample.response
    model = SpinyRegressor().fit(sample.X, y, groups=sample.groups)
    selected = model.support_
    power = float(np.mean(selected[active]))
    if not selected.any():
        return Outcome(None, power)
    low, high = model.coef_interval(0.95).T
    outside = (coef < low) | (coef > high)
    return Outcome(float(np.mean(outside[selected])), power)


def cover_unmeasured(sample: Sample, rng: np.random.Generator) -> Outcome:
    """Return the proportion of unmeasured entries of new rows outside their 95 % intervals."""
    n, p = sample.X.shape
    order = rng.permutation(n)
    train, test = order[: 2 * n // 3], order[2 * n // 3 :]
    groups = None if sample.groups is None else sample.groups[train]
    model = Panel(min(PANEL_SIZE, p // 2), counts=sample.counts)
    model.fit(sample.X[train], groups=groups)
    inside = model.support_
    totals = sample.X[test].sum(axis=1) if sample.counts else None
    _, low, high = model.predict_unmeasured(
        sample.X[np.ix_(test, inside)], return_interval=True, totals=totals
    )
    varying = (sample.X[train].std(axis=0) > 0.0)[~inside]
    new = sample.X[np.ix_(test, ~inside)]
    return Outcome(float(np.mean(((new < low) | (new > high))[:, varying])))


def bound_stable(sample: Sample, rng: np.random.Generator) -> Outcome:
    """Return the number of false stable variables minus its bound."""
    groups, covariates = sample.groups, sample.covariates
    model = FDRPCA(counts=sample.counts).fit(sample.X, groups=groups, covariates=covariates)
    found = stability_selection(
        model,
        sample.X,
        N_SUBSAMPLES,
        groups=groups,
        covariates=covariates,
        random_state=int(rng.integers(2**31)),
    )
    n_false = int(np.sum(found.stable & ~sample.truth))
    return Outcome(n_false - found.expected_false(), score_support(found.stable, sample.truth)[1])


FDRPCA_NAME, EXCHANGEABLE = "FDRPCA", 'FDRPCA, null="exchangeable"'
REGRESSOR, CLASSIFIER, PANEL = "SpinyRegressor", "SpinyClassifier", "Panel"
STABILITY = "stability selection of FDRPCA"
ANY, FALSE = "any selection without shared variance", "false discovery proportion"
ALL_COLUMNS = 100_000

GUARANTEES = (
    Guarantee(
        FDRPCA_NAME, ANY, MAX_RATE, False, select_shared("robust"), N_NULL_DRAWS, ALL_COLUMNS
    ),
    Guarantee(
        FDRPCA_NAME, FALSE, MAX_RATE, True, select_shared("robust"), N_SHARED_DRAWS, ALL_COLUMNS
    ),
    Guarantee(EXCHANGEABLE, ANY, MAX_RATE, False, select_shared("exchangeable"), N_DRAWS),
    Guarantee(EXCHANGEABLE, FALSE, MAX_RATE, True, select_shared("exchangeable"), N_DRAWS),
    Guarantee(
        REGRESSOR,
        "any selection without effects",
        MAX_RATE,
        True,
        regress_noise,
        N_DRAWS,
    ),
    Guarantee(
        REGRESSOR,
        "selected coefficients outside of intervals",
        MAX_MISSED,
        True,
        cover_coefficients,
        N_DRAWS,
    ),
    Guarantee(
        CLASSIFIER,
        "any selection without effects",
        MAX_RATE,
        True,
        classify_noise,
        N_DRAWS,
    ),
    Guarantee(
        PANEL,
        "unmeasured entries outside of intervals",
        MAX_MISSED,
        True,
        cover_unmeasured,
        N_DRAWS,
        min_rows=12,
    ),
    Guarantee(
        STABILITY,
        "false stable variables minus their bound",
        0.0,
        True,
        bound_stable,
        N_STABILITY_DRAWS,
        min_rows=20,
        min_groups=4,
    ),
)


# --- documented limitations


class Limitation(NamedTuple):
    """A sentence of the documentation and the cells that it explains."""

    page: str  # path of the file
    sentence: str
    estimators: tuple[str, ...]
    situations: tuple[str, ...]


NOISY_HALF = "a fifth of the rows times 3 in half of the columns"
UNEQUAL_ROWS = (
    "real columns, random signs",
    "row scale lognormal, sigma 0.15",
    "row scale lognormal, sigma 0.3",
    "rows multivariate t, 5 degrees of freedom",
    "rows multivariate t, 3 degrees of freedom",
    "one row times 3",
    "three rows times 5",
    "one row times 30",
    NOISY_HALF,
    "batches differ in noise, groups given",
    "batches differ in noise, groups not given",
    "two laboratories, groups given",
    "two laboratories, groups not given",
    "20 batches of unequal noise, given as covariate",
    "50,000 columns, row scale lognormal, sigma 0.15",
)
UNKNOWN_BATCHES = "batches shift columns, groups not given"
DROPOUT = "dropout by row"
UNEQUAL_DEPTH = "counts of unequal depth, counts=True"
DEPENDENT_ROWS = (
    "a quarter of the rows duplicated",
    "time series, AR(1) with correlation 0.7",
    "repeated measures, groups not given",
    "repeated measures in random order, groups not given",
)

LIMITATIONS = (
    Limitation(
        "docs/methods/fdrpca.md",
        'With `null="exchangeable"`, uncorrelated columns then become significant.',
        (EXCHANGEABLE,),
        UNEQUAL_ROWS,
    ),
    Limitation(
        "docs/limitations.md",
        "The shift is shared variance, so `FDRPCA` selects these genes.",
        (FDRPCA_NAME, EXCHANGEABLE, STABILITY),
        (UNKNOWN_BATCHES,),
    ),
    Limitation(
        "docs/limitations.md",
        "The test for this warning cannot detect repeated measures in random order. Count the "
        "independent units (patients, animals, plots), not the rows.",
        (FDRPCA_NAME, EXCHANGEABLE, STABILITY),
        ("repeated measures in random order, groups not given",),
    ),
    Limitation(
        "docs/limitations.md",
        "A factor that multiplies or censors the positive values of a row (dilution, dropout) "
        "makes all columns correlated, and `FDRPCA` selects them.",
        (FDRPCA_NAME, EXCHANGEABLE, STABILITY),
        (DROPOUT,),
    ),
    Limitation(
        "docs/methods/spinyregressor.md",
        "If the batch, the depth or the dropout rate of a row affects both, variables without an "
        "effect on the response are selected",
        (REGRESSOR,),
        (UNKNOWN_BATCHES, DROPOUT, UNEQUAL_DEPTH),
    ),
    Limitation(
        "docs/methods/spinyregressor.md",
        "The test is valid if rows are exchangeable, for columns and responses of any "
        "distribution. Rows of a time series are not exchangeable.",
        (REGRESSOR,),
        DEPENDENT_ROWS,
    ),
    Limitation(
        "docs/methods/spinyregressor.md",
        "The model assumes that the response is linear in the variables, rows are independent, and "
        "the noise has a Gaussian or Student's t distribution.",
        (REGRESSOR,),
        (
            "counts of mean 0.03 alongside Gaussian structure",
            "lognormal columns, sigma 1.5, alongside Gaussian structure",
        ),
    ),
    Limitation(
        "docs/methods/spinyregressor.md",
        "If the same rows are noisier in the response and in some of the variables only, variables "
        "without an effect may be selected without a warning",
        (REGRESSOR,),
        (NOISY_HALF,),
    ),
    Limitation(
        "docs/methods/spinyclassifier.md",
        "If the batch, the depth or the dropout rate of a row affects both, variables without an "
        "effect on the classes are selected",
        (CLASSIFIER,),
        (UNKNOWN_BATCHES, DROPOUT, UNEQUAL_DEPTH),
    ),
    Limitation(
        "docs/methods/spinyclassifier.md",
        "The log odds are linear in the variables, and rows are independent.",
        (CLASSIFIER,),
        DEPENDENT_ROWS,
    ),
    Limitation(
        "docs/methods/panel.md",
        "Differences between groups are not predicted, so intervals cover fewer entries of new "
        "rows if groups differ.",
        (PANEL,),
        ("batches shift columns, groups given", "repeated measures, groups given"),
    ),
)


# --- cells


class Cell(NamedTuple):
    """Errors of one guarantee in one situation."""

    guarantee: Guarantee
    situation: Situation
    errors: Array  # of the draws in which the error is defined
    powers: Array
    warned: dict[str, float]  # proportion of all draws, by diagnostic warning
    any_warning: float  # proportion of draws with any diagnostic warning
    n_draws: int

    @property
    def mean(self) -> float:
        return float(self.errors.mean())

    @property
    def standard_error(self) -> float:
        if self.errors.size < 2:
            return math.inf
        return float(self.errors.std(ddof=1)) / math.sqrt(self.errors.size)

    @property
    def largest_valid(self) -> float:
        """Largest mean that holds."""
        limit, error = self.guarantee.limit, self.standard_error
        if self.guarantee.is_proportion_of_draws:
            error = math.sqrt(limit * (1.0 - limit) / self.errors.size)
        return limit + 2.0 * error

    @property
    def limitation(self) -> int | None:
        """Position of the limitation that documents the cell."""
        for k, limitation in enumerate(LIMITATIONS):
            if (
                self.guarantee.estimator in limitation.estimators
                and self.situation.name in limitation.situations
            ):
                return k
        return None

    @property
    def verdict(self) -> Verdict:
        if self.mean <= self.largest_valid:
            return "holds"
        if self.any_warning >= MIN_WARNED:
            return "warns"
        return "fails" if self.limitation is None else "limitation"


def seeded(situation: Situation, draw: int, shared: bool) -> np.random.Generator:
    """Return random numbers that do not depend on the other situations."""
    return np.random.default_rng([SEED, zlib.crc32(situation.name.encode()), draw, int(shared)])


def evaluate_draw(
    guarantee: Guarantee, situation: Situation, draw: int, data: Data
) -> tuple[Outcome, set[str]] | None:
    """Evaluate one draw; return also the diagnostic warnings. None if it does not apply."""
    rng = seeded(situation, draw, guarantee.shared)
    sample = situation.draw(rng, guarantee.shared, data)
    if not applies(guarantee, sample):
        return None
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        outcome = guarantee.evaluate(sample, rng)
    names = {
        warning.category.__name__
        for warning in caught
        if warning.category.__module__.startswith("prosparse")
        and not issubclass(warning.category, UNINFORMATIVE)
    }
    return outcome, names


def applies(guarantee: Guarantee, sample: Sample) -> bool:
    """Return whether the estimator accepts the data in the time available."""
    n, p = sample.X.shape
    if sample.covariates is not None and not guarantee.accepts_covariates:
        return False
    if sample.groups is not None and np.unique(sample.groups).size < guarantee.min_groups:
        return False
    return n >= guarantee.min_rows and p <= guarantee.max_columns


Draw = tuple[Outcome, set[str]] | None  # outcome and names of the diagnostic warnings


def evaluate_cells(
    pairs: Iterable[tuple[Guarantee, Situation]], numbers: Iterable[int], data: Data
) -> list[Cell | None]:
    """Evaluate a number of draws of each pair; None for guarantees that do not apply.

    joblib runs all draws, in parallel within ``joblib.parallel_config(n_jobs=8)``.
    """
    planned = list(zip(pairs, numbers, strict=True))
    draws: list[Draw] = Parallel()(
        delayed(evaluate_draw)(*pair, draw, data)
        for pair, number in planned
        for draw in range(number)
    )
    remaining = iter(draws)
    return [summarise_draws(*pair, list(islice(remaining, number))) for pair, number in planned]


def summarise_draws(guarantee: Guarantee, situation: Situation, draws: list[Draw]) -> Cell | None:
    """Return the errors of a cell; None if the guarantee applies to no draw."""
    results = [draw for draw in draws if draw is not None]
    counts = Counter(name for _, names in results for name in names)
    errors = [outcome.error for outcome, _ in results if outcome.error is not None]
    if not errors:
        return None
    return Cell(
        guarantee,
        situation,
        np.array(errors),
        np.array([outcome.power for outcome, _ in results if outcome.power is not None]),
        {name: count / len(draws) for name, count in sorted(counts.items())},
        sum(bool(names) for _, names in results) / len(draws),
        len(draws),
    )


def number_of_draws(guarantee: Guarantee, situation: Situation, quick: bool) -> int:
    usual = max(2, guarantee.n_draws // 25) if quick else guarantee.n_draws
    is_slow = guarantee.estimator in (FDRPCA_NAME, STABILITY)
    return max(2, round(situation.effort * usual)) if is_slow else usual


# --- results


def rows_of(cell: Cell) -> list[Row]:
    """Return the error and the power of a cell."""
    name = f"{cell.situation.name}: {cell.guarantee.name}"
    error = cell.standard_error
    notes = [cell.verdict, f"{cell.errors.size} of {cell.n_draws} draws"]
    notes += [f"{warning} {proportion:.2f}" for warning, proportion in cell.warned.items()]
    rows = [Row(name, cell.mean, error if math.isfinite(error) else None, note="; ".join(notes))]
    if cell.powers.size:
        rows.append(Row(f"{name}: power", float(cell.powers.mean())))
    return rows


def show(cell: Cell | None) -> str:
    """Return the mean error with a mark of the verdict."""
    if cell is None:
        return ""
    text = f"{cell.mean:.2f}"
    limitation = cell.limitation
    if cell.verdict == "limitation" and limitation is not None:
        return f"{text} [{limitation + 1}]"
    return {"holds": text, "warns": f"{text} w", "fails": f"**{text}**"}[cell.verdict]


def show_power(cell: Cell | None) -> str:
    return f"{cell.powers.mean():.2f}" if cell is not None and cell.powers.size else ""


COLUMNS = (  # heading, guarantee, whether the column shows the power
    ("FDRPCA: any", 0, False),
    ("false", 1, False),
    ("power", 1, True),
    ("exchangeable: any", 2, False),
    ("false", 3, False),
    ("power", 3, True),
    ("SpinyRegressor: any", 4, False),
    ("outside", 5, False),
    ("SpinyClassifier: any", 6, False),
    ("Panel: outside", 7, False),
    ("stability", 8, False),
)

Matrix = dict[tuple[str, str], Cell]  # by names of situation and guarantee


def matrix_table(cells: Matrix, situations: Iterable[Situation]) -> PageTable:
    """Return the table of the page, one row per situation."""
    rows = []
    for situation in situations:
        row = [situation.name]
        for _, position, power in COLUMNS:
            cell = cells.get((situation.name, GUARANTEES[position].name))
            row.append(show_power(cell) if power else show(cell))
        rows.append((*row, describe_warnings(cells, situation)))
    header = ("situation", *(heading for heading, _, _ in COLUMNS), "warnings of FDRPCA")
    return PageTable("", header, rows)


def describe_warnings(cells: Matrix, situation: Situation) -> str:
    """Return the diagnostic warnings of FDRPCA with the larger of two proportions of draws."""
    largest: dict[str, float] = {}
    for guarantee in GUARANTEES[:2]:
        cell = cells.get((situation.name, guarantee.name))
        for name, proportion in cell.warned.items() if cell is not None else ():
            largest[name] = max(largest.get(name, 0.0), proportion)
    return ", ".join(f"{name} {proportion:.2f}" for name, proportion in largest.items())


def limitations_table(cells: Iterable[Cell]) -> PageTable:
    """Return the documented limitations to which cells refer."""
    used = {cell.limitation for cell in cells if cell.verdict == "limitation"}
    rows: list[tuple[str, ...]] = [
        (f"[{k + 1}]", f"`{limitation.page}`", limitation.sentence)
        for k, limitation in enumerate(LIMITATIONS)
        if k in used
    ]
    return PageTable("Documented limitations", ("", "page", "sentence"), rows)


def make_claims(cells: Iterable[Cell]) -> list[Claim]:
    """Return one claim per estimator, and one about warnings in data without violations."""
    claims = []
    cells = list(cells)
    for estimator in dict.fromkeys(guarantee.estimator for guarantee in GUARANTEES):
        own = [cell for cell in cells if cell.guarantee.estimator == estimator]
        verdicts = Counter(cell.verdict for cell in own)
        failed = [
            f"{cell.situation.name}, {cell.guarantee.quantity} {cell.mean:.3f} ± "
            f"{cell.standard_error:.3f}"
            for cell in own
            if cell.verdict == "fails"
        ]
        note = (
            f"holds in {verdicts['holds']} of {len(own)} cells, warns in {verdicts['warns']}, "
            f"documented limitation in {verdicts['limitation']}"
        )
        claims.append(
            Claim(
                f"{estimator}: each error rate holds, is announced by a warning or is a documented "
                "limitation",
                not failed,
                "; ".join([note, *(f"fails: {text}" for text in failed)]),
            )
        )
    alarms = [cell.any_warning for cell in cells if cell.situation.name == "Gaussian"]
    claims.append(
        Claim(
            f"in Gaussian data at most {MAX_FALSE_ALARMS:.0%} of the fits issue a diagnostic "
            "warning",
            max(alarms) <= MAX_FALSE_ALARMS,
            f"largest proportion {max(alarms):.2f}",
        )
    )
    return claims


def describe() -> str:
    """Describe the design and the notation of the page."""
    return (
        "100 rows and 150 columns unless the situation states otherwise. With shared variance, 20 "
        "columns depend on three factors. Any: proportion of datasets without shared variance, or "
        "without effects, in which a variable is selected. False: mean false discovery proportion "
        'at `fdr=0.05`. Exchangeable: `FDRPCA(null="exchangeable")`. Outside: proportion of the '
        "selected coefficients, or of the unmeasured entries of new rows, outside of 95 % "
        "intervals. Stability: mean number of false stable variables minus the bound of Shah & "
        f"Samworth (2013), {N_SUBSAMPLES} halves. A rate of at most {MAX_RATE:g}, a proportion "
        f"outside of intervals of at most {MAX_MISSED:g} and a difference of at most 0, plus two "
        "standard errors, hold. Other cells are marked: w, a diagnostic warning is issued in at "
        f"least {MIN_WARNED:.0%} of the draws; [k], documented limitation k; bold, neither. Empty "
        "cells do not apply: the data have too few rows or groups, too many columns, or "
        "covariates that the estimator does not accept. "
        f"Draws per cell: FDRPCA {N_NULL_DRAWS} (any) and {N_SHARED_DRAWS} (false), stability "
        f"{N_STABILITY_DRAWS}, others {N_DRAWS}; FDRPCA has fewer in five situations with long "
        "fits. "
        "The record contains standard errors, numbers of draws and warnings of all cells."
    )


def evaluate_all(situations: Iterable[Situation], quick: bool, data: Data) -> Matrix:
    """Evaluate each guarantee in each situation to which it applies."""
    pairs = [
        (guarantee, situation)
        for situation in situations
        for guarantee in GUARANTEES
        if guarantee.shared or situation.has_null
    ]
    numbers = [number_of_draws(*pair, quick) for pair in pairs]
    cells = zip(pairs, evaluate_cells(pairs, numbers, data), strict=True)
    return {
        (situation.name, guarantee.name): cell
        for (guarantee, situation), cell in cells
        if cell is not None
    }


def result_of(cells: Matrix, situations: Iterable[Situation]) -> Result:
    """Return rows, claims and tables."""
    rows = [row for cell in cells.values() for row in rows_of(cell)]
    tables = (matrix_table(cells, situations), limitations_table(cells.values()))
    seeds = f"{SEED}, the name of the situation and the number of the draw"
    return Result(rows, make_claims(cells.values()), [], seeds, describe(), tables)


def run(quick: bool, data: Data, output: Path) -> Result:
    """Run E23."""
    situations = [
        situation for situation in SITUATIONS if not quick or situation.name in SOME_SITUATIONS
    ]
    return result_of(evaluate_all(situations, quick, data), situations)


EXPERIMENTS = (
    Experiment(
        "E23",
        "Error rates and intervals under violated assumptions",
        "Not from a paper: every estimator that claims an error rate or an interval",
        tuple(dict.fromkeys(source for situation in SITUATIONS for source in situation.data)),
        run,
    ),
)
