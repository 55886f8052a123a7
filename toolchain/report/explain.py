"""Why each node of a model is where it is."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from toolchain.report.placement import FOLDED, HOST, Placed, Placement
from toolchain.report.tables import counted, scaled, table_text

HEAD = ("node", "operator", "where", "as", "MACs", "bytes", "why")


def explain_text(placement: Placement, model: str, machine: str, terminal: bool = False, width: int = 120) -> str:
    """The share of the machine, every reason with what it costs, then a line for each node."""
    share = f"{len(placement.on('machine'))} of {len(placement.computed)} nodes ({placement.node_percent:.1f} %)"
    lines = [f"{model} on {machine}: {share} and {placement.mac_percent:.1f} % of {scaled(placement.macs, 'MAC')} on the machine"]
    lines += [*_reasons(placement)]
    if placement.conversions:
        lines.append(f"{placement.conversions} nodes convert between floating point and integers, on the host")
    rows = [_row(node) for node in placement.nodes]
    return "\n".join(lines) + "\n\n" + table_text(HEAD, rows, (0, 1, 2, 3, 6), terminal, width)


def _reasons(placement: Placement) -> Iterator[str]:
    """Those that cost most multiply-accumulates first, then most nodes."""
    host = placement.on(HOST)
    counts, macs = Counter(node.reason for node in host), Counter[str]()
    for node in host:
        macs[node.reason] += node.macs
    for reason in sorted(counts, key=lambda text: (-macs[text], -counts[text], text)):
        operators = ", ".join(sorted({node.operator for node in host if node.reason == reason}))
        yield f"on the host, {counted(counts[reason], 'node')} ({operators}), {scaled(macs[reason], 'MAC')}: {reason}"
    gone = placement.on(FOLDED)
    for reason, count in sorted(Counter(node.reason for node in gone).items()):
        yield f"not computed at all, {counted(count, 'node')}: {reason}"


def _row(node: Placed) -> list[str]:
    where = node.region or node.where
    name = node.kind if node.operation in ("", node.node) else f"{node.kind} {node.operation}".strip()
    why = node.reason or (f"part of {node.operation}" if node.operation not in ("", node.node) else "")
    numbers = [scaled(value) if value else "" for value in (node.macs, node.bytes)]
    return [node.node, node.operator, where, name, *numbers, why]


def explain_data(placement: Placement, model: str, machine: str) -> dict[str, Any]:
    """What JSON holds."""
    shares = {"node_percent": round(placement.node_percent, 3), "mac_percent": round(placement.mac_percent, 3), "macs": placement.macs}
    nodes = [asdict(node) for node in placement.nodes]
    return {"model": model, "machine": machine, **shares, "conversions": placement.conversions, "nodes": nodes}


def read_placement(data: Mapping[str, Any]) -> Placement:
    """What `explain_data` was made of. Raises KeyError or TypeError for anything else."""
    return Placement(tuple(Placed(**node) for node in data["nodes"]), data["conversions"])
