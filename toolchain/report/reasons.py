"""Why nodes are on the host, grouped: what it costs, and what to change."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from toolchain.passes.placement import Loss, read_loss
from toolchain.passes.templates import Template
from toolchain.report.advice import advise, told
from toolchain.report.costs import Border, CostRow, Costs
from toolchain.report.placement import HOST
from toolchain.report.tables import tally

LOSING = "regions that would cost more than they save"


@dataclass(frozen=True)
class Dropped:
    """A region that was not made. first: its first operation. machine_ms: with its border at least; host_ms: on the host. Both of a run."""

    first: str
    operations: int
    machine_ms: float
    host_ms: float


@dataclass(frozen=True)
class Reason:
    """ways: each in the user's words, why no way onto the machine is open. change: what to do about it. ms: of its nodes in a run; border_ms: of
    conversions and copies between them and regions. operators: `58 Sigmoid, 57 Mul`. dropped: where the reason is that regions do not pay."""

    ways: tuple[str, ...]
    change: str
    ms: float
    border_ms: float
    macs: int
    operators: str
    nodes: tuple[str, ...]
    dropped: tuple[Dropped, ...]

    @property
    def total_ms(self) -> float:
        return self.ms + self.border_ms


def find_reasons(costs: Costs, machine: str, templates: Sequence[Template]) -> tuple[Reason, ...]:
    """The reasons of all nodes on the host, the most expensive first."""
    groups: dict[tuple[tuple[str, ...], str], list[CostRow]] = {}
    for row in costs.on(HOST):
        groups.setdefault(_key(row, machine, templates), []).append(row)
    beside: dict[str, list[Border]] = {}
    for border in costs.borders:
        beside.setdefault(border.other, []).append(border)
    found = [_reason(ways, change, rows, beside, costs.samples) for (ways, change), rows in groups.items()]
    return tuple(sorted(found, key=lambda reason: (-reason.total_ms, -len(reason.nodes), reason.ways)))


def _key(row: CostRow, machine: str, templates: Sequence[Template]) -> tuple[tuple[str, ...], str]:
    operator = row.operators.rpartition("+")[2]
    if read_loss(row.reason):
        return (LOSING,), advise(row.reason, operator, machine, templates)
    ways = tuple(row.reason.split("; "))
    changes = dict.fromkeys(advise(way, operator, machine, templates) for way in ways)
    return tuple(dict.fromkeys(told(way, operator, machine) for way in ways)), next(iter(changes))


def _reason(ways: tuple[str, ...], change: str, rows: Sequence[CostRow], beside: dict[str, list[Border]], samples: int) -> Reason:
    text = tally(Counter(row.operators for row in rows))
    border = sum(b.convert_ms + b.copy_ms for row in rows for b in beside.get(row.name, ()))
    nodes = tuple(name for row in rows for name in row.nodes)
    losses = dict.fromkeys(loss for row in rows if (loss := read_loss(row.reason)))
    dropped = sorted((_dropped(loss, samples) for loss in losses), key=lambda region: (-region.host_ms, region.first))
    return Reason(ways, change, sum(row.ms for row in rows), border, sum(row.macs for row in rows), text, nodes, tuple(dropped))


def _dropped(loss: Loss, samples: int) -> Dropped:
    return Dropped(loss.first, loss.operations, samples * loss.machine_ms, samples * loss.host_ms)


def nodes_text(names: Sequence[str], shown: int) -> str:
    """The first few, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
