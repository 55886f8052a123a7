"""A comparison for a terminal, and as one self-contained page of HTML."""

from collections.abc import Iterator, Mapping, Sequence

from toolchain.report.comparison.compare import Comparison, change_percent
from toolchain.report.comparison.sides import NEITHER, Figure, Part
from toolchain.report.html import html_environment
from toolchain.report.tables import counted, scaled, table_text
from toolchain.spec.errors import one_line

SHOWN = 24
"""Keys of a machine or schedule that a terminal shows; the JSON and the page have all."""
WIDEST = 40
"""Characters of a value that a terminal shows."""


def comparison_text(found: Comparison, terminal: bool = False, width: int = 120) -> str:
    """Ends in one line feed. terminal: with ruled tables of at most `width` characters."""
    sides = [[letter, one_line(side.name), one_line(side.title)] for letter, side in zip(found.letters, found.sides, strict=True)]
    parts = [table_text(["", "name", "holds"], sides, (0, 1, 2), terminal, width)]
    parts += [_keys(title, rows, found.letters, terminal, width) for title, rows in changed_keys(found)]
    if found.figures:
        parts.append(table_text(["", *_heads(found.letters)], list(_figures(found)), (0,), terminal, width))
    if found.parts:
        head, rows = part_table(found)
        parts.append(table_text(head, rows, (0, 1), terminal, width))
    return "\n".join(parts)


def changed_keys(found: Comparison) -> Iterator[tuple[str, Mapping[str, tuple[str, ...]]]]:
    """Keys that differ, by title: of machines, and of schedules where every side has one."""
    if any(side.machine for side in found.sides):
        yield "machine", found.machine
    if all(side.schedule for side in found.sides):
        yield "schedule", found.schedule


def _keys(title: str, rows: Mapping[str, tuple[str, ...]], letters: Sequence[str], terminal: bool, width: int) -> str:
    if not rows:
        return f"{title}: no difference\n"
    shown = [[one_line(key), *(_short(text) for text in texts)] for key, texts in list(rows.items())[:SHOWN]]
    more = f"and {counted(len(rows) - SHOWN, 'key')} more\n" if len(rows) > SHOWN else ""
    return table_text([title, *letters], shown, range(len(letters) + 1), terminal, width) + more


def _short(text: str) -> str:
    told = one_line(text) or "-"
    return told if len(told) <= WIDEST else f"{told[: WIDEST - 3]}..."


def _heads(letters: Sequence[str]) -> list[str]:
    return [*letters, *_changes(letters)]


def _changes(letters: Sequence[str]) -> list[str]:
    return [f"A to {letter}" for letter in letters[1:]]


def _figures(found: Comparison) -> Iterator[list[str]]:
    for name, row in found.figures.items():
        yield [one_line(name), *(figure_text(each) for each in row), *changes_text([each and each.value for each in row])]


def figure_text(figure: Figure | None) -> str:
    """The value with its unit; a dash where a side does not have it."""
    if figure is None:
        return "-"
    match figure.unit:
        case "yes":
            return "yes" if figure.value else "NO"
        case "B":
            return scaled(figure.value, "B")
        case "":
            return f"{figure.value:,.0f}"
        case "ms":
            return f"{figure.value:.4g} ms"
        case unit:
            return f"{figure.value:,.2f} {unit}"


def changes_text(values: Sequence[float | None]) -> list[str]:
    """`+12.3 %` for each value after the first."""
    return [_change(values[0], other) for other in values[1:]]


def _change(first: float | None, other: float | None) -> str:
    change = None if first is None or other is None else change_percent(first, other)
    return "" if change is None else "=" if change == 0 else f"{change:+.1f} %"


def part_table(found: Comparison) -> tuple[list[str], list[list[str]]]:
    """The head and a row for each operation; columns that no side knows are left out."""
    letters = found.letters
    head = ["operation", "computes", *(f"cycles {letter}" for letter in letters), *_changes(letters)]
    head += [f"{name} {letter}" for name in ("bytes", "% of peak", "dB") for letter in letters]
    rows = [[one_line(name), next(each.computes for each in row if each), *_cells(row)] for name, row in found.parts.items()]
    known = [number for number in range(len(head)) if any(row[number] not in ("", "-") for row in rows)]
    return [head[number] for number in known], [[row[number] for number in known] for row in rows]


def _cells(row: Sequence[Part | None]) -> list[str]:
    """Cycles of each side and their changes; bytes, use and noise of each side."""
    cycles = [each and each.cycles for each in row]
    found = ["-" if value is None else f"{value:,.0f}" for value in cycles] + changes_text(cycles)
    found += [scaled(each.bytes) if each and each.bytes is not None else "-" for each in row]
    found += [f"{each.use:.1f}" if each and each.use is not None else "-" for each in row]
    return found + [f"{each.noise:.1f}" if each and each.noise is not None else "-" for each in row]


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
