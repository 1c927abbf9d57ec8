"""The loop stops for the right reasons, and acceleration pays without ever costing height."""

from typing import NamedTuple

import array_api_compat.numpy as xp
import numpy as np
import pytest

from prosparse.engine.acceleration import Anderson
from prosparse.engine.loop import StopReason, iterate

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


def anderson():
    return Anderson(lambda p: p.x, lambda v, p: p._replace(x=v), xp)


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
    assert "raise `max_iter`" in str(run.reason)


def test_exhausted_ends_the_loop():
    step, start = quadratic()
    run = iterate(step, start, max_iter=100, tol=0, exhausted=lambda p: p.bound > -0.9)
    assert run.reason is StopReason.NOTHING_LEFT
    assert run.state.bound > -0.9


def test_anderson_is_far_ahead_of_plain_steps():
    step, start = quadratic()
    fast = iterate(step, start, max_iter=100, tol=1e-14, accelerator=anderson())
    slow = iterate(step, start, max_iter=100, tol=1e-14)
    assert fast.reason is StopReason.CONVERGED
    assert fast.bounds[-1] > -1e-8 > 1e3 * slow.bounds[-1]


def test_acceleration_never_lets_the_objective_fall():
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
        run = iterate(step, Point(x, height(x)), max_iter=300, tol=1e-13, accelerator=anderson())
        assert np.all(np.diff(run.bounds) >= 0)
        assert run.bounds[-1] == pytest.approx(run.state.bound)


def test_a_step_that_goes_nowhere_is_convergence():
    still = Point(np.ones(3), 1.0)
    run = iterate(lambda p: p, still, max_iter=50, tol=0.0, accelerator=anderson())
    assert run.reason is StopReason.CONVERGED
    np.testing.assert_array_equal(run.state.x, np.ones(3))


def test_a_saddle_is_left():
    step, start = saddle()
    run = iterate(step, start, max_iter=300, tol=1e-9, accelerator=anderson())
    assert abs(run.state.x[0]) == pytest.approx(1.0, abs=1e-2)
    plain = iterate(step, start, max_iter=300, tol=1e-9)
    assert len(run.bounds) < len(plain.bounds)


def test_progress_with_rich(capsys):
    from prosparse.engine.progress import Progress

    step, start = quadratic()
    iterate(step, start, max_iter=5, tol=0, progress=Progress(5, "valley", verbose=1))
    assert "valley" in capsys.readouterr().err


def test_progress_without_rich(capsys, monkeypatch):
    import sys

    from prosparse.engine.progress import Progress

    monkeypatch.setitem(sys.modules, "rich", None)
    step, start = quadratic()
    iterate(step, start, max_iter=5, tol=0, progress=Progress(5, "valley", verbose=1))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6
    assert lines[-1] == "valley: 5 iterations"


def test_a_step_that_cannot_be_decomposed_is_a_fall():
    step, start = quadratic(condition=50)
    failed = []

    def fragile(point):
        if len(failed) < 3 and point.bound > -0.2:  # the first three tries near the top
            failed.append(point)
            raise np.linalg.LinAlgError("did not converge")
        return step(point)

    run = iterate(fragile, start, max_iter=2000, tol=1e-12, accelerator=anderson())
    assert len(failed) == 3
    assert run.reason is StopReason.CONVERGED
    assert np.all(np.diff(run.bounds) >= 0)

    def never(point):
        raise np.linalg.LinAlgError("did not converge")

    with pytest.raises(np.linalg.LinAlgError):  # nothing to fall back on
        iterate(never, start, max_iter=5, tol=1e-12)
