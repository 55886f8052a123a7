"""From an operation to the fastest program that the search finds for it."""

from dataclasses import dataclass

import numpy as np

from toolchain.emulator.checks import Checked, prepare_program
from toolchain.schedule.emit import Compiled, emit, pack_tensors
from toolchain.schedule.kernel import Kernel
from toolchain.schedule.operations.operation import Operation
from toolchain.schedule.order import order_steps
from toolchain.schedule.problem import state_problem
from toolchain.schedule.tiles import Tiling, rank_tilings
from toolchain.spec.model import Machine
from toolchain.timing.simulate import Timeline, time_program


@dataclass(frozen=True)
class Choice:
    """A compiled operation. tried: every tiling that was timed, with its cycles, the chosen one's being the fewest."""

    compiled: Compiled
    tiling: Tiling
    timeline: Timeline
    checked: Checked
    tried: tuple[tuple[Tiling, float], ...]

    @property
    def cycles(self) -> float:
        return self.timeline.cycles


def compile_operation(machine: Machine, kernel: Kernel, operation: Operation, contexts: int = 2, timed: int = 6) -> Choice:
    """Times the `timed` best tilings exactly and keeps the quickest, of equals the first. contexts: slots of each place, at least.

    Raises UserError E1003 where the kernel cannot do the operation, E1004 where no tile fits.
    """
    problem = state_problem(machine, kernel, operation)
    tensors = pack_tensors(problem)
    found: list[tuple[Tiling, Compiled, Checked, Timeline]] = []
    for tiling in rank_tilings(problem, contexts, timed):
        compiled = emit(problem, order_steps(problem, tiling), tensors)
        checked = prepare_program(compiled.program, compiled.state())
        found.append((tiling, compiled, checked, time_program(compiled.program, checked.footprints, checked.provenance, checked.tokens)))
    best = int(np.argmin([item[3].cycles for item in found]))
    tiling, compiled, checked, timeline = found[best]
    return Choice(compiled, tiling, timeline, checked, tuple((t, line.cycles) for t, _, _, line in found))
