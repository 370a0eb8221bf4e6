"""Public names load on first use, and nothing heavy before."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import gradate


@pytest.mark.parametrize("name", gradate.__all__)
def test_every_public_name_is_the_one_of_its_home(name: str) -> None:
    found = getattr(gradate, name)
    if name in gradate._HOMES:
        assert found is getattr(importlib.import_module(gradate._HOMES[name]), name)


def test_no_other_name() -> None:
    assert set(gradate.__all__) == {*gradate._HOMES, "__version__"} == set(dir(gradate))
    with pytest.raises(AttributeError, match="no attribute 'Trainer'"):
        gradate.Trainer  # noqa: B018


def test_importing_gradate_imports_nothing_heavy() -> None:
    code = "import sys, gradate; print([m for m in ('torch', 'numpy', 'datasets') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
