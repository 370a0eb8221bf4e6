"""Mappings to dataclasses: keys, types and defaults, each refusal with its dotted key and a remedy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradate.errors import InputError
from gradate.runs.schema import build, departures, nearest, to_mapping


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1
    kind: Literal["flat", "steep"] = "flat"

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise InputError(f"rate = {self.rate} is out of range", where="rate", remedy="above 0")


@dataclass(frozen=True)
class Outer:
    name: str
    count: int = 1
    size: int | Literal["auto"] = "auto"
    share: float | None = None
    on: bool = False
    inner: Inner = field(default_factory=Inner)
    maybe: Inner | None = None
    many: tuple[Inner, ...] = ()
    words: tuple[str, ...] = ()


def made(**values: Any) -> Outer:
    return build(Outer, {"name": "x", **values}, where="file.yaml")


def test_defaults_stand_where_nothing_is_said() -> None:
    assert made() == Outer("x")


def test_nested_and_repeated() -> None:
    found = made(inner={"rate": 2}, many=[{"kind": "steep"}, {}], maybe={"rate": 3}, words=["a", "b"])
    assert found.inner == Inner(2.0) and found.maybe == Inner(3.0) and found.words == ("a", "b")
    assert found.many == (Inner(kind="steep"), Inner())


@pytest.mark.parametrize(("written", "number"), [("1e-4", 1e-4), (3, 3.0), ("2.5", 2.5), (0.5, 0.5)])
def test_numbers_in_the_forms_yaml_leaves_them(written: object, number: float) -> None:
    found = made(share=written)
    assert found.share == number and isinstance(found.share, float)


@pytest.mark.parametrize("value", ["auto", 4])
def test_a_union_takes_each_of_its_types(value: object) -> None:
    assert made(size=value).size == value


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cuont": 1}, r"^file.yaml: unknown key 'cuont' \(did you mean 'count'\?\)$"),
        ({"zzz": 1}, "one of name, count, size"),
        ({"inner": {"raet": 1}}, r"unknown key 'inner.raet' \(did you mean 'rate'\?\)"),
        ({"many": [{}, {"kid": "flat"}]}, r"unknown key 'many\[2\].kid'"),
        ({"count": 1.5}, r"count = 1.5 has the wrong type \(expected a whole number\)"),
        ({"count": "2"}, "expected a whole number"),
        ({"count": True}, "expected a whole number"),
        ({"count": None}, "expected a whole number"),
        ({"on": 1}, "expected true or false"),
        ({"name": 3}, "expected text"),
        ({"share": True}, "share = True has the wrong type"),
        ({"share": "much"}, r"expected a number or null"),
        ({"size": "atuo"}, r"size = 'atuo' has the wrong type \(expected a whole number or auto\)"),
        ({"inner": {"kind": "step"}}, r"inner.kind = 'step' is not allowed \(did you mean 'steep'\?\)"),
        ({"inner": [1]}, "inner must be a mapping"),
        ({"inner": None}, "inner must be a mapping"),
        ({"maybe": 5}, "maybe must be a mapping"),
        ({"words": "a"}, "words = 'a' must be a list"),
        ({"words": ["a", 2]}, r"words\[2\] = 2 has the wrong type"),
        ({"many": [{"rate": -1}]}, r"^file.yaml: many\[1\]: rate = -1.0 is out of range \(above 0\)$"),
        ({"maybe": {"rate": 0}}, r"maybe: rate = 0.0 is out of range"),
    ],
)
def test_refusals_name_the_key(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        made(**values)


def test_a_required_key_and_a_recipe_that_is_no_mapping() -> None:
    with pytest.raises(InputError, match=r"file\.yaml: key 'name' is missing"):
        build(Outer, {}, where="file.yaml")
    with pytest.raises(InputError, match="the recipe must be a mapping of keys to values, got None"):
        build(Outer, None, where="file.yaml")


inners = st.builds(Inner, st.floats(1e-6, 10), st.sampled_from(["flat", "steep"]))
outers = st.builds(
    Outer,
    st.text(max_size=5),
    st.integers(),
    st.one_of(st.just("auto"), st.integers()),
    st.none() | st.floats(allow_nan=False),
    st.booleans(),
    inners,
    st.none() | inners,
    st.lists(inners, max_size=2).map(tuple),
    st.lists(st.text(max_size=3), max_size=2).map(tuple),
)


@given(outers)
@settings(max_examples=50, deadline=None)
def test_round_trip(value: Outer) -> None:
    assert build(Outer, to_mapping(value), where="again") == value


def test_nearest_lists_all_where_nothing_is_close() -> None:
    assert nearest("epoch", ["epochs", "seed"]) == "did you mean 'epochs'?"
    assert nearest("zzz", ["epochs", "seed"]) == "one of epochs, seed"


def test_departures_leave_out_what_is_at_its_default() -> None:
    assert departures(Inner()) == {}
    assert departures(Inner(kind="steep")) == {"kind": "steep"}


@given(outers)
@settings(max_examples=50, deadline=None)
def test_departures_say_all_there_is(value: Outer) -> None:
    assert build(Outer, departures(value), where="again") == value
