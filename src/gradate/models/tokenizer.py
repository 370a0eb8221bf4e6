"""The tokenizer of an encoder: its padding, and a template around every text it reads."""

from __future__ import annotations

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from gradate.errors import InputError
from gradate.models.template import SLOT, template_text

KEY = "template"
"""Where `tokenizer_config.json` says which template the tokenizer carries."""
BEFORE, AFTER = "<before>", "<after>"
SAMPLE = "a"
"""A text that shows what a tokenizer puts around texts."""


def provide_padding(encoder: SentenceTransformer) -> None:
    """Let a decoder's tokenizer pad, with its end of text or its unknown token, where it has no token for that.

    What is padding the attention mask says, so the same token still counts where it stands in a text.
    """
    tokenizer = getattr(encoder[0], "tokenizer", None)
    if isinstance(tokenizer, PreTrainedTokenizerBase) and tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token


def with_template(encoder: SentenceTransformer, template: str) -> SentenceTransformer:
    """The encoder with a template around every text it reads, in place; one that has it already stays as it is.

    The template's tokens become part of what the tokenizer adds to a text, as [CLS] and [SEP] are: truncation cuts the
    text and never the template, and plain sentence-transformers opens the saved model with the template in place. The
    text is tokenised by itself: a tokenizer that puts a space before a text puts it behind the opening quote, too. A
    decoder is padded on the left, so that its last position holds a text's last token for whoever reads it there.

    Args:
        encoder: One whose first module is a transformer with a tokenizer of the `tokenizers` library.
        template: See `template_text`.

    Raises:
        InputError: a tokenizer of another kind, one with another template, or what `template_text` refuses.
    """
    text = template_text(template)
    transformer, tokenizer = encoder[0], getattr(encoder[0], "tokenizer", None)
    if not isinstance(transformer, Transformer) or not isinstance(tokenizer, PreTrainedTokenizerFast):
        what = "this encoder has no tokenizer that takes a template"
        raise InputError(what, where="template", remedy="leave it out: null")
    present = tokenizer.init_kwargs.get(KEY)
    if present is None:
        transformer.processor = transformer.input_formatter.processor = _templated(transformer, tokenizer, text)
    elif present != text:
        what = f"this encoder reads every text as {present!r} already"
        raise InputError(what, where="template", remedy="null keeps it")
    return encoder


def check_room(encoder: SentenceTransformer, max_length: int | None, where: str) -> None:
    """Refuse a length of which the tokenizer's own tokens leave nothing: it would cut no text at all.

    Args:
        encoder: With its template, if it has one.
        max_length: Tokens per text; None: no limit.
        where: What sets the limit.

    Raises:
        InputError: the tokenizer adds that many tokens, or more.
    """
    tokenizer = getattr(encoder[0], "tokenizer", None)
    if max_length is None or not isinstance(tokenizer, PreTrainedTokenizerFast):
        return
    added = tokenizer.num_special_tokens_to_add()
    if max_length <= added:
        what = f"max_length = {max_length} leaves no room for a text: the tokenizer adds {added} tokens to each"
        raise InputError(what, where=where, remedy=f"{added + 1} or more")


def _templated(transformer: Transformer, tokenizer: PreTrainedTokenizerFast, template: str) -> PreTrainedTokenizerFast:
    """A plain tokenizer of the same tokens: classes of architectures rebuild their post-processor when opened."""
    before, after = template.split(SLOT)
    opening, closing = _added(tokenizer)
    core = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    parts = {BEFORE: [*opening, *_tokens(tokenizer, before)], AFTER: [*_behind(tokenizer, after), *closing]}
    core.post_processor = TemplateProcessing(
        single=[*([BEFORE] if parts[BEFORE] else []), "$A", *([AFTER] if parts[AFTER] else [])],
        special_tokens=[
            {"id": name, "ids": ids, "tokens": tokenizer.convert_ids_to_tokens(ids)}
            for name, ids in parts.items()
            if ids
        ],
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core,
        padding_side="left" if _is_causal(transformer) else tokenizer.padding_side,
        truncation_side=tokenizer.truncation_side,
        model_max_length=tokenizer.model_max_length,
        model_input_names=tokenizer.model_input_names,
        **{KEY: template},
        **tokenizer.special_tokens_map,
    )


def _is_causal(transformer: Transformer) -> bool:
    return any(getattr(module, "is_causal", False) for module in transformer.model.modules())


def _added(tokenizer: PreTrainedTokenizerFast) -> tuple[list[int], list[int]]:
    """Tokens that the tokenizer itself puts before and behind a text."""
    encoded = tokenizer(SAMPLE, return_special_tokens_mask=True)
    ids, mask = encoded["input_ids"], encoded["special_tokens_mask"]
    first = mask.index(0)
    last = len(mask) - mask[::-1].index(0)
    return ids[:first], ids[last:]


def _tokens(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def _behind(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    """Tokens of what follows a text, without the space that some tokenizers put before the first word."""
    sample, both = _tokens(tokenizer, SAMPLE), _tokens(tokenizer, SAMPLE + text)
    return both[len(sample) :] if both[: len(sample)] == sample else _tokens(tokenizer, text)
