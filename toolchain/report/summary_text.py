"""A summary in words, and as data for JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from toolchain.graph.quantisation.ranges import MADE_UP, calibration_text
from toolchain.report.explain_text import ms_text, placed_text
from toolchain.report.region_use import RegionUse
from toolchain.report.summary import MachineShare, StateTraffic, Summary
from toolchain.report.tables import counted, scaled, share_text, table_text
from toolchain.runtime.timing import Modelled

ALL = 100.0
"""Per cent."""


def summary_text(summary: Summary) -> str:
    """About ten lines."""
    rows = list(summary_rows(summary))
    width = max(len(name) for name, _ in rows)
    several = f"{summary.images} images" if summary.images > 1 else "one image"
    return "\n".join([f"{summary.model} on {summary.machine}, {several} a run", *(f"  {name:<{width}}  {text}" for name, text in rows)]) + "\n"


def summary_rows(s: Summary) -> Iterator[tuple[str, str]]:
    """Name and text of each fact."""
    if s.stand_in:
        yield "stand-in", s.stand_in
    operations = sum(len(region.operations) for region in s.regions)
    yield (
        "on the machines" if len(s.shares) > 1 else "on the machine",
        f"{placed_text(s.placement)}; {counted(len(s.regions), 'region')}, {counted(operations, 'operation')}",
    )
    yield from _time_rows(s)
    if busiest := max(s.regions, key=lambda region: region.streams, default=None):
        yield from _streams(s, busiest)
    yield "with the host", _whole(s)
    if s.states:
        yield "states", states_text(s.states)
        if s.states.step != s.time:
            yield "a step", f"{_whole_text(s.states.step)}; between others, with states where they are"
    yield "borders", _borders(s)
    if s.utilisation is not None and s.peak_macs is not None:
        bound = f"; no schedule of these instructions uses more than {_bound(s):.1f} %" if s.regions and s.utilisation <= ALL else ""
        yield "utilisation", _use_text(s.utilisation, s.peak_macs) + bound
    yield from (("remark", each.text) for each in s.remarks)
    yield from _memory_rows(s)
    if s.accuracy:
        yield "accuracy", ", ".join(f"{way} {100 * share:.2f} %" for way, share in s.accuracy.items())
    yield "calibrated", calibration_text(s.calibration)
    yield "exact", _exact(s)
    if s.closeness and s.closeness.text():
        yield "quantised", f"integers against floating point: {s.closeness.text()}"
    if not s.accuracy and s.stated and s.stated.text():
        yield "accuracy", s.stated.text()
    yield from (("warning", text) for text in warnings_of(s))
    yield "rests on", _basis(s)
    yield from _assumed_rows(s)
    yield from ((name, path) for name, path in s.artefacts.items())


def _time_rows(s: Summary) -> Iterator[tuple[str, str]]:
    machine = f"{s.time.cycles:,.0f} cycles at {s.clock_khz / 1000:g} MHz"
    if len(s.shares) > 1:
        yield "time", f"{s.time.execute_ms:.3f} ms on the machines one after the other, {s.frames_per_second:,.1f} frames/s"
        yield from ((share.machine, _share(share)) for share in s.shares)
    else:
        yield "time", f"{s.time.execute_ms:.3f} ms on the machine ({machine}), {s.frames_per_second:,.1f} frames/s"


def _memory_rows(s: Summary) -> Iterator[tuple[str, str]]:
    if not s.regions:
        return
    if moved := [f"{m.memory} {scaled(m.read, 'B')} read, {scaled(m.written, 'B')} written" for m in s.memories if not m.on_chip]:
        yield "moved", "; ".join(moved)
    if any(m.on_chip for m in s.memories):
        yield "on-chip peak", ", ".join(f"{m.memory} {scaled(m.used, 'B')} of {scaled(m.of, 'B')}" for m in s.memories if m.on_chip)


def _assumed_rows(s: Summary) -> Iterator[tuple[str, str]]:
    if fields := list(dict.fromkeys(name for region in s.regions for name in region.assumed)):
        yield "assumes", f"the meaning of values of {counted(len(fields), 'field')} of its instructions: {', '.join(fields)}"
    if fields := list(dict.fromkeys(name for region in s.regions for name in region.stated)):
        yield "unshown", f"values that public descriptions allow and no program is known to use: {', '.join(fields)}"


def is_judged(s: Summary) -> bool:
    """Whether noise is worth a warning: made-up samples, and weights that stand in for others, say little either way."""
    return s.calibration != MADE_UP and not s.stand_in


def warnings_of(s: Summary) -> Iterator[str]:
    """Remarks that a user should know before trusting the integers."""
    if not is_judged(s):
        return
    if s.stated and s.stated.samples:
        yield from s.stated.warnings()
    elif s.closeness:
        yield from s.closeness.warnings()


def _streams(s: Summary, busiest: RegionUse) -> Iterator[tuple[str, str]]:
    """Rows on streams that work side by side: their shares and their rate. busiest: the region with most of them."""
    if busiest.copies > 1 and len(ways := dict.fromkeys(map(_way, s.regions))) > 1:
        yield "sub-graphs", "; ".join(_way_text(way, [region for region in s.regions if _way(region) == way]) for way in ways)
    elif busiest.streams > 1:
        each, images = busiest.streams // busiest.copies, busiest.images // busiest.copies
        count = "an image" if images == 1 else counted(images, "image")
        apart = f"{count} on each" if each == 1 else f"{count} on every {each}"
        text = f"{busiest.streams} of {busiest.available}, " + (apart if busiest.copies > 1 else "which share the work of an image")
        if s.utilisation is not None:
            rate = 2 * s.placement.machine_macs * s.images / s.time.execute_ms / 1e9
            text += f": {rate:.3f} TOP/s, {s.utilisation * busiest.available / busiest.streams:.1f} % of what they could do"
        yield "streams", text


def _way(region: RegionUse) -> tuple[int, int, int]:
    """Images at once, streams of the machine that each copy of the region may use for its own, and runs."""
    return region.images, -(-region.streams // region.copies), region.runs


def _way_text(way: tuple[int, int, int], regions: Sequence[RegionUse]) -> str:
    copies, each, runs = way
    cycles = sum(region.cycles * region.runs for region in regions)
    operations = counted(sum(len(region.operations) for region in regions), "operation")
    return f"{operations} for {copies} at once on {counted(each, 'stream')} each, {counted(runs, 'run')}: {cycles:,.0f} cycles"


def _share(share: MachineShare) -> str:
    text = f"{share.ms:.3f} ms in {counted(share.regions, 'region')}, {share.cycles:,.0f} cycles at {share.clock_khz / 1000:g} MHz"
    use = share.utilisation
    return text if use is None or share.peak_macs is None else f"{text}, {_use_text(use, share.peak_macs)}"


def _use_text(use: float, peak: int) -> str:
    """A figure above all that a machine can do would be none: the machine's file contradicts itself there."""
    if use <= ALL:
        return f"{use:.1f} % of {peak} multiply-accumulates a cycle"
    return f"{use * peak / ALL:,.1f} multiply-accumulates a cycle, more than the {peak} that the machine's file declares"


def states_text(found: StateTraffic) -> str:
    """Bytes that stay on the device, and those that a step moves."""
    parts = [f"{found.resident} of {found.count} stay on the device, {scaled(found.stay, 'B')}"] if found.resident else []
    others = found.count - found.resident
    parts += [f"{others} {'is' if others == 1 else 'are'} on the host, {scaled(found.bytes - found.stay, 'B')}"] if others else []
    return f"{', '.join(parts)}; a step moves {scaled(found.moved, 'B')} of them between host and device"


def _whole(s: Summary) -> str:
    return _whole_text(s.time)


def _whole_text(time: Modelled) -> str:
    parts = {"host": time.host_ms, "transfer": time.transfer_ms, "launch": time.launch_ms}
    known = [f"{name} {ms:.3f} ms" for name, ms in parts.items() if ms is not None]
    return f"{time.total_ms:.3f} ms" + (f": {', '.join(known)}" if known else "; the machine's file does not say what the host costs")


def _borders(s: Summary) -> str:
    """Conversions are in the host's part of the time."""
    converted, copied = s.costs.conversions, s.costs.transfers
    sizes = [f"{converted.count} conversions of {scaled(converted.bytes, 'B')}", f"{copied.count} transfers of {scaled(copied.bytes, 'B')}"]
    times = [f" in {ms_text(each.ms)} ms" if s.costs.priced else "" for each in (converted, copied)]
    return ", ".join(size + time for size, time in zip(sizes, times, strict=True))


def _bound(s: Summary) -> float:
    assert s.utilisation is not None
    return min(s.utilisation * s.time.cycles / max(sum(region.runs * region.bound for region in s.regions), 1.0), ALL)


def _exact(s: Summary) -> str:
    if not s.regions:
        return "nothing to compare: no node runs on the machine"
    if s.exact is None:
        return "not verified yet: `verify` compares every tensor"
    other = "the integer network in ONNX Runtime" if s.calibration else "ONNX Runtime"
    found = f"{s.tensors} tensors compared with {other}"
    if not s.exact:
        return f"NO: {found}, see what `verify` says"
    return f"no, but as near as the machine's file asks: {found}, allowed are {s.allowed}" if s.allowed else f"yes, {found}"


def _basis(s: Summary) -> str:
    assumed = [basis for basis in s.constants if basis.assumed]
    named = ", ".join(basis.name if basis.value is None else f"{basis.name} = {basis.value}" for basis in assumed)
    files = "the machine's file" if len(s.shares) < 2 else "the machines' files"
    return f"{len(s.constants)} numbers of {files}, {len(assumed)} of them assumed" + (f": {named}" if assumed else "")


def operations_text(regions: Sequence[RegionUse], terminal: bool = False, width: int = 120) -> str:
    """A line for each operation on the machine, in the order of the program."""
    rows: list[list[str]] = []
    for region in regions:
        for use in region.operations:
            share = share_text(100 * use.macs / use.busy / region.peak_macs if region.peak_macs and use.busy else None, 1)
            numbers = [str(use.instructions), f"{use.cycles:,.0f}", f"{use.unit} {use.busy:,.0f}", scaled(use.macs), share, scaled(use.bytes)]
            rows.append([region.region, use.operation, use.kind, *numbers])
    head = ["region", "operation", "computes", "instructions", "cycles", "busy", "MACs", "% of peak", "DRAM bytes"]
    return table_text(head, rows, (0, 1, 2), terminal, width)


def summary_data(summary: Summary) -> dict[str, Any]:
    """The summary as JSON holds it."""
    placed = summary.placement
    hidden = ("placement", *(() if summary.states else ("states",)))
    found: dict[str, Any] = {key: value for key, value in asdict(summary).items() if key not in hidden}
    crossings = {name: asdict(getattr(summary.costs, name)) for name in ("conversions", "transfers", "launches")}
    found["borders"] = {"regions": len(summary.regions), **crossings}
    shares = {
        "nodes": len(placed.computed),
        "nodes_on_machine": len(placed.on("machine")),
        "macs": placed.macs,
        "macs_on_machine": placed.machine_macs,
    }
    whole = {"cycles": summary.time.cycles, "machine_ms": summary.time.execute_ms, "total_ms": summary.time.total_ms}
    percents = {"node_percent": round(placed.node_percent, 3), "mac_percent": round(placed.mac_percent, 3)}
    use = None if summary.utilisation is None else round(summary.utilisation, 3)
    rates = {"utilisation": use, "frames_per_second": round(summary.frames_per_second, 3)}
    memories = [asdict(memory) for memory in summary.memories]
    return {**found, **whole, **shares, **percents, **rates, "memories": memories}
