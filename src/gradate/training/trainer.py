"""The trainer: sentence-transformers' own, made to keep, clip and synchronise what an objective brings along."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformerTrainer
from torch import Tensor, nn

from gradate.engine.embedding import filled_rows
from gradate.engine.layer_tap import LAYER
from gradate.errors import GradateError, TrainingStopped
from gradate.objectives.base import Objective
from gradate.objectives.cached import CachedObjective
from gradate.objectives.matryoshka import at_widths
from gradate.training.samplers import EpochCallback, SeededBatchSampler, row_lengths
from gradate.training.stage import Stage
from gradate.training.task_sampler import TaskBatchSampler

WEIGHTS = "trained.safetensors"
OWN = "own"
"""Name of the stage's own examples among its tasks."""


class GradedTrainer(SentenceTransformerTrainer):
    """Trains an `Objective`: a checkpoint holds what trains, a head included, and nothing else.

    sentence-transformers' trainer optimises a loss's own parameters but leaves them out of checkpoints, resuming,
    best-model reload, gradient clipping and synchronisation. Each of these has its one overridden method here.

    Args:
        stage: The stage's resolved configuration.
        objective: Encoder and loss, with a head or without.
        beside: Objectives of the tasks beside the stage, around the same encoder, in the order of `stage.beside`;
            the data sets are then a dictionary, the stage's own first.
        rows: Row numbers of the training examples in their file, to name a failing batch; None if there is no file.
        trainer_arguments: Everything else `SentenceTransformerTrainer` takes.
    """

    def __init__(
        self,
        stage: Stage,
        objective: Objective,
        *,
        beside: Sequence[Objective] = (),
        rows: Any = None,
        **trainer_arguments: Any,
    ) -> None:
        self.stage: Stage = stage
        self.objective: Objective = objective
        self.rows = rows if not beside else None
        self._epochs = EpochCallback()
        losses = [_loss(task, stage) for task in (objective, *beside)]
        loss = dict(zip(task_names(stage), losses, strict=True)) if beside else losses[0]
        self._weights = dict(zip(task_names(stage), (1.0, *(task.weight for task in stage.beside)), strict=True))
        super().__init__(model=objective.model, loss=loss, **trainer_arguments)
        self.add_callback(self._epochs)
        if _world_size() > 1:
            for parameter in objective.own_parameters().values():
                dist.broadcast(parameter.data, src=0)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """None: gradate writes its own card, and this one asks the Hub about the base model."""

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def trained_state(self) -> dict[str, Tensor]:
        """Every parameter that trains, by its name in the objective."""
        named = {name: p for name, p in self._parameters().items() if p.requires_grad}
        return {name: p.detach().cpu().contiguous().clone() for name, p in named.items()}

    def _parameters(self) -> dict[str, nn.Parameter]:
        return {f"model.{n}": p for n, p in self.model.named_parameters()} | self.objective.own_parameters()

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(output_dir or str(self.args.output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        save_file(self.trained_state(), folder / WEIGHTS)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder = Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}"
        try:
            super()._save_checkpoint(model, trial)
        except (OSError, RuntimeError) as error:
            # torch reports a full disk as RuntimeError; either way half a checkpoint must not stay behind.
            shutil.rmtree(folder, ignore_errors=True)
            kept = last_checkpoint(folder.parent)
            remedy = f"{kept.name} is complete: make room and go on with --resume" if kept else "make room"
            reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise GradateError(f"cannot write {folder.parent.name}/{folder.name}: {reason} ({remedy})") from error

    def _load_from_checkpoint(self, checkpoint_path: str, model: Any = None) -> None:
        self.restore(load_file(Path(checkpoint_path) / WEIGHTS), where=checkpoint_path)

    def restore(self, state: dict[str, Tensor], *, where: str = "the state") -> None:
        """Set what trains to a state that `trained_state` gave, in this stage or one of the same kind.

        Raises:
            GradateError: the state holds other parameters.
        """
        parameters = self._parameters()
        expected = {name for name, p in parameters.items() if p.requires_grad}
        if expected != state.keys():
            raise GradateError(f"{where} does not belong to this stage: other parameters train here")
        with torch.no_grad():
            for name, value in state.items():
                parameters[name].copy_(value)

    def _load_best_model(self) -> None:
        self._load_from_checkpoint(str(self.state.best_model_checkpoint))

    # -- steps -------------------------------------------------------------------------------------------------------

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        """One forward and backward pass; stops at a loss that is not finite."""
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        if not torch.isfinite(loss):
            self._stop("the loss", float(loss))
        return loss

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Loss of a batch, by its task's weight; an update of several tasks sums theirs instead of averaging them."""
        factor = self._weights[inputs.get("dataset_name", OWN)]
        factor *= self.stage.steps_an_update if self.stage.mix == "together" else 1
        loss: Any = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        return loss if factor == 1 or return_outputs else loss * factor

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        own = self.objective.own_parameters().values()
        if _world_size() > 1:
            for gradient in (p.grad for p in own if p.grad is not None):
                dist.all_reduce(gradient)
                gradient.div_(_world_size())
        gradients = [p.grad for p in (*model.parameters(), *own) if p.grad is not None]
        rows = [filled_rows(gradient) for gradient in gradients]
        parts = [g if r is None else g.index_select(0, r) for g, r in zip(gradients, rows, strict=True)]
        norm = nn.utils.get_total_norm(parts)
        if not torch.isfinite(norm):
            self._stop("the gradient", float(norm))
        if norm > self.args.max_grad_norm:
            torch._foreach_mul_(parts, self.args.max_grad_norm / (norm + 1e-6))
            for gradient, filled, part in zip(gradients, rows, parts, strict=True):
                if filled is not None:
                    gradient.index_copy_(0, filled, part)
        return norm

    def _stop(self, what: str, value: float) -> None:
        sampler = self._epochs.sampler
        assert sampler is not None
        batches = list(sampler)
        batch = self.state.global_step * self.args.gradient_accumulation_steps % len(batches)
        rows = ""
        if self.rows is not None and _world_size() == 1:
            rows = f", rows {', '.join(str(int(self.rows[i])) for i in batches[batch])}"
        kept = last_checkpoint(Path(str(self.args.output_dir)))
        raise TrainingStopped(
            f"{what} became {value} at step {self.state.global_step + 1} (epoch {sampler.epoch + 1},"
            f" batch {batch + 1}{rows}); last good checkpoint: {kept.name if kept else 'none'}"
            " (lower learning_rate, or look at these rows)"
        )

    # -- order -------------------------------------------------------------------------------------------------------

    def get_batch_sampler(
        self,
        dataset: Any,
        batch_size: int,
        drop_last: bool,
        valid_label_columns: list[str] | None = None,
        generator: torch.Generator | None = None,
        seed: int = 0,
    ) -> SeededBatchSampler:
        """The stage's own order; `SeededBatchSampler` deals incomplete batches out evenly, so none is dropped."""
        self._epochs.sampler = SeededBatchSampler(
            dataset,
            batch_size=batch_size,
            seed=self.args.seed,
            lengths=row_lengths(dataset) if self.stage.is_bucketed else None,
            world_size=_world_size(),
            reshuffle=self.stage.reshuffle,
        )
        return self._epochs.sampler

    def get_multi_dataset_batch_sampler(
        self, dataset: Any, batch_samplers: list[Any], generator: torch.Generator | None = None, seed: int | None = 0
    ) -> TaskBatchSampler:
        """The order of the stage and the tasks beside it."""
        sizes = (int(self.stage.batch_size), *(task.batch_size for task in self.stage.beside))
        configs = (self.stage.objective, *(task.objective for task in self.stage.beside))
        bucketed = (self.stage.is_bucketed, *(config.per_example for config in configs[1:]))
        samplers = [
            SeededBatchSampler(
                part,
                batch_size=min(size, len(part)),
                seed=self.args.seed + number,  # tasks of equal size must not share an order
                lengths=row_lengths(part) if by_length else None,
                world_size=_world_size(),
                reshuffle=self.stage.reshuffle,
            )
            for number, (part, size, by_length) in enumerate(zip(dataset.datasets, sizes, bucketed, strict=True))
        ]
        sampler = TaskBatchSampler(
            dataset, samplers, seed=self.args.seed, world_size=_world_size(), mix=self.stage.mix
        )
        self._epochs.sampler = sampler
        return sampler

    # -- optimiser ---------------------------------------------------------------------------------------------------

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The schedule over the stage, or over a longer one that the stage does not see the end of."""
        planned = round(num_training_steps * self.stage.schedule_stretch)
        return super().create_scheduler(planned, optimizer)

    def get_optimizer_cls_and_kwargs(self, args: Any, model: Any = None) -> tuple[Any, Any]:  # type: ignore[override]
        """AdamW over groups with layer-wise learning rates; the head and norms as the stage says."""
        cls, kwargs = super().get_optimizer_cls_and_kwargs(args, model)
        kwargs["optimizer_dict"] = parameter_groups(self.objective, self.stage)
        return cls, kwargs


def task_names(stage: Stage) -> list[str]:
    """Names of a stage's own examples and of the tasks beside it, as the trainer tells data sets and losses apart."""
    return [OWN, *(f"beside-{number}" for number in range(1, len(stage.beside) + 1))]


def _loss(objective: Objective, stage: Stage) -> nn.Module:
    """The objective as the stage computes it: cached, and at several widths, where it asks for that."""
    loss = objective if stage.mini_batch_size is None else CachedObjective(objective, stage.mini_batch_size)
    return at_widths(objective.model, loss, stage.matryoshka) if stage.matryoshka else loss


def _world_size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def parameter_groups(objective: Objective, stage: Stage) -> list[dict[str, Any]]:
    """Optimiser groups: learning rate by depth (top layer and pooler the full one), weight decay on matrices only.

    Args:
        objective: Its own parameters (a head) take the head's rate.
        stage: Gives `learning_rate`, `head_learning_rate`, `layer_decay`, `embeddings_rate`, `weight_decay`.
    """
    named = [(n, p) for n, p in objective.named_parameters() if p.requires_grad]
    own = objective.own_parameters()
    depths = [int(m.group(1)) for n, _ in objective.named_parameters() if (m := LAYER.search(n))]
    layers = max(depths, default=-1) + 1
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in named:
        rate = stage.learning_rate
        layer = LAYER.search(name)
        if name in own:
            rate = stage.head_learning_rate or stage.learning_rate
        elif layer:
            rate *= stage.layer_decay ** (layers - 1 - int(layer.group(1)))
        elif "embed" in name and stage.embeddings_rate == "layered":
            rate *= stage.layer_decay**layers
        decay = stage.weight_decay if parameter.ndim > 1 else 0.0
        groups.setdefault((rate, decay), []).append(parameter)
    return [{"params": p, "lr": rate, "weight_decay": decay} for (rate, decay), p in groups.items()]


def last_checkpoint(folder: Path) -> Path | None:
    """Newest complete checkpoint of a stage; the trainer writes `trainer_state.json` last."""
    complete = [p for p in folder.glob("checkpoint-*") if _is_complete(p)]
    return max(complete, key=lambda p: int(p.name.rsplit("-", 1)[1]), default=None)


def _is_complete(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return (checkpoint / WEIGHTS).is_file()
