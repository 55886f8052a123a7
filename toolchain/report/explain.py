"""Why a network takes as long as it does on a machine, changes that a user can make, and the placement of every node in the model's metadata."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from toolchain.graph.regions import ROW_BY_ROW, region_calls, region_function
from toolchain.passes.context import keeps
from toolchain.passes.leave import WIDENED
from toolchain.passes.templates import Template
from toolchain.report.costs import CostRow, CostTable, cost_rows
from toolchain.report.placement import FOLDED, NodePlaces, Placed
from toolchain.report.reasons import Cause, advisor_for, find_causes
from toolchain.report.region_use import RegionUse
from toolchain.runtime.contents import runs_of, samples_a_run
from toolchain.runtime.timing import region_time
from toolchain.schedule.backend import Backend, backend_of
from toolchain.schedule.estimate import RegionEstimate, estimate_region
from toolchain.spec.model import Machine
from toolchain.spec.reason import Reason, read_reasons, reasons_json
from toolchain.spec.reasons import Why, change_of, text_of, texts_of

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
