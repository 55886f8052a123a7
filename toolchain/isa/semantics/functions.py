"""Functions of the semantics language: assignments and one return, read once and put in place of their calls."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.isa.semantics.text import Locator
from toolchain.spec.errors import Span, fail
from toolchain.spec.evaluate import RESERVED
from toolchain.spec.expr import Expr
from toolchain.spec.model import Machine


@dataclass(frozen=True)
class Function:
    """lets: local names in order; results: what it returns, one or more. Names in it are not resolved yet."""

    name: str
    params: tuple[str, ...]
    lets: tuple[tuple[str, Expr], ...]
    results: tuple[Expr, ...]
    span: Span


def read_functions(machine: Machine) -> Mapping[str, Function]:
    """The machine's functions. Raises UserError E0201, E0203, E0205."""
    found: dict[str, Function] = {}
    if machine.functions:
        locator = Locator(machine.functions)
        reserved = {*RESERVED, *(rule.name for rule in machine.rules)}
        for node in locator.parse():
            if not isinstance(node, ast.FunctionDef):
                raise fail("E0203", "only functions stand here", locator.span(node))
            if node.name in found or node.name in reserved:
                raise fail("E0205", f"the name '{node.name}' is taken", locator.span(node))
            found[node.name] = _function(node, locator)
    return found


def _function(node: ast.FunctionDef, locator: Locator) -> Function:
    args = node.args
    plain = not (args.posonlyargs or args.vararg or args.kwonlyargs or args.kwarg or args.defaults or node.decorator_list)
    params = tuple(a.arg for a in args.args)
    if not plain or len(set(params)) != len(params):
        raise fail("E0203", f"{node.name}: a function has plain parameters only", locator.span(node))
    lets: list[tuple[str, Expr]] = []
    for stmt in node.body:
        match stmt:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                lets.append((name, locator.convert(value)))
            case ast.Return(value=ast.Tuple(elts=values)):
                return Function(node.name, params, tuple(lets), tuple(map(locator.convert, values)), locator.span(node))
            case ast.Return(value=ast.expr() as value):
                return Function(node.name, params, tuple(lets), (locator.convert(value),), locator.span(node))
            case _:
                raise fail("E0203", "a function holds assignments and a return", locator.span(stmt))
    raise fail("E0203", f"{node.name} returns nothing", locator.span(node))
