"""Models of a few kilobytes, an encoder and decoders, built offline in well under a second."""

from __future__ import annotations

import string
import tempfile
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from transformers import (
    BertConfig,
    BertModel,
    GPT2Tokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaTokenizer,
    MistralConfig,
    MistralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = tuple(string.ascii_lowercase)
VOCABULARY = {token: i for i, token in enumerate((*SPECIALS, *LETTERS, *(f"##{letter}" for letter in LETTERS)))}
DIMENSION = 32
SIGNS = (*string.ascii_letters, *" .,:?\"'")


def tiny_encoder(folder: Path | str | None = None, *, seed: int = 0, normalize: bool = True) -> SentenceTransformer:
    """A random two-layer BERT of width 32 over single letters, with mean pooling, in evaluation mode.

    Args:
        folder: Where to save the model too, so that tests can open it by its path; None keeps it in memory.
        seed: Seed of the weights; the caller's random state is left as it was.
        normalize: Whether the model ends in a Normalize module.
    """
    with tempfile.TemporaryDirectory() as temporary:
        _tokenizer().save_pretrained(temporary)
        _bert(seed).save_pretrained(temporary)
        transformer = Transformer(temporary, model_kwargs={"local_files_only": True})
    modules: list[torch.nn.Module] = [transformer, Pooling(DIMENSION, "mean")]
    if normalize:
        modules.append(Normalize())
    encoder = SentenceTransformer(modules=modules, device="cpu", local_files_only=True)
    if folder is not None:
        encoder.save_pretrained(str(folder), create_model_card=False)
    return encoder.eval()


def tiny_decoder(folder: Path | str, kind: str = "llama", *, seed: int = 0) -> Path:
    """A random causal language model of two layers and width 32 over single signs, as checkpoints lie on the Hub.

    Args:
        folder: Where to save the checkpoint: configuration, weights and tokenizer, and nothing of
            sentence-transformers.
        kind: `llama` and `mistral`, whose tokenizer puts a space before a text and has no token to pad with, or `opt`.
        seed: Seed of the weights; the caller's random state is left as it was.
    """
    if kind == "opt":
        names = {name: "</s>" for name in ("bos_token", "eos_token", "unk_token")}
        vocabulary = {token: i for i, token in enumerate(("<pad>", "</s>", "Ġ", *SIGNS))}
        tokenizer = GPT2Tokenizer(vocab=vocabulary, merges=[], add_bos_token=True, pad_token="<pad>", **names)
    else:
        vocabulary = {token: i for i, token in enumerate(("<unk>", "<s>", "</s>", "▁", *SIGNS))}
        tokenizer = LlamaTokenizer(vocab=vocabulary, merges=[], add_bos_token=True)
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        _causal(kind, len(vocabulary)).save_pretrained(folder)
    return Path(folder)


def set_dropout(encoder: SentenceTransformer, probability: float) -> None:
    """Give every dropout of a BERT, that of its attention weights included, another probability."""
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = probability
        if hasattr(module, "dropout_prob"):
            module.dropout_prob = probability
    encoder.get_submodule("0.model").config.attention_probs_dropout_prob = probability


def _tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(WordPiece(VOCABULARY, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, VOCABULARY[token]) for token in ("[CLS]", "[SEP]")],
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=64, **dict(zip(names, SPECIALS, strict=True))
    )


def _bert(seed: int) -> BertModel:
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=DIMENSION,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BertModel(config).eval()


def _causal(kind: str, words: int) -> PreTrainedModel:
    size = {
        "vocab_size": words,
        "hidden_size": DIMENSION,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 128,
    }
    if kind == "opt":
        return OPTForCausalLM(OPTConfig(**size, ffn_dim=64, word_embed_proj_dim=DIMENSION, dropout=0.0))
    size |= {"num_key_value_heads": 2, "intermediate_size": 64}
    if kind == "mistral":
        return MistralForCausalLM(MistralConfig(**size, sliding_window=64))
    return LlamaForCausalLM(LlamaConfig(**size))
