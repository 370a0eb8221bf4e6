"""Fusion: several checkpoints averaged into one, each weighted by how far it moved from where all of them began."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import torch
from safetensors.torch import save_file
from torch import Tensor

from gradate.errors import InputError
from gradate.models.checkpoint import Checkpoint

Rule: TypeAlias = Literal["proportional", "squared", "inverse", "softmax", "uniform"]
Level: TypeAlias = Literal["model", "layer", "tensor", "element"]

EPSILON = 1e-9
"""What keeps the inverse rule finite, as a share of the largest deviation."""


@dataclass(frozen=True)
class Weighting:
    """How the weights of a fusion follow from deviations.

    Args:
        rule: See `fusion_weights`.
        level: What one deviation is taken of: root mean square over a `model`, a `layer` or a `tensor`, or the
            magnitude of each number (`element`).
        temperature: Of the softmax rule, above 0; None takes the mean deviation.
        pull_back: How far the result is moved back towards the base, from 0 to below 1.

    Raises:
        InputError: a value outside its range.
    """

    rule: Rule = "proportional"
    level: Level = "tensor"
    temperature: float | None = None
    pull_back: float = 0.0

    def __post_init__(self) -> None:
        for where, value, known in (("rule", self.rule, get_args(Rule)), ("level", self.level, get_args(Level))):
            if value not in known:
                raise InputError(f"unknown {where} {value!r}", where=where, remedy=f"choose {', '.join(known)}")
        if self.temperature is not None and self.rule != "softmax":
            raise InputError("only the softmax rule has a temperature", where="temperature", remedy="leave it out")
        if self.temperature is not None and not 0 < self.temperature < float("inf"):
            raise InputError(f"{self.temperature} is no number above 0", where="temperature")
        if not 0 <= self.pull_back < 1:
            what = f"{self.pull_back} is no share from 0 to below 1"
            raise InputError(what, where="pull-back", remedy="0 keeps the fused weights, near 1 is the base")


SOUP = Weighting("uniform")
"""Equal weights for all. Source: Wortsman et al. (2022), "Model soups"."""


def fusion_weights(deviation: Tensor, rule: Rule, temperature: float | None = None) -> Tensor:
    """Weights of K checkpoints, which sum to 1 over them: φ(δ_k) / Σ_j φ(δ_j).

    φ is δ (`proportional`), δ² (`squared`), 1 / (δ + ε) with ε = 1e-9 · max δ (`inverse`), exp(δ / T) (`softmax`) or
    1 (`uniform`). Where no checkpoint deviates, all weigh alike. Every rule but a softmax with a temperature of its
    own gives the same weights when all deviations grow by one factor.

    Args:
        deviation: Deviations δ from the base, 0 or more, shape (k, …).
        rule: The rule.
        temperature: T; None takes the mean deviation of the K.

    Returns:
        Weights of the same shape.

    Source: Zhang et al. (2025), "CoDiEmb", weighs checkpoints by their deviation from the pre-trained weights; the
    formula is not published, and these rules are a choice of ours.

    >>> fusion_weights(torch.tensor([0.0, 0.1, 0.3]), "proportional")
    tensor([0.0000, 0.2500, 0.7500])
    """
    if rule == "uniform":
        return torch.full_like(deviation, 1 / len(deviation))
    if rule == "softmax":
        scale = deviation.mean(dim=0) if temperature is None else deviation.new_tensor(temperature)
        return torch.softmax(deviation / _or_one(scale), dim=0)
    share = deviation / _or_one(deviation.amax(dim=0))
    if rule == "inverse":
        share = 1 / (share + EPSILON)
    elif rule == "squared":
        share = share**2
    total = share.sum(dim=0)
    return torch.where(total > 0, share / _or_one(total), 1 / len(deviation))


def layer_of(tensor: str) -> str:
    """The layer a tensor belongs to: its name up to the first number, or the first part of a name without one.

    >>> layer_of("encoder.layer.11.output.dense.weight"), layer_of("embeddings.word_embeddings.weight")
    ('encoder.layer.11', 'embeddings')
    """
    found = re.match(r"[^.]+(\.[^.]+)*?\.\d+(?=\.)|[^.]+", tensor)
    return found[0] if found else tensor


@dataclass(frozen=True, eq=False)
class Deviations:
    """How far K checkpoints moved from their base, tensor by tensor.

    Args:
        squares: Sum of the squared differences of each checkpoint, shape (k,), by tensor.
        sizes: Numbers in each tensor.
    """

    squares: Mapping[str, Tensor]
    sizes: Mapping[str, int]

    @classmethod
    def measure(cls, base: Checkpoint, runs: Sequence[Checkpoint]) -> Deviations:
        """Read all floating-point tensors once, block by block.

        Raises:
            InputError: NaN or an infinity; names checkpoint and tensor.
        """
        squares, sizes = {}, {}
        for name, stored in runs[0].tensors.items():
            if not stored.dtype.is_floating_point:
                continue
            total = torch.zeros(len(runs), dtype=torch.float64)
            for block in stored.blocks():
                start = base.read(name, block)
                total += torch.stack([(run.read(name, block) - start).square().sum() for run in runs])
            squares[name], sizes[name] = total, torch.Size(stored.shape).numel()
        return cls(squares, sizes)

    def overall(self) -> tuple[float, ...]:
        """Root mean square of each checkpoint over all its numbers."""
        return tuple(self._of(list(self.squares)).tolist())

    def weights(self, weighting: Weighting) -> dict[str, Tensor]:
        """Weights (k,) of every tensor; none at the level of elements, which are weighed where they are read."""
        if weighting.level == "element":
            return {}
        groups: dict[str, list[str]] = {}
        for name in self.squares:
            group = {"model": "", "layer": layer_of(name)}.get(weighting.level, name)
            groups.setdefault(group, []).append(name)
        found: dict[str, Tensor] = {}
        for names in groups.values():
            found |= dict.fromkeys(names, fusion_weights(self._of(names), weighting.rule, weighting.temperature))
        return found

    def _of(self, names: Sequence[str]) -> Tensor:
        squares = torch.stack([self.squares[name] for name in names]).sum(dim=0)
        return (squares / max(1, sum(self.sizes[name] for name in names))).sqrt()


def write_fused(
    runs: Sequence[Checkpoint],
    folder: Path,
    weighting: Weighting = SOUP,
    *,
    base: Checkpoint | None = None,
    deviations: Deviations | None = None,
) -> tuple[float, ...]:
    """Write θ* = Σ_k w_k·θ_k, moved back towards the base where asked, in the files and formats of the first run.

    One file is in memory at a time, and of each checkpoint one block.

    Args:
        runs: The checkpoints, one or more, with the same tensors.
        folder: Where the files go; what is no weights is not written, see `Checkpoint.copy_frame`.
        weighting: Where the weights come from. A rule other than `uniform` and a pull-back need the base.
        base: Where the runs began, with the same floating-point tensors.
        deviations: How far they moved; not needed for equal weights.

    Returns:
        Each run's weight, averaged over all numbers.

    Raises:
        InputError: NaN or an infinity, or buffers of integers that differ, which have no average.
    """
    known = deviations.weights(weighting) if deviations is not None else {}
    equal = torch.full((len(runs),), 1 / len(runs), dtype=torch.float64)
    total = torch.zeros_like(equal)
    for file in sorted({stored.file for stored in runs[0].tensors.values()}):
        fused = {}
        for name, stored in runs[0].tensors.items():
            if stored.file != file:
                continue
            if not stored.dtype.is_floating_point:
                fused[stored.key] = _same_integers(runs, name)
                continue
            weights = equal if base is None or weighting.rule == "uniform" else known.get(name)
            fused[stored.key], used = _fuse(runs, name, weights, weighting, base)
            total += used
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        save_file(fused, folder / file, metadata={"format": "pt"})
    return tuple((total / total.sum()).tolist())


def _fuse(
    runs: Sequence[Checkpoint], name: str, weights: Tensor | None, weighting: Weighting, base: Checkpoint | None
) -> tuple[Tensor, Tensor]:
    """The fused tensor, and each run's weights (k,) summed over its numbers.

    Without `weights` (k,) every number has its own.
    """
    stored = runs[0].tensors[name]
    fused = torch.empty(stored.shape, dtype=stored.dtype)
    total = torch.zeros(len(runs), dtype=torch.float64)
    for block in stored.blocks():
        theta = torch.stack([run.read(name, block) for run in runs])
        start = base.read(name, block) if base is not None else None
        if weights is not None:
            share = weights.view(-1, *[1] * (theta.dim() - 1)).expand_as(theta)
        else:
            assert start is not None
            share = fusion_weights((theta - start).abs(), weighting.rule, weighting.temperature)
        mean = (share * theta).sum(dim=0)
        fused[block] = mean if start is None else torch.lerp(mean, start, weighting.pull_back)
        total += share.reshape(len(runs), -1).sum(dim=1)
    return fused, total


def _same_integers(runs: Sequence[Checkpoint], name: str) -> Tensor:
    first: Tensor = runs[0].tensors[name].slices[...]
    for run in runs[1:]:
        if not torch.equal(first, run.tensors[name].slices[...]):
            what = f"the integers of {name} are others than those of {runs[0].name}, and integers have no average"
            raise InputError(what, where=run.name, remedy="fuse models of one architecture")
    return first


def _or_one(scale: Tensor) -> Tensor:
    """The same without zeros, to divide zeros by."""
    return torch.where(scale > 0, scale, 1)
