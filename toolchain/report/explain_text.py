"""An explanation in words: how much time, where it goes, which operations take it, why nodes are on the host and which changes help."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toolchain.report.costs import CostRow, CostTable
from toolchain.report.explain import Cause, Explanation, nodes_text
from toolchain.report.placement import HOST, MACHINE, NodePlaces
from toolchain.report.tables import counted, scaled, share_text, table_text, tally

ROWS, OPERATIONS, NODES, REGIONS = 20, 8, 3, 5
"""How many of each are shown; all are in the JSON and in the table of comma-separated values beside the text."""
LITTLE = 0.5
"""Per cent of the time below which a row says nothing."""
INDENT, WIDE = 4, 140


@dataclass(frozen=True)
class TimePart:
    """A part of the time of a run. text: the work that takes it."""

    name: str
    ms: float
    text: str


def explanation_text(found: Explanation, terminal: bool = False, width: int = 120) -> str:
    """Ends in one line feed. width: of the terminal in characters."""
    parts = ["\n".join(_head(found)), costs_text(found.costs, terminal, width)]
    if found.targets:
        parts.append("\n".join(_targets(found)))
    if found.operations:
        parts.append(_operations(found, terminal, width))
    if found.reasons:
        parts.append("\n".join(("Why nodes are on the host, the most expensive reason first:", *reasons_lines(found.reasons, found.costs))))
    parts += ["\n".join(lines) for lines in (list(_losing(found.costs)), list(_widened(found)), list(_folded(found))) if lines]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _head(found: Explanation) -> Iterator[str]:
    costs = found.costs
    several = f"{costs.samples} samples" if costs.samples > 1 else "one sample"
    yield f"{found.model} on {found.machine}: about {ms_text(costs.total_ms)} ms for {several} a run, estimated before it is built"
    rows = [
        ("on the machine", placed_text(found.placement)),
        *time_rows(costs),
        ("calibrated", found.calibration),
        *(("remark", each.text) for each in found.remarks),
    ]
    wide = max(len(name) for name, _ in rows)
    yield from (f"  {name:<{wide}}  {text}" for name, text in rows)


def _targets(found: Explanation) -> Iterator[str]:
    """Each machine's part, and why it does not take the other nodes that it was offered."""
    yield "Each node goes to the first machine that takes it:"
    for share in found.targets:
        yield f"  {share.target}: {counted(share.nodes, 'node')} in {counted(share.regions, 'region')}, {scaled(share.macs, 'MAC')}"
        for reason, count in list(share.refused.items())[:REGIONS]:
            yield from _paragraph(f"not {count}", reason)
        if len(share.refused) > REGIONS:
            yield f"{'':{INDENT + 8}}and {len(share.refused) - REGIONS} more reasons"


def placed_text(placed: NodePlaces) -> str:
    """Shares of nodes and of multiply-accumulates."""
    nodes = f"{len(placed.on(MACHINE))} of {len(placed.computed)} nodes ({placed.node_percent:.1f} %)"
    return f"{nodes}, {placed.mac_percent:.1f} % of {scaled(placed.macs, 'MAC')}"


def time_rows(costs: CostTable) -> list[tuple[str, str]]:
    """Rows of the time table: name and text."""
    regions = counted(len(costs.on(MACHINE)), "region")
    if not costs.priced:
        return [("machine", f"{ms_text(costs.machine_ms)} ms in {regions}; the machine's file does not say what the host costs")]
    return [(part.name, f"{ms_text(part.ms):>8} ms  {percent(part.ms, costs.total_ms):>5}  {part.text}") for part in time_parts(costs)]


def time_parts(costs: CostTable) -> list[TimePart]:
    """Five parts that add up to the whole."""
    hosts, crossed, copied = costs.on(HOST), costs.conversions, costs.transfers
    return [
        TimePart("machine", costs.machine_ms, f"in {counted(len(costs.on(MACHINE)), 'region')}"),
        TimePart("host", costs.host_ms - crossed.ms, f"in {counted(len(hosts), 'node')}"),
        TimePart("conversions", crossed.ms, f"in {crossed.count} between floating point and integers, {scaled(crossed.bytes, 'B')}"),
        TimePart("transfers", copied.ms, f"of {counted(copied.count, 'tensor')} to and from regions, {scaled(copied.bytes, 'B')}"),
        TimePart("launches", costs.launches.ms, f"of {counted(costs.launches.count, 'program')}"),
    ]


def costs_text(costs: CostTable, terminal: bool = False, width: int = 120, rows: int = ROWS) -> str:
    """A line for each region and each node of the host, those that take longest."""
    head = ("region or node", "where", "computes", "ms", "%", "computing", "border", "MACs", "bytes")
    shown = [row for row in costs.rows[:rows] if 100 * row.ms >= LITTLE * costs.total_ms] or list(costs.rows[:1])
    text = table_text(head, [_cells(row, costs) for row in shown], (0, 1, 2), terminal, width)
    rest = costs.rows[len(shown) :]
    return text + (f"and {len(rest)} more, {ms_text(sum(row.ms for row in rest))} ms\n" if rest else "")


def _cells(row: CostRow, costs: CostTable) -> list[str]:
    border = ms_text(row.border_ms) if row.where == MACHINE else ""
    sizes = [scaled(value) if value else "" for value in (row.macs, row.bytes)]
    share = percent(row.ms, costs.total_ms).rstrip(" %")
    return [row.name, row.target or row.where, row.operators, ms_text(row.ms), share, ms_text(row.compute_ms), border, *sizes]


def _operations(found: Explanation, terminal: bool, width: int) -> str:
    shown = found.operations[:OPERATIONS]
    cells = [[o.operation, o.kind, o.region, ms_text(o.ms), scaled(o.macs), share_text(o.share)] for o in shown]
    title = f"The longest of {counted(len(found.operations), 'operation')} on the machine:\n"
    return title + table_text(("operation", "computes", "region", "ms", "MACs", "% of peak"), cells, (0, 1, 2), terminal, width)


def reasons_lines(reasons: Sequence[Cause], costs: CostTable) -> Iterator[str]:
    """Each with its cost, the change that helps, and a few of its nodes; those that cost next to nothing in one line."""
    shown = [reason for reason in reasons if not costs.priced or 100 * reason.total_ms >= LITTLE * costs.total_ms]
    for reason in shown:
        border = f" and {ms_text(reason.border_ms)} ms at the borders beside them" if reason.border_ms else ""
        time = f"{ms_text(reason.ms)} ms ({percent(reason.ms, costs.total_ms)}){border}: " if costs.priced else ""
        yield f"  {time}{reason.operators}"
        yield from _paragraph("why", "; ".join(reason.ways))
        yield from _dropped(reason)
        yield from _paragraph("change", reason.change)
        yield from _paragraph("nodes", nodes_text(reason.nodes, NODES))
    rest = [reason for reason in reasons if reason not in shown]
    if rest:
        told = ", ".join(reason.operators for reason in rest)
        yield from textwrap.wrap(f"less than {LITTLE} % each: {told}", WIDE, initial_indent="  ", subsequent_indent=" " * INDENT)


def _paragraph(title: str, text: str) -> list[str]:
    start = f"{'':{INDENT}}{title:<8}"
    return textwrap.wrap(text, WIDE, initial_indent=start, subsequent_indent=" " * len(start), break_long_words=False, break_on_hyphens=False)


def _dropped(reason: Cause) -> Iterator[str]:
    for region in reason.dropped[:REGIONS]:
        one = f"{counted(region.operations, 'operation')} from {region.first}"
        yield f"{'':{INDENT + 8}}{one}: at least {ms_text(region.machine_ms)} ms as a region, {ms_text(region.host_ms)} ms on the host"
    if len(reason.dropped) > REGIONS:
        yield f"{'':{INDENT + 8}}and {len(reason.dropped) - REGIONS} more regions"


def _losing(costs: CostTable) -> Iterator[str]:
    losing = costs.losing
    if losing:
        yield f"{counted(len(losing), 'region')} would take less time on the host; `host` in the model's file keeps nodes there:"
        for row in sorted(losing, key=lambda row: row.host_ms - row.ms)[:REGIONS]:
            yield f"  {row.name} ({row.operators}): {ms_text(row.ms)} ms, {ms_text(row.host_ms)} ms on the host: {nodes_text(row.nodes, NODES)}"


def _widened(found: Explanation) -> Iterator[str]:
    if found.widened:
        yield f"{counted(len(found.widened), 'range')} of the quantised model widened to the machine's own, as no sample reached the limits:"
        yield from (f"  {each.operation}: {each.limits}" for each in found.widened[:REGIONS])
        if len(found.widened) > REGIONS:
            yield f"  and {len(found.widened) - REGIONS} more"


def _folded(found: Explanation) -> Iterator[str]:
    if found.kept:
        yield f"kept on the host by choice: {nodes_text(found.kept, NODES)}"
    if found.folded:
        yield f"not computed at all, {counted(sum(found.folded.values()), 'node')}: {tally(found.folded)}"


def ms_text(ms: float) -> str:
    """Three digits, and five places at most: `12.3`, `0.0123`, `0.00004`, `0`."""
    if ms >= 100:
        return f"{ms:,.0f}"
    return f"{ms:.3g}" if ms >= 0.001 else f"{ms:.5f}".rstrip("0").rstrip(".")


def percent(part: float, whole: float) -> str:
    """`12 %`, `0.4 %`."""
    share = 100 * part / whole if whole else 0.0
    return f"{share:.0f} %" if share >= 10 or not share else f"{share:.1f} %"
