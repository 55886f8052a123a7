"""Reads a kernel that is a function of a C library: its tensors in memory, and its arguments."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from toolchain.schedule.kernels.default_tensors import default_tensors
from toolchain.schedule.kernels.kernel import Call, Kernel, Library, Tensor
from toolchain.schedule.kernels.kernel_reader import KernelReader
from toolchain.spec.errors import fail
from toolchain.spec.expr import Expr
from toolchain.spec.model import Machine
from toolchain.spec.yaml_nodes import Node

TILED = ("axes", "tile", "where", "windows", "places", "constants", "steps", "residency", "begin", "end")
"""Parts of a kernel of instructions."""


def read_library(machine: Machine, root: Node, folder: Path) -> Library | None:
    """None for a machine with instructions of its own. Raises UserError E1002 where the file and the machine's `codegen` do not go together, or a
    file of the library is missing."""
    node = root.get("library")
    if (node is not None) != (machine.codegen == "c99"):
        text = f"machine '{machine.name}' has codegen: {machine.codegen}, and its kernels have {'a' if node else 'no'} 'library'"
        raise fail("E1002", text, (node or root).where())
    if node is None:
        return None
    for item in (node.value["header"], *node.entries("sources")):
        if not (folder / str(item.value)).is_file():
            raise fail("E1002", f"there is no file '{item.value}' in {folder}", item.span)
    return Library(folder, node.text("header"), tuple(str(item.value) for item in node.entries("sources")))


def read_call_kernel(reader: KernelReader, name: str, library: Library) -> Kernel:
    """Raises UserError E1002 for parts that only a kernel of instructions has, and for arguments that are neither a tensor nor an expression."""
    node, machine = reader.node, reader.machine
    odd = next((key for key, _ in node.items() if key in TILED), None)
    if odd is not None:
        raise fail("E1002", f"a kernel that calls a library has no '{odd}'", node.value[odd].where())
    let = reader.numbers()
    given = {*reader.kind.numbers, *let}
    stated = [reader.tensor(key, value, given) for key, value in node.members("tensors")]
    tensors = tuple(_viewed(machine, t, node) for t in (*stated, *default_tensors(machine, reader.kind, [t.name for t in stated], node)))
    seen = {*given, *(part for tensor in tensors for part in reader.of_tensor(tensor) if part.endswith("_channels"))}
    arguments = {key: _argument(reader, key, value, tensors, seen) for key, value in node.members("arguments")}
    unused = next((tensor.name for tensor in tensors if tensor.name not in arguments.values()), None)
    if unused is not None:
        raise fail("E1002", f"kernel '{name}' does not pass tensor '{unused}'", node.value["arguments"].where())
    call = Call(library, node.text("call"), arguments, reader.cycles(node, given) if node.get("cycles") else None)
    requires = tuple(reader.requirement(each, given) for each in node.entries("requires"))
    return Kernel(
        name, node.text("computes"), reader.folder, let, requires, (), (), (), (), tensors, (), (), None, (), node.where(), call=call,
    )  # fmt: skip


def _argument(reader: KernelReader, key: str, node: Node, tensors: Iterable[Tensor], seen: Iterable[str]) -> Expr | str:
    named = filled(node, key)
    if named.value in {tensor.name for tensor in tensors}:
        return str(named.value)
    if isinstance(named.value, list):
        raise fail("E1002", f"argument '{key}' is an array, which only functions for operators of ONNX take", node.where())
    return reader.expr(named, seen)


def filled(node: Node, key: str) -> Node:
    """A member without a value stands for the number or the array of its key's name."""
    return Node(key, node.key_span or node.span, node.path) if node.value is None else node


def _viewed(machine: Machine, tensor: Tensor, node: Node) -> Tensor:
    """A tensor whose view is not stated stands in the one whose elements are its layout's. Raises UserError E1002 where that is not one."""
    if tensor.view:
        return tensor
    scalar = next(layout for layout in machine.layouts if layout.name == tensor.layout).type
    views = [view.name for view in machine.views if view.element.scalar == scalar and not view.element.dims]
    if len(views) != 1:
        raise fail("E1002", f"tensor '{tensor.name}' needs a 'view': {len(views)} have elements of its layout's type", node.where())
    return replace(tensor, view=views[0])
