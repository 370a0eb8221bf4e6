"""The stage: one training phase, as configuration."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Literal

from gradate.errors import InputError
from gradate.objectives.config import ObjectiveConfig
from gradate.training.hard_negatives import NegativesConfig
from gradate.training.task import TaskConfig

Auto = Literal["auto"]
ALL_LINEAR = "all-linear"
METRICS = ("spearman_cosine", "pearson_cosine", "spearman_head", "mae_head")


@dataclass(frozen=True)
class LoraConfig:
    """Low-rank adapters, through `peft`; merged into the encoder when the stage ends."""

    r: int = 8
    """Rank of the update, 1 or more."""
    alpha: float = 16.0
    """Scale of the update is alpha / r."""
    dropout: float = 0.0
    """Dropout on the adapters' input, 0 to below 1."""
    target_modules: tuple[str, ...] = ()
    """Names of the linear layers to adapt; `[all-linear]`: every one but a layer over the vocabulary; empty: peft's
    choice for the architecture."""
    bits: Literal[4] | None = None
    """4: hold the frozen weights of linear layers as NF4 while adapters train (QLoRA; needs the extra `4bit`); the
    adapters are merged into the whole weights. null: as they are."""

    def __post_init__(self) -> None:
        if ALL_LINEAR in self.target_modules and len(self.target_modules) > 1:
            what = f"{ALL_LINEAR} leaves no other layer to name"
            raise InputError(what, where="lora.target_modules", remedy=f"[{ALL_LINEAR}], or names alone")
        _require(self.r >= 1, "lora.r", self.r, "1 or more")
        _require(math.isfinite(self.alpha) and self.alpha > 0, "lora.alpha", self.alpha, "above 0")
        _require(self.bits in (None, 4), "lora.bits", self.bits, "4, or null")
        _require(0 <= self.dropout < 1, "lora.dropout", self.dropout, "from 0 to below 1")


@dataclass(frozen=True)
class SelectionConfig:
    """What decides which checkpoint of a stage is kept."""

    source: str = "dev"
    """`dev` (the run's own dev pairs), or a source name such as `sts-dev-clean`; several sets are averaged."""
    metric: str = "spearman_cosine"
    """`spearman_cosine`, `pearson_cosine`, `spearman_head` (all ×100) or `mae_head` (lower is better)."""

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise InputError(
                f"unknown metric {self.metric!r}", where="selection.metric", remedy=f"one of {', '.join(METRICS)}"
            )

    @property
    def greater_is_better(self) -> bool:
        """Whether the larger value wins."""
        return self.metric != "mae_head"


@dataclass(frozen=True)
class Stage:
    """One training phase: its data, objective, what is trainable, schedule and selection."""

    source: str = "pairs"
    """`pairs` (the run's training pairs) or a source name: `nli`, `sts-corpus`, `starter`, a file, …; for `info-nce`
    also `nli-triplets`, `sentences`, `prompt-responses`, and retrieval sets: `scifact`, or one given as
    `--data beir/NAME=FOLDER`."""
    limit: int | None = None
    """Train on this many examples, drawn by lot, the same for every seed, 1 or more; null: on all."""
    noise: float = 0.0
    """Share of the grades that are replaced by others, drawn by lot, the same for every seed, 0 to 1: for studies of
    what noisy labels cost."""
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    """Loss and its parameters."""
    matryoshka: tuple[int, ...] = ()
    """Widths, below the encoder's own, at which an embedding cut off there is to serve as well: every loss of the
    stage is summed over them and the whole (sentence-transformers' MatryoshkaLoss)."""
    negatives: NegativesConfig = field(default_factory=NegativesConfig)
    """Hard negatives, where the source is a retrieval set."""
    beside: tuple[TaskConfig, ...] = ()
    """Other tasks that train in this stage, each in batches of its own."""
    mix: Literal["alternate", "together"] = "alternate"
    """With tasks beside it: `alternate`: a step trains one task, drawn by lot, and an epoch passes over all;
    `together`: every update sums a batch of each, and an epoch passes over the stage's own examples."""
    trainable: str = "all"
    """`head`, `all`, `lora`, or `last-N` for the head and the last N layers."""
    solver: Literal["convex", "sgd"] = "convex"
    """How a `head` stage is solved: `convex` to the optimum over cached features, or `sgd` like any other stage."""
    l2: float | Auto = "auto"
    """Ridge of the convex solver on block-standardised weights, above 0; `auto`: 5-fold cross-validation."""
    epochs: float = 4
    """Passes over the pairs, above 0."""
    batch_size: int | Auto = 16
    """Pairs per step and process, 1 or more."""
    batching: Literal["auto", "bucketed", "random"] = "auto"
    """`bucketed`: pairs of like length share a batch, hardly any padding; `random`: chance alone decides; `auto`:
    `bucketed` for a loss that is a sum over pairs, `random` for one over the batch as a whole."""
    mini_batch_size: int | None = None
    """Texts per forward pass; the loss still sees the whole batch, whose activations need not fit into memory at
    once (GradCache: each text is encoded twice). null: all at once."""
    accumulate: int = 1
    """Steps whose gradients are summed before an update, 1 or more."""
    max_length: int | None = None
    """Tokens per text, with what the tokenizer adds, a template included; null: the encoder's own limit."""
    learning_rate: float = 5e-5
    """Peak learning rate of the top layer, above 0."""
    head_learning_rate: float | None = None
    """Peak learning rate of the head; null: `learning_rate`."""
    scheduler: Literal["linear", "cosine", "constant", "constant_with_warmup"] = "linear"
    """Shape of the schedule after warm-up."""
    warmup: float = 0.1
    """Share of the schedule's updates with rising learning rate, 0 to below 1."""
    schedule_stretch: float = 1.0
    """Updates of the schedule per update of the stage, 1 or more; above 1 the stage ends before its schedule does, as
    in the published code."""
    weight_decay: float = 0.01
    """AdamW's weight decay, 0 or more; never on biases and normalisation."""
    layer_decay: float = 1.0
    """Factor of the learning rate from each layer to the one below, above 0 to 1."""
    embeddings_rate: Literal["layered", "full"] = "layered"
    """Learning rate of the embeddings: below the lowest layer's, or the full one as in the published code."""
    clip: float | None = 1.0
    """Largest gradient norm of encoder and head together; null: no clipping."""
    evaluate_every: int | Auto = "auto"
    """Updates between two selections, 1 or more; `auto`: four times an epoch, but not more often than every 20."""
    patience: int | None = None
    """Stop after this many selections without a better one; null: never."""
    selection: SelectionConfig | None = field(default_factory=SelectionConfig)
    """What decides which checkpoint is kept; null: the last one."""
    prompts: str | None = None
    """Text put before every text of the stage; null: none."""
    rescale_head: bool = True
    """Re-express the head on this stage's scale when it comes from another; false: the published code's way."""
    label_cast: Literal["float", "int"] = "float"
    """`int` truncates the grades as the published code does; for reproduction only."""
    reshuffle: bool = True
    """Draw a new order every epoch; false repeats the first one, as in the published code."""
    compile: Literal["never", "auto", "always"] = "never"
    """Compile the encoder's training pass with `torch.compile`; `auto`: where that is predicted to pay back over the
    stage, `always`: wherever there is a compiler."""
    activation_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time."""
    report_to: tuple[str, ...] = ()
    """Experiment trackers known to transformers, for instance `tensorboard`, `wandb`."""
    lora: LoraConfig = field(default_factory=LoraConfig)
    """Adapter settings for `trainable: lora`."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"head|all|lora|last-[1-9]\d*", self.trainable):
            raise InputError(
                f"unknown value {self.trainable!r}", where="trainable", remedy="head, all, lora or last-N, e.g. last-2"
            )
        choices = {
            "solver": ("convex", "sgd"),
            "batching": ("auto", "bucketed", "random"),
            "compile": ("never", "auto", "always"),
            "scheduler": ("linear", "cosine", "constant", "constant_with_warmup"),
            "embeddings_rate": ("layered", "full"),
            "label_cast": ("float", "int"),
            "mix": ("alternate", "together"),
        }
        for key, allowed in choices.items():
            if getattr(self, key) not in allowed:
                raise InputError(
                    f"unknown value {getattr(self, key)!r}", where=key, remedy=f"one of {', '.join(allowed)}"
                )
        _require(_finite(self.epochs) and self.epochs > 0, "epochs", self.epochs, "above 0")
        _require(self.batch_size == "auto" or self.batch_size >= 1, "batch_size", self.batch_size, "1 or more")
        mini = self.mini_batch_size
        _require(mini is None or mini >= 1, "mini_batch_size", mini, "1 or more, or null")
        _require(self.accumulate >= 1, "accumulate", self.accumulate, "1 or more")
        if self.accumulate > 1 and not self.objective.per_example:
            raise InputError(
                f"accumulate = {self.accumulate} would sum {self.objective.title} over parts of a batch, which is not"
                " its value over the whole",
                where="accumulate",
                remedy="use a larger batch_size with mini_batch_size instead",
            )
        if self.beside:
            self._refuse_what_tasks_exclude()
        if self.matryoshka:
            self._refuse_what_has_one_width()
        _require(self.limit is None or self.limit >= 1, "limit", self.limit, "1 or more, or null")
        _require(_finite(self.noise) and 0 <= self.noise <= 1, "noise", self.noise, "from 0 to 1")
        stretch = self.schedule_stretch
        _require(_finite(stretch) and stretch >= 1, "schedule_stretch", stretch, "1 or more")
        if not self.objective.needs_head:
            self._refuse_what_needs_a_head()
        if self.compile != "never" and any(term.name == "mid-info-nce" for term in self.objective.terms):
            what = "a compiled pass shows no layer in the middle"
            raise InputError(what, where="compile", remedy="never, or leave mid-info-nce out")
        if self.noise and not self.objective.reads_grades:
            what = f"{self.objective.name} reads no grades that could be noisy"
            raise InputError(what, where="noise", remedy="leave it out")
        _require(self.max_length is None or self.max_length >= 3, "max_length", self.max_length, "3 or more")
        _require(_rate(self.learning_rate), "learning_rate", self.learning_rate, "a finite number above 0, up to 1")
        head_rate = self.head_learning_rate
        _require(head_rate is None or _rate(head_rate), "head_learning_rate", head_rate, "above 0, up to 1")
        _require(_finite(self.warmup) and 0 <= self.warmup < 1, "warmup", self.warmup, "from 0 to below 1")
        _require(_finite(self.weight_decay) and self.weight_decay >= 0, "weight_decay", self.weight_decay, "0 or more")
        _require(0 < self.layer_decay <= 1, "layer_decay", self.layer_decay, "above 0, up to 1")
        _require(self.clip is None or (_finite(self.clip) and self.clip > 0), "clip", self.clip, "above 0, or null")
        every = self.evaluate_every
        _require(every == "auto" or every >= 1, "evaluate_every", every, "1 or more, or auto")
        _require(self.patience is None or self.patience >= 1, "patience", self.patience, "1 or more, or null")
        _require(self.l2 == "auto" or (_finite(self.l2) and self.l2 > 0), "l2", self.l2, "above 0, or auto")

    def _refuse_what_tasks_exclude(self) -> None:
        for key, unwanted in (
            ("trainable", self.trainable == "head"),
            ("accumulate", self.accumulate > 1),
            ("compile", self.compile != "never"),
        ):
            if unwanted:
                what = f"{key} = {getattr(self, key)} does not go with tasks beside the stage"
                raise InputError(what, where=key, remedy=f"leave {key} or beside out")

    def _refuse_what_has_one_width(self) -> None:
        widths = self.matryoshka
        holds = min(widths) >= 1 and len(set(widths)) == len(widths)
        _require(holds, "matryoshka", list(widths), "different widths, each 1 or more")
        for objective in (self.objective, *(task.objective for task in self.beside)):
            fixed = objective.needs_head or objective.projection
            if fixed or any(term.name == "mid-info-nce" for term in objective.terms):
                reads = "an inner layer" if not fixed else "a projection" if objective.projection else "a head"
                what = f"{objective.title} reads {reads}, which has one width"
                raise InputError(what, where="matryoshka", remedy="leave it out, or take a loss on the cosine")

    def _refuse_what_needs_a_head(self) -> None:
        name = self.objective.title
        if self.trainable == "head":
            raise InputError(f"{name} trains no head", where="trainable", remedy="all, lora or last-N")
        if self.selection is not None and self.selection.metric in ("spearman_head", "mae_head"):
            raise InputError(
                f"{name} trains no head to judge", where="selection.metric", remedy="spearman_cosine or pearson_cosine"
            )

    @property
    def steps_an_update(self) -> int:
        """Batches whose gradients are summed before an update."""
        return 1 + len(self.beside) if self.mix == "together" else self.accumulate

    @property
    def is_convex(self) -> bool:
        """Whether the stage is the head-only fit solved to its optimum."""
        return self.trainable == "head" and self.solver == "convex"

    @property
    def is_bucketed(self) -> bool:
        """Whether pairs of like length share a batch."""
        return self.batching == "bucketed" or (self.batching == "auto" and self.objective.per_example)


def _finite(value: float) -> bool:
    return math.isfinite(value)


def _rate(value: float) -> bool:
    return math.isfinite(value) and 0 < value <= 1


def _require(holds: bool, key: str, value: object, allowed: str) -> None:
    if not holds:
        raise InputError(f"{key} = {value} is out of range", where=key, remedy=f"allowed: {allowed}")
