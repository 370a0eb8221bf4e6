"""The row store by itself: several processes at once, and look-ups in what others added."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import numpy as np
import pytest

from gradate.engine.row_store import KEY, RowStore

DIM = 3


def keys(numbers: list[int] | range) -> np.ndarray:
    result = np.zeros(len(numbers), dtype=KEY)
    result["high"], result["low"] = np.array(numbers) * 2**40, np.array(numbers)
    return result


def rows(numbers: list[int] | range) -> np.ndarray:
    return np.outer(np.array(numbers), np.arange(1, DIM + 1)).astype(np.float32)


def fill(folder: str, seed: int) -> None:
    store = RowStore(Path(folder), "model", DIM)
    generator = np.random.default_rng(seed)
    for _ in range(40):
        chosen = generator.choice(200, 9, replace=False).tolist()
        store.append(keys(chosen), rows(chosen))
        places = store.find(keys(chosen))
        found = places >= 0
        assert np.array_equal(store.map()[places[found]], rows(chosen)[found])


def test_writers_of_several_processes_take_turns(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=fill, args=(str(tmp_path), seed)) for seed in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    store = RowStore(tmp_path, "model", DIM)
    places = store.find(keys(range(200)))
    assert (places >= 0).sum() > 150 and not store.damaged and store.emptied is None
    stored = np.flatnonzero(places >= 0)
    assert np.array_equal(store.map()[places[stored]], rows(stored.tolist()))
    assert (tmp_path / "rows.f32").stat().st_size == len(store.map()) * DIM * 4
    assert len(store.map()) <= 200, "no key twice"


def test_what_another_added_is_found_and_not_added_again(tmp_path: Path) -> None:
    one, other = RowStore(tmp_path, "model", DIM), RowStore(tmp_path, "model", DIM)
    assert one.find(keys([1, 2])).tolist() == [-1, -1] and one.map().shape == (0, DIM)
    other.append(keys([2, 3]), rows([2, 3]))
    one.append(keys([1, 2]), rows([1, 2]))
    places = one.find(keys([3, 2, 1]))
    assert sorted(places.tolist()) == [0, 1, 2]
    assert np.array_equal(one.map()[places], rows([3, 2, 1]))


def test_half_a_key_is_no_key(tmp_path: Path) -> None:
    store = RowStore(tmp_path, "model", DIM)
    store.append(keys([1, 2]), rows([1, 2]))
    other = keys([1])
    other["low"] = 7
    assert store.find(other).tolist() == [-1]


@pytest.mark.parametrize(
    "change", [{"rows": 10**12}, {"rows": 0}, {"start": 10**12}, {"rows_crc": -1}, {"start": 0.5}]
)
def test_a_line_that_says_what_cannot_be(tmp_path: Path, change: dict[str, float]) -> None:
    store = RowStore(tmp_path, "model", DIM)
    store.append(keys([1, 2]), rows([1, 2]))
    store.append(keys([3]), rows([3]))
    journal = tmp_path / "journal.jsonl"
    header, first, second = journal.read_text(encoding="utf-8").splitlines()
    changed = json.dumps(json.loads(first) | change)
    journal.write_text(f"{header}\n{changed}\n{second}\n", encoding="utf-8")
    opened = RowStore(tmp_path, "model", DIM)
    assert opened.find(keys([1, 2, 3])).tolist() == [-1, -1, 2] and opened.damaged
    opened.append(keys([1]), rows([1]))
    assert len(journal.read_text(encoding="utf-8").splitlines()) == 3, "the false line is gone"
    again = RowStore(tmp_path, "model", DIM)
    assert again.find(keys([1, 3])).tolist() == [3, 2] and not again.damaged
