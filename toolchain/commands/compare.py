"""`tilewright compare A B ...`: builds, machines or schedules side by side."""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.commands.committed import committed, is_committed
from toolchain.spec.errors import fail

if TYPE_CHECKING:
    from toolchain.report.comparison.compare import Comparison
    from toolchain.report.comparison.side import Side

MOST = 8
"""Sides that a table has room for."""
RESULTS = ("report/report.json", "summary/summary.json")
"""Files of a build's folder that say what it costs; the one that was written last counts."""
_PERCENT = re.compile(r"([0-9]{1,6}(\.[0-9]{1,6})?) ?%?\Z")
_SCHEDULE = re.compile(r"^schedule\s*:", re.MULTILINE)


def compare(arguments: argparse.Namespace) -> None:
    """Prints the comparison, and writes it where asked to.

    Raises UserError E0001, E0330 (files), E0002 (words), E0007 (not comparable), E0008 (worse than allowed), and those of the things compared.
    """
    from toolchain.report.comparison.compare import Comparison, comparison_data
    from toolchain.report.comparison.page import comparison_page
    from toolchain.report.comparison.text import comparison_text
    from toolchain.spec.files import write_atomic

    allowed = None if arguments.fail_above is None else _percent(arguments.fail_above)
    if not 2 <= len(arguments.sides) <= MOST:
        raise fail("E0002", f"{len(arguments.sides)} given, a comparison is of two to {MOST}")
    found = Comparison(tuple(read_side(text) for text in arguments.sides))
    _require_one_kind(found, allowed is not None)
    terminal = sys.stdout.isatty()
    print(comparison_text(found, terminal, shutil.get_terminal_size().columns), end="")
    if arguments.json:
        write_atomic(Path(arguments.json), (json.dumps(comparison_data(found), indent=1) + "\n").encode())
    if arguments.html:
        write_atomic(Path(arguments.html), comparison_page(found).encode())
    if allowed is not None:
        _judge(found, allowed)


def _percent(text: str) -> float:
    match = _PERCENT.match(text.strip())
    if not match:
        raise fail("E0002", f"'{text[:40]}' is no share in per cent", hint="for example --fail-above 1%")
    return float(match[1])


def _require_one_kind(found: "Comparison", judged: bool) -> None:
    """Raises UserError E0007."""
    first, *others = found.sides
    for other in others:
        if other.kind != first.kind:
            raise fail("E0007", f"'{first.name}' is a {first.kind}, '{other.name}' is a {other.kind}", hint="compare things of one kind")
    if judged and not any(figure.judged for figure in first.figures.values()):
        raise fail("E0007", f"'{first.name}' has no figure that could get worse", hint="--fail-above is for builds whose times are known")


def _judge(found: "Comparison", percent: float) -> None:
    """Raises UserError E0008."""
    from toolchain.report.comparison.compare import worsened

    if worse := list(worsened(found, percent)):
        raise fail("E0008", f"{'; '.join(worse)}; allowed are {percent:g} %")


def read_side(text: str) -> "Side":
    """A build's folder, a report, a bundle, a schedule, a machine by its name or file, or such a file of a commit. Raises as `compare`."""
    if is_committed(text):
        with committed(text) as path:
            return _side(path, text)
    return _side(Path(text), text)


def _side(path: Path, text: str) -> "Side":
    """text: the name that the user gave it."""
    from toolchain.report.comparison.report_side import report_side

    if path.is_dir():
        return _folder(path, text)
    if path.suffix == ".json":
        return report_side(path, text, {})
    if path.suffix == ".bundle":
        from toolchain.report.comparison.machine_side import bundle_side

        return bundle_side(path, text)
    if path.suffix in (".yaml", ".yml") and path.is_file() and _is_schedule(path):
        from toolchain.report.comparison.schedule_side import schedule_side

        return schedule_side(path, text)
    return _machine(str(path) if is_committed(text) else text, text)


def _folder(path: Path, text: str) -> "Side":
    """A build's folder, or one of schedules."""
    from toolchain.report.comparison.report_side import report_side
    from toolchain.report.comparison.schedule_side import schedule_keys, schedule_side
    from toolchain.schedule.form.files import read_schedules

    found = [path / name for name in RESULTS if (path / name).is_file()]
    if found:
        folder = path / "schedule"
        schedule = schedule_keys(read_schedules(folder)) if any(folder.glob("*.yaml")) else {}
        return report_side(max(found, key=lambda file: file.stat().st_mtime_ns), text, schedule)
    if any(path.glob("*.yaml")):
        return schedule_side(path, text)
    hint = "a build's folder is build/MACHINE/MODEL, after `tilewright build` or `tilewright report`"
    raise fail("E0007", "this folder holds neither a finished build nor schedules", hint=hint, place=text)


def _is_schedule(path: Path) -> bool:
    from toolchain.spec.load import read_text

    return _SCHEDULE.search(read_text(path)) is not None


def _machine(given: str, text: str) -> "Side":
    from toolchain.isa.check_machine import load_checked_machine
    from toolchain.report.comparison.machine_side import machine_side

    return machine_side(load_checked_machine(given), text)
