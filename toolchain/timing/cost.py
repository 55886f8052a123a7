"""The cost of every instruction by its timing class: cycles, setup, latency, and work on shared resources and ports of banks; and time on the host
and at its border with the device, by the costs that the machine's file declares, never by a clock.

In a cycle only so many units reach a bank; the ports that an instruction uses follow from its footprint.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from toolchain.isa.columns import evaluate_columns
from toolchain.isa.footprint.footprints import Footprints, Runs
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program, stream_index
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.instances import stream_levels
from toolchain.spec.arrays import distinct
from toolchain.spec.errors import fail
from toolchain.spec.expr import Call, Expr, Index, Member, Name
from toolchain.spec.model import Host, Layout, Machine, Memory, Ports, Resource, TimingClass
from toolchain.timing.class_cost import cycles_alone, ports_of_stream, through_one_port


@dataclass(frozen=True)
class BankPorts:
    """Instruction i uses ports number[first[i]] to number[first[i + 1] - 1], with the rank beside each: lower goes first, equals take turns.

    room: int64 [ports], units that each serves in one cycle. ranks: how many there are.
    """

    first: Ints
    number: Ints
    rank: Ints
    room: Ints
    ranks: int

    def reordered(self, order: Ints) -> "BankPorts":
        """The same instructions in another order, int64 [n]."""
        first, kept = _entries(self.first, order)
        return replace(self, first=first, number=self.number[kept], rank=self.rank[kept])


def _entries(first: Ints, order: Ints) -> tuple[Ints, Ints]:
    """first: int64 [n + 1], where the entries of each instruction begin. The same in another order, and which entries stand there."""
    count = np.diff(first)[order]
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])
    return begins, np.arange(int(begins[-1])) + np.repeat(first[:-1][order] - begins[:-1], count)


def bank_ports(machine: Machine, prints: Footprints) -> BankPorts | None:
    """All ports of all banks whose number is limited; None where none is, so that no time is spent on them."""
    found = [(number, memory, memory.ports) for number, memory in enumerate(machine.memories) if memory.ports]
    if not found:
        return None
    rooms, orders, instructions, uses, base = list[Ints](), list[Ints](), list[Ints](), list[Ints](), 0
    for number, memory, ports in found:
        instances = 1 if memory.name in prints.alike else machine.instances(memory.scope)
        for room, chosen in _kinds(ports, prints.runs):
            who, bank = _banks(prints.runs.take(chosen & (prints.runs.memory == number)), memory, instances)
            instructions.append(who)
            uses.append(base + bank)
            rooms.append(np.full(memory.banks * instances, room, np.int64))
            orders.append(np.full(memory.banks * instances, number, np.int64))
            base += memory.banks * instances
    who, number = np.divmod(distinct(np.concatenate(instructions) * base + np.concatenate(uses)), base)
    first = np.searchsorted(who, np.arange(len(prints.program) + 1)).astype(np.int64)
    order = np.array([_unit_ranks(machine, memory.ports or Ports()) for memory in machine.memories], np.int64)
    rank = order[np.concatenate(orders)[number], prints.program.unit[who]]
    return BankPorts(first, number, rank, np.concatenate(rooms), len(machine.units) + 1)


def _kinds(ports: Ports, runs: Runs) -> list[tuple[int, NDArray[np.bool_]]]:
    """Ports of one kind in each bank, where they are limited, and the runs that go through them."""
    through = ((ports.read, ~runs.write), (ports.write, runs.write), (ports.either, np.ones(len(runs), np.bool_)))
    return [(count, chosen) for count, chosen in through if count]


def _unit_ranks(machine: Machine, ports: Ports) -> list[int]:
    """The rank of each unit."""
    return [ports.priority.index(unit.name) if unit.name in ports.priority else len(ports.priority) for unit in machine.units]


def _banks(runs: Runs, memory: Memory, instances: int) -> tuple[Ints, Ints]:
    """(instruction, bank) of every bank that a run reaches, those of all instances counted on."""
    whole = np.tile(np.array(memory.depths, np.int64) * memory.element.bytes // memory.granule, instances)
    bounds = np.cumsum(whole)
    first, stop = np.searchsorted(bounds, runs.start, "right"), np.searchsorted(bounds, runs.stop) + 1
    count = stop - first
    inside = np.arange(int(count.sum()), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(runs.instruction, count), np.repeat(first, count) + inside


@dataclass(frozen=True)
class ResourcePorts:
    """Resource instances of the device. of: index into machine.timing.resources."""

    names: tuple[str, ...]
    of: Ints


@dataclass(frozen=True)
class Costs:
    """int64 [n], in cycles: setup, cycles, latency. Transfers in rows: instruction i has entries first[i]..first[i + 1].

    port: which resource instance. bytes: through one port. work: cycles that it takes alone. rank: lower goes first where
    the policy is priority. banks: the ports of banks that are limited, None where none is.
    """

    setup: Ints
    cycles: Ints
    latency: Ints
    ports: ResourcePorts
    first: Ints
    port: Ints
    bytes: Ints
    work: Ints
    rank: Ints
    banks: BankPorts | None = None

    @property
    def alone(self) -> Ints:
        """int64 [n]: cycles from the end of the setup to the end of the work, where every resource and every port is free."""
        longest = self.cycles.copy()
        np.maximum.at(longest, np.repeat(np.arange(len(longest)), np.diff(self.first)), self.work)
        return longest

    def reordered(self, order: Ints) -> "Costs":
        """The same instructions in another order, int64 [n]."""
        first, kept = _entries(self.first, order)
        return Costs(
            self.setup[order], self.cycles[order], self.latency[order], self.ports, first, self.port[kept], self.bytes[kept], self.work[kept],
            self.rank[kept], self.banks and self.banks.reordered(order),
        )  # fmt: skip


def instruction_costs(program: Program, footprints: Footprints, provenance: Provenance) -> Costs:
    """Registers count as they stand at issue. Raises UserError E0510 for a negative cost, E0122 for one without a value."""
    n, classes = len(program), {c.name: c for c in program.machine.timing.classes}
    columns = np.zeros((3, n), np.int64)
    parts: list[tuple[Ints, Ints, Ints]] = []
    for kind, instruction in enumerate(program.machine.instructions):
        rows = _Rows(program, footprints, provenance, kind, np.flatnonzero(program.kind == kind))
        timing = classes[instruction.timing]
        for column, expr in zip(columns, (timing.setup, timing.cycles, timing.latency), strict=True):
            column[rows.who] = rows.value(expr, timing)
        parts += list(_transfers(rows, timing))
    who, resource, moved = (np.concatenate([np.zeros(0, np.int64), *(p[k] for p in parts)]) for k in range(3))
    by = np.lexsort((resource, who))
    return replace(_assemble(program, columns, who[by], resource[by], moved[by]), banks=bank_ports(program.machine, footprints))


def _transfers(rows: "_Rows", timing: TimingClass) -> Iterator[tuple[Ints, Ints, Ints]]:
    """(instruction, resource, bytes) of transfers that move anything."""
    names = [r.name for r in rows.program.machine.timing.resources]
    for transfer in timing.transfers:
        moved = rows.value(transfer.bytes, timing)
        some = np.flatnonzero(moved)
        yield rows.who[some], np.full(len(some), names.index(transfer.resource)), moved[some]


def _assemble(program: Program, columns: Ints, who: Ints, resource: Ints, moved: Ints) -> Costs:
    machine, resources = program.machine, program.machine.timing.resources
    first = np.zeros(len(program) + 1, np.int64)
    np.cumsum(np.bincount(who, minlength=len(program)), out=first[1:])
    counts = [machine.instances(r.scope) for r in resources]
    base = np.cumsum([0, *counts])
    port, work, rank, share = (np.zeros(len(who), np.int64) for _ in range(4))
    for number, item in enumerate(resources):
        chosen = np.flatnonzero(resource == number)
        share[chosen] = through_one_port(machine, item, moved[chosen])
        port[chosen] = base[number] + _instance(machine, item, program.stream[who[chosen]]) * ports_of_stream(machine, item)
        work[chosen] = cycles_alone(item, share[chosen])
        rank[chosen] = _ranks(machine, item)[program.unit[who[chosen]]]
    names = tuple(_names(resources, counts))
    of = np.repeat(np.arange(len(resources)), counts)
    return Costs(columns[0], columns[1], columns[2], ResourcePorts(names, of), first, port, share, work, rank)


def _instance(machine: Machine, resource: Resource, stream: Ints) -> Ints:
    """The instance of a resource that each stream uses; replicas below a stream share its bytes and count as one."""
    return stream // max(machine.streams // machine.instances(resource.scope), 1)


def _ranks(machine: Machine, resource: Resource) -> Ints:
    last = len(resource.priority)
    order = [resource.priority.index(u.name) if u.name in resource.priority else last for u in machine.units]
    return np.array(order if resource.policy == "priority" else [0] * len(order), np.int64)


def _names(resources: tuple[Resource, ...], counts: list[int]) -> Iterator[str]:
    for resource, count in zip(resources, counts, strict=True):
        yield from (f"{resource.name}[{k}]" if count > 1 else resource.name for k in range(count))


@dataclass(frozen=True)
class _Rows:
    """All instructions of one kind, to evaluate timing expressions over."""

    program: Program
    footprints: Footprints
    provenance: Provenance
    kind: int
    who: Ints

    def value(self, expr: Expr, timing: TimingClass) -> Ints:
        result = evaluate_columns(expr, self.leaf, len(self.who), self.label)
        negative = np.flatnonzero(result < 0)
        if len(negative):
            at = int(negative[0])
            raise fail("E0510", f"timing class '{timing.name}' gives {result[at]} for {self.label(at)}", expr.span, "a cost cannot be negative")
        return result

    def label(self, row: int) -> str:
        return self.program.label(int(self.who[row]))

    def leaf(self, e: Expr, rows: Ints | None) -> Ints:
        chosen = np.arange(len(self.who)) if rows is None else rows
        columns, machine = self.program.columns[self.kind], self.program.machine
        match e:
            case Name(id=name) if name in columns:
                return columns[name][chosen]
            case Name(id=name) if name in {level.name for level in stream_levels(machine)}:
                return stream_index(machine, name, self.program.stream[self.who[chosen]])
            case Member(base=Name(id=register), name=name):
                return self.register(register, name, np.zeros(len(chosen), np.int64), chosen)
            case Member(base=Index(base=Name(id=register), index=(index,)), name=name):
                return self.register(register, name, self.index(index, chosen), chosen)
            case Index(base=Name(id=register), index=(index,)):
                return self.register(register, "", self.index(index, chosen), chosen)
            case Call(function=Name(id="reads"), args=(Name(id=memory),)):
                return self.traffic(self.footprints.traffic_read, memory, chosen)
            case Call(function=Name(id="writes"), args=(Name(id=memory),)):
                return self.traffic(self.footprints.traffic_written, memory, chosen)
            case _:
                raise fail("E0121", "this is not allowed in a timing expression", e.span)

    def index(self, index: Expr, chosen: Ints) -> Ints:
        return evaluate_columns(index, lambda e, rows: self.leaf(e, chosen if rows is None else chosen[rows]), len(chosen), self.label)

    def register(self, register: str, name: str, index: Ints, chosen: Ints) -> Ints:
        return self.provenance.read(ir.RegisterRead(register, Name(""), name), self.who[chosen], index)

    def traffic(self, table: Ints, memory: str, chosen: Ints) -> Ints:
        names = [m.name for m in self.program.machine.memories]
        return table[self.who[chosen], names.index(memory)]


CONVOLUTIONS: dict[str, str] = dict.fromkeys(("Conv", "ConvInteger"), "conv2d")
PRODUCTS: dict[str, str] = dict.fromkeys(("Gemm", "MatMul", "MatMulInteger", "LSTM", "GRU", "RNN"), "dense")
ALIKE: Mapping[str, str] = MappingProxyType(CONVOLUTIONS | PRODUCTS)
"""Operators that a machine's file need not name: they cost as much as the operation of that kind."""


class Work(Protocol):
    """Multiply-accumulates of operators, the bytes that they touch, and the steps of loops."""

    @property
    def macs(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def steps(self) -> int: ...


def operators_ms(kind: str, macs: int, size: int, host: Host) -> float:
    """Operators with multiply-accumulates by their rate, others by the bytes that they touch."""
    rate = host.gmac_per_s.get(kind) or host.gmac_per_s.get(ALIKE.get(kind, "default")) or host.gmac_per_s.get("default")
    if macs and rate is not None:
        return macs / rate.value / 1e6
    return size / host.gb_per_s.value / 1e6


def work_ms(work: Mapping[str, Work], host: Host) -> float:
    """Operators by their kind, one after the other, and the start of each step of a loop."""
    start = 0.0 if host.step_us is None else host.step_us.value / 1e3
    return sum(operators_ms(kind, each.macs, each.bytes, host) + each.steps * start for kind, each in work.items())


def copy_ms(size: int, layout: Layout | None, host: Host) -> float:
    """One buffer to or from the device: rearranged by the layout's rate where it declares one, then copied. size: in bytes."""
    rearranged = size / layout.gb_per_s.value / 1e6 if layout is not None and layout.gb_per_s is not None else 0.0
    return rearranged + host.transfer_us.value / 1e3 + size / host.transfer_gb_per_s.value / 1e6
