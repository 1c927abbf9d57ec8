"""Whatever table comes, every estimator ends in a valid fit or in a refusal in words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prosparse.registry import METHODS

from .checks import outcome
from .estimators import PARAMETERS, estimators
from .tables import build, response, specs


def test_none_is_forgotten():
    assert set(PARAMETERS) == set(METHODS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_any_table(name):
    @given(estimators(name), specs(200), st.integers(-150, 150))
    def check(estimator, spec, exponent):
        outcome(estimator, build(spec), response(spec, exponent, name))

    check()
