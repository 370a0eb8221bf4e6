"""A made-up retrieval set in BEIR's form: letters, so that a tiny encoder reads it."""

from __future__ import annotations

import json
from pathlib import Path

CORPUS = {
    "d1": ("a b", "c"),
    "d2": ("", "A  b C"),  # the text of d1, folded
    "d3": ("d", ""),
    "d4": ("", ""),
    "d5": ("e", "f g"),
    "d6": ("x", "y z"),
    "d7": ("x", "y"),
}
QUERIES = {"q1": "a b", "q2": "e f", "q3": "x y", "q4": "w"}
QRELS = {
    "test": [("q1", "d1", 2), ("q1", "d3", 1), ("q2", "d5", 1), ("q3", "d6", 1), ("q4", "d6", 0)],
    "train": [("q1", "d1", 1), ("q1", "d4", 1), ("q2", "d5", 1)],
}


def write_beir(folder: Path) -> Path:
    """Write the set into a folder; its name becomes that of the set."""
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": i, "title": title, "text": text, "metadata": {}} for i, (title, text) in CORPUS.items()]
    queries = [{"_id": i, "text": text, "metadata": {}} for i, text in QUERIES.items()]
    for name, records in (("corpus", documents), ("queries", queries)):
        lines = [json.dumps(record) for record in records]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for split, rows in QRELS.items():
        lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in rows)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
