"""The principal components of some columns of a table, as all its columns see them.

Which way is cheapest depends on the shape, and on nothing else: with few columns everything follows
from their products X'X, with few rows from X X', and of a table large on both sides only the
leading components are computed, and a ceiling for the others.

Rows may come in groups (donors, batches, repeated measures). Columns are then centred in each
group: X is replaced by C X, where C takes the mean of every group off its rows. C X is never
formed, so that a sparse table stays sparse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..data import Operator
from ..data.arrays import Array, from_numpy, to_numpy
from ..numerics.spectrum import EXACT_SIDE, eigenpairs, leading_eigenvectors
from ..parallel import in_parallel, slices_of

# Where not all components are computed: how many are, and how many more, whose eigenvalues tell how
# high the rest can lie.
LEADING = 24
BEYOND = 8
# Of the largest eigenvalue, how exact these are: for tests, which hardly depend on it (on four
# shapes, p-values with 0.001 and with 0.01 differed by less than 2 % in the median), and for
# components that are shown.
ROUGH = 1e-2
FINE = 1e-3
# Eigenvalues of a Gram matrix below this share of the largest are rounding.
_RANK = 1e-11
# In so many pieces X X' is multiplied.
_STRIPS = 8
# ... and with so many columns at a time, which no longer cost as much each as beside X.
_WIDE = 32


class Components(NamedTuple):
    """Principal components of some columns, the members."""

    members: np.ndarray  # (p,) bool
    values: np.ndarray  # (m,) eigenvalues, falling
    z: np.ndarray  # (members, m) U'x of the members
    seen: np.ndarray  # (p, count) the same of all columns, for the first components
    filters: np.ndarray  # (members, m): scores U are X F
    ceiling: float | None  # of the eigenvalues that are not computed; None if all are
    rows: np.ndarray | None = None  # (n, m) scores U, where they are known better than as X F


class Groups(NamedTuple):
    """Rows that belong together."""

    codes: np.ndarray  # (n,) 0, 1, ...
    sizes: np.ndarray  # (groups,)

    def centred(self, U: np.ndarray) -> np.ndarray:
        """C U: the mean of every group taken off its rows."""
        sums = np.zeros((self.sizes.size, U.shape[1]))
        np.add.at(sums, self.codes, U)
        return U - (sums / self.sizes[:, None])[self.codes]


class Sample:
    """A standardised table, asked for the components of some of its columns.

    Parameters
    ----------
    op : Operator
        The table, its columns centred and of one variance.
    groups : Groups or None
        Which rows belong together.
    """

    def __init__(self, op: Operator, groups: Groups | None = None):
        self.op, self.groups = op, groups
        self.n, self.p = op.shape
        self.freedom = self.n - (1 if groups is None else groups.sizes.size)
        self.squares = to_numpy(op.column_squares()).astype(float)
        self.group_means = np.empty((0, self.p))
        if groups is not None:
            indicators = self.from_numpy(np.eye(groups.sizes.size)[groups.codes])
            sums = to_numpy(op.rmatmul(indicators)).astype(float).T
            self.group_means = sums / groups.sizes[:, None]
            between = groups.sizes @ self.group_means**2
            self.squares = np.maximum(self.squares - between, 0.0)
        self.last: Components | None = None  # several questions are asked of one set
        self._residual = ROUGH  # of these
        self._taken: tuple[np.ndarray, Operator] | None = None
        self._near: np.ndarray | None = None  # (p, m) directions of the last set, to start from
        self._near_rows: np.ndarray | None = None  # (n, m) its scores, if there are few rows
        self._outer: tuple[np.ndarray, Array] | None = None  # the last set and its X X'
        few = self.p <= self.n and self.p <= EXACT_SIDE
        self.products = self._products(np.arange(self.p), op) if few else None

    def take_columns(self, columns: np.ndarray) -> Sample:
        """The same rows on some of the columns."""
        return Sample(self.op.take_columns(columns), self.groups)

    def components(self, members: np.ndarray, count: int, residual: float = ROUGH) -> Components:
        """The components of the ``members``: all of them, or ``count`` and some more.

        Parameters
        ----------
        members : bool array (p,)
        count : int
            How many are looked at; fewer than there are members, and than degrees of freedom.
        residual : float
            How exact they are, as a share of the largest eigenvalue, where not all are computed.

        Returns
        -------
        Components
        """
        last = self.last
        if (
            last is not None
            and np.array_equal(last.members, members)
            and (count if last.ceiling is not None else min(count, last.values.size))
            <= last.seen.shape[1]
            and (last.ceiling is None or self._residual <= residual)
        ):
            return last
        self.last, self._residual = self._decomposed(members, count, residual), residual
        return self.last

    def chosen(self, members: np.ndarray) -> Operator:
        """The table on the ``members``, of which those asked for last are kept."""
        if members.all():
            return self.op
        if self._taken is None or not np.array_equal(self._taken[0], members):
            self._taken = None  # not two of them at a time
            self._taken = members, self.op.take_columns(np.flatnonzero(members))
        return self._taken[1]

    def _decomposed(self, members: np.ndarray, count: int, residual: float) -> Components:
        """By the way that suits the shape."""
        which = np.flatnonzero(members)
        if self.products is not None:
            onto_all = self.products[:, which]
            return self._from_products(members, onto_all[which], count, lambda F: onto_all @ F)
        chosen = self.chosen(members)
        if which.size <= min(self.n, EXACT_SIDE):
            return self._from_products(
                members,
                self._products(which, chosen),
                count,
                lambda F: self._seen(chosen.matmul(self.from_numpy(F))),
            )
        if self.n <= EXACT_SIDE:
            return self._from_rows(members, chosen, count)
        if self._near_rows is not None and self.n <= which.size:
            return self._leading_of_rows(members, chosen, count, residual)
        return self._leading(members, chosen, count, residual)

    def _from_products(
        self, members: np.ndarray, inner: np.ndarray, count: int, look: Callable[..., np.ndarray]
    ) -> Components:
        """From X'X of the members, ``inner``; ``look`` says how all columns see some filters."""
        values, V = _falling(eigenpairs(inner), self.freedom)
        filters = V / np.sqrt(values)
        count = min(max(count, LEADING), values.size)
        return Components(members, values, inner @ filters, look(filters[:, :count]), filters, None)

    def _from_rows(self, members: np.ndarray, chosen: Operator, count: int) -> Components:
        """From X X' of the members."""
        outer = self.centred(self.centred(_wide(chosen.outer())).T)
        values, U = _falling(np.linalg.eigh(0.5 * (outer + outer.T)), self.freedom)
        count = min(max(count, LEADING), values.size)
        z = _wide(chosen.rmatmul(self.from_numpy(U)))
        seen = z[:, :count]
        if not members.all():
            seen = _wide(self.op.rmatmul(self.from_numpy(U[:, :count])))
        return Components(members, values, z, seen, z / values, None)

    def _leading(
        self, members: np.ndarray, chosen: Operator, count: int, residual: float
    ) -> Components:
        """The leading components by products with X alone, and a ceiling for the others."""
        xp, like, groups, rough = chosen.xp, chosen.column_squares(), self.groups, chosen.rough()

        def squared(V: Array) -> Array:
            narrow = xp.astype(V, rough.dtype)
            if groups is None:
                (product,) = rough.sum_rows(lambda block: (block.T @ (block @ narrow),))
            else:
                within = self.centred(_wide(rough.matmul(narrow)))
                product = rough.rmatmul(from_numpy(within, like, rough.dtype))
            return xp.astype(product, V.dtype)

        m = min(max(count, LEADING) + 1 + BEYOND, like.shape[0] // 2)
        tol = max(residual, 30.0 * float(xp.finfo(rough.dtype).eps))
        near = None if self._near is None else self._near[members]
        values, V = leading_eigenvectors(squared, like, m, tol, near=near, block=chosen.few_columns)
        self._near = np.zeros((self.p, m))
        self._near[members] = _wide(V)
        filters = _wide(V) / np.sqrt(values)
        scores = chosen.matmul(self.from_numpy(filters))
        if self.n <= chosen.few_rows:
            self._near_rows = self.centred(_wide(scores))
        seen = self._seen(scores)
        # eigenvalues are known up to `tol` of the first, and so is the ceiling of the others
        ceiling = float(values[-1] + tol * values[0])
        return Components(
            members, values[:-1], seen[members, :-1], seen[:, :-1], filters[:, :-1], ceiling
        )

    def _leading_of_rows(
        self, members: np.ndarray, chosen: Operator, count: int, residual: float
    ) -> Components:
        """The same by X X', once the components of another set are known.

        A set is mostly asked for after one that differs little from it, and its X X' follows from
        that of the other. Products with X X' cost so much less than with X that components are
        computed finely: sets that are chosen by them settle sooner.
        """
        outer = self._outer_of(members, chosen)
        strips = slices_of(self.n, -(-self.n // _STRIPS))

        def squared(U: Array) -> Array:
            narrow = U.astype(outer.dtype)
            return np.concatenate(in_parallel(lambda rows: outer[rows] @ narrow, strips))

        m = min(max(count, LEADING) + 1 + BEYOND, self.n // 2)
        tol = max(min(residual, FINE), 30.0 * float(np.finfo(outer.dtype).eps))
        values, U = leading_eigenvectors(
            squared, np.zeros(self.n), m, tol, near=self._near_rows, block=_WIDE
        )
        self._near_rows = U
        seen = _wide(self.op.rmatmul(self.from_numpy(U)))
        z = seen[members, :-1]
        ceiling = float(values[-1] + tol * values[0])
        return Components(
            members, values[:-1], z, seen[:, :-1], z / values[:-1], ceiling, U[:, :-1]
        )

    def _outer_of(self, members: np.ndarray, chosen: Operator) -> np.ndarray:
        """X X' of the members, from that of the last set where it has most of them."""
        last, self._outer = self._outer, None  # not two of them at a time
        if last is not None and 2 * np.sum(members & last[0]) > np.sum(members):
            before, total = last
            for some, take in ((members & ~before, np.add), (before & ~members, np.subtract)):
                if some.any():
                    part = self.op.take_columns(np.flatnonzero(some))
                    take(total, self._within(part), out=total)
        else:
            total = self._within(chosen)
        self._outer = members, total
        return total

    def _within(self, part: Operator) -> np.ndarray:
        """X X' of some columns, within groups."""
        outer = to_numpy(part.rough().outer())
        return outer if self.groups is None else self.centred(self.centred(outer).T)

    def _products(self, which: np.ndarray, chosen: Operator) -> np.ndarray:
        """X'X of some columns, within groups."""
        products = _wide(chosen.gram())
        if self.groups is None:
            return products
        means = self.group_means[:, which]
        return products - means.T @ (self.groups.sizes[:, None] * means)

    def _seen(self, scores: Array) -> np.ndarray:
        """X'U for scores U."""
        if self.groups is not None:
            scores = self.from_numpy(self.centred(_wide(scores)))
        return _wide(self.op.rmatmul(scores))

    def scores(self, found: Components, count: int) -> np.ndarray:
        """The first scores of the rows, U, (n, count): orthonormal columns."""
        if found.rows is not None:
            return found.rows[:, :count]
        chosen = self.chosen(found.members)
        filters = from_numpy(found.filters[:, :count], chosen.column_squares(), self.op.dtype)
        return self.centred(_wide(chosen.matmul(filters)))

    def columns(self, which: np.ndarray, of: Operator | None = None) -> np.ndarray:
        """Some columns, (n, k), in memory; ``of`` some that were taken before."""
        chosen = (self.op if of is None else of).take_columns(which)
        one = from_numpy(np.eye(which.size), chosen.column_squares(), self.op.dtype)
        return self.centred(_wide(chosen.matmul(one)))

    def fourth_powers(self) -> np.ndarray:
        """sum_a y_a^4 of every column scaled to length 1, (p,)."""
        fourth = self.op.column_fourth_powers()
        total = to_numpy(self.op.column_squares()).astype(float)
        return np.asarray(to_numpy(fourth).astype(float) / np.maximum(total, 1e-300) ** 2)

    def centred(self, U: np.ndarray) -> np.ndarray:
        """The rows of each group around their mean."""
        return U if self.groups is None else self.groups.centred(U)

    def from_numpy(self, array: np.ndarray) -> Array:
        """A host array where the table's products want it."""
        return from_numpy(array, self.op.column_squares(), self.op.dtype)


def _falling(pairs: tuple[np.ndarray, np.ndarray], most: int) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues that are not rounding, at most ``most``, in falling order, and their vectors."""
    values, vectors = pairs[0][::-1], pairs[1][:, ::-1]
    rank = min(int(np.sum(values > _RANK * values[0])), most)
    return values[:rank], vectors[:, :rank]


def _wide(array: Array) -> np.ndarray:
    """On the host, in double precision."""
    return to_numpy(array).astype(float, copy=False)
