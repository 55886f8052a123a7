"""Gives every open dimension of the inputs a size."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx

from toolchain.graph.nodes.node_text import shape_text
from toolchain.spec.errors import fail
from toolchain.spec.suggest import nearest

MAX_ELEMENTS = 1 << 26
"""The most elements of one input: more than the largest pictures have."""


@dataclass(frozen=True)
class OpenAxis:
    """An axis of an input whose size the file leaves open. name: empty where the file gives none."""

    input: str
    axis: int
    name: str
    dim: onnx.TensorShapeProto.Dimension

    @property
    def says_zero(self) -> bool:
        """Whether the file itself says 0, which some exporters write for an open size and others mean."""
        return self.dim.HasField("dim_value") and self.dim.dim_value == 0

    @property
    def key(self) -> str:
        """`input.axis`, which no other axis has."""
        return f"{self.input}.{self.axis}"


def open_axes(graph: onnx.GraphProto) -> list[OpenAxis]:
    """In the order of the inputs; constants that are also inputs have none."""
    return list(_open_axes(graph))


def _open_axes(graph: onnx.GraphProto) -> Iterator[OpenAxis]:
    constants = {tensor.name for tensor in graph.initializer}
    for entry in graph.input:
        kind = entry.type.tensor_type
        if entry.name not in constants and entry.type.HasField("tensor_type") and kind.HasField("shape"):
            for axis, dim in enumerate(kind.shape.dim):
                if not dim.HasField("dim_value") or dim.dim_value <= 0:
                    yield OpenAxis(entry.name, axis, dim.dim_param, dim)


def fix_dims(proto: onnx.ModelProto, dims: Mapping[str, int], path: Path, constants: Collection[str] = ()) -> None:
    """Sets the open axes of the inputs: each by `input.axis`, or all of one name together; the former wins. constants: inputs that have values.

    Raises UserError E0904 (axes without a size, all of them; a size below 1; an input too large) and E0905 (a name that no axis has).
    """
    axes = open_axes(proto.graph)
    _check_names(axes, dims, path)
    missing = [axis for axis in axes if axis.key not in dims and axis.name not in dims]
    if missing:
        often = Counter(axis.name for axis in axes)
        keys = dict.fromkeys(axis.name if often[axis.name] == 1 and axis.name else axis.key for axis in missing)
        text = ", ".join(f"dimension {axis.axis} of the input '{axis.input}' ({shown(axis.name)})" for axis in missing)
        wanted = ",".join(f"{key}:1" for key in keys)
        raise fail(
            "E0904", f"sizes are open: {text}", hint=f"give {'it one' if len(missing) == 1 else 'each one'}, such as dim={wanted}", place=str(path)
        )
    for axis in axes:
        size = dims[axis.key] if axis.key in dims else dims[axis.name]
        if size < (0 if axis.key in dims or axis.says_zero else 1):
            raise fail("E0904", f"dimension '{axis.key}' cannot be {size}", hint="a size is at least 1, or 0 of one axis", place=str(path))
        axis.dim.Clear()
        axis.dim.dim_value = size
    _check_sizes(proto.graph, path, constants)


def shown(name: str) -> str:
    """A dimension's name in a message."""
    return f"'{name}'" if name else "unnamed"


def _check_names(axes: list[OpenAxis], dims: Mapping[str, int], path: Path) -> None:
    known = dict.fromkeys([axis.key for axis in axes] + [axis.name for axis in axes if axis.name])
    for name in dims:
        if name not in known:
            hint = nearest(name, known) or (f"open: {', '.join(known)}" if known else "every dimension has a number already")
            raise fail("E0905", f"no dimension of the inputs is called '{name}'", hint=hint, place=str(path))


def _check_sizes(graph: onnx.GraphProto, path: Path, constants: Collection[str]) -> None:
    """A constant takes no more room than its file."""
    known = {tensor.name for tensor in graph.initializer} | set(constants)
    for entry in (entry for entry in graph.input if entry.name not in known):
        sizes = [dim.dim_value for dim in entry.type.tensor_type.shape.dim]
        if math.prod(sizes) > MAX_ELEMENTS:
            raise fail("E0904", f"the input '{entry.name}' of shape {shape_text(sizes)} has more than {MAX_ELEMENTS} elements", place=str(path))
