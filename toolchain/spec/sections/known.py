"""Names that a section may only take from a list."""

from collections.abc import Collection

from toolchain.spec.errors import fail
from toolchain.spec.suggest import nearest
from toolchain.spec.yaml_nodes import Node


def one_of(what: str, node: Node, known: Collection[str]) -> str:
    """The name that a scalar holds. Raises UserError E0107 for one that is not known."""
    if node.value not in known:
        raise fail("E0107", f"unknown {what} '{node.value}'", node.span, nearest(str(node.value), known))
    return str(node.value)
