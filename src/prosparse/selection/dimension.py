"""How many components?

[KN08]  S. Kritchman, B. Nadler. Determining the number of components in a factor model from
        limited noisy data. Chemometrics and Intelligent Laboratory Systems 94, 2008.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import host
from ..errors import ParameterError, check_integer
from .noise import bias_corrected

# The largest eigenvalue of pure noise exceeds its Tracy-Widom (real case) centre by this many
# scales with probability 0.1 %.
_TRACY_WIDOM_999 = 3.2724


def count_signals(eigenvalues: np.ndarray, n: int, p: int, noise: float | None = None) -> int:
    """The number of eigenvalues of X'X that stand out from white noise, [KN08].

    Component after component, the next eigenvalue is compared with what the largest eigenvalue
    of noise of the remaining dimension would be. The noise variance, if not given, is estimated
    from the eigenvalues below (with its bias removed, so the rule holds for n < p as for n > p).
    Stops at the first that does not stand out. Assumes noise of equal variance in all variables:
    columns on different scales, or correlated noise, make it count too many.
    """
    m = n - 1  # degrees of freedom after centring
    values = eigenvalues / m
    rounding = max(n, p) * np.finfo(float).eps * values[0]
    most = min(min(m, p) - 1, int(np.sum(values > rounding)))
    for k in range(most):
        sigma2 = bias_corrected(values, m, p, k) if noise is None else noise
        roots = np.sqrt(m - 0.5), np.sqrt(max(p - k - 0.5, 0.5))
        centre = sum(roots) ** 2
        scale = sum(roots) * (1.0 / roots[0] + 1.0 / roots[1]) ** (1.0 / 3.0)
        if values[k] * m <= sigma2 * (centre + _TRACY_WIDOM_999 * scale):
            return k
    return most


def resolve_dimension(
    n_components: int | str, parts: Any, most: int | None = None, noise: float | None = None
) -> int:
    """The number of components asked for, checked, or counted if it is "auto".

    ``parts`` is the `Spectrum` of the table, ``most`` a further limit for the count.
    """
    n, p = parts.n, parts.table.shape[1]
    limit = min(n, p) - 1
    if isinstance(n_components, str) and n_components == "auto":
        d = count_signals(host(parts.eigenvalues), n, p, noise)
        return max(1, min(d, limit, most or limit))
    check_integer("n_components", n_components, 1, ' or "auto"')
    if int(n_components) > limit:
        raise ParameterError(
            f"`n_components` must be smaller than min(n_samples, n_features) = {limit + 1} "
            f"(constant columns not counted), got {n_components}"
        )
    return int(n_components)
