"""Networks of sequences (audio, EEG, time series) become networks of pictures one pixel wide, which machines of pictures compute: the same numbers.

The length stands along the height, which machines share out among their rows of multipliers, and not along the width.
A sequence [n, c, l] is a picture [n, c, l, 1].
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.rewrite import (
    add_constant,
    bypass,
    constant,
    drop_unused_constants,
    fresh_name,
    integer,
    ints,
    is_float,
    is_operator,
    known_shape,
    shape_of,
    text,
)
from toolchain.passes.context import Context, Pass
from toolchain.passes.simplify import RESHAPES
from toolchain.spec.arrays import Array

WINDOWS = ("Conv", "ConvTranspose", "MaxPool", "AveragePool")
STARTS = (*WINDOWS, "GlobalAveragePool", "GlobalMaxPool", "BatchNormalization", "Resize")
"""Operators that say by themselves which axis has the channels."""
PLAIN = (
    "Relu", "LeakyRelu", "Elu", "Selu", "Celu", "ThresholdedRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Erf", "Gelu", "Mish", "Softplus",
    "Softsign", "Exp", "Log", "Sqrt", "Reciprocal", "Abs", "Neg", "Floor", "Ceil", "Sign", "Sin", "Cos", "Clip", "InstanceNormalization",
    "GlobalAveragePool", "GlobalMaxPool", "BatchNormalization",
)  # fmt: skip
"""Operators that change in nothing: those of one element at a time, and those over whole channels."""
BROADCAST = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu", "Sum")
REDUCE = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum")
RANK = 3
PADS = 2
"""The attribute with a number for both ends of every axis, where others have one."""


@dataclass(frozen=True)
class PictureForm:
    """How a node computes on pictures. attributes: those that change. constants: operands that change, by their number. size: of the result, where
    it is not that on sequences with a 1 behind it."""

    attributes: Mapping[str, int | tuple[int, ...]] = field(default_factory=dict[str, "int | tuple[int, ...]"])
    constants: Mapping[int, Array] = field(default_factory=dict[int, Array])
    size: tuple[int, ...] = ()


def is_sequence(value: ir.Value | None) -> bool:
    """Whether this is a computed tensor [n, c, l] of fixed shape."""
    return value is not None and not value.is_initializer() and is_float(value) and len(known_shape(value) or ()) == RANK


def picture_form(node: ir.Node) -> PictureForm | None:
    """None for a node that has no such form: other operators, other ranks, operands that are not known."""
    make = next((make for kinds, make in _FORMS.items() if is_operator(node, *kinds)), None)
    ranks = {len(known_shape(value) or ()) for value in node.outputs[:1]}
    if make is None or not node.inputs or not is_sequence(node.inputs[0] if make is not _broadcast else _computed(node)):
        return None
    if any(not is_float(value) or known_shape(value) is None for value in node.outputs) or not (ranks == {RANK} or make is _reduced):
        return None
    return make(node)


def _computed(node: ir.Node) -> ir.Value | None:
    return next((value for value in node.inputs if is_sequence(value)), None)


def _plain(node: ir.Node) -> PictureForm:  # noqa: ARG001
    return PictureForm()


def _window(node: ir.Node) -> PictureForm | None:
    """Weights, kernels, strides and dilations get a 1 behind them, paddings a 0."""
    if is_operator(node, "Conv", "ConvTranspose"):
        weights = constant(node.inputs[1])
        if weights is None:
            return None
        constants = {1: weights[..., None]}
    else:
        constants = dict[int, Array]()
    if len(node.outputs) > 1 and (node.outputs[1].uses() or node.outputs[1].is_graph_output()):
        return None  # the indices of a pool count elements of the whole tensor
    ones = {name: (*ints(node, name, ()), 1) for name in ("kernel_shape", "strides", "dilations", "output_shape") if name in node.attributes}
    more = {"output_padding": (*ints(node, "output_padding", ()), 0)} if "output_padding" in node.attributes else {}
    pads = {"pads": _around(ints(node, "pads", ()))} if "pads" in node.attributes else {}
    return PictureForm({**ones, **more, **pads}, constants)


def _around(pads: tuple[int, ...]) -> tuple[int, ...]:
    half = len(pads) // PADS
    return (*pads[:half], 0, *pads[half:], 0)


def _broadcast(node: ir.Node) -> PictureForm | None:
    """Constants of fewer axes stand at the last ones, so they get an axis of one behind them."""
    constants = dict[int, Array]()
    for number, value in enumerate(node.inputs):
        array = constant(value)
        if array is None and not is_sequence(value):
            return None
        if array is not None and array.ndim:
            constants[number] = array[..., None]
    return PictureForm({}, constants)


def _axis(default: int) -> Callable[[ir.Node], PictureForm]:
    def form(node: ir.Node) -> PictureForm:
        return PictureForm({"axis": integer(node, "axis", default) % RANK})

    return form


def _concat(node: ir.Node) -> PictureForm | None:
    known = {number: array[..., None] for number, value in enumerate(node.inputs) if (array := constant(value)) is not None}
    whole = all(number in known or is_sequence(value) for number, value in enumerate(node.inputs))
    return PictureForm({"axis": integer(node, "axis", 0) % RANK}, known) if whole else None


def _axes(node: ir.Node, number: int) -> Array | None:
    """The operand that names axes, counted from the front; no element where it is left out, None where it is computed."""
    value = node.inputs[number] if len(node.inputs) > number else None
    if value is None:
        return np.zeros(0, np.int64)
    array = constant(value)
    return None if array is None else np.where(array < 0, array + RANK, array)


def _slice(node: ir.Node) -> PictureForm | None:
    axes = _axes(node, 3)
    known = axes is not None and all(value is None or constant(value) is not None for value in node.inputs[1:])
    return PictureForm({}, {3: axes} if axes.size else {}) if known and axes is not None else None


def _pad(node: ir.Node) -> PictureForm | None:
    axes, pads = _axes(node, 3), constant(node.inputs[1])
    if axes is None or pads is None or (len(node.inputs) > 2 and node.inputs[2] is not None and constant(node.inputs[2]) is None):
        return None
    return PictureForm({}, {3: axes} if axes.size else {1: np.array(_around(tuple(int(pad) for pad in pads)), np.int64)})


def _reduced(node: ir.Node) -> PictureForm | None:
    """Over the length: over both axes of the picture, which is kept as one of one pixel."""
    axes = _axes(node, 1)
    if axes is None or not axes.size:
        return None
    if RANK - 1 not in axes:
        return PictureForm({}, {1: axes}) if integer(node, "keepdims", 1) else None
    given = shape_of(node.inputs[0]) if node.inputs[0] is not None else ()
    size = tuple(1 if axis in axes else extent for axis, extent in enumerate(given))
    return PictureForm({"keepdims": 1}, {1: np.array([*axes, RANK], np.int64)}, (*size, 1))


def _resize(node: ir.Node) -> PictureForm | None:
    known = {number: constant(value) for number, value in enumerate(node.inputs) if number and value is not None and value.name}
    special = "axes" in node.attributes or integer(node, "antialias", 0) or text(node, "keep_aspect_ratio_policy", "stretch") != "stretch"
    other = text(node, "mode", "nearest") == "cubic" or text(node, "coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    if special or other or any(array is None for array in known.values()):
        return None
    return PictureForm({}, {n: np.append(array, array.dtype.type(1)) for n, array in known.items() if array is not None and array.size and n > 1})


_FORMS: Mapping[tuple[str, ...], Callable[[ir.Node], PictureForm | None]] = MappingProxyType(
    {
        WINDOWS: _window,
        PLAIN: _plain,
        BROADCAST: _broadcast,
        REDUCE: _reduced,
        ("Concat",): _concat,
        ("Split",): _axis(0),
        ("Softmax", "LogSoftmax"): _axis(-1),
        ("Slice",): _slice,
        ("Pad",): _pad,
        ("Resize",): _resize,
    }
)


def starts(graph: ir.Graph) -> Iterator[ir.Node]:
    """Nodes on sequences whose channels are the second axis for certain."""
    return (node for node in graph if is_operator(node, *STARTS) and picture_form(node) is not None)


ROWS = ("MatMul", "Gemm")
"""Operators whose results are rows of features: the last axis has the channels."""
PICTURE = ".picture"
"""Ends the name of a picture whose sequence is still read, and keeps its name."""
SEQUENCE = ".sequence"
"""Ends the name of a node that makes a sequence of a picture."""


@dataclass(frozen=True)
class AsPictures(Pass):
    """From convolutions, pools and their like on to whatever reads them and to whatever they alone read, as long as it has a form on pictures."""

    name: ClassVar[str] = "as_pictures"
    requires: ClassVar[tuple[str, ...]] = ("no_constant_nodes",)

    def run(self, model: ir.Model, context: Context) -> ir.Model:  # noqa: ARG002
        chosen = _chosen(model.graph)
        change = _Change(model.graph, chosen)
        for node in chosen:
            change.rewrite(node)
        for node in chosen:
            change.hand_on(node)
        for node in reversed(chosen):
            model.graph.remove(node, safe=True)
        drop_unused_constants(model.graph)
        return model


def _chosen(graph: ir.Graph) -> dict[ir.Node, PictureForm]:
    """In the order of the graph."""
    forms = {node: form for node in graph if (form := picture_form(node)) is not None}
    found, left = set[ir.Node](), list(starts(graph))
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += [user for value in node.outputs for user, _ in value.uses() if user in forms]
            makers = [value.producer() for value in node.inputs if value is not None]
            left += [maker for maker in makers if maker is not None and maker in forms and _leads(maker, found)]
    return {node: form for node, form in forms.items() if node in found}


def _leads(node: ir.Node, found: set[ir.Node]) -> bool:
    """Whether chosen nodes alone read a node's result, and it is no sum behind a product of matrices, which is one operation with it."""
    if any(value is not None and is_operator(value.producer(), *ROWS) for value in node.inputs):
        return False
    return all(not value.is_graph_output() and all(user in found for user, _ in value.uses()) for value in node.outputs)


@dataclass
class _Change:
    """A rewriting that is under way. pictures: by the sequences that they stand for. known: constants in their new form, by those of the model."""

    graph: ir.Graph
    chosen: dict[ir.Node, PictureForm]
    pictures: dict[ir.Value, ir.Value] = field(default_factory=dict[ir.Value, ir.Value])
    known: dict[tuple[ir.Value, tuple[int, ...]], ir.Value] = field(default_factory=dict[tuple[ir.Value, tuple[int, ...]], ir.Value])

    def rewrite(self, node: ir.Node) -> None:
        """Puts the node on pictures before the one on sequences."""
        form = self.chosen[node]
        operands = [self._operand(value, form.constants.get(number), node) for number, value in enumerate(node.inputs)]
        attributes = {**node.attributes, **{name: _attribute(name, value) for name, value in form.attributes.items()}}
        made = ir.Node(node.domain, node.op_type, operands, attributes.values(), num_outputs=len(node.outputs), name=node.name)
        made.metadata_props.update(node.metadata_props)
        for old, new in zip(node.outputs, made.outputs, strict=True):
            new.shape, new.type = ir.Shape(form.size or (*shape_of(old), 1)), old.type
            new.metadata_props.update(old.metadata_props)
            self.pictures[old] = new
        self.graph.insert_before(node, made)

    def _operand(self, value: ir.Value | None, changed: Array | None, node: ir.Node) -> ir.Value | None:
        if value is None:
            return None
        if changed is not None:
            if (key := (value, changed.shape)) not in self.known or not _equal(self.known[key], changed):
                self.known[key] = add_constant(self.graph, f"{value.name}{PICTURE}", changed)
            return self.known[key]
        if is_sequence(value) and value not in self.pictures:
            self.pictures[value] = self._opened(value, node)
        return self.pictures.get(value, value)

    def _opened(self, value: ir.Value, node: ir.Node) -> ir.Value:
        """The picture of a sequence that is not made as one: of another form of it, where the model had just that."""
        maker, size = value.producer(), (*shape_of(value), 1)
        source = maker.inputs[0] if maker is not None and is_operator(maker, *RESHAPES) and is_float(maker.inputs[0]) else None
        source = value if source is None else self.pictures.get(source, source)
        return source if known_shape(source) == size else self._reshaped(source, size, value, node, f"{value.name}{PICTURE}")

    def _reshaped(self, source: ir.Value, size: tuple[int, ...], like: ir.Value, before: ir.Node, name: str, node: str = "") -> ir.Value:
        """name: of the result. node: of the node, which is called as its result is without one."""
        sizes = add_constant(self.graph, f"{name}.sizes", np.array(size, np.int64))
        made = ir.node("Reshape", [source, sizes], name=node or name, num_outputs=1)
        result = made.outputs[0]
        result.name, result.shape, result.type = name, ir.Shape(size), like.type
        result.metadata_props.update(like.metadata_props)
        self.graph.insert_before(before, made)
        return result

    def hand_on(self, node: ir.Node) -> None:
        """Readers on sequences get the results of a node back in the form that they read; a result that has none gives its name to the picture."""
        for value in node.outputs:
            picture, name = self.pictures[value], value.name or ""
            for user in [user for user, _ in value.uses() if is_operator(user, *RESHAPES)]:
                self._join(user, picture)
            value.name = f"{name}.gone"
            if self._is_read(value):
                result = self._reshaped(picture, shape_of(value), value, node, name, f"{name}{SEQUENCE}")
                value.replace_all_uses_with(result, replace_graph_outputs=True)
                name = fresh_name(self.graph, f"{name}{PICTURE}")
            picture.name = picture.name if picture.is_graph_output() else name

    def _join(self, user: ir.Node, picture: ir.Value) -> None:
        """A reshape of a sequence is one of its picture, or none at all."""
        result = user.outputs[0]
        name, size, final = result.name, shape_of(result), result.is_graph_output()
        if size == known_shape(picture) and not final:
            bypass(self.graph, user, picture)
            return
        if self._is_read(result):
            result.name = f"{name}.gone"
            made = self._reshaped(picture, size, result, user, name or "", user.name or "")
            result.replace_all_uses_with(made, replace_graph_outputs=True)
            self.graph.remove(user, safe=True)

    def _is_read(self, value: ir.Value) -> bool:
        """Whether a node that stays reads a value, or the model's user does."""
        return value.is_graph_output() or any(user not in self.chosen for user, _ in value.uses())


def _attribute(name: str, value: int | tuple[int, ...]) -> ir.Attr:
    return ir.AttrInt64(name, value) if isinstance(value, int) else ir.AttrInt64s(name, value)


def _equal(value: ir.Value, array: Array) -> bool:
    found = constant(value)
    return found is not None and np.array_equal(found, array)
