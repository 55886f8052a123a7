"""A comparison as one self-contained page of HTML."""

from collections.abc import Iterator, Sequence

from toolchain.report.comparison.compare import Comparison, change_percent
from toolchain.report.comparison.side import NEITHER, Figure
from toolchain.report.comparison.text import changed_keys, changes_text, figure_text, part_table
from toolchain.report.html import html_environment


def comparison_page(found: Comparison) -> str:
    """Ends in one line feed."""
    longest = max((each.cycles for row in found.parts.values() for each in row if each), default=0.0) or 1.0
    head, rows = part_table(found)
    bars = [[(letter, each.cycles if each else 0.0) for letter, each in zip(found.letters, row, strict=True)] for row in found.parts.values()]
    return html_environment().get_template("compare.html.j2").render(
        c=found, changed=list(changed_keys(found)), head=head, rows=list(zip(rows, bars, strict=True)), longest=longest, figure=figure_text,
        figure_changes=coloured,
    )  # fmt: skip


def coloured(row: Sequence[Figure | None]) -> Iterator[tuple[str, str]]:
    """`better`, `worse` or neither, and the change, for each side after the first."""
    first = row[0]
    for other, text in zip(row[1:], changes_text([each and each.value for each in row]), strict=True):
        change = change_percent(first.value, other.value) if first and other else None
        way = 0.0 if not change or not first or first.better == NEITHER else change * first.better
        yield "better" if way > 0 else "worse" if way < 0 else "", text
