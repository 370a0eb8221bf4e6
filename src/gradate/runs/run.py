"""The run: a recipe executed, measured and written down in its folder."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gradate.data.examples import Examples, Pairs
from gradate.data.locations import DataLocations
from gradate.engine.precision import Precision, resolve_precision
from gradate.errors import GradateError, InputError, Interrupted
from gradate.models.backends import is_exported
from gradate.models.four_bit import require_bitsandbytes
from gradate.models.graded import GradedModel
from gradate.models.head import PairHead
from gradate.models.pooling import with_pooling
from gradate.models.shallow import NAME as SHALLOW
from gradate.models.shallow import shallow_encoder
from gradate.models.tokenizer import check_room, with_template
from gradate.objectives.matryoshka import check_widths
from gradate.runs.environment import environment
from gradate.runs.folder import open_run_folder, read_json, write_json, write_status, write_text
from gradate.runs.measurement import Measurement, compare_measurements, take_measurement
from gradate.runs.negatives import with_own_ranking
from gradate.runs.plan import Plan, plan, planned_updates
from gradate.runs.recipe import Recipe, load_recipe, parse_recipe, recipe_text
from gradate.runs.resolve import PairFiles, Resolved, resolve, scale_of
from gradate.runs.results import Run, Runs
from gradate.runs.write_up import objective_json, write_up
from gradate.scale import LabelScale
from gradate.training.callbacks.observer import Observer, SilentObserver
from gradate.training.callbacks.run_log import RunLog
from gradate.training.callbacks.stop_signal import StopSignal
from gradate.training.fit import StageResult, hand_over_head, run_stage
from gradate.training.stage import Stage


@dataclass
class Shared:
    """What several seeds have in common: the measurement before, and a first stage that no seed touches."""

    before: Measurement | None = None
    first_stage: tuple[dict[str, torch.Tensor], StageResult, list[dict[str, Any]]] | None = None


def train(
    recipe: str | Recipe | Sequence[Stage],
    *,
    out: str | Path,
    pairs: str | Path | Pairs | None = None,
    dev: str | Path | Pairs | None = None,
    test: str | Path | Pairs | None = None,
    scale: LabelScale | None = None,
    columns: str | Sequence[str] | None = None,
    data: Sequence[str] | None = None,
    overrides: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    precision: str | None = None,
    trust_remote_code: bool = False,
    observer: Observer | None = None,
) -> Run | Runs | Plan:
    """Run a recipe: train its stages, measure before and after, write model and report into a folder.

    Args:
        recipe: A shipped recipe's name, a `.yaml` file, a `Recipe`, or stages that take its other defaults.
        out: Run folder; must be empty unless `resume` or `overwrite`.
        pairs: The user's training pairs or their file, for recipes whose source is `pairs`; see `read_pairs`.
        dev: Pairs that choose the checkpoint; without them a tenth of `pairs`.
        test: Pairs for the measurement; without them a tenth of `pairs`.
        scale: Scale of the user's grades; None infers one from numbers.
        columns: Names of the two text columns and the grade column.
        data: Data folders or `NAME=PATH`; see `DataLocations.resolve`.
        overrides: `key=value` changes to the recipe, such as `stages.2.epochs=1`.
        seeds: One run for each, in folders `seed-N`; None runs the recipe's own seed.
        resume: Go on from the folder's last checkpoint; a finished run is returned as it is.
        overwrite: Delete the run that stands in `out`.
        dry_run: Open the encoder, return the plan and train nothing.
        precision: `auto`, `fp32`, `tf32` or `bf16`; None takes the recipe's.
        trust_remote_code: Run Python code that comes with the encoder.
        observer: Who watches.

    Raises:
        InputError: bad data, a bad recipe, or a folder in the way.
        TrainingStopped: loss or gradient became NaN.
        Interrupted: Ctrl-C or SIGTERM; a checkpoint was written.
    """
    observer = observer or SilentObserver()
    name, text, parsed = _recipe(recipe, overrides, precision)
    files = PairFiles(pairs, dev, test, scale, columns)
    locations = DataLocations.resolve(data)
    resolved = resolve(parsed, files, locations)
    for note in resolved.notes:
        observer.note(note)
    for key, value, reason in resolved.reasons:
        observer.note(f"{key} = {value}: {reason}")
    if dry_run:
        seed = seeds[0] if seeds else parsed.seed
        return plan(resolved, seed, _open_model(parsed, seed, trust_remote_code))
    if any(stage.trainable == "lora" and stage.lora.bits for stage in parsed.stages):
        require_bitsandbytes()  # now, and not after minutes of measuring
    folder = open_run_folder(Path(out), resume=resume, overwrite=overwrite)
    job = _Job(name, text, resolved, locations, observer, trust_remote_code, Shared())
    if seeds is None:
        return _run(job, folder, parsed.seed, resume)
    if len(set(seeds)) != len(seeds) or not seeds:
        raise InputError(f"seeds must differ, got {list(seeds)}", where="--seeds")
    runs = Runs(folder, tuple(_run(job, folder / f"seed-{seed}", seed, resume) for seed in seeds))
    if runs.model.exists():
        shutil.rmtree(runs.model)
    shutil.copytree(runs.chosen.model, runs.model)
    write_json(folder / "metrics.json", runs.to_json())
    write_status(folder, "finished", f"seeds {', '.join(map(str, seeds))}")
    return runs


@dataclass(frozen=True)
class _Job:
    name: str
    text: str
    resolved: Resolved
    locations: DataLocations
    observer: Observer
    trust_remote_code: bool
    shared: Shared


def _recipe(
    recipe: str | Recipe | Sequence[Stage], overrides: Sequence[str], precision: str | None
) -> tuple[str, str, Recipe]:
    if not isinstance(recipe, (str, Recipe)):
        recipe = Recipe(tuple(recipe))
    if isinstance(recipe, Recipe):
        name, text = "recipe", recipe.to_yaml()
        parsed = parse_recipe(text, where=name, overrides=overrides)
    else:
        name, text, parsed = recipe, recipe_text(recipe), load_recipe(recipe, overrides)
    if precision is not None and precision != "auto":
        resolve_precision(precision)
        parsed = replace(parsed, precision=precision)  # type: ignore[arg-type]
    return name, text, parsed


def _run(job: _Job, folder: Path, seed: int, resume: bool) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    finished = read_json(folder / "metrics.json") if resume else None
    _write_identity(job, folder, seed, resume)
    if finished is not None:
        stages = tuple(StageResult(**stage) for stage in finished.pop("stages"))
        return Run(folder, job.name, seed, stages, finished, finished.pop("seconds"))
    with _status(folder), StopSignal() as stop:
        return _execute(job, folder, seed, stop)


def _write_identity(job: _Job, folder: Path, seed: int, resume: bool) -> None:
    resolved_text = replace(job.resolved.recipe, seed=seed).to_yaml()
    data = {
        "stages": [_describe(pairs) for pairs in job.resolved.stages],
        "beside": [[_describe(part) for part in parts] for parts in job.resolved.beside],
        "selections": [{n: _describe(p) for n, p in sets.items()} for sets in job.resolved.selections],
        "test": None if job.resolved.test is None else _describe(job.resolved.test),
        "notes": list(job.resolved.notes),
    }
    stood = folder / "resolved.yaml"
    if resume and stood.exists():
        if stood.read_text(encoding="utf-8") != resolved_text:
            raise InputError(
                "was made with other settings", where=stood, remedy="resume with the same recipe, --set and --seeds"
            )
        before = read_json(folder / "data.json") or {}
        if any(before.get(key) != data[key] for key in ("stages", "beside", "selections")):
            raise InputError("the run was made with other data", where=folder / "data.json", remedy="start afresh")
        return
    write_text(folder / "recipe.yaml", job.text)
    write_text(stood, resolved_text)
    write_json(folder / "data.json", data)
    write_json(folder / "env.json", environment())


def _describe(examples: Examples) -> dict[str, Any]:
    scale, known = scale_of(examples), {"name": examples.name, "pairs": len(examples)}
    return {**known, "scale": None if scale is None else str(scale), "fingerprint": examples.fingerprint()}


def _note_ranking(path: Path, number: int, given: Sequence[Examples], ranked: Sequence[Examples]) -> None:
    """Add to the run's data what a stage trains on whose negatives its encoder has ranked."""
    anew = [_describe(found) for before, found in zip(given, ranked, strict=True) if found is not before]
    data = read_json(path)
    if anew and data is not None:
        data.setdefault("ranked_by_encoder", {})[f"stage-{number}"] = anew
        write_json(path, data)


@contextmanager
def _status(folder: Path) -> Iterator[None]:
    write_status(folder, "running")
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as error:
        detail = str(error) or "stopped while no stage was training"
        write_status(folder, "interrupted", f"{detail}; go on with --resume")
        raise Interrupted(f"{folder}: {detail} (go on with --resume)") from None
    except OSError as error:
        _try_status(folder, f"{error.strerror}: {error.filename}")
        raise GradateError(f"{folder}: {error.strerror or error} (make room and go on with --resume)") from error
    except Exception as error:
        _try_status(folder, str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise
    write_status(folder, "finished")


def _try_status(folder: Path, detail: str) -> None:
    try:
        write_status(folder, "failed", detail)
    except OSError:
        # A full disk is one of the failures reported here; the error itself still reaches the user.
        return


def _execute(job: _Job, folder: Path, seed: int, stop: StopSignal) -> Run:
    started = time.perf_counter()
    recipe = job.resolved.recipe
    model = _open_model(recipe, seed, job.trust_remote_code)
    precision = model.precision
    job.observer.note(f"precision {precision.name}: {precision.reason}")
    _drop_other_head(job, model)
    # Random weights differ by the seed, so their measurement is nobody else's.
    before = job.shared.before
    if before is None or recipe.encoder == SHALLOW:
        before = job.shared.before = take_measurement(job.resolved, model, job.locations)
    stages = _train_stages(job, folder, seed, model, precision, stop)
    model.objective = {**objective_json(job.resolved), "recipe": job.name, "seed": seed}
    _remember_prompt(model, recipe.stages[-1].prompts)
    measured = compare_measurements(job.resolved, before, take_measurement(job.resolved, model, job.locations))
    metrics = measured.to_json()
    seconds = time.perf_counter() - started
    run = Run(folder, job.name, seed, tuple(stages), metrics, seconds)
    write_up(run, model, job.resolved, measured)
    write_json(folder / "metrics.json", {**metrics, "stages": [s.to_json() for s in stages], "seconds": seconds})
    return run


def _open_model(recipe: Recipe, seed: int, trust_remote_code: bool) -> GradedModel:
    if recipe.encoder == SHALLOW:
        model = GradedModel(shallow_encoder(seed), precision=recipe.precision, name=SHALLOW)
    else:
        model = GradedModel.from_pretrained(
            recipe.encoder, precision=recipe.precision, trust_remote_code=trust_remote_code
        )
    if is_exported(model.encoder):
        remedy = "train the original, then export what came of it"
        raise InputError("an exported model cannot be trained", where=recipe.encoder, remedy=remedy)
    if recipe.pooling != "own":
        model.encoder = with_pooling(model.encoder, recipe.pooling)
    if recipe.template is not None:
        model.encoder = with_template(model.encoder, recipe.template)
    for number, stage in enumerate(recipe.stages, start=1):
        check_room(model.encoder, stage.max_length, where=f"stages.{number}.max_length")
        check_widths(model.encoder, stage.matryoshka, where=f"stages.{number}.matryoshka")
    return model


def _train_stages(
    job: _Job, folder: Path, seed: int, model: GradedModel, precision: Precision, stop: StopSignal
) -> list[StageResult]:
    recipe, main = job.resolved.recipe, int(os.environ.get("RANK", "0")) == 0
    log = RunLog(folder / "log.jsonl" if main else None)
    results: list[StageResult] = []
    for i, (stage, examples) in enumerate(zip(recipe.stages, job.resolved.stages, strict=True), start=1):
        place = folder / "checkpoints" / f"stage-{i}"
        done = read_json(place / "result.json")
        if done is not None:
            _restore(model, place / "model", job.trust_remote_code)
            results.append(StageResult(**done))
            continue
        _prepare_head(job, model, stage, examples, seed)
        beside = job.resolved.beside[i - 1]
        updates = planned_updates(stage, examples, beside)
        job.observer.stage_started(i, len(recipe.stages), stage, updates)
        ranked = with_own_ranking(model, stage, examples, beside, job.locations)
        if main:
            _note_ranking(folder / "data.json", i, (examples, *beside), (ranked[0], *ranked[1]))
        examples, beside = ranked
        result = _shared_first_stage(job, model, log) if i == 1 and stage.is_convex else None
        if result is None:
            result = run_stage(
                stage,
                model,
                examples,
                folder=place,
                log=log,
                index=i,
                precision=precision,
                seed=seed,
                selection=job.resolved.selections[i - 1],
                beside=beside,
                observer=job.observer,
                stop=stop,
            )
            if i == 1 and stage.is_convex and model.head is not None:
                state = {n: p.detach().clone() for n, p in model.head.state_dict().items()}
                job.shared.first_stage = (state, result, log.records())
        if main:
            model.save(place / "model", overwrite=True)
            write_json(place / "result.json", result.to_json())
            for checkpoint in place.glob("checkpoint-*"):
                shutil.rmtree(checkpoint)
        job.observer.stage_finished(i, result.to_json())
        results.append(result)
    return results


def _prepare_head(job: _Job, model: GradedModel, stage: Stage, examples: Examples, seed: int) -> None:
    if isinstance(examples, Pairs) and stage.objective.needs_head:
        hand_over_head(
            model, examples, lambda: _new_head(job, model, stage, examples), rescale=stage.rescale_head, seed=seed
        )
    elif model.head is not None:
        job.observer.note(f"the head is dropped: {stage.objective.title} moves the encoder and would leave it behind")
        model.head = model.scale = None


def _new_head(job: _Job, model: GradedModel, stage: Stage, pairs: Pairs) -> PairHead:
    config = job.resolved.recipe.head
    outputs = len(pairs.scale.values or ()) if stage.objective.is_classifier else 1
    dim = model.encoder.get_embedding_dimension()
    if dim is None:
        raise InputError("this encoder does not say how wide its embeddings are", where=job.resolved.recipe.encoder)
    head = PairHead(
        dim, concatenation=config.concatenation, outputs=outputs, tied=config.tied, features=config.features
    )
    return head.to(model.encoder.device)


def _drop_other_head(job: _Job, model: GradedModel) -> None:
    """A head that came with the encoder is trained on if it has the recipe's shape; else a new one replaces it."""
    wanted, head = job.resolved.recipe.head, model.head
    outputs = 1 if not job.resolved.recipe.stages[0].objective.is_classifier else None
    if head is None:
        return
    shape = (head.concatenation, head.features, head.tied)
    if shape != (wanted.concatenation, wanted.features, wanted.tied) or (outputs and head.outputs != outputs):
        job.observer.note(f"the head of {model.name} reads {head.concatenation}; the recipe asks for a new one")
        model.head = None


def _shared_first_stage(job: _Job, model: GradedModel, log: RunLog) -> StageResult | None:
    if job.shared.first_stage is None or model.head is None:
        return None
    state, result, records = job.shared.first_stage
    model.head.load_state_dict(state)
    for record in records:
        log.append(record)
    return result


def _restore(model: GradedModel, folder: Path, trust_remote_code: bool) -> None:
    saved = GradedModel.from_pretrained(folder, trust_remote_code=trust_remote_code)
    model.encoder.load_state_dict(saved.encoder.state_dict())
    model.head = saved.head.to(model.encoder.device) if saved.head is not None else None
    model.scale = saved.scale


def _remember_prompt(model: GradedModel, prompt: str | None) -> None:
    if prompt is not None:
        # A model trained behind a prompt must be used behind it, in plain sentence-transformers too.
        model.encoder.prompts = {**model.encoder.prompts, "graded": prompt}
        model.encoder.default_prompt_name = "graded"
