"""The objective: a module that encodes the texts of a batch in one pass and judges their embeddings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from gradate.engine.packing import embed_together
from gradate.objectives.config import ObjectiveConfig
from gradate.objectives.gather import gathered


class Objective(nn.Module):
    """sentence-transformers' loss protocol, with the encoding apart from the judging.

    So any objective can be cached (`CachedObjective`), the encoder passed over once, whatever looks at the result, and
    a loss over the batch as a whole sees the batch of all processes. A subclass defines `judge`.

    Args:
        model: The encoder.
        config: Resolved objective.
    """

    reads_layer = False
    """Whether embeddings carry those of an inner layer behind their own for it; see `reading`."""

    def __init__(self, model: SentenceTransformer, config: ObjectiveConfig) -> None:
        super().__init__()
        self.model = model
        self.config = config

    @property
    def per_example(self) -> bool:
        """Whether the loss is a mean over rows, whoever shares the batch; see `ObjectiveConfig`."""
        return self.config.per_example

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        """Loss of a batch.

        Args:
            sentence_features: Tokenised texts, one entry a column.
            labels: As `judge` takes them.
        """
        with self.reading():
            embeddings = embed_together(self.model, list(sentence_features))
        return self.from_embeddings(embeddings, labels)

    def reading(self) -> AbstractContextManager[None]:
        """Held open while texts are encoded for this objective."""
        return nullcontext()

    def from_embeddings(self, embeddings: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        """Loss of this process's embeddings, each (b, dim), and labels (b,), on the batch that it is defined over."""
        if not self.per_example:
            embeddings = [gathered(column) for column in embeddings]
            labels = None if labels is None else gathered(labels)
        return self.judge(embeddings, labels)

    def judge(self, embeddings: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        """Loss of the columns' embeddings, each (B, dim)."""
        raise NotImplementedError

    def width(self) -> int:
        """Width of the encoder's own embeddings."""
        encoder: Any = getattr(self.model, "module", self.model)  # the wrapper of distributed training
        return int(encoder.get_embedding_dimension())

    def own_parameters(self) -> dict[str, nn.Parameter]:
        """Parameters that are not the encoder's, by name."""
        encoder = {id(parameter) for parameter in self.model.parameters()}
        return {name: p for name, p in self.named_parameters() if id(p) not in encoder}

    def get_config_dict(self) -> dict[str, Any]:
        """Parameters for the model card."""
        return {"loss": self.config.name}
