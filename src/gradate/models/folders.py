"""Writing a model folder whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from gradate.errors import GradateError, InputError

MODEL_MARKER = "modules.json"


@contextmanager
def whole_folder(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """A draft folder to write into, which becomes `target` on leaving and vanishes if anything fails.

    Args:
        target: A folder that is missing, empty, or, with `overwrite`, an older model.
        overwrite: Replace the model that stands there. A folder that holds no model is never replaced.

    Raises:
        InputError: something is in the way.
        GradateError: the disk is full, or the place may not be written to.
    """
    _check_target(target, overwrite)
    draft = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside the target, so that the rename stays within one file system and is atomic.
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".draft", dir=target.parent))
        yield draft
        _open_up(draft)
        _replace(draft, target)
    except (OSError, SafetensorError) as error:
        raise GradateError(f"{target}: cannot be written, and is as it was before: {error}") from error
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)


def _check_target(target: Path, overwrite: bool) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise InputError("is a file, not a folder", where=target, remedy="name another folder")
    if not any(target.iterdir()):
        return
    if not overwrite:
        raise InputError("is not empty", where=target, remedy="name another folder, or pass overwrite=True")
    if not (target / MODEL_MARKER).is_file():
        raise InputError("is not empty and holds no model", where=target, remedy="only a model folder is replaced")


def _replace(draft: Path, target: Path) -> None:
    """Put `draft` in the place of `target`; two renames where a model stands there, as folders cannot be swapped."""
    if not target.exists() or not any(target.iterdir()):
        draft.replace(target)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
    target.rename(aside / "model")
    try:
        draft.replace(target)
    except OSError:
        (aside / "model").rename(target)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _open_up(draft: Path) -> None:
    """Give everything the usual rights: mkdtemp and safetensors write for the owner alone."""
    mask = os.umask(0)
    os.umask(mask)
    for path in (draft, *draft.rglob("*")):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)
