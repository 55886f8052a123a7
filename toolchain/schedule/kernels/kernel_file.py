"""Reads a machine's kernels, targets/NAME/kernels.yaml, once for each state of its files: sequences of instructions, or functions of a C
library."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds, kinds_with, own_operations
from toolchain.schedule.kernels.defaults import default_tensors
from toolchain.schedule.kernels.kernel import Call, Kernel, Library, Tensor
from toolchain.schedule.kernels.kernel_parts import naming, read_shared, with_common
from toolchain.schedule.kernels.kernel_reader import KernelReader
from toolchain.schedule.kernels.limits import check_numerics
from toolchain.spec.context import Context
from toolchain.spec.errors import Source, fail, nearest
from toolchain.spec.expr import Expr
from toolchain.spec.files import PACKAGE, Contents, contents, read_limited
from toolchain.spec.fingerprint import MeaningKey
from toolchain.spec.load import companion
from toolchain.spec.model import Machine
from toolchain.spec.schema import validate
from toolchain.spec.yaml_nodes import MAX_BYTES, Node, parse_yaml

TILED = ("axes", "tile", "where", "windows", "places", "constants", "steps", "residency", "begin", "end")
"""Parts of a kernel of instructions."""

KERNEL_SCHEMA = PACKAGE / "schemas" / "kernels.schema.json"
SHARED = ("shapes", "sequences", "common", "kernels")
"""Sections that may stand in several files."""
NAME = re.compile(r"[A-Za-z0-9_-]+\.yaml\Z")


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


def load_kernels(machine: Machine) -> dict[str, Kernel]:
    """The machine's kernels by name, but those that it goes without.

    Raises UserError E1001 where it has none, or none of a name that is left out, and all of `read_kernels`."""
    path = required_path(machine)
    found = _loaded(MeaningKey(machine, timed=True), path, (contents(path.parent), contents(own_operations(machine))))
    for name in machine.without:
        _require(found, name, machine)
    return {name: kernel for name, kernel in found.items() if name not in machine.without}


@lru_cache(maxsize=64)
def _loaded(key: MeaningKey, path: Path, _files: tuple[Contents, Contents]) -> Mapping[str, Kernel]:
    """Read once for each state of the files: the stages of a build all ask for the kernels."""
    return read_kernels(key.machine, kernel_source(path), path.parent)


def has_kernels(machine: Machine) -> bool:
    """Whether the machine's folder has a kernel file."""
    return kernel_path(machine) is not None


def load_kernel(machine: Machine, name: str) -> Kernel:
    """The machine's kernel of that name. Raises UserError E1001 where there is none, and all of `load_kernels`."""
    known = load_kernels(machine)
    _require(known, name, machine)
    return known[name]


def _require(known: Mapping[str, Kernel], name: str, machine: Machine) -> None:
    if name not in known:
        hint = nearest(name, known) or f"known: {', '.join(known)}"
        raise fail("E1001", f"machine '{machine.name}' has no kernel '{name}'", place=str(kernel_path(machine)), hint=hint)


def kernel_path(machine: Machine) -> Path | None:
    """The machine's kernel file; None where it has none."""
    return companion(Path(machine.path), machine.name, "kernels.yaml")


def required_path(machine: Machine) -> Path:
    """The machine's kernel file. Raises UserError E1001 where it has none."""
    path = kernel_path(machine)
    if path is None:
        listed = "it takes graphs, and its section 'operators' lists what it computes"
        hint = listed if machine.takes_graphs and not machine.calls_operators else f"write targets/{machine.name}/kernels.yaml"
        raise fail("E1001", f"machine '{machine.name}' has no kernels", hint=hint)
    return path


def read_kernels(machine: Machine, source: Source, folder: Path) -> dict[str, Kernel]:
    """Raises UserError E0101.. for the YAML, E0107 for an unknown name in an expression, E1002 for a part that the machine lacks, E1009 for numerics
    that a kernel leaves out."""
    root, context = parse_kernels(machine, source, folder)
    shared, library = read_shared(machine, context, root), read_library(machine, root, folder)
    known = kinds_with(own_operations(machine))  # with the numbers of whole and of floating formats
    kernels = {name: with_common(root, name, node) for name, node in root.members("kernels")}
    found: dict[str, Kernel] = {}
    for name, node in kernels.items():
        with naming(name, root):
            kind = _kind(node, known)
            reader = KernelReader(machine, context, node, folder, kind, shared)
            found[name] = read_call_kernel(reader, name, library) if library else reader.kernel(name)
            check_numerics(machine, found[name], kind)
    return found


def parse_kernels(machine: Machine, source: Source, folder: Path) -> tuple[Node, Context]:
    """A kernel file that follows the schema, with the files of its folder that it names, and how its expressions are read.

    Raises UserError E0101.. for the YAML, and all of `with_parts`.
    """
    root = with_parts(parse_yaml(source), folder)
    validate(root, KERNEL_SCHEMA)
    choices: dict[str, tuple[str, ...]] = {}
    for (param, choice), _ in sorted(machine.choices.items(), key=lambda item: item[1]):
        choices[param] = (*choices.get(param, ()), choice)
    return root, Context(root, machine.config, machine.params, choices)


def _kind(node: Node, kinds: Kinds) -> OperationKind:
    computes = node.value["computes"]
    if computes.value not in kinds:
        raise fail("E1002", f"unknown operation '{computes.value}'", computes.span, nearest(computes.value, kinds) or f"known: {', '.join(kinds)}")
    return kinds[computes.value]


def kernel_source(path: Path) -> Source:
    """The text of a kernel file. Raises UserError E0001 where it cannot be read."""
    try:
        return Source(str(path), read_limited(path, MAX_BYTES, "the kernel file").decode())
    except UnicodeDecodeError as error:
        raise fail("E0001", f"the kernel file is not UTF-8 text at byte {error.start:#x}", place=str(path)) from None


def with_parts(root: Node, folder: Path) -> Node:
    """The file with the entries of those that `files` names in its folder; other sections stand in it alone. The schema reports all other faults.

    Raises UserError E0001 for a file that cannot be read, E0101 to E0103 for its YAML, E1002 for another section in it and for an entry that
    stands in two files.
    """
    listed = root.get("files")
    names = [node for node in listed.children() if isinstance(node.value, str) and NAME.match(node.value)] if listed else []
    joined: dict[str, Node] = dict(root.items()) if names else {}
    for node in names:
        path = folder / node.value
        if not path.is_file():
            raise fail("E0001", f"there is no file '{path.name}' beside this one", node.span)
        part = parse_yaml(kernel_source(path))
        if not isinstance(part.value, dict):
            raise fail("E1002", f"a file of kernels holds {', '.join(SHARED)}", part.span)
        for section, own in part.items():
            if section not in SHARED:
                raise fail("E1002", f"'{section}' stands in the machine's own kernel file alone", own.where(), nearest(section, SHARED))
            joined[section] = _both(joined[section], own) if section in joined else own
    return Node(joined, root.span, root.path, root.style, root.key_span) if names else root


def _both(first: Node, second: Node) -> Node:
    """The entries of one section in two files."""
    if not isinstance(first.value, dict) or not isinstance(second.value, dict):
        return second if isinstance(first.value, dict) else first  # no mapping: the schema says so
    members: dict[str, Node] = dict(first.items())
    for name, node in second.items():
        if name in members:
            there = members[name].where()
            raise fail("E1002", f"'{name}' stands in two files, here and at {there}", node.where())
        members[name] = node
    return Node(members, first.span, first.path, first.style, first.key_span)
