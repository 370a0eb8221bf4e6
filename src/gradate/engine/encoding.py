"""Encoding texts, each distinct one once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize
from sentence_transformers.util import batch_to_device, truncate_embeddings
from torch import nn
from tqdm.auto import tqdm

from gradate.engine.acceleration import accelerated
from gradate.engine.batching import TOKENS_ON_CPU, TOKENS_ON_GPU, WINDOW, Rows, Window, token_batches
from gradate.engine.modes import kept_mode
from gradate.engine.precision import Precision
from gradate.errors import InputError

PAIR_CHUNK = 16_384


@dataclass(frozen=True)
class Encoded:
    """Embeddings of the distinct texts of a list, and where each text of the list finds its own.

    Args:
        embeddings: One row per distinct text, in first-seen order, float32 (m, dim).
        index: Row of `embeddings` for each text, int64 (n,).
    """

    embeddings: npt.NDArray[np.float32]
    index: npt.NDArray[np.int64]


def encode_distinct(
    encoder: SentenceTransformer,
    texts: Sequence[str],
    *,
    precision: Precision,
    batch_size: int | None = None,
    prompt_name: str | None = None,
    prompt: str | None = None,
    show_progress: bool = False,
    before_normalize: bool = False,
) -> Encoded:
    """Encode each distinct text once, in evaluation mode and without gradients.

    Texts are tokenised by the window (of 8,192) while the window before is computed, sorted by tokens, and passed in
    batches of a token budget, on a CPU packed without padding and one batch per core. Memory beyond the result: the
    activations of one batch a core, and two windows of token numbers.

    Args:
        encoder: The model; its training or evaluation mode is left as it was.
        texts: Texts (n,), repeats allowed; one without a single token gets the zero vector.
        precision: See `resolve_precision`.
        batch_size: Texts per forward pass at most; None: as many as the token budget holds.
        prompt_name: Name of a prompt of the encoder to put before every text.
        prompt: The prompt itself; takes precedence over `prompt_name`.
        show_progress: Show a progress bar on stderr, in characters, whose estimate holds for texts of any length.
        before_normalize: Stop before a trailing Normalize module, if there is one.

    Raises:
        InputError: one text instead of a list, or an unknown prompt name.
    """
    if isinstance(texts, str):
        raise InputError("expected a list of texts, got one text", remedy="wrap it in a list")
    rows: dict[str, int] = {}
    index = np.fromiter((rows.setdefault(text, len(rows)) for text in texts), dtype=np.int64, count=len(texts))
    if not rows:
        return Encoded(np.zeros((0, encoder.get_embedding_dimension() or 0), dtype=np.float32), index)
    view = without_normalize(encoder) if before_normalize else encoder
    # Sorted, so that batches, and with them the last bits, do not depend on the order of the texts.
    distinct = sorted(rows)
    place = np.fromiter((rows[text] for text in distinct), dtype=np.int64, count=len(rows))
    embeddings: npt.NDArray[np.float32] | None = None
    with (
        kept_mode(encoder),
        torch.no_grad(),
        accelerated(view, precision),
        tqdm(total=sum(map(len, distinct)), unit="char", unit_scale=True, disable=not show_progress) as bar,
    ):
        view.eval()
        for positions, values in _encode_windows(
            view, distinct, precision, _prompt(encoder, prompt, prompt_name), batch_size
        ):
            if embeddings is None:
                embeddings = np.empty((len(rows), values.shape[1]), dtype=np.float32)
            embeddings[place[positions]] = values
            bar.update(sum(len(distinct[position]) for position in positions))
    assert embeddings is not None
    return Encoded(embeddings, index)


def _prompt(encoder: SentenceTransformer, prompt: str | None, name: str | None) -> str | None:
    """The prompt that sentence-transformers' `encode` would take."""
    if prompt is None and name is not None and name not in encoder.prompts:
        raise InputError(
            f"unknown prompt {name!r}", where="prompt_name", remedy=f"one of {', '.join(encoder.prompts)}"
        )
    name = name or encoder.default_prompt_name
    return prompt if prompt is not None or name is None else encoder.prompts.get(name)


Embedded = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]


def _encode_windows(
    encoder: SentenceTransformer, texts: Sequence[str], precision: Precision, prompt: str | None, most: int | None
) -> Iterator[Embedded]:
    """Embeddings batch by batch: positions in `texts`, and their rows."""
    on_cpu = encoder.device.type == "cpu"
    budget = TOKENS_ON_CPU if on_cpu else TOKENS_ON_GPU
    workers = torch.get_num_threads() if on_cpu else 1

    def embed(window: Window, rows: Rows) -> npt.NDArray[np.float32]:
        features = batch_to_device(window.batch(rows), encoder.device)
        with torch.no_grad(), precision.autocast(encoder.device.type):
            embedding = encoder(features)["sentence_embedding"]
        return np.asarray(truncate_embeddings(embedding, encoder.truncate_dim).float().cpu().numpy())

    # One batch a core, each on one thread, keeps cores busier than all cores on one batch: nobody waits for anybody.
    with _single_threaded(workers) as pool:
        waiting: deque[tuple[npt.NDArray[np.int64], Future[npt.NDArray[np.float32]]]] = deque()
        for start in range(0, len(texts), WINDOW):
            part = texts[start : start + WINDOW]
            window = Window.of(encoder, part, prompt)
            if window is None:
                yield np.arange(start, start + len(part)), _encode_plainly(encoder, part, precision, prompt, most)
                continue
            empty = np.flatnonzero(window.lengths == 0)
            if len(empty):
                yield start + empty, np.zeros((len(empty), encoder.get_embedding_dimension() or 0), dtype=np.float32)
            read = np.flatnonzero(window.lengths)
            batches = [read[rows] for rows in token_batches(window.lengths[read], budget, most)]
            if pool is None or len(batches) < workers:
                yield from ((start + rows, embed(window, rows)) for rows in batches)
                continue
            # The window before is still being computed while this one was tokenised.
            while waiting:
                positions, future = waiting.popleft()
                yield positions, future.result()
            waiting.extend((start + rows, pool.submit(embed, window, rows)) for rows in batches)
        while waiting:
            positions, future = waiting.popleft()
            yield positions, future.result()


@contextmanager
def _single_threaded(workers: int) -> Iterator[ThreadPoolExecutor | None]:
    """Workers that each compute on one thread; None where there is one core."""
    if workers < 2:
        yield None
        return
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool
    finally:
        # After an error or Ctrl-C the batches not begun must not hold up the exit.
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(workers)


def _encode_plainly(
    encoder: SentenceTransformer, texts: Sequence[str], precision: Precision, prompt: str | None, most: int | None
) -> npt.NDArray[np.float32]:
    """sentence-transformers' own way, for encoders that do not read rows of tokens."""
    with precision.autocast(encoder.device.type):
        embedding = encoder.encode(
            list(texts), batch_size=most or 64, prompt=prompt, show_progress_bar=False, convert_to_tensor=True
        )
    return np.asarray(embedding.float().cpu().numpy())


def trailing_normalize(encoder: SentenceTransformer) -> Normalize | None:
    """The Normalize module the encoder ends in, or None."""
    modules = list(encoder.children())
    last = modules[-1] if modules else None
    return last if isinstance(last, Normalize) else None


def without_normalize(encoder: SentenceTransformer) -> SentenceTransformer:
    """The encoder up to a trailing Normalize module: a view that shares its modules and weights, or the encoder."""
    if trailing_normalize(encoder) is None:
        return encoder
    modules: list[nn.Module] = list(encoder.children())[:-1]
    return SentenceTransformer(
        modules=modules,
        device=str(encoder.device),
        prompts={name: prompt for name, prompt in encoder.prompts.items() if prompt is not None},
        default_prompt_name=encoder.default_prompt_name,
        truncate_dim=encoder.truncate_dim,
        local_files_only=True,
    )


def count_truncated(encoder: SentenceTransformer, texts: Sequence[str]) -> int:
    """Number of distinct texts that are longer than the encoder reads, and so lose their end.

    Args:
        encoder: A model with a tokenizer; one without a limit truncates nothing.
        texts: Texts (n,), repeats allowed.
    """
    limit = encoder.max_seq_length
    if limit is None or not hasattr(encoder.tokenizer, "model_max_length"):
        return 0
    # A token covers at least one byte, or the space that some tokenizers put before a text, so a text of fewer bytes
    # than tokens allowed needs no tokenizer.
    most = limit - encoder.tokenizer.num_special_tokens_to_add() - 1
    candidates = [text for text in dict.fromkeys(texts) if len(text.encode()) > most]
    if not candidates:
        return 0
    tokens = encoder.tokenizer(candidates, truncation=False, padding=False, verbose=False)["input_ids"]
    return sum(len(ids) > limit for ids in tokens)


def pair_cosines(
    embeddings: npt.NDArray[np.float32], left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Cosines of pairs of rows, in double precision.

    Args:
        embeddings: Rows (m, dim), of any length.
        left: Row of each pair's first text (n,).
        right: Row of each pair's second text (n,).

    Returns:
        Cosines (n,), NaN where a row is zero.

    >>> pair_cosines(np.float32([[3, 4], [4, 3], [0, 0]]), np.array([0, 0]), np.array([1, 2])).round(2).tolist()
    [0.96, nan]
    """
    cosines = np.empty(len(left), dtype=np.float64)
    for start in range(0, len(left), PAIR_CHUNK):
        chunk = slice(start, start + PAIR_CHUNK)
        u, v = embeddings[left[chunk]].astype(np.float64), embeddings[right[chunk]].astype(np.float64)
        lengths = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
        dots = np.einsum("nd,nd->n", u, v)
        cosines[chunk] = np.divide(dots, lengths, out=np.full(len(dots), np.nan), where=lengths > 0)
    return np.clip(cosines, -1.0, 1.0)
