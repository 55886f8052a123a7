"""Parts of a kernel file that several kernels or places share: `common`, pools, registers and segments, and places shaped like others."""

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from toolchain.spec.context import Context, Scope, problems
from toolchain.spec.errors import Diagnostic, Span, UserError, fail, nearest
from toolchain.spec.expr import Call, Expr, Member, Name, rewrite
from toolchain.spec.model import Machine
from toolchain.spec.yaml_nodes import Node

STEPS = ("load", "start", "compute", "finish", "store")
NEEDED = ("tile", "places", "steps")
CALLED = ("call", "arguments")

ON_CHIP = ("scratchpad", "ring")
"""Kinds of memories in which tiles have slots."""

WORD = re.compile(r"[A-Za-z_]\w*")
PLACE = ("memory", "by", "size", "names", "starts", "whole", "onto")


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


@dataclass(frozen=True)
class Shared:
    """As in Kernel. sequences, shapes: by name, as written."""

    pools: Mapping[str, int]
    registers: str
    segments: Mapping[str, int]
    sequences: Mapping[str, Node]
    shapes: Mapping[str, Node]


def read_shared(machine: Machine, context: Context, root: Node) -> Shared:
    """Raises UserError E1002 for memories, registers and segments that the machine lacks, and for sequences that are called like instructions."""
    pools = {name: _pool(machine, context, name, node) for name, node in root.members("pools")}
    sequences, shapes = dict(root.members("sequences")), dict(root.members("shapes"))
    for name, node in sequences.items():
        if name in machine.instruction:
            raise fail("E1002", f"'{name}' is an instruction, and cannot be a sequence", node.where())
    node = root.get("registers")
    if node is None:
        return Shared(pools, "", {}, sequences, shapes)
    held = machine.memory.get(str(node.value))
    if held is None or not held.host:
        known = [m.name for m in machine.memories if m.host]
        raise fail("E1002", f"the host sets no registers '{node.value}'", node.span, nearest(str(node.value), known))
    for name, n in root.members("segments"):
        if n.value >= held.depths[0]:
            raise fail("E1002", f"segment '{name}' has register {n.value}, and '{held.name}' has {held.depths[0]}", n.span)
    return Shared(pools, held.name, {name: int(n.value) for name, n in root.members("segments")}, sequences, shapes)


def _pool(machine: Machine, context: Context, name: str, node: Node) -> int:
    """How many banks a pool of this memory has."""
    size, held = context.number(node.value["banks"]), machine.memory.get(name)
    if held is None or held.kind not in ON_CHIP:
        known = [memory.name for memory in machine.memories if memory.kind in ON_CHIP]
        text = f"unknown memory '{name}'" if held is None else f"slots are on chip, and memory '{name}' is of kind {held.kind}"
        raise fail("E1002", text, node.where(), nearest(name, known))
    if size < 1 or held.banks % size:
        counted = f"{held.banks} banks" if held.banks > 1 else "one bank"
        raise fail("E1002", f"the {counted} of '{name}' cannot be divided into pools of {size}", node.value["banks"].span, _sizes(held.banks))
    return size


def _sizes(banks: int) -> str:
    """The sizes that pools of so many banks can have."""
    return "possible: " + ", ".join(str(size) for size in range(1, banks + 1) if not banks % size)


@dataclass(frozen=True)
class ShapeCall:
    """Instructions that a shape says of a place. sequence: `takes` and `do`. given: the place's own entries."""

    name: str
    sequence: Node
    given: Node


def shaped(context: Context, shapes: Mapping[str, Node], name: str, node: Node) -> tuple[Node, Mapping[str, Expr]]:
    """A place with the entries of its shape, and the meaning of the names that the shape takes. shapes: of the file, by name.

    Raises UserError E0108, E0109 for a place without a shape that is not whole, E1002 for a shape that is not there or takes something else.
    """
    called = node.get("shape")
    if called is None:
        strange = next((key for key, _ in node.items() if key not in PLACE), None)
        lacking = next((key for key in ("memory", "size") if node.get(key) is None), None)
        if strange or lacking:
            fault = Diagnostic("E0108", f"unknown key '{strange}'", node.value[strange].where(), nearest(strange, PLACE)) if strange else None
            raise UserError(fault or Diagnostic("E0109", f"missing key '{lacking}' in place '{name}'", node.where()))
        return node, {}
    shape = shapes[known_word(called, shapes, "shape")]
    own = ("shape", "by", "over", "onto", *(() if shape.get("memory") else ("memory",)))
    takes, given = dict(shape.members("arguments")), {key: value for key, value in node.items() if key not in own}
    for key, value in given.items():
        if key not in takes:
            raise fail("E1002", f"shape '{called.value}' takes no '{key}'", value.where(), nearest(key, takes) or f"it takes: {', '.join(takes)}")
    lacking = next((key for key, value in takes.items() if key not in given and value.value is None), None)
    lacking = lacking or ("" if shape.get("memory") or node.get("memory") else "memory")
    if lacking:
        raise fail("E1002", f"shape '{called.value}' needs '{lacking}'", node.where())
    bound = {key: context.parse(given.get(key, value)) for key, value in takes.items()}
    whole, over = shape.get("whole"), node.get("over")
    said = {"whole": Node({**whole.value, "over": over}, whole.span, whole.path)} if whole and over else {}
    said |= {key: found for key in ("onto", "memory") if (found := node.get(key))}
    return Node({**shape.value, **said}, node.span, node.path, key_span=node.key_span), {**bound, "place": Name(name)}


def with_words(expr: Expr, bound: Mapping[str, Expr]) -> Expr:
    """The expression with names replaced; `place.NAME` is PLACE_NAME."""

    def change(e: Expr) -> Expr | None:
        match e:
            case Member(base=Name(id="place"), name=name) if isinstance(own := bound.get("place"), Name):
                return Name(f"{own.id}_{name}", span=e.span)
            case Name(id=name) if name in bound:
                return bound[name]
            case Call(function=function, args=args):
                return Call(function, tuple(rewrite(arg, change) for arg in args), span=e.span)
            case _:
                return None

    return rewrite(expr, change)


def step_of_shape(shape: Node, name: str, kind: str, place: Node) -> ShapeCall | None:
    """The instructions of a `load` or `store` that a shape says, with the words of the place that they name; None where it says none."""
    body = shape.get(kind)
    if body is None:
        return None
    named = {word for text in _texts(body) for word in WORD.findall(text)}
    takes = {key: value for key, value in shape.members("arguments") if key in named}
    given = {key: value for key, value in place.items() if key in takes}
    called = Node(given, place.span, place.path, key_span=place.key_span)
    return ShapeCall(
        f"{kind} of shape '{name}'", Node({"arguments": Node(takes, shape.span, shape.path), "do": body}, shape.span, shape.path), called
    )


def _texts(node: Node) -> Iterator[str]:
    """Every scalar below a node."""
    if isinstance(node.value, dict | list):
        for child in node.children():
            yield from _texts(child)
    else:
        yield str(node.value)
