"""The data side of a statement: every lane of an element or a temporary, with the parts that all lanes share computed first."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from toolchain.emulator.native.floating import Ordered, floating, lane_nest, ordered_lines, ordered_products, pack_of, reduction
from toolchain.emulator.native.function import Function, c_type, straddles
from toolchain.isa.c_source import C_TYPE, CValue, CWriter, Interval, c_constant, no_hint, wrapped
from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.errors import fail
from toolchain.spec.expr import Expr
from toolchain.spec.model import ScalarType, View

T = TypeVar("T")


@dataclass
class Sheet:
    """C lines by where they stand: shared by all replicas, once a replica, once a lane."""

    function: Function
    shared: list[str] = field(default_factory=list[str])
    own: list[str] = field(default_factory=list[str])
    body: list[str] = field(default_factory=list[str])
    names: dict[tuple[Expr, str], CValue] = field(default_factory=dict[tuple[Expr, str], CValue])
    elements: dict[tuple[ir.Access, str], str] = field(default_factory=dict[tuple[ir.Access, str], str])
    varies: bool = False
    own_names: set[str] = field(default_factory=set[str])

    def place(self, name: str, path: str, varies: bool) -> list[str]:
        """The block to which the line that sets `name` belongs."""
        if not varies and not any(own in path for own in self.own_names):
            return self.shared
        self.varies = True
        self.own_names.add(name)
        return self.own

    def scalar(self, e: Expr, path: str, value: CValue) -> CValue:
        """A scalar in a variable of its own, computed only where `path` holds."""
        known = self.names.get((e, path))
        if known is None:
            bits = 32 if value.range.bits == 32 else 64
            name, text = self.function.fresh("k"), f"{path} ? {value.text} : 0" if path else value.text
            self.place(name, path, self.function.varies(e)).append(f"const {C_TYPE[bits]} {name} = ({C_TYPE[bits]})({text});")
            known = self.names[e, path] = CValue(name, value.range, bits)
        return known

    def element(self, access: ir.Access, path: str) -> str:
        """A pointer to an element; where `path` does not hold it points to zeros."""
        key = (replace(access, number=0), path)
        if key not in self.elements:
            if straddles(self.function.machine, access.view):
                return self._round(key, access, path)
            function, name = self.function, self.function.fresh("q")
            stride = function.stride(access)
            text = function.pointer(access, first=bool(stride))
            whole = f"{path} ? {text} : tw_zeros" if path else text
            self.place(name, path, stride is None).append(f"uint8_t *const {name} = {whole};")
            self.varies |= bool(stride)
            step = f"({path} ? tw_r * INT64_C({stride}) : 0)" if path else f"tw_r * INT64_C({stride})"
            self.elements[key] = f"({name} + {step})" if stride else name
        return self.elements[key]

    def _round(self, key: tuple[ir.Access, str], access: ir.Access, path: str) -> str:
        """A copy of an element that may run past the end of a ring; `write_back` puts it there again."""
        function, name = self.function, self.function.fresh("q")
        lines = [f"uint8_t {name}[{access.view.element.bytes}] __attribute__((aligned(64))) = {{0}}; int64_t {name}_at = 0;"]
        read = f"{{ {name}_at = {function.offset(access)}; tw_ring_read({name}, {function.base(access)}, {name}_at, {self._ring(access)}); }}"
        self.place(name, path, function.access_varies(access)).extend([*lines, f"if ({path}) {read}" if path else read])
        self.elements[key] = name
        return name

    def write_back(self, access: ir.Access) -> list[str]:
        """The statements after the writing of an element: none, unless it was a copy."""
        if not straddles(self.function.machine, access.view):
            return []
        name = self.elements[replace(access, number=0), ""]
        return [f"tw_ring_write({name}, {self.function.base(access)}, {name}_at, {self._ring(access)});"]

    def _ring(self, access: ir.Access) -> str:
        memory = self.function.machine.memory[access.view.memory]
        if memory.banks > 1:
            raise fail(
                "E0708", f"elements of '{access.view.name}' may run past the end of a bank", access.span, "let the bank's size be a multiple of it"
            )
        return f"{memory.bytes}, {access.view.element.bytes}"


@dataclass(frozen=True)
class LaneWriter(CWriter):
    """Writes one lane of a data expression. path: the scalar conditions on the way to it."""

    sheet: Sheet | None = None
    path: str = ""

    def value(self, e: Expr) -> CValue:
        """The lane's value as C."""
        if isinstance(e, ex.Const) or not is_scalar(e):
            return super().value(e)
        assert self.sheet
        plain = CWriter(self.sheet.function.leaf, data=False, known=self.known, hint=self.hint)
        return self.sheet.scalar(e, self.path, plain.value(e))

    def _choose(self, condition: Expr, then: Expr, other: Expr, e: Expr) -> CValue:
        if not is_scalar(condition):
            return super()._choose(condition, then, other, e)
        test = self.value(condition).text
        a = replace(self.assuming(condition, True), path=self.side(test).path).value(then)
        b = replace(self.assuming(condition, False), path=self.side(f"!{test}").path).value(other)
        return self._arithmetic(f"({test} ? @{a.text} : @{b.text})", a.range.join(b.range), self._width(a, b), e)

    def _logic(self, op: str, values: tuple[Expr, ...]) -> list[str]:
        """Operands in order; lanes that a scalar operand rules out are not touched by later ones."""
        texts, writer = list[str](), self
        for value in values:
            text = writer.truth(value)
            texts.append(text)
            path = writer.side(text if op == "and" else f"!{text}").path if is_scalar(value) else writer.path
            writer = replace(writer, known=writer.assuming(value, op == "and").known, path=path)
        return texts

    def bounds(self, e: Expr) -> Interval:
        """Found on a sheet of its own: nothing is computed early for it."""
        assert self.sheet
        return replace(self, sheet=Sheet(self.sheet.function)).value(e).range

    def side(self, test: str) -> "LaneWriter":
        """A writer for where a hoisted condition holds too."""
        return replace(self, path=f"({self.path} && {test})" if self.path else f"({test})")

    def _value(self, e: Expr) -> CValue:
        """Loads, temporaries and reductions, which know the path to them; the rest as ever."""
        assert self.sheet
        match e:
            case ir.Load(access=access):
                return self._load(access)
            case ir.Temp(name=name, lanes=lanes):
                kind = temp_type(self.sheet.function, name)
                return CValue(f"({value_type(kind)}){temp_name(self.sheet.function, name)}[{self.flat(lanes)}]", self._temp_range(name), width(kind))
            case ir.Lane(name=name):
                return CValue(f"(int32_t)l_{name}", Interval(0, self.sheet.function.semantics.lanes[name] - 1), 32)
            case ir.FloatReduce():
                return self._float_reduce(e)
            case ir.Lookup():
                return self._lookup(e)
            case ir.Reduce():
                return self._reduce(e)
            case ir.Float() | ir.ToFloat() | ir.ToInteger():
                return floating(e, [self.value(part) for part in ex.children(e)])
            case _:
                return super()._value(e)

    def _temp_range(self, name: str) -> Interval:
        assert self.sheet
        function = self.sheet.function
        kind = function.semantics.temps[name].type
        low, high = function.ranges.temps.get(name, (kind.low, kind.high))
        return Interval(max(low, kind.low), min(high, kind.high))

    def flat(self, lanes: tuple[str, ...]) -> str:
        """The row-major number of the current lane."""
        assert self.sheet
        text = "0"
        for lane in lanes:
            text = f"({text}) * {self.sheet.function.semantics.lanes[lane]} + l_{lane}" if text != "0" else f"l_{lane}"
        return text

    def _load(self, access: ir.Access) -> CValue:
        assert self.sheet
        kind = access.view.element.scalar
        place = lane_place(self, access, self.sheet.element(access, self.path))
        return CValue(f"({value_type(kind)}){place}", Interval(kind.low, kind.high), width(kind))

    def _inside(self, build: Callable[[], T]) -> tuple[T, list[str]]:
        """Something built inside a block of its own, and the block's lines; reductions in it are not known outside."""
        assert self.sheet
        sheet, outer, known = self.sheet, self.sheet.body, set(self.sheet.names)
        sheet.body = []
        built, lines = build(), sheet.body
        sheet.body = outer
        for key in [key for key in sheet.names if isinstance(key[0], ir.Reduce) and key not in known]:
            del sheet.names[key]
        return built, lines

    def _reduce(self, e: ir.Reduce) -> CValue:
        assert self.sheet
        if (e, self.path) in self.sheet.names:
            return self.sheet.names[e, self.path]
        function, name = self.sheet.function, self.sheet.function.fresh("s")
        inner, body = self._inside(lambda: self.value(e.value))
        times = 1
        for lane in e.over:
            times *= function.semantics.lanes[lane]
        span = Interval(inner.range.low * times, inner.range.high * times) if e.op == "+" else inner.range
        bits = max(span.bits, 32)
        start = {"+": 0, "min": inner.range.high, "max": inner.range.low}[e.op]
        lines = [f"{C_TYPE[bits]} {name} = {c_constant(start).text};"]
        lines += [f"TW_LOOP for (int l_{lane} = 0; l_{lane} < {function.semantics.lanes[lane]}; l_{lane}++)" for lane in e.over]
        step = f"{name} += {inner.cast(bits)};" if e.op == "+" else f"if ({inner.text} {'<' if e.op == 'min' else '>'} {name}) {name} = {inner.text};"
        self.sheet.body += [*lines, "{", *body, step, "}"]
        self.sheet.names[e, self.path] = CValue(name, span, bits)
        return self.sheet.names[e, self.path]

    def _lookup(self, e: ir.Lookup) -> CValue:
        """The value in a variable of its own, computed also where a choice by data takes the other side: then any place of the lane will do."""
        assert self.sheet
        if (e, self.path) not in self.sheet.names:
            function, name, (lane,) = self.sheet.function, self.sheet.function.fresh("s"), e.over
            position, extent = self.value(e.position), function.semantics.lanes[lane]
            always = replace(self, known={}, hint=no_hint).bounds(e.position).within(0, extent - 1)
            at = position.text if always else f"tw_inside({position.text}, {extent})"
            inner, body = self._inside(lambda: self.value(e.value))
            bits = max(inner.range.bits, 32)
            self.sheet.body += [f"{C_TYPE[bits]} {name};", f"{{ const int l_{lane} = (int)({at});", *body, f"{name} = {inner.cast(bits)}; }}"]
            self.sheet.names[e, self.path] = CValue(name, inner.range, bits)
        return self.sheet.names[e, self.path]

    def _float_reduce(self, e: ir.FloatReduce) -> CValue:
        assert self.sheet
        if not self.path and (found := ordered_products(self.sheet.function, e)):
            return self._ordered(e, found)
        if (e, self.path) not in self.sheet.names:
            extents, name = self.sheet.function.semantics.lanes, self.sheet.function.fresh("s")
            parts = ex.children(e.value) if e.op == "dot_exact" else [e.value]
            made, body = self._inside(lambda: reduction(e, name, [self.value(v) for v in parts]))
            loops = [f"for (int l_{lane} = 0; l_{lane} < {extents[lane]}; l_{lane}++)" for lane in e.over]
            self.sheet.body += [*made.before, *loops, "{", *body, *made.step, "}", *made.after]
            self.sheet.names[e, self.path] = made.result
        return self.sheet.names[e, self.path]

    def _ordered(self, e: ir.FloatReduce, found: Ordered) -> CValue:
        """All sums before the loops over lanes; there each lane takes its own."""
        assert self.sheet
        function, name = self.sheet.function, self.sheet.function.fresh("s")
        extents, memory = function.semantics.lanes, found.access.view.memory
        parts: list[list[str]] = []
        for factor, lanes in ((found.shared, found.over), (found.own, found.kept + found.over)):
            value, body = self._inside(lambda factor=factor: self.value(factor))
            parts.append([lane_nest(lanes, extents), *body, f"const int32_t tw_x = {value.text};"])
        where = f"{self.sheet.element(found.access, '')} - m_{memory}"
        places = self.flat(found.over), self.flat(found.kept)
        pack = pack_of(function.packs, found, extents)
        self.sheet.shared += ordered_lines(name, pack, (parts[0], parts[1]), places, where)
        return CValue(f"tw_f32_bits({name}_sum[{places[1]}])", Interval(e.type.low, e.type.high), 32)

    def modular(self, e: Expr) -> str:
        """The value modulo 2**32 as uint32_t, with no wider arithmetic than that."""
        match e:
            case ex.Binary(op="+" | "-" | "*" as op, left=left, right=right) if not is_scalar(e):
                return f"({self.modular(left)} {op} {self.modular(right)})"
            case ex.Unary(op="-", value=inner) if not is_scalar(e):
                return f"(0u - {self.modular(inner)})"
            case _:
                return f"(uint32_t){self.value(e).text}"

    def narrowed(self, e: Expr, kind: ScalarType, overflow: str) -> str:
        """The value as a memory or temporary keeps it. (`error` is proved to fit when the machine is loaded.)"""
        if overflow != "saturate" and kind.bits <= 32 and (value := self.value(e)).range.bits > 32:
            return f"({c_type(kind)}){wrapped_bits(self.modular(e), kind)}"
        value = self.value(e)
        if overflow == "wrap":
            value = wrapped(value, kind.low, kind.high)
        elif overflow == "saturate":
            value = self._extreme("max", [self._extreme("min", [value, c_constant(kind.high)]), c_constant(kind.low)])
        return f"({c_type(kind)}){value.text}"


def wrapped_bits(text: str, kind: ScalarType) -> str:
    """A uint32_t brought into a type of an odd width."""
    return (
        text if kind.bits in (8, 16, 32) else wrapped(CValue(f"(int32_t){text}", Interval(-(1 << 31), (1 << 31) - 1), 32), kind.low, kind.high).text
    )


def new_writer(function: Function, sheet: Sheet, known: Mapping[Expr, Interval] | None = None) -> LaneWriter:
    """A writer of lanes for one statement. known: bounds that a test around the statement has made sure of."""
    return LaneWriter(function.leaf, data=True, known=known or {}, hint=function.hint, sheet=sheet)


def is_scalar(e: Expr) -> bool:
    """Whether an expression holds no tensor data."""
    return not any(ir.is_lane_leaf(inner) or isinstance(inner, ir.Reduce) for inner in ex.walk(e))


def value_type(kind: ScalarType) -> str:
    """The C type that arithmetic on a stored scalar starts from."""
    return C_TYPE[width(kind)]


def width(kind: ScalarType) -> int:
    """Bits of `value_type`."""
    return Interval(kind.low, kind.high).bits


def temp_name(function: Function, name: str) -> str:
    """The row of a temporary that the executing replica uses."""
    return f"t_{name}[{'tw_r' if temp_varies(function, name) else 0}]"


def temp_type(function: Function, name: str) -> ScalarType:
    """The stored type of a temporary: 32 bits will do for a wider one whose values are proved to be small."""
    kind = function.semantics.temps[name].type
    low, high = function.ranges.temps.get(name, (kind.low, kind.high))
    return ScalarType(True, 32) if kind.bits == 64 and Interval(low, high).bits == 32 else kind


def temp_varies(function: Function, name: str) -> bool:
    """Whether each replica has a row of its own: simply wherever there are replicas."""
    del name
    return function.replicas > 1 and not function.apart


def lane_strides(view: View) -> tuple[int, ...] | None:
    """Bytes between neighbours in each lane dimension, where that is all there is to it."""
    dims = view.element.dims
    steps: list[int] = []
    for axis in range(len(dims)):
        unit = 1
        for extent in dims[axis + 1 :]:
            unit *= extent
        steps.append(view.offsets[unit] - view.offsets[0] if dims[axis] > 1 else 0)
    for number, offset in enumerate(view.offsets):
        rest, total = number, view.offsets[0]
        for axis in reversed(range(len(dims))):
            rest, at = divmod(rest, dims[axis])
            total += at * steps[axis]
        if total != offset:
            return None
    return tuple(steps)


def lane_place(writer: LaneWriter, access: ir.Access, pointer: str) -> str:
    """The stored scalar of the current lane, as something that can be read or assigned."""
    view = access.view
    assert writer.sheet
    size, kind, dims = view.element.scalar.bits // 8, f"{c_type(view.element.scalar)[:-2]}_u", view.element.dims
    parts = [_lane_text(writer, lane, extent) for lane, extent in zip(access.lanes or (), dims, strict=False)]
    strides = lane_strides(view)
    if strides is not None and view.offsets[0] == 0 and all(s % size == 0 for s in strides):
        index = " + ".join(f"{part} * {s // size}" for part, s in zip(parts, strides, strict=False)) or "0"
        return f"((({kind} *){pointer})[{index}])"
    flat = "0"
    for part, extent in zip(parts, dims, strict=True):
        flat = f"({flat}) * {extent} + {part}"
    return f"(*({kind} *)({pointer} + lanes_{writer.sheet.function.machine.views.index(view)}[{flat}]))"


def _lane_text(writer: LaneWriter, lane: str | Expr, extent: int) -> str:
    if isinstance(lane, str):
        return f"l_{lane}"
    value = writer.value(lane)
    return value.text if value.range.within(0, extent - 1) else f"tw_place({value.text}, {extent})"
