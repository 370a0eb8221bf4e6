"""The minimiser on its own: exact where the function is, and soon done where it is noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from gradate.training.convex import Function, Minimum, minimise

DIM = 12


def quadratic(noise: float = 0.0, condition: float = 1e4) -> tuple[Function, np.ndarray, list[int]]:
    generator = np.random.default_rng(0)
    axes = np.linalg.qr(generator.normal(size=(DIM, DIM)))[0]
    hessian = axes @ np.diag(np.geomspace(1, condition, DIM)) @ axes.T
    target = generator.normal(size=DIM)
    calls: list[int] = []

    def function(point: np.ndarray) -> tuple[float, np.ndarray]:
        calls.append(1)
        offset = point - target
        value = 1 + offset @ hessian @ offset / 2
        return float(value * (1 + noise * generator.normal())), hessian @ offset

    return function, target, calls


def run(
    function: Function, tolerance: float = 1e-9, iterations: int = 500, start: np.ndarray | None = None
) -> Minimum:
    return minimise(
        function,
        np.zeros(DIM) if start is None else start,
        inverse_hessian=np.ones(DIM),
        enough=lambda value, gradient: bool(np.linalg.norm(gradient) <= tolerance),
        iterations=iterations,
    )


def test_an_ill_conditioned_quadratic_is_solved() -> None:
    function, target, calls = quadratic()
    found = run(function)
    np.testing.assert_allclose(found.point, target, atol=1e-8)
    assert np.linalg.norm(found.gradient) <= 1e-9 and len(calls) < 120


def test_an_exact_preconditioner_needs_one_iteration() -> None:
    scales = np.geomspace(1, 1e6, DIM)
    found = minimise(
        lambda x: (float(x @ (scales * x)) / 2, scales * x),
        np.ones(DIM),
        inverse_hessian=1 / scales,
        enough=lambda value, gradient: bool(np.linalg.norm(gradient) < 1e-6),
        iterations=10,
    )
    assert found.iterations == 1


def test_noise_in_the_value_neither_stops_nor_delays() -> None:
    exact, target, without = quadratic(condition=100)
    run(exact)
    noisy, target, calls = quadratic(noise=1e-10, condition=100)
    found = run(noisy)
    np.testing.assert_allclose(found.point, target, atol=1e-7)
    assert len(calls) <= len(without) + 5


def test_it_ends_where_the_gradient_is_noise() -> None:
    function, _, calls = quadratic(condition=100)
    generator = np.random.default_rng(1)

    def rough(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = function(point)
        return value, gradient + 1e-5 * generator.normal(size=DIM)

    found = run(rough, tolerance=1e-12)
    assert np.linalg.norm(found.gradient) < 1e-3
    assert len(calls) < 400


def test_a_nearly_sharp_corner() -> None:
    slopes = np.random.default_rng(0).normal(size=(200, DIM))
    levels = np.random.default_rng(1).normal(size=200)
    width = 1e-3

    def function(point: np.ndarray) -> tuple[float, np.ndarray]:
        rest = slopes @ point - levels
        root = np.sqrt(rest**2 + width**2)
        return float(root.mean() + point @ point / 200), slopes.T @ (rest / root) / 200 + point / 100

    found = run(function, tolerance=1e-8)
    reference = scipy_minimize(function, np.zeros(DIM), jac=True, method="BFGS", options={"gtol": 1e-9})
    assert found.value == pytest.approx(reference.fun, abs=1e-9)
    assert np.linalg.norm(found.gradient) <= 1e-8


def test_a_start_at_the_minimum_is_kept() -> None:
    function, target, calls = quadratic()
    found = run(function, start=target)
    assert found.iterations == 0 and np.array_equal(found.point, target) and len(calls) == 1


def test_no_more_iterations_than_allowed() -> None:
    function, _, _ = quadratic()
    found = run(function, iterations=3)
    assert found.iterations <= 3 and found.value < function(np.zeros(DIM))[0]


def test_a_function_that_is_not_finite() -> None:
    found = run(lambda x: (float("nan"), np.full(DIM, np.nan)))
    assert np.isnan(found.value) and found.iterations == 0

    def walled(x: np.ndarray) -> tuple[float, np.ndarray]:
        if x[0] > 0.5:
            return float("inf"), np.full(DIM, np.nan)
        return float((x - 0.4) @ (x - 0.4)) * 50, 100 * (x - 0.4)

    np.testing.assert_allclose(run(walled, tolerance=1e-8).point, 0.4, atol=1e-6)
