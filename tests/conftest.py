"""Fixtures for a cache apart from the user's, and for real data, which is read where it lies and never copied."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

if "GRADATE_TEST_GPU" not in os.environ:
    # What holds to the last bit holds on the CPU; a GPU's own tests are `make test-gpu`.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of the tests' own, so that no run of theirs touches the user's."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADATE_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real data: `GRADATE_TEST_DATA`, else `shared/data` beside the repository."""
    repository = Path(__file__).resolve().parents[1]
    folder = Path(os.environ.get("GRADATE_TEST_DATA") or repository.parent / "shared" / "data")
    if not (folder / "raw.tar.xz").is_file():
        pytest.skip(f"real data is not at {folder}; set GRADATE_TEST_DATA to the folder that holds raw.tar.xz")
    return folder


@pytest.fixture(scope="session")
def raw_data(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The official STS and SICK files in original case, in SentEval's layout."""
    return unpack(shared_data / "raw.tar.xz", tmp_path_factory.mktemp("raw")) / "raw"


def unpack(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        # Python before 3.10.12 and 3.11.4 has no filters.
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return folder
