"""The reference engine's expressions: each node becomes one small Python function of a frame, on exact integers."""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from toolchain.analysis.state import Element, locate, read_bytes, record_field, unpack, unpacker, wrap
from toolchain.emulator.reference.floating import operation, reduction
from toolchain.emulator.reference.frame import Frame, Value, checked_amount, cut, divisor, factors, round_shift, sum_of_products
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import instance
from toolchain.spec import expr as ex
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import FUNCTIONS, OPERATORS
from toolchain.spec.expr import Expr
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.model import View


def value_of(e: Expr) -> Value:
    """The function that evaluates an expression. Called functions raise UserError E0701 to E0704."""
    match e:
        case ex.Const(value=number):
            return lambda _: number
        case ex.Unary(op=op, value=inner):
            return _unary(op, value_of(inner))
        case ex.Binary(op=op, left=left, right=right):
            return _binary(op, value_of(left), value_of(right))
        case ex.Compare(op=op, left=left, right=right):
            return _compare(op, value_of(left), value_of(right))
        case ex.Logic():
            return _logic(e)
        case ex.Choose():
            return _choose(e)
        case ex.Call(function=ex.Name(id=name), args=args):
            function, values = FUNCTIONS[name][1], [value_of(a) for a in args]
            return lambda frame: function(*(v(frame) for v in values))
        case ir.Extreme(op=op, values=values):
            extreme, parts = min if op == "min" else max, [value_of(v) for v in values]
            return lambda frame: extreme([part(frame) for part in parts])
        case ir.RoundShift(value=value, amount=amount, rounding=rounding):
            return _round_shift(value_of(value), value_of(amount), rounding)
        case ir.Narrow():
            return _narrow(e)
        case ir.Float() | ir.ToFloat() | ir.ToInteger():
            return _floating(e)
        case ir.FloatReduce():
            return _float_reduce(e)
        case ir.Lookup(value=value, over=(lane,), position=where):
            return _lookup(value_of(value), lane, value_of(where))
        case ir.Reduce():
            return _total(e)
        case _:
            return _leaf(e)


def _floating(e: ir.Float | ir.ToFloat | ir.ToInteger) -> Value:
    function, parts = operation(e), [value_of(v) for v in ex.children(e)]
    return lambda frame: function([part(frame) for part in parts])


def _float_reduce(e: ir.FloatReduce) -> Value:
    function, over = reduction(e), e.over
    parts = [value_of(v) for v in (ex.children(e.value) if e.op == "dot_exact" else [e.value])]
    return lambda frame: function([part(frame) for _ in each_lane(frame, over) for part in parts])


def _logic(e: ex.Logic) -> Value:
    """Lazy; but operands that data leaves out are read all the same, because addresses do not depend on data."""
    parts, conjunction = [value_of(v) for v in e.values], e.op == "and"
    if not holds_data(e):
        return (lambda frame: int(all(p(frame) for p in parts))) if conjunction else (lambda frame: int(any(p(frame) for p in parts)))
    steps = [(part, reads_of(v) if holds_data(v) else None) for part, v in zip(parts, e.values, strict=True)]

    def logic(frame: Frame) -> int:
        settled = False
        for value, touch in steps:
            if settled and touch:
                touch(frame)
            elif bool(value(frame)) != conjunction:
                settled = True
                if touch is None:
                    break
        return int(conjunction != settled)

    return logic


def _choose(e: ex.Choose) -> Value:
    """One side is evaluated; where data decides which, the other is read all the same."""
    test, yes, no = value_of(e.condition), value_of(e.then), value_of(e.other)
    if not holds_data(e.condition):
        return lambda frame: yes(frame) if test(frame) else no(frame)
    touch_yes, touch_no = reads_of(e.then), reads_of(e.other)

    def choose(frame: Frame) -> int:
        if test(frame):
            touch_no(frame)
            return yes(frame)
        touch_yes(frame)
        return no(frame)

    return choose


def holds_data(e: Expr) -> bool:
    """Whether an expression depends on tensor data."""
    return any(ir.is_lane_leaf(inner) for inner in ex.walk(e))


def reads_of(e: Expr) -> Callable[[Frame], None]:
    """Finds and reads every element that an expression names, wherever data might lead; its value is not asked for."""
    match e:
        case ex.Choose(condition=condition, then=then, other=other) if not holds_data(condition):
            test, yes, no = value_of(condition), reads_of(then), reads_of(other)
            return lambda frame: yes(frame) if test(frame) else no(frame)
        case ex.Logic(op=op, values=values):
            return _reads_of_logic(op == "and", values)
        case ir.Load(access=access):
            read = _read(access)
            return _in_turn([_discarded(read), *(reads_of(lane) for lane in access.lanes or () if isinstance(lane, Expr))])
        case _ if not holds_data(e):
            return _discarded(value_of(e))
        case ex.Call(args=args):
            return _in_turn([reads_of(arg) for arg in args])
        case _:
            return _in_turn([reads_of(child) for child in ex.children(e)])


def _reads_of_logic(conjunction: bool, values: Sequence[Expr]) -> Callable[[Frame], None]:
    steps = [(None, reads_of(v)) if holds_data(v) else (value_of(v), None) for v in values]

    def reads(frame: Frame) -> None:
        for value, touch in steps:
            if touch:
                touch(frame)
            elif value and bool(value(frame)) != conjunction:
                return

    return reads


def _discarded(action: Callable[[Frame], object]) -> Callable[[Frame], None]:
    def act(frame: Frame) -> None:
        action(frame)

    return act


def _in_turn(actions: Sequence[Callable[[Frame], None]]) -> Callable[[Frame], None]:
    def act(frame: Frame) -> None:
        for action in actions:
            action(frame)

    return act


def _leaf(e: Expr) -> Value:
    match e:
        case ir.FieldRef(name=name):
            return lambda frame: frame.fields[name]
        case ir.Var(name=name):
            return lambda frame: frame.names[name]
        case ir.Place(level=level):
            return lambda frame: frame.place[level]
        case ir.RegisterRead(register=register, index=index, field_name=field_name):
            return _register(register, value_of(index), field_name)
        case ir.ControlRead(access=access, member=member):
            return _control(access, member)
        case ir.Load(access=access):
            return _load(access)
        case ir.Temp(name=name, lanes=(lane,)):
            return lambda frame: frame.temps[name][frame.lanes[lane]]
        case ir.Temp(name=name, lanes=lanes):
            return lambda frame: frame.temps[name][position(lanes, frame.lanes, [frame.extents[lane] for lane in lanes])]
        case ir.Lane(name=name):
            return _current(name)
        case _:
            raise TypeError(e)


def position(lanes: Sequence[str], at: Mapping[str, int], extents: Sequence[int]) -> int:
    """Row-major position of the current lanes."""
    number = 0
    for lane, extent in zip(lanes, extents, strict=True):
        number = number * extent + at[lane]
    return number


def _unary(op: str, inner: Value) -> Value:
    if op == "-":
        return lambda frame: -inner(frame)
    return (lambda frame: ~inner(frame)) if op == "~" else (lambda frame: int(not inner(frame)))


def _binary(op: str, left: Value, right: Value) -> Value:
    function = OPERATORS[op]
    if op in ("//", "%"):
        return lambda frame: function(left(frame), divisor(frame, right(frame)))
    if op in ("<<", ">>"):
        return lambda frame: function(left(frame), checked_amount(frame, right(frame)))
    return lambda frame: function(left(frame), right(frame))


def _compare(op: str, left: Value, right: Value) -> Value:
    function = OPERATORS[op]
    return lambda frame: int(function(left(frame), right(frame)))


def _round_shift(value: Value, amount: Value, rounding: str) -> Value:
    return lambda frame: round_shift(value(frame), checked_amount(frame, amount(frame)), rounding)


def _narrow(e: ir.Narrow) -> Value:
    inner, kind, low, high = value_of(e.value), e.type, e.low, e.high
    if e.overflow == "wrap":
        return lambda frame: wrap(inner(frame), kind)
    return lambda frame: max(low, min(high, inner(frame)))


def _reduce(op: str, inner: Value, over: tuple[str, ...]) -> Value:
    combine = {"+": sum, "min": min, "max": max}[op]
    return lambda frame: combine([inner(frame) for _ in each_lane(frame, over)])


def _total(e: ir.Reduce) -> Value:
    """A reduction; of products over one lane in a quicker way."""
    plain = _reduce(e.op, value_of(e.value), e.over)
    found = factors(e.value, e.over[0]) if e.op == "+" and len(e.over) == 1 else None
    if found is None:
        return plain
    one, other = (cut(access, e.over[0], _read(access)) for access in found)
    return sum_of_products((one, other), e.over[0], plain)


def _lookup(inner: Value, lane: str, where: Value) -> Value:
    def lookup(frame: Frame) -> int:
        at = where(frame)
        frame.lanes[lane] = at
        return inner(frame)

    return lookup


def each_lane(frame: Frame, lanes: Sequence[str]) -> Iterator[None]:
    """Steps the lane names through all their values, the last one fastest."""
    at = frame.lanes
    if len(lanes) == 1:
        (lane,) = lanes
        for value in range(frame.extents[lane]):
            at[lane] = value
            yield
        return
    for values in itertools.product(*(range(frame.extents[lane]) for lane in lanes)):
        at.update(zip(lanes, values, strict=True))
        yield


def element_of(access: ir.Access) -> Callable[[Frame], Element]:
    """The function that finds an access's element. It raises UserError E0701 outside the memory."""
    index, at, view = [value_of(i) for i in access.index], [(level, value_of(i)) for level, i in access.at], access.view

    def find(frame: Frame) -> Element:
        machine = frame.state.machine
        memory = machine.memory[view.memory]
        place = {**frame.place, **{level: _elsewhere(frame, level, i(frame)) for level, i in at}} if at else frame.place
        return locate(memory, view, instance(machine, memory.scope, place), [i(frame) for i in index], frame.label)

    return find


def _elsewhere(frame: Frame, level: str, number: int) -> int:
    count = next(x.count for x in frame.state.machine.levels if x.name == level)
    if not 0 <= number < count:
        raise frame.fault("E0701", f"there is no {level} {number}: there are {count}")
    return number


def lane_of(access: ir.Access) -> Value:
    """The function that gives the row-major number of the current lane of an access. It raises E0701 outside the element."""
    named = [lane for lane in access.lanes or () if isinstance(lane, str)]
    if len(named) == len(access.lanes or ()):
        return _lane_by_name(access.view, named)
    lanes = [_current(lane) if isinstance(lane, str) else value_of(lane) for lane in access.lanes or ()]
    steps = list(zip(lanes, access.view.element.dims, strict=True))

    def number(frame: Frame) -> int:
        result = 0
        for lane, extent in steps:
            at = lane(frame)
            if not 0 <= at < extent:
                raise _outside(frame, access.view, at, extent)
            result = result * extent + at
        return result

    return number


def _lane_by_name(view: View, names: Sequence[str]) -> Value:
    """Fast path for accesses whose every lane is a name, the bulk of the work."""
    steps = list(zip(names, view.element.dims, strict=True))

    def number(frame: Frame) -> int:
        lanes, result = frame.lanes, 0
        for name, extent in steps:
            at = lanes[name]
            if not 0 <= at < extent:
                raise _outside(frame, view, at, extent)
            result = result * extent + at
        return result

    return number


def _current(name: str) -> Value:
    return lambda frame: frame.lanes[name]


def _outside(frame: Frame, view: View, at: int, extent: int) -> UserError:
    return frame.fault("E0701", f"lane {at} is outside '{view.name}', which has {extent}")


def _load(access: ir.Access) -> Value:
    read, lane, number = _read(access), lane_of(access), access.number

    def load(frame: Frame) -> int:
        lanes = frame.seen.get(number)
        return (read(frame) if lanes is None else lanes)[lane(frame)]

    return load


def _read(access: ir.Access) -> Callable[[Frame], list[int]]:
    """The function that gives all lanes of an element, read once a statement."""
    find, lanes_of, number = element_of(access), unpacker(access.view), access.number

    def read(frame: Frame) -> list[int]:
        lanes = frame.seen.get(number)
        if lanes is None:
            element = find(frame)
            frame.reads(element)
            lanes = frame.seen[number] = lanes_of(read_bytes(frame.state, element))
        return lanes

    return read


def _control(access: ir.Access, member: str) -> Value:
    find, view = element_of(access), access.view
    fields = [f for f in view.element.record if f.name == member]

    def read(frame: Frame) -> int:
        data = read_bytes(frame.state, find(frame))
        return record_field(data, fields[0]) if fields else unpack(view, data)[0]

    return read


def _register(register: str, index: Value, field_name: str) -> Value:
    def read(frame: Frame) -> int:
        known, at = frame.latched, index(frame)
        if known is None:
            return _held(frame, register, field_name, at)
        key = register, field_name, at
        if key not in known:
            known[key] = _held(frame, *key)
        return known[key]

    return read


def _held(frame: Frame, register: str, field_name: str, at: int) -> int:
    """The value of a register. Raises UserError E0701 outside it, E0702 before anything was latched there."""
    machine = frame.state.machine
    memory = machine.memory[register]
    where = instance(machine, memory.scope, frame.place)
    if not 0 <= at < memory.depths[0]:
        raise frame.fault("E0701", f"{register}[{at}] is outside '{register}', which holds {memory.depths[0]}")
    if memory.host:
        return int(frame.state.host[register][where, at])
    if not frame.state.written[register][where, at]:
        raise frame.fault("E0702", f"{register}[{at}] is read before any {' or '.join(memory.latches)} has set it")
    return int(frame.state.latched[register][where, at, latched_names(MachineKey(machine), register).index(field_name)])


@functools.lru_cache(maxsize=4096)
def latched_names(key: MachineKey, register: str) -> tuple[str, ...]:
    """The fields of a latched register, in its order."""
    return tuple(f.name for f in key.machine.latched(key.machine.memory[register]))
