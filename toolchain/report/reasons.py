"""Why nodes are on the host, grouped by the codes of their reasons: what it costs, and what to change."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from toolchain.report.advice import Advisor
from toolchain.report.costs import Border, CostRow, Costs
from toolchain.report.placement import HOST
from toolchain.report.tables import tally
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why, group_key, text_of

LOSING = "regions that would cost more than they save"


@dataclass(frozen=True)
class Dropped:
    """A region that was not made. first: its first operation. machine_ms: with its border at least; host_ms: on the host. Both of a run."""

    first: str
    operations: int
    machine_ms: float
    host_ms: float


@dataclass(frozen=True)
class Cause:
    """Nodes that are on the host for the same reasons. ways: the reasons in words, without names where nodes differ in them; reasons: those of the
    first node. change: what to do about it. ms: of the nodes in a run; border_ms: of conversions and copies between them and regions.
    operators: `58 Sigmoid, 57 Mul`. dropped: where the reason is that regions do not pay."""

    ways: tuple[str, ...]
    reasons: tuple[Reason, ...]
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


def find_causes(costs: Costs, advisor: Advisor) -> tuple[Cause, ...]:
    """The causes of all nodes on the host, the most expensive first."""
    groups: dict[tuple[str, ...], list[CostRow]] = {}
    for row in costs.on(HOST):
        groups.setdefault(_key(row, advisor), []).append(row)
    beside: dict[str, list[Border]] = {}
    for border in costs.borders:
        beside.setdefault(border.other, []).append(border)
    found = [_cause(key[-1], rows, beside, costs.samples) for key, rows in groups.items()]
    return tuple(sorted(found, key=lambda cause: (-cause.total_ms, -len(cause.nodes), cause.ways)))


def _key(row: CostRow, advisor: Advisor) -> tuple[str, ...]:
    """Equal for rows of one cause; the advice is last."""
    operator = row.operators.rpartition("+")[2]
    change = next((text for reason in row.reasons if (text := advisor.advise(reason, operator))), "")
    lost = any(Why.LOSS.gave(reason) for reason in row.reasons)
    return (*((Why.LOSS.name,) if lost else dict.fromkeys(map(group_key, row.reasons))), change)


def _cause(change: str, rows: Sequence[CostRow], beside: dict[str, list[Border]], samples: int) -> Cause:
    border = sum(b.convert_ms + b.copy_ms for row in rows for b in beside.get(row.name, ()))
    nodes = tuple(name for row in rows for name in row.nodes)
    losses = {reason.key: reason for row in rows for reason in row.reasons if Why.LOSS.gave(reason)}
    dropped = sorted((_dropped(loss, samples) for loss in losses.values()), key=lambda region: (-region.host_ms, region.first))
    differ = len({row.reasons[0].key for row in rows if row.reasons}) > 1
    ways = (LOSING,) if losses else tuple(dict.fromkeys(text_of(reason, differ) for reason in rows[0].reasons))
    operators = tally(Counter(row.operators for row in rows))
    return Cause(ways, rows[0].reasons, change, sum(row.ms for row in rows), border, sum(row.macs for row in rows), operators, nodes, tuple(dropped))


def _dropped(loss: Reason, samples: int) -> Dropped:
    given = loss.arguments
    first, operations, machine_ms, host_ms = (given[name] for name in ("first", "operations", "machine_ms", "host_ms"))
    return Dropped(str(first), int(str(operations)), samples * float(str(machine_ms)), samples * float(str(host_ms)))


def nodes_text(names: Sequence[str], shown: int) -> str:
    """The first few, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
