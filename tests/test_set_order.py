"""Sets have no order of their own: under another hash seed a loop over one goes another way. No module under toolchain/ walks a set where the order
could reach a result: each sorts it, keeps a dict, or does something in which order is no part.

Types are read off annotations, literals and assignments, so a set that comes out of an untyped place is overlooked;
pyright's strict mode leaves none.
"""

import ast
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[1] / "toolchain"
SETS = {"set", "frozenset", "Set", "AbstractSet", "KeysView"}
GIVES_SET = {"union", "intersection", "difference", "symmetric_difference"}
ORDERLESS = {"sorted", "len", "sum", "any", "all", "set", "frozenset", "min", "max"}
"""What these make of a set is the same in any order, unless a key leaves ties."""
ORDERED = {"list", "tuple", "enumerate", "iter", "next", "map", "filter", "zip", "dict", "fromkeys", "join", "chain", "reversed", "from_iterable"}
ORDERED |= {"product", "permutations", "combinations", "array", "extend"}
WITHOUT_TIES = {"_ordinal", "self.places.__getitem__", "str"}
"""Keys that differ for different elements."""
Function = ast.FunctionDef | ast.Module


def test_no_module_depends_on_the_order_of_a_set() -> None:
    trees = _trees()
    found = [f"{path.relative_to(ROOT.parent)}:{at}: {text}" for path, tree in trees.items() for at, text in _walks(tree, _declared())]
    assert len(trees) > 300
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "for name in {x for x in y}: print(name)",
        "def f(names: frozenset[str]):\n    return [name for name in names]",
        "def f(a):\n    seen = set(a)\n    return {name: 0 for name in seen}",
        "def f(a, b):\n    return ', '.join(a.keys() - b.keys())",
        "def f(a):\n    return next(iter(set(a)))",
        "def f(a: set[int]):\n    yield from a",
        "def f(a: set[int]):\n    return [*a, 1]",
        "def f(a: set[int]):\n    return max(a, key=len)",
        "class C:\n    names: frozenset[str]\ndef f(c):\n    return tuple(c.names)",
        "def own() -> set[str]: ...\ndef f():\n    return list(own())",
    ],
)
def test_a_walk_over_a_set_is_seen(text: str) -> None:
    tree = ast.parse(dedent(text))
    assert len([*_walks(tree, _declarations([tree]))]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "for name in sorted({x for x in y}): print(name)",
        "def f(a: set[int]):\n    return {x + 1 for x in a}, len(a), any(x > 1 for x in a), max(a), 3 in a",
        "def f(a: set[int]):\n    (only,) = a\n    return only",
        "def f(a: dict[str, int]):\n    return [*a]",
        "def f(a: set[int], b):\n    return frozenset().union(*(b[x] for x in a))",
    ],
)
def test_uses_without_an_order_are_free(text: str) -> None:
    tree = ast.parse(dedent(text))
    assert [*_walks(tree, _declarations([tree]))] == []


@cache
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


@cache
def _declared() -> frozenset[str]:
    return _declarations(list(_trees().values()))


def _declarations(trees: list[ast.Module]) -> frozenset[str]:
    """Functions (`name()`) and attributes (`.name`) that are sets wherever they are declared."""
    sets, others = set[str](), set[str]()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef):
            read = any(ast.unparse(each) in ("property", "cached_property") for each in node.decorator_list)
            (sets if _is_set(node.returns) else others).add(f".{node.name}" if read else f"{node.name}()")
        elif isinstance(node, ast.ClassDef):
            fields = (each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name))
            for each in fields:
                (sets if _is_set(each.annotation) else others).add(f".{ast.unparse(each.target)}")
    return frozenset(sets - others)


def _is_set(annotation: ast.expr | None) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return _is_set(ast.parse(annotation.value, mode="eval").body)
    if isinstance(annotation, ast.BinOp):
        return _is_set(annotation.left) or _is_set(annotation.right)
    if isinstance(annotation, ast.Subscript):
        return _is_set(annotation.value)
    return isinstance(annotation, ast.Name) and annotation.id in SETS


def _is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "keys"


def _walks(tree: ast.Module, declared: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Line and text of each place where the order of a set matters."""
    top: list[ast.stmt] = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    found: dict[tuple[int, str], None] = {}
    for function in (ast.Module(top, []), *functions):
        found |= dict.fromkeys(_Scope(function, declared).walks())
    yield from found


class _Scope:
    """A function, and the local names in it that are sets."""

    def __init__(self, function: Function, declared: frozenset[str]) -> None:
        self.function, self.declared, self.names = function, declared, set[str]()
        self.nodes = list(ast.walk(function))
        while more := set(self._assigned()) - self.names:  # a name may get a set from one that is assigned below it, in a loop
            self.names |= more

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    def _assigned(self) -> Iterator[str]:
        for node in self.nodes:
            if isinstance(node, ast.arg | ast.AnnAssign) and _is_set(node.annotation):
                yield node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)
            elif isinstance(node, ast.NamedExpr) and self.is_set(node.value):
                yield node.target.id
            elif isinstance(node, ast.Assign):
                yield from (name for target in node.targets for name in self._targets(target, node.value))

    def _targets(self, target: ast.expr, value: ast.expr) -> Iterator[str]:
        if isinstance(target, ast.Name) and self.is_set(value):
            yield target.id
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, made in zip(target.elts, value.elts, strict=False):
                yield from self._targets(one, made)

    def is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name(id=name):
                return name in self.names
            case ast.NamedExpr(value=value):
                return self.is_set(value)
            case ast.IfExp(body=one, orelse=other):
                return self.is_set(one) or self.is_set(other)
            case ast.BoolOp(values=values):
                return any(map(self.is_set, values))
            case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
                return any(self.is_set(each) or _is_keys(each) for each in (left, right))
            case ast.Attribute(attr=name):
                return f".{name}" in self.declared
            case ast.Call(func=ast.Subscript(value=ast.Name(id=name))) | ast.Call(func=ast.Name(id=name)):
                return name in ("set", "frozenset") or f"{name}()" in self.declared
            case ast.Call(func=ast.Attribute(attr=name, value=value)):
                return (name in GIVES_SET and self.is_set(value)) or f"{name}()" in self.declared
            case _:
                return False

    def walks(self) -> Iterator[tuple[int, str]]:
        for node in self.nodes:
            if self._depends(node):
                assert isinstance(node, ast.stmt | ast.expr)
                yield node.lineno, ast.unparse(node).splitlines()[0][:120]

    def _depends(self, node: ast.AST) -> bool:
        match node:
            case ast.For(iter=walked) | ast.YieldFrom(value=walked):
                return self.is_set(walked)
            case ast.ListComp() | ast.GeneratorExp() | ast.DictComp():
                return any(self.is_set(each.iter) for each in node.generators) and not self._is_free(node)
            case ast.Starred(value=value, ctx=ast.Load()):
                return self.is_set(value) and not self._is_free(node)
            case ast.Call(func=function, args=args):
                name = function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
                return (name in ORDERED or (name in ORDERLESS and self._leaves_ties(node))) and any(map(self.is_set, args))
            case _:
                return False

    def _leaves_ties(self, call: ast.Call) -> bool:
        return any(each.arg == "key" and ast.unparse(each.value) not in WITHOUT_TIES for each in call.keywords)

    def _is_free(self, node: ast.AST) -> bool:
        """Whether this stands in a set, or in a call that takes its elements in any order."""
        parent = self.parents.get(node)
        if isinstance(parent, ast.Starred):
            return self._is_free(parent)
        if isinstance(parent, ast.Call):
            name = parent.func.id if isinstance(parent.func, ast.Name) else parent.func.attr if isinstance(parent.func, ast.Attribute) else ""
            return (name in ORDERLESS and not self._leaves_ties(parent)) or name in GIVES_SET
        return isinstance(parent, ast.Set)
