"""Measured beside modelled times for a terminal."""

from toolchain.report.profile.beside import Beside
from toolchain.report.tables import counted, table_text
from toolchain.spec.errors import one_line

SHOWN = 10
"""Deviations that a terminal shows; the JSON has all."""


def profile_text(found: Beside, terminal: bool = False, width: int = 120) -> str:
    """Ends in one line feed. terminal: with ruled tables of at most `width` characters."""
    head = ["operation", "measured", "modelled", "cycles", "ratio", "starts later", *found.counters]
    rows = [
        [
            one_line(each.operation), str(each.spans), f"{each.modelled:,.0f}", f"{each.measured:,.0f}",
            f"{each.measured / each.modelled:.3f}" if each.modelled else "-", f"{each.later:+,.0f}", *(f"{value:,.6g}" for value in each.counters),
        ]
        for each in found.operations
    ]  # fmt: skip
    return f"{headline(found)}\n\n{table_text(head, rows, (0,), terminal, width)}\n{_deviations(found, terminal, width)}"


def headline(found: Beside) -> str:
    """One line: how much was measured, and the whole beside the model."""
    what = "operation" if found.whole else "instruction"
    known = "" if found.ends else ", starts alone"
    ratio = f", ratio {found.measured / found.modelled:.4f}" if found.modelled else ""
    return (
        f"{found.region} on {found.machine}: {found.spans} of {counted(found.of, what)} measured{known}; "
        f"{found.measured:,.0f} cycles, {found.modelled:,.0f} by the model{ratio}; its clock shows {found.offset:,.0f} at the model's 0"
    )


def _deviations(found: Beside, terminal: bool, width: int) -> str:
    if not found.deviations:
        return "all start when the model says\n"
    rows = [
        [one_line(each.name), one_line(each.operation), each.unit, f"{each.modelled:,.0f}", f"{each.measured:,.0f}", f"{each.lost:+,.0f}"]
        for each in found.deviations[:SHOWN]
    ]
    more = f"and {len(found.deviations) - SHOWN} more\n" if len(found.deviations) > SHOWN else ""
    return (
        table_text(["largest deviations", "of", "unit", "modelled start", "measured start", "cycles lost"], rows, (0, 1, 2), terminal, width) + more
    )
