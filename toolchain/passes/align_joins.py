"""Parts of a join begin at whole blocks of channels: filters of zeros fill up the channels before them, and weights of zero read it.

A machine stores channels in blocks, so a tensor can stand inside another only from a block's beginning on. A part whose channels fill no whole blocks
gets more of them, which cost the machine nothing: it computes the whole block anyway. Readers take them in with weights of zero.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from toolchain.graph.integers.calls import BOUNDARY, REAL_CHANNELS, Call, read_call
from toolchain.graph.integers.functions import is_integer, kind_of
from toolchain.graph.quantisation.statistics import groups_of
from toolchain.graph.rewrite import add_constant, constant, drop_unused_constants, known_shape, shape_of
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds
from toolchain.passes.context import Device
from toolchain.spec.arrays import Array, Ints
from toolchain.spec.expr import Index, Name, walk

CHANNELS = 1
"""The axis of channels, of pictures and of rows."""
GROUP = "group"
GAP = -1
WIDEST = 256
"""Channels of the widest block: no machine's layout has a wider one, and one that lets no tensor begin inside another has more than any tensor."""


def align_joins(model: ir.Model, devices: Sequence[Device], kinds: Kinds) -> None:
    """Aligns every join of a machine's integer graph whose parts its blocks would refuse, as far as all readers can take the channels in between.

    The tensors keep their names; those with more channels say in their metadata where the real ones stand. Host operators and the graph's outputs
    never see them: a join that any of those reads stays as it is.
    """
    moved = [each.align() for each in _aligners(model, devices, kinds)]
    if any(moved):
        drop_unused_constants(model.graph)


def with_aligned_joins(model: ir.Model, devices: Sequence[Device], kinds: Kinds) -> ir.Model:
    """A copy whose joins are aligned; the model itself where none is crooked."""
    if not any(each.crooked for each in _aligners(model, devices, kinds)):
        return model
    copy = model.clone()
    align_joins(copy, devices, kinds)
    return copy


def _aligners(model: ir.Model, devices: Sequence[Device], kinds: Kinds) -> "list[_Aligner]":
    return [_Aligner(model, device, kinds) for device in devices if 1 < device.block <= WIDEST]


@dataclass(frozen=True)
class _Aligned:
    """joins: that were aligned. places: by tensor with gaps, the real channel at each place, or GAP. crooked: the joins that are left."""

    joins: frozenset[ir.Node]
    places: Mapping[ir.Value, Ints]
    crooked: frozenset[ir.Node]


@dataclass(frozen=True)
class _Aligner:
    model: ir.Model
    device: Device
    kinds: Kinds
    calls: dict[ir.Node, Call | None] = field(default_factory=dict[ir.Node, "Call | None"])

    @property
    def crooked(self) -> frozenset[ir.Node]:
        """Joins of channels a part of which would begin within a block, as the graph stands."""
        return self._crooked({})

    def align(self) -> bool:
        """One join after the other, each with those that move on because of it. Answers whether any moved."""
        aligned = _Aligned(frozenset(), {}, self.crooked)
        for node in self.model.graph if aligned.crooked else ():
            if node in aligned.crooked:
                aligned = self._with(aligned, node) or aligned
        for node in list(self.model.graph) if aligned.joins else ():
            self._rewrite(node, aligned.places)
        return bool(aligned.joins)

    def _with(self, before: "_Aligned", node: ir.Node) -> "_Aligned | None":
        """With one more join aligned; None where that cannot be, or would leave another one crooked that was not."""
        joins = before.joins | {node}
        while True:
            filled = self._filled(joins)
            places = None if filled is None else self._places(filled)
            if places is None:
                return None
            crooked = self._crooked(places)
            if moved := crooked - before.crooked - joins:
                joins |= moved
            else:
                return _Aligned(joins, places, crooked) if crooked <= before.crooked - {node} else None

    def _call(self, node: ir.Node | None) -> Call | None:
        """The integer call of this machine that a node is; None for conversions, other machines' calls and the host's operators."""
        if node is None or not is_integer(node) or node.domain != self.device.domain or kind_of(node) in BOUNDARY:
            return None
        if node not in self.calls:
            self.calls[node] = read_call(node, self.kinds)
        return self.calls[node]

    def _crooked(self, places: Mapping[ir.Value, Ints]) -> frozenset[ir.Node]:
        """Joins of channels a part of which would begin within a block. A part of several joins stands in one of them alone, so those count not."""
        found: set[ir.Node] = set()
        for node in self.model.graph:
            call = self._call(node)
            if call is None or not call.joins_channels or not call.operation.placed:
                continue
            again = any(self._joins(user) for value in node.inputs if value is not None for user, _ in value.uses() if user is not node)
            sizes = [len(self._of(value, places)) for value in node.inputs]
            if not again and 0 not in sizes and any(size % self.device.block for size in sizes[:-1]):
                found.add(node)
        return frozenset(found)

    def _joins(self, node: ir.Node) -> bool:
        call = self._call(node)
        return call is not None and bool(call.operation.meaning.join)

    def _filled(self, joins: Collection[ir.Node]) -> set[ir.Node] | None:
        """The calls that make parts of these joins, and have to fill their last block; None where a part is made otherwise."""
        found: set[ir.Node] = set()
        for join in joins:
            for value in join.inputs[:-1]:
                if not self._fill(value, found):
                    return None
        return found

    def _fill(self, value: ir.Value | None, found: set[ir.Node]) -> bool:
        """Adds the calls whose results must have whole blocks so that `value` has; false where there is none that can."""
        maker = value.producer() if value is not None else None
        call = self._call(maker)
        if value is None or maker is None or call is None or _channels(value) == 0:
            return False
        if _produces(maker, call):
            found.add(maker)
            return True
        if call.operation.meaning.join:
            return all(self._fill(each, found) for each in maker.inputs)
        return _goes_through(maker, call) and all(self._fill(each, found) for each in maker.inputs[: len(call.operation.data)])

    def _places(self, filled: Collection[ir.Node]) -> Mapping[ir.Value, Ints] | None:
        """By tensor with gaps, the real channel at each place, or GAP; None where something reads such a tensor and cannot."""
        found: dict[ir.Value, Ints] = {}
        for node in self.model.graph:
            given = [value for value in node.inputs if value in found]
            result = node.outputs[0] if node.outputs else None
            call = self._call(node)
            if given and (call is None or not self._reads(node, call, found)):
                return None
            if result is None or call is None:
                continue
            places = self._result(node, call, found, node in filled)
            if places is not None and len(places) != _channels(result):
                if result.is_graph_output():
                    return None
                found[result] = places
        return found

    def _reads(self, node: ir.Node, call: Call, places: Mapping[ir.Value, Ints]) -> bool:
        """Whether a call takes in tensors with gaps: it joins them, hands each channel on, or has weights for each."""
        kind, values = call.operation, node.inputs[: len(call.data)]
        if kind.meaning.join:
            return call.joins_channels
        if kind.name == "flatten":
            return True
        if _goes_through(node, call):
            wide = [value for value in values if _channels(value) == _channels(node.outputs[0])]
            found = [places.get(value) for value in wide if value is not None]
            first = found[0] if found else None
            return first is not None and all(each is not None and np.array_equal(each, first) for each in found)
        return len(kind.data) == 1 and _taking(node, call, _channels(node.inputs[0])) is not None

    def _result(self, node: ir.Node, call: Call, places: Mapping[ir.Value, Ints], filled: bool) -> Ints | None:
        """The real channel at each place of the result; None for a result that has no channels."""
        kind, result = call.operation, node.outputs[0]
        if not _channels(result):
            return None
        if kind.meaning.join:
            return _joined([self._of(value, places) for value in node.inputs]) if call.joins_channels else None
        if kind.name == "flatten":
            return _flattened(self._of(node.inputs[0], places), shape_of(node.inputs[0]) if node.inputs[0] is not None else ())
        if filled:
            size = _channels(result)
            return np.concatenate([np.arange(size), np.full(-size % self.device.block, GAP)])
        if _goes_through(node, call):
            return next((places[value] for value in node.inputs if value is not None and value in places), None)
        return None

    def _of(self, value: ir.Value | None, places: Mapping[ir.Value, Ints]) -> Ints:
        return places[value] if value is not None and value in places else np.arange(_channels(value))

    def _rewrite(self, node: ir.Node, places: Mapping[ir.Value, Ints]) -> None:
        """Constants with zeros at the gaps of a call's operands and result, and the shape of its result."""
        call, result = self._call(node), node.outputs[0] if node.outputs else None
        if call is None or result is None:
            return
        made, read = places.get(result), next((places[value] for value in node.inputs if value is not None and value in places), None)
        if made is not None:
            shape = shape_of(result)
            result.shape = ir.Shape((*shape[:CHANNELS], len(made), *shape[CHANNELS + 1 :]))
            result.metadata_props[REAL_CHANNELS] = " ".join(map(str, np.flatnonzero(made != GAP)))
        if made is not None and groups_of(call) > 1:
            node.attributes[GROUP] = ir.AttrInt64(GROUP, len(made))
        axes = {} if read is None or made is read else {_taking(node, call, int(np.count_nonzero(read != GAP))): read}
        for number, value in enumerate(node.inputs):
            array = constant(value)
            if value is None or array is None or number < len(call.data):
                continue
            changed = array
            if number == len(call.data):
                changed = _at_gaps(changed, axes)
            if made is not None:
                axis = _made_axis(call.operation, number)
                changed = _at_gaps(changed, {axis: made}, number >= len(call.operation.operands))
            if changed is not array:
                node.replace_input_with(number, add_constant(self.model.graph, f"{value.name}.aligned", changed))


def _channels(value: ir.Value | None) -> int:
    """How many channels a picture or a row has; 0 for any other tensor."""
    shape = known_shape(value)
    return shape[CHANNELS] if shape is not None and len(shape) in (2, 4) else 0


def _channel(kind: OperationKind) -> str:
    """The index of the result's channels."""
    return list(kind.result.axes)[CHANNELS] if len(kind.result.axes) > CHANNELS else ""


def _produces(node: ir.Node, call: Call) -> bool:
    """Whether weights make each channel of the result, so that more of them are more filters."""
    kind = call.operation
    weights = kind.operand.get(kind.weights)
    return bool(kind.bias) and weights is not None and _channel(kind) in weights.axes and groups_of(call) == 1 and not _goes_through(node, call)


def _goes_through(node: ir.Node, call: Call) -> bool:
    """Whether an element of the result depends on the same channel of every computed operand alone."""
    kind = call.operation
    if kind.meaning.of is None or kind.meaning.stages or kind.meaning.join:
        return False
    if (groups := groups_of(call)) > 1:
        return groups == _channels(node.inputs[0]) == _channels(node.outputs[0])
    reads = [e for e in walk(kind.meaning.of) if isinstance(e, Index) and isinstance(e.base, Name) and e.base.id in kind.data]
    own = [e.index[CHANNELS] if len(e.index) > CHANNELS else None for e in reads]
    return bool(own) and all(isinstance(index, Name) and index.id == _channel(kind) for index in own)


def _taking(node: ir.Node, call: Call, channels: int) -> int | None:
    """The axis of a call's weights that goes over the channels it reads, which are so many; None where there is none, or where they are in groups."""
    kind, weights = call.operation, constant(node.inputs[len(call.data)]) if len(node.inputs) > len(call.data) else None
    if weights is None or not kind.bias:
        return None
    names = list(kind.operand[kind.weights].axes)
    axis = next((number for number, name in enumerate(names) if name != _channel(kind) and name in kind.meaning.over), None)
    return axis if axis is not None and axis < weights.ndim and weights.shape[axis] == channels else None


def _made_axis(kind: OperationKind, number: int) -> int | None:
    """The axis of an operand that goes over the result's channels: operands behind the operation's own have a number for each."""
    if number >= len(kind.operands):
        return 0
    names = list(kind.operands[number].axes)
    return names.index(_channel(kind)) if _channel(kind) in names else None


def _at_gaps(array: Array, axes: Mapping[int | None, Ints], repeated: bool = False) -> Array:
    """The array with elements for the gaps along an axis: zeros, or those of the first channel where a number of zero would mean something else."""
    for axis, places in axes.items():
        if axis is not None and axis < array.ndim and array.shape[axis] == np.count_nonzero(places != GAP):
            taken = array.take(np.where(places == GAP, 0, places), axis)
            if not repeated:
                taken[(slice(None),) * axis + (places == GAP,)] = 0
            array = taken
    return array


def _joined(parts: Sequence[Ints]) -> Ints:
    """Real channels of parts side by side."""
    found, before = list[Ints](), 0
    for part in parts:
        found.append(np.where(part == GAP, GAP, part + before))
        before += int(np.count_nonzero(part != GAP))
    return np.concatenate(found)


def _flattened(places: Ints, shape: Sequence[int]) -> Ints:
    """Columns of a row that was a picture with these real channels. shape: of the picture."""
    pixels = int(np.prod(shape[CHANNELS + 1 :]))
    columns = places[:, None] * pixels + np.arange(pixels)
    return np.where(places[:, None] == GAP, GAP, columns).ravel()
