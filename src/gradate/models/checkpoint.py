"""A checkpoint: the weights of a model folder as named tensors, read where they lie, a block of rows at a time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType
from typing import Any, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gradate.errors import InputError
from gradate.models.head import HEAD_FOLDER
from gradate.models.loading import OTHER_BACKENDS, PICKLE_SUFFIXES

BLOCK = 1 << 18
"""Numbers of a tensor read at once: bounds the memory of any number of checkpoints side by side."""

Block: TypeAlias = slice | EllipsisType


@dataclass(frozen=True, eq=False)
class Stored:
    """A tensor in its file.

    Args:
        file: The file, relative to the model folder.
        key: The tensor's name in that file.
        shape: Its shape.
        dtype: Its number format.
        slices: What safetensors reads parts of it by.
    """

    file: Path
    key: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    slices: Any

    def blocks(self) -> Iterator[Block]:
        """Where consecutive blocks lie: rows of `BLOCK` numbers at most, but one row at least."""
        if not self.shape:
            yield ...
            return
        rows, *rest = self.shape
        step = max(1, BLOCK // max(1, torch.Size(rest).numel()))
        for start in range(0, rows, step):
            yield slice(start, start + step)


class Checkpoint:
    """Weights of a model folder, none of which is read before it is asked for; the pair head is left aside.

    Args:
        folder: A model folder with safetensors, or the folder of a pair head.
        name: What to call it in messages.

    Attributes:
        tensors: Every tensor by its name, which starts with its module's folder.

    Raises:
        InputError: no weights, a broken file, or two files with the same tensor.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.tensors: dict[str, Stored] = {}
        for path in sorted(folder.rglob("*.safetensors")):
            file = path.relative_to(folder)
            if HEAD_FOLDER not in file.parts:
                self._add(file)
        if not self.tensors:
            raise InputError("holds no weights in safetensors", where=name, remedy="name a trained model")

    def read(self, tensor: str, block: Block) -> Tensor:
        """A block of a tensor in double precision.

        Raises:
            InputError: it holds NaN or an infinity.
        """
        values: Tensor = self.tensors[tensor].slices[block].double()
        if not values.isfinite().all():
            what = f"the tensor {tensor} holds NaN or an infinity"
            raise InputError(what, where=self.name, remedy="take a checkpoint from before it diverged")
        return values

    def copy_frame(self, folder: Path) -> None:
        """Copy what is no weights and no pair head: tokenizer, modules, prompts."""
        other_weights = [pattern.removesuffix("/*") for pattern in OTHER_BACKENDS]
        pickles = [f"*{suffix}" for suffix in PICKLE_SUFFIXES]
        leave = shutil.ignore_patterns("*.safetensors", HEAD_FOLDER, *other_weights, *pickles, ".*")
        shutil.copytree(self.folder, folder, ignore=leave, dirs_exist_ok=True)

    def _add(self, file: Path) -> None:
        try:
            opened = safe_open(self.folder / file, framework="pt")
        except (SafetensorError, OSError) as error:
            what = f"{file} cannot be read as safetensors: {error}"
            raise InputError(what, where=self.name, remedy="restore the folder from its source") from error
        for key in opened.keys():  # type: ignore[no-untyped-call]
            name = (file.parent / key).as_posix()
            if name in self.tensors:
                what = f"the tensor {name} stands in {self.tensors[name].file} and in {file}"
                raise InputError(what, where=self.name, remedy="delete the file that is not in use")
            slices = opened.get_slice(key)  # type: ignore[no-untyped-call]
            shape = tuple(slices.get_shape())
            dtype = slices[:0].dtype if shape else slices[...].dtype
            self.tensors[name] = Stored(file, key, shape, dtype, slices)
