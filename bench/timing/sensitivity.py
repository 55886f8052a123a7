"""How much a program's time rests on each constant of the timing section: every one halved and doubled.

python bench/timing/sensitivity.py MACHINE PROGRAM...
"""

import re
import sys
from pathlib import Path

from toolchain.analysis.checks import prepare_program
from toolchain.analysis.state import new_state
from toolchain.isa.program_file import load_program
from toolchain.spec.load import find_target, load_text
from toolchain.timing.simulate import time_program
from toolchain.timing.table import table


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
    path = find_target(target)
    text = path.read_text()
    rows = [["as declared", "", *(f"{milliseconds(text, path, Path(p)):.3f}" for p in programs)]]
    for constant in load_text(text, str(path)).timing.constants:
        for value in (constant.value // 2, constant.value * 2):
            changed = with_constant(text, constant.name, value)
            rows.append([constant.name, str(value), *(f"{milliseconds(changed, path, Path(p)):.3f}" for p in programs)])
    print("\n".join(table(["constant", "value", *(f"{Path(p).stem} ms" for p in programs)], rows, left=(0,))))


if __name__ == "__main__":
    main(*sys.argv[1:])
