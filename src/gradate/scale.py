"""The label scale: the ordered values that grades map to."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gradate.errors import InputError

Array = npt.NDArray[np.float64]
MAX_INFERRED_CLASSES = 12


@dataclass(frozen=True)
class LabelScale:
    """An ordered scale of grades, declared once and carried by data, model and run.

    Build it with `from_names`, `from_values`, `continuous`, `parse` or `infer`.

    Args:
        low: Lowest value.
        high: Highest value.
        values: Class values in rising order, spaced as you like; None on a continuous scale.
        names: One name per class value, low to high; None where grades are plain numbers.

    Raises:
        InputError: values that do not rise, are not finite, or names that repeat or do not match the values.

    Source: the mapping of Zhang & Li (2024), section 3.1.

    >>> scale = LabelScale.from_names(["irrelevant", "slightly", "moderately", "highly"])
    >>> scale.encode("moderately"), scale.decode(2.875), scale.clamp(3.57), scale.d
    (2.0, 'highly', 3.0, 1.0)
    """

    low: float
    high: float
    values: tuple[float, ...] | None = None
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        bounds = (self.low, self.high, *(self.values or ()))
        if not all(math.isfinite(v) for v in bounds):
            raise InputError(f"scale values must be finite numbers, got {list(bounds)}", where="scale")
        if not self.low < self.high:
            raise InputError(
                f"a scale needs a lowest value below its highest, got {self.low:g}..{self.high:g}",
                where="scale",
                remedy="give at least two different grades, low to high",
            )
        if self.values is not None:
            if any(b <= a for a, b in zip(self.values, self.values[1:], strict=False)):
                raise InputError(
                    f"scale values must rise, got {_join(self.values)}", where="scale", remedy="list them low to high"
                )
            if (self.low, self.high) != (self.values[0], self.values[-1]):
                raise InputError("low and high must be the first and the last value", where="scale")
        if self.names is not None:
            if self.values is None or len(self.names) != len(self.values):
                raise InputError("a scale needs one value for each name", where="scale")
            if len(set(self.names)) != len(self.names) or not all(n and n == n.strip() for n in self.names):
                raise InputError(f"grade names must differ and not be blank, got {_join(self.names)}", where="scale")

    @classmethod
    def from_names(cls, names: Sequence[str], values: Sequence[float] | None = None) -> LabelScale:
        """Scale with named grades, low to high; values default to 0, 1, 2 and so on."""
        if len(names) < 2:
            raise InputError(f"a scale needs at least two grades, got {_join(names)}", where="scale")
        numbers = tuple(float(v) for v in (values if values is not None else range(len(names))))
        return cls(numbers[0], numbers[-1], numbers, tuple(names))

    @classmethod
    def from_values(cls, values: Sequence[float]) -> LabelScale:
        """Scale of plain numbers, low to high, evenly spaced or not."""
        if len(values) < 2:
            raise InputError(f"a scale needs at least two grades, got {_join(values)}", where="scale")
        numbers = tuple(float(v) for v in values)
        return cls(numbers[0], numbers[-1], numbers)

    @classmethod
    def continuous(cls, low: float, high: float) -> LabelScale:
        """Scale on which every number from `low` to `high` is a grade: no classes, no spacing."""
        return cls(float(low), float(high))

    @classmethod
    def parse(cls, text: str) -> LabelScale:
        """Read the command line's form: `a,b,c` names, `0,1,2` values, `0..5` continuous.

        >>> LabelScale.parse("0..5").is_continuous, LabelScale.parse("0,0.5,2").d
        (True, 0.5)
        """
        low, dots, high = text.partition("..")
        if dots:
            try:
                return cls.continuous(float(low), float(high))
            except ValueError as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(
                    f"cannot read {text!r} as a continuous scale", where="--scale", remedy="write for instance 0..5"
                ) from None
        parts = [part.strip() for part in text.split(",")]
        try:
            numbers = [float(part) for part in parts]
        except ValueError:
            return cls.from_names(parts)
        return cls.from_values(numbers)

    @classmethod
    def infer(cls, grades: Iterable[float]) -> tuple[LabelScale, str]:
        """Guess the scale of numeric grades; returns it with the reason.

        Raises:
            InputError: fewer than two different grades.
        """
        distinct = sorted({float(g) for g in grades})
        if len(distinct) < 2:
            raise InputError(
                f"all grades are {_join(distinct) or 'missing'}: nothing to order",
                where="grades",
                remedy="a scale needs at least two different grades; declare it with --scale if one is absent here",
            )
        low, high = distinct[0], distinct[-1]
        if all(g.is_integer() for g in distinct) and high - low < MAX_INFERRED_CLASSES:
            values = tuple(float(v) for v in range(int(low), int(high) + 1))
            return cls.from_values(values), f"all grades are whole numbers from {low:g} to {high:g}"
        if len(distinct) <= MAX_INFERRED_CLASSES:
            return cls.from_values(distinct), f"only {len(distinct)} different grades occur"
        for bottom, top in ((0.0, 1.0), (1.0, 5.0), (0.0, 5.0), (0.0, 10.0), (0.0, 100.0), (-1.0, 1.0)):
            if bottom <= low and high <= top and high > bottom + (top - bottom) * 0.5:
                reason = f"{len(distinct)} different grades between {low:g} and {high:g}"
                return cls.continuous(bottom, top), f"{reason}, the nearest common range is {bottom:g}..{top:g}"
        return cls.continuous(low, high), f"{len(distinct)} different grades between {low:g} and {high:g}"

    @property
    def is_continuous(self) -> bool:
        """Whether every number between low and high is a grade."""
        return self.values is None

    @property
    def d(self) -> float | None:
        """Smallest gap between two neighbouring grades; None on a continuous scale."""
        if self.values is None:
            return None
        return min(b - a for a, b in zip(self.values, self.values[1:], strict=False))

    def encode(self, grade: str | float) -> float:
        """Value of one grade: a name, a number, or a number written as text.

        Raises:
            InputError: a name that is not on the scale or a number that is not one of its values.
        """
        if self.names is not None and isinstance(grade, str) and self.values is not None:
            key = grade.strip()
            if key in self.names:
                return self.values[self.names.index(key)]
            folded = [n.casefold() for n in self.names]
            if key.casefold() in folded:
                return self.values[folded.index(key.casefold())]
        try:
            value = float(grade)
        except (TypeError, ValueError):
            raise InputError(f"grade {grade!r} is not on the scale {self}", remedy=self._suggest(str(grade))) from None
        if not math.isfinite(value):
            raise InputError(f"grade {grade!r} is not a finite number", remedy="fix or remove the row")
        if self.values is not None and value not in self.values:
            raise InputError(f"grade {value:g} is not on the scale {self}", remedy="fix the row or change --scale")
        if not self.low <= value <= self.high:
            raise InputError(f"grade {value:g} is off the scale {self}", remedy="fix the row or change --scale")
        return value

    def index(self, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Position of the nearest grade for each value, shape (n,); a tie goes to the lower grade.

        Raises:
            InputError: on a continuous scale, which has no classes.
        """
        classes = np.asarray(self._classes())
        borders = (classes[:-1] + classes[1:]) / 2
        return np.searchsorted(borders, np.asarray(values, dtype=np.float64), side="left").astype(np.int64)

    def decode(self, value: float) -> str | float:
        """Nearest grade: its name, or its value where the scale has no names.

        >>> LabelScale.from_values([0, 1, 2]).decode(1.5)
        1.0
        """
        return self.classify([value])[0]

    def classify(self, values: npt.ArrayLike) -> list[str | float]:
        """Nearest grade of each value; see `decode`."""
        labels: Sequence[str | float] = self.names or self._classes()
        return [labels[i] for i in self.index(values)]

    def clamp(self, value: Any) -> Any:
        """The value moved to the nearest end of the scale where it lies outside; a float, array or tensor."""
        if isinstance(value, (int, float)):
            return float(min(max(value, self.low), self.high))
        if isinstance(value, np.ndarray):
            return np.clip(value, self.low, self.high)
        return value.clamp(self.low, self.high)

    def check_x0(self, x0: float) -> None:
        """Refuse a buffer zone that swallows a neighbouring grade: x0 must be at most d/2 (paper, section 3.2).

        Raises:
            InputError: x0 negative, not finite, or above d/2.
        """
        if not math.isfinite(x0) or x0 < 0:
            raise InputError(f"x0 = {x0:g} must be a finite number, 0 or more", where="x0")
        if self.d is not None and x0 > self.d / 2:
            raise InputError(
                f"x0 = {x0:g} is more than half the spacing d = {self.d:g} of the scale {self}",
                where="x0",
                remedy=f"choose x0 from 0 to {self.d / 2:g}",
            )

    def map_to(self, other: LabelScale) -> tuple[float, float]:
        """Factor s and shift t of the linear map y → s·y + t that carries this scale's ends to the other's."""
        s = (other.high - other.low) / (self.high - self.low)
        return s, other.low - s * self.low

    def rescale(self, values: npt.ArrayLike, other: LabelScale) -> Array:
        """Values of this scale expressed on another, ends to ends.

        >>> LabelScale.continuous(1, 5).rescale([1.0, 4.2, 5.0], LabelScale.continuous(0, 5)).tolist()
        [0.0, 4.0, 5.0]
        """
        y = np.asarray(values, dtype=np.float64)
        return (y - self.low) * (other.high - other.low) / (self.high - self.low) + other.low

    def to_config(self) -> dict[str, Any]:
        """Plain JSON form, read back by `from_config`."""
        return {
            "low": self.low,
            "high": self.high,
            "values": list(self.values) if self.values is not None else None,
            "names": list(self.names) if self.names is not None else None,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LabelScale:
        """Inverse of `to_config`."""
        values, names = config.get("values"), config.get("names")
        return cls(
            float(config["low"]),
            float(config["high"]),
            tuple(float(v) for v in values) if values is not None else None,
            tuple(names) if names is not None else None,
        )

    def __str__(self) -> str:
        if self.names is not None and self.values is not None:
            if self.values == tuple(float(i) for i in range(len(self.names))):
                return ",".join(self.names)
            return ",".join(f"{n}={v:g}" for n, v in zip(self.names, self.values, strict=True))
        return _join(self.values) if self.values is not None else f"{self.low:g}..{self.high:g}"

    def _classes(self) -> tuple[float, ...]:
        if self.values is None:
            raise InputError(
                f"the continuous scale {self} has no classes", remedy="declare grades, for instance --scale 0,1,2,3"
            )
        return self.values

    def _suggest(self, grade: str) -> str:
        close = difflib.get_close_matches(grade, self.names or (), n=1)
        if close:
            return f"did you mean {close[0]!r}?"
        if self.names is None:
            return "name the grades low to high with --scale a,b,c"
        return "fix the row or change --scale"


def _join(items: Iterable[object]) -> str:
    return ",".join(f"{i:g}" if isinstance(i, float) else str(i) for i in items)
