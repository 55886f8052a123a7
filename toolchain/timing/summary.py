"""A timed program in a page of text, or as data for JSON.

A table as aligned plain text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import cast

from toolchain.timing.simulate import Timeline
from toolchain.timing.usage import Summary, summarise


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> list[str]:
    """Lines of text. Columns are aligned to the right, those numbered in `left` to the left."""
    widths = [max(len(line[k]) for line in (head, *rows)) for k in range(len(head))]
    return ["  ".join(cell.ljust(w) if k in left else cell.rjust(w) for k, (cell, w) in enumerate(zip(line, widths, strict=True))).rstrip()
            for line in (head, *rows)]  # fmt: skip


def summary_data(timeline: Timeline) -> dict[str, object]:
    """The summary as JSON holds it; whole numbers of cycles are integers."""
    return {key: _plain(value) for key, value in asdict(summarise(timeline)).items()}


def _plain(value: object) -> object:
    match value:
        case float():
            return int(value) if value.is_integer() else round(value, 6)
        case dict():
            return {key: _plain(item) for key, item in cast(dict[str, object], value).items()}
        case tuple():
            return [_plain(item) for item in cast(tuple[object, ...], value)]
        case _:
            return value


def summary_text(timeline: Timeline) -> str:
    """A page of plain text."""
    s = summarise(timeline)
    reached = f", which the program reaches to {100 * s.bound_cycles / s.cycles:.1f} %" if s.cycles else ""
    critical = ", ".join(f"{name} {cycles:.0f}" for name, cycles in s.critical.items())
    parts = [
        f"{s.machine}:{s.config}" if s.config else s.machine,
        f"{s.instructions} instructions, {s.cycles:.0f} cycles, {s.ms:.3f} ms at {s.clock_khz / 1000:g} MHz",
        f"bound: {s.bound_by} is busy {s.bound_cycles:.0f} cycles{reached}",
        f"critical path (cycles): {critical or 'empty'}",
        "", *_unit_table(s), "", *_memory_table(s), "", *_resource_table(s), *_basis(s),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _unit_table(s: Summary) -> list[str]:
    rows: list[list[str]] = []
    for u in s.units:
        whole = s.cycles * u.instances or 1.0
        shares = [f"{100 * part / whole:.1f}" for part in (u.busy, u.contended, u.held, u.waiting, u.done)]
        longest = ", ".join(f"{name} {cycles:.0f}" for name, cycles in list(u.waits.items())[:3])
        rows.append([f"{u.name} x {u.instances}" if u.instances > 1 else u.name, str(u.instructions), f"{u.busy:.0f}", *shares, longest])
    head = ["unit", "instructions", "busy cycles", "busy %", "shared %", "full %", "waiting %", "done %", "waits for (cycles)"]
    return table(head, rows, left=(0, 8))


def _memory_table(s: Summary) -> list[str]:
    rows = [[m.name, str(m.read_bytes), str(m.written_bytes), *(f"{b / (s.ms * 1e6):.2f}" if s.ms else "-" for b in (m.read_bytes, m.written_bytes))]
            for m in s.memories]  # fmt: skip
    return table(["memory", "read bytes", "written bytes", "read GB/s", "written GB/s"], rows, left=(0,))


def _resource_table(s: Summary) -> list[str]:
    rows = [[f"{r.name} x {r.instances}" if r.instances > 1 else r.name, str(r.bytes), f"{r.capacity_percent:.1f}"] for r in s.resources]
    return [*table(["resource", "bytes", "of capacity %"], rows, left=(0,)), ""] if rows else []


def _basis(s: Summary) -> Iterator[str]:
    assumed = [b for b in s.constants if b.assumed]
    yield f"rests on {len(s.constants)} numbers of the machine file, {len(assumed)} of them assumed"
    for basis in assumed:
        value = "" if basis.value is None else f" = {basis.value}"
        yield f"  assumed {basis.name}{value}: {basis.source}"
