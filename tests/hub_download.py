"""The download half of the Hugging Face Hub on a loopback port: serves files of repositories held in memory."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from huggingface_hub import constants


class FakeHub:
    """Serves files until the `with` block ends.

    Args:
        files: Files of each repository, `{"datasets/owner/name": {"data.tar": b"..."}}`; models have no prefix.
    """

    def __init__(self, files: dict[str, dict[str, bytes]]) -> None:
        self.files = files
        self.requests: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FakeHub:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def commit(self, repository: str) -> str:
        """A commit hash that changes with the files."""
        digest = hashlib.sha1(repository.encode())
        for path, content in sorted(self.files[repository].items()):
            digest.update(path.encode() + content)
        return digest.hexdigest()


def use_hub(monkeypatch: pytest.MonkeyPatch, endpoint: str, home: Path) -> None:
    """Point this process, which has read `HF_ENDPOINT` and `HF_HOME` long ago, at another Hub and cache."""
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HOME", str(home))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        path = unquote(self.path.partition("?")[0])
        self.hub.requests.append(f"{self.command} {path}")
        for repository, files in self.hub.files.items():
            kind, name = ("datasets", repository[9:]) if repository.startswith("datasets/") else ("models", repository)
            if path in (f"/api/{kind}/{name}", f"/api/{kind}/{name}/revision/main"):
                siblings = [{"rfilename": file} for file in sorted(files)]
                info = {"id": name, "sha": self.hub.commit(repository), "private": False, "siblings": siblings}
                return self._answer(200, json.dumps(info).encode(), {"Content-Type": "application/json"})
            prefix = f"/{repository}/resolve/"
            if path.startswith(prefix):
                content = files.get(path.removeprefix(prefix).partition("/")[2])
                if content is not None:
                    etag = hashlib.sha256(content).hexdigest()
                    headers = {"ETag": f'"{etag}"', "X-Repo-Commit": self.hub.commit(repository)}
                    return self._answer(200, content, headers)
                return self._answer(404, b"", {"X-Error-Code": "EntryNotFound", "X-Error-Message": "no such file"})
        return self._answer(404, b"", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "no such repository"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""
