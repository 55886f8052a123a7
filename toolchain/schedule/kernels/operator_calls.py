"""Kernels that are a function for an operator of ONNX, of a machine that calls a library in floating point, and the numbers of an operator that
their conditions and arguments may name: attributes, shapes, windows, steps of broadcasting."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from toolchain.graph.operators import attribute_default, known_operators
from toolchain.graph.rewrite import known_shape
from toolchain.schedule.kernels.kernel import Library, Require
from toolchain.schedule.kernels.kernel_file import filled, kernel_source, parse_kernels, read_library, required_path
from toolchain.schedule.kernels.kernel_parts import checked, naming, timed, with_common
from toolchain.spec.arrays import Array
from toolchain.spec.context import Context
from toolchain.spec.errors import Source, Span, fail, nearest
from toolchain.spec.expr import Const, Expr
from toolchain.spec.files import Contents, contents
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Machine
from toolchain.spec.yaml_nodes import Node

STANDARD = ""
"""The domain of ONNX's own operators."""
PLACES = 6
"""Numbers of a list, axes of a tensor, and inputs that can be named."""
VALUES = 8
"""Numbers of a known input that can be named."""
LARGEST = 1 << 62
OF_TENSOR = "rank", "inputs", "outputs", "elements", "out_rank", "out_elements"
OF_WINDOW = "kernel", "stride", "dilation", "before", "after"
OF_AXIS = "before_axis", "at_axis", "after_axis"
TEXTS: Mapping[str, tuple[str, ...]] = {
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "approximate": ("none", "tanh"),
    "mode": ("nearest", "linear", "cubic", "constant", "reflect", "edge", "wrap", "DCR", "CRD"),
    "coordinate_transformation_mode": ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
}
"""Texts of attributes that can be named."""
Kind = onnx.defs.OpSchema.AttrType

RESULT, EVERY = "y", "every_x"
TENSORS = (RESULT, EVERY, *(f"x{place}" for place in range(PLACES)))
"""Tensors of an operator: its first result, an array of all inputs, and input K."""
ALLOWED = ("call", "common", "computes", "doc", "requires", "let", "arguments", "cycles")
Argument = Expr | str | tuple[Expr, ...]
"""A number, the name of a tensor or of an attribute in floating point, or an array of numbers."""


@lru_cache(maxsize=512)
def number_names(operator: str) -> frozenset[str]:
    """Everything that conditions and arguments may name:

    - NAME of a whole attribute, NAME_K of a list; NAME_TEXT is 1 where an attribute has that text.
    - size_K: axis K of the first input; size_J_K: of input J; out_size_K: of the result. rank, elements: of the first input; out_rank, out_elements:
      of the result; rank_J, elements_J, last_J (the size of the last axis).
    - known_J: whether input J is a constant; whole_J: whether it holds at most eight numbers without fractions, which are value_J_K.
    - extent_K: the result's sizes with ones in front, six in all; step_J_K: elements of input J from one to the next along it, 0 where it repeats.
    - before_axis, at_axis, after_axis: elements before, at and behind the attribute `axis`.
    - kernel_K, stride_K, dilation_K, before_K, after_K: windows by spatial axis, automatic padding worked out.
    """
    places = range(PLACES)
    found = {*OF_TENSOR, *(f"{kind}_{place}" for kind in ("rank", "known", "elements", "last", "size", "out_size", "extent") for place in places)}
    found |= {f"{kind}_{place}_{axis}" for kind in ("size", "step") for place in places for axis in places}
    found |= {f"whole_{place}" for place in places} | {f"value_{place}_{number}" for place in places for number in range(VALUES)}
    found |= {f"{name}_{text}" for name, texts in TEXTS.items() for text in texts}  # an operator may get the attribute in a later version of ONNX
    for name, attribute in onnx.defs.get_schema(operator).attributes.items():
        found |= {name} if attribute.type == Kind.INT else set()
        found |= {f"{name}_{place}" for place in places} if attribute.type == Kind.INTS else set()
        found |= set(OF_AXIS) if name == "axis" and attribute.type == Kind.INT else set()
        found |= {f"{kind}_{place}" for kind in OF_WINDOW for place in places} if name == "kernel_shape" else set()
    return frozenset(found)


def float_names(operator: str) -> frozenset[str]:
    """Attributes that are floating-point numbers."""
    return frozenset(name for name, attribute in onnx.defs.get_schema(operator).attributes.items() if attribute.type == Kind.FLOAT)


def float_attribute(node: ir.Node, name: str) -> float:
    """An attribute that is not there has ONNX's default, or is 0."""
    return float(node.attributes[name].value if name in node.attributes else attribute_default(node.op_type, name) or 0.0)


def known_inputs(nodes: Iterable[ir.Node]) -> dict[str, Array]:
    """The constants that nodes of a whole model read, by name."""
    read = (value for node in nodes for value in node.inputs if value is not None and value.is_initializer())
    return {value.name or "": value.const_value.numpy() for value in read if value.const_value is not None}


def operator_numbers(node: ir.Node, known: Mapping[str, Array]) -> Mapping[str, int]:
    """The value of each of `number_names`. An attribute that is not there has ONNX's default, or is 0.

    known: constants by name, those of the whole model or of the region that the node is in, where they are inputs like others."""
    found = dict.fromkeys(sorted(number_names(node.op_type)), 0)
    found |= dict(_of_attributes(node))
    shapes = [known_shape(value) or () if value is not None else () for value in node.inputs[:PLACES]]
    result = (known_shape(node.outputs[0]) if node.outputs else None) or ()
    for place, (value, shape) in enumerate(zip(node.inputs, shapes, strict=False)):
        array = known.get(value.name or "") if value is not None else None
        found |= {f"rank_{place}": len(shape), f"elements_{place}": math.prod(shape), f"last_{place}": shape[-1] if shape else 1}
        found |= {f"size_{place}_{axis}": size for axis, size in enumerate(shape[:PLACES])}
        found |= {f"step_{place}_{axis}": step for axis, step in enumerate(_steps(shape, result))}
        values = _values(array)
        found |= {f"value_{place}_{number}": each for number, each in enumerate(values)}
        found |= {f"known_{place}": int(array is not None), f"whole_{place}": int(bool(values))}
    first = shapes[0] if shapes else ()
    found |= {f"size_{axis}": size for axis, size in enumerate(first[:PLACES])}
    found |= {f"out_size_{axis}": size for axis, size in enumerate(result[:PLACES])}
    found |= {f"extent_{axis}": size for axis, size in enumerate(_six(result))}
    found |= dict(_of_axis(first, found["axis"])) if "before_axis" in found else {}
    found |= dict(_of_windows(found, shapes, result)) if "before_0" in found else {}
    counts = {"inputs": sum(value is not None for value in node.inputs), "outputs": len(node.outputs)}
    return found | counts | {"rank": len(first), "elements": math.prod(first), "out_rank": len(result), "out_elements": math.prod(result)}


def _of_attributes(node: ir.Node) -> Iterator[tuple[str, int]]:
    for name, attribute in onnx.defs.get_schema(node.op_type).attributes.items():
        value: Any = node.attributes[name].value if name in node.attributes else attribute_default(node.op_type, name)
        if attribute.type == Kind.INT:
            yield name, int(value or 0)
        elif attribute.type == Kind.INTS:
            yield from ((f"{name}_{place}", int(number)) for place, number in enumerate(list(value or ())[:PLACES]))
        elif attribute.type == Kind.STRING and name in TEXTS:
            yield from ((f"{name}_{each}", int(each == value)) for each in TEXTS[name])


def _values(array: Array | None) -> list[int]:
    """The numbers of a known input that has few, all of them whole; empty for any other."""
    if array is None or not 0 < array.size <= VALUES or array.dtype.kind not in "biuf":
        return []
    found: list[float] = array.reshape(-1).tolist()
    return [int(each) for each in found] if all(math.isfinite(each) and int(each) == each and abs(each) < LARGEST for each in found) else []


def _six(shape: Sequence[int]) -> tuple[int, ...]:
    """With ones in front; the last axes of a tensor that has more."""
    return (1,) * (PLACES - len(shape)) + tuple(shape[-PLACES:])


def _steps(shape: Sequence[int], result: Sequence[int]) -> list[int]:
    """By axis of the result, with ones in front: elements of a tensor of this shape from one to the next."""
    found, step = list[int](), 1
    for size, extent in zip(reversed(_six(shape)), reversed(_six(result)), strict=True):
        found.append(step if size == extent and size > 1 else 0)
        step *= size
    return found[::-1]


def _of_axis(shape: Sequence[int], axis: int) -> Iterator[tuple[str, int]]:
    axis += len(shape) if axis < 0 else 0
    yield "before_axis", math.prod(shape[:axis])
    yield "at_axis", math.prod(shape[axis : axis + 1])
    yield "after_axis", math.prod(shape[axis + 1 :])


def _of_windows(numbers: Mapping[str, int], shapes: Sequence[Sequence[int]], result: Sequence[int]) -> Iterator[tuple[str, int]]:
    """kernel: of the weights where the attribute is left out. before, after: rows of padding in front and behind."""
    weights, axes = shapes[1] if len(shapes) > 1 else (), max(len(shapes[0]) - 2, 0) if shapes else 0
    for axis in range(axes):
        kernel = numbers[f"kernel_shape_{axis}"] or (weights[axis + 2] if axis + 2 < len(weights) else 1)
        stride, dilation = (numbers.get(f"{name}_{axis}", 0) or 1 for name in ("strides", "dilations"))
        yield from ((f"kernel_{axis}", kernel), (f"stride_{axis}", stride), (f"dilation_{axis}", dilation))
        before, after = (numbers.get(f"pads_{place}", 0) if numbers["auto_pad_NOTSET"] else 0 for place in (axis, axis + axes))
        if (numbers["auto_pad_SAME_UPPER"] or numbers["auto_pad_SAME_LOWER"]) and axis + 2 < len(result):
            whole = max((result[axis + 2] - 1) * stride + (kernel - 1) * dilation + 1 - shapes[0][axis + 2], 0)
            before = whole // 2 if numbers["auto_pad_SAME_UPPER"] else whole - whole // 2
            after = whole - before
        yield from ((f"before_{axis}", before), (f"after_{axis}", after))


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A function that computes an operator. let: numbers, each from those before it. arguments: by member of the function's structure."""

    operator: str
    library: Library
    function: str
    requires: tuple[Require, ...]
    let: Mapping[str, Expr]
    arguments: Mapping[str, Argument]
    cycles: Expr
    span: Span

    @property
    def addressed(self) -> tuple[int, ...]:
        """Inputs whose place in memory the function gets."""
        passed = [value for value in self.arguments.values() if isinstance(value, str)]
        return tuple(place for place in range(PLACES) if f"x{place}" in passed or EVERY in passed)


def load_operator_calls(machine: Machine) -> Mapping[str, OperatorCall]:
    """By operator. Raises UserError E1001 where the machine has no kernels, and all of `read_operator_calls`."""
    path = required_path(machine)
    return _loaded(MachineKey(machine), path, contents(path.parent))


@lru_cache(maxsize=16)
def _loaded(key: MachineKey, path: Path, _files: Contents) -> Mapping[str, OperatorCall]:
    return read_operator_calls(key.machine, kernel_source(path), path.parent)


def read_operator_calls(machine: Machine, source: Source, folder: Path) -> Mapping[str, OperatorCall]:
    """Raises UserError E0101.. for the YAML, E0107 for an operator or a name that ONNX does not have, E1002 for an entry that does not belong
    here."""
    root, context = parse_kernels(machine, source, folder)
    library, known = read_library(machine, root, folder), known_operators()
    assert library is not None  # the machine's codegen is c99
    found: dict[str, OperatorCall] = {}
    for name, node in root.members("kernels"):
        joined = with_common(root, name, node)
        with naming(name, root):
            if name not in known:
                raise fail("E0107", f"ONNX has no operator '{name}'", node.where(), nearest(name, known))
            odd = next((key for key, _ in joined.items() if key not in ALLOWED), None)
            if odd is not None:
                raise fail("E1002", f"a function for an operator of ONNX has no '{odd}'", joined.value[odd].where())
            found[name] = _read(machine, context, name, joined, library)
    return found


def _read(machine: Machine, context: Context, name: str, node: Node, library: Library) -> OperatorCall:
    names, let = set(number_names(name)), dict[str, Expr]()
    for key, value in node.members("let"):
        let[key] = checked(context.expr(value), names)
        names.add(key)
    requires = tuple(Require(checked(context.expr(each.value["that"]), names), each.text("message")) for each in node.entries("requires"))
    known = {*TENSORS, *float_names(name)}
    arguments = {key: _argument(context, filled(value, key), names, known) for key, value in node.members("arguments")}
    cycles = checked(timed(machine, context).expr(node.value["cycles"]), names) if node.get("cycles") else Const(0)
    return OperatorCall(name, library, node.text("call"), requires, let, arguments, cycles, node.where())


def _argument(context: Context, node: Node, names: set[str], words: set[str]) -> Argument:
    if isinstance(node.value, list):
        return tuple(checked(context.expr(each), names) for each in node.children())
    return str(node.value) if node.value in words else checked(context.expr(node), names)
