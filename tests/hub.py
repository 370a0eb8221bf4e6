"""A loopback stand-in for the Hugging Face Hub: makes repositories, takes commits and serves files, in memory."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class FakeHub:
    """What the stand-in holds, and where it listens.

    Args:
        endpoint: Address for `HF_ENDPOINT`.
        repositories: Files of each repository, `{"owner/model": {"config.json": b"..."}}`; those of data sets are
            named `datasets/owner/name`.
        requests: `METHOD path` of every request, in order.
    """

    endpoint: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def commit(self, repository: str) -> str:
        """A commit hash that changes with the files."""
        digest = hashlib.sha1(repository.encode())
        for path, content in sorted(self.repositories[repository].items()):
            digest.update(path.encode() + content)
        return digest.hexdigest()


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """Serve a `FakeHub` on a free loopback port until the block ends."""
    hub = FakeHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub

    def do_GET(self) -> None:
        self._get(with_body=True)

    def do_HEAD(self) -> None:
        self._get(with_body=False)

    def do_POST(self) -> None:
        path = self._path()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if path == "/api/repos/create":
            request = json.loads(body)
            name = f"{request['organization']}/{request['name']}" if request.get("organization") else request["name"]
            self.hub.repositories.setdefault(name, {})
            return self._json({"url": f"{self.hub.endpoint}/{name}"})
        if path == "/api/validate-yaml":
            return self._json({"errors": [], "warnings": []})
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/main", path):
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                for file in json.loads(body)["files"]
            ]
            return self._json({"files": files})
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/main", path):
            return self._commit(match[1], body)
        return self._missing("unknown path", "EntryNotFound")

    def _commit(self, name: str, body: bytes) -> None:
        for line in body.decode().splitlines():
            action = json.loads(line)
            if action["key"] == "file":
                value = action["value"]
                assert value["encoding"] == "base64"
                self.hub.repositories[name][value["path"]] = base64.b64decode(value["content"])
        commit = self.hub.commit(name)
        self._json({"success": True, "commitOid": commit, "commitUrl": f"{self.hub.endpoint}/{name}/commit/{commit}"})

    def _get(self, *, with_body: bool) -> None:
        path = self._path()
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+?)(/.*)?", path):
            name, rest = match[1], match[2] or ""
            if name not in self.hub.repositories:
                return self._missing("no such repository", "RepoNotFound")
            commit, files = self.hub.commit(name), self.hub.repositories[name]
            if rest.startswith("/revision/") and rest != "/revision/main":
                return self._missing("no such revision", "RevisionNotFound")
            if rest in ("", "/revision/main"):
                siblings = [{"rfilename": file} for file in sorted(files)]
                return self._json({"id": name, "modelId": name, "sha": commit, "private": False, "siblings": siblings})
            if rest.startswith("/tree/"):
                return self._json([_entry(file, content) for file, content in sorted(files.items())])
        if match := re.fullmatch(r"/((?:datasets/)?[^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            content = self.hub.repositories.get(match[1], {}).get(match[2])
            if content is None:
                return self._missing("no such file", "EntryNotFound")
            headers = {"ETag": f'"{_oid(content)}"', "X-Repo-Commit": self.hub.commit(match[1])}
            return self._answer(200, content, "application/octet-stream", headers, with_body=with_body)
        return self._missing("unknown path", "EntryNotFound")

    def _path(self) -> str:
        path = self.path.partition("?")[0].replace("%2F", "/")
        self.hub.requests.append(f"{self.command} {path}")
        return path

    def _missing(self, message: str, code: str) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message}
        self._answer(404, b"{}", "application/json", headers, with_body=self.command != "HEAD")

    def _json(self, value: Any) -> None:
        self._answer(200, json.dumps(value).encode(), "application/json", {}, with_body=self.command != "HEAD")

    def _answer(self, status: int, body: bytes, kind: str, headers: dict[str, str], *, with_body: bool) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean."""


def _oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _entry(path: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": len(content), "oid": _oid(content)}
