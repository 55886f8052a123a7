"""Frozen dataclasses and named tuples to plain JSON and back, every type checked: the JSON may come from anywhere."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import GenericAlias, UnionType
from typing import Any, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

Tree: TypeAlias = "str | int | float | bool | Sequence[Tree] | Mapping[str, Tree] | None"
"""Plain data, as JSON and YAML hold it: dicts, lists and scalars."""

T = TypeVar("T")
PLAIN_DEFAULT: Mapping[str, bool] = {"plain_default": True}
"""Metadata of a field that is not written where it has its default, and need not be there to be read."""
MOST_DIGITS = 1 << 63


class MistypedError(ValueError):
    """A value of another type than its place asks for; the text says which."""


def to_json(value: object) -> Tree:
    """Lists, objects, text and numbers that `from_json` reads back."""
    if is_dataclass(value) and not isinstance(value, type):
        written = (f for f in fields(value) if "plain_default" not in f.metadata or getattr(value, f.name) != f.default)
        return {f.name: to_json(getattr(value, f.name)) for f in written}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in sorted(cast("Mapping[str, object]", value).items())}
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        if {*map(type, items)} <= {int}:  # of a whole program, a million
            return cast("list[Tree]", [*items])
        return [to_json(item) for item in items]
    return cast(Tree, value)


def from_json(kind: type[T], value: object, where: str = "") -> T:
    """The dataclass `kind` of a JSON value. Raises MistypedError."""
    return cast(T, _read(kind, value, where))


def _read(kind: object, value: object, where: str) -> object:
    if kind is object:
        return _plain(value, where)
    if is_dataclass(kind):
        return _record(cast("type[object]", kind), value, where)
    if isinstance(kind, type) and issubclass(kind, tuple):
        return _named_tuple(cast("type[tuple[object, ...]]", kind), value, where)
    origin = get_origin(kind)
    if origin is UnionType:  # of one type and None
        (inner,) = (part for part in get_args(kind) if part is not type(None))
        return None if value is None else _read(inner, value, where)
    if origin is tuple:
        items, inner = cast("list[object]", _exact(list, value, where)), get_args(kind)[0]
        if inner is int and all(type(item) is int and -MOST_DIGITS < item < MOST_DIGITS for item in items):  # thousands, quickly looked at
            return tuple(items)
        return tuple(_read(inner, item, f"{where}[{number}]") for number, item in enumerate(items))
    if origin is not None:
        held = cast("dict[str, object]", _exact(dict, value, where))
        return {key: _read(get_args(cast(GenericAlias, kind))[1], item, f"{where}.{key[:40]}") for key, item in held.items()}
    return _scalar(cast("type[object]", kind), value, where)


def _plain(value: object, where: str) -> object:
    """Text, a number, or numbers in a row, where any of them may stand."""
    if isinstance(value, list):
        return tuple(_scalar(int, item, where) for item in cast("list[object]", value))
    return _scalar(next((kind for kind in (str, bool, int) if type(value) is kind), float), value, where)


def _record(kind: type[object], value: object, where: str) -> object:
    held = cast("dict[str, object]", _exact(dict, value, where))
    hints = get_type_hints(kind)
    strange = sorted(held.keys() - hints.keys())
    spared = {f.name for f in fields(cast(Any, kind)) if "plain_default" in f.metadata}
    missing = [name for name in hints if name not in held and name not in spared]
    if strange or missing:
        raise MistypedError(f"{where or 'the manifest'} {f'has an unknown {strange[0][:40]!a}' if strange else f'lacks {missing[0]!a}'}")
    return kind(**{name: _read(hint, held[name], f"{where}.{name}" if where else name) for name, hint in hints.items() if name in held})


def _named_tuple(kind: type[tuple[object, ...]], value: object, where: str) -> object:
    held, hints = cast("list[object]", _exact(list, value, where)), get_type_hints(kind)
    if len(held) != len(hints):
        raise MistypedError(f"{where} has {len(held)} values, not {len(hints)}")
    make = cast("Callable[..., object]", kind)
    return make(*(_read(hint, item, f"{where}.{name}") for (name, hint), item in zip(hints.items(), held, strict=True)))


def _scalar(kind: type[object], value: object, where: str) -> object:
    if kind is float and type(value) is int:
        value = float(value) if abs(value) < MOST_DIGITS else value
    found = _exact(kind, value, where)
    if (type(found) is int and abs(found) >= MOST_DIGITS) or (type(found) is float and not math.isfinite(found)):
        raise MistypedError(f"{where} is out of range")
    return found


def _exact(kind: type[object], value: object, where: str) -> object:
    if type(value) is not kind:
        raise MistypedError(f"{where or 'the manifest'} is no proper {kind.__name__}")
    return value
