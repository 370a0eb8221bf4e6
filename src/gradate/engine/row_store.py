"""A file of rows under keys that only ever grows, and that is never trusted further than its checksums reach."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

try:
    import fcntl
except ImportError:  # no such locks on Windows: what is there can be read, nothing is added
    fcntl = None  # type: ignore[assignment]

Rows = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
Keys = npt.NDArray[np.void]
KEY = np.dtype([("high", "<u8"), ("low", "<u8")])
"""A key: 16 bytes of a hash."""


@dataclass(frozen=True)
class Chunk:
    """What one append added, as its line in the journal."""

    start: int
    """Its first row."""
    rows: int
    rows_crc: int
    keys_crc: int

    @property
    def stop(self) -> int:
        """The row after its last."""
        return self.start + self.rows


class RowStore:
    """Rows of float32 under keys, in a folder of their own.

    `rows.f32` and `keys.bin` hold the numbers, `journal.jsonl` one line for each append, written last, with the
    checksums of what was appended. What no line vouches for, such as the end of an interrupted append, does not exist;
    a chunk whose bytes do not match its line is dropped for good. Appends of several processes take turns by a file
    lock; nothing that another process may have mapped is ever overwritten or cut off.

    Args:
        folder: Where the files lie; made by the first append.
        identity: What the rows belong to; a store with another identity or width is emptied.
        dim: Width of a row.
    """

    def __init__(self, folder: Path, identity: str, dim: int) -> None:
        self.folder, self.dim = folder, dim
        self.damaged = False
        """Whether rows were dropped because they had been cut off or changed."""
        self.emptied: str | None = None
        """Why everything in the folder was discarded; None if it was not."""
        self._header = {"identity": identity, "dim": dim}
        self._needs_journal = False
        self._chunks: dict[Chunk, Keys] = {}
        self._sound: set[Chunk] = set()
        self._bad: set[Chunk] = set()

    @property
    def _rows_file(self) -> Path:
        return self.folder / "rows.f32"

    @property
    def _keys_file(self) -> Path:
        return self.folder / "keys.bin"

    @property
    def _journal_file(self) -> Path:
        return self.folder / "journal.jsonl"

    def find(self, keys: Keys) -> Places:
        """Row of each key, (n,), -1 where there is none; the checksums of all rows found are right.

        Raises:
            OSError: the files cannot be read.
        """
        self._read_journal(settled=False)
        return self._find(keys)

    def _find(self, keys: Keys) -> Places:
        while True:
            places = self._look_up(keys)
            suspects = [chunk for chunk in self._chunks if chunk not in self._sound and _touches(places, chunk)]
            with ThreadPoolExecutor(max(1, min(4, os.cpu_count() or 1))) as pool:
                sound = list(pool.map(self._rows_match, suspects))
            self._sound.update(chunk for chunk, is_sound in zip(suspects, sound, strict=True) if is_sound)
            if all(sound):
                return places
            for chunk, is_sound in zip(suspects, sound, strict=True):
                if not is_sound:
                    self._drop(chunk)

    def append(self, keys: Keys, rows: Rows) -> None:
        """Add rows (n, dim) under keys (n,), except those whose keys are there by now.

        Raises:
            OSError: the disk is full, or the folder may not be written to; nothing was added then.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            self._read_journal(settled=True)
            is_new = self._find(keys) < 0
            if self._needs_journal or self._bad:
                self._rewrite_journal()
            if is_new.any():
                self._write(keys[is_new], np.ascontiguousarray(rows[is_new], dtype="<f4"))

    def map(self) -> Rows:
        """All rows, (m, dim), memory-mapped; writing to them changes only the caller's copy."""
        stop = max((chunk.stop for chunk in self._chunks), default=0)
        if not stop:
            return np.zeros((0, self.dim), dtype=np.float32)
        return np.memmap(self._rows_file, dtype="<f4", mode="c", shape=(stop, self.dim))

    def _read_journal(self, *, settled: bool) -> None:
        """Take in the chunks that were added, by whomever, since the last look; `settled`: nobody is writing."""
        has_rows = self._rows_file.exists()
        try:
            contents = self._journal_file.read_bytes()
        except FileNotFoundError:
            contents = b""
        *lines, rest = contents.split(b"\n")
        reason = self._why_unusable(lines) if lines else "its journal is lost" if has_rows else None
        self.emptied = reason or self.emptied
        chunks = [] if reason else [_parse(line) for line in lines[1:]]
        listed = dict.fromkeys(chunk for chunk in chunks if chunk is not None)
        is_cut = None in chunks or (settled and bool(rest) and not reason)
        self.damaged = self.damaged or is_cut
        self._needs_journal = not lines or reason is not None or is_cut
        for chunk in self._chunks.keys() - listed.keys():
            del self._chunks[chunk]
        for chunk in listed:
            if chunk not in self._chunks and chunk not in self._bad:
                keys = self._read_keys(chunk)
                if keys is None:
                    self._drop(chunk)
                else:
                    self._chunks[chunk] = keys

    def _why_unusable(self, lines: list[bytes]) -> str | None:
        try:
            header = json.loads(lines[0])
        except ValueError:
            header = None
        if not isinstance(header, dict) or header.keys() != self._header.keys():
            return "its journal is damaged"
        if header["identity"] != self._header["identity"]:
            return "it belongs to another model"
        return None if header == self._header else f"its rows have width {header['dim']}, the encoder's {self.dim}"

    def _read_keys(self, chunk: Chunk) -> Keys | None:
        if _size(self._keys_file) < chunk.stop * KEY.itemsize or _size(self._rows_file) < chunk.stop * self.dim * 4:
            return None
        keys = np.fromfile(self._keys_file, dtype=KEY, count=chunk.rows, offset=chunk.start * KEY.itemsize)
        return keys if zlib.crc32(keys.data) == chunk.keys_crc else None

    def _rows_match(self, chunk: Chunk) -> bool:
        rows = np.memmap(
            self._rows_file,
            dtype="u1",
            mode="r",
            offset=chunk.start * self.dim * 4,
            shape=(chunk.rows * self.dim * 4,),
        )
        return zlib.crc32(rows.data) == chunk.rows_crc

    def _drop(self, chunk: Chunk) -> None:
        self._chunks.pop(chunk, None)
        self._bad.add(chunk)
        self.damaged = True

    def _look_up(self, keys: Keys) -> Places:
        chunks = list(self._chunks.items())
        known = np.concatenate([np.empty(0, KEY), *(keys for _, keys in chunks)])
        places = np.concatenate([np.empty(0, np.int64), *(np.arange(c.start, c.stop) for c, _ in chunks)])
        # Where two keys share their first half (in one of 10^7 stores of a million), one of them counts as missing.
        order = np.argsort(known["high"], kind="stable")
        if not len(known):
            return np.full(len(keys), -1)
        at = order[np.minimum(np.searchsorted(known["high"], keys["high"], sorter=order), len(known) - 1)]
        return np.where(known[at] == keys, places[at], -1)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if fcntl is None:
            raise OSError("this system has no file locks")
        with (self.folder / "lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield  # closing the file gives the lock back

    def _rewrite_journal(self) -> None:
        """Begin a journal, or leave out of it what is not to be trusted."""
        lines = [json.dumps(self._header), *(json.dumps(asdict(chunk)) for chunk in self._chunks)]
        written = self._journal_file.with_suffix(".new")
        written.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        written.replace(self._journal_file)
        if not self._chunks:
            # Other processes keep what they mapped: the files lose their names, not their contents.
            self._rows_file.unlink(missing_ok=True)
            self._keys_file.unlink(missing_ok=True)
        self._bad.clear()

    def _write(self, keys: Keys, rows: Rows) -> None:
        # Behind whatever lies there, vouched for or not, at the next whole row.
        start = -(-_size(self._rows_file) // (self.dim * 4))
        chunk = Chunk(start, len(rows), zlib.crc32(rows.data), zlib.crc32(keys.data))
        line = f"{json.dumps(asdict(chunk))}\n".encode()
        parts = (
            (self._rows_file, start * self.dim * 4, rows.data),
            (self._keys_file, start * KEY.itemsize, keys.data),
            (self._journal_file, _size(self._journal_file), line),
        )
        before = [(path, _size(path)) for path, _, _ in parts]
        try:
            for path, offset, data in parts:
                path.touch()
                with path.open("r+b") as file:
                    file.seek(offset)
                    file.write(data)
        except BaseException:
            for path, size in before:
                if path.exists():
                    os.truncate(path, size)  # nobody has mapped what lies behind the end of the last chunk
            raise
        self._chunks[chunk] = keys
        self._sound.add(chunk)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _touches(places: Places, chunk: Chunk) -> bool:
    return bool(((places >= chunk.start) & (places < chunk.stop)).any())


def _parse(line: bytes) -> Chunk | None:
    names = {field.name for field in fields(Chunk)}
    try:
        values = json.loads(line)
        is_chunk = set(values) == names and all(type(value) is int and value >= 0 for value in values.values())
    except (ValueError, TypeError):
        return None
    return Chunk(**values) if is_chunk and values["rows"] else None
