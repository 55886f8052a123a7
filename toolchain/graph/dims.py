"""Gives every dimension of the inputs a number; nothing after this meets an unknown size."""

from collections.abc import Mapping
from pathlib import Path

import onnx

from toolchain.spec.errors import fail
from toolchain.spec.suggest import nearest


def fix_dims(proto: onnx.ModelProto, dims: Mapping[str, int], path: Path) -> None:
    """Sets the open dimensions of the inputs, each by its name or, where it has none, by `input.axis`.

    What the model said about shapes inside is dropped: it is inferred again. Raises UserError E0904 (an open
    dimension, or a size below 1) and E0905 (a name that no dimension has).
    """
    known: dict[str, None] = {}
    for entry in proto.graph.input:
        if not entry.type.HasField("tensor_type") or not entry.type.tensor_type.HasField("shape"):
            raise fail("E0904", f"the input '{entry.name}' is no tensor of known rank", place=str(path))
        for axis, dim in enumerate(entry.type.tensor_type.shape.dim):
            _fix(entry.name, axis, dim, dims, known, path)
    for name in dims:
        if name not in known:
            hint = nearest(name, known) or (f"open: {', '.join(known)}" if known else "every dimension has a number already")
            raise fail("E0905", f"no dimension of the inputs is called '{name}'", hint=hint, place=str(path))
    del proto.graph.value_info[:]
    for entry in proto.graph.output:
        for dim in entry.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                dim.Clear()


def _fix(name: str, axis: int, dim: onnx.TensorShapeProto.Dimension, dims: Mapping[str, int], known: dict[str, None], path: Path) -> None:
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return
    called = dim.dim_param or f"{name}.{axis}"
    known[called] = None
    if called not in dims:
        text = f"dimension {axis} of the input '{name}' is open: '{called}' has no number"
        raise fail("E0904", text, hint=f"give it one, such as dim={called}:1", place=str(path))
    if dims[called] < 1:
        raise fail("E0904", f"dimension '{called}' cannot be {dims[called]}", hint="a size is at least 1", place=str(path))
    dim.Clear()
    dim.dim_value = dims[called]
