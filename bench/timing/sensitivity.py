"""How much a program's time rests on each constant of the timing section: every one halved and doubled.

Usage: bench/timing/sensitivity.py MACHINE PROGRAM...   MACHINE: a name or a file; PROGRAM: as `tilewright emulate` takes it.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from toolchain.analysis.checks import prepare_program  # noqa: E402
from toolchain.analysis.state import new_state  # noqa: E402
from toolchain.isa.program_file import load_program  # noqa: E402
from toolchain.spec.errors import UserError  # noqa: E402
from toolchain.spec.load import find_target, load_text  # noqa: E402
from toolchain.timing.simulate import time_program  # noqa: E402
from toolchain.timing.usage import table  # noqa: E402


def milliseconds(text: str, path: Path, program: Path) -> float:
    machine = load_text(text, str(path))
    code = load_program(machine, program)
    ready = prepare_program(code, new_state(machine))
    return time_program(code, ready.footprints, ready.provenance, ready.tokens).milliseconds


def with_constant(text: str, name: str, value: int) -> str:
    changed, count = re.subn(rf"(?m)^(    {name}: \{{value: )\d+", rf"\g<1>{value}", text)
    assert count == 1, name
    return changed


def main(target: str, *programs: str) -> None:
    """Prints the table. A constant that the file writes in another form than `NAME: {value: NUMBER, ...}` is refused."""
    path = find_target(target)
    text = path.read_text()
    rows = [["as declared", "", *(f"{milliseconds(text, path, Path(p)):.3f}" for p in programs)]]
    for constant in load_text(text, str(path)).timing.constants:
        for value in (constant.value // 2, constant.value * 2):
            changed = with_constant(text, constant.name, value)
            rows.append([constant.name, str(value), *(f"{milliseconds(changed, path, Path(p)):.3f}" for p in programs)])
    print("\n".join(table(["constant", "value", *(f"{Path(p).stem} ms" for p in programs)], rows, left=(0,))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine", metavar="MACHINE")
    parser.add_argument("programs", metavar="PROGRAM", nargs="+")
    given = parser.parse_args()
    try:
        main(given.machine, *given.programs)
    except UserError as error:
        sys.exit(str(error))
