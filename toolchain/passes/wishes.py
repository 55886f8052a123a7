"""Wishes of the user about where nodes are: patterns in a model's file, rules of a deployment."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import onnx_ir as ir

from toolchain.passes.context import Wish

KEPT = "the model's file keeps it on the host"
GIVEN = "the model's file gives it to "
RULED = "by a rule of the deployment it is on "
"""How reasons begin: the machine's name, or `the host: ` and the rule's own words follow the last two."""


def keep(patterns: Sequence[str]) -> Wish:
    """As the model's file says."""
    return Wish(tuple(patterns), "", KEPT)


def give(patterns: Sequence[str], machine: str) -> Wish:
    """As the model's file says."""
    return Wish(tuple(patterns), machine, GIVEN + machine)


def rule(patterns: Sequence[str], machine: str, because: str) -> Wish:
    """As the deployment says. machine: empty for the host."""
    return Wish(tuple(patterns), machine, f"{RULED}{machine or 'the host'}: {because}")


def is_wished(reason: str) -> bool:
    """Whether a node is where it is because the user said so."""
    return reason.startswith((KEPT, GIVEN, RULED))


def keeps(reason: str) -> bool:
    """Whether the user has said that a node is on the host."""
    return reason.startswith((KEPT, f"{RULED}the host: "))


def fits(node: ir.Node, patterns: Sequence[str]) -> bool:
    """Whether a node's name or operator fits one of the patterns; `*` and `?` stand for any text and any character."""
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in (node.name or "", node.op_type))


def wish_for(nodes: Sequence[ir.Node], wishes: Sequence[Wish]) -> Wish | None:
    """The first that fits one of the nodes."""
    return next((wish for wish in wishes if any(fits(node, wish.patterns) for node in nodes)), None)
