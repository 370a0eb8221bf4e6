"""The graded model: an encoder, a pair head and the scale its predictions lie on."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from huggingface_hub import HfApi
from sentence_transformers import SentenceTransformer

from gradate.engine.encoding import PAIR_CHUNK, Encoded, count_truncated, encode_distinct, pair_cosines
from gradate.engine.precision import PrecisionName
from gradate.errors import InputError, MissingHeadError
from gradate.models.adapters import has_adapters, merge_adapters
from gradate.models.backends import encoder_precision
from gradate.models.folders import whole_folder
from gradate.models.head import HEAD_FOLDER, PairHead
from gradate.models.loading import find_pickles, open_encoder, quiet_progress, resolve_model
from gradate.scale import LabelScale

Array = npt.NDArray[np.float64]


class TextPairs(Protocol):
    """Anything with two columns of texts of the same length, such as `gradate.data.examples.Pairs`."""

    @property
    def text1(self) -> Sequence[str]:
        """First texts."""

    @property
    def text2(self) -> Sequence[str]:
        """Second texts."""


PairsLike = TextPairs | Sequence[tuple[str, str]]


@dataclass(frozen=True)
class PairScores:
    """What a model says about pairs.

    Args:
        similarity: Cosines (n,); 0 where an embedding is the zero vector, as in sentence-transformers.
        undefined: How many cosines are such zeros.
        prediction: Grade values (n,), not clipped to the scale; None without a pair head.
        truncated: How many distinct texts are longer than the encoder reads.
    """

    similarity: Array
    undefined: int
    prediction: Array | None
    truncated: int = 0


class GradedModel:
    """Encoder + optional pair head + optional scale; saved as one folder that plain sentence-transformers opens.

    Without a head `encode` and `similarity` work, and `predict` and `classify` raise `MissingHeadError`.

    Args:
        encoder: A sentence-transformers model.
        head: A pair head of the encoder's width; moved to the encoder's device.
        scale: The scale the head predicts on; a head with K outputs needs one with K grades.
        objective: What the head was trained with, as plain JSON; stored, not interpreted.
        precision: `auto`, `fp32`, `tf32` or `bf16` for every forward pass of this object.
        name: What to call the model in messages.

    Raises:
        InputError: the head does not fit the encoder or the scale.
    """

    def __init__(
        self,
        encoder: SentenceTransformer,
        head: PairHead | None = None,
        scale: LabelScale | None = None,
        objective: dict[str, Any] | None = None,
        *,
        precision: PrecisionName | str = "auto",
        name: str = "model",
    ) -> None:
        dim = encoder.get_embedding_dimension()
        if head is not None and dim is not None and head.dim != dim:
            raise InputError(
                f"the pair head reads embeddings of width {head.dim}, the encoder's have width {dim}",
                where=name,
                remedy="restore the encoder it was fitted on, or delete graded_head and run: gradate train two-stage",
            )
        grades = len(scale.values) if scale is not None and scale.values is not None else None
        if head is not None and head.outputs > 1 and head.outputs != grades:
            raise InputError(
                f"a head with {head.outputs} outputs needs a scale with {head.outputs} grades, got {scale}", where=name
            )
        self.encoder = encoder
        self.head = head.to(encoder.device) if head is not None else None
        self.scale = scale
        self.objective = objective
        self.name = name
        self.precision = encoder_precision(precision, encoder)

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        device: str | None = None,
        precision: PrecisionName | str = "auto",
        revision: str | None = None,
        truncate_dim: int | None = None,
        trust_remote_code: bool = False,
    ) -> GradedModel:
        """Open `bundled`, a local folder or a model of the Hub; local folders never touch the network.

        Args:
            name: See `gradate.models.loading.resolve_model`.
            device: `cpu`, `cuda:0`, …; None chooses.
            precision: `auto`, `fp32`, `tf32` or `bf16`.
            revision: Branch, tag or commit on the Hub.
            truncate_dim: Cut embeddings off at this width (Matryoshka); a head, which reads the whole, is left out.
            trust_remote_code: Run Python code that comes with the model.

        Raises:
            InputError: no such model, one that cannot be opened safely, or a width that its embeddings do not have.
        """
        folder = resolve_model(name, revision=revision)
        encoder = open_encoder(folder, device=device, trust_remote_code=trust_remote_code, name=str(name))
        if truncate_dim is not None:
            width = encoder.get_embedding_dimension()
            if truncate_dim < 1 or (width is not None and truncate_dim > width):
                what = f"its embeddings have {width} numbers, not {truncate_dim}"
                raise InputError(what, where=name, remedy=f"ask for 1 to {width}")
            encoder.truncate_dim = truncate_dim
        head, scale, objective = None, None, None
        if truncate_dim is None and (folder / HEAD_FOLDER).is_dir():
            head, scale, objective = PairHead.load(folder / HEAD_FOLDER)
        return cls(encoder, head, scale, objective, precision=precision, name=str(name))

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        normalize_embeddings: bool = False,
        convert_to_tensor: bool = False,
        show_progress_bar: bool = False,
    ) -> npt.NDArray[np.float32] | torch.Tensor:
        """What `SentenceTransformer.encode` returns: (dim,) for one text, (n, dim) for a list.

        Args:
            texts: One text or several.
            prompt_name: Name of one of the encoder's prompts.
            prompt: The prompt itself; takes precedence over `prompt_name`.
            batch_size: Texts per forward pass at most; None: as many as a token budget holds.
            normalize_embeddings: Scale every embedding to length 1.
            convert_to_tensor: Return a tensor on the model's device instead of an array.
            show_progress_bar: Show a progress bar on stderr.
        """
        single = isinstance(texts, str)
        encoded = encode_distinct(
            self.encoder,
            [texts] if isinstance(texts, str) else list(texts),
            precision=self.precision,
            batch_size=batch_size,
            prompt_name=prompt_name,
            prompt=prompt,
            show_progress=show_progress_bar,
        )
        rows = encoded.embeddings[encoded.index]
        # No texts have no dimension there either.
        embeddings = torch.from_numpy(rows if len(rows) else rows.reshape(0))
        if normalize_embeddings:
            embeddings = torch.nn.functional.normalize(embeddings, dim=-1)
        embeddings = embeddings[0] if single else embeddings
        return embeddings.to(self.encoder.device) if convert_to_tensor else embeddings.numpy()

    def score(self, pairs: PairsLike, *, batch_size: int | None = None, show_progress: bool = False) -> PairScores:
        """Cosines and, where there is a head, unclipped predictions, from one pass over the distinct texts.

        Args:
            pairs: `Pairs`, or a sequence of (text, text).
            batch_size: Texts per forward pass at most; None: as many as a token budget holds.
            show_progress: Show a progress bar on stderr.
        """
        left, right = _columns(pairs)
        n = len(left)
        encoded = encode_distinct(
            self.encoder,
            [*left, *right],
            precision=self.precision,
            batch_size=batch_size,
            show_progress=show_progress,
            before_normalize=self.head is not None and self.head.features == "raw",
        )
        similarity = pair_cosines(encoded.embeddings, encoded.index[:n], encoded.index[n:])
        empty = np.asarray(~encoded.embeddings.any(axis=1))
        undefined = empty[encoded.index[:n]] | empty[encoded.index[n:]]
        similarity[undefined] = 0.0
        prediction = self._read_head(encoded) if self.head else None
        return PairScores(similarity, int(undefined.sum()), prediction, count_truncated(self.encoder, [*left, *right]))

    def similarity(self, pairs: PairsLike, *, batch_size: int | None = None) -> Array:
        """Cosines (n,) of the pairs; see `PairScores.similarity`."""
        return self.score(pairs, batch_size=batch_size).similarity

    def predict(self, pairs: PairsLike, *, clip: bool = True, batch_size: int | None = None) -> Array:
        """Grade values (n,) on the scale; the value of the likeliest grade where the head is a classifier.

        Args:
            pairs: `Pairs`, or a sequence of (text, text).
            clip: Move predictions beyond an end of the scale to that end. Correlations want False; so does counting
                the clipped ones: `scale.clamp(p) != p`.
            batch_size: Texts per forward pass at most; None: as many as a token budget holds.

        Raises:
            MissingHeadError: the model has no pair head.
        """
        _, scale = self._need_head()
        prediction = self.score(pairs, batch_size=batch_size).prediction
        assert prediction is not None
        return np.asarray(scale.clamp(prediction)) if clip else prediction

    def classify(self, pairs: PairsLike, *, batch_size: int | None = None) -> list[str | float]:
        """Nearest grade of every pair: its name, or its value where the scale has no names.

        Raises:
            MissingHeadError: the model has no pair head.
            InputError: the scale is continuous.
        """
        _, scale = self._need_head()
        scale.index([])
        return scale.classify(self.predict(pairs, batch_size=batch_size))

    def save(self, path: Path | str, card: str | None = None, *, overwrite: bool = False) -> Path:
        """Write the model as one folder, whole or not at all; PEFT adapters are merged into the written weights.

        Args:
            path: The folder. It may exist only if it is empty, or with `overwrite`.
            card: Text of `README.md`; a short one is written by default.
            overwrite: Replace a model folder that stands there.

        Raises:
            InputError: the folder is in the way, or a module of the encoder saves pickles.
            GradateError: the disk is full, or the place may not be written to; nothing is changed then.
        """
        target = Path(path).expanduser().resolve()
        with whole_folder(target, overwrite=overwrite) as draft:
            self._write(draft, card)
        return target

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = False,
        commit_message: str = "Add a model tuned with gradate",
        token: str | None = None,
        card: str | None = None,
    ) -> str:
        """Upload the model, head included, to the Hub (or to `HF_ENDPOINT`); returns the repository's address.

        Args:
            repo_id: `owner/model`; made if it does not exist.
            private: Make a new repository private.
            commit_message: First line of the commit.
            token: Hub token; by default the one you logged in with.
            card: Text of `README.md`; a short one is written by default.

        Raises:
            InputError: the Hub refused or cannot be reached.
        """
        api = HfApi(token=token)
        with tempfile.TemporaryDirectory() as temporary:
            folder = self.save(Path(temporary) / "model", card)
            try:
                url = api.create_repo(repo_id, private=private, exist_ok=True)
                api.upload_folder(repo_id=url.repo_id, folder_path=folder, commit_message=commit_message)
            except Exception as error:
                raise InputError(
                    f"the Hub ({api.endpoint}) did not take the model: {' '.join(str(error).split())[:300]}",
                    where=repo_id,
                    remedy="check the name, the connection and the token (hf auth login, or HF_TOKEN)",
                ) from error
        return str(url)

    def _need_head(self) -> tuple[PairHead, LabelScale]:
        if self.head is None:
            remedy = "fit one with: gradate train two-stage --pairs FILE --out DIR"
            raise MissingHeadError("has no pair head, so it predicts no grades", where=self.name, remedy=remedy)
        if self.scale is None:
            raise MissingHeadError(
                "has a pair head without a scale",
                where=self.name,
                remedy="pass scale=, or fit a head with: gradate train two-stage",
            )
        return self.head, self.scale

    @torch.no_grad()
    def _read_head(self, encoded: Encoded) -> Array:
        head = self.head
        assert head is not None
        device = head.linear.weight.device
        left, right = np.split(encoded.index, 2)
        outputs = []
        for start in range(0, len(left), PAIR_CHUNK):
            u = torch.from_numpy(encoded.embeddings[left[start : start + PAIR_CHUNK]])
            v = torch.from_numpy(encoded.embeddings[right[start : start + PAIR_CHUNK]])
            output = head(u.to(device), v.to(device))
            outputs.append((output if head.outputs == 1 else output.argmax(dim=1)).cpu().numpy())
        joined = np.concatenate(outputs) if outputs else np.zeros(0)
        if head.outputs == 1:
            return joined.astype(np.float64)
        assert self.scale is not None and self.scale.values is not None
        return np.asarray(self.scale.values)[joined.astype(np.int64)]

    def _write(self, folder: Path, card: str | None) -> None:
        encoder = self.encoder
        if has_adapters(encoder):
            encoder = copy.deepcopy(encoder)
            merge_adapters(encoder)
        with quiet_progress():
            # Its own card would ask the Hub about the base model.
            encoder.save_pretrained(str(folder), create_model_card=False, safe_serialization=True)
        if self.head is not None:
            self.head.save(folder / HEAD_FOLDER, self.scale, self.objective)
        (folder / "README.md").write_text(card if card is not None else self._short_card(), encoding="utf-8")
        if pickles := find_pickles(folder):
            names = ", ".join(str(file.relative_to(folder)) for file in pickles)
            raise InputError(f"a module of this encoder saves pickles ({names})", where=self.name)

    def _short_card(self) -> str:
        about = f"predicts grades on the scale {self.scale}" if self.head is not None else "has no pair head"
        return (
            "---\nlibrary_name: sentence-transformers\npipeline_tag: sentence-similarity\n"
            "tags:\n- sentence-transformers\n- sentence-similarity\n- gradate\n---\n\n"
            f"# Sentence embeddings tuned on graded pairs\n\nThis model {about}.\n\n```python\n"
            "from sentence_transformers import SentenceTransformer\n\n"
            'SentenceTransformer("PATH").encode(["a text"])          # embeddings, without gradate\n\n'
            "from gradate import GradedModel\n\n"
            'GradedModel.from_pretrained("PATH").predict([("a text", "another")])\n```\n'
        )


def _columns(pairs: PairsLike) -> tuple[list[str], list[str]]:
    if hasattr(pairs, "text1") and hasattr(pairs, "text2"):
        return list(pairs.text1), list(pairs.text2)
    left, right = [], []
    for position, pair in enumerate(pairs):
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise InputError(f"expected pairs of two texts, got {pair!r}", where=f"pairs[{position}]")
        left.append(pair[0])
        right.append(pair[1])
    return left, right
