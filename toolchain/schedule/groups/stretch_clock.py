"""The exact time of a stretch of a region, by the event simulation of its own program."""

import math
from dataclasses import dataclass, field

from toolchain.schedule.form.plan import Plan
from toolchain.schedule.fusion.tile_group import TileGroup
from toolchain.schedule.program import ordered_steps, time_emitted, turned, write_program
from toolchain.schedule.rows.row_group import RowGroup
from toolchain.schedule.tile_choice import TileChoice
from toolchain.schedule.tiling.ring import find_rings
from toolchain.spec.model import Machine

Key = tuple[object, ...]


@dataclass(frozen=True)
class StretchClock:
    """choice: of tiles, which knows the numbers of an operation that its instructions name. known: cycles of stretches that were timed; one that does
    the same on the same tiles takes as long."""

    machine: Machine
    choice: TileChoice
    known: dict[Key, float] = field(default_factory=dict[Key, float])

    def work(self, plan: Plan, stretch: range) -> int:
        """Tiles that have to be written down to time it; none for a stretch whose time is known."""
        part = plan.part(stretch)
        return 0 if self._key(part) in self.known else tiles_of(part)

    def cycles(self, plan: Plan, stretch: range) -> float:
        """stretch: whole groups of the plan."""
        key = self._key(plan.part(stretch))
        if key not in self.known:
            part = turned(plan).part(stretch)
            placed, emitted = write_program(self.machine, part, ordered_steps(part, find_rings(plan.problems)))
            self.known[key] = time_emitted(self.machine, placed, emitted).cycles
        return self.known[key]

    def _key(self, part: Plan) -> Key:
        """The facts that decide its time: every operation with its tiles, and which of them hands which tensor to which; not where they stand in
        DRAM."""
        tensors: dict[str, int] = {}
        found: list[Key] = []
        for problem, tiling, bound in zip(part.problems, part.tilings, part.region.operations, strict=True):
            own = {place: part.dram.places[name][0] for place, name in bound.tensors.items()}
            hands = tuple((place, tensors.setdefault(name, len(tensors)), name in part.dram.buffers) for place, name in own.items())
            kept = tuple((place, each.slot, each.size, each.again) for place, each in problem.kept.items())
            rooms = tuple((name, room, tiling.places[name]) for name, room in tiling.room.items())
            found.append((self.choice.key(problem), hands, kept, tuple(tiling.sizes.items()), tiling.order, rooms))
        return (*found, *((members, _group(group)) for members, group in part.runs()))


def tiles_of(plan: Plan) -> int:
    """Tiles of all operations."""
    pairs = zip(plan.problems, plan.tilings, strict=True)
    return sum(math.prod(-(-extent // tiling.sizes[name]) for name, extent in problem.extents.items()) for problem, tiling in pairs)


def _group(group: RowGroup | TileGroup | None) -> Key:
    if isinstance(group, RowGroup):
        loads = tuple((load.member, load.place, load.size) for load in group.loads)
        return *loads, *((turn.member, turn.slab) for turn in group.turns)
    return (group is not None,)
