from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from gradate.data.hub import download, extract, senteval_folder
from gradate.errors import GradateError, InputError
from tests.hub_download import FakeHub, use_hub

REPOSITORY = "princeton-nlp/datasets-for-simcse"
LOAD = """
import warnings
from gradate.data.benchmarks import load_seven_sts
from gradate.data.locations import DataLocations
warnings.simplefilter("ignore")
print(sum(len(task) for task in load_seven_sts(DataLocations()).tasks.values()))
"""


def _tar(*members: tuple[str, bytes], link: str | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        if link is not None:
            info = tarfile.TarInfo("STS/link")
            info.type, info.linkname = tarfile.SYMTYPE, link
            tar.addfile(info)
    return buffer.getvalue()


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("prefix", ["", "senteval/data/downstream/"])
def test_the_archive_is_fetched_and_unpacked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    archive = _tar((f"{prefix}STS/a.txt", b"a"), (f"{prefix}SICK/b.txt", b"b"))
    with FakeHub({f"datasets/{REPOSITORY}": {"senteval.tar": archive}}) as hub:
        use_hub(monkeypatch, hub.endpoint, tmp_path)
        folder = senteval_folder()
        assert (folder / "STS" / "a.txt").read_bytes() == b"a" and (folder / "SICK").is_dir()
        assert folder.is_relative_to(tmp_path)
        (folder / "STS" / "a.txt").write_bytes(b"seen")
        assert (senteval_folder() / "STS" / "a.txt").read_bytes() == b"seen"
        gets = [request for request in hub.requests if request.startswith("GET ") and "resolve" in request]
        assert gets == [f"GET /datasets/{REPOSITORY}/resolve/main/senteval.tar"]
    assert (senteval_folder() / "STS" / "a.txt").read_bytes() == b"seen"  # the Hub is gone, the cache is not


def test_without_a_hub_one_line_says_what_to_pass_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_hub(monkeypatch, "http://127.0.0.1:9", tmp_path)
    start = time.perf_counter()
    with pytest.raises(InputError, match=rf"{REPOSITORY}/senteval\.tar: cannot be fetched .*--data FOLDER") as caught:
        senteval_folder()
    assert time.perf_counter() - start < 5 and "\n" not in str(caught.value)


def test_offline_mode_and_missing_files_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeHub({f"datasets/{REPOSITORY}": {}}) as hub:
        use_hub(monkeypatch, hub.endpoint, tmp_path)
        for repository, file in ((REPOSITORY, "senteval.tar"), ("no/where", "x.parquet")):
            with pytest.raises(InputError, match=r"is not in its cache: .*\(do this\)"):
                download(repository, file, remedy="do this")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        before = len(hub.requests)
        with pytest.raises(InputError, match="do this"):
            download(REPOSITORY, "senteval.tar", remedy="do this")
        assert len(hub.requests) == before


def test_an_archive_without_the_layout_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeHub({f"datasets/{REPOSITORY}": {"senteval.tar": _tar(("README", b"x"))}}) as hub:
        use_hub(monkeypatch, hub.endpoint, tmp_path)
        with pytest.raises(InputError, match="holds no STS folder"):
            senteval_folder()


@pytest.mark.parametrize(
    "archive",
    [
        _tar(("STS/a", b"a"), ("../outside", b"x")),
        _tar(("STS/a", b"a"), link="../../outside"),
        _tar(("STS/a", b"a" * 9000))[:5000],
        b"no archive",
    ],
)
@pytest.mark.parametrize("filters", [True, False])
def test_unsafe_and_broken_archives_leave_nothing_behind(
    tmp_path: Path, archive: bytes, filters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    target = tmp_path / "target" / "folder"
    with pytest.raises(InputError, match="is no safe and whole tar archive"):
        extract(_write(tmp_path / "a.tar", archive), target)
    assert not target.exists() and list(target.parent.iterdir()) == []
    assert not (tmp_path / "target" / "outside").exists() and not (tmp_path / "outside").exists()


def test_a_python_without_filters_unpacks_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = _write(tmp_path / "a.tar", _tar(("STS/a", b"a"), ("./STS/b/c", b"c")))
    extract(archive, tmp_path / "with")
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    extract(archive, tmp_path / "without")
    for folder in ("with", "without"):
        files = [file for file in (tmp_path / folder).rglob("*") if file.is_file()]
        found = {file.relative_to(tmp_path / folder).as_posix(): file.read_bytes() for file in files}
        assert found == {"STS/a": b"a", "STS/b/c": b"c"}


def test_a_folder_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    archive = _write(tmp_path / "a.tar", _tar(("STS/a", b"a")))
    with pytest.raises(GradateError, match="cannot be unpacked into") as caught:
        extract(archive, _write(tmp_path / "file", b"") / "folder")
    assert caught.value.exit_code == 1


def test_a_process_of_its_own_reads_hf_endpoint(layout: Path, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(layout, arcname=".")
    with FakeHub({f"datasets/{REPOSITORY}": {"senteval.tar": buffer.getvalue()}}) as hub:
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "GRADATE_"))}
        environ |= {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", LOAD], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.strip() == "18850", done.stderr
