"""Reads kernels that are a function for an operator of ONNX, of a machine that calls a library in floating point."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from toolchain.graph.operators import known_operators
from toolchain.schedule.kernels.kernel import Library, Require
from toolchain.schedule.kernels.kernel_file import Stamps, filled, kernel_source, parse_kernels, read_library, required_path, stamps
from toolchain.schedule.kernels.kernel_parts import checked, naming, timed, with_common
from toolchain.schedule.operator_numbers import PLACES, float_names, number_names
from toolchain.spec.context import Context
from toolchain.spec.errors import Source, Span, fail, nearest
from toolchain.spec.expr import Const, Expr
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import Machine
from toolchain.spec.yaml_nodes import Node

RESULT, EVERY = "y", "every_x"
TENSORS = (RESULT, EVERY, *(f"x{place}" for place in range(PLACES)))
"""Tensors of an operator: its first result, an array of all inputs, and input K."""
ALLOWED = ("call", "common", "computes", "doc", "requires", "let", "arguments", "cycles")
Argument = Expr | str | tuple[Expr, ...]
"""A number, the name of a tensor or of an attribute in floating point, or an array of numbers."""


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
    return _loaded(MachineKey(machine), path, stamps(path.parent))


@lru_cache(maxsize=16)
def _loaded(key: MachineKey, path: Path, _stamped: Stamps) -> Mapping[str, OperatorCall]:
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
