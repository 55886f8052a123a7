"""Whether a machine takes an integer call of a graph, and why not: the question that partitioning asks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import onnx_ir as ir

from toolchain.graph.integers.calls import Reasons, read_call
from toolchain.graph.integers.functions import integer_domain, is_integer, kind_of
from toolchain.graph.rewrite import shape_of
from toolchain.operations.floating import computable
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds
from toolchain.operations.ways import reachable
from toolchain.passes.context import Device
from toolchain.schedule.kernel_selection import Selection, images_per_run
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.read_region import settle_region
from toolchain.schedule.region_price import recurrence_reason, region_price, tariff
from toolchain.schedule.regions.lowering import (
    Lowered,
    array_of,
    channel_block,
    data_of,
    is_call,
    is_placed,
    is_view,
    known_of,
    merged_pads,
    operation_of,
    picture_of,
    shuffle_after,
    unviewable,
)
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine
from toolchain.spec.reasons import Why, reasons_of_error


def device_of(machine: Machine, kernels: Mapping[str, Kernel], number: int = 0) -> Device:
    """The questions of partitioning, answered for this machine. number: of the machine among those that share the graph.

    Raises UserError E0107 and E0121 for a wrong section `operators`.
    """
    selection = Selection(machine, kernels)
    kinds = selection.kinds
    made = {kernel.computes for kernel in kernels.values() if _stored(machine, kinds[kernel.computes])}
    free = [kind.name for kind in kinds.values() if kind.placed or kind.absorbed or kind.viewed or reachable(kind, kinds) & made]
    refusal, price, settle = _Offload(selection).refusal, partial(region_price, machine), partial(settle_region, selection)
    recur, block, domain = partial(recurrence_reason, machine), channel_block(machine), integer_domain(number, machine.name)
    return Device(machine.name, refusal, price, frozenset(free), settle, domain, tariff(machine), machine.limits, recur, block)


def _stored(machine: Machine, kind: OperationKind) -> bool:
    """Whether the machine's integers, or its floating format, say how the operation is computed."""
    return computable(kind) if machine.floats else kind.form != "real"


@dataclass(frozen=True)
class _Offload:
    """Remembers its answers; a graph must not change while it is asked about."""

    selection: Selection
    known: dict[ir.Node, Reasons] = field(default_factory=dict[ir.Node, Reasons])
    places: dict[ir.Node, int] = field(default_factory=dict[ir.Node, int])

    def refusal(self, node: ir.Node) -> Reasons:
        """Why the machine does not take an integer call; none where it does."""
        if node not in self.known:
            try:
                self.known[node] = self._refusal(node)
            except UserError as error:
                self.known[node] = reasons_of_error(error)
        return self.known[node]

    def _refusal(self, node: ir.Node) -> Reasons:
        kind = kind_of(node)
        if is_placed(node, self.kinds):
            return self._misplaced(node) or self._claimed(node)
        if kind == "pad":
            return self._unmerged(node)
        if kind == "shuffle":
            return self._unshuffled(node)
        if kind == "slice":
            return self._unviewed(node)
        return self._uncomputed(node)

    @cached_property
    def block(self) -> int:
        return channel_block(self.selection.machine)

    @property
    def kinds(self) -> Kinds:
        return self.selection.kinds

    def _takes(self, node: ir.Node | None, *kinds: str) -> bool:
        return node is not None and is_call(node, *kinds) and not self.refusal(node)

    def _uncomputed(self, node: ir.Node, merged: bool = False, shuffle: int = 1) -> Reasons:
        """merged: a pad operation before it is its own padding even if that has not been settled. shuffle: as in Lowered."""
        images = images_per_run(self.selection.machine)
        call, data = read_call(node, self.kinds), data_of(node, self.kinds)
        first, pads = merged_pads(node, merged or self._takes(data[0].producer(), "pad"), self.kinds)
        values = dict(zip(call.operation.data, [first, *data[1:]], strict=True))
        flattened = self._takes(first.producer(), "flatten")
        shapes = {name: picture_of(value, images, flattened) for name, value in values.items()}
        if not call.operation.weights and self._rows_of_pictures(node):
            return (Why.FLATTENED(),)
        given = [name for name, value in values.items() if not self._made_here(value) and len(value.uses()) == 1]
        constants = [array_of(value) for value in known_of(node, self.kinds)]
        self.selection.choose(Lowered(call, constants, shapes, pads, shuffle), given)
        return ()

    def _unshuffled(self, node: ir.Node) -> Reasons:
        """A shuffle is no operation: the convolution before it makes its channels in that order."""
        value = data_of(node, self.kinds)[0]
        maker = value.producer()
        if maker is None or shuffle_after(maker, self.kinds) is not node:
            return (Why.SHUFFLE_ALONE(tensor=value.name or ""),)
        if self.refusal(maker):
            return (Why.SHUFFLE_MAKER(node=maker.name or ""),)
        return self._uncomputed(maker, shuffle=int(read_call(node, self.kinds).attributes["group"]))

    def _unviewed(self, node: ir.Node) -> Reasons:
        """A slice is read where its operand stands; where it cannot be, a kernel may copy it."""
        against, made = unviewable(node, self.block, self.kinds), {kernel.computes for kernel in self.selection.kernels.values()}
        return self._uncomputed(node) if against and reachable(self.kinds["slice"], self.kinds) & made else against

    def _made_here(self, value: ir.Value) -> bool:
        """Whether the machine writes a tensor; a node that is being asked about reads nothing of its own."""
        maker = value.producer()
        return maker is not None and operation_of(maker, self.kinds) is not None and not self.refusal(maker)

    def _joins_channels(self, node: ir.Node) -> bool:
        """Channels are the second axis of pictures, and the last of a sequence."""
        ranks = {len(shape_of(value)) for value in data_of(node, self.kinds)}
        return read_call(node, self.kinds).attributes["axis"] == (2 if ranks == {3} else 1)

    def _rows_of_pictures(self, node: ir.Node) -> bool:
        """Whether an operand is a picture of several pixels that was flattened: only a dense layer knows how that stands."""
        makers = [value.producer() for value in data_of(node, self.kinds)]
        sources = [data_of(maker, self.kinds)[0] for maker in makers if maker is not None and is_call(maker, "flatten")]
        return any(math.prod(source.shape.numpy()[2:]) > 1 for source in sources if source.shape is not None)

    def _misplaced(self, node: ir.Node) -> Reasons:
        """Why the operands cannot stand side by side in the result."""
        values, channel, block = data_of(node, self.kinds), 0, self.block
        if len(set(values)) < len(values):
            return (Why.TWICE(),)
        shapes = [picture_of(value, 1) for value in values]
        if is_call(node, "concat") and (not self._joins_channels(node) or self._rows_of_pictures(node)):
            return (Why.NOT_BESIDE(),)
        for value, shape in zip(values, shapes, strict=True):
            if channel % block:
                return (Why.CHANNEL_START(tensor=value.name or "", channel=channel, block=block),)
            channel += shape.channels
        return ()

    def _reads_past_edges(self, node: ir.Node, outside: Sequence[str]) -> bool:
        """Whether a call takes padding of its own, and reads one of these outside its operand."""
        kind = operation_of(node, self.kinds)
        return kind is not None and bool(kind.pads) and kind.meaning.outside in outside

    def _claimed(self, node: ir.Node) -> Reasons:
        """A tensor can be part of one other only: of the tensor that it was read out of, or of the first in the graph that can hold it."""
        for value in data_of(node, self.kinds):
            maker = value.producer()
            if maker is not None and is_view(maker, self.block, self.kinds):
                return (Why.PART_OF(tensor=value.name or "", whole=data_of(maker, self.kinds)[0].name or ""),)
            earlier = [user for user, _ in value.uses() if is_placed(user, self.kinds) and self._place(user) < self._place(node)]
            holder = next((user for user in sorted(earlier, key=self._place) if not self.refusal(user)), None)
            if holder is not None:
                return (Why.PART_OF_RESULT(tensor=value.name or "", node=holder.name or ""),)
        return ()

    def _place(self, node: ir.Node) -> int:
        """Position of a node in its graph."""
        if node not in self.places:
            self.places.update((other, number) for number, other in enumerate(node.graph or ()))
        return self.places[node]

    def _unmerged(self, node: ir.Node) -> Reasons:
        """Padding is no operation: each reader has to take it as its own."""
        value = node.outputs[0]
        readers = [user for user, _ in value.uses()]
        outside = ("zero", "least") if _never_negative(value, self.kinds) else ("zero",)
        other = next((user for user in readers if not self._reads_past_edges(user, outside)), None)
        if value.is_graph_output() or not readers or other is not None:
            return (Why.PAD_READER(node=other.name or "") if other else Why.PAD_OUTPUT(),)
        for user in readers:
            try:
                against = self._uncomputed(user, True)
            except UserError as error:
                against = reasons_of_error(error)
            if against:
                return (Why.PAD_REFUSED(against, node=user.name or ""),)
        return ()


def _never_negative(value: ir.Value, kinds: Kinds) -> bool:
    """Whether a stored tensor holds nothing below zero, by the limits of the call that made it."""
    maker = value.producer()
    if maker is None or not is_integer(maker):
        return False
    kind = operation_of(maker, kinds)
    if kind is not None and kind.copies:
        return all(_never_negative(operand, kinds) for operand in data_of(maker, kinds))
    low, zero = (maker.attributes.get(name) for name in ("low", "zero_y"))
    return low is not None and low.as_int() >= (0 if zero is None else zero.as_int())
