"""`Panel` as users see it: parameters in, attributes out. The mathematics begins in `model`."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, check_is_fitted

from ...data import Array, Columns, Operator, container_of, standardise
from ...data.arrays import TableLike, as_like, from_numpy, is_floating, to_numpy
from ...data.containers import Table
from ...data.counts import hellinger, row_totals
from ...data.groups import ColumnGroup, positions
from ...data.row_groups import RowGroups, row_groups
from ...errors import (
    InputError,
    NoStructureWarning,
    ParameterError,
    ShortPanelWarning,
    check_bool,
    check_choice,
    check_integer,
    warn,
)
from .._base import SparseProjection, check_varying, seed_of
from .factors import onto_columns
from .greedy import Criterion
from .heldout_r2 import columns_of
from .model import Options, Solution, solve

# Rows below which there is nothing to hold out.
FEWEST_ROWS = 6
# Deviations from the means of groups that are smaller than this, in units of the precision, are
# rounding: the column is the same throughout each group.
_ROUNDING = 1e3
# Where all other columns tell less than this share of every column, nothing is shared.
_NOTHING = 0.05
# In units of its variance in `fit`, a column of new rows counts no more than this.
_MOST_VARIANCE = 4.0


class Panel(SparseProjection):
    """A few variables from which all others can be told.

    The variables come in an order in which each is worth most given those before: not the most
    relevant ones, which tend to say the same, but those that together leave the least error in
    rebuilding what all variables have in common. Of variables that are worth about the same, the
    one that varies more in the units of the table is taken; where units mean nothing, standardise
    it first. What a panel recovers is measured in rows that were held out, with panels that were
    chosen without these rows.

    Parameters
    ----------
    n_features_to_select : int or None, default=None
        How many variables. None: the smallest panel that predicts all other variables at least
        ``target_recovery`` times as well as all variables together do, in held-out rows.
    target_recovery : float, default=0.9
        See ``n_features_to_select``; not used where that is given.
    criterion : {"reconstruction", "information"}, default="reconstruction"
        What a variable is worth: the error in rebuilding all variables that it takes away, or the
        information about the latent scores that it adds. The latter is within 1 - 1/e of the best
        possible, and ``bound_path_`` says how far; it is better where a handful of variables is
        wanted from a table with few rows, and worse at rebuilding.
    include : column names, positions or a mask, default=()
        Variables that must be in: known markers, sensors already bought. They come first.
    exclude : column names, positions or a mask, default=()
        Variables that must not be in. They are rebuilt like all others.
    costs : array (n_features_in_,) or None, default=None
        What each variable costs. The worth of a variable is then divided by its cost.
    bundles : list of column groups or None, default=None
        Variables that come together or not at all, as names, slices or positions for each bundle;
        those in no bundle come alone. None is cut, so that a panel may have fewer variables than
        ``n_features_to_select``; with one of its variables in ``include`` or ``exclude`` a bundle is in or out.
    counts : bool, default=False
        Whether the table holds counts (molecules of genes, words, species). They are replaced by
        square roots of their shares of the row, whose noise is the same for all columns, and are
        not scaled; a sparse table stays sparse.
    random_state : int, RandomState or None, default=0
        Which rows are held out together.
    verbose : int, default=0
        Not used: there is nothing to wait for.

    Attributes
    ----------
    order_ : int array (n_selected_,)
        Positions of the chosen variables, the one that is worth most first.
    support_ : bool array (n_features_in_,)
        The chosen variables.
    n_selected_ : int
        How many they are.
    heldout_r2_path_ : array (n_tried,)
        The share of the variance of all variables that panels of 1, 2, ... variables recover in
        held-out rows. The panel's own variables count as recovered.
    heldout_r2_path_std_ : array (n_tried,)
        Its standard deviation over the parts of the rows that were held out.
    relative_r2_path_ : array (n_tried,)
        What these panels predict of all other variables in held-out rows, as a share of what all
        variables together predict of them: what ``target_recovery`` is compared with.
    bound_path_ : array (n_tried,)
        What no choice of 1, 2, ... variables can exceed, in units of the criterion.
    criterion_path_ : array (n_tried,)
        What is reached by 1, 2, ... variables taken one after the other, in the same units. The
        panel, some of whose variables may have been exchanged for better ones, reaches no less.
    attainable_r2_ : float
        The share of a variable that all others together predict in held-out rows, on average.
    heldout_r2_ : array (n_features_in_,)
        The share of each variable that the panel recovers in held-out rows; 1 for its own.
    heldout_r2_by_group_ : dict
        The share that is recovered in the rows of each group; empty without groups.
    communality_ : array (n_features_in_,)
        The share of each variable that all others predict in held-out rows.
    proxy_ : int array (n_features_in_,)
        The position of the chosen variable that stands for each variable, -1 for those of which
        the panel tells little.
    components_ : array (n_components_, n_features_in_)
        What a centred row is multiplied with to give its latent scores: exact zeros for variables
        that are not in the panel.
    loadings_ : array (n_components_, n_features_in_)
        What latent scores are multiplied with to give all variables; orthonormal rows.
    n_components_ : int
        Latent scores that the panel tells.
    explained_variance_ : array (n_components_,)
        Expected variances of the scores.
    explained_variance_ratio_ : array (n_components_,)
        These as shares of the variance of all variables.
    unmeasured_std_ : array (n_features_in_,)
        Standard deviations of what predictions leave in held-out rows; see ``predict_unmeasured``.
    relevance_ : array (n_features_in_,)
        The communality as a share of the largest.
    ranking_ : int array (n_features_in_,)
        1 for the first variable of the panel, and so on; after these by communality.
    mean_ : array (n_features_in_,)
        Means of the columns (of the roots of shares, for counts).
    scale_ : array (n_features_in_,)
        Their standard deviations; ones for counts.
    varying_ : bool array (n_features_in_,)
        False for constant columns, and for those that are constant within each group.
    depth_ : float
        The total that rows of counts are brought to, the median of those in ``fit``; 0 if the table
        does not hold counts.

    References
    ----------
    A. Krause, A. Singh, C. Guestrin (2008). Near-optimal sensor placements in Gaussian processes.
    JMLR.

    Examples
    --------
    >>> from prosparse import Panel, datasets
    >>> X, *_ = datasets.make_globally_sparse(100, 50, scale=True, random_state=0)
    >>> model = Panel(5).fit(X)
    >>> model.order_.size, bool(model.heldout_r2_path_[-1] > 0.1)
    (5, True)
    """

    _accepts_any_container = True
    _variable_attributes = (
        ("communality", "communality_"),
        ("heldout_r2", "heldout_r2_"),
        ("proxy", "proxy_"),
        ("unmeasured_std", "unmeasured_std_"),
        ("loading_", "loadings_"),
    )
    _variable_references = ("proxy",)

    order_: Array
    heldout_r2_path_: Array
    heldout_r2_path_std_: Array
    relative_r2_path_: Array
    bound_path_: Array
    criterion_path_: Array
    attainable_r2_: float
    heldout_r2_: Array
    heldout_r2_by_group_: dict[str, float]
    communality_: Array
    proxy_: Array
    loadings_: Array
    unmeasured_std_: Array
    depth_: float

    def __init__(
        self,
        n_features_to_select: int | None = None,
        *,
        target_recovery: float = 0.9,
        criterion: Criterion = "reconstruction",
        include: ColumnGroup = (),
        exclude: ColumnGroup = (),
        costs: ArrayLike | None = None,
        bundles: Sequence[ColumnGroup] | None = None,
        counts: bool = False,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ):
        self.n_features_to_select = n_features_to_select
        self.target_recovery = target_recovery
        self.criterion = criterion
        self.include = include
        self.exclude = exclude
        self.costs = costs
        self.bundles = bundles
        self.counts = counts
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Table, y: object = None, *, groups: ArrayLike | None = None) -> Self:
        """Choose a panel from the columns of ``X``.

        Parameters
        ----------
        X : table (n_samples, n_features)
            Of any kind that the library knows.
        y : ignored
            Here for scikit-learn's sake.
        groups : array (n_samples,) or None, default=None
            Labels of rows that belong together (donors, batches, studies). Differences between
            groups are taken away, so that a panel is chosen for what varies in each of them.

        Returns
        -------
        Panel
        """

        with self._fitting():
            table = self._validate(X, reset=True)
            if table.shape[0] < FEWEST_ROWS:
                raise InputError(
                    f"{table.shape[0]} rows (n_samples={table.shape[0]}) are too few to hold some "
                    f"out: at least {FEWEST_ROWS} are needed"
                )
            rows = row_groups(groups, table.shape[0])
            self.depth_ = 0.0
            if self.counts:
                self.depth_ = float(np.median(row_totals(table)))
                table = hellinger(table, self.depth_)
            op, columns = standardise(table, not self.counts)
            check_varying(op, columns)
            if rows is not None:
                op, columns = _within(op, columns, rows)
            options = self._options(columns)
            own = to_numpy(columns.scale)[columns.kept].astype(float)
            squares = to_numpy(op.column_squares()).astype(float)
            scale = own if not self.counts else np.sqrt(squares)
            found = solve(op, scale, None if rows is None else rows.codes, options)
            self._describe(found, columns, rows)
        return self

    # --- from parameters to the question

    def _check_parameters(self) -> None:
        if self.n_features_to_select is not None:
            check_integer("n_features_to_select", self.n_features_to_select, 1, " or None")
        if not (isinstance(self.target_recovery, Real) and 0.0 < float(self.target_recovery) < 1.0):
            raise ParameterError(
                f"`target_recovery` must be between 0 and 1, got {self.target_recovery!r}"
            )
        check_choice("criterion", self.criterion, get_args(Criterion))
        check_bool("counts", self.counts)

    def _options(self, columns: Columns) -> Options:
        """The parameters in terms of the columns that vary."""
        varying, width = to_numpy(columns.varying), columns.mean.shape[0]
        kept = columns.kept
        place = np.full(width, -1)
        place[kept] = np.arange(kept.size)
        bundles = self._bundles(width)
        keep, exclude = (
            _with_bundles(self._columns(name), bundles) for name in ("include", "exclude")
        )
        both = np.intersect1d(keep, exclude)
        if both.size:
            raise ParameterError(
                f"column {self._name(both[0])} is in `include` and in `exclude`, itself or with its "
                "bundle: leave it out of one"
            )
        still = keep[~varying[keep]]
        if still.size:
            raise ParameterError(
                f"column {self._name(still[0])} of `include` is constant in X: it tells nothing of "
                "others, leave it out of `include`"
            )
        allowed = np.ones(width, dtype=bool)
        allowed[exclude] = False
        if not np.any(allowed & varying):
            others = ", and the others are constant" if exclude.size < width else ""
            raise ParameterError(
                f"`exclude` leaves no column to select: it has {exclude.size} of the {width} "
                f"columns of X, those of their bundles included{others}. Exclude fewer columns."
            )
        bundles = [bundle[varying[bundle]] for bundle in bundles]
        bundles = [bundle for bundle in bundles if bundle.size > 1]
        if self.n_features_to_select is not None:
            self._check_count(int(self.n_features_to_select), keep, allowed & varying, bundles)
        return Options(
            wanted=None if self.n_features_to_select is None else int(self.n_features_to_select),
            target_recovery=float(self.target_recovery),
            criterion=self.criterion,
            include=place[keep],
            allowed=allowed[kept],
            costs=self._costs(width)[kept],
            bundles=[place[bundle] for bundle in bundles],
            scaled=not self.counts,
            seed=seed_of(self.random_state),
        )

    def _check_count(
        self, wanted: int, keep: np.ndarray, available: np.ndarray, bundles: list[np.ndarray]
    ) -> None:
        """Refuse a number of variables that no panel can have."""
        most = int(available.sum())
        if wanted > most:
            raise ParameterError(
                f"`n_features_to_select` must be at most {most}, the columns of X that vary and are not "
                f"excluded, got {wanted}"
            )
        if keep.size > wanted:
            raise ParameterError(
                f"`include` has {keep.size} columns, those of its bundles included, more than "
                f"`n_features_to_select`, {wanted}"
            )
        alone = available.copy()
        alone[np.concatenate([*bundles, np.zeros(0, dtype=int)])] = False
        sizes = [bundle.size for bundle in bundles if available[bundle].all()]
        if not alone.any() and min(sizes) > wanted:
            raise ParameterError(
                f"`n_features_to_select` must be at least {min(sizes)}, the columns of the smallest of "
                f"`bundles`, as none come alone; got {wanted}"
            )

    def _columns(self, parameter: str) -> np.ndarray:
        """Positions that ``include`` or ``exclude`` names."""
        given = getattr(self, parameter)
        nothing = given is None or (isinstance(given, list | tuple) and not given)
        if isinstance(given, np.ndarray):
            nothing = given.size == 0 or (given.dtype == bool and not given.any())
        if nothing:
            return np.zeros(0, dtype=int)
        return np.unique(
            positions(given, f"`{parameter}`", self.n_features_in_, self._feature_names())
        )

    def _feature_names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else np.asarray(names).tolist()

    def _name(self, place: int) -> str:
        names = self._feature_names()
        return str(int(place)) if names is None else repr(names[place])

    def _costs(self, width: int) -> np.ndarray:
        if self.costs is None:
            return np.ones(width)
        try:
            costs = np.asarray(self.costs, dtype=float)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"`costs` must hold numbers: {error}") from error
        if costs.shape != (width,) or not np.all(np.isfinite(costs) & (costs > 0.0)):
            raise ParameterError(
                f"`costs` must have one positive number for each of the {width} columns of X, got "
                f"shape {costs.shape}"
                + (f" and a smallest of {costs.min():g}" if costs.size else "")
            )
        return costs

    def _bundles(self, width: int) -> list[np.ndarray]:
        if self.bundles is None:
            return []
        if isinstance(self.bundles, str) or not isinstance(self.bundles, Sequence):
            raise ParameterError(
                "`bundles` must be a list of column groups (names, slices or positions), got "
                f"{self.bundles!r}"
            )
        names = self._feature_names()
        found = [
            np.unique(positions(bundle, f"bundle {number} of `bundles`", width, names))
            for number, bundle in enumerate(self.bundles)
        ]
        times = np.bincount(np.concatenate([*found, np.zeros(0, dtype=int)]), minlength=width)
        if np.any(times > 1):
            twice = int(np.flatnonzero(times > 1)[0])
            raise ParameterError(f"column {self._name(twice)} is in more than one of `bundles`")
        return found

    # --- from the answer to attributes

    def _describe(self, found: Solution, columns: Columns, rows: RowGroups | None) -> None:
        """The solution on all columns of the table."""
        kept, width = columns.kept, columns.mean.shape[0]
        learned, judged, panel = found.learned, found.judged, found.panel
        inside = np.sort(panel)
        filters = found.latents.filters[:, np.argsort(panel)]
        others = np.setdiff1d(np.arange(kept.size), panel)
        others = others[np.argsort(-learned.communality[others], kind="stable")]
        largest = max(float(learned.communality.max()), np.finfo(float).tiny)
        self._set_columns(
            columns,
            np.concatenate([panel, others]),
            inside,
            columns.numbers(filters),
            learned.communality / largest,
        )

        def on_all(values: np.ndarray, missing: float) -> np.ndarray:
            full = np.full((*values.shape[:-1], width), missing)
            full[..., kept] = values
            return full

        self.n_selected_, self.n_components_ = int(panel.size), filters.shape[0]
        self.order_ = columns.values(kept[panel])
        self.heldout_r2_path_ = columns.values(found.path.recovered)
        self.heldout_r2_path_std_ = columns.values(found.path.spread)
        self.relative_r2_path_ = columns.values(found.path.ratio)
        self.bound_path_ = columns.values(found.chosen.bounds)
        self.criterion_path_ = columns.values(np.cumsum(found.chosen.gains))
        total = float(learned.variances.sum())
        self.attainable_r2_ = float(learned.communality @ learned.variances) / total
        self.heldout_r2_ = columns.numbers(on_all(judged.recovered, 0.0))
        self.communality_ = columns.numbers(on_all(learned.communality, 0.0))
        stand_in = np.full(width, -1)
        stand_in[kept] = np.where(found.proxied_variables >= 0, kept[found.proxied_variables], -1)
        self.proxy_ = columns.values(stand_in)
        self.loadings_ = columns.numbers(on_all(found.latents.loadings, 0.0))
        self.explained_variance_ = columns.numbers(columns.variance(found.latents.variances))
        self.explained_variance_ratio_ = columns.numbers(found.latents.variances / total)
        deviation = columns.length(on_all(judged.deviation, 0.0)) * to_numpy(columns.scale)
        self.unmeasured_std_ = columns.numbers(deviation)
        self.heldout_r2_by_group_ = {}
        if rows is not None:
            left, whole = (np.bincount(rows.codes, weights=values) for values in judged.by_row.T)
            shares = 1.0 - left / np.maximum(whole, np.finfo(float).tiny)
            self.heldout_r2_by_group_ = {
                str(label): float(share) for label, share in zip(rows.labels, shares, strict=True)
            }

    def _warn(self) -> None:
        attained = float(to_numpy(self.relative_r2_path_)[self.n_selected_ - 1])
        most = float(to_numpy(self.communality_).max())
        if most < _NOTHING:
            warn(
                "Panel: held-out rows confirm no common structure: all variables together predict "
                f"{most:.1%} of one of them at most. Any other panel would be as good as this one.",
                NoStructureWarning,
            )
        elif self.n_features_to_select is None and attained < float(self.target_recovery):
            warn(
                f"Panel: {self.n_selected_} variables recover {attained:.2f} of what all "
                f"variables together do, not {float(self.target_recovery):g}. ReadOptions for a number of "
                "variables with `n_features_to_select`, or for a smaller share with `target_recovery`.",
                ShortPanelWarning,
            )

    # --- what a panel is for

    def proxied_variables(self, names: ArrayLike | None = None) -> dict[str, list[str]]:
        """For every chosen variable the ones that it makes unnecessary.

        Parameters
        ----------
        names : array-like of str (n_features_in_,) or None, default=None
            Names of the variables; those of ``fit``, or positions, if left out.

        Returns
        -------
        dict
            By the chosen variables, in their order; the others by how much of each is recovered.
        """
        check_is_fitted(self)
        if names is None:
            names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        labels = [str(name) for name in np.asarray(names).tolist()]
        if len(labels) != self.n_features_in_:
            raise ParameterError(
                f"`names` must have {self.n_features_in_} names, got {len(labels)}"
            )
        stand_in, share = to_numpy(self.proxy_), to_numpy(self.heldout_r2_)
        found = {}
        for place in to_numpy(self.order_).tolist():
            others = np.flatnonzero(stand_in == place)
            others = others[others != place]
            others = others[np.argsort(-share[others], kind="stable")]
            found[labels[place]] = [labels[other] for other in others.tolist()]
        return found

    def inverse_transform(self, X: TableLike) -> Array:
        """All variables rebuilt from latent scores.

        Parameters
        ----------
        X : array (n_samples, n_components_)
            Scores, as ``transform`` gives them.

        Returns
        -------
        array (n_samples, n_features_in_)
            Of counts: those of a row whose total is ``depth_``.
        """
        scores = self._validate_scores(X)
        loadings, scale, mean = (
            as_like(v, scores, scores.dtype) for v in (self.loadings_, self.scale_, self.mean_)
        )
        rebuilt = (scores @ loadings) * scale + mean
        return (0.5 * (rebuilt + abs(rebuilt))) ** 2 if self.depth_ else rebuilt

    def score(self, X: TableLike, y: object = None) -> float:
        """The share of the variance of all variables of ``X`` that the panel recovers.

        Parameters
        ----------
        X : table (n_samples, n_features_in_)
            Rows that were not in ``fit``, or the answer flatters.
        y : ignored

        Returns
        -------
        float
            1 minus the squared error of predicting the variables that are not in the panel, as a
            share of the sum of squares of all variables around the means of ``fit``. But for
            counts, variables are in units of their standard deviation in ``fit``; one that varies
            more than twice as much in ``X`` counts as if it varied twice as much.
        """
        check_is_fitted(self)
        kept = np.flatnonzero(to_numpy(self.varying_))
        op = self._operator_of(self._validate(X, reset=False), kept)
        inside = np.flatnonzero(to_numpy(self.support_)[kept])
        loadings = to_numpy(self.loadings_)[:, kept].astype(float)
        filters = to_numpy(self.components_)[:, kept[inside]].astype(float)
        panel = columns_of(op, inside)
        scores = panel @ filters.T
        squares = to_numpy(op.column_squares()).astype(float)
        left = squares - 2.0 * np.sum(onto_columns(op, scores) * loadings.T, axis=1)
        left += np.sum((loadings.T @ (scores.T @ scores)) * loadings.T, axis=1)
        left[inside] = 0.0
        if not self.depth_:
            # columns that hardly varied in `fit` would decide everything if they do so here
            weights = 1.0 / np.maximum(squares / (op.shape[0] * _MOST_VARIANCE), 1.0)
            left, squares = weights * left, weights * squares
        total = float(np.sum(squares))
        return 1.0 - float(np.sum(left)) / total if total else 1.0

    def predict_unmeasured(
        self, X: TableLike, return_std: bool = False, *, totals: ArrayLike | None = None
    ) -> Array | tuple[Array, Array]:
        """The variables that are not in the panel, from those that are.

        Parameters
        ----------
        X : table (n_samples, n_selected_)
            The panel's columns alone, in the order of the table of ``fit``: what ``select`` gives.
        return_std : bool, default=False
            Whether to say how far off each prediction may be, too.
        totals : array (n_samples,) or None, default=None
            Of counts: how many there are in each row, the other columns included. Left out, they
            are estimated from the panel's columns.

        Returns
        -------
        array (n_samples, n_features_in_ - n_selected_), or two of them
            Predictions in the table's own units and, if asked for, standard deviations: 1.96 of
            them to both sides hold 95 % of entries in held-out rows, whatever their distribution.
        """
        check_is_fitted(self)
        kind = container_of(X)
        inside = to_numpy(self.support_)
        self._check_panel_names(X)
        table = kind.readable(X, allow_nan=False)
        values = kind.dense(table) if kind.stays or kind.is_sparse else table
        values = check_array(values, dtype=np.float64)
        if values.shape[1] != self.n_selected_:
            raise InputError(
                f"X must have the {self.n_selected_} columns of the panel, as `select` gives them; "
                f"got {values.shape[1]}"
            )
        mean, scale, rest_std = (
            to_numpy(v).astype(float) for v in (self.mean_, self.scale_, self.unmeasured_std_)
        )
        filters = to_numpy(self.components_)[:, inside].astype(float)
        loadings = to_numpy(self.loadings_)[:, ~inside].astype(float)
        if not self.depth_:
            scores = ((values - mean[inside]) / scale[inside]) @ filters.T
            predicted = (scores @ loadings) * scale[~inside] + mean[~inside]
            deviation = np.broadcast_to(rest_std[~inside], predicted.shape).copy()
        else:
            each = self._totals(values, totals, mean[inside])
            roots = np.sqrt(values * (self.depth_ / each)[:, None])
            root = (roots - mean[inside]) @ filters.T @ loadings + mean[~inside]
            root, own = np.maximum(root, 0.0), rest_std[~inside]
            factor = (each / self.depth_)[:, None]
            predicted = factor * (root**2 + own**2)
            deviation = factor * np.sqrt(4.0 * root**2 * own**2 + 2.0 * own**4)
        like, dtype = (X, X.dtype if is_floating(X) else None) if kind.stays else (values, None)
        if kind.stays and not kind.in_memory:
            like, dtype = values, None
        predicted, deviation = (from_numpy(part, like, dtype) for part in (predicted, deviation))
        return (predicted, deviation) if return_std else predicted

    # --- helpers of these

    def _operator_of(self, X: TableLike, columns: np.ndarray | None = None) -> Operator:
        if self.depth_:
            X = hellinger(X, self.depth_)
        return super()._operator_of(X, columns)

    def _check_panel_names(self, X: TableLike) -> None:
        """A frame's columns must be the panel's, by name and in order."""
        names, given = self._feature_names(), container_of(X).column_names(X)
        if names is None or given is None:
            return
        wanted = [name for name, there in zip(names, to_numpy(self.support_), strict=True) if there]
        if list(given) != wanted:
            missing = [name for name in wanted if name not in set(given)]
            what = f"lacks {missing[0]!r}" if missing else "has others, or another order"
            raise InputError(
                f"X must have the panel's columns {', '.join(map(repr, wanted[:3]))}, ... as "
                f"`select` gives them; it {what}"
            )

    def _totals(self, values: np.ndarray, totals: ArrayLike | None, mean: np.ndarray) -> np.ndarray:
        """How many counts each row has in all columns."""
        if totals is None:
            share = float(np.sum(mean**2)) / self.depth_
            each = values.sum(axis=1) / max(share, np.finfo(float).tiny)
        else:
            each = np.asarray(totals, dtype=float)
            if each.shape != (values.shape[0],):
                raise ParameterError(
                    f"`totals` must have one number for each of the {values.shape[0]} rows, got "
                    f"shape {each.shape}"
                )
        if np.any(values < 0.0) or np.any(each <= 0.0):
            raise InputError(
                "the panel's columns must hold counts, and some in every row: leave out empty "
                "rows, or give their `totals`"
            )
        return each


def _within(op: Operator, columns: Columns, rows: RowGroups) -> tuple[Operator, Columns]:
    """The table centred in each group, without the columns that do not vary in any of them."""
    n, count = op.shape[0], rows.sizes.size
    if n - count < FEWEST_ROWS - 1:
        raise ParameterError(
            f"`groups` has {count} labels for {n} rows: what varies within groups is looked at, "
            f"and at least {FEWEST_ROWS - 1} more rows than groups are needed"
        )
    within = rows.centre_operator(op)
    before, after = (to_numpy(one.column_squares()).astype(float) for one in (op, within))
    moving = after > (_ROUNDING * op.epsilon) ** 2 * before
    if moving.sum() < 2:
        raise InputError(
            f"{int(moving.sum())} of the {moving.size} columns of X that vary do so within groups; "
            "at least 2 must, or there is nothing to choose from. Check `groups`."
        )
    if moving.all():
        return within, columns
    varying = np.zeros(columns.mean.shape[0], dtype=bool)
    varying[columns.kept[moving]] = True
    taken = within.take_columns(from_numpy(np.flatnonzero(moving), within.column_squares()))
    return taken, columns._replace(varying=columns.values(varying))


def _with_bundles(columns: np.ndarray, bundles: list[np.ndarray]) -> np.ndarray:
    """Some columns, and all that come together with one of them."""
    touched = [bundle for bundle in bundles if np.isin(bundle, columns).any()]
    return np.unique(np.concatenate([columns, *touched]))
