"""Writing a run down: model with its card, predictions, plots and report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gradate.data.examples import Examples, Pairs
from gradate.evaluation.grading import GradedScores, Metric
from gradate.losses.deviation import DeviationLoss
from gradate.models.graded import GradedModel
from gradate.objectives.config import THROUGH_HEAD
from gradate.objectives.pair import build_loss
from gradate.report.html import ReportData, ReportRow, write_report
from gradate.report.model_card import CardData, CardMetric, CardSource, model_card
from gradate.report.negatives_plot import negatives_plot
from gradate.report.plots import error_plot, learning_plot, loss_plot, prediction_plot
from gradate.runs.comparison import FLAT, BenchmarkComparison, Comparison, RetrievalComparison
from gradate.runs.environment import environment
from gradate.runs.folder import RETRIEVAL_FOLDER
from gradate.runs.measurement import Measured
from gradate.runs.resolve import Resolved, scale_of
from gradate.runs.results import Run
from gradate.training.callbacks.run_log import RunLog

WORST_SHOWN = 12

"""The comparison on test pairs, or that on a benchmark."""


def write_up(
    run: Run,
    model: GradedModel,
    resolved: Resolved,
    measured: Measured,
) -> None:
    """Write `model/`, `predictions/`, `plots/` and `report.html` of a finished run.

    Args:
        run: The run; its folder exists.
        model: The tuned model.
        resolved: Recipe and data.
        measured: What was measured before and after.
    """
    model.save(run.model, card=model_card(_card(run, resolved, measured)), overwrite=True)
    _write_predictions(run.folder / "predictions", resolved.test, measured.pairs)
    if measured.retrieval is not None:
        _write_rankings(run.folder / RETRIEVAL_FOLDER, measured.retrieval)
    report = _report(run, resolved, measured)
    _write_plots(run.folder / "plots", report)
    write_report(run.report, report)


def objective_json(resolved: Resolved) -> dict[str, Any]:
    """The last stage's loss and its parameters, as plain JSON."""
    return resolved.recipe.stages[-1].objective.parameters()


def _write_predictions(folder: Path, test: Pairs | None, measured: Comparison | BenchmarkComparison | None) -> None:
    folder.mkdir(exist_ok=True)
    if isinstance(measured, Comparison) and test is not None:
        columns: dict[str, Any] = {"text1": list(test.text1), "text2": list(test.text2), "grade": test.grades}
        for name in ("before", "after"):
            scores: GradedScores = getattr(measured, name)
            columns[f"similarity_{name}"] = scores.cosine
            if scores.from_head and scores.prediction is not None:
                columns[f"prediction_{name}"] = scores.prediction
        pq.write_table(pa.table(columns), folder / f"{test.name}.parquet")
    elif isinstance(measured, BenchmarkComparison):
        for name, task in measured.after.tasks.items():
            table = {"gold": task.gold, "before": measured.before.scores[name], "after": task.cosine}
            pq.write_table(pa.table(table), folder / f"{name}.parquet")


def _write_rankings(folder: Path, measured: RetrievalComparison) -> None:
    folder.mkdir(exist_ok=True)
    for name, after in measured.after.items():
        table = {"query": list(after.queries), "before": measured.before[name].ndcg, "after": after.ndcg}
        pq.write_table(pa.table(table), folder / f"{name}.parquet")


def _report(run: Run, resolved: Resolved, measured: Measured) -> ReportData:
    scale, test = scale_of(resolved.stages[-1]), resolved.test
    known = environment()
    gold = prediction = None
    worst: tuple[tuple[str, str, str, float], ...] = ()
    rows: tuple[ReportRow, ...] = ()
    if isinstance(measured.pairs, Comparison) and test is not None:
        rows = tuple(_row(measured.pairs, metric) for metric in FLAT)
        gold = measured.pairs.after.gold
        if measured.pairs.after.from_head and measured.pairs.after.prediction is not None:
            prediction = measured.pairs.after.prediction
            worst = _worst(test, prediction)
    elif isinstance(measured.pairs, BenchmarkComparison):
        rows = tuple(_task_row(measured.pairs, task) for task in measured.pairs.difference)
    if measured.retrieval is not None:
        rows += tuple(
            ReportRow(f"{name} nDCG@10", None, measured.retrieval.before[name].interval(), after.interval(), gain)
            for (name, after), gain in zip(
                measured.retrieval.after.items(), measured.retrieval.difference.values(), strict=True
            )
        )
    choices = [f"{key} = {value}: {reason}" for key, value, reason in resolved.reasons]
    return ReportData(
        title=f"{run.recipe}, seed {run.seed}",
        recipe=run.recipe,
        created=time.strftime("%Y-%m-%d %H:%M"),
        scale=scale,
        rows=rows,
        gold=gold,
        prediction=prediction,
        log=tuple(RunLog(run.folder / "log.jsonl").records()),
        objective=objective_json(resolved),
        worst=worst,
        notes=(*resolved.notes, *choices, *_stage_notes(run)),
        environment={
            **{name: str(version) for name, version in known["packages"].items()},
            "python": known["python"],
            "device": f"{known['device']} ({known['device_name']}, {known['threads']} threads)",
            "precision": f"{known['precision']} ({known['precision_reason']})",
        },
        plan=resolved.recipe.to_yaml(),
    )


def _row(measured: Comparison, metric: Metric) -> ReportRow:
    spans = measured.intervals
    return ReportRow(
        metric,
        spans["baseline"].get(metric),
        spans["before"].get(metric),
        spans["after"].get(metric),
        measured.difference.get(metric),
    )


def _task_row(measured: BenchmarkComparison, task: str) -> ReportRow:
    spans = measured.intervals
    return ReportRow(task, None, spans["before"][task], spans["after"][task], measured.difference[task])


def _worst(test: Pairs, prediction: Any) -> tuple[tuple[str, str, str, float], ...]:
    clipped = test.scale.clamp(prediction)
    order = np.argsort(-np.abs(clipped - test.grades), kind="stable")[:WORST_SHOWN]
    return tuple(
        (
            test.text1[i],
            test.text2[i],
            f"{test.grades[i]:g}" if test.scale.is_continuous else str(test.scale.decode(float(test.grades[i]))),
            float(clipped[i]),
        )
        for i in order
    )


def _stage_notes(run: Run) -> list[str]:
    notes = []
    for i, stage in enumerate(run.stages, start=1):
        if stage.head_fit is not None:
            fit = stage.head_fit
            notes.append(
                f"stage {i}: head solved with {fit['solver']} in {fit['iterations']} iterations to within"
                f" {fit['suboptimality']:.1e} of the optimum; l2 = {fit['l2']:g} ({fit['l2_reason']})"
            )
        elif stage.step == 0 and stage.start is not None:
            start = f"{stage.metric} {stage.start:.4f}"
            notes.append(f"stage {i}: no checkpoint beat the start ({start}), which was kept")
    return notes


def _width_notes(resolved: Resolved) -> list[str]:
    widths = sorted({width for stage in resolved.recipe.stages for width in stage.matryoshka}, reverse=True)
    shown = ", ".join(map(str, widths))
    return (
        [f"trained to serve cut off as well, at widths {shown} (truncate_dim of SentenceTransformer)"]
        if widths
        else []
    )


def _write_plots(folder: Path, report: ReportData) -> None:
    folder.mkdir(exist_ok=True)
    figures = {"learning": learning_plot(report.log), "negatives": negatives_plot(report.log)}
    if report.scale is not None:
        figures["loss"] = loss_plot(report.objective, report.scale)
    if report.scale is not None and report.gold is not None and report.prediction is not None:
        figures["prediction"] = prediction_plot(report.gold, report.prediction, report.scale)
        figures["error"] = error_plot(report.gold, report.prediction, report.scale)
    for name, figure in figures.items():
        if figure is not None:
            figure.savefig(folder / f"{name}.png", dpi=150)


def _card(run: Run, resolved: Resolved, measured: Measured) -> CardData:
    recipe = resolved.recipe
    metrics: list[CardMetric] = []
    protocol = "Nothing was measured."
    if isinstance(measured.pairs, Comparison) and resolved.test is not None:
        protocol = f"Paired bootstrap over the {len(resolved.test):,} pairs of {resolved.test.name}, 95 % intervals."
        for metric in FLAT:
            span, before = (measured.pairs.intervals[system].get(metric) for system in ("after", "before"))
            if span is not None and span.value is not None:
                value_before = before.value if before is not None else None
                metrics.append(CardMetric(resolved.test.name, metric, span.value, span, value_before))
    elif isinstance(measured.pairs, BenchmarkComparison):
        after = measured.pairs.after
        protocol = f"seven-sts, aggregation {after.aggregation}, cosine, Spearman × 100, {after.precision}."
        for task, span in measured.pairs.intervals["after"].items():
            if span.value is not None:
                interval = span if span.low is not None else None
                before_value = measured.pairs.intervals["before"][task].value
                metrics.append(CardMetric(task, "spearman_cosine", span.value, interval, before_value))
    if measured.retrieval is not None:
        protocol += " Retrieval: mean nDCG@10 × 100, bootstrap over queries."
        for name, found in measured.retrieval.after.items():
            metrics.append(
                CardMetric(
                    name,
                    "ndcg_at_10",
                    float(found.ndcg.mean()),
                    found.interval(),
                    float(measured.retrieval.before[name].ndcg.mean()),
                )
            )
    objective, scale = recipe.stages[-1].objective, scale_of(resolved.stages[-1])
    loss = build_loss(objective, scale) if objective.name in THROUGH_HEAD and scale is not None else None
    return CardData(
        name=f"{recipe.encoder} tuned with gradate ({run.recipe})",
        base_model=recipe.encoder,
        recipe=run.recipe,
        objective=objective_json(resolved),
        scale=scale if objective.needs_head else None,
        sources=tuple(_sources(resolved)),
        metrics=tuple(metrics),
        protocol=protocol,
        seeds=(run.seed,),
        in_domain=recipe.in_domain,
        environment={name: str(version) for name, version in environment()["packages"].items()},
        notes=(*_stage_notes(run), *_width_notes(resolved)),
        citation=loss.citation if isinstance(loss, DeviationLoss) else "",
    )


def _sources(resolved: Resolved) -> list[CardSource]:
    found: list[tuple[str, Examples]] = [("train", examples) for examples in resolved.stages]
    found += [("train", examples) for parts in resolved.beside for examples in parts]
    found += [("selection", pairs) for sets in resolved.selections for pairs in sets.values()]
    found += [("test", resolved.test)] if resolved.test is not None else []
    sources = [CardSource(role, pairs.name, len(pairs), pairs.fingerprint()) for role, pairs in found]
    return list(dict.fromkeys(sources))
