"""Index maps: `n c -> n, c // 16, c % 16`."""

import re

from toolchain.spec.errors import fail
from toolchain.spec.expr import Expr, Index, Name, parse_expr
from toolchain.spec.yaml_nodes import Node


def read_map(node: Node) -> tuple[tuple[str, ...], tuple[Expr, ...]]:
    """The names before the arrow and the expressions behind it. Raises UserError E0112 for names that are none or repeat."""
    head, _, body = str(node.value).partition("->")
    names = tuple(head.split())
    if not names or len(set(names)) != len(names) or not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", n) for n in names):
        raise fail("E0112", "a map reads 'name name -> expression', each name once", node.span)
    lead = len(body) - len(body.lstrip())
    start = len(head) + len("->") + lead - len("_[")
    whole = parse_expr(f"_[{body.strip()}]", lambda line, column: node.locate(line, column + start))
    if not isinstance(whole, Index) or whole.base != Name("_"):
        raise fail("E0112", "a map reads 'name name -> expression'", node.span)
    return names, whole.index
