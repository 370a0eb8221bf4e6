"""Every shipped recipe runs to its end on a tiny encoder, the benchmark ones on made-up data of the official shape."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gradate.runs.recipe import list_recipes, load_recipe
from gradate.runs.results import Run
from gradate.runs.run import train
from tests.beir import write_beir
from tests.senteval_layout import write_layout

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("senteval")
    write_layout(folder)
    nli = folder / "nli.tsv"
    rows = [
        f"x\ttrain\tp {a} q\t{b} r\t{label}"
        for label in ("entailment", "neutral", "contradiction")
        for a, b in ("ab", "cd", "ef")
    ]
    nli.write_text("source\tsplit\tpremise\thypothesis\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    sentences = folder / "sentences.txt"
    sentences.write_text("\n".join("abcdefgh"), encoding="utf-8")
    sets = [f"beir/{name}={write_beir(folder / name)}" for name in ("scifact", "cranfield")]
    return [str(folder), f"nli={nli}", f"sentences={sentences}", *sets]


@pytest.mark.parametrize("name", list_recipes())
def test_runs_to_its_end(name: str, encoder_folder: Path, pairs_csv: Path, layout: list[str], tmp_path: Path) -> None:
    recipe = load_recipe(name)
    overrides = [f"encoder={encoder_folder}", "precision=fp32", "evaluation.intervals=20"]
    if "/" in recipe.encoder:
        # Their measurement is that of the others, and takes most of the time.
        overrides.append("evaluation.source=none")
    overrides += [f"stages.{i}.epochs=0.02" for i, stage in enumerate(recipe.stages, start=1) if not stage.is_convex]
    if recipe.stages[0].source == "scifact":
        overrides += [f"stages.1.negatives.{key}" for key in ("pool=3", "skip=1", "count=2")]
    overrides += [f"stages.{i}.lora.bits=null" for i, stage in enumerate(recipe.stages, start=1) if stage.lora.bits]
    overrides += [f"stages.{i}.matryoshka=[8]" for i, stage in enumerate(recipe.stages, start=1) if stage.matryoshka]
    run = train(
        name,
        pairs=pairs_csv if recipe.needs_pairs else None,
        data=layout,
        out=tmp_path / "run",
        overrides=overrides,
    )
    assert isinstance(run, Run) and run.report.is_file()
    found = json.loads(json.dumps(run.to_json(), allow_nan=False))
    card = (run.model / "README.md").read_text(encoding="utf-8")
    if recipe.evaluation.source == "seven-sts":
        assert ("in-domain supervised" in card.lower()) == bool(recipe.in_domain)
    assert ("cut off as well, at widths 8" in card) == any(stage.matryoshka for stage in recipe.stages)
    assert set(recipe.evaluation.retrieval) == set(found.get("retrieval", {}).get("after", {}))
    if "/" in recipe.encoder:
        assert found["after"] is None
    elif recipe.evaluation.source == "seven-sts":
        assert list(found["after"]["tasks"]) == ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R"]
        assert found["difference"]["average"].keys() >= {"value", "low", "high"}
        assert pq.read_table(run.folder / "predictions" / "SICK-R.parquet").num_rows == 4927
        page = run.report.read_text(encoding="utf-8")
        assert "STS12" in page and "average" in page
    else:
        assert found["after"]["n"] > 0
