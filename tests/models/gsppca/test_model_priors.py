"""Prior probabilities of models."""

import numpy as np
import pytest
from scipy.stats import binom

from prosparse.models.gsppca.model_priors import inclusion_probability, log_odds

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("n", "p"), [(10, 50), (40, 3000), (3, 4)])
def test_inclusion_probability_is_the_largest_with_the_level(n, p):
    rho = inclusion_probability(n, p)
    assert 0 < rho <= 0.5
    assert binom.sf(n, p, rho) <= 0.05 + 1e-9
    if rho < 0.5:
        assert binom.sf(n, p, 1.001 * rho) > 0.05


def test_log_odds():
    assert inclusion_probability(50, 30) == 0.5
    assert log_odds("uniform", 10, 50) == 0.0
    rho = inclusion_probability(10, 50)
    assert log_odds("sparse", 10, 50) == pytest.approx(np.log(rho / (1 - rho)))
    assert log_odds("sparse", 10, 50) < 0
