"""Reasons why nodes are on the host, grouped by code: their cost and the advice for each."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from toolchain.passes.fuse import family_of
from toolchain.passes.templates import Pattern, Template
from toolchain.report.costs import Border, CostRow, CostTable
from toolchain.report.placement import HOST, NodePlaces
from toolchain.report.tables import tally
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import CUT, LIMIT, Why, change_of, group_key, text_of

KERNEL = "Write a kernel for {operation} (docs/kernels.md; `tilewright operation show {operation}` has what it computes)."
DESCRIBE = "If the machine can compute it, describe it as an operation and write a kernel for it (docs/your-first-operation.md, docs/kernels.md). "
RETRAIN: Mapping[str, str] = MappingProxyType(
    {
        "activation": "Train with one of the machine's own activations, {activations}: the layers around it then stay in one region.",
        "arithmetic": "Train with {activations} in the place of a gate (one tensor times another: SiLU, HardSwish, squeeze-and-excite): the layers "
        "around it then stay in one region.",
        "normalisation": "A batch normalisation folds into the layer before it and costs nothing; this one needs the values of each sample. " + CUT,
    }
)
"""For networks of convolutions, whose layers can be exchanged for others: by family of the operator."""
OTHERWISE: Mapping[str, str] = MappingProxyType(
    {
        "move of data": "The machine stores tensors in its own order, and the host rearranges them. " + CUT,
        "recurrence": "The host makes the steps of recurrent layers. Convolutions over time do not depend on steps before.",
        "product": LIMIT,
    }
)


@dataclass(frozen=True)
class Advisor:
    """machine: as commands take it, `NAME --set PARAM=VALUE`. activations: operators that a layer of the machine's takes in.
    convolutional: whether most of the network's multiply-accumulates are convolutions."""

    machine: str
    activations: tuple[str, ...] = ()
    convolutional: bool = True

    def advise(self, reason: Reason, operator: str) -> str:
        """Advice in one or two sentences. operator: of the node."""
        facts = {"machine": self.machine, "activations": _listed(self.activations)}
        if Why.NO_KERNEL.gave(reason):
            kernel, other = KERNEL.format(operation=reason.arguments["operation"]), self._retrain(operator, facts)
            return f"{kernel} Or else {other[0].lower()}{other[1:]}" if other and family_of(operator) != "normalisation" else kernel
        if Why.NO_TEMPLATE.gave(reason) or Why.NO_FACTORS.gave(reason):
            return self._retrain(operator, facts) or OTHERWISE.get(family_of(operator), DESCRIBE + CUT).format(**facts)
        return change_of(reason, facts)

    def _retrain(self, operator: str, facts: Mapping[str, str]) -> str:
        """Other layers for those of the operator's family; empty in a network that is not of convolutions."""
        family = family_of(operator)
        if not self.convolutional or family not in RETRAIN or (family != "normalisation" and not self.activations):
            return ""
        return RETRAIN[family].format(**facts)


def advisor_for(machine: str, templates: Sequence[Template], placement: NodePlaces) -> Advisor:
    """machine: as commands take it. templates: of the machine."""
    convolved = sum(node.macs for node in placement.computed if node.operator in ("Conv", "ConvTranspose"))
    return Advisor(machine, tuple(activations(templates)), bool(convolved) and 2 * convolved >= placement.macs)


def activations(templates: Sequence[Template]) -> list[str]:
    """The operators that templates take as a layer's activation."""
    found = [name for template in templates for pattern in _patterns(template.pattern) if pattern.role == "activation" for name in pattern.operators]
    return list(dict.fromkeys(found))


def _patterns(pattern: Pattern) -> list[Pattern]:
    inner = [part for part in (*pattern.inputs, *pattern.alternatives) if isinstance(part, Pattern)]
    return [pattern, *(each for part in inner for each in _patterns(part))]


def _listed(names: Sequence[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names) or "none"


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
    first node. change: advice. ms: of the nodes in a run; border_ms: of conversions and copies between them and regions.
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


def find_causes(costs: CostTable, advisor: Advisor) -> tuple[Cause, ...]:
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
