"""Made-up texts of an exact number of tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gradate.data.examples import Pairs
from gradate.scale import LabelScale

SCALE = LabelScale.continuous(0, 5)
ENOUGH = 500


def load_tokenizer(encoder: Path) -> Any:
    """The encoder's tokenizer alone."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(encoder, local_files_only=True)


def filled_texts(tokenizer: Any, n: int, tokens: int, *, seed: int) -> list[str]:
    """`n` different texts of `tokens` tokens each, special ones included: random words that are one token each.

    Args:
        tokenizer: A WordPiece tokenizer, or another whose vocabulary holds whole words.
        n: Texts.
        tokens: Tokens of each.
        seed: Seed of the words.
    """
    words = _words(tokenizer)
    count = tokens - len(tokenizer("")["input_ids"])
    generator = np.random.default_rng(seed)
    texts: dict[str, None] = {}
    while len(texts) < n:
        rows = words[generator.integers(0, len(words), (n - len(texts), count))]
        texts |= dict.fromkeys(" ".join(row) for row in rows)
    return list(texts)


def filled_pairs(tokenizer: Any, n: int, tokens: int, *, seed: int) -> Pairs:
    """`n` pairs of such texts with random grades from 0 to 5."""
    texts = filled_texts(tokenizer, 2 * n, tokens, seed=seed)
    grades = np.random.default_rng(seed).uniform(0, 5, n)
    return Pairs(texts[:n], texts[n:], grades, SCALE, name="made-up")


def _words(tokenizer: Any) -> np.ndarray:
    plain = sorted(w for w in tokenizer.get_vocab() if w.isascii() and w.isalpha() and w.islower())
    longer = [word for word in plain if len(word) > 2]
    chosen = longer if len(longer) >= ENOUGH else plain
    ids = tokenizer(chosen, add_special_tokens=False)["input_ids"]
    return np.array([word for word, row in zip(chosen, ids, strict=True) if len(row) == 1])
