"""Upload to and download from a stand-in for the Hub, in a process of its own: the client reads its address once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.hub import FakeHub, fake_hub

REPOSITORY = Path(__file__).parents[2]

_CLIENT = """
import json
import torch
from gradate.errors import InputError
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.scale import LabelScale
from tests.tiny import tiny_encoder

def refusal(call):
    try:
        call()
    except InputError as error:
        return str(error)

pairs = [("a text", "another"), ("one", "two")]
torch.manual_seed(0)
model = GradedModel(tiny_encoder(), PairHead(32), LabelScale.from_names(["no", "yes"]), precision="fp32")
url = model.push_to_hub("me/tiny", card="# Pushed\\n", commit_message="first")
again = GradedModel.from_pretrained("me/tiny", precision="fp32")
print(json.dumps({
    "url": url,
    "same": bool((again.predict(pairs, clip=False) == model.predict(pairs, clip=False)).all()),
    "grades": again.scale.names,
    "pickled": refusal(lambda: GradedModel.from_pretrained("me/pickled")),
    "absent": refusal(lambda: GradedModel.from_pretrained("me/absent")),
    "revision": refusal(lambda: GradedModel.from_pretrained("me/tiny", revision="v9")),
}), flush=True)
input()
print(json.dumps({
    "cached": GradedModel.from_pretrained("me/tiny").head is not None,
    "other": refusal(lambda: GradedModel.from_pretrained("me/other")),
    "push": refusal(lambda: model.push_to_hub("me/tiny")),
}))
"""


@dataclass(frozen=True)
class Session:
    hub: FakeHub
    online: dict[str, Any]
    unreachable: dict[str, Any]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    home = tmp_path_factory.mktemp("hub")
    with fake_hub() as hub, (home / "stderr").open("wb") as errors:
        hub.repositories["me/pickled"] = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))},
            "HF_ENDPOINT": hub.endpoint,
            "HF_HOME": str(home),
            "HF_TOKEN": "hf_loopback",
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)]),
        }
        client = subprocess.Popen(
            [sys.executable, "-c", _CLIENT],
            cwd=home,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert client.stdout is not None
        online = client.stdout.readline()
    unreachable, _ = client.communicate("the hub is gone\n" if online else None)
    assert client.returncode == 0, (home / "stderr").read_text()
    return Session(hub, json.loads(online), json.loads(unreachable))


def test_a_model_goes_to_the_hub_and_comes_back(session: Session) -> None:
    hub, answer = session.hub, session.online
    assert answer["url"] == f"{hub.endpoint}/me/tiny"
    assert answer["same"] is True and answer["grades"] == ["no", "yes"]
    files = hub.repositories["me/tiny"]
    assert files["README.md"] == b"# Pushed\n"
    assert {"model.safetensors", "modules.json"} <= set(files)
    assert {"graded_head/config.json", "graded_head/model.safetensors"} <= set(files)
    assert not any(name.endswith((".bin", ".pt", ".pkl")) for name in files)


def test_pickles_of_the_hub_are_not_downloaded(session: Session) -> None:
    assert session.online["pickled"].startswith("me/pickled: holds no safetensors weights")
    assert any("/me/pickled/resolve/" in request for request in session.hub.requests)
    assert not any(request.endswith(".bin") for request in session.hub.requests)


def test_absent_repositories_and_revisions_are_named(session: Session) -> None:
    absent, revision = session.online["absent"], session.online["revision"]
    assert absent.startswith("me/absent: no such folder, and no model 'me/absent' that you may read at http://127.0.")
    assert revision == "me/tiny: 'me/tiny' has no revision 'v9'"


def test_an_unreachable_hub_is_one_line_and_the_cache_still_serves(session: Session) -> None:
    answer = session.unreachable
    assert answer["cached"] is True
    assert "cannot be reached" in answer["other"] and "name a local folder or 'bundled'" in answer["other"]
    assert answer["push"].startswith(f"me/tiny: the Hub ({session.hub.endpoint}) did not take the model: ")
    assert not any("\n" in line for line in (answer["other"], answer["push"]))
