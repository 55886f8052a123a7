"""A template's tree: constructs that cannot be followed or bounded are refused, loops and macros are made to pay."""

from typing import cast

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.visitor import NodeTransformer

from toolchain.schedule.sandbox.filters import FILTERS, PAY, TESTS, WEIGH
from toolchain.spec.errors import nearest

_REFUSED: tuple[type[nodes.Node], ...] = (nodes.Extends, nodes.Block, nodes.ScopedEvalContextModifier)


def checked_tree(tree: nodes.Template, environment: Environment, filename: str) -> nodes.Template:
    """The tree, changed in place. Raises TemplateSyntaxError with the line of a construct that is refused."""
    for node in tree.find_all(_REFUSED):
        raise _refused("'extends', 'block' and 'autoescape' are not allowed in these templates", node, filename)
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport)):
        name = cast(nodes.Include, node).template
        if not isinstance(name, nodes.Const) or not isinstance(name.value, str):
            raise _refused("the name of a template that is included or imported must be written out", node, filename)
    for node in tree.find_all((nodes.Filter, nodes.Test)):
        known = FILTERS if isinstance(node, nodes.Filter) else TESTS
        if node.name not in known:
            hint = nearest(node.name, known)
            raise _refused(f"there is no {type(node).__name__.lower()} '{node.name}'{'; ' if hint else ''}{hint}", node, filename)
    for node in tree.find_all(nodes.For):
        if node.recursive:
            raise _refused("recursive loops are not allowed; use a macro", node, filename)
    changed = cast(nodes.Template, _Charging().visit(tree))
    changed.set_environment(environment)
    return changed


def _refused(text: str, node: nodes.Node, filename: str) -> TemplateSyntaxError:
    return TemplateSyntaxError(text, node.lineno, filename=filename)


class _Charging(NodeTransformer):
    """Calls of two filters that no template can name, where work may be repeated; Jinja finds the methods by its nodes' names."""

    def visit_Template(self, node: nodes.Template) -> nodes.Node:  # noqa: N802
        return self._paying(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        return self._paying(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802
        return self._paying(node)

    def _paying(self, node: nodes.Template | nodes.Macro | nodes.CallBlock) -> nodes.Node:
        cost = _weight(node.body)
        self.generic_visit(node)
        line = node.lineno
        node.body.insert(0, nodes.Output([_filter(nodes.Const(cost, lineno=line), PAY)], lineno=line))
        return node

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        cost = 1 + _weight(node.body)
        self.generic_visit(node)
        node.iter = _filter(cast(nodes.Expr, node.iter), WEIGH, cost)
        return node

    def visit_Operand(self, node: nodes.Operand) -> nodes.Node:  # noqa: N802
        """The right side of a comparison or of `in`."""
        self.generic_visit(node)
        node.expr = _filter(node.expr, WEIGH)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter(nodes.List(node.nodes, lineno=node.lineno), "join")

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        """A slice is a copy."""
        self.generic_visit(node)
        return _filter(node, WEIGH) if isinstance(node.arg, nodes.Slice) else node


def _filter(value: nodes.Expr, name: str, *given: int) -> nodes.Filter:
    arguments = [nodes.Const(number, lineno=value.lineno) for number in given]
    return nodes.Filter(value, name, arguments, [], None, None, lineno=value.lineno)


def _weight(body: list[nodes.Node]) -> int:
    """Parts and characters of a body that is gone through once."""
    found = [part for node in body for part in (node, *node.find_all(nodes.Node))]
    return len(found) + sum(len(part.data) for part in found if isinstance(part, nodes.TemplateData))
