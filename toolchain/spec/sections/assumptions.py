"""The assumptions of a machine file: every node marked `assumed`, as a sentence with its place in the file's tree."""

from collections.abc import Iterator

from toolchain.spec.yaml_nodes import Node


def assumptions(root: Node) -> tuple[str, ...]:
    """`timing.constants.SETUP = 32: one round trip`; the file's own list first."""
    return (*(str(n.value) for n in root.entries("assumptions")), *_below(root))


def _below(node: Node) -> Iterator[str]:
    mark = node.get("assumed")
    if mark is not None and not isinstance(mark.value, dict):
        yield from _sentences(node, mark)
    for entry in node.children():
        yield from _below(entry)


def _sentences(node: Node, mark: Node) -> Iterator[str]:
    place = ".".join(map(str, node.path))
    value = node.get("value")
    subject = f"{place} = {value.value}" if value else place
    if isinstance(mark.value, list):
        yield from (f"{place}: {note.value}" for note in mark.children())
    elif isinstance(mark.value, str):
        yield f"{subject}: {mark.value}"
    elif mark.value:
        reason = node.text("source") or node.text("doc")
        yield f"{subject}: {reason}" if reason else subject
