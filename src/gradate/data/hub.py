"""Data sets of the Hugging Face Hub, fetched once into its cache."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path

from huggingface_hub import constants, get_hf_file_metadata, hf_hub_download, hf_hub_url

from gradate.errors import GradateError, InputError

SENTEVAL_REPOSITORY = "princeton-nlp/datasets-for-simcse"
SENTEVAL_FILE = "senteval.tar"
NLI_REPOSITORY = "sentence-transformers/all-nli"
NLI_FILE = "pair-class/train-00000-of-00001.parquet"
_LAYOUT_DEPTH = 4


def download(repository: str, filename: str, *, remedy: str) -> Path:
    """Path of a file of a dataset repository in the Hub's cache, fetched if needed.

    Args:
        repository: Dataset repository, `owner/name`.
        filename: File in it.
        remedy: What to do without the Hub.

    Raises:
        InputError: the file is neither on a reachable Hub nor in the cache.
    """
    try:
        # One request without the retries of the download itself, so that an unreachable Hub is said at once.
        get_hf_file_metadata(hf_hub_url(repository, filename, repo_type="dataset"))
        return Path(hf_hub_download(repository, filename, repo_type="dataset"))
    except Exception as error:  # the client raises many unrelated types, and all have the same remedy
        try:
            return Path(hf_hub_download(repository, filename, repo_type="dataset", local_files_only=True))
        except Exception:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise InputError(
                f"cannot be fetched from the Hub and is not in its cache: {reason}",
                where=f"{repository}/{filename}",
                remedy=remedy,
            ) from None


def senteval_folder() -> Path:
    """Folder in SentEval's layout from the Hub's `senteval.tar`, unpacked once beside the Hub's cache.

    Raises:
        InputError: the archive cannot be fetched or is not what it should be.
        GradateError: it cannot be unpacked, for instance because the disk is full.
    """
    archive = download(
        SENTEVAL_REPOSITORY, SENTEVAL_FILE, remedy="pass a folder in SentEval's layout with --data FOLDER"
    )
    commit = archive.parent.name
    folder = Path(constants.HF_HOME) / "gradate" / f"senteval-{commit}"
    if not folder.is_dir():
        extract(archive, folder)
    for depth in range(_LAYOUT_DEPTH):
        for sts in sorted(folder.glob("/".join(["*"] * depth + ["STS"]))):
            if sts.is_dir():
                return sts.parent
    raise InputError("holds no STS folder", where=archive, remedy="pass a folder with --data FOLDER")


def extract(archive: Path, folder: Path) -> None:
    """Unpack a tar archive as a new folder, whole or not at all.

    Members that would land outside the folder, links that lead out of it and device files are refused.

    Raises:
        InputError: the archive is broken or unsafe.
        GradateError: the folder cannot be written.
    """
    temporary: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}."))
        with tarfile.open(archive) as tar:
            _unpack(tar, temporary)
        temporary.replace(folder)
    except tarfile.TarError as error:
        what = f"is no safe and whole tar archive: {error}"
        raise InputError(what, where=archive, remedy="fetch it again") from None
    except OSError as error:
        if not folder.is_dir():  # else another process was faster
            raise GradateError(f"{archive}: cannot be unpacked into {folder}: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _unpack(tar: tarfile.TarFile, folder: Path) -> None:
    if hasattr(tarfile, "data_filter"):
        tar.extractall(folder, filter="data")
        return
    # Python before 3.10.12 and 3.11.4 extracts whatever an archive says; there only plain files inside are taken.
    inside = folder.resolve()
    for member in tar:
        target = (inside / member.name).resolve()
        if not (member.isfile() or member.isdir()) or (target != inside and inside not in target.parents):
            raise tarfile.ExtractError(f"{member.name!r} is no file or folder inside it")
        tar.extract(member, inside, set_attrs=False)
