"""Differences between the first of several sides and each of the others: as data, for a terminal, and as one self-contained page of HTML."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from toolchain.report.compared_sides import EXACT, MORE, NEITHER, ComparedPart, Figure, Side
from toolchain.report.tables import counted, html_environment, scaled, table_text
from toolchain.spec.errors import one_line
from toolchain.spec.typed_json import Tree

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of sides in tables; there are no more sides than letters."""


@dataclass(frozen=True)
class Comparison:
    """sides: the first is the one that others are held against."""

    sides: tuple[Side, ...]

    @property
    def letters(self) -> tuple[str, ...]:
        return tuple(LETTERS[: len(self.sides)])

    @property
    def machine(self) -> dict[str, tuple[str, ...]]:
        """Keys of the machine whose texts are not the same everywhere; empty text where a side lacks the key."""
        return _differing([side.machine for side in self.sides])

    @property
    def schedule(self) -> dict[str, tuple[str, ...]]:
        """The same of schedules, as far as every side has one."""
        found = [side.schedule for side in self.sides]
        return _differing(found) if all(found) else {}

    @property
    def figures(self) -> dict[str, tuple[Figure | None, ...]]:
        names = dict.fromkeys(name for side in self.sides for name in side.figures)
        return {name: tuple(side.figures.get(name) for side in self.sides) for name in names}

    @property
    def parts(self) -> dict[str, tuple[ComparedPart | None, ...]]:
        """Operations by name, in the order of the first side, then those that it lacks; a name that stands twice counts from 2 on."""
        found = [dict(_numbered(side.parts)) for side in self.sides]
        return {name: tuple(parts.get(name) for parts in found) for name in dict.fromkeys(name for parts in found for name in parts)}


def _differing(found: Sequence[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    rows = {key: tuple(texts.get(key, "") for texts in found) for key in dict.fromkeys(key for texts in found for key in texts)}
    return {key: row for key, row in rows.items() if len(set(row)) > 1}


def _numbered(parts: Sequence[ComparedPart]) -> Iterator[tuple[str, ComparedPart]]:
    seen: dict[str, int] = {}
    for part in parts:
        seen[part.name] = seen.get(part.name, 0) + 1
        yield part.name if seen[part.name] == 1 else f"{part.name} ({seen[part.name]})", part


def change_percent(first: float, other: float) -> float | None:
    """From the first to the other in per cent of the first; None where the first is zero and the other is not."""
    if first == other:
        return 0.0
    return 100 * (other - first) / abs(first) if first else None


def worsened(found: Comparison, percent: float) -> Iterator[str]:
    """A sentence for each judged figure of a later side that is worse than the first side's by more than so many per cent of it, or is missing, and
    for each later side that is not exact."""
    for name, (first, *others) in found.figures.items():
        for letter, other in zip(found.letters[1:], others, strict=True):
            if first is None and name == EXACT and other is not None and not other.value:
                yield f"{letter} is not exact"
            if first is None or not first.judged or first.better == NEITHER:
                continue
            if other is None:
                yield f"{letter} says nothing of '{name}'"
            elif worse := _worse(first, other, percent):
                yield f"'{name}' is {worse} in {letter} than in A"


def _worse(first: Figure, other: Figure, percent: float) -> str:
    """By how much it is worse; empty where that is allowed."""
    change = change_percent(first.value, other.value)
    if change is None:
        return "worse" if (other.value > first.value) != (first.better == MORE) else ""
    loss = -change if first.better == MORE else change
    return f"{loss:,.0f} % worse" if loss > max(percent, 100) else f"{loss:.3g} % worse" if loss > percent else ""


def comparison_data(found: Comparison) -> dict[str, Tree]:
    """The comparison as JSON holds it, values of the sides in their order."""

    def rows(table: Mapping[str, Sequence[Figure | ComparedPart | None]]) -> dict[str, Tree]:
        return {name: [None if each is None else asdict(each) for each in row] for name, row in table.items()}

    return {
        "sides": [{"name": side.name, "kind": side.kind, "title": side.title} for side in found.sides],
        "machine": {**found.machine},
        "schedule": {**found.schedule},
        "figures": rows(found.figures),
        "operations": rows(found.parts),
    }


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


def _cells(row: Sequence[ComparedPart | None]) -> list[str]:
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
