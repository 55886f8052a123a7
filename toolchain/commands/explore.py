"""`tilewright explore`: many points of a machine's parameters, and the best among them."""

import argparse
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.spec.errors import UserError, fail, one_line, placed
from toolchain.spec.files import is_file

if TYPE_CHECKING:
    from toolchain.explore.results import StudyResult
    from toolchain.explore.study import Study
    from toolchain.spec.model import Machine

PAGE, SHEET, DATA = "front.html", "points.csv", "points.json"
"""Files beside the study's journal."""


def explore(arguments: argparse.Namespace) -> None:
    """Measures, then prints the front. Raises UserError E0001, E01xx, E0002, E08xx, E1501, E1502, E1503."""
    from toolchain.commands.machine import sign
    from toolchain.explore.results import StudyResult, better_text, result_text
    from toolchain.explore.session import explore as measure_all
    from toolchain.report.tables import counted
    from toolchain.tasks.machines import folder_name
    from toolchain.tasks.plan import ROOT

    study = study_of(arguments)
    folder = Path(arguments.output) if arguments.output else ROOT / "explore" / folder_name(study.machine)
    root = ROOT.absolute()
    with sign("exploring") as status:
        say = status if sys.stderr.isatty() else _plain
        found = measure_all(study, folder, root, lambda text: say(one_line(f"{text} ...")), arguments.workers, arguments.scheduler)
    result = StudyResult(study, found)
    _write(result, folder, root)
    print(result_text(result, sys.stdout.isatty(), shutil.get_terminal_size().columns), end="")
    if result.beaten:
        print(better_text(result))
    if result.left:
        print(f"{counted(result.left, 'point')} left, which other processes measure; the same command has all of them")
    print(f"page {folder / PAGE}, all points {folder / SHEET}, {folder / DATA}")


def _plain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def study_of(arguments: argparse.Namespace) -> "Study":
    """From a file or from options; options go before the file. Raises UserError E0001, E01xx, E0002, E08xx, E1501."""
    from toolchain.explore.results import shipped
    from toolchain.explore.study import Study, axis_of, check_study, read_study
    from toolchain.models.load import load_model
    from toolchain.spec.render import parameters

    if arguments.workers < 1:
        raise fail("E0002", f"--workers is {arguments.workers}, it must be from 1 on")
    path = Path(arguments.study)
    if path.suffix in (".yaml", ".yml") and not path.exists():
        raise fail("E0001", f"there is no study and no machine file '{path}'")
    study = read_study(path) if _is_study(path) else Study(arguments.study, (), ())
    own = tuple(map(axis_of, arguments.vary))
    axes = (*(axis for axis in study.axes if axis.name not in {each.name for each in own}), *own)
    given = {name: _words(text) for name, text in (("models", arguments.models), ("objectives", arguments.objective)) if text}
    numbers = {name: value for name in ("search", "budget", "seed") if (value := getattr(arguments, name)) is not None}
    if arguments.budget is not None and arguments.budget < 1:
        raise fail("E0002", f"--budget is {arguments.budget}, it must be from 1 on")
    study = replace(study, axes=axes, **given, **numbers, verify="no" if arguments.no_verify else arguments.verify or study.verify)
    machines = {given: _machine(given, study) for given in dict.fromkeys((study.machine, *study.machines))}
    check_study(study, [machines[given] for given in study.machines])
    machine = machines[study.machine]
    start = shipped(study, parameters(machine), machine.config)
    study = replace(study, models=study.models or machine.models, start=start)
    for model in study.models:
        load_model(model)  # one that is not there would be a refusal of every point
    return study


def _machine(given: str, study: "Study") -> "Machine":
    """Raises UserError of a machine that does not load; a diagnostic without a place gets that of the axis."""
    from toolchain.isa.check_machine import load_checked_machine

    span = next((axis.span for axis in study.axes if axis.name == "machine"), None) if given != study.machine else study.span
    try:
        return load_checked_machine(given)
    except UserError as error:
        raise placed(error, span) from None


def _is_study(path: Path) -> bool:
    """Whether a YAML file is a study, and no machine."""
    from toolchain.spec.load import read_text

    return path.suffix in (".yaml", ".yml") and is_file(path) and any(line.startswith("explore:") for line in read_text(path).splitlines())


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, text.split(","))))


def _write(result: "StudyResult", folder: Path, root: Path) -> None:
    import json

    from toolchain.explore.results import result_data, result_sheet, study_page
    from toolchain.spec.files import write_atomic

    write_atomic(folder / SHEET, result_sheet(result).encode())
    write_atomic(folder / DATA, (json.dumps(result_data(result), indent=1) + "\n").encode())
    write_atomic(folder / PAGE, study_page(result, folder.absolute(), root).encode())
