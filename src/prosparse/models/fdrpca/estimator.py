"""`FDRPCA` as users see it: parameters in, attributes out. The mathematics begins in `model`."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from ...data import Array, Columns, Operator, container_of, operator_of, standardise, take_columns
from ...data.arrays import TableLike, as_like, from_numpy, to_numpy
from ...data.containers import Table
from ...data.pearson_residuals import Null, Rows, moments_of, null_of, residuals_of, rows_of
from ...errors import (
    InputError,
    NoStructureWarning,
    ParameterError,
    RowOrderWarning,
    check_bool,
    check_integer,
    check_non_negative,
    warn,
)
from ...structure.leading_components import Sample
from .._base import SparseProjection, few_columns, seed_of
from .model import Options, Solution, solve
from .rows import grouped_rows, likeness_of_neighbours


class FDRPCA(SparseProjection):
    """PCA of the variables that share structure, at a stated false discovery rate.

    Each variable is tested for association with the leading principal components of the
    *remaining* variables. No common noise variance, no common scale and no number of components
    are needed; the rows must be exchangeable (see Notes). Variables selected by the
    Benjamini-Hochberg procedure are scaled to unit variance and passed to PCA.

    What is chosen is *significant*; how much a variable shares with the others is its
    ``communality_``. In large tables nearly everything shares a little: see ``min_communality``.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Of the chosen variables. "auto" counts those that stand out when every variable is measured
        in its own noise. The test does not depend on it; ``min_communality``, which is the share
        that these components explain, does.
    fdr : float, default=0.05
        The false discovery rate: the share of variables without common structure among the chosen
        ones, on average.
    min_communality : float, default=0.0
        Choose only variables that share at least this much of their variance with others, between
        0 and 1.
    rank_transform : bool, default=False
        Whether the test uses normal scores of the ranks of each column, which reduces the influence
        of outliers. Components and scores are computed from the untransformed columns.
    counts : bool, default=False
        Whether the table holds counts (molecules of genes, words, species) of rows that differ in
        size. They are replaced by residuals of what size alone would give, without which all
        columns vary together through it. Sparse stays sparse. See Notes.
    random_state : int, RandomState or None, default=0
        Of the random orders of rows in which columns that are far from Gaussian are tested.
    verbose : int, default=0
        Not used: there is nothing to wait for.

    Attributes
    ----------
    support_ : bool array (n_features_in_,)
        The chosen variables.
    n_selected_ : int
        How many they are; 0, with a warning, if nothing is shared.
    pvalues_ : array (n_features_in_,)
        Of the test that a variable shares nothing with the others.
    qvalues_ : array (n_features_in_,)
        Benjamini-Hochberg adjusted p-values. Variables with a q-value of at most ``fdr`` and a
        communality of at least ``min_communality`` are selected. The p-values depend on ``fdr``,
        at which the set grows: for another rate, fit again.
    communality_ : array (n_features_in_,)
        The share of a variable's variance that the components explain, the variable itself left
        out of them. Its null expectation is ``null_communality_``.
    null_communality_ : float
        ``n_components_`` / (n_samples - 1); with groups, ``n_components_`` / (n_samples -
        n_groups).
    components_ : array (n_components_, n_features_in_)
        Orthonormal rows, of variables scaled to unit variance; exact zeros for those not chosen.
    n_components_ : int
        Their number.
    explained_variance_ : array (n_components_,)
        Variances of the scores.
    explained_variance_ratio_ : array (n_components_,)
        These as shares of the variance of all scaled variables.
    relevance_ : array (n_features_in_,)
        The communality as a share of the largest.
    ranking_ : int array (n_features_in_,)
        1 for the selected variable with the largest communality, and so on; after the selected
        variables the others, by communality.
    permutation_tested_ : bool array (n_features_in_,)
        Variables so far from Gaussian that random orders of their rows gave the p-value, which
        is then no smaller than the number of orders allows.
    mean_ : array (n_features_in_,)
        Means of the columns.
    scale_ : array (n_features_in_,)
        Their standard deviations.
    varying_ : bool array (n_features_in_,)
        False for constant columns.
    count_weights_ : array (n_features_in_,)
        Only for counts: the size of a row is the sum of its entries with these weights, which are
        small for columns that vary much.
    count_proportions_ : array (n_features_in_,)
        Only for counts: the share of every column in all of them.
    count_noise_ : array (n_features_in_,)
        Only for counts: mean squares of Pearson's residuals, 1 for columns that vary by chance
        alone.

    Notes
    -----
    Rows must be exchangeable: without structure, any order of a column's rows would be as good as
    the one given. Time series are not, nor are several rows of one patient: give the patients as
    ``groups``, and rows are compared within each. A warning says when neighbouring rows are alike.

    Rows of unequal noise, or a few outlying rows, violate this assumption and make uncorrelated
    columns significant: all columns have large entries in the same rows. No warning reports it.
    Leave out outlying rows, or divide rows by their size. Strongly skewed columns have heavier
    tails than the fitted null distribution; take logarithms or ``rank_transform=True``.

    Of counts x in a row of size N and a column with the share pi of all counts, Pearson's residual
    is (x - N pi) / sqrt(N pi), which has mean 0 and variance 1 whatever the size of the row, if it
    differs from others in nothing else. Rows whose residuals are larger throughout are scaled
    down. ``mean_`` and ``scale_`` are those of the residuals times sqrt(pi), and
    ``inverse_transform`` gives these.

    Missing values raise an error. Drop incomplete rows or columns, or fill with column means
    (scikit-learn's ``SimpleImputer``). Values imputed from other columns share variance with them
    by construction, and the false discovery rate no longer holds.

    References
    ----------
    Y. Benjamini, Y. Hochberg (1995). Controlling the false discovery rate. JRSS B.
    G. H. Golub (1973). Some modified matrix eigenvalue problems. SIAM Review.

    Examples
    --------
    >>> from prosparse import FDRPCA, datasets
    >>> X, truth, _ = datasets.make_globally_sparse(100, 50, scale=True, random_state=0)
    >>> model = FDRPCA().fit(X)
    >>> model.n_selected_, int(truth[model.support_].sum())
    (11, 10)
    """

    _takes_any_table = True

    pvalues_: Array
    qvalues_: Array
    communality_: Array
    null_communality_: float
    permutation_tested_: Array
    count_weights_: Array
    count_proportions_: Array
    count_noise_: Array

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        fdr: float = 0.05,
        min_communality: float = 0.0,
        rank_transform: bool = False,
        counts: bool = False,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.fdr = fdr
        self.min_communality = min_communality
        self.rank_transform = rank_transform
        self.counts = counts
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Table, y: object = None, *, groups: ArrayLike | None = None) -> Self:
        """Choose the variables of ``X`` that share structure, and find their components.

        Parameters
        ----------
        X : table (n_samples, n_features)
            Of any kind that the library knows.
        y : ignored
            Here for scikit-learn's sake.
        groups : array (n_samples,) or None, default=None
            Labels of rows that belong together (donors, batches, repeated measures). Columns are
            then compared within groups, from which differences between groups are taken away.

        Returns
        -------
        FDRPCA
        """
        with self._fitting():
            table = self._validated(X, reset=True)
            rows = grouped_rows(groups, table.shape[0])
            op, columns = self._residuals(table) if self.counts else standardise(table, True)
            if op.shape[1] < 2:
                raise InputError(few_columns(op.shape[1], columns.mean.shape[0]))
            itself = Sample(op, rows)
            tested = itself
            if self.rank_transform:
                tested = Sample(self._ranked(table, columns), rows)
            found = solve(tested, itself, self._options())
            self._describe(found, itself, columns)
            row_correlation = self._likeness(found, itself)
        self._warn_of(row_correlation, groups is not None)
        return self

    # --- from parameters to the question

    def _options(self) -> Options:
        return Options(
            n_components=self.n_components,
            rate=float(self.fdr),
            min_communality=float(self.min_communality),
            seed=seed_of(self.random_state),
        )

    def _residuals(self, table: Table) -> tuple[Operator, Columns]:
        """The residuals of counts, standardised."""
        container_of(table).row_totals(table)  # refuses what cannot be counts
        counts, squares = _counts_and_squares(table)
        null = null_of(counts, squares)
        rows = rows_of(counts, squares, null)
        mean, deviation = moments_of(counts, squares, null, rows)
        varying = deviation > 0.0
        if varying.sum() < 2:
            raise InputError(
                f"{varying.size - int(varying.sum())} of the {varying.size} columns of X are "
                "proportional to the size of their row, up to rounding; at least 2 must differ "
                "from it, or there is nothing to select from. Check how the table was read."
            )
        like = counts.column_squares()
        mean, deviation = np.where(varying, mean, 0.0), np.where(varying, deviation, 1.0)
        there = from_numpy(mean, like, counts.dtype), from_numpy(deviation, like, counts.dtype)
        columns = Columns(*there, 1.0, from_numpy(varying, like))
        self.count_weights_ = columns.values(null.weights)
        self.count_proportions_ = columns.values(null.shares)
        self.count_noise_ = columns.values(null.noise)
        op = _standard_residuals(table, columns.kept, null.shares, rows, mean, deviation)
        op.remember_column_squares(from_numpy(np.full(op.shape[1], float(op.shape[0])), like))
        return op, columns

    def _operator_of(self, X: TableLike, columns: np.ndarray | None = None) -> Operator:
        if not hasattr(self, "count_weights_"):
            return super()._operator_of(X, columns)
        container_of(X).row_totals(X)
        null = Null(
            *(
                to_numpy(v).astype(float)
                for v in (self.count_weights_, self.count_proportions_, self.count_noise_)
            )
        )
        rows = rows_of(*_counts_and_squares(X), null)
        mean, scale = (to_numpy(v).astype(float) for v in (self.mean_, self.scale_))
        which = np.arange(mean.size) if columns is None else columns
        return _standard_residuals(X, which, null.shares, rows, mean, scale)

    def _ranked(self, table: Table, columns: Columns) -> Operator:
        """The normal scores of the columns that vary, standardised."""
        ranked = container_of(table).normal_scores(table)
        return standardise(container_of(ranked).take_columns(ranked, columns.kept), True)[0]

    def _check_parameters(self) -> None:
        if not (isinstance(self.n_components, str) and self.n_components == "auto"):
            check_integer("n_components", self.n_components, 1, ' or "auto"')
        for name in ("fdr", "min_communality"):
            check_non_negative(name, getattr(self, name))
        if not 0.0 < self.fdr < 1.0:
            raise ParameterError(f"`fdr` must be between 0 and 1, got {self.fdr!r}")
        if self.min_communality > 1.0:
            raise ParameterError(
                f"`min_communality` must be between 0 and 1, got {self.min_communality!r}"
            )
        check_bool("rank_transform", self.rank_transform)
        check_bool("counts", self.counts)
        if self.counts and self.rank_transform:
            raise ParameterError(
                "`rank_transform=True` and `counts=True` exclude each other: both transform the "
                "columns before the test. Set one of them."
            )

    # --- from the answer to attributes

    def _describe(self, found: Solution, sample: Sample, columns: Columns) -> None:
        """The solution on all columns of the table."""
        kept, width = columns.kept, columns.mean.shape[0]
        self._set_columns(
            columns,
            found.order,
            found.chosen,
            columns.numbers(found.components),
            found.communality / max(float(found.communality.max()), np.finfo(float).tiny),
        )
        self.n_components_ = found.components.shape[0]
        self.n_selected_ = int(found.chosen.size)

        def spread_out(values: np.ndarray, missing: float) -> np.ndarray:
            full = np.full(width, missing)
            full[kept] = values
            return full

        self.pvalues_ = columns.values(spread_out(found.structure.pvalues, 1.0))
        self.qvalues_ = columns.values(spread_out(found.qvalues, 1.0))
        self.communality_ = columns.numbers(spread_out(found.communality, 0.0))
        self.permutation_tested_ = columns.values(spread_out(found.structure.sampled, 0.0) > 0.0)
        self.null_communality_ = self.n_components_ / sample.freedom
        self.explained_variance_ = columns.numbers(found.squares / sample.freedom)
        total = max(float(np.sum(sample.squares)), np.finfo(float).tiny)
        self.explained_variance_ratio_ = columns.numbers(found.squares / total)

    def _likeness(self, found: Solution, sample: Sample) -> float:
        """How much a row is like the next one, beside what the components say of both."""
        chosen = sample.op.take_columns(found.chosen) if found.chosen.size else None
        if chosen is None or found.components.shape[0] == 0:
            scores = np.zeros((sample.n, 0))
        else:
            filters = found.components.T / np.sqrt(np.maximum(found.squares, 1e-300))
            there = sample.from_numpy(filters)
            scores = sample.centred(to_numpy(chosen.matmul(there)).astype(float))
        return likeness_of_neighbours(sample, scores)

    def _warn_of(self, likeness: float, grouped: bool) -> None:
        """What the user should know of a fit that is whole."""
        if likeness:
            where = "within a group " if grouped else ""
            remedy = (
                "keep only rows that are far enough apart to be independent"
                if grouped
                else "give the rows that belong together (patients, batches, days) as `groups`"
            )
            warn(
                f"FDRPCA: rows that stand next to each other {where}are alike (correlation "
                f"{likeness:.2f} beside what the components explain). Is the table sorted, by "
                "class or by one of its columns? Then that is why, the result does not depend on "
                "the order, and there is nothing to do. Are neighbours repeated measures or steps "
                "of a time series? Then the rows are not independent and too many variables are "
                f"chosen: {remedy}.",
                RowOrderWarning,
            )
        if self.n_selected_ == 0:
            share = f"at a false discovery rate of {float(self.fdr):g}"
            few = (
                f" and a communality of at least {float(self.min_communality):g}"
                if self.min_communality
                else ""
            )
            warn(
                f"FDRPCA: no variable shares structure with others {share}{few}: `support_` is "
                "empty and there are no components. The table may have none, or too few rows to "
                "show it.",
                NoStructureWarning,
            )


def _counts_and_squares(X: Table) -> tuple[Operator, Operator]:
    """Counts and their squares as they are, neither centred nor scaled."""
    kind, p = container_of(X), X.shape[1]

    def operator(table: Table) -> Operator:
        zeros, ones = (as_like(v, table, table.dtype) for v in (np.zeros(p), np.ones(p)))
        return operator_of(table, zeros, ones)

    return operator(X), operator(kind.squares(X))


def _standard_residuals(
    X: Table,
    which: np.ndarray,
    shares: np.ndarray,
    rows: Rows,
    mean: np.ndarray,
    deviation: np.ndarray,
) -> Operator:
    """The residuals of some columns of counts, with means and deviations of all given."""
    some, scale = take_columns(X, which), deviation[which]
    zeros, there = (as_like(v, some, some.dtype) for v in (np.zeros(which.size), scale))
    counts = operator_of(some, zeros, there)
    return residuals_of(counts, shares[which] / scale, rows, mean[which] / scale)
