"""Descriptions that are changed at random, as a user's slips and half-finished edits would: keys renamed, left out or repeated, values of another
kind, characters and words of expressions lost or swapped."""

import copy
import random
from collections.abc import Iterator
from typing import Any

ODD = (
    "min", "max", "abs", "len", "range", "exp", "sum", "unit", "shift", "batch", "channels", "n", "c", "x", "y", "", "a b", "@x", "x[n]", "1 +", "{}",
    0, 1, -1, 1 << 40, 1 << 70, 0.5, float("nan"), True, None, [], {},
)  # fmt: skip
"""What stands in the place of a value."""
CHARACTERS = list('abxy019()[]{}<>=+-*/.,:@ \n"#')
Path = tuple[str | int, ...]


def mutated(tree: Any, draw: random.Random) -> Any:
    """A copy of a description, read from YAML, with one or two changes."""
    changed = {"": copy.deepcopy(tree)}
    for _ in range(draw.choice((1, 1, 1, 2))):
        path = draw.choice([path for path in _paths(changed) if len(path) > 1] or [("",)])
        _change(_at(changed, path[:-1]), path[-1], changed, draw)
    return changed[""]


def _change(parent: Any, key: Any, tree: Any, draw: random.Random) -> None:
    value, texts = parent[key], [str(each) for each in _scalars(tree) if isinstance(each, str)]
    match draw.randrange(7):
        case 0:
            del parent[key]
        case 1:
            parent[key] = draw.choice(ODD)
        case 2:
            parent[key] = draw.choice([*_scalars(tree)] or ODD)
        case 3 if isinstance(parent, dict):
            name = draw.choice(["min", "max", *(text for text in texts if len(text) < 20)])
            entries = [(name if each == key else each, held) for each, held in parent.items()]
            parent.clear()
            parent.update(entries)
        case 4 if isinstance(parent, list):
            parent.append(copy.deepcopy(value))
        case _:
            parent[key] = _text(value, draw) if isinstance(value, str) and value else draw.choice(ODD)


def _text(text: str, draw: random.Random) -> str:
    """With a character lost, replaced or put in between, or a word in the place of another."""
    words = text.split()
    if len(words) > 1 and draw.random() < 0.3:
        first, second = draw.sample(range(len(words)), 2)
        words[first] = words[second]
        return " ".join(words)
    at, character = draw.randrange(len(text)), draw.choice(CHARACTERS)
    return text[:at] + draw.choice(("", character, character + text[at])) + text[at + 1 :]


def _paths(tree: Any, above: Path = ()) -> Iterator[Path]:
    yield above
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in entries:
        yield from _paths(value, (*above, key))


def _at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _scalars(tree: Any) -> Iterator[Any]:
    found = (_at(tree, path) for path in _paths(tree))
    return (value for value in found if not isinstance(value, dict | list))
