from __future__ import annotations

import socket

import pytest


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Refuses every connection and look-up, and lists what was tried."""
    tried: list[str] = []

    def refuse(*arguments: object, **_: object) -> None:
        tried.append(repr(arguments))
        raise OSError("the network is off in this test")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return tried
