"""Sections operators, fusion and pipeline: what the compiler may give to the machine, and how it gets there."""

from collections.abc import Mapping

from toolchain.spec.context import Context
from toolchain.spec.model import Constraint, Outline
from toolchain.spec.yaml_nodes import Node


def operators(context: Context) -> Mapping[str, tuple[Constraint, ...]]:
    """By kind of operation; conditions over its numbers, parameters in place. The kinds and their numbers are known where kernels are."""
    return {kind: tuple(_condition(context, n) for n in node.children()) for kind, node in context.root.members("operators")}


def _condition(context: Context, node: Node) -> Constraint:
    return Constraint(context.expr(node.value["that"]), node.text("message"))


def outline(root: Node, name: str) -> Outline | None:
    """A section whose words belong to the graph's passes, which read it from its node."""
    node = root.get(name)
    return None if node is None else Outline(node.plain(), node)
