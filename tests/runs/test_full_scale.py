"""Every full-scale recipe passes `gradate train … --dry-run` with models and data from a stand-in for the Hub."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    NomicBertConfig,
    NomicBertModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
)

from gradate.data.hub import NLI_FILE, NLI_REPOSITORY, SENTEVAL_FILE, SENTEVAL_REPOSITORY
from gradate.runs.recipe import list_recipes, load_recipe
from tests.hub import fake_hub
from tests.senteval_layout import write_layout
from tests.tiny import VOCABULARY, tiny_decoder, tiny_encoder

REPOSITORY = Path(__file__).parents[2]
FULL_SCALE = [name for name in list_recipes() if "/" in load_recipe(name).encoder]
JINA = "jinaai/jina-embeddings-v2-base-en"
DECODERS = {
    "mistralai/Mistral-7B-v0.1": "mistral",
    "meta-llama/Llama-2-7b-hf": "llama",
    "facebook/opt-6.7b": "opt",
}
SIZE: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 300,
}

_CLIENT = """
import contextlib, io, json, sys
from gradate.cli import main

for line in sys.stdin:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(json.loads(line))
        except SystemExit as end:
            code = end.code or 0
    print(json.dumps({"code": code, "out": out.getvalue(), "err": err.getvalue()}), flush=True)
"""

_OWN_CODE = """
from transformers import BertModel


class JinaBertModel(BertModel):
    pass
"""


def _repository(folder: Path, model: PreTrainedModel, **more: object) -> dict[str, bytes]:
    tiny_encoder(folder)  # for its tokenizer
    AutoTokenizer.from_pretrained(folder, local_files_only=True).save_pretrained(folder / "plain")
    model.save_pretrained(folder / "plain")
    config = folder / "plain" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **more}))
    return _files(folder / "plain")


def _files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def _models(folder: Path) -> dict[str, dict[str, bytes]]:
    torch.manual_seed(0)
    bert = BertConfig(**SIZE)
    own = {"auto_map": {"AutoModel": "modeling_bert.JinaBertModel"}}
    return {
        "google-bert/bert-base-uncased": _repository(folder / "bert", BertModel(bert)),
        "FacebookAI/roberta-base": _repository(folder / "roberta", RobertaModel(RobertaConfig(**SIZE))),
        "nomic-ai/nomic-embed-text-v1": _repository(folder / "nomic", NomicBertModel(NomicBertConfig(**SIZE))),
        **{name: _files(tiny_decoder(folder / kind, kind)) for name, kind in DECODERS.items()},
        JINA: {**_repository(folder / "jina", BertModel(bert), **own), "modeling_bert.py": _OWN_CODE.encode()},
    }


def _data(folder: Path) -> dict[str, dict[str, bytes]]:
    write_layout(folder / "downstream")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(folder / "downstream", "senteval/downstream")
    rows = [(f"p {a}", f"{b} r", label) for label in range(3) for a, b in ("ab", "cd", "ef")]
    names = ("premise", "hypothesis", "label")
    file = folder / "nli.parquet"
    pq.write_table(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), file)
    return {
        f"datasets/{SENTEVAL_REPOSITORY}": {SENTEVAL_FILE: archive.getvalue()},
        f"datasets/{NLI_REPOSITORY}": {NLI_FILE: file.read_bytes()},
    }


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    home = tmp_path_factory.mktemp("full")
    triplets, sentences = home / "triplets.csv", home / "sentences.txt"
    triplets.write_text("sent0,sent1,hard_neg\na b,a c,d e\nb c,b,f\n", encoding="utf-8")
    sentences.write_text("\n".join("abcdefgh"), encoding="utf-8")
    given = ["--data", f"nli-triplets={triplets}", "--data", f"sentences={sentences}"]
    commands = {name: ["train", name, "--out", "run", "--dry-run", "--json", *given] for name in FULL_SCALE}
    trusted = {name for name in FULL_SCALE if load_recipe(name).encoder == JINA}
    asked = {
        name: [*command, "--trust-remote-code"] if name in trusted else command for name, command in commands.items()
    }
    asked["without trust"] = commands["paper/jina-v2"]
    with fake_hub() as hub:
        hub.repositories |= _models(home) | _data(home)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))},
            "HF_ENDPOINT": hub.endpoint,
            "HF_HOME": str(home / "cache"),
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)]),
        }
        client = subprocess.run(
            [sys.executable, "-c", _CLIENT],
            cwd=home,
            env=environment,
            input="".join(json.dumps(command) + "\n" for command in asked.values()),
            capture_output=True,
            text=True,
            check=False,
        )
    assert client.returncode == 0, client.stderr
    found = dict(zip(asked, map(json.loads, client.stdout.splitlines()), strict=True))
    assert not (home / "run").exists()
    return found


def test_there_are_recipes_at_full_scale() -> None:
    encoders = {load_recipe(name).encoder for name in FULL_SCALE}
    assert encoders == {
        "google-bert/bert-base-uncased",
        "FacebookAI/roberta-base",
        "nomic-ai/nomic-embed-text-v1",
        JINA,
        *DECODERS,
    }
    for encoder in ("bert-base", "roberta-base", "nomic-v1", "jina-v2"):
        assert {f"paper/{encoder}", f"published-code/{encoder}"} <= set(FULL_SCALE)


@pytest.mark.parametrize("name", FULL_SCALE)
def test_dry_runs(name: str, answers: dict[str, dict[str, Any]]) -> None:
    answer = answers[name]
    assert answer["code"] == 0, answer["err"]
    plan, recipe = json.loads(answer["out"]), load_recipe(name)
    assert plan["encoder"]["name"] == recipe.encoder
    assert plan["encoder"]["dimension"] == 32
    assert len(plan["stages"]) == len(recipe.stages)
    for stage, found in zip(recipe.stages, plan["stages"], strict=True):
        assert found["first_batch"]
        assert found["updates"] is None if stage.is_convex else found["updates"] > 0


def test_code_of_its_own_runs_on_the_users_word_alone(answers: dict[str, dict[str, Any]]) -> None:
    answer = answers["without trust"]
    assert answer["code"] == 2
    assert "JinaBertModel" in answer["err"] and "--trust-remote-code" in answer["err"]
    assert "Traceback" not in answer["err"]
