"""A partitioned model and the code of its regions to a bundle: cut into host segments and region calls in as few turns as possible."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import onnx
import onnx_ir as ir

from toolchain.codegen import RegionCode
from toolchain.graph.files import INLINE_BYTES
from toolchain.graph.integers.calls import SCALE, ZERO
from toolchain.graph.nodes import Identifier, all_nodes, called_functions, needed
from toolchain.graph.preparation import Preparation
from toolchain.graph.regions import REGION
from toolchain.graph.rewrite import shape_of
from toolchain.graph.states import NONE, carried
from toolchain.graph.work import Work, host_work
from toolchain.passes.placement import is_boundary
from toolchain.runtime.bundle import data_name, target_of
from toolchain.runtime.contents import Bundle, HostSegment, Interface, Manifest, PlanStep, Port, RegionProgram, StartedState, State
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine
from toolchain.spec.packages import __version__


@dataclass(frozen=True)
class Item:
    """A node. region: whether it is a call of a region. reads: tensors that some step or the caller makes, no constants."""

    name: str
    region: bool
    reads: frozenset[str]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Turn:
    """Nodes, by their numbers in the graph's order, that run one after the other: host nodes alone, or region calls alone."""

    region: bool
    items: tuple[int, ...]


def turns(items: Sequence[Item], given: Sequence[str]) -> tuple[Turn, ...]:
    """The shorter of beginning with the host and beginning with regions; each turn takes whatever is ready.

    items: sorted so that each reads results before it, or tensors of `given`. Raises ValueError where they are not.
    """
    host, region = (_alternate(items, given, begin) for begin in (False, True))
    return min((host, region), key=len)


def _alternate(items: Sequence[Item], given: Sequence[str], region: bool) -> tuple[Turn, ...]:
    known, left, found = set(given), list(range(len(items))), list[Turn]()
    idle = 0
    while left:
        taken: list[int] = []
        for number in left:
            item = items[number]
            if item.region == region and item.reads <= known:
                taken.append(number)
                known.update(item.writes)
        done = set(taken)
        left = [number for number in left if number not in done]
        idle = 0 if taken else idle + 1
        if idle > 1:
            raise ValueError(f"'{items[left[0]].name}' reads a tensor that nothing before it makes")
        if taken:
            found.append(Turn(region, tuple(taken)))
        region = not region
    return tuple(found)


@dataclass(frozen=True)
class HostModel:
    """model: the bytes of a valid ONNX model; constants: the data that it points to, by location. Others as in a bundle."""

    model: bytes
    constants: Mapping[str, bytes]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    work: Mapping[str, Work]


@dataclass(frozen=True)
class RegionCall:
    """A call of a region, and the graph's tensors that it reads and makes, constants left out."""

    region: str
    inputs: tuple[ir.Value, ...]
    outputs: tuple[ir.Value, ...]


@dataclass(frozen=True)
class Round:
    """A state that goes round as it is stored: the conversions at its input and its output, with moves that undo each other, in the order in which
    they run; and the tensors that they convert to and from."""

    enter: tuple[ir.Node, ...]
    leave: tuple[ir.Node, ...]
    taken: ir.Value
    made: ir.Value

    @property
    def left_alone(self) -> bool:
        """Whether nothing else reads what the conversion at its output makes."""
        return not self.leave[-1].outputs[0].uses() and all(
            user in self.leave and not node.outputs[0].is_graph_output() for node in self.leave[:-1] for user, _ in node.outputs[0].uses()
        )


def find_round(model: ir.Model, taken: str, made: str) -> Round | None:
    """None for a state that operators of the host read, or that is not stored in one scale at both ends. taken, made: of the model's border."""
    given = next(value for value in model.graph.inputs if value.name == taken)
    found = carried(given, next(value for value in model.graph.outputs if value.name == made))
    readers, leave = [node for node, _ in found.taken.uses()], found.made.producer()
    if len(readers) != 1 or leave is None or given.is_graph_output() or not (is_boundary(readers[0]) and is_boundary(leave)):
        return None
    (enter,), source = readers, leave.inputs[0]
    if len(enter.inputs) != 1 or len(leave.inputs) != 1 or source is None or source is enter.outputs[0]:
        return None
    stored, other = ((value.dtype, *(value.metadata_props.get(key) for key in (SCALE, ZERO))) for value in (enter.outputs[0], source))
    if stored != other or stored[1] is None:
        return None
    return Round((*found.enter, enter), (leave, *found.leave), enter.outputs[0], source)


def find_rounds(model: ir.Model, states: Mapping[str, str]) -> dict[str, Round]:
    """By input of the model, the states whose integers go round, each in a tensor of its own."""
    found: dict[str, Round] = {}
    for taken, made in states.items():
        each = find_round(model, taken, made)
        if each and all(each.made is not other.made for other in found.values()):
            found[taken] = each
    return found


def cut_model(model: ir.Model, states: Mapping[str, str] = NONE) -> tuple[HostModel | RegionCall, ...]:
    """The steps of a model, in the order in which they run; tensors that only pass through make no step.

    states: by input, the output that is this input in the next run. Conversions at both ends of one whose integers go round are steps of their own,
    the first and the last, so that they can be left out between runs.
    """
    return _Cut(model, [*find_rounds(model, states).values()]).steps()


class _Cut:
    """Facts about a graph that cutting looks up again and again. rounds: states whose integers go round."""

    def __init__(self, model: ir.Model, rounds: Sequence[Round]) -> None:
        graph = model.graph
        self.model, self.nodes = model, list(graph)
        self.protos = [ir.serde.serialize_node(node) for node in self.nodes]
        self.constants = graph.initializers
        self.items = [_item(node, proto, self.constants) for node, proto in zip(self.nodes, self.protos, strict=True)]
        made = (value for node in self.nodes for value in node.outputs)
        self.values = {value.name or "": value for value in (*graph.inputs, *made, *self.constants.values())}
        self.wanted = {value.name or "" for value in graph.outputs}
        numbers = {node: number for number, node in enumerate(self.nodes)}
        self.enter = [[numbers[node] for node in each.enter] for each in rounds]
        self.leave = [[numbers[node] for node in each.leave] for each in rounds if each.left_alone]

    def steps(self) -> tuple[HostModel | RegionCall, ...]:
        given = [value.name or "" for value in self.model.graph.inputs]
        entered, left = ([name for each in chains for name in self.items[each[-1]].writes] for chains in (self.enter, self.leave))
        first, last = (
            [self._host([*chain.from_iterable(chains)], made)] if made else [] for chains, made in ((self.enter, entered), (self.leave, left))
        )
        return (*self._constants(), *first, *self._steps([*given, *entered]), *last)

    def _constants(self) -> Iterator[HostModel]:
        """Outputs that depend on nothing, if there are any."""
        if fixed := [name for name in self.wanted if name in self.constants]:
            yield self._host([], sorted(fixed))

    def _steps(self, given: Sequence[str]) -> Iterator[HostModel | RegionCall]:
        apart = {*chain.from_iterable((*self.enter, *self.leave))}
        numbers = [number for number in range(len(self.items)) if number not in apart]
        for turn in turns([self.items[number] for number in numbers], given):
            items = [numbers[number] for number in turn.items]
            if turn.region:
                yield from (self._call(number) for number in items)
            else:
                inside = set(items)
                read = {name for number, item in enumerate(self.items) if number not in inside for name in item.reads}
                made = [name for number in items for name in self.items[number].writes]
                yield self._host(items, [name for name in made if name in read or name in self.wanted])

    def _call(self, number: int) -> RegionCall:
        node = self.nodes[number]
        data = (value for value in node.inputs if value is not None and value.name not in self.constants)
        return RegionCall(node.op_type, tuple(data), tuple(node.outputs))

    def _host(self, numbers: Sequence[int], outputs: Sequence[str]) -> HostModel:
        protos = [self.protos[number] for number in numbers]
        made = {name for number in numbers for name in self.items[number].writes}
        reads = dict.fromkeys(name for proto in protos for name in needed(proto) if name not in made)
        inputs = tuple(name for name in reads if name not in self.constants)
        held = [name for name in dict.fromkeys((*reads, *outputs)) if name in self.constants]
        stored: dict[str, bytes] = {}
        tensors = [_tensor(self.constants[name], stored) for name in held]
        ends = [[ir.serde.serialize_value(self.values[name]) for name in names] for names in (inputs, outputs)]
        graph = onnx.GraphProto(node=protos, name="host", input=ends[0], output=ends[1], initializer=tensors)
        functions = _functions(self.model, protos)
        bodies = (protos, *(function.node for function in functions))
        used = {"", *(node.domain for body in bodies for node in all_nodes(body))}
        opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in sorted(self.model.opset_imports.items()) if domain in used]
        proto = onnx.helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=self.model.ir_version, producer_name="tilewright")
        work = host_work([self.nodes[number] for number in numbers])
        return HostModel(proto.SerializeToString(deterministic=True), stored, inputs, tuple(outputs), work)


def _item(node: ir.Node, proto: onnx.NodeProto, constants: Mapping[str, ir.Value]) -> Item:
    reads = frozenset(name for name in needed(proto) if name not in constants)
    return Item(node.name or "", node.domain == REGION, reads, tuple(value.name for value in node.outputs if value.name))


def _tensor(value: ir.Value, stored: dict[str, bytes]) -> onnx.TensorProto:
    """The constant itself, or a pointer to its bytes, which then are in `stored`."""
    tensor = value.const_value
    assert tensor is not None
    if tensor.nbytes <= INLINE_BYTES or tensor.dtype == ir.DataType.STRING:
        proto = ir.serde.serialize_tensor(tensor)
        proto.name = value.name or ""
        return proto
    data = tensor.tobytes()
    location = data_name(data)
    stored[location] = data
    pointer = ir.ExternalTensor(location, 0, len(data), tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), name=value.name or "", base_dir="")
    return ir.serde.serialize_tensor(pointer)


def _functions(model: ir.Model, protos: Iterable[onnx.NodeProto]) -> list[onnx.FunctionProto]:
    """The local functions that nodes call, and those that these call."""

    def written(key: Identifier) -> onnx.FunctionProto | None:
        return ir.serde.serialize_function(model.functions[key]) if key in model.functions else None

    found = called_functions(protos, written)
    return [found[key] for key in sorted(found)]


PLAIN = (
    ir.DataType.BOOL, ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE,
    ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64,
    ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64,
)  # fmt: skip
"""Types that numpy has."""


def assemble_bundle(
    name: str,
    machines: Sequence[Machine],
    model: ir.Model,
    regions: Mapping[str, RegionCode],
    preparations: Mapping[str, Preparation] | None = None,
    source: str = "",
    states: Sequence[StartedState] = (),
) -> Bundle:
    """machines: the first choice first. regions: by the name of the function that a call names. preparations: of inputs by name. source: the SHA-256
    of the model's file in hex. states: that one run hands to the next.

    Raises UserError E1109 for a region not compiled.
    """
    members: dict[str, bytes] = {}
    hosts, programs, plan = list[HostSegment](), list[RegionProgram](), list[PlanStep]()
    pairs = {state.input: state.output for state in states}
    for step in cut_model(model, pairs):
        if isinstance(step, HostModel):
            plan.append(PlanStep("host", len(hosts)))
            hosts.append(_host(step, len(hosts), members))
        else:
            if step.region not in regions:
                raise fail("E1109", f"the region '{step.region}' has no program", hint="compile it first", place=name)
            plan.append(PlanStep("region", len(programs)))
            programs.append(_region(step, regions[step.region], len(programs), members))
    inputs = tuple(replace(_interface(value), preparation=(preparations or {}).get(value.name or "")) for value in model.graph.inputs)
    outputs = tuple(_interface(value) for value in model.graph.outputs)
    targets = tuple(target_of(machine) for machine in machines)
    rounds = find_rounds(model, pairs)
    held = tuple(_state(state, rounds.get(state.input), members) for state in states)
    return Bundle(Manifest(name, __version__, source, targets, inputs, outputs, tuple(plan), tuple(hosts), tuple(programs), held), members)


def _state(state: StartedState, found: Round | None, members: dict[str, bytes]) -> State:
    start = data_name(state.start) if state.start else ""
    members.update({start: state.start} if start else {})
    taken, made = (found.taken.name or "", found.made.name or "") if found else (state.input, state.output)
    return State(state.input, state.output, taken, made, start)


def _host(step: HostModel, number: int, members: dict[str, bytes]) -> HostSegment:
    member = f"host{number}.onnx"
    members.update({member: step.model, **step.constants})
    return HostSegment(member, step.inputs, step.outputs, step.work)


def _region(call: RegionCall, code: RegionCode, number: int, members: dict[str, bytes]) -> RegionProgram:
    texts = {"binary": (code.suffix, code.blob), "origins": ("json", code.origins), "schedule": ("yaml", code.schedule.encode())}
    named = {part: f"region{number}.{suffix}" if data else "" for part, (suffix, data) in texts.items()}
    constants = {name: data_name(data) for name, data in code.constants.items() if data}
    files = {name: data_name(data) for name, data in code.files.items()}
    members.update({member: code.constants[name] for name, member in constants.items()})
    members.update({named[part]: data for part, (_, data) in texts.items() if data})
    members.update({member: code.files[name] for name, member in files.items()})
    inputs, outputs = (_ports(values, names) for values, names in ((call.inputs, code.map.inputs), (call.outputs, code.map.outputs)))
    return RegionProgram(
        call.region, code.target, code.images, named["binary"], named["origins"], named["schedule"], code.map, inputs, outputs,
        constants, code.cycles, files, code.function,
    )  # fmt: skip


def _ports(values: Sequence[ir.Value], names: Sequence[str]) -> tuple[Port, ...]:
    """The graph's tensors and the region's; the latter are called the same, or stand in the same order."""
    own = [value.name or "" for value in values]
    matched = own if set(own) <= set(names) else names
    return tuple(Port(name, tensor, shape_of(value)) for name, tensor, value in zip(own, matched, values, strict=True))


def _interface(value: ir.Value) -> Interface:
    scale = value.metadata_props.get(SCALE)
    tensor = isinstance(value.type, ir.TensorType)
    shape = None if value.shape is None or not tensor else tuple(size if isinstance(size, int) else -1 for size in value.shape)
    return Interface(value.name or "", shape, _dtype(value), float.fromhex(scale) if scale else 0.0)


def _dtype(value: ir.Value) -> str:
    """numpy's name of the type; ONNX's where numpy has none, and for a value that is no tensor."""
    if not isinstance(value.type, ir.TensorType) or value.dtype is None:
        return str(value.type)
    return str(np.dtype(value.dtype.numpy()).name) if value.dtype in PLAIN else value.dtype.name.lower()
