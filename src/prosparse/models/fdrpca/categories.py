"""Coding of the categorical columns of a data matrix and of new rows.

Validation replaces each label by the position of its level. In the *coded* matrix, a categorical
variable has one column for each level but one (`data.categories`), and a numeric variable has one
column.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...data import Columns, container_of
from ...data.arrays import Array, TableLike, to_numpy
from ...data.categories import Block, Labels, code_block, match_levels, pool_levels
from ...data.covariates import RowDesign
from ...data.frames import data_frame
from ...data.row_groups import is_missing
from ...errors import InputError
from ...structure import Blocks
from .._covariates import AdjustedProjection
from .model import Solution


class CodedTable(NamedTuple):
    """Coded data matrix of a fit."""

    X: np.ndarray  # (n, n_columns), NaN where a value is missing
    sizes: np.ndarray  # (p,) number of columns of each variable
    blocks: dict[int, Block]  # by position of the category

    @property
    def variable(self) -> np.ndarray:
        """Variable of each column, (n_columns,)."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    def count_columns(self, columns: Columns) -> np.ndarray:
        """Count the varying columns of each variable, (p,)."""
        return np.bincount(self.variable[columns.varying_index], minlength=self.sizes.size)

    def varying_blocks(self, columns: Columns) -> Blocks:
        """Return the varying columns of each variable that has at least one."""
        counts = self.count_columns(columns)
        is_category = np.isin(np.arange(counts.size), list(self.blocks))
        return Blocks(counts[counts > 0], is_category[counts > 0])


def read_levels(
    found: dict[int, Labels], names: list[str], scored: set[int]
) -> dict[str, np.ndarray]:
    """Return the levels of the categories of a fit by name.

    Levels of variables in ``scored`` are not pooled.
    """
    return {
        names[k]: np.array(
            labels.order if k in scored else pool_levels(labels, names[k]), dtype=object
        )
        for k, labels in found.items()
    }


def replace_labels(
    X: TableLike, found: dict[int, Labels], levels: dict[int, tuple[str, ...]], names: list[str]
) -> TableLike:
    """Replace labels by positions of their levels; keep the container type."""
    container = container_of(X)
    for k in levels.keys() - found.keys():
        entries = np.asarray(container.take_columns(X, np.array([k])), dtype=object).ravel()
        if all(map(is_missing, entries)):
            found = {**found, k: Labels(np.full(entries.size, None))}
    for k in levels.keys() ^ found.keys():
        of_fit, now = ("labels", "numbers") if k in levels else ("numbers", "labels")
        raise InputError(f"Column {names[k]!r} of X has {now}, but `fit` had {of_fit}.")
    p = len(names)
    numeric = np.array([k for k in range(p) if k not in found], dtype=int)
    values = np.empty((X.shape[0], p))
    if numeric.size:
        part = container.prepare(container.take_columns(X, numeric), allow_nan=True)
        values[:, numeric] = container.to_dense(part)
    for k, labels in found.items():
        values[:, k] = match_levels(labels.values, levels[k], names[k])
    return container.replace_values(X, values)


def code_table(X: np.ndarray, n_levels: dict[int, int], design: RowDesign) -> CodedTable:
    """Code a validated data matrix for a fit."""
    blocks = {
        k: code_block(X[:, k], count, design.adjustment, design.scale)
        for k, count in n_levels.items()
    }
    parts = [blocks[k].columns if k in blocks else X[:, [k]] for k in range(X.shape[1])]
    sizes = np.array([part.shape[1] for part in parts])
    return CodedTable(np.column_stack(parts), sizes, blocks)


def code_new_rows(level: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Code one categorical variable of new rows; missing labels become NaN."""
    coded = np.full((level.size, codes.shape[1]), np.nan)
    seen = ~np.isnan(level)
    coded[seen] = codes[level[seen].astype(int)]
    return coded


class MixedProjection(AdjustedProjection):
    """Base class of projections that accept categories.

    A subclass has the parameters ``ordered_scores`` and those in `_REQUIRE_NUMBERS`.
    """

    _REQUIRE_NUMBERS = (("counts", True), ("rank_transform", True))

    category_columns_: np.ndarray
    category_levels_: dict[str, np.ndarray]
    category_codes_: dict[str, np.ndarray]
    category_components_: dict[str, np.ndarray]
    category_effects_: dict[str, np.ndarray]

    @property
    def level_components_(self) -> dict[str, np.ndarray]:
        """Contributions of levels to the scores, (n_components_, n_levels) by name.

        The scores are the sums of the contributions of all variables. Over the rows of ``fit``, the
        contributions of a variable have mean 0, and their root mean square is its entry in
        ``components_``.
        """
        return {
            name: self.category_components_[name] @ codes.T
            for name, codes in self.category_codes_.items()
        }

    def levels_to_frame(self) -> Any:
        """Return ``level_components_`` as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            One row per level, indexed by "variable[level]", and one column per component.
        """
        rows, names = [], []
        for name, contributions in self.level_components_.items():
            names += [f"{name}[{level}]" for level in self.category_levels_[name]]
            rows.append(contributions.T)
        values = np.vstack(rows)
        columns = {f"component_{k}": column for k, column in enumerate(values.T)}
        return data_frame(columns, names, "level")

    @property
    def _has_categories(self) -> bool:
        return hasattr(self, "category_columns_")

    @property
    def _level_names(self) -> dict[int, str]:
        """Names of the variables with unordered levels, by position."""
        names = zip(self.category_columns_.tolist(), self.category_levels_, strict=True)
        return {k: name for k, name in names if name in self.category_codes_}

    # --- from labels to columns

    def _validate(self, X: TableLike, *, reset: bool) -> TableLike:
        """Validate ``X`` and replace labels by the positions of their levels."""
        container = container_of(X)
        found = container.categories(X)
        if reset and not found:
            return super()._validate(X, reset=reset)
        names = [str(name) for name in container.column_names(X) or ()]
        if reset:
            for parameter, value in self._REQUIRE_NUMBERS:
                if getattr(self, parameter) == value:
                    raise InputError(
                        f"X has labels in {names[min(found)]!r}, which `{parameter}={value!r}` "
                        f"does not support. Drop or encode these columns, or change `{parameter}`."
                    )
            use_scores = self.get_params()["ordered_scores"]
            scored = {k for k in found if use_scores and found[k].order is not None}
            self.category_columns_ = np.array(sorted(found))
            self.category_levels_ = read_levels(found, names, scored)
            # The adjustment of the rows replaces these arrays by the final codes.
            self.category_codes_ = {names[k]: np.zeros((0, 0)) for k in found if k not in scored}
        if not self._has_categories:
            return super()._validate(X, reset=reset)
        if not reset and len(names) != self.n_features_in_:
            if not names:
                raise InputError(
                    "X must be a DataFrame, as in `fit`: columns of labels are matched by dtype."
                )
            raise InputError(
                f"X has {len(names)} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        by_position = {
            k: tuple(levels.tolist())
            for k, levels in zip(
                self.category_columns_.tolist(), self.category_levels_.values(), strict=True
            )
        }
        return super()._validate(replace_labels(X, found, by_position, names), reset=reset)

    def _code_categories(self, table: TableLike, design: RowDesign) -> CodedTable | None:
        """Code the categorical variables of a fit; return None without any."""
        if not self._has_categories:
            return None
        counts = {k: self.category_levels_[name].size for k, name in self._level_names.items()}
        return code_table(np.asarray(table, dtype=float), counts, design)

    def _code_new_rows(
        self, Z: np.ndarray, standardised: np.ndarray, columns: np.ndarray, metadata: dict[str, Any]
    ) -> np.ndarray:
        """Replace categorical variables in columns of Z by their coded columns."""
        names = self._level_names if self._has_categories else {}
        if not names:
            return standardised
        effects = self._covariate_effects(metadata.get("covariates"), Z.shape[0])
        parts = []
        for k, column in zip(columns.tolist(), standardised.T, strict=True):
            part = column[:, None]
            if k in names:
                part = code_new_rows(Z[:, k], self.category_codes_[names[k]])
                if effects is not None:
                    part = part - effects[0] @ self.category_effects_[names[k]]
            parts.append(part)
        return np.column_stack(parts) if parts else standardised

    def _coded_components(self, columns: np.ndarray) -> np.ndarray:
        """Return the components in the coded columns of some variables."""
        components = to_numpy(self.components_).astype(float)
        names = self._level_names if self._has_categories else {}
        if not names:
            return components[:, columns]
        parts = [
            self.category_components_[names[k]] if k in names else components[:, [k]]
            for k in columns.tolist()
        ]
        return np.column_stack(parts) if parts else components[:, columns]

    def inverse_transform(self, X: TableLike, *, covariates: Any = None) -> Array:
        """Reconstruct rows from scores; categorical columns become NaN.

        Columns that are not selected are reconstructed by their means. Without ``covariates``, the
        result is adjusted: it refers to rows with the mean covariates of ``fit``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components_)
            Scores.
        covariates : DataFrame or array-like of shape (n_samples, n_covariates) or None
            Covariates of the rows. Their effects are added to the reconstruction.

        Returns
        -------
        ndarray of shape (n_samples, n_features_in_)
        """
        reconstructed = super().inverse_transform(X, covariates=covariates)
        if self._has_categories:
            reconstructed[:, list(self._level_names)] = np.nan
        return reconstructed

    # --- from columns to variables

    def _set_categories(
        self, coded: CodedTable, columns: Columns, solution: Solution
    ) -> tuple[Columns, np.ndarray]:
        """Set the attributes of the categorical variables.

        Returns
        -------
        variables : Columns
            Means and scales of the variables, and which of them vary.
        components : ndarray of shape (d, n_selected)
            Components of the selected variables; for a categorical variable, lengths over its
            columns.
        """
        mean, scale = (to_numpy(v).astype(float) for v in (columns.mean, columns.scale))
        index = columns.varying_index
        full = np.zeros((solution.components.shape[0], mean.size))
        full[:, index[solution.selected_columns]] = solution.components
        starts = np.cumsum(coded.sizes) - coded.sizes
        numeric = np.array([k for k in range(coded.sizes.size) if k not in coded.blocks], dtype=int)
        summary = np.zeros((full.shape[0], coded.sizes.size))
        summary[:, numeric] = full[:, starts[numeric]]
        names = dict(zip(self.category_columns_.tolist(), self.category_levels_, strict=True))
        self.category_codes_, self.category_components_, self.category_effects_ = {}, {}, {}
        for k, block in coded.blocks.items():
            part = slice(starts[k], starts[k] + coded.sizes[k])
            self.category_codes_[names[k]] = (block.codes - mean[part]) / scale[part]
            self.category_effects_[names[k]] = block.effects / scale[part]
            self.category_components_[names[k]] = full[:, part].copy()
            summary[:, k] = np.linalg.norm(full[:, part], axis=1)
            if coded.sizes[k] == 1:
                summary[:, k] *= np.sign(full[:, part.start] * block.codes[-1, 0])

        def by_variable(values: np.ndarray, of_category: float) -> np.ndarray:
            result = np.full((*values.shape[:-1], coded.sizes.size), of_category)
            result[..., numeric] = values[..., starts[numeric]]
            return result

        if hasattr(self, "covariate_coef_"):
            r2 = by_variable(to_numpy(self.covariate_r2_), 0.0)
            r2[list(coded.blocks)] = [block.r2 for block in coded.blocks.values()]
            coef = by_variable(to_numpy(self.covariate_coef_), 0.0)
            self.covariate_coef_, self.covariate_r2_ = columns.numbers(coef), columns.numbers(r2)
        varying = coded.count_columns(columns) > 0
        variables = columns._replace(
            mean=columns.numbers(by_variable(mean, 0.0)),
            scale=columns.numbers(by_variable(scale, 1.0)),
            varying=columns.values(varying),
        )
        return variables, summary[:, np.flatnonzero(varying)[solution.selected]]
