from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from gradate.cli import app
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.scale import LabelScale
from tests.tiny import DIMENSION, tiny_encoder

GRADES = ("irrelevant", "slightly", "moderately", "highly")


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def gradate(capsys, monkeypatch):
    """Run one command line in this process, through the real entry point."""
    monkeypatch.delenv("GRADATE_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        code = app.run([str(argument) for argument in arguments])
        return Answer(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def plain_model(tmp_path_factory):
    """Folder of a tiny encoder without a head."""
    folder = tmp_path_factory.mktemp("plain") / "model"
    tiny_encoder(folder)
    return folder


@pytest.fixture(scope="session")
def graded_model(tmp_path_factory):
    """Folder of a tiny model whose head predicts beyond both ends of its four named grades."""
    head = PairHead(DIMENSION, concatenation="|u-v|")
    with torch.no_grad():
        head.linear.weight.fill_(-1.0)
        head.linear.bias.fill_(4.0)
    model = GradedModel(tiny_encoder(), head, LabelScale.from_names(GRADES), precision="fp32")
    return model.save(tmp_path_factory.mktemp("graded") / "model")


@pytest.fixture
def pairs_file(tmp_path):
    """A clean file of pairs with named grades."""
    file = tmp_path / "pairs.csv"
    rows = [
        ("how do i pay", "how do i pay", "highly"),
        ("how do i pay", "where can i pay", "moderately"),
        ("how do i pay", "my parcel is late", "irrelevant"),
        ("a parcel is late", "my parcel is late", "highly"),
        ("can i return it", "can i swap it", "slightly"),
    ]
    lines = ["text1,text2,grade,note", *(",".join((*row, "x")) for row in rows)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file
