"""Streams of sequences around norms: tensors that may share a divisor of each channel, with the calls that make and that read them.

A residual network adds to a sequence again and again, so sums, and all that they add up, can only be divided together. Layers and norms that make one
of them take the divisors into their weights, layers that read one into theirs; a norm that reads one multiplies by them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import onnx_ir as ir

from toolchain.graph.integers.calls import is_candidate
from toolchain.graph.integers.functions import kind_of, variant_of
from toolchain.graph.rewrite import constant, is_float, known_shape
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds

SCALED: Mapping[str, str] = MappingProxyType({"layer_norm": "scaled_layer_norm", "rms_norm": "scaled_rms_norm"})
"""Norms, and those that multiply channels first."""
SEQUENCE = 3
"""Axes of [batch, rows, channels]."""


@dataclass(frozen=True)
class Stream:
    """tensors: in the order of the graph. makers: layers and norms whose results they are; other tensors the host makes. layers, norms: that read
    them, sums apart."""

    tensors: tuple[ir.Value, ...]
    makers: tuple[ir.Node, ...]
    layers: tuple[ir.Node, ...]
    norms: tuple[ir.Node, ...]

    @property
    def channels(self) -> int:
        return (known_shape(self.tensors[0]) or (0,))[-1]

    @property
    def ranged(self) -> tuple[ir.Value, ...]:
        """The tensors whose ranges settle the divisors: those that norms read, where there are any."""
        read = [norm.inputs[0] for norm in self.norms]
        return tuple(value for value in self.tensors if value in read) or self.tensors


def streams_of(model: ir.Model, kinds: Kinds, computes: frozenset[str]) -> Iterator[Stream]:
    """Every stream of a fused network that a norm on the machine makes or reads. computes: operations of the machine."""
    order = {value: number for number, value in enumerate(value for node in model.graph for value in node.outputs)}
    seen = set[ir.Value]()
    for node in model.graph:
        ends = (node.inputs[0], node.outputs[0]) if is_candidate(node) and kind_of(node) in SCALED else ()
        for value in ends:
            if value is not None and value not in seen:
                tensors = _added_up(value, kinds)
                seen.update(tensors)
                found = _stream(sorted(tensors, key=lambda each: order.get(each, -1)), kinds, computes)
                if found is not None:
                    yield found


def is_sum(node: ir.Node | None, kinds: Kinds) -> bool:
    """Whether a call adds up computed tensors of one shape, or takes them from each other, without an activation."""
    if node is None or not is_candidate(node) or variant_of(node) or kinds[kind_of(node)].form != "aligned":
        return False
    return all(constant(value) is None and known_shape(value) == known_shape(node.outputs[0]) for value in node.inputs)


def _added_up(value: ir.Value, kinds: Kinds) -> dict[ir.Value, None]:
    """A tensor with all that sums tie to it."""
    found, left = {value: None}, [value]
    while left:
        one = left.pop()
        for node in (one.producer(), *(reader for reader, _ in one.uses())):
            if node is not None and is_sum(node, kinds):
                more = [each for each in (*node.inputs, node.outputs[0]) if each is not None and each not in found]
                found.update(dict.fromkeys(more))
                left += more
    return found


def _stream(tensors: list[ir.Value], kinds: Kinds, computes: frozenset[str]) -> Stream | None:
    """None where a tensor is no sequence, or something makes or reads it that cannot take the divisors."""
    made = [value.producer() for value in tensors]
    makers = [node for node in made if node is not None and is_candidate(node) and not is_sum(node, kinds)]
    users = dict.fromkeys(node for value in tensors for node, _ in value.uses() if is_candidate(node) and not is_sum(node, kinds))
    norms = [node for node in users if kind_of(node) in SCALED and SCALED[kind_of(node)] in computes]
    layers = [node for node in users if node not in norms]
    if any(node is None for node in made) or not all(map(_is_sequence, tensors)):
        return None
    inside = set(tensors)
    fits = all(_divides(node, kinds) for node in makers) and all(_multiplies(node, kinds) and inside.isdisjoint(node.inputs[1:]) for node in layers)
    return Stream(tuple(tensors), tuple(makers), tuple(layers), tuple(norms)) if fits else None


def _is_sequence(value: ir.Value) -> bool:
    shape = known_shape(value)
    return shape is not None and len(shape) == SEQUENCE and shape[-1] > 1 and is_float(value)


def _divides(node: ir.Node, kinds: Kinds) -> bool:
    """Whether a call's weights and bias can divide each channel of its result."""
    kind = kinds[kind_of(node)]
    return not variant_of(node) and (kind.fitted or kind.name in SCALED) and bool(divided_operands(kind))


def divided_operands(kind: OperationKind) -> dict[int, int]:
    """By the position of a known operand, the axis of it that the result's channels stand along."""
    channel = list(kind.result.axes)[-1]
    known = [(number, each) for number, each in enumerate(kind.operands) if each.role in ("weights", "bias")]
    return {number: list(each.axes).index(channel) for number, each in known} if all(channel in each.axes for _, each in known) else {}


def _multiplies(node: ir.Node, kinds: Kinds) -> bool:
    """Whether a call is a layer whose weights can multiply each channel of its input."""
    return kinds[kind_of(node)].fitted and multiplied_axis(kinds[kind_of(node)]) is not None


def multiplied_axis(kind: OperationKind) -> int | None:
    """The axis of a layer's weights that the channels of its input, the last axis, stand along; None where there is none."""
    channel, axes = list(kind.operands[0].axes)[-1], list(kind.operands[1].axes)
    return axes.index(channel) if kind.operands[1].role == "weights" and channel in axes else None
