"""Names in the C of one instruction: fields, variables, places, registers, memories and their instances; and room for packed elements of a view."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from toolchain.isa.c_source import INT64, CValue, CWriter, Interval
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import access_differs, differs, paths_differ, replica_levels, replica_names, scope_levels, stream_levels
from toolchain.isa.semantics.loops import Chain, chains
from toolchain.isa.semantics.ranges import Ranges, analyse
from toolchain.spec.expr import Expr
from toolchain.spec.model import Machine, Memory, ScalarType, View

ROOM, MOST = 1 << 21, 4096
"""Bytes for the packed elements of a view, and their greatest number."""
SLOT = 12
"""The slot of the scratch memory."""

Key = tuple[str, str, tuple[int, ...], int, int]
"""View, stored format, order of its lanes, terms, sums: what packed elements follow from."""


@dataclass(frozen=True, slots=True)
class Pack:
    """Room for packed elements of a view: [slots, terms, sums] floats."""

    number: int
    view: View
    terms: int
    sums: int

    @property
    def slots(self) -> int:
        """A power of two."""
        return 1 << max(min(ROOM // (self.terms * self.sums * 4), MOST), 1).bit_length() - 1

    @property
    def bytes(self) -> int:
        """The size of keys and elements together, in whole lines of a cache."""
        return (self.slots * (8 + self.terms * self.sums * 4) + 63) // 64 * 64

    @property
    def name(self) -> str:
        """The C array of keys; that of elements is called the same with an `s` behind."""
        return f"tw_pack{self.number}"


def pack_names(packs: Sequence[Pack]) -> list[str]:
    """Declarations at the start of an instruction: no element is packed yet."""
    if not packs:
        return []
    lines = [f"uint8_t *const tw_packs = tw_scratch(c, {SLOT}, {sum(pack.bytes for pack in packs)});", "if (tw_fault) return;"]
    at = 0
    for pack in packs:
        lines.append(f"int64_t *const {pack.name} = (int64_t *)(tw_packs + {at}); float *const {pack.name}s = (float *)({pack.name} + {pack.slots});")
        lines.append(f"memset({pack.name}, -1, {pack.slots * 8});")
        at += pack.bytes
    return lines


@dataclass
class Function:
    """The C function of one instruction while it is written.

    fields, registers, packs: those used by the text so far. apart: replicas run one after the other through the whole instruction,
    because a name or a path differs between them; otherwise each statement loops over them. chains: loops whose work is counted together.
    """

    machine: Machine
    semantics: ir.Semantics
    ranges: Ranges
    apart: bool
    chains: dict[int, Chain]
    fields: dict[str, None] = field(default_factory=dict[str, None])
    registers: dict[str, None] = field(default_factory=dict[str, None])
    packs: dict[Key, Pack] = field(default_factory=dict[Key, Pack])
    count: int = 0

    @property
    def replicas(self) -> int:
        """How many replicas run in lockstep."""
        count = 1
        for level in replica_levels(self.machine):
            count *= level.count
        return count

    @property
    def levels(self) -> set[str]:
        """Names of the lockstep levels."""
        return {level.name for level in replica_levels(self.machine)}

    def fresh(self, prefix: str) -> str:
        """A C name that nothing else has."""
        self.count += 1
        return f"{prefix}{self.count}"

    def varies(self, e: Expr) -> bool:
        """Whether an expression differs between replicas of one statement."""
        return not self.apart and differs(self.machine, e, self.levels, ())

    def access_varies(self, access: ir.Access) -> bool:
        """Whether replicas of one statement touch different elements."""
        return not self.apart and access_differs(self.machine, access, self.levels, ())

    def hint(self, e: Expr) -> Interval | None:
        """Bounds of a node of the semantics."""
        found = self.ranges.nodes.get(id(e))
        return Interval(*found) if found and INT64.low <= found[0] and found[1] <= INT64.high else None

    def writer(self) -> CWriter:
        """Writes scalar expressions."""
        return CWriter(self.leaf, data=False, hint=self.hint)

    def scalar(self, e: Expr) -> CValue:
        """A scalar expression in C."""
        return self.writer().value(e)

    def leaf(self, e: Expr) -> CValue:
        """The leaves of scalar expressions."""
        match e:
            case ir.FieldRef(name=name):
                self.fields[name] = None
                found = self.machine.instruction[self.semantics.instruction].field(name)
                return CValue(f"f_{name}", Interval(found.low, found.high), 64)
            case ir.Var(name=name):
                return CValue(f"v_{name}", self.name_range(name), 64)
            case ir.Place(level=level):
                count = next(x.count for x in self.machine.levels if x.name == level)
                return CValue(f"p_{level}", Interval(0, count - 1), 64)
            case ir.RegisterRead():
                return self._register(e)
            case ir.ControlRead(access=access, member=member):
                return self._control(access, member)
            case _:
                raise TypeError(e)

    def name_range(self, name: str) -> Interval:
        """Bounds of a loop variable or a local name."""
        low, high = self.ranges.names.get(name, (INT64.low, INT64.high))
        return Interval(max(low, INT64.low), min(high, INT64.high))

    def _register(self, e: ir.RegisterRead) -> CValue:
        memory = self.machine.memory[e.register]
        self.registers[e.register] = None
        index, depth = self.scalar(e.index), memory.depths[0]
        row = f"{self.instance(memory)} * {depth}"
        if memory.host:
            return CValue(f"tw_host(h_{e.register} + {row}, {index.text}, {depth})", INT64, 64)
        latched = self.machine.latched(memory)
        column = [f.name for f in latched].index(e.field_name)
        found = [self.machine.instruction[name].field(e.field_name) for name in memory.latches]
        low, high = min(f.low for f in found), max(f.high for f in found)
        text = f"tw_latched(l_{e.register} + ({row}) * {len(latched)}, w_{e.register} + {row}, {index.text}, {depth}, {len(latched)}, {column})"
        return CValue(text, Interval(min(low, 0), max(high, 0)) if memory.zeroed else Interval(low, high), 64)

    def _control(self, access: ir.Access, member: str) -> CValue:
        element = access.view.element
        lsb, kind = next(((f.lsb, f.type) for f in element.record if f.name == member), (0, element.scalar))
        text = f"tw_bits({self.pointer(access)}, {element.bytes}, {lsb}, {kind.bits}, {int(kind.signed)})"
        return CValue(text, Interval(max(kind.low, INT64.low), min(kind.high, INT64.high)), 64)

    def instance(self, memory: Memory, at: tuple[tuple[str, Expr], ...] = (), first: bool = False) -> str:
        """The number of the instance meant; first: the one of replica 0."""
        text, elsewhere = "", dict(at)
        streams, replicas = {x.name for x in stream_levels(self.machine)}, self.levels
        for level in scope_levels(self.machine, memory.scope):
            if level.name in elsewhere:
                part = f"tw_place({self.scalar(elsewhere[level.name]).text}, {level.count})"
            elif level.name in streams or (level.name in replicas and not first):
                part = f"p_{level.name}"
            else:
                part = "0"
            text = f"({text} * {level.count} + {part})" if text else part
        return text or "0"

    def offset(self, access: ir.Access) -> str:
        """The byte of the element in its instance; outside the memory it is 0 and `tw_fault` says so."""
        return f"at_{view_number(self.machine, access.view)}({', '.join(self.scalar(i).text for i in access.index)})"

    def base(self, access: ir.Access, first: bool = False) -> str:
        """Offset of the accessed instance."""
        memory = self.machine.memory[access.view.memory]
        return f"m_{memory.name} + {self.instance(memory, access.at, first)} * INT64_C({memory.bytes})"

    def pointer(self, access: ir.Access, first: bool = False) -> str:
        """The address of the element."""
        return f"({self.base(access, first)} + {self.offset(access)})"

    def stride(self, access: ir.Access) -> int | None:
        """Bytes from one replica's element to the next one's; None where that is not constant."""
        memory = self.machine.memory[access.view.memory]
        inner = replica_levels(self.machine)
        if inner and self.access_varies(access) and straddles(self.machine, access.view):
            return None
        if not inner or not self.access_varies(access):
            return 0
        scope = scope_levels(self.machine, memory.scope)
        if any(self.varies(e) for e in (*access.index, *(e for _, e in access.at))) or len(inner) > 1 or scope[-1:] != inner or access.at:
            return None
        return memory.bytes


def new_function(machine: Machine, semantics: ir.Semantics) -> Function:
    """Ready to be written. Raises UserError E022x for semantics that cannot be proved to fit their types."""
    apart = paths_differ(machine, semantics) or bool(replica_names(machine, semantics) - set(semantics.temps))
    return Function(machine, semantics, analyse(machine, semantics), apart, chains(semantics.body))


def straddles(machine: Machine, view: View) -> bool:
    """Whether an element may run past the end of a ring and go on at its start."""
    memory = machine.memory[view.memory]
    size = [depth * memory.element.bytes for depth in memory.depths]
    unit, element = view.unit or memory.element.bytes, view.element.bytes
    return memory.kind == "ring" and element > 1 and any(s % unit or unit % element for s in size)


def view_number(machine: Machine, view: View) -> int:
    """How the address function of a view is called."""
    return next(i for i, v in enumerate(machine.views) if v.name == view.name)


def c_type(kind: ScalarType) -> str:
    """The C type of a stored scalar."""
    bits = next(width for width in (8, 16, 32, 64) if kind.bits <= width)
    return f"{'' if kind.signed else 'u'}int{bits}_t"
