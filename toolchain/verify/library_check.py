"""Runs the functions of a machine's C library: on random operations against their meaning, and in floating point on ONNX's own cases."""

import functools
import importlib
import pkgutil
import sys
import warnings
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx.backend.test.case import node
from onnx.backend.test.case.test_case import TestCase

from toolchain.abi.dram_map import Shape, get_tensor, put_tensor
from toolchain.codegen import RegionCode
from toolchain.codegen.c99 import c99_code, c99_graph_code
from toolchain.graph.regions import GraphRegion, GraphTensor
from toolchain.graph.rewrite import ONNX_DOMAINS
from toolchain.operations.library import Kinds
from toolchain.operations.operation import Operation
from toolchain.runtime.device import ByteRange, Bytes
from toolchain.runtime.open_region import compile_c
from toolchain.runtime.transfers import buffer_of
from toolchain.schedule.backend import Backend
from toolchain.schedule.calls import plan_calls
from toolchain.schedule.graph_offload import GraphRules
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.operator_calls import STANDARD, load_operator_calls
from toolchain.schedule.regions.region import Bound, Region, Slice
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, described, fail
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics
from toolchain.verify.compare import distance, distant, told_difference
from toolchain.verify.kernel_check import TRIES, KernelChecked, none_passes, operations_for

ROOM = 5
"""Channels that a wider tensor has more than the one in it, at most."""


def check_call(machine: Machine, kernel: Kernel, kinds: Kinds, count: int = 6, seed: int = 0) -> KernelChecked:
    """All operations in one compiled file. Raises UserError E1305 for a result that differs, with the numbers, E1306 where no random operation
    passes the kernel's conditions, E1308 where the kernel cannot be carried out, E0710 and E0711 where nothing can be compiled."""
    with described(kernel.span, f"the check of kernel '{kernel.name}'"):
        return _checked_calls(machine, kernel, kinds, count, seed)


def _checked_calls(machine: Machine, kernel: Kernel, kinds: Kinds, count: int, seed: int) -> KernelChecked:
    rng, backend = np.random.default_rng(seed), Backend(machine, {kernel.name: kernel})
    cases, refused = list[tuple[Operation, Region, RegionCode]](), 0
    for problem in operations_for(machine, kernel, kinds[kernel.computes], rng):
        if problem is None:
            refused += 1
            if refused > TRIES * (len(cases) + 1):
                break
            continue
        region = _call_region(f"case{len(cases)}", problem.operation, rng)
        cases.append((problem.operation, region, c99_code(machine, plan_calls(backend, region))))
        if len(cases) == count:
            break
    if not cases:
        raise none_passes(machine, kernel, kinds, refused)
    source = b"\n".join(code.blob for _, _, code in cases)
    for operation, region, code in cases:
        _compare_calls(machine, kernel, operation, region, replace(code, blob=source), rng)
    return KernelChecked(kernel.name, kernel.computes, len(cases), refused, len(cases))


def _call_region(name: str, operation: Operation, rng: np.random.Generator) -> Region:
    """The operation alone; its operands and its result may stand in the middle of wider tensors."""
    pictures = {operand: operation.input(operand) for operand in operation.kind.data} | {"y": operation.output}
    tensors = {tensor: Shape(*picture) for tensor, picture in pictures.items()}
    inputs, outputs, slices = list(operation.kind.data), ["y"], dict[str, Slice]()
    for tensor, shape in list(tensors.items()):
        before, after = (int(rng.integers(0, ROOM)) for _ in range(2))
        if not before + after or rng.integers(2):
            continue
        tensors[f"{tensor}_whole"] = shape._replace(channels=before + shape.channels + after)
        slices[tensor] = Slice(f"{tensor}_whole", before, view=tensor != "y")
        side = outputs if tensor == "y" else inputs
        side[side.index(tensor)] = f"{tensor}_whole"
    bound = Bound(operation, {tensor: tensor for tensor in pictures})
    return Region(name, tensors, tuple(inputs), tuple(outputs), (bound,), slices)


def _compare_calls(machine: Machine, kernel: Kernel, operation: Operation, region: Region, code: RegionCode, rng: np.random.Generator) -> None:
    """Raises UserError E1305."""
    numerics, held = machine.quantisation or Numerics(), code.map
    given = {name: _random(numerics, region.tensors[name], rng) for name in region.inputs}
    compiled = compile_c(machine, region.name, held, code.function, code.blob, code.files, code.constants)
    writes: dict[ByteRange, Bytes] = {}
    for name, values in given.items():
        where = buffer_of(held, name)
        put_tensor(machine, held.tensors[name], writes.setdefault(where, np.zeros(where.bytes, np.uint8)), values)
    (output,) = region.outputs
    beside = _random(numerics, region.tensors[output], rng)  # bytes beside the result stay as they are
    where = buffer_of(held, output)
    put_tensor(machine, held.tensors[output], writes.setdefault(where, np.zeros(where.bytes, np.uint8)), beside)
    found = get_tensor(machine, held.tensors[output], compiled.run(writes, [where]).data[0])
    operands = {name: _part(region, name, given) for name in operation.kind.data}
    wanted = beside.copy()
    _view(region, "y", wanted)[...] = operation.run(operands, numerics)
    if not np.array_equal(found, wanted):
        raise _differs(kernel, operation, found, wanted)


def _random(numerics: Numerics, shape: Shape, rng: np.random.Generator) -> Array:
    return rng.integers(numerics.activation.low, numerics.activation.high + 1, tuple(shape)).astype(numerics.stored)


def _part(region: Region, name: str, given: Mapping[str, Array]) -> Array:
    return _view(region, name, given[region.slices[name].parent if name in region.slices else name])


def _view(region: Region, name: str, whole: Array) -> Array:
    """The channels of a tensor in the one that it stands in."""
    first = region.slices[name].channel if name in region.slices else 0
    return whole[:, first : first + region.tensors[name].channels]


def _differs(kernel: Kernel, operation: Operation, found: Array, wanted: Array) -> UserError:
    numbers = ", ".join(f"{name} {operation.numbers[name]}" for name in operation.kind.numbers)
    told = told_difference(wanted, found, found != wanted)
    return fail("E1305", f"kernel '{kernel.name}' {told}, for {numbers}", kernel.span)


@functools.cache
def case_modules() -> Sequence[str]:
    """Modules that hold the cases, most of them of one operator; those of other domains are in packages below."""
    prefix = f"{node.__name__}."
    return tuple(sorted(name.removeprefix(prefix) for _, name, inner in pkgutil.walk_packages(node.__path__, prefix) if not inner))


def all_cases() -> Sequence[TestCase]:
    """The cases of all modules, which make them when they are imported: ten seconds, as onnx computes every result."""
    return tuple(case for module in case_modules() for case in cases_in(module))


@functools.cache
def modules_of(operator: str) -> Sequence[str]:
    """Modules whose text has the name of the operator: all that make nodes of it, but for the bodies of functions of others."""
    return tuple(module for module in case_modules() if operator in _text(module))


def _text(module: str) -> str:
    path = Path(node.__path__[0], *module.split(".")).with_suffix(".py")
    return path.read_text(encoding="utf-8")


@functools.cache
def cases_in(module: str) -> Sequence[TestCase]:
    """The cases of one module; where it was imported before, those whose names begin with its own."""
    made: list[TestCase] = node._NodeTestCases  # type: ignore[reportPrivateUsage]
    name, before = f"{node.__name__}.{module}", len(made)
    if name in sys.modules:
        return tuple(case for case in _usable(made) if case.name.startswith(f"test_{module.rpartition('.')[2]}"))
    with _quiet():
        importlib.import_module(name)
    return tuple(_usable(made[before:]))


def _usable(cases: Iterable[TestCase]) -> Iterator[TestCase]:
    """Cases that hold their model and their data."""
    return (case for case in cases if case.model and case.data_sets)


@contextmanager
def _quiet() -> Generator[None]:
    """Cases with infinite results warn when they are made."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@dataclass(frozen=True)
class OperatorChecked:
    """cases: of ONNX that the function ran, with results as near as the machine's file asks. refused: those that its conditions do not admit.

    distance: the largest of all differences."""

    operator: str
    cases: int
    refused: int
    distance: float


@dataclass(frozen=True)
class _Case:
    """A node with its operands and its first result."""

    name: str
    node: ir.Node
    given: Mapping[str, Array]
    expected: Array
    opset: int


def check_operator(machine: Machine, operator: str) -> OperatorChecked:
    """All cases in one compiled file. Raises UserError E1305 for a result that differs by more than the file allows, E1306 where the function's
    conditions admit no case, E1308 where the function's numbers cannot be carried out, E0710 and E0711 where nothing can be compiled."""
    with described(load_operator_calls(machine)[operator].span, f"the check of the function for {operator}"):
        return _checked_operator(machine, operator)


def _checked_operator(machine: Machine, operator: str) -> OperatorChecked:
    rules, backend = GraphRules(machine), Backend(machine, {})
    cases, ready = cases_of(operator), list[tuple[_Case, GraphRegion, RegionCode]]()
    for case in cases:
        known = next((names for names in _ways(case) if not rules.refusal(_node(case, names))), None)
        if known is not None:
            region = _operator_region(f"case{len(ready)}", case, known)
            ready.append((case, region, c99_graph_code(backend, region)))
    if not ready:
        raise fail(
            "E1306",
            f"none of ONNX's {len(cases)} cases of {operator} passes the conditions of its function",
            load_operator_calls(machine)[operator].span,
        )
    source = b"\n".join(code.blob for _, _, code in ready)
    apart = [_distance_of_operator(machine, case, region, replace(code, blob=source)) for case, region, code in ready]
    return OperatorChecked(operator, len(ready), len(cases) - len(ready), max(apart))


def cases_of(operator: str) -> list[_Case]:
    """Nodes of that operator alone, in ONNX's suite, whose result is a tensor of float32."""
    return [found for module in modules_of(operator) for case in cases_in(module) if (found := _case(case, operator)) is not None]


def _case(case: TestCase, operator: str) -> _Case | None:
    if case.model is None or not case.data_sets:
        return None
    graph = case.model.graph
    if len(graph.node) != 1 or graph.node[0].op_type != operator or graph.node[0].domain not in ONNX_DOMAINS:
        return None
    inputs, outputs = case.data_sets[0]
    given: list[Any] = [*inputs, outputs[0]]
    if not all(isinstance(array, np.ndarray | np.generic) for array in given) or given[-1].dtype != np.float32:
        return None
    arrays: dict[str, Array] = {info.name: np.asarray(array) for info, array in zip(graph.input, given, strict=False)}
    result: Array = np.asarray(given[-1])
    model = ir.serde.deserialize_model(case.model)
    return _Case(case.name, next(iter(model.graph)), arrays, result, model.opset_imports[STANDARD])


def _ways(case: _Case) -> tuple[list[str], list[str]]:
    """Operands that are constants: those that are no float32, or all but the first."""
    names = [value.name or "" for value in case.node.inputs if value is not None and value.name]
    return [name for name in names if case.given[name].dtype != np.float32], names[1:]


def _node(case: _Case, known: Collection[str]) -> ir.Node:
    """Alone in a graph. Further results, which a node may leave out, are left out."""
    names = [value.name if value is not None else None for value in case.node.inputs]
    values = [_value(name, case.given[name], name in known) if name else None for name in names]
    first = case.node.outputs[0]
    outputs = [ir.Value(name=first.name, shape=ir.Shape(case.expected.shape), type=first.type)]
    node = ir.Node(STANDARD, case.node.op_type, values, [*case.node.attributes.values()], outputs=outputs, name=case.name)
    held = [value for value in values if value is not None]
    free, fixed = ([value for value in held if (value.name in known) == wanted] for wanted in (False, True))
    ir.Graph(free, outputs, nodes=[node], initializers=fixed, opset_imports={STANDARD: case.opset})
    return node


def _value(name: str, array: Array, known: bool) -> ir.Value:
    kind = ir.TensorType(ir.DataType.from_numpy(array.dtype))
    return ir.Value(name=name, shape=ir.Shape(array.shape), type=kind, const_value=ir.tensor(array, name=name) if known else None)


def _operator_region(name: str, case: _Case, known: Collection[str]) -> GraphRegion:
    """As partitioning leaves it: constants are inputs of the node like others, and the region holds their values."""
    constants = {each: array for each, array in case.given.items() if each in known}
    inputs = tuple(GraphTensor(each, array.shape, str(array.dtype)) for each, array in case.given.items() if each not in known)
    output = GraphTensor(case.node.outputs[0].name or "", case.expected.shape, "float32")
    return GraphRegion(name, inputs, (output,), (_node(case, ()),), constants, case.opset)


def _distance_of_operator(machine: Machine, case: _Case, region: GraphRegion, code: RegionCode) -> float:
    """The largest difference. Raises UserError E1305."""
    compiled = compile_c(machine, region.name, code.map, code.function, code.blob, code.files, code.constants)
    places = {tensor.name: code.map.tensors[tensor.name] for tensor in (*region.inputs, *region.outputs)}
    ranges = {name: ByteRange(stored.segment, stored.offset, stored.bytes) for name, stored in places.items()}
    writes = {ranges[tensor.name]: np.ascontiguousarray(case.given[tensor.name]).reshape(-1).view(np.uint8) for tensor in region.inputs}
    (data,) = compiled.run(writes, [ranges[region.outputs[0].name]]).data
    found = data.view(np.float32).reshape(case.expected.shape)
    wrong = distant(case.expected, found, machine.allowance)
    if wrong.any():
        told = told_difference(case.expected, found, wrong)
        place = load_operator_calls(machine)[case.node.op_type].span
        raise fail("E1305", f"the function for {case.node.op_type} {told}, in ONNX's case {case.name}", place)
    return distance(case.expected, found)
