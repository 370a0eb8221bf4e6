"""The head-only stage: with a frozen encoder the fit is convex, so it is solved rather than trained."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import eigh, qr
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from gradate.errors import TrainingStopped
from gradate.models.head import PairHead, pair_features
from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.pair import build_loss
from gradate.scale import LabelScale

Array = npt.NDArray[np.float64]
ROWS_PER_BLOCK = 16_384
CACHE_BYTES = 2 << 30
L2_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
DENSE_UP_TO = 20_000
"""Pairs up to which the rotated features are held in memory and l2 is cross-validated."""
FOLDS = 5
FOLD_ITERATIONS = 60
"""Enough to rank ridges a factor 10 apart; the head itself is solved to convergence."""
SMALL_MATRIX = 1 << 22
"""Numbers up to which the features' products stay on one thread."""


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


class PairFeatures:
    """Feature matrix of pairs over distinct texts' embeddings, produced in blocks of bounded size.

    Args:
        embeddings: Embeddings of the distinct texts, (m, dim) float32.
        first: Row in `embeddings` of each pair's first text, (n,).
        second: The same for the second text, (n,).
        head: The head whose concatenation defines the features.
    """

    def __init__(self, embeddings: Tensor, first: Tensor, second: Tensor, head: PairHead) -> None:
        self.embeddings = head.prepare(embeddings)
        self.first, self.second, self.head = first, second, head
        self.width = head.linear.in_features
        fits = len(first) * self.width * 4 <= CACHE_BYTES
        self._cached = [self._make(rows) for rows in self._ranges()] if fits else None

    def __len__(self) -> int:
        return len(self.first)

    def _ranges(self) -> list[slice]:
        return [slice(i, min(i + ROWS_PER_BLOCK, len(self))) for i in range(0, len(self), ROWS_PER_BLOCK)]

    def _make(self, rows: slice) -> Tensor:
        u, v = self.embeddings[self.first[rows]], self.embeddings[self.second[rows]]
        return pair_features(u, v, self.head.concatenation, self.head.tied)

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Row ranges and their features, (rows, width) float32."""
        for i, rows in enumerate(self._ranges()):
            yield rows, self._cached[i] if self._cached is not None else self._make(rows)


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

    Solver: L-BFGS (scipy) on features centred, scaled block by block and rotated to the principal axes of their
    covariance, where the variances plus the ridge precondition it. Losses with a corner (L1, Translated ReLU) are
    minimised through a sequence of quadratic smoothings of falling width, the last of which enters the reported bound.

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
    with _few_threads(small=len(features) * features.width <= SMALL_MATRIX):
        problem = _Problem(features, grades, weights, objective, scale)
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
        texts=len(features.embeddings),
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
    ) -> None:
        self.features, self.scale = features, scale
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
        self._standardise()
        self.rotated = self._rotate() if len(self.grades) <= DENSE_UP_TO else None

    def _standardise(self) -> None:
        """Measure mean (width,), basis (width, axes) and variances (axes,); a pair of weight 2 counts as two."""
        n, width = len(self.features), self.features.width
        share = (self.weights / n).float()
        mean = torch.zeros(width, dtype=torch.float64)
        for rows, x in self.features.blocks():
            mean += (share[rows] @ x).double()
        self.mean = mean.numpy()
        moment = torch.zeros(width, width, dtype=torch.float64)
        for rows, x in self.features.blocks():
            centred = x - mean.float()
            moment += (centred.T @ (centred * share[rows, None])).double()
        if not bool(torch.isfinite(moment).all()):
            raise TrainingStopped("the encoder's features are not finite; the head cannot be fitted")
        # One scale per block of the concatenation, not per dimension: a dead dimension must stay dead.
        widths = list(self.features.head.block_widths)
        variances = [float(block.mean()) for block in torch.split(moment.diagonal(), widths)]
        scales = np.repeat(np.sqrt(np.maximum(variances, 1e-12)), widths)
        covariance = moment.numpy() / np.outer(scales, scales)
        if n < width:
            # Weights outside the span of the pairs only cost ridge: n axes hold the minimum.
            rows_of = np.concatenate([x.double().numpy() for _, x in self.features.blocks()])
            span = qr(((rows_of - self.mean) / scales).T, mode="economic", check_finite=False)[0]
            covariance = span.T @ covariance @ span
        self.variances, axes = eigh(covariance, check_finite=False, driver="evd")
        self.variances = np.maximum(self.variances, 0)
        self.basis = (span @ axes if n < width else axes) / scales[:, None]

    def _rotate(self) -> Tensor:
        mean, basis = torch.from_numpy(self.mean), torch.from_numpy(self.basis)
        return torch.cat([(x.double() - mean) @ basis for _, x in self.features.blocks()])

    def part(self, index: npt.NDArray[np.int64]) -> _Problem:
        """The same problem for some of the pairs on the same axes, in single precision."""
        assert self.rotated is not None
        part = copy.copy(self)
        part.rotated, part.grades, part.weights = self.rotated[index].float(), self.grades[index], self.weights[index]
        return part

    def to_head(self, solution: _Solution) -> tuple[Array, Array]:
        """Weight (outputs, width) and bias (outputs,) of the head."""
        weight = solution.weight @ self.basis.T
        return weight, solution.bias - weight @ self.mean

    def solve(self, l2: float) -> _Solution:
        """Minimise to convergence, from the mean grade."""
        solution = None
        for width in self.widths:
            step = self.minimise(l2, width, solution, iterations=1000)
            solution = replace(step, iterations=step.iterations + (solution.iterations if solution else 0))
        assert solution is not None
        return solution

    def minimise(self, l2: float, width: float, start: _Solution | None, *, iterations: int) -> _Solution:
        """Minimise for one width of the smoothing."""
        stretch = np.append(np.sqrt(self.variances + max(l2, 1e-6)), 1.0)
        weight = start.weight if start else np.zeros((self.outputs, len(self.variances)))
        bias = start.bias if start else self.start_bias

        def stretched(point: Array) -> tuple[float, Array]:
            matrix = point.reshape(self.outputs, -1) / stretch
            value, by_weight, by_bias = self.value_and_gradient(matrix[:, :-1], matrix[:, -1], l2, width)
            return value, (np.column_stack([by_weight, by_bias]) / stretch).ravel()

        result = minimize(
            stretched,
            (np.column_stack([weight, bias]) * stretch).ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-8},
        )
        if not np.isfinite(result.fun):
            raise TrainingStopped("the head's objective is not finite; check the grades and the encoder")
        matrix = result.x.reshape(self.outputs, -1) / stretch
        gradient_norm = float(np.linalg.norm(result.jac.reshape(self.outputs, -1) * stretch))
        return _Solution(matrix[:, :-1], matrix[:, -1], float(result.fun), gradient_norm, int(result.nit))

    def value_and_gradient(self, weight: Array, bias: Array, l2: float, width: float) -> tuple[float, Array, Array]:
        """Objective at weights (outputs, axes) and bias (outputs,), with its gradient by both."""
        n = len(self.grades)
        value, slope_bias = 0.0, np.zeros(self.outputs)
        slope: Array = np.zeros((self.outputs, self.features.width if self.rotated is None else len(self.variances)))
        for rows, prediction, x in self._predictions(weight, bias):
            prediction.requires_grad_()
            losses = self.losses(prediction, self.grades[rows], width) * self.weights[rows]
            (gradient,) = torch.autograd.grad(losses.sum(), prediction)
            value += float(losses.detach().sum()) / n
            slope += (gradient.to(x.dtype).T @ x).double().numpy() / n
            slope_bias += gradient.sum(0).numpy() / n
        if self.rotated is None:
            slope = (slope - np.outer(slope_bias, self.mean)) @ self.basis
        offset = bias - self.start_bias
        value += l2 / 2 * (float((weight**2).sum()) + float(offset @ offset))
        return value, slope + l2 * weight, slope_bias + l2 * offset

    def _predictions(self, weight: Array, bias: Array) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Row ranges, their predictions (rows, outputs) in double precision and what these are linear in."""
        if self.rotated is None:
            weight = weight @ self.basis.T
            bias = bias - weight @ self.mean
            blocks = self.features.blocks()
        else:
            blocks = iter([(slice(0, len(self.grades)), self.rotated)])
        for rows, x in blocks:
            yield rows, (x @ torch.from_numpy(weight).to(x.dtype).T).double() + torch.from_numpy(bias), x

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
        ((_, prediction, _),) = self._predictions(solution.weight, solution.bias)
        return float((self.losses(prediction, self.grades, self.widths[-1]) * self.weights).mean())


@contextmanager
def _few_threads(*, small: bool) -> Iterator[None]:
    """On a busy machine threads that wait for each other cost more than they save: twentyfold on a few hundred pairs.

    The solver's own algebra (BLAS of scipy) always gets one, torch's products over the pairs if they are small.
    """
    before = torch.get_num_threads()
    if small:
        torch.set_num_threads(1)
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


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
            solution = train.minimise(l2, problem.widths[0], solution, iterations=FOLD_ITERATIONS)
            losses[l2] += test.loss_of(solution) * len(held_out) / n
    best = min(losses, key=losses.__getitem__)
    return best, f"{FOLDS}-fold cross-validation over {', '.join(f'{v:g}' for v in L2_GRID)}"
