"""`gradate check`: the audit of a file of pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradate.cli.options import ColumnsOption, DataOption, JsonOption, ScaleOption, TrustOption, parse_scale
from gradate.cli.output import facts, open_output, table

if TYPE_CHECKING:
    from gradate.data.locations import DataLocations

BLOCKED = 3
SHOWN_PROBLEMS = 20
SEVEN_STS = "seven-sts"


def check(
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help="A .csv, .tsv, .jsonl or .parquet file of pairs.")],
    scale: ScaleOption = None,
    columns: ColumnsOption = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Count the texts beyond this encoder's limit.")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE|seven-sts", help="Look for pairs that stand in this test set too; repeats."),
    ] = None,
    data: DataOption = None,
    trust_remote_code: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Audit pairs before training; exit code 3 when something must be mended first."""
    with open_output(as_json) as output:
        from gradate.data.audit import audit_pairs
        from gradate.data.locations import DataLocations

        encoder = None
        if model is not None:
            from gradate.models.graded import GradedModel

            encoder = GradedModel.from_pretrained(model, trust_remote_code=trust_remote_code).encoder
        audit = audit_pairs(
            pairs,
            scale=parse_scale(scale),
            columns=columns,
            tokenizer=None if encoder is None else encoder.tokenizer,
            max_tokens=None if encoder is None else encoder.max_seq_length,
            against=_tests(against or [], DataLocations.resolve(data)),
        )
        found = audit.to_json()
        output.note(*found["notes"])
        problems = found["problems"]
        overview = {
            "rows": found["rows"],
            "scale": found["scale"],
            "duplicates": _counts(found["duplicates"]),
            "conflicts": found["conflicts"],
            "leaks": _counts(found["leaks"]),
            "grades": ", ".join(f"{grade}: {count}" for grade, count in found["imbalance"]["counts"].items()),
            "empty texts": found["empty"],
            "truncated texts": found["truncated"],
            "problems": len(problems),
        }
        rows = [(problem["row"], problem["kind"], problem["detail"]) for problem in problems[:SHOWN_PROBLEMS]]
        output.result(found, facts(overview), *([table(("row", "problem", "detail"), rows)] if rows else []))
        if len(problems) > SHOWN_PROBLEMS:
            output.note(f"… and {len(problems) - SHOWN_PROBLEMS:,} more; --json lists all")
        if audit.blocking:
            output.note("blocked: mend the problems above before training")
            raise typer.Exit(BLOCKED)


def _tests(names: list[str], locations: DataLocations) -> dict[str, list[tuple[str, str]]]:
    """The test pairs to look for, by the name of their set."""
    from gradate.data.benchmarks import load_seven_sts
    from gradate.data.readers import read_text_pairs

    tests: dict[str, list[tuple[str, str]]] = {}
    for name in names:
        if name == SEVEN_STS:
            tests |= load_seven_sts(locations).text_pairs()
        else:
            first, second, _ = read_text_pairs(name)
            tests[name] = list(zip(first, second, strict=True))
    return tests


def _counts(found: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in found.items())
