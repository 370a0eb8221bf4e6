from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradate.data.locations import DataLocations
from gradate.errors import InputError


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    (tmp_path / "raw" / "STS").mkdir(parents=True)
    (tmp_path / "raw" / "SICK").mkdir()
    (tmp_path / "nli.tsv.gz").write_bytes(b"")
    return tmp_path


def test_folders_and_named_files(layout: Path) -> None:
    (layout / "beir" / "scifact").mkdir(parents=True)
    values = [str(layout / "raw"), f"nli={layout}/nli.tsv.gz", f"beir/scifact={layout}/beir/scifact"]
    found = DataLocations.resolve(values, {})
    assert found.senteval == layout / "raw"
    assert found.named == {"nli": layout / "nli.tsv.gz", "beir/scifact": layout / "beir/scifact"}
    assert DataLocations.resolve(None, {}) == DataLocations()


def test_retrieval_sets_are_found_in_their_folder_alone_or_by_name(layout: Path) -> None:
    for name in ("scifact", "own"):
        (layout / "beir" / name).mkdir(parents=True)
        (layout / "beir" / name / "corpus.jsonl").write_text("")
    both = {f"beir/{name}": layout / "beir" / name for name in ("own", "scifact")}
    assert DataLocations.resolve([str(layout / "beir")], {}) == DataLocations(None, both)
    one = {"beir/own": layout / "beir" / "own"}
    assert DataLocations.resolve([str(layout / "beir" / "own")], {}).named == one
    assert DataLocations.resolve([f"scifact={layout}/raw", str(layout / "raw")], {}) == DataLocations(
        layout / "raw", {"beir/scifact": layout / "raw"}
    )
    with pytest.raises(InputError, match="two places for beir/scifact"):
        DataLocations.resolve([str(layout / "beir"), f"beir/scifact={layout}/raw"], {})
    with pytest.raises(InputError, match="did you mean 'scifact'"):
        DataLocations.resolve([f"scifacts={layout}/raw"], {})


def test_a_folder_may_hold_both_layouts(layout: Path) -> None:
    (layout / "raw" / "scifact").mkdir()
    (layout / "raw" / "scifact" / "corpus.jsonl").write_text("")
    found = DataLocations.resolve([str(layout / "raw")], {})
    assert found == DataLocations(layout / "raw", {"beir/scifact": layout / "raw" / "scifact"})


def test_a_path_may_hold_an_equals_sign(layout: Path) -> None:
    (layout / "a=b" / "STS").mkdir(parents=True)
    (layout / "x=y.tsv").write_text("")
    assert DataLocations.resolve([str(layout / "a=b")], {}).senteval == layout / "a=b"
    assert DataLocations.resolve([f"nli={layout}/x=y.tsv"], {}).named["nli"] == layout / "x=y.tsv"


def test_the_environment_stands_behind_the_command_line(layout: Path) -> None:
    (layout / "other" / "STS").mkdir(parents=True)
    (layout / "own.tsv").write_text("")
    environ = {"GRADATE_DATA": os.pathsep.join([str(layout / "other"), f"nli={layout}/nli.tsv.gz", ""])}
    found = DataLocations.resolve([str(layout / "raw"), f"nli={layout}/own.tsv"], environ)
    assert found.senteval == layout / "raw" and found.named["nli"] == layout / "own.tsv"
    behind = DataLocations.resolve([], environ)
    assert behind.senteval == layout / "other" and behind.named["nli"] == layout / "nli.tsv.gz"


def test_the_real_environment_is_the_default(layout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADATE_DATA", str(layout / "raw"))
    assert DataLocations.resolve().senteval == layout / "raw"


def test_sentevals_own_folder_is_found(layout: Path) -> None:
    root = layout / "SentEval" / "data" / "downstream"
    (root / "SICK").mkdir(parents=True)
    assert DataLocations.resolve([str(layout / "SentEval")], {}).senteval == root


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{}/nowhere", r"nowhere: no such folder \(a folder in SentEval's layout was expected: STS/STS12-en-test"),
        ("{}/nli.tsv.gz", "is a file, .*for instance nli="),
        ("{}", r"neither STS nor SICK is in it.*did you mean .*raw\?"),
        ("nli={}/nowhere", "no such file or folder .*a file of nli data was expected"),
        ("nli=", "no such file or folder"),
        ("nlu={}/nli.tsv.gz", "no source is called 'nlu' .*did you mean 'nli'"),
        ("beir/={}/raw", "no source is called 'beir/'"),
        ("zzz={}/raw", "names are nli, .*beir/<set>"),
    ],
)
def test_what_is_not_there_is_named(layout: Path, value: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        DataLocations.resolve([value.format(layout)], {})
    with pytest.raises(InputError, match="GRADATE_DATA"):
        DataLocations.resolve([], {"GRADATE_DATA": value.format(layout)})


def test_an_empty_folder_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"is no folder in SentEval's layout.*give the folder that holds STS and SICK"
    ):
        DataLocations.resolve([str(tmp_path)], {})


def test_contradictions_are_refused(layout: Path) -> None:
    (layout / "other" / "STS").mkdir(parents=True)
    with pytest.raises(InputError, match="two folders in SentEval's layout"):
        DataLocations.resolve([str(layout / "raw"), str(layout / "other")], {})
    with pytest.raises(InputError, match="two places for nli"):
        DataLocations.resolve([f"nli={layout}/nli.tsv.gz", f"nli={layout}/raw"], {})
    assert DataLocations.resolve([str(layout / "raw")] * 2, {}).senteval == layout / "raw"
