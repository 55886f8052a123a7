"""The context in which elaboration reads a section: the file, the parameters' values, and how to read an expression."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from toolchain.spec.evaluate import constant, fold, substitute
from toolchain.spec.expr import Const, Expr, parse_expr
from toolchain.spec.suggest import nearest
from toolchain.spec.yaml_nodes import Node


@dataclass(frozen=True)
class Context:
    """root: the whole file. config: the chosen configuration, or empty. names: values of parameters and derived names.
    choices: the words of each parameter that has some, whose value is a word's place among them. parsed: expressions that were read, by node."""

    root: Node
    config: str
    names: Mapping[str, int]
    choices: Mapping[str, tuple[str, ...]]
    parsed: dict[int, tuple[Node, Expr]] = field(default_factory=dict[int, tuple[Node, Expr]], compare=False, repr=False)

    def with_names(self, more: Mapping[str, int]) -> "Context":
        return replace(self, names={**self.names, **more})

    def parse(self, node: Node) -> Expr:
        """The expression a scalar holds, parameters not yet in place."""
        if isinstance(node.value, int):
            return Const(int(node.value), span=node.span)
        if id(node) not in self.parsed:  # parts of a file that several others have in common are read for each
            self.parsed[id(node)] = node, parse_expr(str(node.value), node.locate)
        return self.parsed[id(node)][1]

    def expr(self, node: Node, more: Mapping[str, int] | None = None) -> Expr:
        """The expression with parameters in place; fields and other names stay."""
        return fold(substitute(self.parse(node), self._names(more), self.choices))

    def resolve(self, expr: Expr) -> Expr:
        """A parsed expression with parameters in place."""
        return fold(substitute(expr, self.names, self.choices))

    def number(self, node: Node, more: Mapping[str, int] | None = None) -> int:
        """The value of a constant expression."""
        return constant(self.parse(node), self._names(more), self.choices)

    def _names(self, more: Mapping[str, int] | None) -> Mapping[str, int]:
        """Copied only where there is something to add: a file may hold as many expressions as names."""
        return {**self.names, **more} if more else self.names

    def optional(self, node: Node | None, default: int = 0) -> Expr:
        return self.expr(node) if node else Const(default)

    def near(self, word: str, known: Iterable[str]) -> str:
        return nearest(word, known)
