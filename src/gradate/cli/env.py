"""`gradate env`: what a bug report needs."""

from __future__ import annotations

from gradate.cli.options import JsonOption
from gradate.cli.output import facts, open_output


def env(as_json: JsonOption = False) -> None:
    """Show versions, device, the precision that `auto` picks here, with the reason, and the cache with its size."""
    with open_output(as_json) as output:
        from gradate.engine.features import cache_folder, folder_bytes
        from gradate.runs.environment import environment

        folder = cache_folder()
        size = folder_bytes(folder) if folder is not None else 0
        cache = {"cache": str(folder) if folder is not None else "off", "cache_bytes": size}
        found = environment() | cache
        packages = found["packages"]
        shown = {name: value for name, value in found.items() if value is not packages}
        shown["cache_bytes"] = f"{size:,} ({size / 1e6:,.1f} MB)"
        output.result(found, facts(shown | packages))
