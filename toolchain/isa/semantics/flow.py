"""Data flow within an instruction: the writes that each value read as data reaches, and the values that an iteration hands to the next."""

from collections.abc import Mapping, Sequence

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.traverse import expressions, nodes, statements
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr, walk


def value_flows(semantics: ir.Semantics) -> Mapping[str, frozenset[int]]:
    """By memory that is read as data: the numbers of the accesses that write values made of it."""
    temps = _temps(semantics)
    found: dict[str, frozenset[int]] = {}
    for stmt in statements(semantics.body):
        match stmt:
            case ir.Store(access=access, value=value, accumulate=accumulate):
                own = frozenset((access.view.memory,)) if accumulate else frozenset[str]()
                for memory in sorted(_sources(value, temps) | own):
                    found[memory] = found.get(memory, frozenset()) | {access.number}
            case ir.SetTemp(value=value):
                for memory in sorted(_sources(value, temps)):
                    found.setdefault(memory, frozenset())
            case _:
                pass
    return found


def _temps(semantics: ir.Semantics) -> Mapping[str, frozenset[str]]:
    """The memories that each lane temporary may hold values of, whatever the order: loops bring them back."""
    held: dict[str, frozenset[str]] = {}
    settled = False
    while not settled:
        settled = True
        for stmt in statements(semantics.body):
            if isinstance(stmt, ir.SetTemp) and not (more := _sources(stmt.value, held)) <= held.get(stmt.name, frozenset()):
                held[stmt.name] = held.get(stmt.name, frozenset()) | more
                settled = False
    return held


def _sources(e: Expr, temps: Mapping[str, frozenset[str]]) -> frozenset[str]:
    loads = [frozenset((node.access.view.memory,)) for node in walk(e) if isinstance(node, ir.Load)]
    return frozenset[str]().union(*loads, *(temps.get(node.name, frozenset()) for node in walk(e) if isinstance(node, ir.Temp)))


Key = tuple[str, bool]
"""The name of a variable or (True) of a lane temporary."""


def assigned(body: Sequence[ir.Stmt]) -> frozenset[Key]:
    """Everything that the statements assign, at any depth, loop variables too."""
    return frozenset(key for stmt in statements(body) if (key := _target(stmt)))


def _target(stmt: ir.Stmt) -> Key | None:
    match stmt:
        case ir.Let(name=name) | ir.For(var=name):
            return name, False
        case ir.SetTemp(name=name):
            return name, True
        case _:
            return None


def carried(body: Sequence[ir.Stmt]) -> tuple[list[Key], list[Key]]:
    """(sums, others), in order of name. A sum is read only by its own additions and by writes to memory."""
    handed = sorted(assigned(body) & exposed(body)[0])
    sums = [key for key in handed if all(_adds(stmt, key) or isinstance(stmt, ir.Store) for stmt in statements(body) if _mentions(stmt, key))]
    return sums, [key for key in handed if key not in sums]


def exposed(body: Sequence[ir.Stmt]) -> tuple[frozenset[Key], frozenset[Key]]:
    """The names whose values from before the statements read, and those that they surely overwrite before they read them."""
    read, written = set[Key](), set[Key]()
    for stmt in body:
        read |= _reads(*expressions(stmt)) - written
        match stmt:
            case ir.For(var=var, body=inner):
                read |= exposed(inner)[0] - {(var, False)} - written
            case ir.If(then=then, other=other):
                (reads, writes), (reads_too, writes_too) = exposed(then), exposed(other)
                read |= (reads | reads_too) - written
                written |= writes & writes_too
            case ir.SetTemp(accumulate=True, name=name):
                read |= {(name, True)} - written
            case _:
                written |= {key for key in (_target(stmt),) if key}
    return frozenset(read), frozenset(written - read)


def _reads(*exprs: Expr) -> set[Key]:
    """The names in expressions."""
    parts = (part for e in exprs for part in nodes(e))
    return {(part.name, isinstance(part, ir.Temp)) for part in parts if isinstance(part, ir.Temp | ir.Var)}


def _mentions(stmt: ir.Stmt, key: Key) -> bool:
    return _target(stmt) == key or key in _reads(*expressions(stmt))


def _adds(stmt: ir.Stmt, key: Key) -> bool:
    """`x += term` or `x = x + term`, the term free of x."""
    match stmt:
        case ir.SetTemp(accumulate=True, value=term):
            pass
        case ir.Let(value=ex.Binary(op="+", left=ir.Var(name=name), right=term)) if (name, False) == key:
            pass
        case _:
            return False
    return _target(stmt) == key and key not in _reads(term)
