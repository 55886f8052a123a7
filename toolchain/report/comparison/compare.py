"""Differences between the first side and each of the others."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from toolchain.report.comparison.sides import EXACT, MORE, NEITHER, Figure, Part, Side
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
    def parts(self) -> dict[str, tuple[Part | None, ...]]:
        """Operations by name, in the order of the first side, then those that it lacks; a name that stands twice counts from 2 on."""
        found = [dict(_numbered(side.parts)) for side in self.sides]
        return {name: tuple(parts.get(name) for parts in found) for name in dict.fromkeys(name for parts in found for name in parts)}


def _differing(found: Sequence[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    rows = {key: tuple(texts.get(key, "") for texts in found) for key in dict.fromkeys(key for texts in found for key in texts)}
    return {key: row for key, row in rows.items() if len(set(row)) > 1}


def _numbered(parts: Sequence[Part]) -> Iterator[tuple[str, Part]]:
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

    def rows(table: Mapping[str, Sequence[Figure | Part | None]]) -> dict[str, Tree]:
        return {name: [None if each is None else asdict(each) for each in row] for name, row in table.items()}

    return {
        "sides": [{"name": side.name, "kind": side.kind, "title": side.title} for side in found.sides],
        "machine": {**found.machine},
        "schedule": {**found.schedule},
        "figures": rows(found.figures),
        "operations": rows(found.parts),
    }
