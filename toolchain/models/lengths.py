"""Dimensions of a model's inputs that take several sizes, such as the length of a sequence: which axes they are."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from toolchain.graph.lengths import LengthAxis
from toolchain.models.model import Model, Stored
from toolchain.models.sources import named_axes
from toolchain.spec.errors import fail, nearest


def length_axes(model: Model, names: Sequence[str]) -> tuple[LengthAxis, ...]:
    """The axes of the inputs that are called so in the ONNX file, or `INPUT.AXIS`. Raises UserError E0905 for a name that no open axis has."""
    found = named_axes(model.origin.file) if isinstance(model.origin, Stored) else []
    axes = tuple(LengthAxis(axis.input, axis.axis, name) for axis in found for name in names if name in (axis.name, axis.key))
    known = {axis.name for axis in axes}
    for name in names:
        if name not in known:
            open_names = dict.fromkeys(axis.name or axis.key for axis in found)
            hint = nearest(name, open_names) or (f"open: {', '.join(open_names)}" if open_names else "every dimension has a number already")
            raise fail("E0905", f"no dimension of the inputs is called '{name}'", hint=hint, place=str(model.path))
    return axes


def opened(model: Model, names: Collection[str]) -> Model:
    """The model, of whose inputs recorded samples may have any size along these dimensions. Raises UserError as `length_axes`."""
    if not names:
        return model
    axes = length_axes(model, tuple(names))
    inputs = {name: replace(entry, open=tuple(axis.axis for axis in axes if axis.tensor == name)) for name, entry in model.inputs.items()}
    return replace(model, inputs=inputs)
