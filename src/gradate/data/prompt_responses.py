"""Prompts and their responses, as a retrieval set: which of all responses answers a prompt."""

from __future__ import annotations

from pathlib import Path

from gradate.data.retrieval import RetrievalSet
from gradate.data.tables import read_table, text_problem
from gradate.errors import InputError

COLUMNS = (("prompt", "response"), ("instruction", "output"), ("question", "answer"))


def read_prompt_responses(path: Path, *, name: str = "prompt-responses") -> RetrievalSet:
    """Read a file of prompts and responses; the responses of other prompts are what a prompt's negatives come from.

    A prompt with several responses has all of them as its positives; a response of several prompts is one document.

    Args:
        path: A table with the columns `prompt, response`, `instruction, output` or `question, answer`.
        name: What to call the set.

    Raises:
        InputError: the file has no such columns, a cell is no text, or fewer than two responses are different.

    Source: Li et al. (2024), Conan-embedding: (prompt, response) pairs of instruction data.
    """
    table = read_table(path)
    if table.problems:
        first = table.problems[0]
        raise InputError(first.detail, where=f"{path}:{first.row}", remedy=first.remedy)
    names = next((names for names in COLUMNS if set(names) <= set(table.header)), None)
    if names is None:
        what = f"no columns of prompts and responses among {', '.join(table.header)}"
        raise InputError(what, where=path, remedy=f"name them {' or '.join(', '.join(pair) for pair in COLUMNS)}")
    prompts: dict[str, str] = {}
    responses: dict[str, str] = {}
    relevant: dict[str, dict[str, float]] = {}
    repeated = 0
    cells = (table.column(table.header.index(column)) for column in names)
    for row, *texts in zip(table.rows, *cells, strict=True):
        for column, text in zip(names, texts, strict=True):
            if (problem := text_problem(text, column)) is not None:
                raise InputError(problem[1], where=f"{path}:{row}", remedy=problem[2])
        prompt, response = texts
        asked = relevant.setdefault(prompts.setdefault(prompt, f"p{len(prompts)}"), {})
        answer = responses.setdefault(response, f"r{len(responses)}")
        repeated += answer in asked
        asked[answer] = 1.0
    if len(responses) < 2:
        what = f"{len(responses)} different responses: none could be another's negative"
        raise InputError(what, where=path, remedy="give at least two")
    count = f"{len(prompts):,} prompts, {len(responses):,} different responses"
    return RetrievalSet(
        name,
        "train",
        {identity: text for text, identity in responses.items()},
        {identity: text for text, identity in prompts.items()},
        relevant,
        (count, *([f"repeated rows, left out: {repeated:,}"] if repeated else [])),
    )
