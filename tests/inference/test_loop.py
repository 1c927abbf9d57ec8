"""Iteration loop: stop reasons, acceleration and rounding."""

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
    """Return an ill-conditioned quadratic: plain ascent needs about ``condition`` steps."""
    scale = np.geomspace(1.0 / condition, 1.0, size)
    step = ascent(lambda x: -scale * x, lambda x: float(-0.5 * np.sum(scale * x**2)), 1.0)
    x = np.ones(size)
    return step, Point(x, float(-0.5 * np.sum(scale * x**2)))


def saddle(x0=0.02):
    """Return -(1 - x^2)^2 / 100 - y^2/2, with a saddle at 0 and maxima at x = -1 and 1."""

    def height(v):
        return float(-0.01 * (1 - v[0] ** 2) ** 2 - 0.5 * v[1] ** 2)

    def gradient(v):
        return np.array([0.04 * v[0] * (1 - v[0] ** 2), -v[1]])

    x = np.array([x0, 1.0])
    return ascent(gradient, height, 0.5), Point(x, height(x))


def make_accelerator(kind=Anderson):
    return kind(lambda p: p.x, lambda v, p: p._replace(x=v), xp)


both_accelerators = pytest.mark.parametrize("kind", [Anderson, QuasiNewton])


def test_plain_iterations_converge_and_are_non_decreasing():
    step, start = quadratic(condition=50)
    run = iterate(step, start, max_iter=2000, tol=1e-12)
    assert run.reason is StopReason.CONVERGED
    assert np.all(np.diff(run.bounds) >= 0)
    assert run.bounds[-1] == pytest.approx(0, abs=1e-9)


def test_max_iter_is_a_stop_reason_with_a_remedy():
    step, start = quadratic()
    run = iterate(step, start, max_iter=7, tol=0)
    assert run.reason is StopReason.MAX_ITER
    assert len(run.bounds) == 7
    assert "increase `max_iter`" in str(run.reason)


def test_empty_model_ends_the_loop():
    step, start = quadratic()
    run = iterate(step, start, max_iter=100, tol=0, exhausted=lambda p: p.bound > -0.9)
    assert run.reason is StopReason.EMPTY_MODEL
    assert run.state.bound > -0.9


@pytest.mark.parametrize(("kind", "condition"), [(Anderson, 1e4), (QuasiNewton, 100)])
def test_acceleration_converges_faster_than_plain_steps(kind, condition):
    step, start = quadratic(condition)
    fast = iterate(step, start, max_iter=100, tol=1e-14, accelerator=make_accelerator(kind))
    slow = iterate(step, start, max_iter=100, tol=1e-14)
    assert fast.reason is StopReason.CONVERGED
    assert fast.bounds[-1] > -1e-8 > 1e3 * slow.bounds[-1]


@both_accelerators
def test_accelerated_objective_is_non_decreasing(kind):
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
        start, accelerator = Point(x, height(x)), make_accelerator(kind)
        run = iterate(step, start, max_iter=300, tol=1e-13, accelerator=accelerator)
        assert np.all(np.diff(run.bounds) >= 0)
        assert run.bounds[-1] == pytest.approx(run.state.bound)


@both_accelerators
def test_step_of_length_zero_is_convergence(kind):
    start = Point(np.ones(3), 1.0)
    run = iterate(lambda p: p, start, max_iter=50, tol=0.0, accelerator=make_accelerator(kind))
    assert run.reason is StopReason.CONVERGED
    np.testing.assert_array_equal(run.state.x, np.ones(3))


@both_accelerators
def test_accelerated_iterations_leave_a_saddle(kind):
    step, start = saddle()
    run = iterate(step, start, max_iter=300, tol=1e-9, accelerator=make_accelerator(kind))
    assert abs(run.state.x[0]) == pytest.approx(1.0, abs=1e-2)
    plain = iterate(step, start, max_iter=300, tol=1e-9)
    assert len(run.bounds) < len(plain.bounds)


def test_quasi_newton_proposals_lead_away_from_a_saddle():
    for x0 in (-0.02, 0.02):
        step, start = saddle(x0)
        accelerator = make_accelerator(QuasiNewton)
        memory = accelerator.begin(start)
        for _ in range(4):
            result = step(start)
            memory, start = accelerator.propose(memory, start, result)
        assert start.x[0] * np.sign(x0) > 1.5 * abs(result.x[0])


def test_quasi_newton_maximises_a_quadratic_in_few_steps():
    """The condition number is below the maximum length of a step."""
    step, start = quadratic(condition=20.0, size=3)
    fast = iterate(step, start, max_iter=12, tol=0.0, accelerator=make_accelerator(QuasiNewton))
    assert max(fast.bounds) == pytest.approx(0.0, abs=1e-20)


def make_failing_ascent(n_failures, failure):
    """Return plain ascent whose first steps near the maximum return ``failure(result)``."""
    step, start = quadratic(condition=50)
    failed = []

    def failing_step(point):
        result = step(point)
        if len(failed) < n_failures and point.bound > -0.2:
            failed.append(point)
            return failure(result)
        return result

    return failing_step, start, failed


def fail_decomposition(point):
    raise np.linalg.LinAlgError("did not converge")


FAILURES = {
    StopReason.DECOMPOSITION_FAILED: fail_decomposition,
    StopReason.NOT_FINITE: lambda point: point._replace(bound=np.nan),
    StopReason.DECREASED: lambda point: point._replace(bound=point.bound - 1.0),
}


@both_accelerators
@pytest.mark.parametrize("reason", FAILURES, ids=lambda reason: reason.name)
def test_failures_after_an_accelerated_start_are_discarded(reason, kind):
    """The steps from the proposal and from the extrapolation fail; the plain step does not."""
    step, start, failed = make_failing_ascent(2, FAILURES[reason])
    run = iterate(step, start, max_iter=2000, tol=1e-12, accelerator=make_accelerator(kind))
    assert len(failed) == 2
    assert run.reason is StopReason.CONVERGED
    assert np.all(np.diff(run.bounds) >= 0)
    assert run.bounds[-1] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("reason", FAILURES, ids=lambda reason: reason.name)
def test_failure_after_a_plain_start_is_the_stop_reason(reason, accelerated):
    step, start, failed = make_failing_ascent(3 if accelerated else 1, FAILURES[reason])
    accelerator = make_accelerator() if accelerated else None
    run = iterate(step, start, max_iter=2000, tol=1e-12, accelerator=accelerator)
    assert len(failed) == (3 if accelerated else 1)
    assert run.reason is reason
    assert run.reason.unfinished
    assert "best result so far" in str(run.reason)
    assert run.state.bound > -0.2  # the state before the failure
    assert np.isfinite(run.state.bound)


def divide_by_zero(point):
    return point._replace(bound=1.0 / 0.0)


def fail_torch_decomposition(point):
    torch = pytest.importorskip("torch", reason="Torch is not installed")
    torch.linalg.cholesky(-torch.eye(2))


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (divide_by_zero, StopReason.NOT_FINITE),
        pytest.param(
            fail_torch_decomposition, StopReason.DECOMPOSITION_FAILED, marks=pytest.mark.slow
        ),
    ],
)
def test_errors_of_python_and_torch_are_failures(failure, reason):
    step, start, _ = make_failing_ascent(2, failure)
    run = iterate(step, start, max_iter=2000, tol=1e-12, accelerator=make_accelerator())
    assert run.reason is StopReason.CONVERGED
    step, start, _ = make_failing_ascent(1, failure)
    run = iterate(step, start, max_iter=2000, tol=1e-12)
    assert run.reason is reason
    assert run.state.bound > -0.2


def test_decrease_ends_the_loop_and_is_not_accepted():
    heights = iter([1.0, 2.0, 1.5])

    def step(point):
        return Point(point.x, next(heights))

    run = iterate(step, Point(np.zeros(1), 0.0), max_iter=10, tol=1e-12)
    assert run.bounds == [1.0, 2.0, 2.0]
    assert run.state.bound == 2.0
    assert run.reason is StopReason.DECREASED


def test_decrease_within_rounding_is_convergence():
    heights = iter([1e6, 1e6 * (1 - 1e-13)])
    run = iterate(
        lambda point: Point(point.x, next(heights)), Point(np.zeros(1), 0.0), max_iter=9, tol=0.0
    )
    assert run.reason is StopReason.CONVERGED
    assert run.state.bound == 1e6


def test_worst_returns_the_most_severe_reason():
    assert worst([StopReason.CONVERGED, StopReason.NO_SIGNAL]) is StopReason.CONVERGED
    assert worst([StopReason.MAX_ITER, StopReason.CONVERGED]) is StopReason.MAX_ITER
    reasons = [StopReason.NOT_FINITE, StopReason.MAX_ITER, StopReason.DECREASED]
    assert worst(reasons) is StopReason.NOT_FINITE


def test_failure_of_the_first_step_raises():
    _, start = quadratic()
    with pytest.raises(np.linalg.LinAlgError):
        iterate(fail_decomposition, start, max_iter=5, tol=1e-12)


SINGLE, DOUBLE = (float(np.finfo(kind).eps) for kind in (np.float32, np.float64))


@pytest.mark.parametrize(
    ("decrease", "epsilon", "reason"),
    [
        (2e-7, SINGLE, StopReason.CONVERGED),
        (2e-7, DOUBLE, StopReason.DECREASED),
        (1e-4, SINGLE, StopReason.DECREASED),
        (1e-12, DOUBLE, StopReason.CONVERGED),
    ],
)
def test_rounding_tolerance_depends_on_the_precision(decrease, epsilon, reason):
    def step(point):
        return Point(point.x, point.bound * (1.0 + decrease))  # the bound is negative

    run = iterate(
        step,
        Point(np.zeros(1), -1e3),
        max_iter=5,
        tol=1e-10,
        rounding=lambda state: relative_rounding(state, epsilon),
    )
    assert run.reason is reason


def test_residual_rounding_grows_with_epsilon_and_inverse_noise():
    state = Point(np.zeros(1), -1.0)
    for epsilon in (SINGLE, DOUBLE):
        near = residual_rounding(state, 1e3, 1.0, epsilon)
        assert residual_rounding(state, 1e3, 1e-3, epsilon) > 100 * (
            near - relative_rounding(state, epsilon)
        )
    assert residual_rounding(state, 1e3, 1.0, SINGLE) > 1e4 * residual_rounding(
        state, 1e3, 1.0, DOUBLE
    )
