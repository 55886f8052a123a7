"""Times everything that stands before a run: footprints, hazards and the cycle model, on the programs of bench/workloads.py.

python bench/checks.py    with TILEWRIGHT_DPUV3_STREAMS for the vendor's programs, with TILEWRIGHT_CC=none for numpy alone
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.workloads import Workload, resnet18_c2, tinies, vendor
from toolchain.analysis.checks import check_program
from toolchain.spec.compile import compiler
from toolchain.timing.simulate import time_program

REPEATS = 5


def best(work: Callable[[], object]) -> float:
    """Seconds of CPU of the quickest of some repeats."""
    seconds: list[float] = []
    for _ in range(REPEATS):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def workloads() -> Iterator[Workload]:
    yield resnet18_c2()
    if folder := os.environ.get("TILEWRIGHT_DPUV3_STREAMS", ""):
        for name in ("conv1_pool1_fused", "resnet50_compiled_plain", "resnet50_hand"):
            yield vendor(Path(folder), name)
    yield from tinies()


def main() -> None:
    print(f"compiler: {compiler() or 'none'}; best of {REPEATS}\n{'program':40} {'checks ms':>10} {'timing ms':>10} {'k instructions/s':>17}")
    for load in workloads():
        filled = [m.name for m in load.program.machine.memories]
        checked = check_program(load.program, load.state, filled)
        checks = best(lambda load=load, filled=filled: check_program(load.program, load.state, filled))
        timing = best(lambda load=load, checked=checked: time_program(load.program, checked.footprints, checked.provenance))
        print(f"{load.name:40} {1e3 * checks:10.1f} {1e3 * timing:10.1f} {len(load.program) / (checks + timing) / 1e3:17.0f}")


if __name__ == "__main__":
    main()
