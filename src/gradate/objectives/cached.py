"""The cached objective: the loss of a whole batch, its activations in memory a few texts at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import torch
from sentence_transformers.base.losses.gradcache import CachedLossMixin, RandContext, _get_batch_size
from torch import Tensor, nn

from gradate.objectives.base import Objective


class CachedObjective(CachedLossMixin, nn.Module):
    """Gradient caching (GradCache, Gao et al. 2021) by sentence-transformers for any objective over embeddings.

    A batch is encoded twice, `mini_batch_size` texts at a time: first without a graph, to get the gradient of the loss
    over the whole batch with respect to every embedding; then again, each part with the dropout masks it had before,
    to carry that gradient on to the encoder. The result is the uncached gradient, also for a loss that is no sum over
    pairs; the price is one more forward pass. A batch of no more texts than `mini_batch_size` is not cached.

    Args:
        objective: Its own parameters (a head) train with the encoder.
        mini_batch_size: Texts per forward pass, 1 or more.

    Label contract: that of `objective`.
    """

    def __init__(self, objective: Objective, mini_batch_size: int) -> None:
        super().__init__()
        self.objective = objective
        self.model = objective.model
        self.mini_batch_size = mini_batch_size
        self._own_gradients: Sequence[Tensor] = ()

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        """Loss of a batch; its backward pass is the second encoding.

        Args:
            sentence_features: Tokenised texts, one entry a column, padded or flattened.
            labels: As the objective takes them.
        """
        columns = list(sentence_features)
        # MatryoshkaLoss puts itself around `calculate_loss`, which a small batch must then not go past.
        if sum(map(_get_batch_size, columns)) <= self.mini_batch_size and "calculate_loss" not in vars(self):
            small: Tensor = self.objective(columns, labels)
            return small
        loss: Tensor = self.forward_cached(columns, labels)
        if loss.requires_grad:
            # Handed over now: another forward pass may come before this one's backward pass.
            add = partial(_add_gradients, self._own_parameters(), self._own_gradients)
            loss.register_hook(add)  # type: ignore[no-untyped-call]
            self._own_gradients = ()
        return loss

    def embed_minibatch(
        self,
        sentence_feature: dict[str, Tensor],
        begin: int,
        end: int,
        with_grad: bool,
        copy_random_state: bool,
        random_state: RandContext | None = None,
    ) -> tuple[Tensor, RandContext | None]:
        """Embed a mini-batch, as the objective reads it."""
        with self.objective.reading():
            return super().embed_minibatch(sentence_feature, begin, end, with_grad, copy_random_state, random_state)

    def calculate_loss(
        self, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
    ) -> Tensor:
        """Loss of the embeddings (columns of mini-batches); with `with_backward`, also its gradient to them.

        The gradient of the objective's own parameters waits for the backward pass, where gradient accumulation and
        loss scaling give it the factor that the encoder's gets.
        """
        loss = self.objective.from_embeddings([torch.cat(column) for column in reps], labels)
        if not with_backward:
            return loss
        embeddings = [rep for column in reps for rep in column]
        found = torch.autograd.grad(loss, [*embeddings, *self._own_parameters()], materialize_grads=True)
        for embedding, gradient in zip(embeddings, found, strict=False):
            embedding.grad = gradient
        self._own_gradients = found[len(embeddings) :]
        return loss.detach()

    def _own_parameters(self) -> list[nn.Parameter]:
        return [p for p in self.objective.own_parameters().values() if p.requires_grad]


def _add_gradients(parameters: Sequence[Tensor], gradients: Sequence[Tensor], factor: Tensor) -> None:
    for parameter, gradient in zip(parameters, gradients, strict=True):
        scaled = gradient * factor
        parameter.grad = scaled if parameter.grad is None else parameter.grad + scaled
