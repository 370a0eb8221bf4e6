"""`gradate env`: what a bug report needs."""

from __future__ import annotations

from gradate.cli.options import JsonOption
from gradate.cli.output import facts, open_output


def env(as_json: JsonOption = False) -> None:
    """Show versions, device, and the precision that `auto` picks here, with the reason."""
    with open_output(as_json) as output:
        from gradate.runs.environment import environment

        found = environment()
        packages = found["packages"]
        output.result(found, facts({name: value for name, value in found.items() if value is not packages} | packages))
