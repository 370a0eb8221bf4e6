from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import unpack
from tests.senteval_layout import write_layout


@pytest.fixture(scope="session")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up folder in SentEval's layout; tests that change it work on a copy."""
    return write_layout(tmp_path_factory.mktemp("layout"))


@pytest.fixture(scope="session")
def senteval_data(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The official STS and SICK files in tokenised form."""
    return unpack(shared_data / "senteval.tar.xz", tmp_path_factory.mktemp("senteval")) / "senteval"
