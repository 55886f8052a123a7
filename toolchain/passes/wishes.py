"""Wishes of the user about where nodes are: patterns in a model's file, rules of a deployment."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import onnx_ir as ir

from toolchain.passes.context import Wish
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why


def keep(patterns: Sequence[str]) -> Wish:
    """As the model's file says."""
    return Wish(tuple(patterns), "", Why.KEPT())


def give(patterns: Sequence[str], machine: str) -> Wish:
    """As the model's file says."""
    return Wish(tuple(patterns), machine, Why.GIVEN(owner=machine))


def rule(patterns: Sequence[str], machine: str, because: str) -> Wish:
    """As the deployment says. machine: empty for the host."""
    return Wish(tuple(patterns), machine, Why.RULED(owner=machine, note=because) if machine else Why.RULED_HOST(note=because))


def keeps(reasons: Sequence[Reason]) -> bool:
    """Whether the user has said that a node is on the host."""
    return any(Why.KEPT.gave(reason) or Why.RULED_HOST.gave(reason) for reason in reasons)


def fits(node: ir.Node, patterns: Sequence[str]) -> bool:
    """Whether a node's name or operator fits one of the patterns; `*` and `?` stand for any text and any character."""
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in (node.name or "", node.op_type))


def wish_for(nodes: Sequence[ir.Node], wishes: Sequence[Wish]) -> Wish | None:
    """The first that fits one of the nodes."""
    return next((wish for wish in wishes if any(fits(node, wish.patterns) for node in nodes)), None)
