"""Branch-and-bound search for the best panel of q variables.

Given the included variables I, let R be the residual covariance of the candidates F, and B their
residual covariance with the common parts of all variables. A set P of candidates adds the gain

    tr(R_PP^-1 B_P B_P'),

the sum of the gains of `greedy` over single additions. Two bounds hold for all P of k candidates.
First, P spans k dimensions, so that its gain is at most the sum of the k largest generalised
eigenvalues of (B_F B_F', R_FF). Second, P predicts a candidate outside P at most as well as all
other candidates do. All candidates together gain tr(R_FF^-1 B_F B_F'); each candidate outside P
reduces this gain by at least its contribution to its own common part.

Batches of the nodes with the largest bounds are examined first.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from .factors import FactorModel
from .greedy import Constraints

MAX_COLUMNS = 30  # maximum number of columns for which the search takes seconds
MAX_NODES = 20_000  # maximum number of nodes; the search then returns the bound of the open nodes
_BATCH = 128  # nodes examined at a time
_TOLERANCE = 1e-9  # relative differences of gains that are rounding errors
_MIN_VARIANCE = 1e-9  # residual proportion of variance below which a candidate is redundant


class BestSubset(NamedTuple):
    """Best panel found, and an upper bound of the gain of panels of its size."""

    variables: np.ndarray  # (q,)
    gain: float
    bound: float  # equal to the gain, up to rounding, if the set is certified optimal


class _Nodes(NamedTuple):
    """Batch of b nodes of the search, for p variables."""

    R: np.ndarray  # (b, p, p) residual covariance given the included variables
    B: np.ndarray  # (b, p, p) residual covariance with the common parts
    is_included: np.ndarray  # (b, p) bool
    is_candidate: np.ndarray  # (b, p) bool
    gain: np.ndarray  # (b,) of the included variables

    def take(self, index: np.ndarray) -> _Nodes:
        """Return some of the nodes."""
        return _Nodes(*(part[index] for part in self))


def find_best_subset(
    model: FactorModel, constraints: Constraints, start: np.ndarray, max_nodes: int = MAX_NODES
) -> BestSubset:
    """Find the variables with the largest reconstruction gain.

    The result has as many variables as ``start``. Costs and bundles are not considered.
    """
    common = model.W @ model.W.T
    covariance = common + np.diag(model.psi)
    count, variances = start.size, np.diag(covariance)
    best, best_gain = np.sort(start), subset_gain(covariance, common, start)
    root = _Nodes(
        covariance[None],
        common[None],
        np.zeros((1, variances.size), dtype=bool),
        constraints.allowed[None].copy(),
        np.zeros(1),
    )
    root.is_candidate[:, constraints.include] = True
    for k in constraints.include.tolist():
        root = _include(root, np.array([k]))
    queue: list[tuple[float, int, tuple[_Nodes, int]]] = []
    n_nodes, serial, nodes = 0, 0, root
    while True:
        n_nodes += nodes.gain.size
        bounds, next_variables = _examine(nodes, count, variances)
        full = nodes.is_included.sum(axis=1) + nodes.is_candidate.sum(axis=1) <= count
        complete = nodes.is_included.sum(axis=1) == count
        for index in np.flatnonzero(full | complete):
            is_member = nodes.is_included[index] | (~complete[index] & nodes.is_candidate[index])
            members = np.flatnonzero(is_member)
            value = subset_gain(covariance, common, members)
            if members.size == count and value > best_gain * (1.0 + _TOLERANCE):
                best, best_gain = members, value
        limit = best_gain * (1.0 + _TOLERANCE)
        for index in np.flatnonzero(~(full | complete) & (bounds > limit)):
            node = nodes.take(np.array([index]))
            variable = int(next_variables[index])
            heapq.heappush(queue, (-float(bounds[index]), serial, (node, variable)))
            serial += 1
        chosen: list[tuple[float, int, tuple[_Nodes, int]]] = []
        while queue and len(chosen) < _BATCH and -queue[0][0] > limit:
            chosen.append(heapq.heappop(queue))
        if not chosen or n_nodes >= max_nodes:
            break
        parents = _Nodes(*(np.concatenate(parts) for parts in zip(*(c[2][0] for c in chosen))))
        variables = np.array([c[2][1] for c in chosen])
        completed, gains = _complete(parents, count)
        largest = int(np.argmax(gains))
        if gains[largest] > best_gain * (1.0 + _TOLERANCE):
            best = np.flatnonzero(completed[largest])
            best_gain = subset_gain(covariance, common, best)
        without = parents._replace(is_candidate=parents.is_candidate.copy())
        without.is_candidate[np.arange(variables.size), variables] = False
        both = zip(_include(parents, variables), without, strict=True)
        nodes = _Nodes(*(np.concatenate(parts) for parts in both))
    still_open = [-item[0] for item in (chosen + queue[:1] if chosen else [])]
    return BestSubset(best, best_gain, max([best_gain, *still_open]))


def subset_gain(covariance: np.ndarray, common: np.ndarray, variables: np.ndarray) -> float:
    """Compute the reconstruction gain of some variables."""
    inside, cross = covariance[np.ix_(variables, variables)], common[variables]
    return float(np.sum(cross * np.linalg.lstsq(inside, cross, rcond=_MIN_VARIANCE)[0]))


def _include(nodes: _Nodes, variables: np.ndarray) -> _Nodes:
    """Include one variable of each node."""
    R, B, is_included, is_candidate, gain = nodes
    rows = np.arange(variables.size)
    r, b = R[rows, variables], B[rows, variables]
    variance = r[rows, variables][:, None]
    is_included, is_candidate = is_included.copy(), is_candidate.copy()
    is_included[rows, variables], is_candidate[rows, variables] = True, False
    return _Nodes(
        R - (r / variance)[:, :, None] * r[:, None, :],
        B - (r / variance)[:, :, None] * b[:, None, :],
        is_included,
        is_candidate,
        gain + np.sum(b**2, axis=1) / variance[:, 0],
    )


def _complete(nodes: _Nodes, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Complete each node greedily; return the sets, (b, p), and their gains.

    Nodes with too few candidates have gain -inf.
    """
    gains = np.full(nodes.gain.size, -np.inf)
    members = nodes.is_included.copy()
    active = np.arange(gains.size)
    while active.size:
        is_complete = nodes.is_included.sum(axis=1) == count
        gains[active[is_complete]] = nodes.gain[is_complete]
        members[active[is_complete]] = nodes.is_included[is_complete]
        is_open = ~is_complete & nodes.is_candidate.any(axis=1)
        nodes, active = nodes.take(is_open), active[is_open]
        if active.size:
            nodes = _include(nodes, np.argmax(_single_gains(nodes), axis=1))
    return members, gains


def _single_gains(nodes: _Nodes) -> np.ndarray:
    """Compute the gain of each candidate, (b, p); -1 for other variables."""
    diagonal = np.einsum("bii->bi", nodes.R)
    gains = np.sum(nodes.B**2, axis=2) / np.maximum(diagonal, 1e-300)
    return np.where(nodes.is_candidate, gains, -1.0)


def _examine(nodes: _Nodes, count: int, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bound the gain below each node; return candidates to branch on."""
    R, B, is_included, is_candidate, gain = nodes
    diagonal = np.einsum("bii->bi", R)
    is_useful = is_candidate & (diagonal > _MIN_VARIANCE * variances)
    pairs = is_useful[:, :, None] & is_useful[:, None, :]
    R_candidates = np.where(pairs, R, 0.0)
    jitter = np.where(is_useful, _MIN_VARIANCE * variances, variances)
    R_candidates = R_candidates + jitter[:, :, None] * np.eye(variances.size)
    B_candidates = np.where(is_useful[:, :, None], B, 0.0)
    root = np.linalg.inv(np.linalg.cholesky(R_candidates))
    Y = root @ B_candidates
    n_left = count - is_included.sum(axis=1)
    totals = np.sum(Y**2, axis=(1, 2))
    eigenvalues = np.maximum(np.linalg.eigvalsh(Y @ Y.transpose(0, 2, 1))[:, ::-1], 0.0)
    rows = np.arange(gain.size)
    padded = np.concatenate([np.zeros((gain.size, 1)), np.cumsum(eigenvalues, axis=1)], axis=1)
    by_dimension = padded[rows, np.minimum(n_left, variances.size)]
    # Contribution of each candidate to its own common part, given all other candidates.
    precision = np.sum(root**2, axis=1)
    own = np.einsum("bki,bki->bi", root, Y) ** 2 / precision
    own = np.sort(np.where(is_useful, own, 0.0), axis=1)
    # Columns that are not candidates come first and are zero.
    n_lost = np.maximum(is_useful.sum(axis=1) - n_left, 0)
    losses = np.concatenate([np.zeros((gain.size, 1)), np.cumsum(own, axis=1)], axis=1)
    n_zeros = variances.size - is_useful.sum(axis=1)
    by_loss = totals - losses[rows, n_zeros + n_lost]
    next_variables = np.argmax(_single_gains(nodes), axis=1)
    return gain + np.minimum(by_dimension, by_loss), next_variables
