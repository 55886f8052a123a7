"""Tables of comma-separated values for spreadsheets and scripts."""

import csv
import io
from collections.abc import Sequence

from toolchain.report.costs import Costs
from toolchain.report.placement import Placed, Placement

TIMES = ("ms", "compute_ms", "convert_ms", "transfer_ms", "launch_ms", "host_ms")
ROWS = ("name", "where", "target", "operators", "nodes", *TIMES, "macs", "bytes", "reason")
NODES = ("node", "operator", "where", "target", "region", "operation", "kind", "macs", "bytes", "reason", "refusals")


def rows_sheet(costs: Costs) -> str:
    """A line for each region and each node on the host, of a run, longest first; ms is the sum of the four columns after it."""
    lines = [
        (
            row.name,
            row.where,
            row.target,
            row.operators,
            " ".join(row.nodes),
            *(getattr(row, name) for name in TIMES),
            row.macs,
            row.bytes,
            row.reason,
        )
        for row in costs.rows
    ]
    return _sheet(ROWS, lines)


def nodes_sheet(placement: Placement) -> str:
    """A line for each node of the model, of one sample, in the order of the graph."""
    return _sheet(NODES, [[*(getattr(node, name) for name in NODES[:-1]), refusals_text(node)] for node in placement.nodes])


def refusals_text(node: Placed) -> str:
    """`MACHINE: reason | MACHINE: reason`, for a node that several machines were asked about."""
    return " | ".join(f"{name}: {reason}" for name, reason in node.refusals.items())


def _sheet(head: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_cell(cell) for cell in line] for line in lines)
    return out.getvalue()


def _cell(cell: object) -> str:
    """Nine digits of a number are plenty; a text that a spreadsheet would run as a formula becomes one that it shows."""
    text = f"{cell:.9g}" if isinstance(cell, float) else str(cell)
    return f"'{text}" if isinstance(cell, str) and text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
