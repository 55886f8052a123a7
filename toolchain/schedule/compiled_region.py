"""A region of a model as one program: its instructions, the operation that each belongs to, and the contents of DRAM."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from toolchain.abi.dram_map import DramMap
from toolchain.abi.origins import Origins
from toolchain.analysis.checks import Checked
from toolchain.analysis.state import State
from toolchain.isa.program import Ints, Program
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.regions.region import Region
from toolchain.schedule.serial_order import serial_order
from toolchain.spec.arrays import Array
from toolchain.timing.simulate import Timeline


@dataclass(frozen=True)
class CompiledRegion:
    """schedule: the one that the program follows. program: synchronised. listing: the purpose of each instruction, for a reader; empty for one that
    only passes tokens.

    origins: the operation and step that each instruction belongs to. constants: bytes by segment.
    peak: elements of each bank of each on-chip memory that are used, at most.
    """

    region: Region
    schedule: Schedule
    program: Program
    listing: tuple[str, ...]
    origins: Origins
    map: DramMap
    constants: Mapping[str, bytes]
    checked: Checked
    timeline: Timeline
    peak: Mapping[str, int]

    @cached_property
    def order(self) -> Ints:
        """int64 [n], an order in which instructions could run one by one. It is that in which the schedule has the operations, so executed in it, an
        operation is done after the last instruction that is its own: until another one takes the room of its result, the result can be read then."""
        return serial_order(self.program, self.origins, self.schedule)

    @property
    def owner(self) -> Ints:
        """int64 [n], the operation (index in region.operations) that each instruction belongs to, -1 for none."""
        return self.origins.operation

    @property
    def cycles(self) -> float:
        return self.timeline.cycles

    def state(self, inputs: Mapping[str, Array]) -> State:
        """A new state with everything in DRAM that the program reads; inputs: host tensors [batch, channels, height, width] by name."""
        state = self.map.state(self.program.machine, self.constants)
        self.map.write(self.program.machine, state, inputs)
        return state

    def result(self, state: State, tensor: str) -> Array:
        """A host tensor [batch, channels, height, width] out of a state."""
        return self.map.read(self.program.machine, state, tensor)
