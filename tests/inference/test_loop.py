"""The loop stops for the right reasons, and acceleration pays without ever costing height."""

from typing import NamedTuple

import array_api_compat.numpy as xp
import numpy as np
import pytest

from prosparse.inference.acceleration import Anderson
from prosparse.inference.loop import (
    StopReason,
    iterate,
    relative_rounding,
    residual_rounding,
    worst,
)
from prosparse.models.gsppca.quasi_newton import QuasiNewton

pytestmark = pytest.mark.quick


class Point(NamedTuple):
    x: np.ndarray
    bound: float


def ascent(gradient, height, rate):
    def step(point):
        x = point.x + rate * gradient(point.x)
        return Point(x, height(x))

    return step


def quadratic(condition=1e4, size=8):
    """A long valley: plain ascent needs some `condition` steps."""
    scale = np.geomspace(1.0 / condition, 1.0, size)
    step = ascent(lambda x: -scale * x, lambda x: float(-0.5 * np.sum(scale * x**2)), 1.0)
    x = np.ones(size)
    return step, Point(x, float(-0.5 * np.sum(scale * x**2)))


def saddle(x0=0.02):
    """-(1 - x^2)^2 / 100 - y^2/2: a saddle at the origin, maxima at x = +-1."""

    def height(v):
        return float(-0.01 * (1 - v[0] ** 2) ** 2 - 0.5 * v[1] ** 2)

    def gradient(v):
        return np.array([0.04 * v[0] * (1 - v[0] ** 2), -v[1]])

    x = np.array([x0, 1.0])
    return ascent(gradient, height, 0.5), Point(x, height(x))


def anderson(kind=Anderson):
    return kind(lambda p: p.x, lambda v, p: p._replace(x=v), xp)


both = pytest.mark.parametrize("kind", [Anderson, QuasiNewton])


def test_plain_iterations_converge_and_never_fall():
    step, start = quadratic(condition=50)
    run = iterate(step, start, max_iter=2000, tol=1e-12)
    assert run.reason is StopReason.CONVERGED
    assert np.all(np.diff(run.bounds) >= 0)
    assert run.bounds[-1] == pytest.approx(0, abs=1e-9)


def test_max_iter_is_reported_with_advice():
    step, start = quadratic()
    run = iterate(step, start, max_iter=7, tol=0)
    assert run.reason is StopReason.MAX_ITER
    assert len(run.bounds) == 7
    assert "increase `max_iter`" in str(run.reason)


def test_exhausted_ends_the_loop():
    step, start = quadratic()
    run = iterate(step, start, max_iter=100, tol=0, exhausted=lambda p: p.bound > -0.9)
    assert run.reason is StopReason.EMPTY_MODEL
    assert run.state.bound > -0.9


@pytest.mark.parametrize(("kind", "condition"), [(Anderson, 1e4), (QuasiNewton, 100)])
def test_acceleration_is_far_ahead_of_plain_steps(kind, condition):
    step, start = quadratic(condition)
    fast = iterate(step, start, max_iter=100, tol=1e-14, accelerator=anderson(kind))
    slow = iterate(step, start, max_iter=100, tol=1e-14)
    assert fast.reason is StopReason.CONVERGED
    assert fast.bounds[-1] > -1e-8 > 1e3 * slow.bounds[-1]


@both
def test_acceleration_never_lets_the_objective_fall(kind):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((6, 6))
        A = A @ A.T / 20

        def height(x, A=A):
            return float(-0.5 * x @ A @ x - 0.1 * np.sum(x**4) + np.sum(np.cos(3 * x)))

        def gradient(x, A=A):
            return -A @ x - 0.4 * x**3 - 3 * np.sin(3 * x)

        x = rng.standard_normal(6)
        step = ascent(gradient, height, 0.02)
        start, acceleration = Point(x, height(x)), anderson(kind)
        run = iterate(step, start, max_iter=300, tol=1e-13, accelerator=acceleration)
        assert np.all(np.diff(run.bounds) >= 0)
        assert run.bounds[-1] == pytest.approx(run.state.bound)


@both
def test_a_step_that_goes_nowhere_is_convergence(kind):
    still = Point(np.ones(3), 1.0)
    run = iterate(lambda p: p, still, max_iter=50, tol=0.0, accelerator=anderson(kind))
    assert run.reason is StopReason.CONVERGED
    np.testing.assert_array_equal(run.state.x, np.ones(3))


@both
def test_a_saddle_is_left(kind):
    step, start = saddle()
    run = iterate(step, start, max_iter=300, tol=1e-9, accelerator=anderson(kind))
    assert abs(run.state.x[0]) == pytest.approx(1.0, abs=1e-2)
    plain = iterate(step, start, max_iter=300, tol=1e-9)
    assert len(run.bounds) < len(plain.bounds)


def test_secants_go_away_from_a_saddle_on_either_side():
    """From the changes alone: one proposal, without a fall that would tell."""
    for x0 in (-0.02, 0.02):
        step, start = saddle(x0)
        accelerator = anderson(QuasiNewton)
        memory = accelerator.begin(start)
        for _ in range(4):
            result = step(start)
            memory, start = accelerator.propose(memory, start, result)
        assert start.x[0] * np.sign(x0) > 1.5 * abs(result.x[0])


def test_secants_find_the_top_of_a_quadratic_in_as_many_steps_as_it_has_directions():
    """Up to the longest step allowed, which a valley of that condition does not need."""
    step, start = quadratic(condition=20.0, size=3)
    fast = iterate(step, start, max_iter=12, tol=0.0, accelerator=anderson(QuasiNewton))
    assert max(fast.bounds) == pytest.approx(0.0, abs=1e-20)


def fragile_near_the_top(failures, trouble):
    """Plain ascent of which the first few tries near the top end in ``trouble(result)``."""
    step, start = quadratic(condition=50)
    failed = []

    def fragile(point):
        result = step(point)
        if len(failed) < failures and point.bound > -0.2:
            failed.append(point)
            return trouble(result)
        return result

    return fragile, start, failed


def no_decomposition(point):
    raise np.linalg.LinAlgError("did not converge")


TROUBLES = {
    StopReason.DECOMPOSITION_FAILED: no_decomposition,
    StopReason.NOT_FINITE: lambda point: point._replace(bound=np.nan),
    StopReason.DECREASED: lambda point: point._replace(bound=point.bound - 1.0),
}


@both
@pytest.mark.parametrize("reason", TROUBLES, ids=lambda reason: reason.name)
def test_trouble_from_an_accelerated_start_is_withdrawn(reason, kind):
    """Two tries fail: the accelerator's and the one further along; the plain one does not."""
    fragile, start, failed = fragile_near_the_top(2, TROUBLES[reason])
    run = iterate(fragile, start, max_iter=2000, tol=1e-12, accelerator=anderson(kind))
    assert len(failed) == 2
    assert run.reason is StopReason.CONVERGED
    assert np.all(np.diff(run.bounds) >= 0)
    assert run.bounds[-1] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("reason", TROUBLES, ids=lambda reason: reason.name)
def test_trouble_from_a_plain_start_is_never_called_convergence(reason, accelerated):
    fragile, start, failed = fragile_near_the_top(3 if accelerated else 1, TROUBLES[reason])
    accelerator = anderson() if accelerated else None
    run = iterate(fragile, start, max_iter=2000, tol=1e-12, accelerator=accelerator)
    assert len(failed) == (3 if accelerated else 1)
    assert run.reason is reason
    assert run.reason.unfinished
    assert "best result so far" in str(run.reason)
    assert run.state.bound > -0.2  # the state before the trouble
    assert np.isfinite(run.state.bound)


def no_quotient(point):
    return point._replace(bound=1.0 / 0.0)


def no_torch_decomposition(point):
    torch = pytest.importorskip("torch", reason="Torch is not installed")
    torch.linalg.cholesky(-torch.eye(2))


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (no_quotient, StopReason.NOT_FINITE),
        pytest.param(
            no_torch_decomposition, StopReason.DECOMPOSITION_FAILED, marks=pytest.mark.slow
        ),
    ],
)
def test_errors_of_other_libraries_are_trouble_too(trouble, reason):
    """Python's numbers raise where NumPy's are NaN, and Torch has a LinAlgError of its own."""
    fragile, start, _ = fragile_near_the_top(2, trouble)
    run = iterate(fragile, start, max_iter=2000, tol=1e-12, accelerator=anderson())
    assert run.reason is StopReason.CONVERGED
    fragile, start, _ = fragile_near_the_top(1, trouble)
    run = iterate(fragile, start, max_iter=2000, tol=1e-12)
    assert run.reason is reason
    assert run.state.bound > -0.2


def test_a_fall_is_reported_and_its_state_is_not_accepted():
    heights = iter([1.0, 2.0, 1.5])

    def step(point):
        return Point(point.x, next(heights))

    run = iterate(step, Point(np.zeros(1), 0.0), max_iter=10, tol=1e-12)
    assert run.bounds == [1.0, 2.0, 2.0]
    assert run.state.bound == 2.0
    assert run.reason is StopReason.DECREASED


def test_a_fall_within_rounding_is_convergence():
    heights = iter([1e6, 1e6 * (1 - 1e-13)])
    run = iterate(
        lambda point: Point(point.x, next(heights)), Point(np.zeros(1), 0.0), max_iter=9, tol=0.0
    )
    assert run.reason is StopReason.CONVERGED
    assert run.state.bound == 1e6


def test_the_worst_of_several_reasons_is_reported():
    assert worst([StopReason.CONVERGED, StopReason.NO_SIGNAL]) is StopReason.CONVERGED
    assert worst([StopReason.MAX_ITER, StopReason.CONVERGED]) is StopReason.MAX_ITER
    reasons = [StopReason.NOT_FINITE, StopReason.MAX_ITER, StopReason.DECREASED]
    assert worst(reasons) is StopReason.NOT_FINITE


def test_nothing_to_fall_back_on():
    _, start = quadratic()
    with pytest.raises(np.linalg.LinAlgError):
        iterate(no_decomposition, start, max_iter=5, tol=1e-12)


SINGLE, DOUBLE = (float(np.finfo(kind).eps) for kind in (np.float32, np.float64))


@pytest.mark.parametrize(
    ("fall", "epsilon", "reason"),
    [
        (2e-7, SINGLE, StopReason.CONVERGED),  # the seventh digit
        (2e-7, DOUBLE, StopReason.DECREASED),
        (1e-4, SINGLE, StopReason.DECREASED),  # no precision explains that
        (1e-12, DOUBLE, StopReason.CONVERGED),
    ],
)
def test_what_rounding_explains_depends_on_the_precision(fall, epsilon, reason):
    def step(point):
        return Point(point.x, point.bound * (1.0 + fall))  # the bound is negative

    run = iterate(
        step,
        Point(np.zeros(1), -1e3),
        max_iter=5,
        tol=1e-10,
        rounding=lambda state: relative_rounding(state, epsilon),
    )
    assert run.reason is reason


def test_a_residual_loses_digits_of_what_it_is_the_difference_of():
    state = Point(np.zeros(1), -1.0)
    for epsilon in (SINGLE, DOUBLE):
        near = residual_rounding(state, 1e3, 1.0, epsilon)
        assert residual_rounding(state, 1e3, 1e-3, epsilon) > 100 * (
            near - relative_rounding(state, epsilon)
        )
    assert residual_rounding(state, 1e3, 1.0, SINGLE) > 1e4 * residual_rounding(
        state, 1e3, 1.0, DOUBLE
    )
