"""How sure is a choice of variables?

Three questions to a fitted model, each with a function of its own:

* `stability_selection`: would half of the rows have led to the same variables? Complementary pairs of halves
  [SS13], how often each variable is chosen, and a bound on the false ones among the stable.
* `permutation_null`: what would have been chosen if nothing were shared? The same values, every column in
  an order of its own.
* `near_optimal_sizes`: which other numbers of variables have nearly the same evidence?

[SS13] R. D. Shah, R. J. Samworth. Variable selection with error control: another look at
       stability selection. Journal of the Royal Statistical Society B 75, 2013.
"""

from .bounds import expected_low, unimodal_factor, worst_factor
from .evidence import NearOptimalSizes, near_optimal_sizes
from .halves import Stability, stability_selection
from .null_datasets import PermutationNull, permutation_null

__all__ = [
    "NearOptimalSizes",
    "PermutationNull",
    "Stability",
    "expected_low",
    "near_optimal_sizes",
    "permutation_null",
    "stability_selection",
    "unimodal_factor",
    "worst_factor",
]
