"""The run folder: who may write into it, and what it says of itself."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from gradate.errors import InputError

STATUS = "status.json"
RETRIEVAL_FOLDER = Path("predictions", "retrieval")
"""nDCG@10 of each query, a file for each set."""
OURS = ("status.json", "recipe.yaml", "resolved.yaml")


def open_run_folder(path: Path, *, resume: bool, overwrite: bool) -> Path:
    """Make or empty the folder of a run.

    Raises:
        InputError: the folder is in the way, cannot be made, or `--overwrite` would delete what is no run.
    """
    if resume and overwrite:
        raise InputError("--resume and --overwrite contradict each other", remedy="choose one")
    try:
        occupied = path.exists() and (not path.is_dir() or any(path.iterdir()))
        if occupied and overwrite:
            if not path.is_dir() or not any((path / name).exists() for name in OURS):
                raise InputError("is not empty and holds no run of gradate", where=path, remedy="choose another --out")
            shutil.rmtree(path)
        elif occupied and not resume:
            raise InputError("is not empty", where=path, remedy="choose another --out, or --resume or --overwrite it")
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=path, remedy="choose another --out") from None
    return path


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write JSON whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON; None where there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def write_status(path: Path, status: str, detail: str = "") -> None:
    """Say in the run folder what became of the run: running, finished, interrupted or failed."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    write_json(path / STATUS, {"status": status, "detail": detail, "time": now})
