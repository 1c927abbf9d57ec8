"""Products with the observation mask agree with dense products."""

import numpy as np
import pytest

from prosparse.data.observation_mask import Observed

pytestmark = pytest.mark.quick

DENSITIES = {"all": 1.0, "most": 0.9, "half": 0.5, "few": 0.1, "none": 0.0}


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("rows", [slice(0, 12), slice(3, 7)])
def test_sums_over_observed_entries(density, rows, rng):
    seen = rng.random((12, 30)) < DENSITIES[density]
    observed = Observed(seen)
    values = rng.standard_normal((30, 4))
    for direct in (False, True):
        got = observed.sums(rows, values, direct)
        np.testing.assert_allclose(got, seen[rows].astype(float) @ values, atol=1e-12)
    per_row = rng.standard_normal((rows.stop - rows.start, 4))
    got = observed.sums_over_rows(rows, per_row)
    np.testing.assert_allclose(got, seen[rows].T.astype(float) @ per_row, atol=1e-12)


def test_direct_sums_avoid_cancellation():
    seen = np.ones((2, 20), dtype=bool)
    seen[0, 0] = False
    values = np.full((20, 1), 1e-3)
    values[0] = 1e16
    observed = Observed(seen)
    assert observed.stores_missing
    assert observed.sums(slice(0, 1), values, direct=True)[0, 0] == pytest.approx(0.019)
    assert observed.sums(slice(0, 1), values)[0, 0] != pytest.approx(0.019)
