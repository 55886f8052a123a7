"""A scale for each channel of tensors that the host hands to the machine, where the machine has one for a whole tensor.

The conversion to integers multiplies each channel by a factor that the weights of its readers take out again, so neither the host nor the machine has
more to do. As in Xiao et al., SmoothQuant (2023), section 4: a channel's factor is a power of its range over that of its weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import EVENED, Call, is_candidate, read_call
from toolchain.graph.quantisation.ranges import rounded
from toolchain.graph.quantisation.statistics import groups_of
from toolchain.graph.quantisation.stepping import Stepper
from toolchain.graph.quantisation.table import Samples, SeenTensor, Table, ranging, seen_of
from toolchain.graph.rewrite import add_constant, constant, fresh_name, known_shape, multiplied
from toolchain.operations.library import Kinds
from toolchain.passes.equalise import LEAST_RANGE
from toolchain.spec.arrays import Array

Vector = np.typing.NDArray[np.float64]
POOLS = ("max_pool", "average_pool")
"""Operations that a positive factor of a channel goes through."""
DIGITS = 2
"""Significant decimal digits of a factor: it does not depend on a processor's order of adding up."""


@dataclass(frozen=True)
class Evened:
    """A fused network whose borders have factors, and the table of its tensors."""

    model: ir.Model
    table: Table


@dataclass(frozen=True)
class Divided:
    """The divisor of each channel of a tensor, and statistics of the divided tensor."""

    divisor: Vector
    seen: SeenTensor


def even_borders(model: ir.Model, samples: Samples, count: int, table: Table, kinds: Kinds, power: float) -> Evened:
    """A copy of a fused network in which an operator of the host, which the conversion absorbs, divides each border's channels.

    table: of the network's own tensors. count: samples to look at. power: of a channel's range in the tensor, the rest is its weights'.
    """
    made = model.clone()
    borders = list(borders_of(made, kinds))
    if not borders:
        return Evened(model, table)
    found = _divided(made, borders, samples, count, kinds, power)
    names = {value: fresh_name(made.graph, f"{value.name}.even") for value in found}
    tensors = {names[value]: each.seen for value, each in found.items()}
    for node in [node for node in made.graph if is_candidate(node)]:
        _take_out(made.graph, node, found, kinds)
    for value, each in found.items():
        if value in borders:
            _insert(made.graph, value, each.divisor, names[value])
        else:
            value.name = names[value]
    return Evened(made, replace(table, tensors={**table.tensors, **tensors}))


def borders_of(model: ir.Model, kinds: Kinds) -> Iterator[ir.Value]:
    """Tensors that an operator of the host makes and that only weights read on the machine, at once or behind pools and joins of channels.

    A model's own inputs keep one scale, so that a program can fill them itself.
    """
    for node in model.graph:
        for value in node.outputs if not is_candidate(node) else ():
            shape = known_shape(value)
            if shape is not None and len(shape) in (2, 4) and shape[1] > 1 and _divides(value, kinds):
                yield value


def _divides(value: ir.Value, kinds: Kinds) -> bool:
    """Whether there is a reader on the machine, and all of them take a factor of each channel."""
    readers = [node for node, _ in value.uses() if is_candidate(node)]
    return bool(readers) and all(_takes(node, value, read_call(node, kinds), kinds) for node in readers)


def _takes(node: ir.Node, value: ir.Value, call: Call, kinds: Kinds) -> bool:
    if call.operation.bias:
        return node.inputs[0] is value and _by_channels(node, call)
    output = node.outputs[0]
    inside = not output.is_graph_output() and all(is_candidate(reader) for reader, _ in output.uses())
    through = (call.joins_channels or call.kind in POOLS) and not call.activation
    return through and inside and _divides(output, kinds)


def _by_channels(node: ir.Node, call: Call) -> bool:
    """Whether the second axis of the weights is the channels of the tensor, in groups or not."""
    axes = [list(call.operation.operand[name].axes.values())[1:2] for name in (call.operation.data[0], call.operation.weights)]
    weights, shape = constant(node.inputs[1]), known_shape(node.inputs[0])
    known = weights is not None and shape is not None and weights.ndim > 1 and weights.shape[1] * groups_of(call) == shape[1]
    return known and (axes[0] == axes[1] or "group" in call.attributes)


def _divided(model: ir.Model, borders: Sequence[ir.Value], samples: Samples, count: int, kinds: Kinds, power: float) -> dict[ir.Value, Divided]:
    """By border, and by result of a pool or a join of borders."""
    stepper, found, left = Stepper(model), dict[ir.Value, Divided](), set(borders)
    stepper.feed(samples, count)
    wanted = _wanted(model, borders, kinds)
    for node in model.graph:
        if not wanted:
            break
        stepper.run(node)
        for value in [value for value in node.outputs if value in wanted]:
            wanted.remove(value)
            arrays = ranging(value, stepper.values.get(value, list[Array]()))
            if value in left:
                divisor = _divisor(value, arrays, kinds, power)
            else:
                divisor = np.concatenate([found[each].divisor if each in found else np.ones(_channels(each)) for each in node.inputs])
            found[value] = Divided(divisor, seen_of([array / _along(divisor, array.ndim) for array in arrays]))
    return found


def _wanted(model: ir.Model, borders: Sequence[ir.Value], kinds: Kinds) -> set[ir.Value]:
    """Borders, and results of pools and joins of borders."""
    wanted = set(borders)
    for node in model.graph:
        if is_candidate(node) and not read_call(node, kinds).operation.bias and not wanted.isdisjoint(node.inputs):
            wanted.update(node.outputs)
    return wanted


def _divisor(value: ir.Value, arrays: Sequence[Array], kinds: Kinds, power: float) -> Vector:
    """Their geometric mean is 1."""
    axes = tuple(axis for axis in range(arrays[0].ndim) if axis != 1)
    ranges = _shares(np.max([np.abs(array).max(axes, initial=0) for array in arrays], axis=0))
    weights = _shares(np.max(list(_weight_ranges(value, kinds)), axis=0))
    logarithms = power * np.log(ranges) - (1 - power) * np.log(weights)
    return np.array([rounded(float(each), DIGITS) for each in np.exp(logarithms - logarithms.mean())])


def _weight_ranges(value: ir.Value, kinds: Kinds) -> Iterator[Vector]:
    """The largest weight of each channel, for every layer on the machine that reads a tensor, at once or behind others."""
    for node in [node for node, _ in value.uses() if is_candidate(node)]:
        call = read_call(node, kinds)
        if call.operation.bias:
            weights, group = np.abs(_weights(node)), groups_of(call)
            yield weights.reshape(group, len(weights) // group, weights.shape[1], -1).max((1, 3)).reshape(-1)
            continue
        first = 0
        for operand in node.inputs:
            if operand is value:
                yield from (found[first : first + _channels(value)] for found in _weight_ranges(node.outputs[0], kinds))
            first += _channels(operand)


def _shares(ranges: Array) -> Vector:
    return np.maximum(ranges.astype(np.float64) / max(float(ranges.max()), 1e-30), LEAST_RANGE)


def _channels(value: ir.Value | None) -> int:
    return (known_shape(value) or (0, 0))[1]


def _weights(node: ir.Node) -> Array:
    array = constant(node.inputs[1])
    assert array is not None
    return array


def _along(channels: Vector, rank: int) -> Array:
    """A number for each channel, to broadcast against a tensor."""
    return channels.reshape(1, -1, *(1,) * (rank - 2))


def _take_out(graph: ir.Graph, node: ir.Node, found: Mapping[ir.Value, Divided], kinds: Kinds) -> None:
    """Multiplies the weights of a layer by the divisors of its input; computed in float64, rounded once."""
    value, call = node.inputs[0], read_call(node, kinds)
    if value is None or value not in found or not call.operation.bias:
        return
    weights, group = _weights(node), groups_of(call)
    factors = np.repeat(found[value].divisor.reshape(group, -1), len(weights) // group, axis=0)
    made = multiplied(weights, factors.reshape(*weights.shape[:2], *(1,) * (weights.ndim - 2)))
    node.replace_input_with(1, add_constant(graph, f"{call.inputs[1]}.even", made))


def _insert(graph: ir.Graph, value: ir.Value, divisor: Vector, name: str) -> None:
    """Divides a border for the readers on the machine."""
    maker = value.producer()
    assert maker is not None
    dtype = (value.dtype or ir.DataType.FLOAT).numpy()
    factors = add_constant(graph, f"{value.name}.factors", _along(1 / divisor, len(known_shape(value) or ())).astype(dtype))
    node = ir.node("Mul", [value, factors], name=name, num_outputs=1, metadata_props={EVENED: value.name or ""})
    output = node.outputs[0]
    output.name, output.shape, output.type = name, value.shape, value.type
    for reader, index in [(reader, index) for reader, index in value.uses() if is_candidate(reader)]:
        reader.replace_input_with(index, output)
    graph.insert_after(maker, node)
