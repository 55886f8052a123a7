"""The time of each part of a run: every region with its border, and every node on the host, by the costs that the machine's file declares."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from toolchain.graph.integers.calls import Reasons, reasons_of
from toolchain.graph.integers.functions import kind_of
from toolchain.graph.regions import TARGET, describe_inputs, region_calls, region_function
from toolchain.graph.work import host_work
from toolchain.passes.fuse import sources_of
from toolchain.passes.placement import is_boundary
from toolchain.report.placement import HOST, MACHINE, NodePlaces, Placed
from toolchain.report.tables import tally
from toolchain.runtime.timing import RegionTime
from toolchain.schedule.region_price import FLOAT_BYTES
from toolchain.spec.model import Host, Machine
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import texts_of
from toolchain.timing.cost import work_ms


@dataclass(frozen=True)
class Border:
    """A tensor that crosses a region's border. inward: into the region. other: the node of the host on the other side, or the region; empty for an
    input or output of the model. bytes: stored, as they are copied; converted: read and written by a conversion, 0 where there is none.
    """

    tensor: str
    region: str
    inward: bool
    other: str
    convert_ms: float
    copy_ms: float
    bytes: int
    converted: int


@dataclass(frozen=True)
class CostRow:
    """A region or a node of the host; all of a run. operators: of the model's nodes that it computes, `Conv+Relu` or `3 Conv, 2 Relu`.

    compute_ms: of the device or of the operator alone; convert_ms, transfer_ms, launch_ms: of a region's border. host_ms: the same on the host.
    bytes: that cross a region's border, or that the host's operator reads and writes. reason: why it is on the host, in words; reasons: as data.
    target: the machine of a region.
    """

    name: str
    where: str
    operators: str
    nodes: tuple[str, ...]
    compute_ms: float
    convert_ms: float
    transfer_ms: float
    launch_ms: float
    host_ms: float
    macs: int
    bytes: int
    reason: str
    target: str = ""
    reasons: Reasons = ()

    @property
    def ms(self) -> float:
        return self.compute_ms + self.border_ms

    @property
    def border_ms(self) -> float:
        return self.convert_ms + self.transfer_ms + self.launch_ms


@dataclass(frozen=True)
class Crossings:
    """Conversions between floating point and integers, tensors copied, or programs started, in a run."""

    count: int
    ms: float
    bytes: int


@dataclass(frozen=True)
class CostTable:
    """samples: of a run. priced: whether the machine's file declares the host's costs; else only the device's time is known. rows: longest first."""

    samples: int
    priced: bool
    rows: tuple[CostRow, ...]
    borders: tuple[Border, ...]
    conversions: Crossings
    transfers: Crossings
    launches: Crossings

    def on(self, where: str) -> list[CostRow]:
        return [row for row in self.rows if row.where == where]

    @property
    def machine_ms(self) -> float:
        """The time of the device alone."""
        return sum(row.compute_ms for row in self.on(MACHINE))

    @property
    def host_ms(self) -> float:
        """The time of everything that the host computes, conversions included."""
        return sum(row.compute_ms for row in self.on(HOST)) + self.conversions.ms

    @property
    def total_ms(self) -> float:
        return sum(row.ms for row in self.rows)

    @property
    def losing(self) -> list[CostRow]:
        """Regions that cost more than the host would."""
        return [row for row in self.on(MACHINE) if self.priced and row.ms > row.host_ms]


def cost_rows(machine: Machine, model: ir.Model, operators: Mapping[str, str], times: Mapping[str, RegionTime], samples: int) -> CostTable:
    """model: partitioned. operators: of the user's nodes, by name. times: of each region, estimated or of its program. samples: of a run."""
    tally = _Tally(machine.host, operators, samples)
    regions = [tally.region(model, call, times[call.op_type]) for call in region_calls(model)]
    hosts = [tally.node(node) for node in model.graph if node.op_type not in times and node not in tally.claimed]
    rows = sorted((*regions, *hosts), key=lambda row: (-row.ms, row.name))
    borders = tuple(tally.borders)
    conversions = Crossings(len(tally.claimed), sum(b.convert_ms for b in borders), sum(b.converted for b in borders))
    transfers = Crossings(len(borders), sum(b.copy_ms for b in borders), sum(b.bytes for b in borders))
    launches = Crossings(sum(time.runs for time in times.values()), sum(time.launch_ms or 0.0 for time in times.values()), 0)
    return CostTable(samples, machine.host is not None, tuple(rows), borders, conversions, transfers, launches)


@dataclass
class _Tally:
    """Counts every conversion once: at the first region that reads or makes its integers."""

    host: Host | None
    operators: Mapping[str, str]
    samples: int
    borders: list[Border] = field(default_factory=list[Border])
    claimed: set[ir.Node] = field(default_factory=set[ir.Node])

    def region(self, model: ir.Model, call: ir.Node, time: RegionTime) -> CostRow:
        describe_inputs(model, call)
        borders, nodes = list(self._borders(call, time)), list(region_function(model, call))
        self.borders += borders
        names = [name for node in nodes for name in self._sources(node)]
        alone = work_ms(host_work(nodes, FLOAT_BYTES), self.host) if self.host else 0.0
        text = tally(Counter(operator for name in names if (operator := self.operators.get(name))))
        macs = sum(work.macs for work in host_work(nodes).values())
        return CostRow(
            call.op_type, MACHINE, text, tuple(names), time.execute_ms, sum(b.convert_ms for b in borders), time.transfer_ms, time.launch_ms or 0.0,
            self.samples * alone, self.samples * macs, sum(b.bytes for b in borders), "", call.metadata_props.get(TARGET, ""),
        )  # fmt: skip

    def node(self, node: ir.Node) -> CostRow:
        ms, macs, size = self._price(node)
        names = self._sources(node)
        text = "+".join(self.operators.get(name, node.op_type) for name in names)
        reasons = reasons_of(node)
        return CostRow(node.name or "", HOST, text, tuple(names), ms, 0.0, 0.0, 0.0, ms, macs, size, texts_of(reasons), reasons=reasons)

    def _price(self, node: ir.Node) -> tuple[float, int, int]:
        """Milliseconds, multiply-accumulates and bytes of a run."""
        found = host_work([node])
        macs, size = (sum(getattr(work, key) for work in found.values()) for key in ("macs", "bytes"))
        return self.samples * (work_ms(found, self.host) if self.host else 0.0), self.samples * macs, self.samples * size

    def _sources(self, node: ir.Node) -> list[str]:
        return [name for name in sources_of(node) if name]

    def _borders(self, call: ir.Node, time: RegionTime) -> Iterator[Border]:
        for value in call.inputs:
            if value is not None and not value.is_initializer():
                maker = value.producer()
                yield self._border(value, call.op_type, True, [maker] if maker is not None else [], time)
        for value in call.outputs:
            yield self._border(value, call.op_type, False, [user for user, _ in value.uses()], time)

    def _border(self, value: ir.Value, region: str, inward: bool, others: list[ir.Node], time: RegionTime) -> Border:
        boundary = next((node for node in others if is_boundary(node)), None)
        ms, size = 0.0, 0
        if boundary is not None and boundary not in self.claimed:
            self.claimed.add(boundary)
            ms, _, size = self._price(boundary)
        beyond = others if boundary is None else _beyond(boundary, inward)
        other = next((node.name or "" for node in beyond), "")
        name = value.name or ""
        return Border(name, region, inward, other, ms, time.copies.get(name, 0.0), time.sizes[name], size)


def _beyond(boundary: ir.Node, inward: bool) -> list[ir.Node]:
    """The nodes on the other side of a conversion."""
    value = boundary.inputs[0] if inward else boundary.outputs[0]
    if value is None:
        return []
    maker = value.producer()
    found = ([maker] if maker is not None else []) if inward else [user for user, _ in value.uses()]
    return [node for node in found if kind_of(node) not in ("quantize", "dequantize")]


TIMES = ("ms", "compute_ms", "convert_ms", "transfer_ms", "launch_ms", "host_ms")
ROWS = ("name", "where", "target", "operators", "nodes", *TIMES, "macs", "bytes", "reason", "codes")
NODES = ("node", "operator", "where", "target", "region", "operation", "kind", "macs", "bytes", "reason", "codes", "refusals")


def rows_sheet(costs: CostTable) -> str:
    """A line for each region and each node on the host, of a run, longest first; ms is the sum of the four columns after it."""
    lines = [
        (
            row.name,
            row.where,
            row.target,
            row.operators,
            " ".join(row.nodes),
            *(getattr(row, name) for name in TIMES),
            row.macs,
            row.bytes,
            row.reason,
            _codes(row.reasons),
        )
        for row in costs.rows
    ]
    return _sheet(ROWS, lines)


def nodes_sheet(placement: NodePlaces) -> str:
    """A line for each node of the model, of one sample, in the order of the graph."""
    return _sheet(NODES, [[*(getattr(node, name) for name in NODES[:-2]), _codes(node.reasons), refusals_text(node)] for node in placement.nodes])


def _codes(reasons: Sequence[Reason]) -> str:
    return " ".join(dict.fromkeys(reason.code for reason in reasons))


def refusals_text(node: Placed) -> str:
    """`MACHINE: reason | MACHINE: reason`, for a node that several machines were asked about."""
    return " | ".join(f"{name}: {texts_of(reasons)}" for name, reasons in node.refusals.items())


def _sheet(head: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_cell(cell) for cell in line] for line in lines)
    return out.getvalue()


def _cell(cell: object) -> str:
    """Nine digits of a number are plenty; a text that a spreadsheet would run as a formula becomes one that it shows."""
    text = f"{cell:.9g}" if isinstance(cell, float) else str(cell)
    return f"'{text}" if isinstance(cell, str) and text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
