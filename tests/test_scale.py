"""The label scale: names, values, spacing, ties, ends, maps between scales."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradate.errors import InputError
from gradate.models.head import PairHead
from gradate.scale import LabelScale

NAMES = LabelScale.from_names(["irrelevant", "slightly", "moderately", "highly"])
UNEVEN = LabelScale.from_values([-1, 0.5, 1, 4])
CONTINUOUS = LabelScale.continuous(0, 5)

# A busy machine must not fail a test by being slow.
unhurried = settings(deadline=None)

numbers = st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: round(v, 3))
scales = st.one_of(
    st.lists(numbers, min_size=2, max_size=8, unique=True).map(lambda v: LabelScale.from_values(sorted(v))),
    st.lists(st.text("abcdefgh", min_size=1), min_size=2, max_size=6, unique=True).map(LabelScale.from_names),
    st.tuples(numbers, numbers).filter(lambda p: p[0] < p[1]).map(lambda p: LabelScale.continuous(*p)),
)


def test_names() -> None:
    assert [NAMES.encode(n) for n in ("irrelevant", "Moderately", " highly ")] == [0.0, 2.0, 3.0]
    assert NAMES.encode(2) == NAMES.encode("2") == 2.0
    assert (NAMES.low, NAMES.high, NAMES.d) == (0.0, 3.0, 1.0)
    assert NAMES.decode(2.875) == "highly" and NAMES.decode(1.333) == "slightly"


def test_names_with_uneven_values() -> None:
    scale = LabelScale.from_names(["no", "some", "yes"], [0, 0.5, 2])
    assert scale.encode("some") == 0.5 and scale.d == 0.5 and scale.decode(1.2) == "some"


def test_uneven_and_non_integer_values() -> None:
    assert UNEVEN.d == 0.5
    assert UNEVEN.classify([-9, -0.3, 0.6, 3, 99]) == [-1.0, -1.0, 0.5, 4.0, 4.0]


def test_ties_go_to_the_lower_grade() -> None:
    assert NAMES.classify([0.5, 1.5, 2.5]) == ["irrelevant", "slightly", "moderately"]
    assert UNEVEN.decode(2.5) == 1.0


def test_clamp_keeps_the_kind_of_its_argument() -> None:
    assert NAMES.clamp(3.57) == 3.0 and NAMES.clamp(-1) == 0.0
    np.testing.assert_array_equal(NAMES.clamp(np.array([-1.0, 2.2, 9.0])), [0.0, 2.2, 3.0])
    assert NAMES.clamp(torch.tensor([-1.0, 2.2, 9.0])).tolist() == pytest.approx([0.0, 2.2, 3.0])


def test_a_continuous_scale_has_no_classes() -> None:
    assert CONTINUOUS.is_continuous and CONTINUOUS.d is None and CONTINUOUS.encode("3.25") == 3.25
    for call in (lambda: CONTINUOUS.decode(1.0), lambda: CONTINUOUS.classify([1.0]), lambda: CONTINUOUS.index([1.0])):
        with pytest.raises(InputError, match="has no classes"):
            call()
    CONTINUOUS.check_x0(4.0)


@pytest.mark.parametrize("x0", [-0.1, 0.51, float("nan"), float("inf")])
def test_x0_beyond_half_the_spacing_is_refused(x0: float) -> None:
    with pytest.raises(InputError, match="x0 = "):
        NAMES.check_x0(x0)


def test_x0_up_to_half_the_smallest_gap() -> None:
    UNEVEN.check_x0(0.25)
    with pytest.raises(InputError, match=r"choose x0 from 0 to 0\.25"):
        UNEVEN.check_x0(0.26)


@pytest.mark.parametrize(
    ("grade", "message"),
    [("highli", "did you mean 'highly'"), (7, "grade 7 is not on the scale"), ("nan", "not a finite number")],
)
def test_grades_off_the_scale(grade: str | float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        NAMES.encode(grade)


def test_off_a_continuous_scale() -> None:
    with pytest.raises(InputError, match=r"grade 5\.01 is off the scale 0\.\.5"):
        CONTINUOUS.encode(5.01)
    with pytest.raises(InputError, match="--scale a,b,c"):
        CONTINUOUS.encode("good")


@pytest.mark.parametrize(
    "build",
    [
        lambda: LabelScale.from_values([1]),
        lambda: LabelScale.from_values([1, 0]),
        lambda: LabelScale.from_values([0, 0, 1]),
        lambda: LabelScale.from_values([0, float("nan")]),
        lambda: LabelScale.from_names(["a", "a"]),
        lambda: LabelScale.from_names(["a", " "]),
        lambda: LabelScale.from_names(["a", "b"], [0, 1, 2]),
        lambda: LabelScale.continuous(5, 5),
        lambda: LabelScale.parse("5..0"),
        lambda: LabelScale.parse("a..b"),
        lambda: LabelScale.parse("only"),
    ],
)
def test_no_scale(build: object) -> None:
    with pytest.raises(InputError):
        build()  # type: ignore[operator]


def test_parse() -> None:
    assert LabelScale.parse("irrelevant, slightly,moderately,highly") == NAMES
    assert LabelScale.parse("-1,0.5,1,4") == UNEVEN
    assert LabelScale.parse("0..5") == CONTINUOUS


@given(scales)
@unhurried
def test_configuration_round_trip(scale: LabelScale) -> None:
    assert LabelScale.from_config(scale.to_config()) == scale


@given(st.lists(numbers, min_size=2, max_size=6, unique=True).map(sorted))
@unhurried
def test_values_parse_from_their_own_text(values: list[float]) -> None:
    scale = LabelScale.from_values(values)
    assert LabelScale.parse(",".join(map(repr, values))) == scale


@given(st.text(max_size=20) | st.text("0123456789.,-e ", max_size=20))
@unhurried
def test_any_text_is_a_scale_or_refused(text: str) -> None:
    try:
        scale = LabelScale.parse(text)
    except InputError:
        return
    assert scale.low < scale.high and (scale.is_continuous or (scale.d is not None and scale.d > 0))


@given(st.lists(numbers | st.integers(-3, 9).map(float), min_size=2, max_size=40))
@unhurried
def test_an_inferred_scale_holds_every_grade(grades: list[float]) -> None:
    if len(set(grades)) < 2:
        return
    scale, _ = LabelScale.infer(grades)
    assert [scale.encode(g) for g in grades] == grades


@given(scales, st.data())
@unhurried
def test_decode_inverts_encode(scale: LabelScale, data: st.DataObject) -> None:
    if scale.values is None:
        return
    labels = scale.names or scale.values
    label = data.draw(st.sampled_from(labels))
    assert scale.decode(scale.encode(label)) == label


@given(scales, st.floats(-1e7, 1e7))
@unhurried
def test_the_nearest_grade_is_the_nearest(scale: LabelScale, value: float) -> None:
    if scale.values is None:
        return
    distances = np.abs(np.array(scale.values) - value)
    found = int(scale.index([value])[0])
    assert distances[found] == pytest.approx(distances.min(), abs=1e-9)
    assert scale.low <= scale.clamp(value) <= scale.high


@given(scales, scales, st.floats(0, 1))
@unhurried
def test_rescaling_maps_ends_to_ends_and_back(one: LabelScale, two: LabelScale, share: float) -> None:
    value = one.low + share * (one.high - one.low)
    there = one.rescale([one.low, value, one.high], two)
    assert there[0] == two.low
    assert there[2] == pytest.approx(two.high, abs=1e-9 * max(1.0, abs(two.low)))
    back = two.rescale(there, one)
    assert back[1] == pytest.approx(value, abs=1e-6 * max(1.0, one.high - one.low, abs(value)))
    s, t = one.map_to(two)
    assert s * value + t == pytest.approx(there[1], rel=1e-6, abs=1e-6 * max(1.0, abs(two.low), abs(two.high), abs(t)))


def test_sick_to_stsb_is_the_papers_formula() -> None:
    y = np.linspace(1, 5, 41).round(1)
    np.testing.assert_array_equal(LabelScale.continuous(1, 5).rescale(y, CONTINUOUS), (y - 1) * 5 / 4)


def test_nli() -> None:
    scale = LabelScale.from_names(["contradiction", "neutral", "entailment"])
    assert [scale.encode(n) for n in ("contradiction", "neutral", "entailment")] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("grades", "scale"),
    [
        ([0, 1, 3], LabelScale.from_values([0, 1, 2, 3])),
        ([0, 0.5, 1.0], LabelScale.from_values([0, 0.5, 1])),
        (np.linspace(0, 4.8, 25), LabelScale.continuous(0, 5)),
        (np.linspace(1, 5, 41), LabelScale.continuous(1, 5)),
        (np.linspace(0, 0.99, 33), LabelScale.continuous(0, 1)),
        (np.linspace(-7, 33, 33), LabelScale.continuous(-7, 33)),
    ],
)
def test_inference(grades: list[float], scale: LabelScale) -> None:
    found, reason = LabelScale.infer(grades)
    assert found == scale and reason


def test_nothing_to_infer_from_one_grade() -> None:
    with pytest.raises(InputError, match="nothing to order"):
        LabelScale.infer([2.0, 2.0])


def test_a_head_on_another_scale_predicts_the_same_grades() -> None:
    torch.manual_seed(0)
    head, two = PairHead(6), LabelScale.continuous(0, 5)
    one = LabelScale.from_names(["contradiction", "neutral", "entailment"])
    u, v = torch.randn(20, 6), torch.randn(20, 6)
    before = head(u, v).double()
    s, t = one.map_to(two)
    head.rescale(s, t)
    torch.testing.assert_close(head(u, v).double(), s * before + t, atol=1e-5, rtol=1e-6)
