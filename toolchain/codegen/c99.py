"""C99 code: a function for each region, which calls a library on tensors at planned places of one block of memory.

The library holds kernels of int8 operations, or ONNX's operators in float32.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from toolchain.abi.dram_map import DramMap, Segment
from toolchain.codegen import RegionCode, render
from toolchain.codegen.graphs import graph_cycles, place_border, place_constants
from toolchain.graph.regions import GraphRegion
from toolchain.graph.rewrite import known_shape
from toolchain.schedule.backend import Backend
from toolchain.schedule.calls import PlannedCalls, library_call, plan_calls
from toolchain.schedule.dram_allocation import ALIGN
from toolchain.schedule.form.plan import Schedule
from toolchain.schedule.graph_offload import FLOAT_BYTES, first_unmet, rule_numbers
from toolchain.schedule.kernels.kernel import Call, Tensor
from toolchain.schedule.kernels.operator_calls import EVERY, RESULT, Argument, OperatorCall, float_attribute, float_names, load_operator_calls
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Need, share_room
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import constant
from toolchain.spec.model import Machine


class C99Generator:
    """Calls run one after the other, so there is no schedule to obey."""

    def generate(self, backend: Backend, region: Region | GraphRegion, schedule: Schedule | None = None) -> RegionCode:
        """Raises UserError E1003, E1004, E1007, E1008 and E1010 for a region that the library cannot do."""
        del schedule
        if isinstance(region, GraphRegion):
            return c99_graph_code(backend, region)
        return c99_code(backend.machine, plan_calls(backend, region))


def c99_code(machine: Machine, plan: PlannedCalls) -> RegionCode:
    """The planned calls as a C file, and the library's files beside it."""
    library = library_call(plan.problems[0]).library
    region, held = plan.region, plan.placed.map
    source = c99_source(machine, plan)
    return RegionCode(
        target=machine.name,
        suffix="c",
        blob=source.encode(),
        source=source,
        map=held,
        constants=plan.placed.constants,
        images=held.tensors[held.outputs[0]].shape.batch,
        cycles=sum(plan.cycles),
        files=library.files(),
        function=region.name,
    )


@dataclass(frozen=True)
class CallText:
    """A call as the template has it. arguments: members of the function's structure, with their text."""

    label: str
    function: str
    arguments: tuple[tuple[str, str], ...]


def c99_source(machine: Machine, plan: PlannedCalls) -> str:
    """The text of the region's C file."""
    each = zip(plan.problems, plan.region.operations, plan.placed.scopes[0], strict=True)
    calls = [_call_text(machine, problem, bound, scope) for problem, bound, scope in each]
    header, size = library_call(plan.problems[0]).library.header, plan.placed.map.bytes
    return render("c99", "region.c.j2", name=plan.region.name, machine=machine.label, header=header, bytes=size, align=ALIGN, calls=calls)


def _call_text(machine: Machine, problem: Problem, bound: Bound, scope: Mapping[str, int]) -> CallText:
    call, tensors = library_call(problem), {tensor.name: tensor for tensor in problem.kernel.tensors}
    numbers = {**problem.numbers, **scope}
    return CallText(
        c_comment(f"{bound.operation.name}: {bound.operation.kind.name}"), call.function, tuple(_arguments(machine, call, tensors, numbers))
    )


def _arguments(machine: Machine, call: Call, tensors: Mapping[str, Tensor], numbers: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    for member, value in call.arguments.items():
        if isinstance(value, str):
            yield member, _address(machine, tensors[value], numbers[f"{value}_base"])
        else:
            yield member, str(constant(value, numbers))


def _address(machine: Machine, tensor: Tensor, base: int) -> str:
    """base: in elements of the tensor's view."""
    scalar = machine.view[tensor.view].element.scalar
    kind = f"{'' if scalar.signed else 'u'}int{scalar.bits}_t"
    return f"({'' if tensor.written else 'const '}{kind} *)(memory + {base * max(machine.view[tensor.view].unit, 1)})"


def c_comment(text: str) -> str:
    """A model's name as part of a comment: characters that could end the comment, or its line, become `_`. At most 120 characters."""
    return re.sub(r"[^A-Za-z0-9_.:,() -]", "_", text)[:120]


def c99_graph_code(backend: Backend, region: GraphRegion) -> RegionCode:
    """Raises UserError E1010 for a tensor of unknown shape, an attribute that C has no constant for, an operator that the library does not take."""
    calls, places = load_operator_calls(backend.machine), plan_places(region)
    library = next(iter(calls.values())).library
    texts = [_operator_text(calls.get(node.op_type), node, region, places) for node in region.nodes]
    label, header = backend.machine.label, library.header
    source = render("c99", "region.c.j2", name=region.name, machine=label, header=header, bytes=places.map.bytes, align=ALIGN, calls=texts)
    return RegionCode(
        target=backend.machine.name,
        suffix="c",
        blob=source.encode(),
        source=source,
        map=places.map,
        constants={"constants": places.constants},
        images=1,
        cycles=graph_cycles(backend, region),
        files=library.files(),
        function=region.name,
    )


@dataclass(frozen=True)
class PlannedGraph:
    """address: of each tensor in the block of memory, in bytes."""

    map: DramMap
    constants: bytes
    address: Mapping[str, int]


def plan_places(region: GraphRegion) -> PlannedGraph:
    """Inputs, results, tensors between operators, whose room is shared over time, and constants, each content once.

    Raises UserError E1010 for a tensor of unknown shape."""
    border = place_border(region)
    constants, offsets = place_constants(region)
    needs = _needs(region)
    between, size = share_room(needs, ALIGN)
    end = border.bytes
    segments = {**border.segments, "swap": Segment(end, size), "constants": Segment(end + -(-size // ALIGN) * ALIGN, len(constants))}
    address = {name: border.address_of(name) for name in border.tensors}
    address |= {name: segments["swap"].address + offset for name, offset in between.items()}
    address |= {name: segments["constants"].address + offset for name, offset in offsets.items()}
    return PlannedGraph(replace(border, segments=segments), constants, address)


def _needs(region: GraphRegion) -> dict[str, Need]:
    """Tensors between operators, from the call that makes each to the last that reads it."""
    border = {tensor.name for tensor in (*region.inputs, *region.outputs)}
    last = {value.name: moment for moment, node in enumerate(region.nodes) for value in node.inputs if value is not None}
    found = dict[str, Need]()
    for moment, node in enumerate(region.nodes):
        for value in node.outputs:
            if value.name and value.name not in border:
                shape = known_shape(value)
                if shape is None:
                    raise fail("E1010", f"the shape of '{value.name}' of region '{region.name}' is not known", hint="build the graph again")
                found[value.name] = Need(FLOAT_BYTES * math.prod(shape), moment, last.get(value.name, moment))
    return found


def _operator_text(call: OperatorCall | None, node: ir.Node, region: GraphRegion, places: PlannedGraph) -> CallText:
    """Conditions held when the graph was partitioned; they are looked at again on the numbers that the arguments are made of."""
    numbers = rule_numbers(node, call.let, region.constants) if call else {}
    reason = first_unmet(call.requires, numbers) if call else f"there is no function for {node.op_type}"
    if call is None or reason:
        text = f"region '{region.name}' has a node '{node.name}' that its library does not take: {reason}"
        raise fail("E1010", text, hint="build the graph again")
    arguments = tuple((member, _argument(call, node, value, numbers, places)) for member, value in call.arguments.items())
    return CallText(c_comment(f"{node.name or ''}: {node.op_type}"), call.function, arguments)


def _argument(call: OperatorCall, node: ir.Node, value: Argument, numbers: Mapping[str, int], places: PlannedGraph) -> str:
    """As C has it; an input that the operator does not have is NULL."""
    if isinstance(value, tuple):
        return f"{{{', '.join(str(constant(each, numbers)) for each in value)}}}"
    if not isinstance(value, str):
        return str(constant(value, numbers))
    if value in float_names(call.operator):
        return _number(node, value)
    if value == RESULT:
        return _float_address(node.outputs[0].name, places, "")
    if value == EVERY:
        return f"(const float *const []){{{', '.join(_addresses(node.inputs, places))}}}"
    place = int(value.removeprefix("x"))
    given = node.inputs[place] if place < len(node.inputs) else None
    return "NULL" if given is None else _float_address(given.name, places)


def _addresses(values: Iterable[ir.Value | None], places: PlannedGraph) -> list[str]:
    return [_float_address(value.name, places) for value in values if value is not None]


def _float_address(name: str | None, places: PlannedGraph, const: str = "const ") -> str:
    return f"({const}float *)(memory + {places.address[name or '']})"


def _number(node: ir.Node, name: str) -> str:
    """A float32, as the hexadecimal that C99 has for it. Raises UserError E1010 for infinity, which it does not."""
    found = float(np.float32(float_attribute(node, name)))
    if not math.isfinite(found):
        raise fail("E1010", f"attribute '{name}' of '{node.name}' is {found}, which C has no constant for")
    return f"{found.hex()}f"
