"""A kernel file and the files beside it that it names: one set of shapes, sequences, common parts and kernels, each entry with its own position."""

import re
from pathlib import Path

from toolchain.spec.errors import Source, fail, nearest
from toolchain.spec.files import read_limited
from toolchain.spec.yaml_nodes import MAX_BYTES, Node, parse_yaml

SHARED = ("shapes", "sequences", "common", "kernels")
"""Sections that may stand in several files."""
NAME = re.compile(r"[A-Za-z0-9_-]+\.yaml\Z")


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
