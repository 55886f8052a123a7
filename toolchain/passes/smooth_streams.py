"""Divides the channels of streams by factors that weights and norms take out again, so that one scale for a whole tensor wastes less of it.

A stream is a sequence around norms, tensors that may share a divisor of each channel. A residual network adds to a sequence again and again, so sums,
and all that they add up, can only be divided together. Layers and norms that make one of them take the divisors into their weights, layers that read
one into theirs; a norm that reads one multiplies by them.

Xiao et al., SmoothQuant (2023), section 4: a channel's divisor is a power of its range over that of its weights. There it stands between a norm and
the layers that read it. Here the sums of residual networks have divisors, too: the norm that reads them multiplies each channel by a whole number."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import DIVISORS, EVENED, FLOAT_NAME, fused_call, is_candidate, read_call
from toolchain.graph.integers.functions import kind_of, variant_of
from toolchain.graph.quantisation.ranges import rounded
from toolchain.graph.quantisation.table import Samples, Table, sample_at, sample_count, seen_of
from toolchain.graph.rewrite import add_constant, constant, fresh_name, is_float, known_shape, multiplied, substitute
from toolchain.graph.session import run_session
from toolchain.graph.store import open_model
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds
from toolchain.operations.whole import most_factor
from toolchain.passes.even_borders import DIGITS, Evened, Vector
from toolchain.spec.arrays import Array

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


MAX_BYTES = 1 << 30
"""The most bytes of all tensors of streams on all samples; where they are larger, fewer samples are looked at."""


@dataclass(frozen=True)
class Streams:
    """The streams of a fused network, and their tensors on samples, by name: an array a sample. table: of the network's own tensors."""

    model: ir.Model
    table: Table
    kinds: Kinds
    computes: frozenset[str]
    seen: Mapping[str, Sequence[Array]]

    @cached_property
    def found(self) -> list[Stream]:
        return list(streams_of(self.model, self.kinds, self.computes))

    def divided(self, power: float) -> Evened:
        """A copy of the network in which every stream is divided. power: of a channel's range in the tensors, the rest is its weights'.

        Its values are those of the network, but for the rounding of constants.
        """
        model, tensors = self.model.clone(), dict(self.table.tensors)
        streams = list(streams_of(model, self.kinds, self.computes))
        known = [divisors_of(stream, self.seen, power, self.kinds) for stream in streams]
        for stream, divisors in zip(streams, known, strict=True):
            for old, new in _divide(model, stream, divisors, self.kinds).items():
                tensors[new] = seen_of([array / divisors.astype(np.float32) for array in self.seen[old]])
        for stream, divisors in zip(streams, known, strict=True):
            for node in stream.norms:
                _scale(model, node, divisors, self.kinds)
        return Evened(model, replace(self.table, tensors=tensors))


def observe_streams(model: ir.Model, samples: Samples, count: int, table: Table, kinds: Kinds, computes: frozenset[str]) -> Streams | None:
    """None where there is no stream. count: samples to look at, at most."""
    streams = Streams(model, table, kinds, computes, {})
    values = [value for stream in streams.found for value in stream.tensors]
    if not values:
        return None
    size = sum(4 * int(np.prod(known_shape(value) or (1,))) for value in values)
    session, seen = open_model(model, values, optimise=False), {value.name or "": list[Array]() for value in values}
    for number in range(max(min(count, sample_count(samples), MAX_BYTES // size), 1)):
        made = run_session(session, sample_at(samples, number))
        for name, arrays in seen.items():
            arrays.append(made[name])
    return replace(streams, seen=seen)


def divisors_of(stream: Stream, seen: Mapping[str, Sequence[Array]], power: float, kinds: Kinds) -> Vector:
    """The divisor of each channel; whole numbers up to the largest factor of a norm that multiplies by them."""
    arrays = [array for value in stream.ranged for array in seen[value.name or ""]]
    ranges = np.max([np.abs(array).reshape(-1, stream.channels).max(0) for array in arrays], axis=0)
    logarithms = np.log(_floored(ranges))
    if stream.layers:
        weights = np.max([_weight_ranges(node) for node in stream.layers], axis=0)
        logarithms = power * logarithms - (1 - power) * np.log(_floored(weights))
    if stream.norms:
        most = min(most_factor(kinds[SCALED[kind_of(norm)]], read_call(norm, kinds).known_numbers) for norm in stream.norms)
        return np.clip(np.rint(np.exp(logarithms - logarithms.max()) * most), 1, most)
    return np.array([rounded(float(each), DIGITS) for each in np.exp(logarithms - logarithms.mean())])


def _floored(ranges: Array) -> Vector:
    """Shares of the largest; a channel that is smaller than a stored step counts as that large."""
    return np.maximum(ranges.astype(np.float64) / max(float(ranges.max()), 1e-30), 2.0**-8)


def _weight_ranges(node: ir.Node) -> Vector:
    """The largest weight of each channel of a layer's input."""
    weights = _array(node.inputs[1])
    return np.abs(weights).max(tuple(axis for axis in range(weights.ndim) if axis != 1)).astype(np.float64)


def _array(value: ir.Value | None) -> Array:
    array = constant(value)
    assert array is not None
    return array


def _divide(model: ir.Model, stream: Stream, divisors: Vector, kinds: Kinds) -> dict[str, str]:
    """New names of the stream's tensors by old ones. Norms that read it are left as they are."""
    names = {value.name or "": fresh_name(model.graph, f"{value.name}.divided") for value in stream.tensors}
    for node in stream.makers:
        for operand, axis in divided_operands(kinds[kind_of(node)]).items():
            _multiply(model.graph, node, operand, axis, 1 / divisors)
    for node in stream.layers:
        axis = multiplied_axis(kinds[kind_of(node)])
        assert axis is not None
        _multiply(model.graph, node, 1, axis, divisors)
    for value, (old, new) in zip(stream.tensors, names.items(), strict=True):
        if is_candidate(value.producer()):
            _give_back(model.graph, value, divisors)
            value.metadata_props.update({FLOAT_NAME: old, DIVISORS: " ".join(float(each).hex() for each in divisors)})
            value.name = new
        else:
            _take(model.graph, value, divisors, new)
    return names


def _multiply(graph: ir.Graph, node: ir.Node, operand: int, axis: int, factors: Vector) -> None:
    """Multiplies a constant of a call along an axis; computed in float64, rounded once."""
    array, value = _array(node.inputs[operand]), node.inputs[operand]
    assert value is not None
    spread = factors.reshape([-1 if number == axis else 1 for number in range(array.ndim)])
    node.replace_input_with(operand, add_constant(graph, f"{value.name}.divided", multiplied(array, spread)))


def _scale(model: ir.Model, node: ir.Node, divisors: Vector, kinds: Kinds) -> None:
    """The norm that multiplies channels first, in the place of one that does not."""
    call, inputs = read_call(node, kinds), [value for value in node.inputs if value is not None]
    factor = add_constant(model.graph, f"{call.name}.factor", divisors.astype(np.float32))
    made = fused_call(model, kinds[SCALED[call.kind]], "", [*inputs, factor], call.attributes, call.name)
    made.metadata_props.update(node.metadata_props)
    made.outputs[0].metadata_props.update(node.outputs[0].metadata_props)
    substitute(model.graph, [node], [made])


def _give_back(graph: ir.Graph, value: ir.Value, divisors: Vector) -> None:
    """Multiplies a tensor of the machine's for the operators of the host that read it, and for an output of the network."""
    readers, maker = [(node, index) for node, index in value.uses() if not is_candidate(node)], value.producer()
    if maker is None or not (readers or value.is_graph_output()):
        return
    node, output = _product(graph, value, divisors, f"{value.name}.whole")
    for reader, index in readers:
        reader.replace_input_with(index, output)
    for number, found in enumerate(graph.outputs):
        if found is value:
            graph.outputs[number] = output
            output.name, value.name = value.name, output.name
    graph.insert_after(maker, node)


def _take(graph: ir.Graph, value: ir.Value, divisors: Vector, name: str) -> None:
    """Divides a tensor of the host's for the readers on the machine, in the conversion that it takes there."""
    maker = value.producer()
    assert maker is not None
    node, output = _product(graph, value, 1 / divisors, name)
    node.metadata_props[EVENED] = value.name or ""
    for reader, index in [(reader, index) for reader, index in value.uses() if is_candidate(reader)]:
        reader.replace_input_with(index, output)
    graph.insert_after(maker, node)


def _product(graph: ir.Graph, value: ir.Value, factors: Vector, name: str) -> tuple[ir.Node, ir.Value]:
    dtype = (value.dtype or ir.DataType.FLOAT).numpy()
    node = ir.node("Mul", [value, add_constant(graph, f"{value.name}.factors", factors.astype(dtype))], name=name, num_outputs=1)
    output = node.outputs[0]
    output.name, output.shape, output.type = name, value.shape, value.type
    return node, output
