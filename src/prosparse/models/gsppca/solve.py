"""From a table to chosen variables and their components: rank, weigh, choose.

The relaxed model ranks the variables (`model`), the evidence along the ranking says how many to
keep (`evidence`), and PCA on those columns gives the components. If the number of components is
left to the data, it is that of the columns which share structure with others beyond chance
(`structure.shared_variables`), whatever the noise of each.
"""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Literal, NamedTuple

import numpy as np

from ...data import Array, DenseOperator, Operator
from ...data.arrays import is_numpy, precision_of, to_numpy
from ...errors import ParameterError
from ...inference.acceleration import over_loadings
from ...inference.checkpoint import Checkpoint
from ...inference.loop import Run, StopReason, iterate, residual_rounding
from ...inference.progress import Progress
from ...numerics.spectrum import Spectrum, principal_components, spectrum
from ...selection.dimension import resolve_dimension
from ...selection.model_priors import log_prior
from ...selection.noise import noise_variance
from ...structure import StandardisedData, count_components, select_shared_variables
from .diagnostics import (
    Doubt,
    doubts_about_rows,
    doubts_about_structure,
    nothing_left,
    nothing_shared,
)
from .evidence import EvidenceKind, NestedModels
from .factors import (
    LatentState,
    make_latent_step,
    make_mixed_step,
    over_latents,
    with_latents,
)
from .model import State, init, least_noise, make_step, ranking, relevance
from .quasi_newton import QuasiNewton

NoiseEstimator = Literal["bias-corrected", "ml", "median"]
ModelPrior = Literal["uniform", "sparse"]

FIRST_COUNT = 50  # eigenvalues to look at, of a table too large for all of them
# Weights from which single precision saves time.
FEWEST_WEIGHTS = 2**16
# Entries of a table of which a copy in single precision, 64 MiB, is made for the early passes.
LARGEST_COPY = 2**24
# Digits, after the point, of a variance as a share of the largest: more are rounding.
SAME_VARIANCE = 9
COUNTED_RATE = 0.05  # of false discoveries among the columns whose components "auto" counts


class Options(NamedTuple):
    """What the user decides; see `GSPPCA`."""

    n_components: int | Literal["auto"]
    n_features_to_select: int | None
    scaled: bool  # every column of the table has the same variance
    noise: NoiseEstimator
    evidence: EvidenceKind
    model_prior: ModelPrior
    max_iter: int
    tol: float
    verbose: int
    checkpoint: Checkpoint | None


class ChosenVariables(NamedTuple):
    """A set of variables for one number of components, and how it came about."""

    d: int
    run: Run[State] | Run[LatentState]  # of the relaxed model
    order: np.ndarray  # (p,) variables, the most relevant first
    noise: float  # variance of the inactive variables
    cardinalities: np.ndarray  # (m,) tried
    log_evidence: np.ndarray  # (m,) with the model prior's share
    best: int  # which of them

    @property
    def columns(self) -> np.ndarray:
        """The chosen variables, in the order of the table."""
        return np.sort(self.order[: self.cardinalities[self.best]])


class Solution(NamedTuple):
    """All that a fit finds, in the operator's columns and units."""

    n_components: int
    order: np.ndarray  # (p,) variables, the most relevant first
    relevance: np.ndarray  # (p,) between 0 and 1
    chosen: np.ndarray  # (q,) variables kept
    components: Array  # (d, q) orthonormal rows, on these
    variances: np.ndarray  # (d,) along them
    shares: np.ndarray  # (d,) of the variance of all columns
    noise: float  # variance of the inactive variables
    active_noise: float  # of the active ones around the components
    cardinalities: np.ndarray  # (m,) tried
    log_evidence: np.ndarray  # (m,) with the model prior's share
    best: int  # which of them was chosen
    bounds: np.ndarray  # (n_iter,) of the relaxed model
    reason: StopReason
    doubts: list[Doubt]


def solve(op: Operator, options: Options, scaled: Operator | None = None) -> Solution:
    """Choose the variables of a standardised table and find their components.

    Parameters
    ----------
    op : Operator
        The table.
    options : Options
    scaled : Operator or None
        The table with columns of one variance, on which components are counted if their number
        is left to the data.

    Returns
    -------
    Solution
    """
    parts, d, found = first_count(op, options, scaled)
    choice = choose(op, parts, d, options)
    chosen, n = choice.columns, parts.n
    squares = to_numpy(op.column_squares())
    components, along = principal_components(op.take_columns(chosen), d)
    free = (n - 1) * (chosen.size - d)
    around = (squares[chosen].sum() - along.sum()) / free if free else choice.noise
    return Solution(
        n_components=d,
        order=choice.order,
        relevance=relevance(choice.run.state),
        chosen=chosen,
        components=components,
        variances=along / (n - 1),
        shares=along / squares.sum(),
        noise=choice.noise,
        active_noise=max(float(around), least_noise(parts)),
        cardinalities=choice.cardinalities,
        log_evidence=choice.log_evidence,
        best=choice.best,
        bounds=np.array(choice.run.bounds),
        reason=choice.run.reason,
        doubts=doubts_about(op, parts, choice, d, options, found),
    )


def first_count(
    op: Operator, options: Options, scaled: Operator | None
) -> tuple[Spectrum, int, bool]:
    """As much of the spectrum as the number of components needs, that number, and whether any
    structure was found where it was looked for.

    "auto" does not count eigenvalues of the table: those of columns with noise of their own stand
    out from white noise whatever the columns share. It looks for the columns that share
    structure, each against its own noise, and counts their components.
    """
    asked, found = options.n_components, True
    if isinstance(asked, str) and asked == "auto" and scaled is not None:
        data = StandardisedData(scaled)
        selected = select_shared_variables(data, COUNTED_RATE).selected
        found = bool(selected.any())
        asked = max(1, count_components(data, selected))
        asked = min(asked, min(op.shape) - 1, options.n_features_to_select or asked)
    count = max(1, int(asked)) if isinstance(asked, Integral) else FIRST_COUNT
    parts = spectrum(op, count)
    return parts, dimension(parts, options._replace(n_components=asked)), found


def dimension(parts: Spectrum, options: Options) -> int:
    """The number of components, checked against the table and the wanted cardinality."""
    p, wanted = parts.table.shape[1], options.n_features_to_select
    d = resolve_dimension(options.n_components, parts, wanted, white_noise(parts, options))
    if wanted is not None and not d <= wanted <= p:
        raise ParameterError(
            f"`n_features_to_select` must be between `n_components` = {d} and the number of "
            f"columns that vary, {p}, got {wanted}"
        )
    return d


def white_noise(parts: Spectrum, options: Options) -> float | None:
    """The variance of every column, where scaling made it known."""
    return parts.n / (parts.n - 1) if options.scaled else None


def choose(op: Operator, parts: Spectrum, d: int, options: Options) -> ChosenVariables:
    """Rank the variables with d components, and weigh how many to keep."""
    run = relax(parts, d, options)
    empty = run.reason is StopReason.NOTHING_LEFT
    order = order_in_an_empty_model(parts, d) if empty else ranking(run.state)
    noise = inactive_noise(parts, to_numpy(op.column_squares()), d, run.state.sigma2, options)
    q, log_evidence = weigh(op, order, d, noise, options)
    return ChosenVariables(d, run, order, noise, q, log_evidence, int(np.argmax(log_evidence)))


def order_in_an_empty_model(parts: Spectrum, d: int) -> np.ndarray:
    """Variables by their variance: alone, one of larger variance would come in sooner. Those of the
    same variance, as scaled ones are, by what the first d principal components explain of them.

    The relaxed model's own order depends on the way by which it became empty.
    """
    squares = to_numpy(parts.table.column_squares())
    explained = to_numpy(parts.directions(d) ** 2 @ parts.eigenvalues[:d])
    variances = np.round(squares / squares.max(), SAME_VARIANCE)
    return np.lexsort((-explained, -variances))


def relax(parts: Spectrum, d: int, options: Options) -> Run[State] | Run[LatentState]:
    """Fit the relaxed model.

    The iterations are a cycle from q(W) to q(Y) and back. It is cut, and accelerated, where the
    numbers are fewer: at q(Y), if the table has no more rows than columns.
    """
    table, xp, n, p = parts.table, parts.table.xp, parts.n, parts.table.shape[1]
    total, epsilon = float(xp.sum(table.column_squares())), table.epsilon
    file, tol = options.checkpoint, options.tol * n * p
    run = partial(
        iterate,
        max_iter=options.max_iter,
        tol=tol,
        exhausted=lambda state: not bool(xp.any(state.t > 0)),
        rounding=lambda state: residual_rounding(state, total, state.sigma2, epsilon),
        progress=Progress(options.max_iter, "GSPPCA", options.verbose),
        checkpoint=file.stage(f"{d} components") if file else None,
    )
    if table.shape[0] > p:
        step = make_step(table, n)
        return run(step, init(parts, d), accelerator=over_loadings("M", xp, QuasiNewton))
    rough, start = in_single_precision(table, d), with_latents(init(parts, d), table)
    accelerator = over_latents(start, xp)
    if rough is None:
        return run(make_latent_step(table, n), start, accelerator=accelerator)
    mixed = make_mixed_step(table, n, rough, tol)
    return run(mixed, start._replace(single=True), accelerator=accelerator)


def in_single_precision(table: Operator, d: int) -> Operator | None:
    """A copy for the early passes, or None where it does not pay: where calls of functions cost
    more than arithmetic, where the table is in single precision itself, on a GPU, whose memory the
    copy may fill, or too large for a copy beside it."""
    X = table.whole
    if X is None or not is_numpy(X) or precision_of(X) == "float32":
        return None
    if d * X.shape[1] < FEWEST_WEIGHTS or X.size > LARGEST_COPY:
        return None
    with np.errstate(all="ignore"):
        return DenseOperator(table.xp.astype(X, table.xp.float32))


def inactive_noise(
    parts: Spectrum, squares: np.ndarray, d: int, relaxed: float, options: Options
) -> float:
    """Variance of the inactive variables; ``relaxed`` is the relaxed model's noise."""
    # Scaled columns all have one variance: the residual of active ones would mislead.
    kind = "median" if options.scaled else options.noise
    noise = noise_variance(kind, to_numpy(parts.eigenvalues), squares, parts.n, d)
    floor = least_noise(parts)
    # d components may fit exactly: take what noise the relaxed model leaves.
    return noise if noise > floor else max(relaxed, floor)


def weigh(
    op: Operator, order: np.ndarray, d: int, noise: float, options: Options
) -> tuple[np.ndarray, np.ndarray]:
    """Cardinalities and their log evidence, with the model prior's share."""
    wanted = options.n_features_to_select
    q = np.arange(d + 1, op.shape[1] + 1) if wanted is None else np.array([wanted])
    with Progress(None, "GSPPCA, evidence", options.verbose) as bar:
        models = NestedModels(op, order, d, noise, options.evidence, bar.advance)
        return models.search(q, lambda some: log_prior(options.model_prior, some, *op.shape))


def doubts_about(
    op: Operator, parts: Spectrum, choice: ChosenVariables, d: int, options: Options, found: bool
) -> list[Doubt]:
    """What the user should know before reading the choice; ``found`` says whether columns that
    share structure were found, where they were looked for."""
    if choice.run.reason is StopReason.NOTHING_LEFT:
        return [nothing_left()]
    if not found:
        return [nothing_shared(COUNTED_RATE)]
    smallest = choice.cardinalities.size > 1 and choice.best == 0
    white = white_noise(parts, options)
    doubts = doubts_about_structure(op, parts, choice.columns, d, choice.noise, white, smallest)
    if options.evidence == "noiseless":
        doubts += doubts_about_rows(op, choice.noise)
    return doubts
