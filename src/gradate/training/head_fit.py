"""The head-only stage: with a frozen encoder the fit is convex, so it is solved rather than trained."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from gradate.errors import TrainingStopped
from gradate.models.head import PairHead
from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.pair import build_loss
from gradate.scale import LabelScale
from gradate.training.axes import Axes
from gradate.training.block_workers import Workers, block_workers
from gradate.training.convex import minimise
from gradate.training.pair_features import PairFeatures, row_ranges

Array = npt.NDArray[np.float64]
L2_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
DENSE_UP_TO = 20_000
"""Pairs up to which the rotated features are held in memory and l2 is cross-validated."""
FOLDS = 5
FOLD_ITERATIONS = 60
FOLD_GAP = 1e-6
"""Enough to rank ridges a factor 10 apart; the head itself is solved to `GAP`."""
GAP = 1e-12
STREAMED_GAP = 1e-9
"""Bound on objective − minimum to reach, as a share of the objective; single precision hides what lies below."""
CORNER_GAP = 0.01
"""The same as a share of the smoothing error, where a corner is smoothed."""
SMALL_MATRIX = 1 << 22
"""Numbers up to which one thread does it all."""


@dataclass(frozen=True)
class HeadFit:
    """How well the convex problem was solved."""

    solver: str
    iterations: int
    objective: float
    """Value reached: mean loss plus ridge."""
    gradient_norm: float
    suboptimality: float
    """Proven bound on objective − minimum: |gradient|²/(2·l2) by strong convexity, plus the smoothing error."""
    l2: float
    l2_reason: str
    pairs: int
    texts: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON form."""
        return asdict(self)


def fit_head(
    head: PairHead,
    features: PairFeatures,
    grades: Array,
    objective: ObjectiveConfig,
    scale: LabelScale,
    *,
    weights: Array | None = None,
    l2: float | str = "auto",
    seed: int = 0,
) -> HeadFit:
    """Set `head` to the minimum of mean loss + l2/2·|standardised weights|², boundary policy `none`.

    Solver: L-BFGS on features centred, scaled block by block and rotated to the principal axes of their covariance,
    where the variances plus the ridge precondition it. Losses with a corner (L1, Translated ReLU) are minimised
    through a sequence of quadratic smoothings of falling width, the last of which enters the reported bound.

    Memory beyond the embeddings, which may be a memory map: at most `CACHE_BYTES` (1 GiB) of features kept between
    passes (a pass over more pairs makes them again), 80 bytes per pair, 40 per pair and feature up to 20,000 pairs,
    and 100 kB per feature + 80 bytes per squared width for the axes. A million pairs of width 1,152: 0.4 GB.

    Args:
        head: Changed in place.
        features: Features of n pairs.
        grades: Grades, (n,).
        objective: Resolved objective.
        scale: Scale of the grades.
        weights: Weight of each pair, (n,), mean 1; None: all 1.
        l2: Ridge, above 0; `auto`: chosen by cross-validation up to 20,000 pairs, 1e-4 beyond.
        seed: Seed of the folds.

    Raises:
        TrainingStopped: a feature or the objective is not finite.
    """
    started = time.perf_counter()
    with block_workers(one=len(features) * features.width <= SMALL_MATRIX) as workers:
        problem = _Problem(features, grades, weights, objective, scale, workers)
        if isinstance(l2, str):
            l2, reason = _choose_l2(problem, seed)
        else:
            reason = "set in the recipe"
        solution = problem.solve(l2)
    weight, bias = problem.to_head(solution)
    with torch.no_grad():
        head.linear.weight.copy_(torch.from_numpy(weight))
        head.linear.bias.copy_(torch.from_numpy(bias))
    name = "L-BFGS" if not problem.has_corner else "L-BFGS with smoothing"
    return HeadFit(
        solver=name,
        iterations=solution.iterations,
        objective=solution.value,
        gradient_norm=solution.gradient_norm,
        suboptimality=solution.gradient_norm**2 / (2 * l2) + problem.smoothing_error,
        l2=l2,
        l2_reason=reason,
        pairs=len(features),
        texts=features.texts,
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True)
class _Solution:
    weight: Array
    """On the principal axes, (outputs, axes)."""
    bias: Array
    """For centred features, (outputs,)."""
    value: float
    gradient_norm: float
    iterations: int


class _Problem:
    """Mean loss plus ridge, as a function of weights on the principal axes of the standardised features."""

    def __init__(
        self,
        features: PairFeatures,
        grades: Array,
        weights: Array | None,
        objective: ObjectiveConfig,
        scale: LabelScale,
        workers: Workers,
    ) -> None:
        self.features, self.scale, self.workers = features, scale, workers
        self.config = replace(objective, boundary="none")
        self.grades = torch.from_numpy(np.asarray(grades, dtype=np.float64))
        self.weights = torch.ones_like(self.grades) if weights is None else torch.from_numpy(weights)
        self.outputs = features.head.outputs
        self.loss = build_loss(self.config, scale, reduction="none")
        self.has_corner = self.config.name in ("l1", "translated-relu")
        spacing = scale.d or (scale.high - scale.low) / 5
        self.widths = [spacing * f for f in (0.3, 0.03, 0.003)] if self.has_corner else [0.0]
        self.slope = float(self.config.k) if self.config.name == "translated-relu" else 1.0
        self.smoothing_error = self.slope * self.widths[-1] / 2
        # The ridge also holds the bias at its start: strong convexity in every direction gives the proven bound.
        self.start_bias = np.zeros(self.outputs)
        if self.config.name != "cross-entropy":
            self.start_bias += float((self.grades * self.weights).sum() / self.weights.sum())
        self.axes = Axes.measure(features, self.weights, workers)
        self.rotated = self._rotate() if len(self.grades) <= DENSE_UP_TO else None

    def _rotate(self) -> Tensor:
        mean, basis = torch.from_numpy(self.axes.mean), torch.from_numpy(self.axes.basis)
        rotated = torch.empty(len(self.features), basis.shape[1], dtype=torch.float64)

        def fill(rows: slice) -> None:
            torch.matmul(self.features.block(rows).double() - mean, basis, out=rotated[rows])

        list(self.workers(fill, row_ranges(len(rotated))))
        return rotated

    def part(self, index: npt.NDArray[np.int64]) -> _Problem:
        """The same problem for some of the pairs on the same axes, in single precision."""
        assert self.rotated is not None
        part = copy.copy(self)
        part.rotated, part.grades, part.weights = self.rotated[index].float(), self.grades[index], self.weights[index]
        return part

    def to_head(self, solution: _Solution) -> tuple[Array, Array]:
        """Weight (outputs, width) and bias (outputs,) of the head."""
        weight = solution.weight @ self.axes.basis.T
        return weight, solution.bias - weight @ self.axes.mean

    def solve(self, l2: float) -> _Solution:
        """Minimise to convergence, from the mean grade."""
        solution = None
        for width in self.widths:
            step = self.minimise(l2, width, solution, iterations=1000)
            solution = replace(step, iterations=step.iterations + (solution.iterations if solution else 0))
        assert solution is not None
        return solution

    def minimise(
        self, l2: float, width: float, start: _Solution | None, *, iterations: int, gap: float | None = None
    ) -> _Solution:
        """Minimise for one width of the smoothing, until the bound is below `gap` times the objective."""
        if gap is None:
            gap = STREAMED_GAP if self.rotated is None else GAP
        floor = CORNER_GAP * self.slope * width / 2 if self.rotated is None else 0.0
        weight = start.weight if start else np.zeros((self.outputs, len(self.axes.variances)))
        bias = start.bias if start else self.start_bias

        def joint(point: Array) -> tuple[float, Array]:
            matrix = point.reshape(self.outputs, -1)
            value, by_weight, by_bias = self.value_and_gradient(matrix[:, :-1], matrix[:, -1], l2, width)
            return value, np.column_stack([by_weight, by_bias]).ravel()

        found = minimise(
            joint,
            np.column_stack([weight, bias]).ravel(),
            inverse_hessian=np.tile(1 / np.append(self.axes.variances + max(l2, 1e-6), 1.0), self.outputs),
            enough=lambda value, gradient: float(gradient @ gradient) / (2 * l2) <= max(gap * value, floor),
            iterations=iterations,
        )
        if not np.isfinite(found.value):
            raise TrainingStopped("the head's objective is not finite; check the grades and the encoder")
        matrix = found.point.reshape(self.outputs, -1)
        gradient_norm = float(np.linalg.norm(found.gradient))
        return _Solution(matrix[:, :-1], matrix[:, -1], found.value, gradient_norm, found.iterations)

    def value_and_gradient(self, weight: Array, bias: Array, l2: float, width: float) -> tuple[float, Array, Array]:
        """Objective at weights (outputs, axes) and bias (outputs,), with its gradient by both."""
        predict = self._predictor(weight, bias)

        def sums(rows: slice) -> tuple[float, Array, Array]:
            prediction, x = predict(rows)
            prediction.requires_grad_()
            losses = self.losses(prediction, self.grades[rows], width) * self.weights[rows]
            (gradient,) = torch.autograd.grad(losses.sum(), prediction)
            slope = gradient.to(x.dtype).T @ x
            return float(losses.detach().sum()), slope.double().numpy(), gradient.sum(0).numpy()

        n = len(self.grades)
        value, slope, slope_bias = 0.0, np.zeros((self.outputs, self.axes.basis.shape[0])), np.zeros(self.outputs)
        if self.rotated is not None:
            slope = np.zeros_like(weight)
        for part_value, part_slope, part_bias in self.workers(sums, row_ranges(n)):
            value += part_value / n
            slope += part_slope / n
            slope_bias += part_bias / n
        if self.rotated is None:
            slope = (slope - np.outer(slope_bias, self.axes.mean)) @ self.axes.basis
        offset = bias - self.start_bias
        value += l2 / 2 * (float((weight**2).sum()) + float(offset @ offset))
        return value, slope + l2 * weight, slope_bias + l2 * offset

    def _predictor(self, weight: Array, bias: Array) -> Callable[[slice], tuple[Tensor, Tensor]]:
        """For a block: its predictions (rows, outputs) in double precision, and what these are linear in."""
        if self.rotated is None:
            weight = weight @ self.axes.basis.T
            bias = bias - weight @ self.axes.mean
        exact, offset = torch.from_numpy(weight), torch.from_numpy(bias)
        rounded = exact.float()
        # Rounding the weights to single precision would move every prediction the same way; their rest travels along.
        both = torch.cat([rounded, (exact - rounded.double()).float()]).T

        def predict(rows: slice) -> tuple[Tensor, Tensor]:
            x = self.features.block(rows) if self.rotated is None else self.rotated[rows]
            if x.dtype == torch.float64:
                return x @ exact.T + offset, x
            parts = (x @ both).double()
            return parts[:, : self.outputs] + parts[:, self.outputs :] + offset, x

        return predict

    def losses(self, prediction: Tensor, grades: Tensor, width: float) -> Tensor:
        """Loss of each pair, (n,), for predictions (n, outputs); corners are smoothed over `width`."""
        if self.config.name == "cross-entropy":
            classes = torch.tensor(self.scale.values, dtype=torch.float64)
            return self.loss(prediction, (grades[:, None] - classes).abs().argmin(1))  # type: ignore[no-any-return]
        prediction = prediction.squeeze(1)
        if not self.has_corner:
            return self.loss(prediction, grades)  # type: ignore[no-any-return]
        x0 = 0.0 if self.config.name == "l1" else float(self.config.x0)
        excess = torch.relu((prediction - grades).abs() - x0)
        return (
            self.slope
            * nn.functional.huber_loss(excess, torch.zeros_like(excess), reduction="none", delta=width)
            / width
        )

    def loss_of(self, solution: _Solution) -> float:
        """Mean loss of a solution on these pairs, without the ridge."""
        predict = self._predictor(solution.weight, solution.bias)

        def total(rows: slice) -> float:
            losses = self.losses(predict(rows)[0], self.grades[rows], self.widths[-1])
            return float((losses * self.weights[rows]).sum())

        return sum(self.workers(total, row_ranges(len(self.grades)))) / len(self.grades)


def _choose_l2(problem: _Problem, seed: int) -> tuple[float, str]:
    n = len(problem.grades)
    if n > DENSE_UP_TO:
        return L2_GRID[0], f"more than {DENSE_UP_TO:,} pairs"
    if n < 2 * FOLDS:
        return L2_GRID[-1], f"only {n} pairs, too few to cross-validate"
    losses = dict.fromkeys(L2_GRID, 0.0)
    order = np.random.default_rng(seed).permutation(n)
    for held_out in np.array_split(order, FOLDS):
        train, test = problem.part(np.setdiff1d(order, held_out)), problem.part(held_out)
        solution = None
        # From the strongest ridge to the weakest, each from the solution before: a few iterations take it on.
        for l2 in sorted(L2_GRID, reverse=True):
            solution = train.minimise(l2, problem.widths[0], solution, iterations=FOLD_ITERATIONS, gap=FOLD_GAP)
            losses[l2] += test.loss_of(solution) * len(held_out) / n
    best = min(losses, key=losses.__getitem__)
    return best, f"{FOLDS}-fold cross-validation over {', '.join(f'{v:g}' for v in L2_GRID)}"
