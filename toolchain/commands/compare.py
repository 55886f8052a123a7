"""`tilewright compare A B ...`: builds, machines or schedules side by side, also files as a commit of git has them, written `COMMIT:PATH`."""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.spec.errors import Diagnostic, UserError, fail
from toolchain.spec.yaml_nodes import MAX_BYTES

if TYPE_CHECKING:
    from toolchain.report.compared_sides import Side
    from toolchain.report.comparison import Comparison


FORM = re.compile(r"(?P<commit>[^:-][^:]*):(?P<path>.+\.(yaml|yml|json))\Z", re.DOTALL)
MOST_BYTES = 16 * MAX_BYTES
"""The most bytes of a file; reports are longer than descriptions."""

MOST = 8
"""Sides that a table has room for."""
RESULTS = ("report/report.json", "summary/summary.json")
"""Files of a build's folder that state its costs; the one that was written last counts."""
_PERCENT = re.compile(r"([0-9]{1,6}(\.[0-9]{1,6})?) ?%?\Z")
_SCHEDULE = re.compile(r"^schedule\s*:", re.MULTILINE)


def is_committed(text: str) -> bool:
    """Whether it has the form, and is no file itself."""
    return FORM.match(text) is not None and not Path(text).exists()


@contextmanager
def committed(text: str) -> Generator[Path]:
    """The file for as long as it is read; mistakes in it are told with `text` as its name.

    Raises UserError E0001 where git has no such file there, or is not installed, E0330 for a file that is too long.
    """
    match = FORM.match(text)
    assert match
    name = f"{match['commit']}:./{match['path']}"  # from this folder, not from the repository's
    size = _git("-s", name, text)
    if int(size) > MOST_BYTES:
        raise fail("E0330", f"the file has {int(size):,} bytes, at most {MOST_BYTES:,} are read", place=text)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path = Path(folder) / Path(match["path"]).name
        path.write_bytes(_git("blob", name, text))
        try:
            yield path
        except UserError as error:
            raise UserError(*(_named(each, str(path), text) for each in error.diagnostics)) from None


def _git(kind: str, name: str, text: str) -> bytes:
    git = shutil.which("git")
    if git is None:
        raise fail("E0001", "git is not installed, so there are no commits", place=text)
    run = subprocess.run([git, "cat-file", kind, name], capture_output=True, check=False)
    if run.returncode:
        raise fail("E0001", "git has no such file at this commit", hint="COMMIT:PATH, the path from this folder", place=text)
    return run.stdout


def _named(found: Diagnostic, path: str, text: str) -> Diagnostic:
    """With the user's name of the file."""
    if found.span and found.span.source.path == path:
        return replace(found, span=replace(found.span, source=replace(found.span.source, path=text)))
    return replace(found, place=found.place.replace(path, text))


def compare(arguments: argparse.Namespace) -> None:
    """Prints the comparison, and writes it where asked to.

    Raises UserError E0001, E0330 (files), E0002 (words), E0007 (not comparable), E0008 (worse than allowed), and those of the things compared.
    """
    from toolchain.report.comparison import Comparison, comparison_data, comparison_page, comparison_text
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
    models = dict.fromkeys(side.model for side in found.sides)
    if judged and len(models) > 1:
        raise fail("E0007", f"the builds are of different models: {', '.join(models)}", hint="--fail-above is for builds of one model")
    if judged and not any(figure.judged for figure in first.figures.values()):
        raise fail("E0007", f"'{first.name}' has no figure that could get worse", hint="--fail-above is for builds whose times are known")


def _judge(found: "Comparison", percent: float) -> None:
    """Raises UserError E0008."""
    from toolchain.report.comparison import worsened

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
    from toolchain.report.compared_sides import report_side

    if path.is_dir():
        return _folder(path, text)
    if path.suffix == ".json":
        return report_side(path, text, {})
    if path.suffix == ".bundle":
        from toolchain.report.compared_sides import bundle_side

        return bundle_side(path, text)
    if path.suffix in (".yaml", ".yml") and path.is_file() and _is_schedule(path):
        from toolchain.report.compared_sides import schedule_side

        return schedule_side(path, text)
    if "/" in text and not path.exists() and not Path(text.partition(":")[0]).exists():  # a configuration may follow a machine's path
        hint = "give a build's folder, a report, a bundle, a schedule, or a machine's name or file"
        raise fail("E0001", f"there is no '{text[:200]}'", hint=hint)
    return _machine(str(path) if is_committed(text) else text, text)


def _folder(path: Path, text: str) -> "Side":
    """A build's folder, or one of schedules."""
    from toolchain.report.compared_sides import report_side, schedule_keys, schedule_side
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
    from toolchain.report.compared_sides import machine_side

    return machine_side(load_checked_machine(given), text)
