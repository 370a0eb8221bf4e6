"""What trains in a stage: the head, the last layers, adapters or everything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from peft import LoraConfig as PeftLoraConfig
from peft import get_peft_model
from sentence_transformers import SentenceTransformer
from torch import nn

from gradate.engine.layer_tap import LAYER
from gradate.errors import InputError
from gradate.models.adapters import merge_adapters
from gradate.models.four_bit import held_in_four_bits
from gradate.models.head import PairHead
from gradate.training.stage import ALL_LINEAR, LoraConfig, Stage


@contextmanager
def trainable(encoder: SentenceTransformer, head: PairHead | None, stage: Stage) -> Iterator[None]:
    """Leave only what the stage trains with gradients; on leaving, merge adapters and give gradients back to all.

    Raises:
        InputError: more layers asked for than there are, LoRA on an encoder without a transformer, or four bits
            without bitsandbytes.
    """
    weights = ExitStack()
    try:
        if stage.trainable == "lora":
            transformer = encoder.get_submodule("0")
            if stage.lora.bits is not None:
                weights.enter_context(held_in_four_bits(transformer))
            add_lora(transformer, stage.lora)
        elif stage.trainable == "head":
            encoder.requires_grad_(False)
        elif stage.trainable != "all":
            _last_layers(encoder, int(stage.trainable.removeprefix("last-")))
        if head is not None:
            head.requires_grad_(True)
        yield
    finally:
        weights.close()  # adapters are merged into the whole weights, not into four bits
        merge_adapters(encoder)
        encoder.requires_grad_(True)


def add_lora(transformer: nn.Module, config: LoraConfig) -> None:
    """Put adapters around a Transformer module's model, whose own weights freeze."""
    names = list(config.target_modules)
    if not hasattr(transformer, "model"):
        raise InputError("this encoder has no transformer to adapt", where="trainable", remedy="use all or head")
    try:
        transformer.model = get_peft_model(
            transformer.get_submodule("model"),
            PeftLoraConfig(
                r=config.r,
                lora_alpha=config.alpha,  # type: ignore[arg-type]
                lora_dropout=config.dropout,
                target_modules=ALL_LINEAR if names == [ALL_LINEAR] else names or None,
            ),
        )
    except ValueError as error:
        raise InputError(str(error).splitlines()[0], where="lora.target_modules") from error


def _last_layers(encoder: SentenceTransformer, count: int) -> None:
    layers = sorted({int(m.group(1)) for n, _ in encoder.named_parameters() if (m := LAYER.search(n))})
    if count > len(layers):
        raise InputError(
            f"last-{count} asks for more layers than the {len(layers)} there are",
            where="trainable",
            remedy=f"last-1 to last-{len(layers)}, or all",
        )
    chosen = set(layers[len(layers) - count :])
    for name, parameter in encoder.named_parameters():
        match = LAYER.search(name)
        parameter.requires_grad_(match is not None and int(match.group(1)) in chosen)
