"""The loops of an instruction: how many iterations they run, counted before they run; the fields that count their rounds, and those that move its
addresses from round to round. Data flow in it: the values that an iteration hands to the next, and the writes that each value read as data reaches.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.traverse import addresses, expressions, inline, linear, nodes, statements
from toolchain.spec import expr as ex
from toolchain.spec.expr import Binary, Const, Expr, walk

MOST_ITERATIONS = 1 << 32
"""Iterations of one instruction: minutes in every engine. Real programs stay below a thousandth of it."""

TOO_MANY = f"the loops of this instruction run more than {MOST_ITERATIONS} times"
"""The text of E0706."""

Chain = tuple[ir.For, ...]
"""A loop and those nested in it whose bounds are known where the first one starts; `total_iterations` of their counts are run."""


def total_iterations(counts: Sequence[int]) -> int:
    """Iterations of loops inside each other, the outer ones' own as well; counts: outermost first, below 0 like 0."""
    total = 0
    for count in reversed(counts):
        total = max(count, 0) * (1 + total)
    return total


def chains(body: tuple[ir.Stmt, ...]) -> dict[int, Chain]:
    """By id of its first loop, outermost first: every loop of the statements is in exactly one chain."""
    found: dict[int, Chain] = {}
    inside: set[int] = set()
    for loop in _loops(body):
        if id(loop) not in inside:
            found[id(loop)] = chain = _chain(loop)
            inside.update(map(id, chain))
    return found


def _chain(first: ir.For) -> Chain:
    chain, changing = [first], _changed((first,))
    while inner := next((s for s in chain[-1].body if isinstance(s, ir.For) and _fixed(s, changing)), None):
        chain.append(inner)
    return tuple(chain)


def _fixed(loop: ir.For, changing: frozenset[str]) -> bool:
    """Whether the bounds are safe to compute early: no part of them may change or fail."""
    nodes = [e for bound in (loop.start, loop.stop) for e in ex.walk(bound)]
    names = {e.name for e in nodes if isinstance(e, ir.Var)}
    fails = any(isinstance(e, ir.ControlRead | ir.RegisterRead) or (isinstance(e, ex.Binary) and e.op in ("//", "%", "<<", ">>")) for e in nodes)
    return not fails and not names & changing


def _loops(body: tuple[ir.Stmt, ...]) -> Iterator[ir.For]:
    for stmt in body:
        match stmt:
            case ir.For(body=inner):
                yield stmt
                yield from _loops(inner)
            case ir.If(then=then, other=other):
                yield from _loops((*then, *other))
            case _:
                pass


def _changed(body: tuple[ir.Stmt, ...]) -> frozenset[str]:
    """Loop variables and local names that the statements set."""
    found = frozenset[str]()
    for stmt in body:
        match stmt:
            case ir.For(var=var, body=inner):
                found |= {var} | _changed(inner)
            case ir.If(then=then, other=other):
                found |= _changed((*then, *other))
            case ir.Let(name=name):
                found |= {name}
            case _:
                pass
    return found


@dataclass(frozen=True)
class LoopNest:
    """counts: the fields that count rounds, outermost loop first. memory: the control memory of the records that an innermost loop goes over, from
    the field `first` to the field `stop`; empty where there are none. factors: by operand, the field that its address grows by in each of the loops.

    An operand's address starts at a member of the record, or at a field: that is its name.
    """

    counts: tuple[str, ...]
    memory: str
    first: str
    stop: str
    factors: Mapping[str, tuple[str, ...]]


def loop_nest(semantics: ir.Semantics) -> LoopNest | None:
    """None for an instruction whose loops and addresses are not of this form: addresses grow by a field of their own in each loop."""
    loops, body = _nested(semantics.body)
    records = loops.pop() if loops and isinstance(loops[-1].start, ir.FieldRef) else None
    counts = tuple(loop.stop.name for loop in loops if loop.start == Const(0) and isinstance(loop.stop, ir.FieldRef))
    if not counts or len(counts) != len(loops):
        return None
    first, stop = (records.start, records.stop) if records else (None, None)
    if records and not (isinstance(first, ir.FieldRef) and isinstance(stop, ir.FieldRef)):
        return None
    memories, factors = set[str](), dict[str, tuple[str, ...]]()
    for address in _addresses(body):
        found = _operand(address, [loop.var for loop in loops], records.var if records else "")
        if found is None or factors.setdefault(found.name, found.factors) != found.factors or bool(found.memory) != bool(records):
            return None
        memories.add(found.memory)
    if not factors or len(memories) != 1:
        return None
    ends = [field.name if isinstance(field, ir.FieldRef) else "" for field in (first, stop)]
    return LoopNest(counts, memories.pop(), ends[0], ends[1], factors)


@dataclass(frozen=True)
class _Operand:
    name: str
    memory: str
    factors: tuple[str, ...]


def _nested(body: Sequence[ir.Stmt]) -> tuple[list[ir.For], Sequence[ir.Stmt]]:
    """Loops of which each is all that the one around it does, and the innermost one's body."""
    found: list[ir.For] = []
    while len(body) == 1 and isinstance(body[0], ir.For):
        found.append(body[0])
        body = body[0].body
    return found, body


def _addresses(body: Sequence[ir.Stmt], given: Mapping[str, Expr] | None = None) -> Iterator[Expr]:
    """The index of every element that statements read or write, in fields, loop variables and records. given: the expressions behind variables."""
    known = dict(given or {})
    for stmt in body:
        if isinstance(stmt, ir.Let):
            known |= {} if stmt.carried else {stmt.name: inline(stmt.value, known)}
            continue
        accesses = [e.access for expr in expressions(stmt) for e in nodes(expr) if isinstance(e, ir.Load)]
        for access in (*accesses, *([stmt.access] if isinstance(stmt, ir.Store) else [])):
            yield from (inline(index, known) for index in addresses(access))
        match stmt:
            case ir.If(then=then, other=other):
                yield from _addresses(then, known)
                yield from _addresses(other, known)
            case ir.For(body=inner):
                yield from _addresses(inner, known)
            case _:
                pass


def _operand(address: Expr, loops: Sequence[str], record: str) -> _Operand | None:
    """An address that is a field or a member of the record, and in each loop one more field for each round."""
    parts = linear(address, loops)
    factors = [_only(parts[1].get(loop, Const(0))) for loop in loops] if parts else []
    if parts is None or not all(isinstance(factor, ir.FieldRef) for factor in factors):
        return None
    fields = tuple(factor.name for factor in factors if isinstance(factor, ir.FieldRef))
    match _only(parts[0]):
        case ir.ControlRead(access=access, member=member) if access.index == (ir.Var(record),):
            return _Operand(member, access.view.memory, fields)
        case ir.FieldRef(name=name):
            return _Operand(name, "", fields)
        case _:
            return None


def _only(expr: Expr) -> Expr | None:
    """The one term of a sum and of products without zeros and ones; None for more than one."""
    match expr:
        case Binary(op="+", left=left, right=right):
            one, two = _only(left), _only(right)
            return two if one == Const(0) else one if two == Const(0) else None
        case Binary(op="*", left=left, right=right):
            one, two = _only(left), _only(right)
            return Const(0) if Const(0) in (one, two) else two if one == Const(1) else one if two == Const(1) else None
        case _:
            return expr


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
