"""Common parts: stated once under `common`, they become part of each kernel that names them."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace

from toolchain.spec.context import Context, Scope, problems
from toolchain.spec.errors import Diagnostic, Span, UserError, fail, nearest
from toolchain.spec.expr import Expr
from toolchain.spec.model import Machine
from toolchain.spec.yaml_nodes import Node

STEPS = ("load", "start", "compute", "finish", "store")
NEEDED = ("tile", "places", "steps")
CALLED = ("call", "arguments")


def with_common(root: Node, name: str, kernel: Node) -> Node:
    """A kernel with its common parts in place: their entries stand before its own, steps in the order in which a tile takes them. It computes the
    operation of its name where it says no other.

    Raises UserError E1002 for a part that is not there, for an entry that is given twice, and for a section that a kernel lacks.
    """
    known = dict(root.members("common"))
    joined: dict[str, Node] = {}
    for part in [*(_part(known, name) for name in kernel.entries("common")), kernel]:
        for key, node in part.items():
            if key not in ("common", "doc"):
                joined[key] = _both(key, joined[key], node) if key in joined else node
    joined.setdefault("computes", Node(name, kernel.where(), kernel.path))
    lacking = [key for key in (CALLED if root.get("library") else NEEDED) if key not in joined]
    if lacking:
        raise fail("E1002", f"a kernel needs '{lacking[0]}'", kernel.where())
    if kernel.entries("common") and "steps" in joined:
        steps = joined["steps"]
        joined["steps"] = Node(sorted(steps.value, key=_rank), steps.span, steps.path)
    return Node(joined, kernel.span, kernel.path, kernel.style, kernel.key_span)


@contextmanager
def naming(name: str, root: Node) -> Generator[None]:
    """Errors in the file's common parts say which kernel cannot use them."""
    own = dict(root.members("kernels"))[name].where()
    places = [node.where() for _, node in root.members("kernels")]
    following = min((place.line for place in places if place.source == own.source and place.line > own.line), default=None)
    try:
        yield
    except UserError as error:
        told = f"in kernel '{name}'"
        found = (d if _within(d, own, following) else replace(d, hint=f"{d.hint} ({told})" if d.hint else told) for d in error.diagnostics)
        raise UserError(*found) from None


def _within(diagnostic: Diagnostic, first: Span, stop: int | None) -> bool:
    """Whether it stands in the kernel's own lines, as far as lines tell."""
    span = diagnostic.span
    return span is not None and span.source == first.source and first.line <= span.line and (stop is None or span.line < stop)


def _part(known: dict[str, Node], name: Node) -> Node:
    if name.value not in known:
        raise fail("E1002", f"there is no common part '{name.value}'", name.span, nearest(str(name.value), known))
    return known[name.value]


def _both(key: str, first: Node, second: Node) -> Node:
    """One section of two parts."""
    if isinstance(first.value, list):
        return Node([*first.children(), *second.children()], second.span, second.path)
    if not isinstance(first.value, dict):
        raise fail("E1002", f"'{key}' stands in the kernel and in a common part, or in two", second.where())
    members = dict(first.items())
    for name, node in second.items():
        if name in members:
            raise fail("E1002", f"'{name}' stands in the kernel and in a common part, or in two", node.where())
        members[name] = node
    return Node(members, second.span, second.path, second.style, second.key_span)


def _rank(step: Node) -> int:
    """Loads first; a step of no known kind is left to the reader to refuse."""
    return next((number for number, kind in enumerate(STEPS) if step.get(kind)), 0)


def checked(expr: Expr, names: Iterable[str], arrays: Iterable[str] = ()) -> Expr:
    """The expression, which uses these names alone. Raises UserError E0107, E0121 and E0123."""
    wrong = list(problems(expr, Scope(frozenset(names), hosted=frozenset(arrays))))
    if wrong:
        raise UserError(*wrong)
    return expr


def timed(machine: Machine, context: Context) -> Context:
    """How the cycles of a kernel are read: they alone may name constants of the timing section, for time never changes a result."""
    return context.with_names({**{c.name: c.value for c in machine.timing.constants}, **machine.params})


def known_word(node: Node, names: Iterable[str], what: str) -> str:
    """A word that must be one of `names`. Raises UserError E1002."""
    names = list(names)
    if node.value not in names:
        raise fail("E1002", f"unknown {what} '{node.value}'", node.span, nearest(str(node.value), names) or f"known: {', '.join(names)}")
    return str(node.value)
