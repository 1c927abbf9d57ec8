"""Stability of the selection of a fitted model.

* `stability_selection` refits the model to complementary pairs of random halves of the rows [SS13].
  The function estimates selection frequencies and bounds the expected number of false variables in
  the stable set.
* `permutation_null` refits the model to datasets without shared variance (random signs or permuted
  columns).
* `near_optimal_sizes` lists the numbers of variables whose evidence is close to the maximum.

[SS13] R. D. Shah, R. J. Samworth. Variable selection with error control: another look at
       stability selection. Journal of the Royal Statistical Society B 75, 2013.
"""

from .complementary_pairs import Stability, stability_selection
from .near_optimal import NearOptimalSizes, near_optimal_sizes
from .null_datasets import PermutationNull, permutation_null

__all__ = [
    "NearOptimalSizes",
    "PermutationNull",
    "Stability",
    "near_optimal_sizes",
    "permutation_null",
    "stability_selection",
]
