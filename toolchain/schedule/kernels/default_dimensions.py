"""The dimensions that tell a place's tiles apart, found in the steps that load them: a place does not say them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from toolchain.schedule.kernels.kernel import Dimension, Window
from toolchain.schedule.kernels.kernel_common import STEPS
from toolchain.schedule.kernels.kernel_names import OF_WINDOW
from toolchain.schedule.kernels.mentions import mentioned
from toolchain.spec.yaml_nodes import Node

WORD = re.compile(r"[A-Za-z_]\w*")
TILE = ("size", "names", "starts", "load")
"""The keys of a shape that concern a tile that is loaded."""


def told_apart(name: str, node: Node, kernel: Node, shapes: Mapping[str, Node], result: str, folder: Path) -> frozenset[str] | None:
    """The names that the load of a place depends on. None for a place that no step of the kernel or of its shape loads.

    node: the place, as written. result: the tensor that the operation makes, which is not loaded.
    """
    own = [step for step in kernel.entries("steps") if _loads(step, name)]
    shape = shapes.get(str(called.value)) if (called := node.get("shape")) else None
    if own:
        codes = [code for step in own for key in ("do", "template") if (code := step.get(key))]
        texts = [(*mentioned(folder, str(code.value)),) if isinstance(code.value, str) else tuple(_words(code)) for code in codes]
        return frozenset(word for words in texts for word in words)
    if shape is None or shape.get("load") is None or node.get("onto") or name == result:
        return None
    found = {word for key in TILE if (said := shape.get(key)) for word in _words(said)}
    for key, value in reversed(shape.members("arguments")):  # a default may name what is taken before it
        if key in found:
            found = found - {key} | set(_words(node.get(key) or value))
    return frozenset(found)


def dimensions_named(words: frozenset[str] | None, dims: Iterable[Dimension], windows: Iterable[Window]) -> tuple[str, ...]:
    """Dimensions whose range, or whose window, is named; those that do not reduce for a place that is not loaded."""
    if words is None:
        return tuple(d.name for d in dims if not d.reduces)
    read = {window.of for window in windows if words & {f"{window.name}_{part}" for part in OF_WINDOW}}
    return tuple(d.name for d in dims if d.name in read or words & {d.name, f"{d.name}_at"})


def _loads(step: Node, place: str) -> bool:
    """A step of two kinds is for the reader of steps to refuse."""
    return [step.value[kind].value for kind in STEPS if step.get(kind)] == [place] and step.get("load") is not None


def _words(node: Node) -> Iterator[str]:
    """Every word in the scalars below a node."""
    if isinstance(node.value, dict | list):
        for child in node.children():
            yield from _words(child)
    else:
        yield from WORD.findall(str(node.value))
