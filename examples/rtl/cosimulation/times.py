"""When instructions start in hardware, beside the machine's cycle model."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cosimulation.verilator import Run
from toolchain.isa.program import Ints
from toolchain.timing.simulate import Timeline


@dataclass(frozen=True)
class Beside:
    """cycles: of the hardware; modelled: of the model. late: by unit, how many cycles after the model's each instruction starts."""

    cycles: int
    modelled: int
    late: Mapping[str, Ints]

    @property
    def ratio(self) -> float:
        return self.cycles / self.modelled


def beside(run: Run, timeline: Timeline) -> Beside:
    """Raises ValueError where the hardware did not start all instructions, or others."""
    program = timeline.program
    late: dict[str, Ints] = {}
    for number, unit in enumerate(program.machine.units):
        modelled, found = timeline.result.start[program.unit == number], np.array(run.starts[unit.name], np.int64)
        if len(found) != len(modelled):
            raise ValueError(f"the hardware started {len(found)} instructions of unit {unit.name}, the program has {len(modelled)}")
        late[unit.name] = found - modelled.astype(np.int64)
    return Beside(run.cycles, int(timeline.cycles), late)


def profile(region: str, run: Run, timeline: Timeline) -> str:
    """The starts as a table that `tilewright profile` reads. Units start their instructions in the order of the program."""
    program = timeline.program
    rows = [
        f"{region},{index},{start}"
        for number, unit in enumerate(program.machine.units)
        for index, start in zip(np.flatnonzero(program.unit == number).tolist(), run.starts[unit.name], strict=True)
    ]
    return "\n".join(["region,instruction,start_cycles", *rows]) + "\n"
