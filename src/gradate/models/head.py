"""The pair head: a linear map from two embeddings to a grade."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from gradate.errors import InputError
from gradate.models.concatenation import feature_blocks
from gradate.scale import LabelScale

Features = Literal["raw", "normalized"]

HEAD_FOLDER = "graded_head"
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"


def pair_features(u: Tensor, v: Tensor, concatenation: str, tied: bool = False) -> Tensor:
    """What a pair head reads of two embeddings.

    Args:
        u: Embeddings of the first texts, (n, dim).
        v: Embeddings of the second texts, (n, dim).
        concatenation: One of `concatenation.CONCATENATIONS`.
        tied: See `feature_blocks`.

    Returns:
        Features (n, sum of the blocks' widths), in the order of `feature_blocks`.

    Source: Zhang & Li (2024), Table 6; the products are those of Reimers & Gurevych (2019), Table 6, the cosine is
    that of their regression objective.

    >>> pair_features(torch.tensor([[1.0]]), torch.tensor([[3.0]]), "u,v,|u-v|").tolist()
    [[1.0, 3.0, 2.0]]
    """
    columns = []
    for block in feature_blocks(concatenation, tied):
        if block == "u":
            columns.append(u)
        elif block == "v":
            columns.append(v)
        elif block == "u+v":
            columns.append(u + v)
        elif block == "u*v":
            columns.append(u * v)
        elif block == "cos":
            columns.append(functional.cosine_similarity(u, v, dim=-1).unsqueeze(-1))
        else:
            columns.append((u - v).abs())
    return torch.cat(columns, dim=-1)


class PairHead(nn.Module):
    """Linear(features of u and v → 1), the regression head over a Siamese encoder; K outputs make it a classifier.

    Args:
        dim: Width of one embedding.
        concatenation: One of `concatenation.CONCATENATIONS`; the paper's is `u,v,|u-v|`.
        outputs: 1 for a number on the scale; K ≥ 2 for one logit per grade of a scale with K grades.
        tied: Give u and v the same weights, so that swapping the texts changes nothing, not even the last bit.
        features: What the head reads. `raw`: the encoder's state before a trailing Normalize module, as in the
            paper, whose encoders have none. `normalized`: the same scaled to length 1; the head does that itself.

    Raises:
        InputError: a value outside its range.

    Source: Zhang & Li (2024), section 3.1.

    >>> head = PairHead(384)
    >>> head.linear.in_features, head(torch.zeros(5, 384), torch.zeros(5, 384)).shape
    (1152, torch.Size([5]))
    """

    def __init__(
        self,
        dim: int,
        *,
        concatenation: str = "u,v,|u-v|",
        outputs: int = 1,
        tied: bool = False,
        features: Features = "raw",
    ) -> None:
        super().__init__()
        if dim < 1:
            raise InputError(f"dim = {dim} must be at least 1", where="dim")
        if outputs < 1:
            raise InputError(f"outputs = {outputs} must be at least 1", where="outputs")
        if features not in get_args(Features):
            raise InputError(f"unknown features {features!r}", where="features", remedy="raw or normalized")
        self.dim, self.concatenation, self.outputs = dim, concatenation, outputs
        self.tied, self.features = tied, features
        self.linear = nn.Linear(sum(self.block_widths), outputs)

    @property
    def block_widths(self) -> tuple[int, ...]:
        """Width of each block of the features, in their order."""
        blocks = feature_blocks(self.concatenation, self.tied)
        return tuple(1 if block == "cos" else self.dim for block in blocks)

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """Predictions (n,) on the scale, or logits (n, outputs), for embeddings u and v (n, dim)."""
        # bfloat16 would blur predictions by 0.4 %; the head is too small for its own precision to cost anything.
        with torch.autocast(u.device.type, enabled=False):
            u, v = self.prepare(u), self.prepare(v)
            output: Tensor = self.linear(pair_features(u, v, self.concatenation, self.tied))
        return output.squeeze(-1) if self.outputs == 1 else output

    def prepare(self, embeddings: Tensor) -> Tensor:
        """Embeddings (n, dim) as the head reads them: in its own precision, scaled to length 1 for `normalized`."""
        embeddings = embeddings.to(self.linear.weight.dtype)
        return functional.normalize(embeddings, dim=-1) if self.features == "normalized" else embeddings

    @torch.no_grad()
    def rescale(self, s: float, t: float) -> None:
        """Re-express the head on another scale, in place: ŷ becomes s·ŷ + t, exactly (see `LabelScale.map_to`).

        Raises:
            InputError: a head with several outputs, whose logits lie on no scale.
        """
        if self.outputs != 1:
            raise InputError(f"a head with {self.outputs} outputs cannot be rescaled", remedy="use outputs = 1")
        self.linear.weight.mul_(s)
        self.linear.bias.mul_(s).add_(t)

    def get_config_dict(self) -> dict[str, Any]:
        """The arguments that rebuild this head."""
        return {
            "dim": self.dim,
            "concatenation": self.concatenation,
            "outputs": self.outputs,
            "tied": self.tied,
            "features": self.features,
        }

    def save(self, folder: Path | str, scale: LabelScale | None, objective: dict[str, Any] | None = None) -> None:
        """Write `config.json` and `model.safetensors` into `folder`, which is made if need be.

        Args:
            folder: The head's own folder, `<model>/graded_head`.
            scale: The scale the predictions lie on.
            objective: What the head was trained with, as plain JSON.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config = {
            **self.get_config_dict(),
            "scale": scale.to_config() if scale is not None else None,
            "objective": objective,
        }
        (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        weights = {name: value.detach().cpu().contiguous() for name, value in self.state_dict().items()}
        save_file(weights, folder / WEIGHTS_FILE)

    @classmethod
    def load(cls, folder: Path | str) -> tuple[PairHead, LabelScale | None, dict[str, Any] | None]:
        """Read what `save` wrote: the head in evaluation mode, its scale and its objective.

        Only the two files of `save` are read; a pickle beside them is never opened.

        Raises:
            InputError: a file is missing or broken, or the weights have another shape than the configuration.
        """
        folder = Path(folder)
        config = _read_config(folder)
        try:
            scale = LabelScale.from_config(config["scale"]) if config.get("scale") is not None else None
            # A seeded generator elsewhere must not depend on whether a model was opened in between.
            with torch.random.fork_rng(devices=[]):
                head = cls(**{key: config[key] for key in ("dim", "concatenation", "outputs", "tied", "features")})
        except (KeyError, TypeError, ValueError) as error:
            problem = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            raise InputError(problem, where=folder / CONFIG_FILE, remedy=_REMEDY) from error
        weights_file = folder / WEIGHTS_FILE
        if not weights_file.is_file():
            raise InputError("the weights of the pair head are missing", where=weights_file, remedy=_REMEDY)
        try:
            weights = load_file(weights_file)
        except (SafetensorError, OSError) as error:
            raise InputError(f"cannot be read as safetensors: {error}", where=weights_file, remedy=_REMEDY) from error
        expected = {name: tuple(value.shape) for name, value in head.state_dict().items()}
        found = {name: tuple(value.shape) for name, value in weights.items()}
        if found != expected:
            raise InputError(
                f"the head's weights are {_shapes(found)} where {CONFIG_FILE} asks for {_shapes(expected)}",
                where=weights_file,
                remedy=_REMEDY,
            )
        head.load_state_dict(weights)
        return head.eval(), scale, config.get("objective")


_REMEDY = "restore the folder from its source, or delete it and fit a head again with: gradate train two-stage"


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise InputError("the configuration of the pair head is missing", where=path, remedy=_REMEDY)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError(f"cannot be read as JSON: {error}", where=path, remedy=_REMEDY) from error
    if not isinstance(config, dict):
        raise InputError("must hold a JSON object", where=path, remedy=_REMEDY)
    return config


def _shapes(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {'×'.join(map(str, shape))}" for name, shape in sorted(shapes.items())) or "none"
