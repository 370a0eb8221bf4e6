"""The axes of the convex fit: features centred, scaled block by block, and rotated to their principal directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import eigh, qr
from torch import Tensor

from gradate.errors import TrainingStopped
from gradate.training.block_workers import Workers
from gradate.training.pair_features import PairFeatures, row_ranges

Array = npt.NDArray[np.float64]
PAIRS = 32_768
"""Pairs, drawn by lot, whose covariance gives the directions; these only precondition."""
PAIRS_AT_ONCE = 8192
COLUMNS = 384
"""Columns of the covariance that one worker computes at once."""


@dataclass(frozen=True)
class Axes:
    """Where features are measured from, and along which directions.

    Args:
        mean: Mean of the features, (width,).
        basis: Directions as columns, (width, axes), orthonormal once each block of the features is scaled to a mean
            variance of 1; so a ridge on the weights along them is a ridge on the standardised weights.
        variances: Variance of the standardised features along each direction, (axes,).
    """

    mean: Array
    basis: Array
    variances: Array

    @classmethod
    def measure(cls, features: PairFeatures, weights: Tensor, workers: Workers) -> Axes:
        """Axes of the features of n pairs with weights (n,); a pair of weight 2 counts as two.

        Raises:
            TrainingStopped: a feature is not finite.
        """
        n, width = len(features), features.width
        share = (weights / n).float()
        mean, variances = _mean_and_variances(features, share, workers)
        # One scale per block of the concatenation, not per dimension: a dead dimension must stay dead.
        widths = list(features.head.block_widths)
        block_variances = np.add.reduceat(variances, np.cumsum([0, *widths[:-1]])) / widths
        scales = np.repeat(np.sqrt(np.maximum(block_variances, 1e-12)), widths)
        covariance = _covariance(features, mean, share, workers) / np.outer(scales, scales)
        if n >= width:
            along, axes = eigh(covariance, check_finite=False, driver="evd")
            return cls(mean, axes / scales[:, None], np.maximum(along, 0))
        # Weights outside the span of the pairs only cost ridge: n axes hold the minimum.
        rows = np.concatenate([x.double().numpy() for _, x in features.blocks()])
        span = qr(((rows - mean) / scales).T, mode="economic", check_finite=False)[0]
        along, axes = eigh(span.T @ covariance @ span, check_finite=False, driver="evd")
        return cls(mean, span @ axes / scales[:, None], np.maximum(along, 0))


def _mean_and_variances(features: PairFeatures, share: Tensor, workers: Workers) -> tuple[Array, Array]:
    """Of each feature, over all pairs, in one pass."""
    ranges = row_ranges(len(features))
    shift = features.block(ranges[0]).mean(0)  # near the mean, or the difference below would cancel

    def sums(rows: slice) -> tuple[Tensor, Tensor]:
        centred = features.block(rows) - shift
        return (share[rows] @ centred).double(), (share[rows] @ centred.square_()).double()

    mean, square = torch.zeros(2, features.width, dtype=torch.float64)
    for block_mean, block_square in workers(sums, ranges):
        mean += block_mean
        square += block_square
    variances = square - mean**2
    if not bool(torch.isfinite(variances).all()):
        raise TrainingStopped("the encoder's features are not finite; the head cannot be fitted")
    return (mean + shift.double()).numpy(), variances.clamp_(min=0).numpy()


def _covariance(features: PairFeatures, mean: Array, share: Tensor, workers: Workers) -> Array:
    """Covariance of the features, (width, width): over all pairs, or over enough of them drawn by lot."""
    n, width = len(features), features.width
    enough = max(PAIRS, 4 * width)
    chosen = torch.arange(n)
    if n > enough:
        chosen = torch.from_numpy(np.sort(np.random.default_rng(0).choice(n, enough, replace=False)))
    upper = torch.zeros(width, width, dtype=torch.float64)
    for index in torch.split(chosen, PAIRS_AT_ONCE):
        centred = features.rows(index) - torch.from_numpy(mean).float()
        weighted = centred * share[index, None]

        def add(start: int, left: Tensor = centred, right: Tensor = weighted) -> None:
            stop = min(start + COLUMNS, width)
            upper[:stop, start:stop] += left[:, :stop].T @ right[:, start:stop]

        list(workers(add, range(0, width, COLUMNS)))
    return np.asarray(((upper.triu() + upper.triu(1).T) / share[chosen].sum()).numpy())
