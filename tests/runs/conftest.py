"""A tiny encoder on disk, graded pairs in a csv, and a recipe that trains the one on the other in a second."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.graded import graded_pairs, write_csv
from tests.tiny import tiny_encoder

RECIPE = """
description: A test.
encoder: {encoder}
precision: fp32
stages:
  - source: pairs
    trainable: head
    l2: 0.01
    objective: {{name: smooth-k2}}
  - source: pairs
    objective: {{name: smooth-k2}}
    epochs: 3
    batch_size: 8
    learning_rate: 1e-3
    layer_decay: 0.9
    evaluate_every: 4
evaluation:
  source: test
  intervals: 50
"""


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "encoder"
    tiny_encoder(folder)
    return folder


@pytest.fixture(scope="session")
def pairs_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("pairs") / "letters.csv", graded_pairs(100))


@pytest.fixture(scope="session")
def recipe_file(tmp_path_factory: pytest.TempPathFactory, encoder_folder: Path) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "tiny.yaml"
    path.write_text(RECIPE.format(encoder=encoder_folder), encoding="utf-8")
    return path
