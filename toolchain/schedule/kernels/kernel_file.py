"""Reads a machine's kernels: targets/NAME/kernels.yaml, once for each state of its files."""

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds, kinds_of, own_operations
from toolchain.schedule.kernels.call_kernel import read_call_kernel, read_library
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_common import naming, with_common
from toolchain.schedule.kernels.kernel_numerics import check_numerics
from toolchain.schedule.kernels.kernel_reader import KernelReader
from toolchain.schedule.kernels.kernel_shared import read_shared
from toolchain.spec.context import Context
from toolchain.spec.errors import Source, fail, nearest
from toolchain.spec.files import PACKAGE, read_limited
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.load import companion
from toolchain.spec.model import Machine
from toolchain.spec.schema import validate
from toolchain.spec.yaml_nodes import MAX_BYTES, Node, parse_yaml

KERNEL_SCHEMA = PACKAGE / "schemas" / "kernels.schema.json"
SHARED = ("shapes", "sequences", "common", "kernels")
"""Sections that may stand in several files."""
NAME = re.compile(r"[A-Za-z0-9_-]+\.yaml\Z")
Stamps = tuple[tuple[str, int, int, int], ...]


def load_kernels(machine: Machine) -> dict[str, Kernel]:
    """The machine's kernels by name. Raises UserError E1001 where it has none, and all of `read_kernels`."""
    path = required_path(machine)
    return dict(_loaded(MachineKey(machine), path, (stamps(path.parent), stamps(own_operations(machine)))))


@lru_cache(maxsize=64)
def _loaded(key: MachineKey, path: Path, _stamped: tuple[Stamps, Stamps]) -> Mapping[str, Kernel]:
    """Read once for each state of the files: the stages of a build all ask for the kernels."""
    return read_kernels(key.machine, kernel_source(path), path.parent)


def stamps(folder: Path | None) -> Stamps:
    """Tells one state of a folder's files from the next: path, inode, size and time of the last change."""
    found: list[tuple[str, int, int, int]] = []
    for path in sorted(folder.rglob("*")) if folder else ():
        with suppress(OSError):
            state = path.stat()
            found.append((str(path), state.st_ino, state.st_size, state.st_mtime_ns))
    return tuple(found)


def has_kernels(machine: Machine) -> bool:
    """Whether the machine's folder has a kernel file."""
    return kernel_path(machine) is not None


def load_kernel(machine: Machine, name: str) -> Kernel:
    """The machine's kernel of that name. Raises UserError E1001 where there is none, and all of `load_kernels`."""
    known = load_kernels(machine)
    if name not in known:
        raise fail("E1001", f"machine '{machine.name}' has no kernel '{name}'", place=str(kernel_path(machine)), hint=nearest(name, known))
    return known[name]


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
    known = kinds_of(machine)
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
