"""Prompts and responses become a retrieval set: each different text once, every answer kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradate.data.locations import DataLocations
from gradate.data.prompt_responses import read_prompt_responses
from gradate.data.sources import is_retrieval, load_ranked
from gradate.errors import InputError

ROWS = [("how to boil rice", "with water"), ("how to boil rice", "on a stove"), ("what is tea", "a drink")]


def write(folder: Path, rows: list[tuple[str, str]], names: tuple[str, str] = ("prompt", "response")) -> Path:
    path = folder / "answers.jsonl"
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows), encoding="utf-8")
    return path


def test_prompts_are_queries_and_responses_documents(tmp_path: Path) -> None:
    found = read_prompt_responses(write(tmp_path, [*ROWS, ROWS[0], ("make tea", "with water")]))
    assert list(found.queries.values()) == ["how to boil rice", "what is tea", "make tea"]
    assert list(found.corpus.values()) == ["with water", "on a stove", "a drink"]
    answers = {found.queries[q]: [found.corpus[d] for d in documents] for q, documents in found.relevant.items()}
    assert answers == {
        "how to boil rice": ["with water", "on a stove"],
        "what is tea": ["a drink"],
        "make tea": ["with water"],
    }
    assert found.notes == ("3 prompts, 3 different responses", "repeated rows, left out: 1")


@pytest.mark.parametrize("names", [("instruction", "output"), ("question", "answer")])
def test_other_names(tmp_path: Path, names: tuple[str, str]) -> None:
    assert len(read_prompt_responses(write(tmp_path, ROWS, names))) == 2


@pytest.mark.parametrize(
    ("rows", "names", "said"),
    [
        (ROWS, ("a", "b"), "no columns of prompts and responses among a, b"),
        ([*ROWS, ("x", " ")], ("prompt", "response"), r"answers\.jsonl:4: .*response"),
        ([("x", "y"), ("z", "y")], ("prompt", "response"), "1 different responses"),
    ],
)
def test_unusable(tmp_path: Path, rows: list[tuple[str, str]], names: tuple[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_prompt_responses(write(tmp_path, rows, names))


def test_they_are_a_source_with_ranked_negatives(tmp_path: Path) -> None:
    assert is_retrieval("prompt-responses")
    here = DataLocations.resolve([f"prompt-responses={write(tmp_path, ROWS)}"], environ={})
    rows = load_ranked("prompt-responses", here, shown=(1, 1), pool=1, skip=0, nearest=True)
    assert list(rows.query) == ["how to boil rice", "what is tea"]
    assert list(rows.negatives[0]) == ["a drink"]
    with pytest.raises(InputError, match="--data prompt-responses=FILE"):
        load_ranked("prompt-responses", DataLocations(), shown=(1, 1), pool=1, skip=0, nearest=True)


def test_embeddings_may_rank_them(tmp_path: Path) -> None:
    rows = [("p", "far"), ("q", "near"), ("r", "nearest")]
    here = DataLocations.resolve([f"prompt-responses={write(tmp_path, rows)}"], environ={})
    place = {"p": [1, 0], "q": [0, 1], "r": [0, 1], "far": [0, 1], "near": [1, 1], "nearest": [1, 0.1]}

    def embed(texts: list[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
        return np.float32([place[text] for text in texts])

    found = load_ranked("prompt-responses", here, shown=(1, 1), pool=2, skip=0, nearest=True, embed=embed)
    assert list(found.negatives[0]) == ["nearest", "near"]
