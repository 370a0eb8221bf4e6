"""The model card: `README.md` of a saved model, with the front matter the Hub reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from gradate.errors import InputError
from gradate.evaluation.significance import Interval
from gradate.models.bundled import BASE_MODEL
from gradate.scale import LabelScale


@dataclass(frozen=True)
class CardSource:
    """One set of pairs a model was trained, selected or tested on.

    Args:
        role: What it was for: `train`, `selection`, `test`.
        name: Name of the source or stem of the file; never a path of the machine it lay on.
        pairs: Number of pairs.
        fingerprint: `Pairs.fingerprint()` or `Benchmark.fingerprint()`.
        note: Anything a reader must know of it.
    """

    role: str
    name: str
    pairs: int
    fingerprint: str
    note: str = ""


@dataclass(frozen=True)
class CardMetric:
    """One measured number.

    Args:
        dataset: Name of the test set or task.
        metric: A metric of `gradate.evaluation.grading.METRICS`, such as `spearman_cosine`.
        value: The value; correlations × 100.
        interval: Its bootstrap interval, if one was computed.
        before: The same number of the base model.
    """

    dataset: str
    metric: str
    value: float
    interval: Interval | None = None
    before: float | None = None


@dataclass(frozen=True)
class CardData:
    """What a model card says.

    Args:
        name: Heading, and the model's name in the Hub's results.
        base_model: The model that was tuned: a Hub name, or `bundled`.
        recipe: Name of the recipe.
        objective: Loss of the last stage and its parameters.
        scale: Scale of the head's predictions; None without a head.
        sources: Data with sizes and fingerprints.
        metrics: Numbers measured.
        protocol: How they were measured, one sentence.
        seeds: Seeds of the run.
        in_domain: Benchmark tasks whose own training data was trained on.
        tags: Further tags.
        licence: SPDX-like identifier the Hub knows; None leaves it out.
        language: ISO 639-1 code; None leaves it out.
        environment: Versions, precision.
        notes: Further human lines.
        citation: BibTeX.
    """

    name: str
    base_model: str
    recipe: str
    objective: Mapping[str, Any] = field(default_factory=dict)
    scale: LabelScale | None = None
    sources: tuple[CardSource, ...] = ()
    metrics: tuple[CardMetric, ...] = ()
    protocol: str = ""
    seeds: tuple[int, ...] = ()
    in_domain: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    licence: str | None = None
    language: str | None = "en"
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    citation: str = ""


def model_card(data: CardData) -> str:
    """The card as Markdown with YAML front matter.

    Raises:
        InputError: no name.
    """
    if not data.name.strip():
        raise InputError("a model card needs a name", where="name")
    front = yaml.safe_dump(_front_matter(data), sort_keys=False, allow_unicode=True, width=1000)
    parts = [
        f"# {_line(data.name)}",
        _summary(data),
        _usage(data),
        _scale(data.scale),
        _results(data),
        _training(data),
        _bullets("Notes", data.notes),
        f"## Citation\n\n```bibtex\n{data.citation.strip()}\n```" if data.citation.strip() else "",
    ]
    return f"---\n{front}---\n\n" + "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(data: CardData) -> dict[str, Any]:
    front: dict[str, Any] = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": list(dict.fromkeys(["sentence-transformers", "sentence-similarity", "gradate", *data.tags])),
    }
    if data.language:
        front["language"] = [data.language]
    if data.licence:
        front["license"] = data.licence
    hub_name = _hub_name(data.base_model)
    if hub_name is not None:
        front["base_model"] = hub_name
    if data.metrics:
        front["metrics"] = list(dict.fromkeys(metric.metric for metric in data.metrics))
        front["model-index"] = [{"name": _one_line(data.name), "results": _model_index(data.metrics)}]
    return front


def _model_index(metrics: Sequence[CardMetric]) -> list[dict[str, Any]]:
    """The Hub's form of results, grouped by data set."""
    grouped: dict[str, list[CardMetric]] = {}
    for metric in metrics:
        grouped.setdefault(metric.dataset, []).append(metric)
    return [
        {
            "task": {"type": "semantic-similarity", "name": "Semantic Similarity"},
            "dataset": {"type": re.sub(r"[^\w.-]+", "-", dataset).strip("-") or "unknown", "name": _one_line(dataset)},
            "metrics": [{"type": m.metric, "value": float(m.value), "name": _heading(m.metric)} for m in measured],
        }
        for dataset, measured in grouped.items()
    ]


def _summary(data: CardData) -> str:
    head = (
        f" A pair head beside it (`graded_head/`) predicts grades on the scale {_code(str(data.scale))}."
        if data.scale is not None
        else ""
    )
    text = (
        f"A sentence embedding model whose similarity follows graded pairs: {_code(_base_name(data.base_model))} tuned"
        f" with gradate, recipe {_code(data.recipe)}.{head}"
    )
    if data.in_domain:
        tasks = _and(data.in_domain)
        text += (
            f"\n\n**In-domain supervised:** the training data of {tasks} was used, so the results on {tasks} are"
            " in-domain supervised results, not transfer, and not comparable with zero-shot ones."
        )
    return text


def _usage(data: CardData) -> str:
    plain = (
        "## Use\n\nIn plain sentence-transformers:\n\n"
        "```python\nfrom sentence_transformers import SentenceTransformer\n\n"
        'model = SentenceTransformer("PATH")\nembeddings = model.encode(["first text", "second text"])\n'
        "similarity = model.similarity(embeddings[0], embeddings[1])\n```\n\nIn gradate:\n\n"
        '```python\nfrom gradate import GradedModel\n\nmodel = GradedModel.from_pretrained("PATH")\n'
        'pairs = [("first text", "second text")]\nmodel.similarity(pairs)   # cosines\n'
    )
    if data.scale is not None:
        plain += "model.predict(pairs)      # values on the scale\n"
        if not data.scale.is_continuous:
            plain += "model.classify(pairs)     # nearest grades\n"
    return plain + "```"


def _scale(scale: LabelScale | None) -> str:
    if scale is None:
        return ""
    if scale.values is None:
        return f"## Scale\n\nContinuous, from {scale.low:g} to {scale.high:g}."
    labels = scale.names or tuple(f"{value:g}" for value in scale.values)
    rows = "\n".join(f"| {_cell(label)} | {value:g} |" for label, value in zip(labels, scale.values, strict=True))
    return f"## Scale\n\n| grade, low to high | value |\n| --- | ---: |\n{rows}"


def _results(data: CardData) -> str:
    if not data.metrics:
        return ""
    with_before = any(metric.before is not None for metric in data.metrics)
    with_interval = any(metric.interval is not None for metric in data.metrics)
    head = [
        "data",
        "metric",
        *(["before"] if with_before else []),
        "value",
        *(["95 % interval"] if with_interval else []),
    ]
    rows = []
    for metric in data.metrics:
        cells = [_cell(metric.dataset), _cell(_heading(metric.metric))]
        if with_before:
            cells.append("–" if metric.before is None else _number(metric, metric.before))
        cells.append(_number(metric, metric.value))
        if with_interval:
            cells.append(_span(metric))
        rows.append("| " + " | ".join(cells) + " |")
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |", *rows]
    protocol = f"{_line(data.protocol)}\n\n" if data.protocol else ""
    return f"## Results\n\n{protocol}" + "\n".join(lines)


def _training(data: CardData) -> str:
    facts = [f"- recipe: {_code(data.recipe)}"]
    if data.objective:
        inner = ", ".join(f"{key} = {value}" for key, value in data.objective.items() if key != "name")
        name = data.objective.get("name", "")
        facts.append(f"- loss: {_code(str(name))}" + (f" ({_line(inner)})" if inner else ""))
    if data.seeds:
        facts.append(f"- {'seed' if len(data.seeds) == 1 else 'seeds'}: {', '.join(map(str, data.seeds))}")
    facts += [f"- {_line(str(key))}: {_line(str(value))}" for key, value in data.environment.items()]
    text = "## Training\n\n" + "\n".join(facts)
    if data.sources:
        rows = "\n".join(
            f"| {_cell(s.role)} | {_cell(s.name)} | {s.pairs:,} | {_code(s.fingerprint)} | {_cell(s.note)} |"
            for s in data.sources
        )
        text += f"\n\n| role | data | pairs | fingerprint | note |\n| --- | --- | ---: | --- | --- |\n{rows}"
    return text


def _bullets(title: str, lines: Sequence[str]) -> str:
    return f"## {title}\n\n" + "\n".join(f"- {_line(line)}" for line in lines) if lines else ""


def _heading(metric: str) -> str:
    known = {"mae": "mean absolute error", "qwk": "quadratic weighted kappa", "accuracy": "grade accuracy"}
    return known.get(metric, metric.replace("_", " "))


def _number(metric: CardMetric, value: float) -> str:
    """A correlation with two decimals, as the literature prints it; anything else with three."""
    return f"{value:.{2 if metric.metric.startswith(('spearman', 'pearson')) else 3}f}"


def _span(metric: CardMetric) -> str:
    span = metric.interval
    if span is None or span.low is None or span.high is None:
        return "–"
    return f"{_number(metric, span.low)} … {_number(metric, span.high)}"


def _hub_name(base_model: str) -> str | None:
    """The base model if the Hub can link it: `owner/name`, or what `bundled` is."""
    if base_model == "bundled":
        return BASE_MODEL
    return base_model if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", base_model) else None


def _base_name(base_model: str) -> str:
    """The base model without the folders it lay in, which are nobody's business."""
    return base_model if _hub_name(base_model) else re.split(r"[\\/]", base_model.rstrip("\\/"))[-1]


def _code(text: str) -> str:
    return "`" + _one_line(text).replace("`", "'") + "`"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _line(text: str) -> str:
    """Text on one line of Markdown, with no markup of its own."""
    return re.sub(r"([\\`*_<>\[\]])", r"\\\1", _one_line(text))


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")


def _and(items: Sequence[str]) -> str:
    names = [_line(item) for item in items]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
