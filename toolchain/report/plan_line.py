"""A run of a plan as a line of time: what the host, the border and the device do one after the other."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toolchain.runtime.contents import Manifest
from toolchain.runtime.timing import region_times, samples_of, segment_ms
from toolchain.spec.model import Machine

HOST, BORDER, MACHINE = "host", "border", "machine"
LANES = (HOST, BORDER, MACHINE)


@dataclass(frozen=True)
class Span:
    """name: of the region, or the tensors that a host segment makes. start, ms: milliseconds from the start of the run."""

    lane: str
    name: str
    start: float
    ms: float


def plan_line(machines: Mapping[str, Machine], manifest: Manifest) -> tuple[Span, ...]:
    """In the order of the plan, by the machine's declared costs, end to end: the end of the last is the time of the run."""
    spans: list[Span] = []
    at = 0.0
    for lane, name, ms in _steps(machines, manifest):
        spans.append(Span(lane, name, at, ms))
        at += ms
    return tuple(spans)


def _steps(machines: Mapping[str, Machine], manifest: Manifest) -> Iterator[tuple[str, str, float]]:
    samples, times, priced = samples_of(manifest.regions), region_times(machines, manifest), next(iter(machines.values())).host
    for step in manifest.plan:
        if step.kind == "region":
            region = manifest.regions[step.index]
            time = times[region.name]
            yield BORDER, region.name, time.transfer_ms + (time.launch_ms or 0.0)
            yield MACHINE, region.name, time.execute_ms
        else:
            segment = manifest.hosts[step.index]
            yield HOST, ", ".join(segment.outputs), samples * segment_ms(segment, priced) if priced else 0.0
