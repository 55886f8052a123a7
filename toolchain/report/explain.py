"""Why a network takes as long as it does on a machine, changes that a user can make, and the placement of every node in the model's metadata. Reasons
why nodes are on the host are grouped by code, with their cost and the advice for each."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import onnx
import onnx_ir as ir

from toolchain.graph.regions import ROW_BY_ROW, region_calls, region_function
from toolchain.passes.context import keeps
from toolchain.passes.fuse import family_of
from toolchain.passes.leave import WIDENED
from toolchain.passes.templates import Pattern, Template
from toolchain.report.costs import Border, CostRow, CostTable, cost_rows
from toolchain.report.placement import FOLDED, HOST, NodePlaces, Placed
from toolchain.report.region_use import RegionUse
from toolchain.report.tables import tally
from toolchain.runtime.contents import runs_of, samples_a_run
from toolchain.runtime.timing import Modelled, region_time
from toolchain.schedule.backend import Backend, backend_of
from toolchain.schedule.estimate import RegionEstimate, estimate_region
from toolchain.spec.model import Machine
from toolchain.spec.reason import Reason, read_reasons, reasons_json
from toolchain.spec.reasons import CUT, LIMIT, Why, change_of, group_key, text_of, texts_of

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


LARGE = 10_000_000
"""Multiply-accumulates below which a network says little about the peak."""
CLOSE = 1e-6
"""Rounding of shares."""
FAR = 60.0
"""Per cent of the peak that some operation of a large network should reach."""


@dataclass(frozen=True)
class Remark:
    """reason: as data. text: with the change that helps."""

    reason: Reason
    text: str


def remarks_of(reasons: Iterable[Reason], machine: str) -> tuple[Remark, ...]:
    """Each in words. machine: as commands take it."""
    found = ((reason, text_of(reason), change_of(reason, {"machine": machine})) for reason in reasons)
    return tuple(Remark(reason, f"{text}. {change}" if change else text) for reason, text, change in found)


def stream_remarks(machine: Machine, used: int) -> Iterator[Reason]:
    """used: how many of its programs work, at most; more than one were asked for, and too small operations left the others idle."""
    if used == 1 < machine.streams:
        yield Why.UNUSED_STREAMS(used=used, streams=machine.streams)


def helped_remarks(copies: int, alone: Modelled) -> Iterator[Reason]:
    """copies: of a build for one image, how many programs run beside each other. alone: the time of a single image."""
    if copies > 1:
        yield Why.HELPED(used=copies, milliseconds=alone.total_ms)


def run_remarks(model: ir.Model, runs: Mapping[str, tuple[int, int]]) -> Iterator[Reason]:
    """Regions that run several times. model: partitioned. runs: by region, the number of runs in one of the plan, and the time of one."""
    for call in region_calls(model):
        name, (count, images) = call.op_type, runs[call.op_type]
        if count > 1:
            why = read_reasons(region_function(model, call).metadata_props.get(ROW_BY_ROW, "[]"))
            plain = Why.RUNS(region=name, runs=count, images=images, batch=count * images)
            yield Why.ROW_RUNS(why, region=name, runs=count) if why else plain


def peak_remarks(machine: Machine, uses: Sequence[RegionUse]) -> Iterator[Reason]:
    """Whether the declared peak goes with the timing, as far as operations of a large network tell."""
    peak = machine.timing.peak_macs
    rates = [use.macs / use.busy for region in uses for use in region.operations if use.busy]
    if not peak or not rates:
        return
    share = max(region.streams for region in uses) / machine.streams
    if max(rates) > peak * (1 + CLOSE):
        yield Why.EXCEEDED_PEAK(reached=float(max(rates)), peak=peak)
    elif sum(use.macs for region in uses for use in region.operations) >= LARGE and (best := 100 * max(rates) / peak / share) < FAR:
        yield Why.UNREACHED_PEAK(best=float(f"{best:.6g}"), peak=peak)


@dataclass(frozen=True)
class ExplainedOperation:
    """An operation on the machine, by the estimate of its tiles. share: of the peak, in %, None where the machine's file does not say the peak."""

    operation: str
    kind: str
    region: str
    ms: float
    macs: int
    share: float | None


@dataclass(frozen=True)
class Widened:
    """An operation whose result a quantised model limits to the range of its own integers. Calibration saw nothing beyond, so the machine's range
    stands in. limits: of the model, `-3.2 to 3.1`."""

    operation: str
    limits: str


@dataclass(frozen=True)
class TargetShare:
    """One of several machines. nodes, macs: of the model, that it computes, of one sample. refused: how many nodes that were offered to it it does
    not take, by the reason, the most frequent first."""

    target: str
    nodes: int
    macs: int
    regions: int
    refused: Mapping[str, int]


@dataclass(frozen=True)
class Explanation:
    """samples: of a run, which all times, multiply-accumulates and bytes of costs are of; those of placement are of one sample.

    calibration: where the ranges come from. operations: on the machine, longest first. kept: nodes that the user keeps on the host.
    """

    model: str
    machine: str
    calibration: str
    placement: NodePlaces
    costs: CostTable
    operations: tuple[ExplainedOperation, ...]
    reasons: tuple[Cause, ...]
    widened: tuple[Widened, ...]
    kept: tuple[str, ...]
    folded: Mapping[str, int]
    targets: tuple[TargetShare, ...] = ()
    remarks: tuple[Remark, ...] = ()


def explain(
    backends: Sequence[Backend], templates: Sequence[Template], model: ir.Model, placement: NodePlaces, names: tuple[str, str, str, str]
) -> Explanation:
    """backends, templates: of the machines, the first choice first; templates are the first one's. model: partitioned.

    names: of the model and of the machines as a reader sees them, where the calibration comes from, and the first machine as commands take it.

    Raises UserError E1003, E1004, E1007, E1008 for a region that the machine does not take.
    """
    machines = {call.op_type: backend_of(backends, call).machine for call in region_calls(model)}
    estimates = [_estimate(backend_of(backends, call), model, call) for call in region_calls(model)]
    batches = {call.op_type: _batch(call) for call in region_calls(model)}
    images = {call.op_type: backend_of(backends, call).images or batches[call.op_type] for call in region_calls(model)}
    samples = max((samples_a_run(images[name], batch) for name, batch in batches.items()), default=1)
    times = {e.name: region_time(machines[e.name], e.cycles, runs_of(samples, images[e.name], batches[e.name]), e.border) for e in estimates}
    costs = cost_rows(backends[0].machine, model, {node.node: node.operator for node in placement.nodes}, times, samples)
    operations = sorted(
        (o for e in estimates for o in _operations(machines[e.name], e, times[e.name].runs)), key=lambda o: (-o.ms, o.region, o.operation)
    )
    causes = find_causes(costs, advisor_for(names[3], templates, placement))
    kept, folded = [node.node for node in placement.nodes if keeps(node.reasons)], Counter(node.reason for node in placement.on(FOLDED))
    shares = share_targets([b.machine.name for b in backends], placement)
    idle = (remark for backend in backends if backend.tiled for remark in stream_remarks(backend.machine, int(backend.machine in machines.values())))
    remarks = remarks_of((*idle, *run_remarks(model, {name: (time.runs, images[name]) for name, time in times.items()})), names[3])
    return Explanation(
        names[0], names[1], names[2], placement, costs, tuple(operations), causes, tuple(find_widened(model)), tuple(kept), folded, tuple(shares),
        remarks,
    )  # fmt: skip


def _estimate(backend: Backend, model: ir.Model, call: ir.Node) -> RegionEstimate:
    return estimate_region(backend, model, call)


def share_targets(names: Sequence[str], placement: NodePlaces) -> Iterator[TargetShare]:
    """Each machine's part, where there are several."""
    for name in names if len(names) > 1 else ():
        taken = [node for node in placement.nodes if node.target == name]
        refused = Counter(texts_of(node.refusals[name]) for node in placement.nodes if name in node.refusals)
        yield TargetShare(name, len(taken), sum(node.macs for node in taken), len({node.region for node in taken}), dict(refused.most_common()))


def _batch(call: ir.Node) -> int:
    """Images of one sample."""
    shape = call.outputs[0].shape
    return int(shape.numpy()[0]) if shape is not None and len(shape) else 1


def _operations(machine: Machine, estimate: RegionEstimate, runs: int) -> list[ExplainedOperation]:
    peak, clock = machine.timing.peak_macs, machine.timing.clock_khz
    found: list[ExplainedOperation] = []
    for each in estimate.operations:
        share = 100 * each.macs / each.cycles / peak if peak and each.cycles else None
        found.append(ExplainedOperation(each.name, each.kind, estimate.name, runs * each.cycles / clock, runs * each.macs, share))
    return found


def find_widened(model: ir.Model) -> list[Widened]:
    """In the order of the graph."""
    nodes = [*model.graph, *(node for call in region_calls(model) for node in region_function(model, call))]
    return [Widened(node.name or "", node.metadata_props[WIDENED]) for node in nodes if WIDENED in node.metadata_props]


PREFIX = "tilewright."


def annotated(imported: onnx.ModelProto, found: Explanation) -> onnx.ModelProto:
    """imported: the first stage of the graph; its weights need not be loaded, and become inputs, so that the file is small and complete.

    Times are of a run, in milliseconds. A region's stand at each of its nodes, beside those of the same nodes on the host.
    """
    model = onnx.ModelProto()
    model.CopyFrom(imported)
    placed, rows = {node.node: node for node in found.placement.nodes}, {row.name: row for row in found.costs.rows}
    for node in model.graph.node:
        if node.name in placed:
            _note(node, placed[node.name], rows)
    _without_weights(model.graph)
    model.graph.doc_string = f"{found.model} on {found.machine}: {found.costs.total_ms:.6g} ms for a run, estimated"
    return model


def _note(node: onnx.NodeProto, placed: Placed, rows: dict[str, CostRow]) -> None:
    row = rows.get(placed.region or placed.node)
    facts = {"where": placed.where, "target": placed.target, "region": placed.region, "operation": placed.operation, "computes": placed.kind}
    facts |= {"reason": placed.reason, "reasons": reasons_json(placed.reasons) if placed.reasons else "", "macs": str(placed.macs)}
    facts |= {f"refusal.{machine}": texts_of(reasons) for machine, reasons in placed.refusals.items()}
    if row is not None:
        part = "region_" if placed.region else ""
        facts |= {f"{part}ms": f"{row.compute_ms:.6g}", f"{part}border_ms": f"{row.border_ms:.6g}"}
        facts |= {"region_host_ms": f"{row.host_ms:.6g}"} if placed.region else {}
    for key, text in facts.items():
        if text:
            node.metadata_props.add(key=PREFIX + key, value=text)


def _without_weights(graph: onnx.GraphProto) -> None:
    """Stored tensors beside the file become inputs of their types."""
    known = {value.name for value in graph.input}
    outside = [tensor for tensor in graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL]
    for tensor in outside:
        graph.initializer.remove(tensor)
        if tensor.name not in known:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
