"""Pairs proposed for annotation: every band served, no text worn out, the same again by seed."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from gradate.data.leakage import fold
from gradate.engine.encoding import Encoded
from gradate.errors import InputError
from gradate.models.graded import GradedModel
from gradate.runs.mine import propose_pairs
from tests.tiny import tiny_encoder


@pytest.fixture(scope="module")
def model() -> GradedModel:
    return GradedModel(tiny_encoder(), precision="fp32")


@pytest.fixture
def on_a_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Embeddings by the number that a text ends in: degrees on a circle."""

    def encode(encoder: object, texts: list[str], **_settings: object) -> Encoded:
        angles = np.radians([float(text.split()[-1]) for text in texts])
        return Encoded(np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32), np.arange(len(texts)))

    monkeypatch.setattr("gradate.runs.mine.encode_distinct", encode)


TEXTS = [f"text {angle}" for angle in range(0, 180, 3)]


def _cosine(pair: tuple[str, str]) -> float:
    return float(np.cos(np.radians(int(pair[0].split()[-1]) - int(pair[1].split()[-1]))))


def test_every_band_is_served_alike_and_no_text_is_worn_out(model: GradedModel, on_a_circle: None) -> None:
    found = propose_pairs(TEXTS, model, count=52, bands=[0.0, 0.5, 0.9], per_text=3)
    assert [(band.name, band.asked, band.found) for band in found.bands] == [
        ("below 0", 13, 13),
        ("0 to 0.5", 13, 13),
        ("0.5 to 0.9", 13, 13),
        ("from 0.9", 13, 13),
    ]
    pairs = list(zip(found.text1, found.text2, strict=True))
    assert max(Counter(text for pair in pairs for text in pair).values()) <= 3
    assert len({frozenset(pair) for pair in pairs}) == 52 and not found.notes
    np.testing.assert_allclose(found.similarity, [_cosine(pair) for pair in pairs], atol=1e-6)
    places = np.searchsorted([0.0, 0.5, 0.9], found.similarity, side="right")
    assert found.band == [found.bands[place].name for place in places]
    assert found.band != sorted(found.band)


@pytest.mark.parametrize("elements", [1, 500, 100_000])
def test_counts_of_the_bands_are_those_of_all_pairs(model: GradedModel, on_a_circle: None, elements: int) -> None:
    found = propose_pairs(TEXTS, model, bands=[0.01, 0.51], elements=elements)
    slow = Counter(int(np.searchsorted([0.01, 0.51], _cosine(pair), side="right")) for pair in combinations(TEXTS, 2))
    assert [band.held for band in found.bands] == [slow[place] for place in range(3)]
    same = propose_pairs(TEXTS, model, bands=[0.01, 0.51])
    assert (found.text1, found.text2) == (same.text1, same.text2)


def test_the_seed_decides(model: GradedModel, on_a_circle: None) -> None:
    one, again, other = (propose_pairs(TEXTS, model, count=20, seed=seed) for seed in (1, 1, 2))
    assert one.columns() == again.columns() != other.columns()


def test_what_is_left_out_or_short_is_said(model: GradedModel, on_a_circle: None) -> None:
    texts = ["text 0", "TEXT  0", "text 0", "", " ", "text 90", "text 1"]
    found = propose_pairs(texts, model, count=6, bands=[0.5], per_text=1)
    assert found.texts == 3 and {fold(text) for text in (*found.text1, *found.text2)} <= {
        "text 0",
        "text 1",
        "text 90",
    }
    assert found.notes == (
        "empty texts, left out: 2",
        "repeated texts, left out: 2",
        "below 0.5: 0 pairs where 3 were asked for; it holds 2, and a text may stand in 1",
        "from 0.5: 1 pairs where 3 were asked for; it holds 1, and a text may stand in 1",
    )
    assert found.to_json()["bands"][1] == {"name": "from 0.5", "asked": 3, "found": 1, "held": 1}


def test_a_real_encoder_and_a_table_to_fill_in(model: GradedModel) -> None:
    found = propose_pairs(["a b c", "a b d", "x y z", "k"], model, count=4, bands=[0.99])
    columns = found.columns()
    assert list(columns) == ["text1", "text2", "grade", "similarity", "band"]
    assert columns["grade"] == [None] * len(found) and len(found) > 0
    expected = model.similarity(list(zip(found.text1, found.text2, strict=True)))
    np.testing.assert_allclose(found.similarity, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["a", "A "], {}, "1 different texts make no pair"),
        (["a", "b"], {"bands": [0.4, 0.2]}, "'0.4,0.2' does not rise between -1 and 1"),
        (["a", "b"], {"bands": [1.0]}, "does not rise"),
        (["a", "b"], {"bands": [float("nan")]}, "does not rise"),
        (["a", "b"], {"bands": []}, "does not rise"),
        (["a", "b"], {"count": 0}, "ask for at least 1"),
    ],
)
def test_refusals(model: GradedModel, texts: list[str], options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        propose_pairs(texts, model, **options)  # type: ignore[arg-type]
