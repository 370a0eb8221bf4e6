"""Minimising a smooth convex function whose gradient is costly and whose last digits are noise."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Function = Callable[[Array], tuple[float, Array]]
MEMORY = 30
"""Steps that the curvature is estimated from."""
NOISE = 1e-8
"""Relative error of a value summed from single-precision features; smaller differences say nothing."""
PATIENCE = 4
"""Iterations without progress after which what remains is noise."""
TRIALS = 20
SLOPE_LEFT = 0.9
"""Share of the slope along a direction that a step may leave."""


@dataclass(frozen=True)
class Minimum:
    """Where a minimisation ended: the point with the smallest gradient that it met."""

    point: Array
    value: float
    gradient: Array
    iterations: int


def minimise(
    function: Function,
    start: Array,
    *,
    inverse_hessian: Array,
    enough: Callable[[float, Array], bool],
    iterations: int,
) -> Minimum:
    """L-BFGS until a point is good enough, or until the noise of the function hides all progress.

    A step is judged by the slope it ends with: along a line the slope of a convex function rises, so its sign brackets
    the minimum, and it stays exact where differences of values drown in rounding. scipy's L-BFGS judges by values and
    spends most of its evaluations there.

    Args:
        function: Value and gradient (n,) at a point (n,).
        start: Where to begin, (n,).
        inverse_hessian: Estimate of the diagonal of the inverse Hessian up to a factor, (n,), above 0.
        enough: Whether a value and a gradient (n,) are close enough to the minimum's.
        iterations: Most iterations to make.

    Returns:
        The point with the smallest gradient; its value is not finite if the function's value at `start` is not.

    Source: Nocedal & Wright, Numerical Optimization, algorithm 7.4; the acceptance of steps follows the approximate
    Wolfe conditions of Hager & Zhang (2005).

    >>> found = minimise(lambda x: (float(x @ x) / 2, x), np.array([3.0, 4.0]), inverse_hessian=np.ones(2),
    ...                  enough=lambda value, gradient: value < 1e-9, iterations=9)
    >>> found.point.tolist(), found.iterations
    ([0.0, 0.0], 1)
    """
    value, gradient = function(start)
    current = best = Minimum(start, value, gradient, 0)
    steps: deque[tuple[Array, Array]] = deque(maxlen=MEMORY)
    idle = 0
    while current.iterations < iterations and idle < PATIENCE:
        if not math.isfinite(current.value) or enough(best.value, best.gradient):
            break
        direction = -_apply_inverse(steps, inverse_hessian, current.gradient)
        found = _search(function, current, direction)
        if found is None and steps:
            steps.clear()  # the curvature seen so far misleads: once more from the estimate
            idle += 1
            continue
        if found is None:
            break
        moved, turned = found.point - current.point, found.gradient - current.gradient
        if moved @ turned > 0:
            steps.append((moved, turned))
        smaller = _norm(found.gradient) < _norm(best.gradient)
        lower = found.value < current.value - NOISE * abs(current.value)
        idle = 0 if smaller or lower else idle + 1
        current = found
        best = found if smaller else replace(best, iterations=found.iterations)
    return best


def _apply_inverse(steps: deque[tuple[Array, Array]], diagonal: Array, vector: Array) -> Array:
    """The two-loop recursion: the estimated inverse Hessian times a vector (n,)."""
    result = vector.copy()
    shares = []
    for moved, turned in reversed(steps):
        share = (moved @ result) / (moved @ turned)
        result -= share * turned
        shares.append(share)
    if steps:
        moved, turned = steps[-1]
        result *= diagonal * ((moved @ turned) / (turned @ (diagonal * turned)))
    else:
        result *= diagonal
    for (moved, turned), share in zip(steps, reversed(shares), strict=True):
        result += moved * (share - (turned @ result) / (moved @ turned))
    return result


def _search(function: Function, current: Minimum, direction: Array) -> Minimum | None:
    """A point along `direction` with little slope left and no higher value; None where there is none to be found."""
    slope = float(current.gradient @ direction)
    if not slope < 0:
        return None
    low, low_slope, high, high_slope = 0.0, slope, math.inf, math.inf
    step = 1.0
    for _ in range(TRIALS):
        point = current.point + step * direction
        value, gradient = function(point)
        end = float(gradient @ direction)
        is_finite = math.isfinite(value) and math.isfinite(end)
        if (
            is_finite
            and abs(end) <= SLOPE_LEFT * abs(slope)
            and value <= current.value + 1e-4 * step * slope + NOISE * abs(current.value)
        ):
            return Minimum(point, value, gradient, current.iterations + 1)
        if is_finite and end < 0:
            low, low_slope = step, end
        else:
            high, high_slope = step, end if is_finite else math.inf
        if high == math.inf:
            step *= 4
        elif high_slope == math.inf:
            step = (low + high) / 2
        else:
            margin = (high - low) / 10
            secant = low + (high - low) * low_slope / (low_slope - high_slope)
            step = min(max(secant, low + margin), high - margin)
    return None


def _norm(vector: Array) -> float:
    return float(np.linalg.norm(vector))
