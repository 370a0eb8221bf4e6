"""The sum: several losses over one forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from gradate.objectives.base import Objective
from gradate.objectives.config import ObjectiveConfig


class SumObjective(Objective):
    """Σ weight · loss over its parts, all judging the same embeddings.

    Where one part is a loss over the batch as a whole, all parts see the batch of all processes.

    Args:
        model: The encoder.
        config: The sum.
        parts: An objective for each of `config.parts`, around the same encoder.

    Label contract: that of every part.
    """

    def __init__(self, model: SentenceTransformer, config: ObjectiveConfig, parts: Sequence[Objective]) -> None:
        super().__init__(model, config)
        self.parts = nn.ModuleList(parts)

    def reading(self) -> AbstractContextManager[None]:
        """Held open while texts are encoded: what any part asks for."""
        return self._reading()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with ExitStack() as stack:
            for part in self._objectives():
                stack.enter_context(part.reading())
            yield

    def judge(self, embeddings: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        """Weighted sum of the parts' losses."""
        width = self.width()
        own = [column[:, :width] for column in embeddings]
        losses = [
            part.config.weight * part.judge(embeddings if part.reads_layer else own, labels)
            for part in self._objectives()
        ]
        return sum(losses[1:], start=losses[0])

    def _objectives(self) -> list[Objective]:
        return [part for part in self.parts if isinstance(part, Objective)]

    def get_config_dict(self) -> dict[str, Any]:
        """Parameters for the model card."""
        return {"loss": self.config.title}
