"""Remarks on a build as a whole: programs that stand idle, regions that run many times, a declared peak that does not go with the timing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from toolchain.graph.regions import ROW_BY_ROW, region_calls, region_function
from toolchain.report.region_use import RegionUse
from toolchain.spec.model import Machine
from toolchain.spec.reason import Reason, read_reasons
from toolchain.spec.reasons import Why, change_of, text_of

LARGE = 10_000_000
"""Multiply-accumulates below which a network says little about the peak."""
CLOSE = 1e-6
"""Rounding of shares."""
FAR = 60.0
"""Per cent of the peak that some operation of a large network should reach."""


@dataclass(frozen=True)
class Remark:
    """reason: as data. text: with what to change."""

    reason: Reason
    text: str


def remarks_of(reasons: Iterable[Reason], machine: str) -> tuple[Remark, ...]:
    """Each in words. machine: as commands take it."""
    found = ((reason, text_of(reason), change_of(reason, {"machine": machine})) for reason in reasons)
    return tuple(Remark(reason, f"{text}. {change}" if change else text) for reason, text, change in found)


def stream_remarks(machine: Machine, used: int) -> Iterator[Reason]:
    """used: how many of its programs work, at most."""
    if 0 < used < machine.streams:
        yield Why.UNUSED_STREAMS(used=used, streams=machine.streams)


def run_remarks(model: ir.Model, runs: Mapping[str, tuple[int, int]]) -> Iterator[Reason]:
    """Regions that run several times. model: partitioned. runs: by region, how often in a run of the plan, and what one takes."""
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
