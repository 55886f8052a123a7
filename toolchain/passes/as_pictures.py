"""Networks of sequences (audio, EEG, time series) become networks of pictures one pixel wide, which machines of pictures compute: the same numbers.

The length stands along the height, which machines share out among their rows of multipliers, and not along the width.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from toolchain.graph.nodes.rewrite import (
    add_constant,
    bypass,
    constant,
    drop_unused_constants,
    fresh_name,
    is_float,
    is_operator,
    known_shape,
    shape_of,
)
from toolchain.graph.operators.sequences import PictureForm, is_sequence, picture_form, starts
from toolchain.passes.context import Context, Pass
from toolchain.passes.simplify import RESHAPES
from toolchain.spec.arrays import Array

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
    """Whether chosen nodes alone read what a node makes, and it is no sum behind a product of matrices, which is one operation with it."""
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
