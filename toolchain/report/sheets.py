"""Tables of comma-separated values for spreadsheets and scripts."""

import csv
import io
from collections.abc import Sequence

from toolchain.report.costs import Costs
from toolchain.report.placement import Placed, Placement
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import texts_of

TIMES = ("ms", "compute_ms", "convert_ms", "transfer_ms", "launch_ms", "host_ms")
ROWS = ("name", "where", "target", "operators", "nodes", *TIMES, "macs", "bytes", "reason", "codes")
NODES = ("node", "operator", "where", "target", "region", "operation", "kind", "macs", "bytes", "reason", "codes", "refusals")


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
            _codes(row.reasons),
        )
        for row in costs.rows
    ]
    return _sheet(ROWS, lines)


def nodes_sheet(placement: Placement) -> str:
    """A line for each node of the model, of one sample, in the order of the graph."""
    return _sheet(NODES, [[*(getattr(node, name) for name in NODES[:-2]), _codes(node.reasons), refusals_text(node)] for node in placement.nodes])


def _codes(reasons: Sequence[Reason]) -> str:
    return " ".join(dict.fromkeys(reason.code for reason in reasons))


def refusals_text(node: Placed) -> str:
    """`MACHINE: reason | MACHINE: reason`, for a node that several machines were asked about."""
    return " | ".join(f"{name}: {texts_of(reasons)}" for name, reasons in node.refusals.items())


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
