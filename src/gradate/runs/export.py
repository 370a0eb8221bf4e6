"""The export: a model as an ONNX or OpenVINO graph, with what that costs and gains measured before it appears."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gradate.data.benchmarks import Benchmark, load_seven_sts
from gradate.data.examples import Pairs
from gradate.data.locations import DataLocations
from gradate.data.readers import read_pairs, read_text_pairs
from gradate.data.sources import load_starter
from gradate.engine.precision import resolve_precision
from gradate.errors import GradateError, InputError
from gradate.evaluation.fidelity import Cosines, Speed, compare_graded, embedding_cosines, sample, texts_per_second
from gradate.evaluation.protocol import evaluate
from gradate.evaluation.results import Evaluation
from gradate.models.backends import EXPORT_FILE, BackendName
from gradate.models.export import Written, check_exportable, check_installed, write_exported
from gradate.models.folders import whole_folder
from gradate.models.graded import GradedModel
from gradate.runs.comparison import compare_benchmark
from gradate.runs.folder import write_json
from gradate.scale import LabelScale

COSINE_TEXTS = 5_000
"""Distinct texts whose embeddings are compared, all where there are fewer."""
SPEED_TEXTS = 1_000
FAITHFUL = 0.99
"""Least cosine to the original of a graph that was not quantized; below it the conversion went wrong."""


@dataclass(frozen=True)
class Export:
    """What `gradate export` wrote and measured.

    Args:
        model: The original's name.
        out: The exported folder, as it was named.
        written: The graph.
        cosine: Its embeddings against the original's in fp32.
        quality: The metrics of both on the same pairs, and the paired differences.
        speed: Its speed against that of the original as gradate runs it here.
        notes: What a reader must know.
    """

    model: str
    out: Path
    written: Written
    cosine: Cosines
    quality: dict[str, Any]
    speed: Speed
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The command line's JSON, which also lies in the folder as export.json."""
        return {
            "model": self.model,
            "out": str(self.out),
            **asdict(self.written),
            "cosine": asdict(self.cosine),
            "quality": self.quality,
            "texts_per_second": asdict(self.speed),
            "notes": list(self.notes),
        }


def export(
    model: str | Path,
    out: str | Path,
    backend: BackendName,
    *,
    int8: bool = False,
    data: DataLocations | Sequence[str] | None = None,
    pairs: str | Path | None = None,
    scale: LabelScale | None = None,
    columns: str | Sequence[str] | None = None,
    calibration: str | Path | None = None,
    overwrite: bool = False,
    trust_remote_code: bool = False,
    show_progress: bool = False,
) -> Export:
    """Write a model as a graph for ONNX Runtime or OpenVINO, and measure it against the original.

    The folder appears once everything was measured, or not at all.

    Args:
        model: What `GradedModel.from_pretrained` opens.
        out: The folder to write: missing, empty or, with `overwrite`, an older model.
        backend: `onnx` or `openvino`.
        int8: Quantize to 8-bit numbers.
        data: Where the seven STS sets lie; quality is measured on them then.
        pairs: A file of graded pairs to measure on instead; without both the starter set's test pairs are taken.
        scale: Scale of the file's grades; by default the model's, and without one it is inferred.
        columns: Columns of the file; see `read_pairs`.
        calibration: A file of pairs, grades not needed, on whose texts OpenVINO's int8 ranges are set; by default the
            starter set's training pairs.
        overwrite: Replace a model that stands at `out`.
        trust_remote_code: Run Python code that comes with the model.
        show_progress: Show progress bars on stderr.

    Raises:
        InputError: a package is missing, the encoder cannot be exported, or a file cannot be used.
        GradateError: the conversion failed or went wrong, or the folder cannot be written.
    """
    if data is not None and pairs is not None:
        raise InputError("--data and --pairs are two measurements", remedy="choose one")
    if calibration is not None and not (int8 and backend == "openvino"):
        raise InputError("only OpenVINO's int8 is calibrated", where="--calibration", remedy="leave it out")
    check_installed(backend, int8=int8)
    original = GradedModel.from_pretrained(model, precision="fp32", device="cpu", trust_remote_code=trust_remote_code)
    check_exportable(original, backend, int8=int8)
    measured_on = _measured_on(original, data, pairs, scale, columns)
    texts = _calibration_texts(calibration) if int8 and backend == "openvino" else []
    target = Path(out).expanduser().resolve()
    with whole_folder(target, overwrite=overwrite) as draft:
        written = write_exported(original, draft, backend, int8=int8, calibration=texts)
        exported = GradedModel.from_pretrained(draft, trust_remote_code=trust_remote_code)
        found = _measure(original, exported, measured_on, written, Path(out), show_progress)
        write_json(draft / EXPORT_FILE, found.to_json())
        (draft / "README.md").write_text(_card(found), encoding="utf-8")
    return found


def _measured_on(
    model: GradedModel,
    data: DataLocations | Sequence[str] | None,
    pairs: str | Path | None,
    scale: LabelScale | None,
    columns: str | Sequence[str] | None,
) -> Benchmark | Pairs:
    if data is not None:
        return load_seven_sts(data if isinstance(data, DataLocations) else DataLocations.resolve(data))
    if pairs is not None:
        return read_pairs(pairs, scale=scale or model.scale, columns=columns)
    return replace(load_starter("test"), notes=())  # how its columns were read is news to nobody


def _calibration_texts(file: str | Path | None) -> list[str]:
    if file is None:
        starter = load_starter("train")
        return sample([*starter.text1, *starter.text2], len(starter))
    text1, text2, _ = read_text_pairs(file)
    return [*text1, *text2]


def _measure(
    original: GradedModel,
    exported: GradedModel,
    measured_on: Benchmark | Pairs,
    written: Written,
    out: Path,
    show_progress: bool,
) -> Export:
    texts = _texts(measured_on)
    cosine = embedding_cosines(original, exported, sample(texts, COSINE_TEXTS))
    if written.quantization is None and cosine.min < FAITHFUL:
        what = f"the {written.backend} graph does not compute what the model computes"
        raise GradateError(f"{original.name}: {what} (cosine {cosine.min:.4f} at worst); nothing was written")
    evaluations = [_evaluated(model, measured_on, show_progress) for model in (original, exported)]
    as_used = copy.copy(original)
    as_used.precision = resolve_precision("auto", original.encoder.device)
    speed = texts_per_second(as_used, exported, sample(texts, SPEED_TEXTS))
    notes = list(evaluations[1].notes)
    if written.backend == "onnx" and written.quantization is not None:
        notes.append("activations are quantized batch by batch: an embedding depends a little on the texts beside it")
    notes.append(
        f"the graph computes in {exported.precision.name}, the original was timed in {speed.original_precision}"
    )
    quality = {"measured_on": evaluations[1].benchmark, **_quality(*evaluations)}
    if isinstance(measured_on, Pairs):
        quality["measured_on"] = measured_on.name
    return Export(original.name, out, written, cosine, quality, speed, tuple(notes))


def _texts(measured_on: Benchmark | Pairs) -> list[str]:
    if isinstance(measured_on, Pairs):
        return [*measured_on.text1, *measured_on.text2]
    return [text for pairs in measured_on.text_pairs().values() for pair in pairs for text in pair]


def _evaluated(model: GradedModel, measured_on: Benchmark | Pairs, show_progress: bool) -> Evaluation:
    if isinstance(measured_on, Pairs):
        return evaluate(model, pairs=measured_on, show_progress=show_progress)
    return evaluate(model, measured_on, show_progress=show_progress)


def _quality(before: Evaluation, after: Evaluation) -> dict[str, Any]:
    if before.benchmark != "pairs":
        return compare_benchmark(before, after, resamples=1000).to_json()
    ((first,), (second,)) = (evaluation.tasks.values() for evaluation in (before, after))
    assert first.graded is not None and second.graded is not None
    return compare_graded(first.graded, second.graded)


def _card(found: Export) -> str:
    written, speed = found.written, found.speed
    kind = "int8" if written.quantization else "unquantized"
    return (
        "---\nlibrary_name: sentence-transformers\npipeline_tag: sentence-similarity\n"
        "tags:\n- sentence-transformers\n- sentence-similarity\n- gradate\n"
        f"- {written.backend}\n---\n\n"
        f"# {Path(found.model).name}, exported to {written.backend} ({kind})\n\n"
        f"Cosine to the original's embeddings: {found.cosine.mean:.4f} on average, {found.cosine.min:.4f} at worst "
        f"({found.cosine.texts:,} texts). Speed: {speed.ratio:.2f} × the original in {speed.original_precision} where "
        f"it was exported. Size: {written.bytes / 1e6:.1f} MB for {written.original_bytes / 1e6:.1f} MB. All that was "
        f"measured lies in `{EXPORT_FILE}`.\n\n"
        "```python\nfrom gradate import GradedModel\n\n"
        'GradedModel.from_pretrained("PATH").similarity([("a text", "another")])\n```\n\n'
        f'That needs `pip install "gradate[{written.backend}]"`. Plain sentence-transformers opens the folder with '
        f'`backend="{written.backend}"` where optimum knows its version of transformers.\n'
    )
