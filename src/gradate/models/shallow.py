"""The shallow encoder: a small random transformer, for studies of what training alone achieves."""

from __future__ import annotations

import tempfile

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import AutoTokenizer, BertConfig, BertModel

from gradate.models.bundled import bundled_path
from gradate.models.loading import quiet_progress

NAME = "shallow"
"""Name under which recipes know it."""
WIDTH, LAYERS, HEADS, LENGTH = 256, 2, 4, 128


def shallow_encoder(seed: int) -> SentenceTransformer:
    """A BERT of two layers and width 256 over the bundled model's vocabulary, mean-pooled, with random weights.

    It has seen neither language modelling nor contrastive training, so that whatever it knows of similarity it has
    learned in the run at hand.

    Args:
        seed: Seed of the weights; the caller's random state is left as it was.

    Raises:
        InputError: the bundled model, whose tokenizer this is, is not installed.
    """
    tokenizer = AutoTokenizer.from_pretrained(str(bundled_path()), local_files_only=True)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        max_position_embeddings=LENGTH,
    )
    with torch.random.fork_rng(devices=[]), quiet_progress():
        torch.manual_seed(seed)
        model = BertModel(config)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            transformer = Transformer(folder, max_seq_length=LENGTH, model_kwargs={"local_files_only": True})
    encoder = SentenceTransformer(modules=[transformer, Pooling(WIDTH, "mean")], local_files_only=True)
    encoder.model_card_data.local_files_only = True
    return encoder.eval()
