"""Sections of the page: each table's results as Markdown with a plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from benchmarks import encode, evaluate, memory, profile, stage1, train
from benchmarks.flops import TRAINING
from benchmarks.layout import Section, estimate, spread, table
from benchmarks.plot import Bar, Series, bars, curves, number
from benchmarks.summary import Spread, by_round, fit_line, mean_difference, power_law, ratios

MIB, KIB, GIB = 2**20, 2**10, 2**30


def section(found: dict[str, Any]) -> Section:
    """The section of a file of results."""
    made = SECTIONS[found["table"]](found)
    return Section(f"**A quick trial, no measurement.**\n\n{made.markdown}", made.plot) if found["quick"] else made


def best_peak(found: dict[str, Any]) -> dict[str, float]:
    """The highest matrix-product peak of all sessions, by precision."""
    peaks = [session["peak"] for session in found["sessions"] if session["peak"]]
    return {name: max(peak[name] for peak in peaks) for name in ("bf16", "fp32")}


def _part(found: dict[str, Any], part: str) -> list[dict[str, Any]]:
    return [m for m in found["measurements"] if m["part"] == part]


def _values(measurements: Sequence[dict[str, Any]], system: str, key: str) -> list[float]:
    return [m[key] for _, m in sorted(by_round(measurements, system).items()) if key in m]


def _spread_of(measurements: Sequence[dict[str, Any]], system: str, key: str) -> Spread | None:
    values = _values(measurements, system, key)
    return Spread.of(values) if values else None


def _faster(measurements: Sequence[dict[str, Any]], peer: str, ours: str, key: str = "rate") -> str:
    return "" if peer == ours else spread(ratios(measurements, peer, ours, key), unit=" ×")


def _bars(title: str, measured: Sequence[tuple[str, Spread | None]], ours: Sequence[str]) -> str:
    rows = [Bar(name, s.median, s.low, s.high, name in ours) for name, s in measured if s is not None]
    return bars(title, rows)


def _four_times(rate: Spread | None, flop: float, peak: float) -> str:
    """What four times the peer's speed would ask of this machine."""
    if rate is None:
        return ""
    share = 100 * 4 * rate.median * flop / peak
    return f"\n\nFour times sentence-transformers' defaults would be {share:.0f} % of this machine's bf16 peak."


def _candidates(found: dict[str, Any], chosen: str, unit: str) -> str:
    measurements = _part(found, "candidates")
    names = list(dict.fromkeys(m["system"] for m in measurements))
    if not names:
        return ""
    shown = "; ".join(f"{name}: {spread(_spread_of(measurements, name, 'rate'), 0)}" for name in names)
    return f"\n\nTried for its best settings, in {unit}: {shown}. Chosen: {chosen}."


def _train(found: dict[str, Any]) -> Section:
    segments, epochs, pairs = _part(found, "segments"), _part(found, "epochs"), found["settings"]["pairs"]
    peak, flop = best_peak(found)["bf16"], found["facts"]["flop_per_sentence"]
    rows, drawn = [], []
    own = by_round(epochs, train.OURS)
    for name in (train.STOCK, train.BEST, train.PUBLISHED, train.OURS):
        rate = _spread_of(segments, name, "rate")
        if rate is None:
            continue
        drawn.append((name, rate))
        whole, theirs = _spread_of(epochs, name, "seconds"), by_round(epochs, name)
        shared = sorted(own.keys() & theirs.keys())
        difference = None
        if name != train.OURS and shared:
            difference = mean_difference([theirs[r]["average"] for r in shared], [own[r]["average"] for r in shared])
        average = _spread_of(epochs, name, "average")
        rows.append(
            [
                name,
                spread(rate, 0),
                _faster(segments, name, train.OURS),
                f"{100 * rate.median * flop / peak:.0f} %",
                spread(whole, 0) if whole else f"≈ {2 * pairs / rate.median:,.0f}, not run",
                _faster(epochs, name, train.OURS, "seconds"),
                spread(average, 2),
                "" if name == train.OURS else estimate(difference),
            ]
        )
    head = ["", "sentences/s", "gradate is faster by", "share of the bf16 peak", "an epoch, s"]
    head += ["gradate's is faster by", "seven-STS average after it", "gradate's − its, by seed [95 %]"]
    best = train.best_candidate(found)
    note = _candidates(found, f"{best}, whose epoch ends first, compilation included", "sentences/s")
    title = "Training, batch 16: sentences per second"
    note += _four_times(_spread_of(segments, train.STOCK, "rate"), flop, peak)
    return Section(table(head, rows) + note + _seeds(epochs), _bars(title, drawn, [train.OURS]))


def _seeds(epochs: Sequence[dict[str, Any]]) -> str:
    names = [name for name in (train.STOCK, train.BEST, train.OURS) if by_round(epochs, name)]
    if not names:
        return ""
    rounds = sorted({m["round"] for m in epochs})
    rows = []
    for name in names:
        measured = by_round(epochs, name)
        rows.append([name, *(f"{measured[r]['average']:.2f}" if r in measured else "–" for r in rounds)])
    return "\n\n" + table(["seven-STS average", *(f"seed {r + 1}" for r in rounds)], rows)


def _encode(found: dict[str, Any]) -> Section:
    rounds, facts = _part(found, "rounds"), found["facts"]
    peak, names = best_peak(found)["bf16"], (encode.STOCK, encode.BEST, encode.OURS)
    rates = [(name, _spread_of(rounds, name, "rate")) for name in names]
    rows = []
    for name, rate in rates:
        if rate is None:
            continue
        lowest, mean = (_values(rounds, name, key) for key in ("cosine_min", "cosine_mean"))
        rows.append(
            [
                name,
                spread(rate, 0),
                _faster(rounds, name, encode.OURS),
                f"{100 * rate.median * facts['flop_per_sentence'] / peak:.0f} %",
                spread(_spread_of(rounds, name, "seconds")),
                f"{min(lowest):.5f}" if lowest and name != encode.STOCK else "",
                f"{min(mean):.5f}" if mean and name != encode.STOCK else "",
            ]
        )
    head = ["", "sentences/s", "gradate is faster by", "share of the bf16 peak", "seconds"]
    head += ["cosine to fp32, smallest", "mean"]
    size, compiled = encode.best_candidate(found)
    chosen = encode.COMPILED if compiled else encode.candidate_name(size)
    text = table(head, rows) + _candidates(found, chosen, "sentences/s on a sample")
    text += _four_times(dict(rates)[encode.STOCK], facts["flop_per_sentence"], peak) + _tasks(rounds, names)
    return Section(text, _bars("Encoding: sentences per second", rates, [encode.OURS]))


def _tasks(measurements: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    rows = []
    for name in names:
        measured = [m for m in by_round(measurements, name).values() if m.get("tasks")]
        if measured:
            last = measured[-1]
            tasks = (f"{last['tasks'][task]:.2f}" for task in evaluate.TASKS)
            rows.append([name, *tasks, f"{last['average']:.3f}"])
    return "\n\n" + table(["Spearman × 100", *evaluate.TASKS, "average"], rows) if rows else ""


def _evaluate(found: dict[str, Any]) -> Section:
    rounds, names = _part(found, "rounds"), (evaluate.SENTEVAL, evaluate.MTEB, evaluate.FP32, evaluate.OURS)
    seconds = [(name, _spread_of(rounds, name, "seconds")) for name in names]
    version = f" {found['facts']['mteb']}" if "mteb" in found["facts"] else ""
    rows = [
        [name + (version if name == evaluate.MTEB else ""), spread(s), _faster(rounds, name, evaluate.OURS, "seconds")]
        for name, s in seconds
        if s is not None
    ]
    head = ["", "seconds, cold start included", "gradate is faster by"]
    text = table(head, rows) + _tasks(rounds, names)
    title = "Seven-STS evaluation: seconds, cold start included"
    return Section(text, _bars(title, seconds, [evaluate.OURS, evaluate.FP32]))


def _stage1(found: dict[str, Any]) -> Section:
    rounds, epoch, names = _part(found, "rounds"), _part(found, "epoch"), (stage1.STOCK, stage1.COLD, stage1.WARM)
    seconds = [(name, _spread_of(rounds, name, "seconds")) for name in names]
    rows = []
    for name, s in seconds:
        if s is None:
            continue
        losses = [*_values(rounds, name, "loss"), *_values(epoch, name, "loss")]
        rows.append(
            [
                name,
                spread(s),
                _faster(rounds, name, stage1.COLD, "seconds") if name == stage1.STOCK else "",
                _faster(rounds, name, stage1.WARM, "seconds") if name == stage1.STOCK else "",
                f"{losses[-1]:.4f}" if losses else "not run to its end",
            ]
        )
    head = ["", "seconds", "faster with an empty cache by", "with a filled cache by", "mean loss reached"]
    steps = found["settings"]["steps"]
    note = f"\n\nThe trainer's seconds are an epoch's by the speed of {steps} steps in every round"
    if epoch:
        note += f"; run to its end once, its epoch took {number(epoch[-1]['seconds'])} s"
    title = "Stage 1 on NLI: seconds"
    return Section(f"{table(head, rows)}{note}.", _bars(title, seconds, [stage1.COLD, stage1.WARM]))


def _memory(found: dict[str, Any]) -> Section:
    steps, lengths = _part(found, "steps"), found["settings"]["lengths"]
    rows, drawn = [], []
    for contender in memory.CONTENDERS:
        mine = [m for m in steps if m["contender"] == contender.name]
        if not mine:
            continue
        batch = max(m["batch"] for m in mine)
        row = [contender.name, str(batch)]
        lines = []
        for length in lengths:
            here = [m for m in mine if m["length"] == length]
            last = next((m for m in here if m["batch"] == batch), None)
            if last is None:
                row.append("–")
                continue
            row.append(f"{last['peak_bytes'] / GIB:.2f}{' (predicted, not run)' if last['predicted'] else ''}")
            peak = last["peak_bytes"] / GIB
            label = f"{contender.name}, {length}"
            ours = contender.name.startswith("gradate")
            drawn.append(Bar(label, peak, peak, peak, ours, last["predicted"]))
            run = [m for m in here if not m["predicted"]]
            if len({m["tokens"] for m in run}) > 1:
                lines.append(fit_line([m["tokens"] for m in run], [m["peak_bytes"] for m in run]))
        fixed = " / ".join(f"{line.intercept / MIB:,.0f}" for line in lines)
        rows.append([*row, fixed, " / ".join(f"{line.slope.value / KIB:,.0f}" for line in lines)])
    head = ["peak, GiB", "batch", *(f"{length} tokens" for length in lengths)]
    shown = " / ".join(str(length) for length in lengths)
    head += [f"fixed, MiB ({shown})", f"per token, KiB ({shown})"]
    return Section(
        table(head, rows) + _claim(steps), bars("Peak memory of a training step, GiB, by tokens per text", drawn)
    )


def _claim(steps: Sequence[dict[str, Any]]) -> str:
    """The paper's Table 4, here: ours at 256 tokens against SimCSE at 100."""

    def peak(contender: str, length: int, batch: int) -> float | None:
        found = [m for m in steps if (m["contender"], m["length"], m["batch"]) == (contender, length, batch)]
        return found[-1]["peak_bytes"] if found else None

    shown = []
    for ours, theirs in ((memory.FP32, memory.SIMCSE), (memory.OURS, memory.SIMCSE_BF16)):
        own, other = peak(ours, 256, 16), peak(theirs, 100, 512)
        if own and other:
            shown.append(f"{ours} at 16 × 256 takes {own / other:.3f} of {theirs} at 512 × 100")
    return f"\n\n{'; '.join(shown)}." if shown else ""


def _scaling(found: dict[str, Any]) -> Section:
    cells, settings = _part(found, "cells"), found["settings"]
    rows, lines, missing = [], [], []
    for length in settings["lengths"]:
        row, points = [f"{length} tokens"], []
        for pairs in settings["sizes"]:
            seconds = [m["seconds"] for m in cells if (m["length"], m["pairs"]) == (length, pairs)]
            row.append(spread(Spread.of(seconds)) if seconds else "left out")
            points += [(float(pairs), Spread.of(seconds).median)] if seconds else []
            missing += [] if seconds else [f"{pairs:,} pairs of {length} tokens"]
        mine = [m for m in cells if m["length"] == length]
        slope = power_law([m["pairs"] for m in mine], [m["seconds"] for m in mine]) if len(points) > 1 else None
        rows.append([*row, "–" if slope is None else estimate(slope, 3).replace("+", "")])
        lines.append(Series(f"{length} tokens", points))
    head = ["seconds", *(f"{pairs:,} pairs" for pairs in settings["sizes"]), "log-log slope [95 %]"]
    note = ""
    if missing:
        note = f"\n\nLeft out, for they would have taken more than {found['facts']['budget']:,.0f} s: "
        note += f"{'; '.join(missing)}."
    drawn = [line for line in lines if line.points]
    return Section(
        table(head, rows) + note, curves("Encoding and scoring: seconds by pairs", "pairs", "seconds", drawn)
    )


def _profile(found: dict[str, Any]) -> Section:
    rounds, flop, peak = _part(found, "rounds"), found["facts"]["flop_per_sentence"], best_peak(found)["bf16"]
    sentences = {profile.TRAINING: 2 * found["settings"]["batch_size"], profile.ENCODING: 1000}
    columns, drawn, notes = [], [], []
    for system, scale, cores, passes in (
        (profile.TRAINING, 1, 1, TRAINING),
        (profile.ENCODING, 1000, found["sessions"][-1]["threads"], 1),
    ):
        mine = list(by_round(rounds, system).values())
        if not mine:
            continue
        groups = {name: median(m["groups"][name] for m in mine) * scale for name in mine[0]["groups"]}
        whole = sum(groups.values())
        columns.append([f"{1000 * s:.1f} ms, {100 * s / whole:.0f} %" for s in groups.values()])
        columns[-1].append(f"{1000 * whole:.1f} ms")
        columns[-1].append(f"{1000 * scale * median(m['seconds'] for m in mine):.1f} ms")
        drawn += [Bar(f"{system}: {name}", s / whole, s / whole, s / whole, True) for name, s in groups.items()]
        work = sentences[system] * flop * passes
        notes.append(f"{system}, {100 * work * cores / groups[profile.PRODUCTS] / peak:.0f} %")
    names = [*profile.GROUPS, profile.REST, "together, under the profiler", "the same without it"]
    head = ["", f"a step of {sentences[profile.TRAINING]} sentences", "1,000 sentences, one core"]
    text = table(head[: 1 + len(columns)], [list(row) for row in zip(names, *columns, strict=True)])
    note = f"\n\nSpeed of the matrix products alone, as a share of the peak: {'; '.join(notes)}."
    return Section(text + note, bars("Where the time goes, as shares", drawn))


SECTIONS: dict[str, Callable[[dict[str, Any]], Section]] = {
    "train": _train,
    "encode": _encode,
    "evaluate": _evaluate,
    "stage1": _stage1,
    "memory": _memory,
    "scaling": _scaling,
    "profile": _profile,
}
