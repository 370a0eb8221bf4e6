"""The head-only stage: with a frozen encoder the fit is convex, so it is solved rather than trained."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from torch import Tensor, nn

from gradate.errors import TrainingStopped
from gradate.models.head import PairHead, pair_features
from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.pair import build_loss
from gradate.scale import LabelScale

Array = npt.NDArray[np.float64]
ROWS_PER_BLOCK = 16_384
CACHE_BYTES = 2 << 30
L2_GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
CROSS_VALIDATED_UP_TO = 20_000
FOLDS = 5


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

    def subset(self, index: Tensor) -> PairFeatures:
        """The same features for some of the pairs."""
        return PairFeatures(self.embeddings, self.first[index], self.second[index], self.head)


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

    Solver: L-BFGS (scipy) on features centred and scaled block by block, preconditioned with the Cholesky factor of
    their regularised covariance. Losses with a corner (L1, Translated ReLU) are minimised through a sequence of
    quadratic smoothings of falling width, the last of which enters the reported bound.

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
    problem = _Problem(features, grades, weights, objective, scale)
    if isinstance(l2, str):
        l2, reason = _choose_l2(problem, seed)
    else:
        reason = "set in the recipe"
    solution = problem.solve(l2)
    weight, bias = problem.to_head(solution.point, l2)
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
    point: Array
    value: float
    gradient_norm: float
    iterations: int


class _Problem:
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
        self.slope = float(self.config.k) if self.config.name == "translated-relu" else 1.0  # type: ignore[arg-type]
        self.smoothing_error = self.slope * self.widths[-1] / 2
        self._measure()

    def _measure(self) -> None:
        total = np.zeros(self.features.width)
        for _, x in self.features.blocks():
            total += x.sum(0, dtype=torch.float64).numpy()
        self.mean = total / len(self.features)
        mean = torch.from_numpy(self.mean).float()
        moment = np.zeros((self.features.width, self.features.width))
        for _, x in self.features.blocks():
            centred = x - mean
            moment += (centred.T @ centred).double().numpy()
        moment /= len(self.features)
        if not np.isfinite(moment).all():
            raise TrainingStopped("the encoder's features are not finite; the head cannot be fitted")
        # One scale per block of the concatenation, not per dimension: a dead dimension must stay dead.
        size = self.features.embeddings.shape[1]
        variances = np.diag(moment).reshape(-1, size).mean(axis=1)
        self.scales = np.repeat(np.sqrt(np.maximum(variances, 1e-12)), size)
        self.covariance = moment / np.outer(self.scales, self.scales)

    def to_head(self, point: Array, l2: float) -> tuple[Array, Array]:
        """Weight (outputs, width) and bias (outputs,) of the head at a point of the solver's coordinates."""
        standardised, shift = self._unpack(point, l2)
        weight = standardised / self.scales
        return weight, shift - weight @ self.mean

    def _factor(self, l2: float) -> Array:
        matrix: Array = cholesky(self.covariance + max(l2, 1e-6) * np.eye(len(self.covariance)), lower=True)
        return matrix

    def _unpack(self, point: Array, l2: float) -> tuple[Array, Array]:
        matrix = point.reshape(self.outputs, -1)
        return solve_triangular(self._factor(l2), matrix[:, :-1].T, lower=True, trans="T").T, matrix[:, -1]

    def solve(self, l2: float) -> _Solution:
        """Minimise from the mean grade; returns the solution with the gradient norm in standardised weights."""
        factor = self._factor(l2)
        start_bias = self._start_bias()
        point = np.concatenate([np.zeros((self.outputs, self.features.width)), start_bias[:, None]], axis=1).ravel()
        iterations = 0
        for width in self.widths:
            result = minimize(
                self._value_and_gradient,
                point,
                args=(l2, factor, start_bias, width),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": 1000, "maxfun": 2000, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-8},
            )
            if not np.isfinite(result.fun):
                raise TrainingStopped("the head's objective is not finite; check the grades and the encoder")
            point, iterations = result.x, iterations + int(result.nit)
        gradient = np.asarray(result.jac).reshape(self.outputs, -1)
        standardised = np.concatenate([gradient[:, :-1] @ factor.T, gradient[:, -1:]], axis=1)
        return _Solution(point, float(result.fun), float(np.linalg.norm(standardised)), iterations)

    def _start_bias(self) -> Array:
        if self.config.name != "cross-entropy":
            return np.array([float((self.grades * self.weights).sum() / self.weights.sum())])
        return np.zeros(self.outputs)

    def _value_and_gradient(
        self, point: Array, l2: float, factor: Array, start_bias: Array, width: float
    ) -> tuple[float, Array]:
        matrix = point.reshape(self.outputs, -1)
        standardised = solve_triangular(factor, matrix[:, :-1].T, lower=True, trans="T").T
        weight = standardised / self.scales
        bias = matrix[:, -1] - weight @ self.mean
        weight32 = torch.from_numpy(weight).float()
        value, slope, slope_bias = 0.0, np.zeros_like(weight), np.zeros(self.outputs)
        n = len(self.features)
        for rows, x in self.features.blocks():
            prediction = (x @ weight32.T).double() + torch.from_numpy(bias)
            prediction.requires_grad_()
            losses = self._losses(prediction, self.grades[rows], width) * self.weights[rows]
            (gradient,) = torch.autograd.grad(losses.sum(), prediction)
            value += float(losses.detach().sum()) / n
            slope += (gradient.float().T @ x).double().numpy() / n
            slope_bias += gradient.sum(0).numpy() / n
        offset = matrix[:, -1] - start_bias
        value += l2 / 2 * (float((standardised**2).sum()) + float(offset @ offset))
        by_weight = (slope - np.outer(slope_bias, self.mean)) / self.scales + l2 * standardised
        by_point = solve_triangular(factor, by_weight.T, lower=True).T
        return value, np.concatenate([by_point, (slope_bias + l2 * offset)[:, None]], axis=1).ravel()

    def _losses(self, prediction: Tensor, grades: Tensor, width: float) -> Tensor:
        if self.config.name == "cross-entropy":
            classes = torch.tensor(self.scale.values, dtype=torch.float64)
            return self.loss(prediction, (grades[:, None] - classes).abs().argmin(1))  # type: ignore[no-any-return]
        prediction = prediction.squeeze(1)
        if not self.has_corner:
            return self.loss(prediction, grades)  # type: ignore[no-any-return]
        x0 = 0.0 if self.config.name == "l1" else float(self.config.x0)
        excess = torch.relu((prediction - grades).abs() - x0)
        return self.slope * nn.functional.huber_loss(excess, torch.zeros_like(excess), reduction="none", delta=width) / width

    def held_out_loss(self, train: Array, held_out: Array, l2: float) -> float:
        """Mean loss on some rows of the head fitted on others."""
        part = _Problem(
            self.features.subset(torch.from_numpy(train)),
            self.grades[train].numpy(),
            self.weights[train].numpy(),
            self.config,
            self.scale,
        )
        weight, bias = part.to_head(part.solve(l2).point, l2)
        x = torch.cat([x for _, x in self.features.subset(torch.from_numpy(held_out)).blocks()]).double()
        prediction = x @ torch.from_numpy(weight).T + torch.from_numpy(bias)
        return float((self._losses(prediction, self.grades[held_out], self.widths[-1]) * self.weights[held_out]).mean())


def _choose_l2(problem: _Problem, seed: int) -> tuple[float, str]:
    n = len(problem.features)
    if n > CROSS_VALIDATED_UP_TO:
        return L2_GRID[0], f"more than {CROSS_VALIDATED_UP_TO:,} pairs"
    if n < 2 * FOLDS:
        return L2_GRID[-1], f"only {n} pairs, too few to cross-validate"
    order = np.random.default_rng(seed).permutation(n)
    folds = np.array_split(order, FOLDS)
    losses = [
        sum(
            problem.held_out_loss(np.concatenate([f for j, f in enumerate(folds) if j != i]), fold, l2) * len(fold) / n
            for i, fold in enumerate(folds)
        )
        for l2 in L2_GRID
    ]
    best = int(np.argmin(losses))
    return L2_GRID[best], f"{FOLDS}-fold cross-validation over {', '.join(f'{v:g}' for v in L2_GRID)}"
