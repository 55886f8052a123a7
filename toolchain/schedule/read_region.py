"""A region of a partitioned model, a local function, as the operations and tensors that the machine side works on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from toolchain.abi.dram_map import Shape
from toolchain.graph.integers.calls import read_call
from toolchain.graph.regions import BATCH, KERNEL, ROW_BY_ROW, WAY, describe_inputs, region_function
from toolchain.graph.rewrite import shape_of
from toolchain.passes.fuse import sources_of
from toolchain.schedule.kernel_selection import REFUSED, Chosen, Selection, images_per_run
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.regions.lowering import (
    Lowered,
    array_of,
    channel_block,
    data_of,
    first_channel,
    is_call,
    is_placed,
    is_view,
    known_of,
    merged_pads,
    picture_of,
    shuffle_after,
)
from toolchain.schedule.regions.region import Bound, Region, Slice
from toolchain.schedule.side_by_side import relieved
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine
from toolchain.spec.reason import reasons_json
from toolchain.spec.reasons import reasons_of_error

LONGEST = 9
"""Digits of a number in the metadata."""
Decide = Callable[[ir.Node, Lowered, Sequence[str]], Chosen]
"""How the machine does a call; of the tensors that it reads, those that the host writes for it alone."""


def settle_region(selection: Selection, model: ir.Model, call: ir.Node) -> None:
    """Chooses a kernel for every operation of the region that a call runs, and writes it into the region's function, once for all stages after.

    A run takes as many images as run in lockstep; of matrices alone it takes all rows, where every kernel does.
    Raises UserError E1003, E1004 and E1008 for an operation that the machine does not take.
    """
    images, rows = images_per_run(selection.machine), _rows([v for v in call.inputs if v is not None and not v.is_initializer()])
    if images == 1 < rows:
        try:
            return _settle(selection, model, call, rows)
        except UserError as error:
            if not error.only(REFUSED):  # a kernel takes no more than one row
                raise
            region_function(model, call).metadata_props[ROW_BY_ROW] = reasons_json(reasons_of_error(error))
    return _settle(selection, model, call, images)


def _settle(selection: Selection, model: ir.Model, call: ir.Node, batch: int) -> None:
    nodes: list[ir.Node] = []

    def decide(node: ir.Node, lowered: Lowered, given: Sequence[str]) -> Chosen:
        chosen = selection.choose(lowered, given)
        node.metadata_props.update({KERNEL: chosen.kernel, WAY: str(chosen.way)})
        nodes.append(node)
        return chosen

    region = _read(selection, model, call, batch, decide)
    for index, kernel in relieved(selection.machine, selection.kernels, region).items():
        nodes[index].metadata_props[KERNEL] = kernel
    region_function(model, call).metadata_props[BATCH] = str(batch)


def read_region(machine: Machine, kernels: Mapping[str, Kernel], model: ir.Model, call: ir.Node) -> Region:
    """The region that a call runs, with the kernels that its function names. Tensors are named as in the graph; one that was flattened still stands
    as a picture.

    Raises UserError E1010 for a kernel that is not there or does something else, E1003 for one that cannot do the operation.
    """
    selection = Selection(machine, kernels)

    def decide(node: ir.Node, lowered: Lowered, given: Sequence[str]) -> Chosen:
        return selection.confirm(lowered, _number(node, WAY), node.metadata_props.get(KERNEL, ""), given)

    return _read(selection, model, call, _number(region_function(model, call), BATCH), decide)


def _number(holder: ir.Node | ir.Function, key: str) -> int:
    """A number among the metadata. Raises UserError E1010 where it is not there."""
    text = holder.metadata_props.get(key, "")
    if not text.isdecimal() or not text.isascii() or len(text) > LONGEST:
        raise fail("E1010", f"the graph says nothing of '{key}' for '{holder.name}'", hint="build the graph again")
    return int(text)


def _rows(given: Sequence[ir.Value]) -> int:
    """The rows of a region's inputs where all are matrices, else 1."""
    shapes = [shape_of(value) for value in given]
    return shapes[0][0] if shapes and all(len(shape) == 2 for shape in shapes) else 1


def _read(selection: Selection, model: ir.Model, call: ir.Node, batch: int, decide: Decide) -> Region:
    function = region_function(model, call)
    outer = dict(zip(function.inputs, call.inputs, strict=True))
    describe_inputs(model, call)
    constants = {inner: value for inner, value in outer.items() if value is not None and value.is_initializer()}
    inputs = [value for value in function.inputs if value not in constants]
    reader = _Reader(selection, batch, constants, set(inputs), decide)
    for value in inputs:
        reader.note(value)
    operations = tuple(bound for node in function for bound in reader.bound(node))
    outputs = tuple(value.name or "" for value in function.outputs)
    return Region(call.op_type, reader.tensors, tuple(value.name or "" for value in inputs), outputs, operations, reader.slices)


@dataclass
class _Reader:
    """Walks through a function's calls; tensors and slices fill on the way. decide: how the machine does a call."""

    selection: Selection
    images: int
    constants: Mapping[ir.Value, ir.Value]
    given: set[ir.Value]
    decide: Decide
    tensors: dict[str, Shape] = field(default_factory=dict[str, Shape])
    slices: dict[str, Slice] = field(default_factory=dict[str, Slice])

    def note(self, value: ir.Value) -> None:
        self.tensors[value.name or ""] = picture_of(value, self.images, flattened=True)

    def bound(self, node: ir.Node) -> Iterator[Bound]:
        """The operation of a call; none for one that only says where tensors stand."""
        if is_placed(node, self.selection.kinds):
            self._place(node)
        elif is_call(node, "slice") and is_view(node, channel_block(self.selection.machine), self.selection.kinds):
            self._view(node)
        elif not is_call(node, "pad", "shuffle"):
            yield self._operation(node)

    def _place(self, node: ir.Node) -> None:
        self.note(node.outputs[0])
        channel = 0
        for value in data_of(node, self.selection.kinds):
            self.slices[value.name or ""] = Slice(node.outputs[0].name or "", channel)
            channel += self.tensors[value.name or ""].channels

    def _view(self, node: ir.Node) -> None:
        self.note(node.outputs[0])
        (value,) = data_of(node, self.selection.kinds)
        self.slices[node.outputs[0].name or ""] = Slice(value.name or "", first_channel(node, self.selection.kinds), view=True)

    def _operation(self, node: ir.Node) -> Bound:
        kinds = self.selection.kinds
        call, (first, pads) = read_call(node, kinds), merged_pads(node, True, kinds)
        names = dict(zip(call.operation.data, (first, *data_of(node, kinds)[1:]), strict=True))
        arrays = [array_of(self.constants[value]) for value in known_of(node, kinds)]
        shuffle = shuffle_after(node, kinds)
        result, group = (node.outputs[0], 1) if shuffle is None else (shuffle.outputs[0], int(read_call(shuffle, kinds).attributes["group"]))
        lowered = Lowered(call, arrays, {name: self.tensors[value.name or ""] for name, value in names.items()}, pads, group)
        chosen = self.decide(node, lowered, [name for name, value in names.items() if value in self.given and len(value.uses()) == 1])
        self.note(result)
        tensors = {name: value.name or "" for name, value in names.items()} | {"y": result.name or ""}
        return Bound(chosen.operation, tensors, tuple(self._nodes(node, shuffle)), chosen.kernel)

    def _nodes(self, node: ir.Node, shuffle: ir.Node | None) -> Iterator[str]:
        """The nodes of the float graph that an operation stands for."""
        maker = data_of(node, self.selection.kinds)[0].producer()
        for part in (maker if is_call(maker, "pad") else None, node, shuffle):
            yield from () if part is None else sources_of(part)
