"""Table `profile`: where gradate's time goes, in a step of training and in encoding on one core."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.harness import Results, System
from benchmarks.run import Run, sample

TRAINING, ENCODING = "training, all cores", "encoding, one core"
PRODUCTS, REST = "matrix products", "Python, autograd, tokenizer, waiting"
GROUPS: Mapping[str, tuple[str, ...]] = {
    PRODUCTS: ("mm", "addmm", "bmm", "baddbmm", "linear", "_linear_pointwise"),
    "copies, casts, gathers": (
        *("copy_", "cat", "index_select", "index_copy_", "index_add_", "index_fill_", "index", "gather"),
        *("fill_", "zero_", "masked_fill_", "embedding", "embedding_dense_backward"),
    ),
    "GELU": ("gelu", "gelu_backward"),
    "softmax": ("_softmax", "_softmax_backward_data"),
    "layer norm": ("native_layer_norm", "native_layer_norm_backward"),
    "dropout's random bits": ("random_", "ge", "bitwise_and"),
    "sums, products, roots of elements": (
        *("add", "add_", "sub", "mul", "mul_", "div", "div_", "sum", "mean", "pow", "sqrt", "clamp", "clamp_min"),
        *("neg", "abs", "where", "linalg_vector_norm", "_foreach_norm", "_foreach_mul_", "addcmul", "addcdiv"),
    ),
    "AdamW": ("_fused_adamw_",),
}
"""Kinds of work, by the names of torch's operators."""
ROUNDS, STEPS, SKIPPED, TEXTS = 3, 48, 16, 4096


def measure(run: Run) -> Results:
    """Training and encoding in turn, each under torch's profiler."""
    from benchmarks import ours
    from benchmarks.encode import count_work
    from benchmarks.job import TrainingJob

    steps, skipped, texts = (2, 1, 64) if run.quick else (STEPS, SKIPPED, TEXTS)
    pairs = sample(run.inputs.corpus, (steps + skipped) * TrainingJob.batch_size)
    sentences = list(dict.fromkeys([*pairs.text1, *pairs.text2]))[:texts]
    settings = {"steps": steps, "skipped": skipped, "batch_size": TrainingJob.batch_size, "texts": len(sentences)}
    with run.results(settings) as results, tempfile.TemporaryDirectory() as folder:
        count_work(run, results, sentences)
        head = Path(folder) / "head"
        ours.fit_initial_head(run.inputs.encoder, pairs, head, TrainingJob.k, TrainingJob.x0)
        job = TrainingJob(run.inputs.encoder, head, pairs)
        systems = [
            System(TRAINING, build_training, {"job": job, "steps": steps, "skipped": skipped}),
            System(ENCODING, build_encoding, {"encoder": run.inputs.encoder, "texts": sentences}),
        ]
        run.interleave(results, "rounds", systems, 1 if run.quick else ROUNDS)
    return results


def build_training(job: Any, steps: int, skipped: int) -> Callable[[int], dict[str, Any]]:
    """Measures the same steps twice: under the profiler, and without it."""
    from torch.profiler import ProfilerActivity, profile

    from benchmarks.job import Clock
    from benchmarks.ours import GradateTrainer

    class ProfilingClock(Clock):
        def __init__(self) -> None:
            super().__init__()
            self.stack, self.found = ExitStack(), profile(activities=[ProfilerActivity.CPU])

        def tick(self) -> None:
            if self.steps == steps + skipped - 1:
                self.stack.close()
            super().tick()
            if self.steps == skipped:
                self.stack.enter_context(self.found)
                self.ticks[-1] = time.perf_counter()

    trainer = GradateTrainer(job)

    def measure(number: int) -> dict[str, Any]:
        plain, profiled = Clock(), ProfilingClock()
        trainer.train(job.pairs, number, plain)
        trainer.train(job.pairs, number, profiled)
        seconds = profiled.seconds(skipped) / steps
        groups = grouped(profiled.found.key_averages(), seconds, steps)
        return {"seconds": plain.seconds(skipped) / steps, "profiled": seconds, "groups": groups}

    return measure


def build_encoding(encoder: Path, texts: list[str]) -> Callable[[int], dict[str, Any]]:
    """Measures the encoding of the same texts twice: under the profiler, and without it."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from gradate.engine.encoding import encode_distinct
    from gradate.engine.precision import resolve_precision
    from gradate.models.graded import GradedModel

    model = GradedModel.from_pretrained(encoder).encoder
    precision = resolve_precision("auto", model.device)

    def timed() -> float:
        start = time.perf_counter()
        encode_distinct(model, texts, precision=precision)
        return (time.perf_counter() - start) / len(texts)

    def measure(number: int) -> dict[str, Any]:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            timed()
            plain = timed()
            with profile(activities=[ProfilerActivity.CPU]) as found:
                seconds = timed()
        finally:
            torch.set_num_threads(threads)
        groups = grouped(found.key_averages(), seconds, len(texts))
        return {"seconds": plain, "profiled": seconds, "groups": groups}

    return measure


def grouped(events: Iterable[Any], seconds: float, parts: int) -> dict[str, float]:
    """Seconds of each kind of work in one of `parts` parts that take `seconds` each.

    Args:
        events: The profiler's averages: `key` and `self_cpu_time_total` in microseconds.
        seconds: A part's seconds on the clock; what no operator accounts for is the rest.
        parts: Steps or texts that were profiled.
    """
    kinds = {
        f"{space}::{name}": kind for kind, names in GROUPS.items() for name in names for space in ("aten", "mkldnn")
    }
    found = dict.fromkeys([*GROUPS, REST], 0.0)
    for event in events:
        if event.key in kinds:
            found[kinds[event.key]] += event.self_cpu_time_total / 1e6 / parts
    found[REST] = max(0.0, seconds - sum(found.values()))
    return found
