"""`gradate ceiling`: the best Spearman that scores of two values can reach on given grades."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gradate.cli.options import ColumnsOption, DataOption, JsonOption, ScaleOption, parse_scale
from gradate.cli.output import open_output, table

if TYPE_CHECKING:
    from rich.table import Table

    from gradate.evaluation.ceiling import Ceilings


def ceiling(
    pairs: Annotated[
        str,
        typer.Argument(metavar="PAIRS", help="A file of graded pairs, `seven-sts`, or a source such as `stsb-test`."),
    ],
    scale: ScaleOption = None,
    columns: ColumnsOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the best Spearman (0 to 1) that any binary scorer reaches on these grades, and where it cuts them."""
    with open_output(as_json) as output:
        from gradate.evaluation.ceiling import EXPLANATION, measure_ceilings

        found = measure_ceilings(pairs, scale=parse_scale(scale), columns=columns, data=data)
        output.note(*found.notes)
        output.result(found.to_json(), _shown(found), "", *EXPLANATION)


def _shown(found: Ceilings) -> Table:
    rows: list[tuple[object, ...]] = [
        (
            name,
            f"{task.value:.4f}",
            f"{task.threshold:g}",
            f"{100 * task.share_positive:.1f} %",
            task.n,
            f"{found.no_ties[name].value:.4f}",
        )
        for name, task in found.tasks.items()
    ]
    if len(rows) > 1:
        rows.append(("average", f"{found.average:.4f}", None, None, None, None))
    return table(("", "ceiling", "yes from grade", "share of yes", "pairs", "by the no-ties formula"), rows)
