"""How sure is a choice of variables?

Three questions to a fitted model, each with a function of its own:

* `assess`: would half of the rows have led to the same variables? Complementary pairs of halves
  [SS13], how often each variable is chosen, and a bound on the false ones among the stable.
* `shuffled`: what would have been chosen if nothing were shared? The same values, every column in
  an order of its own.
* `equally_good`: which other numbers of variables have nearly the same evidence?

[SS13] R. D. Shah, R. J. Samworth. Variable selection with error control: another look at
       stability selection. Journal of the Royal Statistical Society B 75, 2013.
"""

from .bounds import expected_low, unimodal_factor, worst_factor
from .chance import Chance, shuffled
from .evidence import EquallyGood, equally_good
from .halves import Stability, assess

__all__ = [
    "Chance",
    "EquallyGood",
    "Stability",
    "assess",
    "equally_good",
    "expected_low",
    "shuffled",
    "unimodal_factor",
    "worst_factor",
]
