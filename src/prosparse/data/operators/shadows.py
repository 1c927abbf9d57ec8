"""Shadow columns: randomised copies of the columns of a data matrix.

A shadow of a column contains the same entries with permuted rows, or the same deviations from a
centre with random signs. Both types may occur in one matrix. All columns of a categorical variable
have the same permutation or signs. With groups, rows are permuted within groups. A shadow has the
missing values of its column, because only rows in which all columns of the variable are observed
are permuted.

A matrix with K shadows of each of its p columns has p (K + 1) columns, in K + 1 layers of p. Column
j of each layer is the original column j or one of its shadows. The layer of the original is random,
so that no function of the matrix can treat originals and shadows differently. With random signs,
all layers are sums of the centre and a signed deviation, so that they have the same rounding
errors.

* Sparse matrices stay sparse, because random signs change only stored entries. This is also valid
  under sign symmetry, because the set of these entries depends only on magnitudes.
* Data that are read in blocks of rows are permuted within these blocks, when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from scipy import sparse

from ...parallel import slices_of
from ..arrays import Array, from_numpy

_ENTRIES_PER_CHUNK = 2**20  # number of entries whose permutations or signs are in memory at a time


class Centre(NamedTuple):
    """Centres of the entries: group means plus effects of covariates."""

    codes: np.ndarray  # (n,) group of each row: 0, 1, ...
    means: np.ndarray  # (n_groups, p)
    covariates: np.ndarray  # (n, k)
    effects: np.ndarray  # (k, p)

    def of_block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the centres of all pairs of rows and columns, (n_rows, n_columns)."""
        means = self.means[self.codes[rows]][:, columns]
        return np.asarray(means + self.covariates[rows] @ self.effects[:, columns])

    def of_entries(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the centres of single entries, (n_entries,)."""
        centre = self.means[self.codes[rows], columns]
        for values, effects in zip(self.covariates.T, self.effects, strict=True):
            centre += values[rows] * effects[columns]
        return centre

    def in_units(self, shift: np.ndarray, factor: np.ndarray) -> Centre:
        """Convert centres of (x - shift) * factor to centres of x."""
        return self._replace(means=shift + self.means / factor, effects=self.effects / factor)


class Shadows(NamedTuple):
    """Random numbers of the shadows, and the layers of the original columns."""

    n_shadows: int  # K
    seed: int
    codes: np.ndarray  # (n,) group of each row: 0, 1, ...
    variables: np.ndarray  # (p,) variable of each column: 0, 1, ...
    original_layer: np.ndarray  # (n_variables,) layer of the original columns
    signed: np.ndarray  # (n_variables,) mask of random signs; other variables have permuted rows
    centre: Centre | None = None  # centres of random signs; None if there are none
    # (n, n_variables) mask of the rows that are permuted; None for all
    observed: np.ndarray | None = None

    @property
    def columns(self) -> np.ndarray:
        """Positions of the columns of all layers among originals and shadows."""
        p, n_layers = self.variables.size, self.n_shadows + 1
        layers = np.arange(n_layers)[:, None] - self.original_layer[self.variables]
        return np.asarray((layers % n_layers) * p + np.arange(p)).ravel()

    def in_units(self, shift: np.ndarray, factor: np.ndarray) -> Shadows:
        """Convert shadows of (x - shift) * factor to shadows of x."""
        return self._replace(centre=self.centre and self.centre.in_units(shift, factor))

    def append_to(self, block: Any, rows: np.ndarray) -> Any:
        """Append shadows to a block of rows (k, p): (k, p * (n_shadows + 1)).

        ``rows`` (k,) are the positions of the rows in the data matrix.
        """
        # Blocks have independent random numbers, which are the same whenever a block is read.
        generators = [
            np.random.default_rng([self.seed, int(rows[0]) if rows.size else 0, layer])
            for layer in range(1, self.n_shadows + 1)
        ]
        if sparse.issparse(block):
            S = sparse.csc_array(block)
            layers = [self._sparse_layer(S, rows, rng) for rng in (None, *generators)]
            return sparse.hstack(layers, format="csc")[:, self.columns].tocsr()
        xp = array_namespace(block)
        layers = [self._dense_layer(block, rows, rng) for rng in (None, *generators)]
        return xp.take(xp.concat(layers, axis=1), from_numpy(self.columns, block), axis=1)

    def _dense_layer(
        self, block: Array, rows: np.ndarray, rng: np.random.Generator | None
    ) -> Array:
        """Return a shadow of a block, or the original if ``rng`` is None."""
        if rng is None and self.centre is None:
            return block
        xp, p = array_namespace(block), self.variables.size
        parts, positions = [], []
        for columns, variables, chunk in self._chunks(block.shape[0]):
            part = (
                block if columns.size == p else xp.take(block, from_numpy(columns, block), axis=1)
            )
            shape, signed = (block.shape[0], chunk.stop - chunk.start), self.signed[chunk]
            permuted = part
            if rng is not None and not signed.all():
                observed = None if self.observed is None else self.observed[rows, chunk]
                permutations = row_permutations(self.codes[rows], shape[1], rng, observed)
                permuted = _permute(part, permutations[:, variables])
            if self.centre is not None and signed.any():
                centre = from_numpy(self.centre.of_block(rows, columns), block, block.dtype)
                deviation = part - centre
                if rng is not None:
                    signs = random_signs(shape, rng)[:, variables]
                    deviation = from_numpy(signs, block, block.dtype) * deviation
                part = centre + deviation
            if not signed.all():
                part = xp.where(from_numpy(signed[variables], block), part, permuted)
            parts.append(part)
            positions.append(columns)
        if len(parts) == 1:
            return parts[0]
        order = np.argsort(np.concatenate(positions))
        return xp.take(xp.concat(parts, axis=1), from_numpy(order, block), axis=1)

    def _chunks(self, n_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray, slice]]:
        """Yield columns, their variables, and the chunk of variables."""
        for chunk in slices_of(self.original_layer.size, max(1, _ENTRIES_PER_CHUNK // n_rows)):
            inside = (self.variables >= chunk.start) & (self.variables < chunk.stop)
            columns = np.flatnonzero(inside)
            yield columns, self.variables[columns] - chunk.start, chunk

    def _sparse_layer(
        self, S: sparse.csc_array, rows: np.ndarray, rng: np.random.Generator | None
    ) -> sparse.csc_array:
        """Return a shadow of a sparse block, or the original if ``rng`` is None.

        Only stored entries change or move.
        """
        if rng is None and self.centre is None:
            return S
        n, p = S.shape
        indices, data = S.indices.copy(), S.data
        signs = np.ones(data.size)
        if rng is not None:
            for columns, is_signed in zip(self._columns_by_variable(), self.signed, strict=True):
                stored = [slice(S.indptr[j], S.indptr[j + 1]) for j in columns]
                if not is_signed:
                    permutation = row_permutations(self.codes[rows], 1, rng)[:, 0]
                    for part in stored:
                        indices[part] = permutation[indices[part]]
                elif columns.size == 1:
                    signs[stored[0]] = random_signs(stored[0].stop - stored[0].start, rng)
                else:
                    of_rows = random_signs(n, rng)
                    for part in stored:
                        signs[part] = of_rows[indices[part]]
        if self.centre is not None:
            columns = np.repeat(np.arange(p), np.diff(S.indptr))
            centre = self.centre.of_entries(rows[indices], columns)
            is_signed = self.signed[self.variables[columns]]
            data = np.where(is_signed, centre + signs * (data - centre), data)
        shadow = sparse.csc_array((data, indices, S.indptr), S.shape)
        shadow.has_sorted_indices = False
        return shadow

    def _columns_by_variable(self) -> list[np.ndarray]:
        order = np.argsort(self.variables, kind="stable")
        edges = np.searchsorted(self.variables[order], np.arange(1, self.original_layer.size))
        return np.split(order, edges)


def draw_shadows(
    codes: np.ndarray,
    variables: np.ndarray,
    n_shadows: int,
    rng: np.random.Generator,
    centre: Centre | None = None,
    seen: np.ndarray | None = None,
    permuted: np.ndarray | None = None,
) -> Shadows:
    """Draw the random numbers of the shadows.

    ``seen`` (n, p) is the mask of the observed entries if some are missing. With a centre, all
    variables outside the mask ``permuted`` (n_variables,) have random signs.
    """
    n_variables = int(variables.max()) + 1
    layer = rng.integers(n_shadows + 1, size=n_variables)
    seed = int(rng.integers(2**62))
    observed = None
    if seen is not None:
        observed = np.ones((codes.size, n_variables), dtype=bool)
        for j, variable in enumerate(variables):
            observed[:, variable] &= seen[:, j]
    signed = np.full(n_variables, centre is not None)
    if permuted is not None:
        signed &= ~permuted
    return Shadows(n_shadows, seed, codes, variables, layer, signed, centre, observed)


def row_permutations(
    codes: np.ndarray,
    count: int,
    rng: np.random.Generator,
    observed: np.ndarray | None = None,
) -> np.ndarray:
    """Draw permutations of the rows within groups, (n, count).

    With a mask ``observed`` (n, count), only the rows in the mask are permuted.
    """
    if observed is None:
        by_column = np.empty((count, codes.size), dtype=np.intp)
        sizes = np.bincount(codes)
        for rows in np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1]):
            by_column[:, rows] = rng.permuted(np.tile(rows, (count, 1)), axis=1)
        return by_column.T
    keys = np.where(observed, rng.random((codes.size, count)), 0.0)
    strata = 2 * codes[:, None] + ~observed
    permutations = np.empty(keys.shape, dtype=np.intp)
    places = np.broadcast_to(np.argsort(strata, axis=0, kind="stable"), keys.shape)
    order = np.argsort(strata + keys, axis=0, kind="stable")
    np.put_along_axis(permutations, places, order, axis=0)
    return permutations


def random_signs(shape: int | tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Draw an array of random signs, 1 or -1 with equal probability."""
    return 2.0 * rng.integers(0, 2, size=shape, dtype=np.int8) - 1.0


def _permute(block: Array, permutations: np.ndarray) -> Array:
    """Permute the entries of each column; accept arrays of any library."""
    if is_numpy_array(block):
        return np.take_along_axis(block, permutations, axis=0)
    xp, (n, p) = array_namespace(block), block.shape
    positions = from_numpy((permutations * p + np.arange(p)).ravel(), block)
    return xp.reshape(xp.take(xp.reshape(block, (-1,)), positions), (n, p))
