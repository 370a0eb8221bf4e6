"""`gradate train`: run a recipe."""

from __future__ import annotations

from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gradate.cli.gains import gains_table
from gradate.cli.options import (
    ColumnsOption,
    DataOption,
    JsonOption,
    OverwriteOption,
    QuietOption,
    ScaleOption,
    TrustOption,
    parse_scale,
    parse_seeds,
)
from gradate.cli.output import Output, facts, figure, open_output, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gradate.runs.plan import Plan
    from gradate.runs.results import Run, Runs


def train(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A shipped recipe by name, or a .yaml file.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Run folder; must be empty or new.")],
    pairs: Annotated[Path | None, typer.Option(metavar="FILE", help="Pairs to train on.")] = None,
    dev: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Pairs that choose the checkpoint. Default: split off.")
    ] = None,
    test: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Pairs for the measurement. Default: split off.")
    ] = None,
    scale: ScaleOption = None,
    columns: ColumnsOption = None,
    data: DataOption = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the recipe, as stages.2.epochs=1; repeats."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="1,2,3", help="One run for each seed, in folders seed-N.")
    ] = None,
    precision: Annotated[
        Literal["auto", "fp32", "tf32", "bf16"] | None,
        typer.Option(help="Number format of the forward passes. Default: the recipe's."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in --out.")] = False,
    overwrite: OverwriteOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Open the encoder, print the plan and first batch; train nothing.")
    ] = False,
    trust_remote_code: TrustOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a graded model by a recipe, measure it, and write the run folder with model and report."""
    seed_list = None if seeds is None else parse_seeds(seeds)
    with open_output(as_json, quiet=quiet) as output:
        from gradate.cli.watch import Watcher
        from gradate.runs.plan import Plan
        from gradate.runs.results import Runs
        from gradate.runs.run import train as run_recipe

        with Watcher(output) as watcher:
            result = run_recipe(
                recipe,
                out=out,
                pairs=pairs,
                dev=dev,
                test=test,
                scale=parse_scale(scale),
                columns=columns,
                data=data,
                overrides=overrides or (),
                seeds=seed_list,
                resume=resume,
                overwrite=overwrite,
                dry_run=dry_run,
                precision=precision,
                trust_remote_code=trust_remote_code,
                observer=watcher,
            )
        if isinstance(result, Plan):
            _show_plan(output, result)
        elif isinstance(result, Runs):
            _show_runs(output, result)
        else:
            _show_run(output, result)


ROW_CHARACTERS = 600
"""Of a previewed row: documents beside their negatives would fill screens. --json has them whole."""


def _show_plan(output: Output, plan: Plan) -> None:
    found = plan.to_json()
    shown: list[RenderableType] = [plan.recipe.rstrip(), "", "encoder", facts(plan.encoder)]
    for number, stage in enumerate(plan.stages, start=1):
        batch = stage["first_batch"]
        summary = {name: value for name, value in stage.items() if value is not batch}
        width = ROW_CHARACTERS // len(batch[0])
        rows = [
            [shorten(v, width, placeholder="…") if isinstance(v, str) else v for v in row.values()] for row in batch
        ]
        shown += ["", f"stage {number}", facts(summary), "", "first batch", table(tuple(batch[0]), rows)]
    output.result(found, *shown)


def _show_run(output: Output, run: Run) -> None:
    found = run.to_json()
    kept = None if run.best is None else f"{run.best['metric']} {figure(run.best['value'])} at {run.best['step']}"
    places = {"selected": kept, "seconds": run.seconds, "model": run.model, "report": run.report}
    output.result(found, gains_table(found), f"\n{facts(places)}")


def _show_runs(output: Output, runs: Runs) -> None:
    found = runs.to_json()
    rows = [(run.seed, run.headline, None if run.best is None else run.best["value"]) for run in runs.runs]
    summary = {"mean": found["mean"], "sd": found["sd"], "chosen seed": found["chosen"], "model": runs.model}
    output.result(found, table(("seed", "Spearman of the cosine", "selection"), rows), f"\n{facts(summary)}")
