"""`gradate evaluate`: measure a model on a benchmark or on your own pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gradate.cli.options import (
    BatchSizeOption,
    ColumnsOption,
    DataOption,
    JsonOption,
    ModelArgument,
    PrecisionOption,
    ScaleOption,
    TrustOption,
    parse_scale,
)
from gradate.cli.output import figure, open_output, table
from gradate.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

SEVEN_STS = "seven-sts"


def evaluate(
    model: ModelArgument,
    benchmark: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="`seven-sts`, the default without --pairs; or `scifact`, `cranfield`, `retrieval` for both, or the"
            " name of a retrieval set of your own.",
        ),
    ] = None,
    pairs: Annotated[Path | None, typer.Option(metavar="FILE", help="Your own graded pairs instead.")] = None,
    scale: ScaleOption = None,
    columns: ColumnsOption = None,
    aggregation: Annotated[
        Literal["all", "mean", "wmean"],
        typer.Option(help="Subsets of a year as one list (`all`), or averaged plainly or by size."),
    ] = "all",
    average: Annotated[
        Literal["exact", "senteval"],
        typer.Option(help="Average of the unrounded tasks, or SentEval's, which rounds each task first."),
    ] = "exact",
    truncate_dim: Annotated[
        int | None,
        typer.Option(metavar="N", help="Keep the first N numbers of an embedding (Matryoshka); leaves a head out."),
    ] = None,
    precision: PrecisionOption = "auto",
    batch_size: BatchSizeOption = None,
    data: DataOption = None,
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure a model: Spearman and Pearson of the cosine (×100), the head's grades; or nDCG@10 of retrieval."""
    if benchmark is not None and pairs is not None:
        raise InputError("--benchmark and --pairs are two measurements", remedy="choose one")
    with open_output(as_json) as output:
        from gradate.evaluation.protocol import evaluate as measure
        from gradate.evaluation.retrieval import evaluate_retrieval
        from gradate.models.graded import GradedModel

        graded = GradedModel.from_pretrained(
            model, precision=precision, truncate_dim=truncate_dim, trust_remote_code=trust_remote_code
        )
        if benchmark not in (None, SEVEN_STS):
            ranked = evaluate_retrieval(
                graded, benchmark, data=data, batch_size=batch_size, show_progress=output.progress
            ).to_json()
            output.note(f"precision {ranked['precision']}: {ranked['precision_reason']}", *ranked["notes"])
            output.result(ranked, _retrieval(ranked))
            return
        found = measure(
            graded,
            SEVEN_STS,
            data=data,
            pairs=pairs,
            scale=parse_scale(scale),
            columns=columns,
            aggregation=aggregation,
            average=average,
            batch_size=batch_size,
            show_progress=output.progress,
        ).to_json()
        output.note(f"precision {found['precision']}: {found['precision_reason']}", *found["notes"])
        output.result(found, _own_pairs(found) if pairs is not None else _benchmark(found))


def _benchmark(found: dict[str, Any]) -> Table:
    rows = [(name, task["spearman"], task["pearson"], task["n"]) for name, task in found["tasks"].items()]
    return table(("task", "spearman", "pearson", "pairs"), [*rows, ("average", found["average"], None, None)])


def _retrieval(found: dict[str, Any]) -> Table:
    rows = []
    for name, task in found["tasks"].items():
        interval = task["intervals"]["ndcg@10"]
        reach = f"{figure(interval['low'])} to {figure(interval['high'])}"
        rows.append((name, task["ndcg@10"], reach, task["recall@100"], task["mrr@10"], task["queries"]))
    head = (f"{found['split']} set", "ndcg@10", "95 % interval", "recall@100", "mrr@10", "queries")
    return table(head, [*rows, ("average", found["average"], None, None, None, None)] if len(rows) > 1 else rows)


def _own_pairs(found: dict[str, Any]) -> Table:
    ((name, task),) = found["tasks"].items()
    measured = [
        (metric, task[metric], f"{figure(interval['low'])} to {figure(interval['high'])}")
        for metric, interval in task["intervals"].items()
    ]
    return table((f"{name} ({task['n']} pairs)", "value", "95 % interval"), measured)
