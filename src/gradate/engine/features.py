"""Features of a frozen encoder, kept on disk so that no text is encoded twice."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sentence_transformers import SentenceTransformer
from tqdm.auto import tqdm

from gradate.engine.batching import WINDOW
from gradate.engine.encoding import encode_distinct, without_normalize
from gradate.engine.fingerprint import NoFingerprintError, fingerprint
from gradate.engine.precision import Precision
from gradate.engine.row_store import KEY, Keys, Places, Rows, RowStore
from gradate.errors import InputError

VARIABLE = "GRADATE_CACHE"
SECONDS_AT_RISK = 30.0
"""About how much encoding an interruption may cost."""
MOST_WINDOWS = 8
"""Windows of texts after which features are written in any case: 100 MB at width 384."""


@dataclass(frozen=True)
class Features:
    """Features of a list of texts, as rows of a matrix that may hold those of other texts too.

    Args:
        embeddings: Rows, float32 (m, dim): a memory map of the cache, or an array where there is none.
        index: Row of `embeddings` for each text, int64 (n,).
        found: Distinct texts whose features were in the cache.
        encoded: Distinct texts that had to be encoded.
        notes: What came of the cache, in words, and what was wrong with it; the features are right in any case.
    """

    embeddings: Rows
    index: npt.NDArray[np.int64]
    found: int
    encoded: int
    notes: tuple[str, ...] = ()


def cache_folder() -> Path | None:
    """Where gradate caches: `GRADATE_CACHE` (`off`: nowhere), or `gradate` in `XDG_CACHE_HOME`, else `~/.cache`."""
    chosen = os.environ.get(VARIABLE, "").strip()
    if chosen.lower() == "off":
        return None
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gradate"


def folder_bytes(folder: Path) -> int:
    """Size of all files under a folder; 0 where there is none."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class FeatureCache:
    """Features of frozen encoders on disk, one folder for each fingerprint of an encoder, rows found by their text.

    Data sets share what is cached. Features are written as they are encoded, so an interrupted encoding goes on where
    it stopped; several processes may use one cache at once. A cache that was cut short, changed or written by another
    model is noticed and what it lacks is encoded again; one that cannot be written is done without. Features that are
    not finite are not kept.

    Args:
        folder: Where the cache lies; None: nothing is kept.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def encode(
        self,
        encoder: SentenceTransformer,
        texts: Sequence[str],
        *,
        precision: Precision,
        prompt: str | None = None,
        before_normalize: bool = False,
        show_progress: bool = False,
    ) -> Features:
        """Features of texts: those of `encode_distinct`, from the cache where they are there.

        Memory beyond the texts: 80 bytes per distinct text and what is encoded between two writes (at most 65,536
        rows); without a usable cache, all features.

        Args:
            encoder: The model, frozen while this runs.
            texts: Texts (n,), repeats allowed.
            precision: See `resolve_precision`.
            prompt: Text put before every text; None: the encoder's default prompt, if any.
            before_normalize: Stop before a trailing Normalize module, if there is one.
            show_progress: Show a progress bar on stderr while texts are encoded.

        Raises:
            InputError: one text instead of a list.
        """
        if isinstance(texts, str):
            raise InputError("expected a list of texts, got one text", remedy="wrap it in a list")
        view = without_normalize(encoder) if before_normalize else encoder
        first_seen: dict[str, int] = {}
        index = np.fromiter((first_seen.setdefault(text, len(first_seen)) for text in texts), np.int64, len(texts))
        notes: list[str] = []
        store = self._store(view, precision, prompt, notes) if len(texts) else None
        if store is None:
            encoded = encode_distinct(view, texts, precision=precision, prompt=prompt, show_progress=show_progress)
            return Features(encoded.embeddings, encoded.index, 0, len(encoded.embeddings), tuple(notes))
        filling = _Filling(store, list(first_seen), notes)
        count = len(filling.missing)
        with tqdm(total=filling.characters(), unit="char", unit_scale=True, disable=not show_progress) as bar:
            for positions in filling.portions():
                portion = [filling.texts[position] for position in positions]
                encoded = encode_distinct(view, portion, precision=precision, prompt=prompt)
                filling.keep(positions, encoded.embeddings)
                bar.update(sum(map(len, portion)))
        embeddings, places = filling.result()
        found = len(first_seen) - count
        notes.append(f"features: {found:,} texts from the cache, {count:,} encoded ({store.folder})")
        return Features(embeddings, places[index], found, count, tuple(notes))

    def _store(
        self, encoder: SentenceTransformer, precision: Precision, prompt: str | None, notes: list[str]
    ) -> RowStore | None:
        dim = encoder.get_embedding_dimension()
        if self.folder is None or dim is None:
            return None
        try:
            identity = fingerprint(encoder, precision, prompt)
        except NoFingerprintError as error:
            notes.append(f"features are not cached: {error}")
            return None
        return RowStore(self.folder / "features" / identity, identity, dim)


class _Filling:
    """The filling of a store with the texts of one call that it lacks."""

    def __init__(self, store: RowStore, texts: list[str], notes: list[str]) -> None:
        self.store, self.texts, self.notes = store, texts, notes
        self.name = f"the feature cache {store.folder}"
        self.keys = _keys(texts)
        self.aside: list[tuple[Places, Rows]] = []
        """Positions and features of texts that could not be stored."""
        self.is_usable = True
        self.places, self.stored = self._find()
        # Sorted, so that batches, and with them the last bits, do not depend on the order of the texts.
        self.missing = np.array(sorted(np.flatnonzero(self.places < 0), key=texts.__getitem__), dtype=np.int64)

    def characters(self) -> int:
        """Length of all missing texts."""
        return sum(len(self.texts[position]) for position in self.missing)

    def portions(self) -> Iterator[Places]:
        """Positions of texts to encode, as many at a time as take about `SECONDS_AT_RISK`."""
        windows, done = 1, 0
        while done < len(self.missing):
            started = time.monotonic()
            yield self.missing[done : done + windows * WINDOW]
            done += windows * WINDOW
            share = SECONDS_AT_RISK / max(time.monotonic() - started, 1e-3)
            windows = int(min(max(windows * share, 1), MOST_WINDOWS))
        self.places, self.stored = self._find()
        is_there = np.zeros(len(self.texts), dtype=bool)
        is_there[self.places >= 0] = True
        for positions, _ in self.aside:
            is_there[positions] = True
        if not is_there.all():
            # Somebody emptied the cache meanwhile.
            self.is_usable = False
            yield np.flatnonzero(~is_there)

    def keep(self, positions: Places, rows: Rows) -> None:
        """Store the features of some texts, or put them aside."""
        sound = np.full(len(rows), self.is_usable)
        sound &= np.isfinite(rows).all(axis=1)
        try:
            if sound.any():
                self.store.append(self.keys[positions[sound]], rows[sound])
        except OSError as error:
            self._give_up("written", error)
            sound[:] = False
        if not sound.all():
            self.aside.append((positions[~sound], rows[~sound]))

    def result(self) -> tuple[Rows, Places]:
        """A matrix and the row of each text in it: the store itself, or an array where not everything is in there."""
        if self.store.emptied is not None:
            self.notes.append(f"{self.name} was begun again: {self.store.emptied}")
        elif self.store.damaged:
            self.notes.append(f"{self.name} was cut short or changed; what is sound of it is kept")
        if not self.aside:
            return self.stored, self.places
        rows = np.empty((len(self.texts), self.store.dim), dtype=np.float32)
        is_stored = self.places >= 0
        rows[is_stored] = self.stored[self.places[is_stored]]
        for positions, features in self.aside:
            rows[positions] = features
        return rows, np.arange(len(self.texts))

    def _find(self) -> tuple[Places, Rows]:
        try:
            return self.store.find(self.keys), self.store.map()
        except OSError as error:
            self._give_up("read", error)
            return np.full(len(self.texts), -1), np.empty((0, self.store.dim), dtype=np.float32)

    def _give_up(self, done: str, error: OSError) -> None:
        if self.is_usable:
            self.notes.append(f"{self.name} cannot be {done} ({error.strerror or error}): going on without it")
        self.is_usable = False


def _keys(texts: Sequence[str]) -> Keys:
    digests = (hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype=KEY)
