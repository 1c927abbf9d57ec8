"""Shadow columns: randomised copies of the columns of a data matrix.

A shadow of a column contains the same entries with permuted rows, or the same deviations from the
column mean with random signs. The columns of a categorical variable share permutations and signs.
With groups, rows are permuted and means are computed within groups.

A matrix with K shadows of each of its p columns has p (K + 1) columns, in K + 1 layers of p. Column
j of each layer is the original column j or one of its shadows. The layer of the original is random:
a function of the matrix cannot treat originals and shadows differently.

* Sparse matrices stay sparse. Random signs change stored entries only. This is valid under sign
  symmetry as well: which entries may change depends on their magnitudes only.
* Data that are read in blocks of rows are permuted within these blocks, when they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from scipy import sparse

from ...parallel import slices_of
from ..arrays import Array, from_numpy

_ENTRIES_PER_CHUNK = 2**20  # entries whose permutations or signs are in memory at a time


class Shadows(NamedTuple):
    """Random numbers of the shadows, and the places of the original columns."""

    n_shadows: int  # K
    seed: int
    codes: np.ndarray  # (n,) group of each row: 0, 1, ...
    variables: np.ndarray  # (p,) variable of each column: 0, 1, ...
    original_layer: np.ndarray  # (n_variables,) layer of the original columns
    # (n_groups, p) means of the columns, in the units of the matrix, for random signs;
    # None for permuted rows
    centre: np.ndarray | None = None

    @property
    def columns(self) -> np.ndarray:
        """Positions in [originals, shadows 1, ..., shadows K] of the columns of all layers."""
        p, n_layers = self.variables.size, self.n_shadows + 1
        layers = np.arange(n_layers)[:, None] - self.original_layer[self.variables]
        return np.asarray((layers % n_layers) * p + np.arange(p)).ravel()

    def in_units(self, shift: np.ndarray, factor: np.ndarray) -> Shadows:
        """Return the shadows of x, for the matrix (x - shift) * factor."""
        if self.centre is None:
            return self
        return self._replace(centre=shift + self.centre / factor)

    def append_to(self, block: Any, rows: np.ndarray) -> Any:
        """Return a block of rows with the shadows of its columns.

        Parameters
        ----------
        block : array or sparse matrix of shape (k, p)
        rows : int ndarray of shape (k,)
            Positions of the rows in the data matrix.

        Returns
        -------
        array or sparse matrix of shape (k, p * (n_shadows + 1))
        """
        codes = self.codes[rows]
        # Blocks have independent random numbers, which are the same each time a block is read.
        generators = [
            np.random.default_rng([self.seed, int(rows[0]) if rows.size else 0, layer])
            for layer in range(1, self.n_shadows + 1)
        ]
        if sparse.issparse(block):
            S = sparse.csc_array(block)
            layers = [S, *(self._sparse_shadow(S, codes, rng) for rng in generators)]
            return sparse.hstack(layers, format="csc")[:, self.columns].tocsr()
        xp = array_namespace(block)
        layers = [block, *(self._dense_shadow(block, codes, rng) for rng in generators)]
        return xp.take(xp.concat(layers, axis=1), from_numpy(self.columns, block), axis=1)

    def _dense_shadow(self, block: Array, codes: np.ndarray, rng: np.random.Generator) -> Array:
        xp, p = array_namespace(block), self.variables.size
        parts, positions = [], []
        for columns, variables, count in self._chunks(block.shape[0]):
            part = (
                block if columns.size == p else xp.take(block, from_numpy(columns, block), axis=1)
            )
            if self.centre is None:
                shadow = _permute(part, row_permutations(codes, count, rng)[:, variables])
            else:
                signs = random_signs((block.shape[0], count), rng)[:, variables]
                centre = from_numpy(self.centre[codes][:, columns], block, block.dtype)
                shadow = centre + from_numpy(signs, block, block.dtype) * (part - centre)
            parts.append(shadow)
            positions.append(columns)
        if len(parts) == 1:
            return parts[0]
        order = np.argsort(np.concatenate(positions))
        return xp.take(xp.concat(parts, axis=1), from_numpy(order, block), axis=1)

    def _chunks(self, n_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
        """Yield columns, their variables relative to the chunk, and the number of variables."""
        n_variables = self.original_layer.size
        if n_rows * n_variables <= _ENTRIES_PER_CHUNK:
            yield np.arange(self.variables.size), self.variables, n_variables
            return
        for chunk in slices_of(n_variables, max(1, _ENTRIES_PER_CHUNK // n_rows)):
            inside = (self.variables >= chunk.start) & (self.variables < chunk.stop)
            columns = np.flatnonzero(inside)
            yield columns, self.variables[columns] - chunk.start, chunk.stop - chunk.start

    def _sparse_shadow(
        self, S: sparse.csc_array, codes: np.ndarray, rng: np.random.Generator
    ) -> sparse.csc_array:
        """Return the shadow of a sparse block; only stored entries change or move."""
        n, p = S.shape
        indices, data = S.indices.copy(), S.data
        order = np.argsort(self.variables, kind="stable")
        edges = np.searchsorted(self.variables[order], np.arange(self.original_layer.size + 1))
        signs = np.ones(data.size)
        for first, last in pairwise(edges.tolist()):
            columns = order[first:last]
            stored = [slice(S.indptr[j], S.indptr[j + 1]) for j in columns]
            if self.centre is None:
                permutation = row_permutations(codes, 1, rng)[:, 0]
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
            centre = self.centre[codes[indices], columns]
            data = centre + signs * (data - centre)
        shadow = sparse.csc_array((data, indices, S.indptr), S.shape)
        shadow.has_sorted_indices = False
        return shadow


def draw_shadows(
    codes: np.ndarray,
    variables: np.ndarray,
    n_shadows: int,
    rng: np.random.Generator,
    centre: np.ndarray | None = None,
) -> Shadows:
    """Draw the random numbers of the shadows; see `Shadows`."""
    n_variables = int(variables.max()) + 1
    layer = rng.integers(n_shadows + 1, size=n_variables)
    return Shadows(n_shadows, int(rng.integers(2**62)), codes, variables, layer, centre)


def row_permutations(codes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw permutations of the rows within groups, (n, count)."""
    permutations = np.tile(np.arange(codes.size)[:, None], count)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        permutations[rows] = rng.permuted(permutations[rows], axis=0)
    return permutations


def random_signs(shape: int | tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Draw 1 or -1 with equal probability."""
    return 2.0 * rng.integers(0, 2, size=shape, dtype=np.int8) - 1.0


def _permute(block: Array, permutations: np.ndarray) -> Array:
    """Move the rows of each column of an array of any library."""
    if is_numpy_array(block):
        return np.take_along_axis(block, permutations, axis=0)
    xp, (n, p) = array_namespace(block), block.shape
    positions = from_numpy((permutations * p + np.arange(p)).ravel(), block)
    return xp.reshape(xp.take(xp.reshape(block, (-1,)), positions), (n, p))
