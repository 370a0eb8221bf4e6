"""From plain mappings (YAML) to frozen dataclasses and back, refusing what does not fit."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, TypeVar

from gradate.errors import InputError

T = TypeVar("T")


def build(cls: type[T], mapping: object, *, where: str, key: str = "") -> T:
    """Make a dataclass from a mapping, checking keys and types all the way down.

    Args:
        cls: A dataclass whose annotations are plain types, Literals, unions, tuples and dataclasses.
        mapping: What YAML gave.
        where: The file, for messages.
        key: Dotted path of the mapping inside the file.

    Raises:
        InputError: an unknown key (with the nearest valid one), a value of another type or out of range.
    """
    if not isinstance(mapping, Mapping):
        raise InputError(f"{key or 'the recipe'} must be a mapping of keys to values, got {mapping!r}", where=where)
    hints = typing.get_type_hints(cls)
    names = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    for name in mapping:
        if name not in names:
            raise InputError(f"unknown key {_join(key, str(name))!r}", where=where, remedy=nearest(str(name), names))
    for f in fields(cls):  # type: ignore[arg-type]
        if f.default is MISSING and f.default_factory is MISSING and f.name not in mapping:
            raise InputError(f"key {_join(key, f.name)!r} is missing", where=where)
    values = {name: _convert(value, hints[name], where, _join(key, name)) for name, value in mapping.items()}
    try:
        return cls(**values)
    except InputError as error:
        prefix = f"{key}: " if key else ""
        raise InputError(f"{prefix}{error.what}", where=where, remedy=error.remedy) from None


def nearest(name: str, names: typing.Iterable[str]) -> str:
    """Words for the remedy of a wrong name: the closest valid one, else all of them."""
    names = list(names)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"one of {', '.join(names)}"


def to_mapping(value: Any) -> Any:
    """Plain form of a dataclass, read back by `build`; tuples become lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_mapping(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple):
        return [to_mapping(v) for v in value]
    return value


def departures(value: Any) -> Any:
    """Plain form of a dataclass without the keys that are at their defaults, all the way down."""
    if is_dataclass(value) and not isinstance(value, type):
        kept = {f.name: getattr(value, f.name) for f in fields(value) if not _at_default(f, getattr(value, f.name))}
        return {name: departures(found) for name, found in kept.items()}
    if isinstance(value, tuple):
        return [departures(v) for v in value]
    return value


def _at_default(f: Field[Any], value: Any) -> bool:
    if f.default_factory is not MISSING:
        return bool(value == f.default_factory())
    return f.default is not MISSING and bool(value == f.default)


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _convert(value: Any, hint: Any, where: str, key: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        problems = []
        for option in sorted((a for a in arguments if a is not type(None)), key=lambda a: a is str):
            try:
                return _convert(value, option, where, key)
            except InputError as error:
                problems.append(error)
        if any(is_dataclass(a) for a in arguments):
            raise problems[0]
        raise InputError(f"{key} = {value!r} has the wrong type", where=where, remedy=f"expected {_name(hint)}")
    if origin is typing.Literal:
        if value in arguments:
            return value
        raise InputError(f"{key} = {value!r} is not allowed", where=where, remedy=nearest(str(value), arguments))
    if origin is tuple:
        if not isinstance(value, list):
            raise InputError(f"{key} = {value!r} must be a list", where=where)
        return tuple(_convert(v, arguments[0], where, f"{key}[{i + 1}]") for i, v in enumerate(value))
    if is_dataclass(hint):
        return build(typing.cast(type, hint), value, where=where, key=key)
    return _scalar(value, hint, where, key)


def _scalar(value: Any, hint: Any, where: str, key: str) -> Any:
    if hint is float and not isinstance(value, bool):
        # YAML 1.1 reads 1e-4 as text; anyone who writes it means the number.
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
    elif isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise InputError(f"{key} = {value!r} has the wrong type", where=where, remedy=f"expected {_name(hint)}")


def _name(hint: Any) -> str:
    words = {float: "a number", int: "a whole number", str: "text", bool: "true or false", type(None): "null"}
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(map(str, arguments))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(_name(a) for a in arguments)
    return words.get(hint, str(hint))
