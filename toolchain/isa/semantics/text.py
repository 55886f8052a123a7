"""Semantics text to Python syntax trees with positions in the machine's file; nothing deep enough to hurt gets through."""

import ast

from toolchain.spec import expr as ex
from toolchain.spec.errors import Span, fail
from toolchain.spec.expr import Expr, check_text
from toolchain.spec.model import Text

MAX_DEPTH = 48
"""Statements and expressions, one inside the other."""


class Locator:
    """Knows where a block of text stands."""

    def __init__(self, text: Text) -> None:
        self.text = text

    def place(self, line: int, column: int) -> Span:
        """The place of line (from 1) and column (from 0) of the text."""
        start = self.text.span
        return Span(start.source, start.line + line, self.text.indent + column + 1)

    def span(self, node: ast.stmt | ast.expr) -> Span:
        return self.place(node.lineno, node.col_offset)

    def convert(self, node: ast.expr) -> Expr:
        """The expression in our own nodes, its names not resolved yet. Raises UserError E0121."""
        return ex.convert(node, self.place)

    def parse(self) -> list[ast.stmt]:
        """The statements. Raises UserError E0121 (strings, fractions), E0201 (not readable) and E0212 (nested too deep)."""
        check_text(self.text.text, self.place)
        try:
            body = ast.parse(self.text.text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line, column = getattr(error, "lineno", 1) or 1, getattr(error, "offset", 1) or 1
            raise fail("E0201", "cannot read the semantics here", self.place(line, max(column - 1, 0))) from None
        self._guard(body)
        return body

    def _guard(self, body: list[ast.stmt]) -> None:
        waiting: list[tuple[ast.AST, int]] = [(node, 1) for node in body]
        while waiting:
            node, depth = waiting.pop()
            if depth > MAX_DEPTH and isinstance(node, ast.stmt | ast.expr):
                raise fail("E0212", f"this is nested deeper than {MAX_DEPTH} levels", self.span(node), "assign a part of it to a name first")
            deeper = depth + isinstance(node, ast.stmt | ast.expr)
            waiting += [(child, deeper) for child in ast.iter_child_nodes(node)]
