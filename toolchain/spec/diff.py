"""The differences between two elaborated machines."""

from collections.abc import Iterator
from typing import Any, cast

from toolchain.spec.model import Machine
from toolchain.spec.render import render

NOTHING = "(nothing)"


def diff(one: Machine, other: Machine) -> tuple[str, ...]:
    """Lines `path: a -> b` for every concrete value that differs, in the order of the sections; texts of many lines by line."""
    left, right = dict(_leaves(render(one), "")), dict(_leaves(render(other), ""))
    paths = dict.fromkeys([*left, *right])
    changed = (path for path in paths if left.get(path) != right.get(path))
    return tuple(f"{path}: {left.get(path, NOTHING)} -> {right.get(path, NOTHING)}" for path in changed)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in cast(dict[str, Any], value).items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        items = cast(list[Any], value)
        if all(not isinstance(item, dict | list) for item in items):
            yield path, f"[{', '.join(map(str, items))}]"
        else:
            for number, item in enumerate(items):
                yield from _leaves(item, f"{path}[{number}]")
    elif isinstance(value, str) and "\n" in value:
        yield from ((f"{path}:{number}", line) for number, line in enumerate(value.splitlines(), 1))
    else:
        yield path, str(value)
