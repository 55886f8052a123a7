"""Prices of groups: the cycles of some operations as a region of their own, by an oracle.

Xing et al. (2019), section 5.1, price a group by running it, by a model, or by a simulator; these are `exact`, `analytic` and `estimate` here.
Another is learnt from exact prices (learned.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from types import MappingProxyType

from toolchain.schedule.bank_choice import has_ports
from toolchain.schedule.planner import Planner
from toolchain.schedule.regions.region import Region, part_of_region
from toolchain.schedule.search.draft import Draft, Space
from toolchain.schedule.tiling.tile_group import TileGroup
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine

Key = tuple[object, ...]


def estimate(planner: Planner) -> float:
    """Cycles by the closed form of the tile search: those of each group, and of each operation alone."""
    found = untimed(planner).first()
    return sum(tiling.estimate for _, tiling in found.alone) + sum(proposal.cycles for proposal in found.chosen)


def exact(planner: Planner) -> float:
    """Cycles of the program by event simulation."""
    found = planner.first()
    now = planner.timed(found.plan)
    return planner.banks_apart(found, now)[1].cycles if has_ports(planner.machine) else now.cycles


def analytic(planner: Planner) -> float:
    """Cycles at the roofline: multiply-accumulates at peak, or the transfers through DRAM at the rate of its ports, whichever takes longer.

    Xing et al. (2019), equations 1 to 10, without halos: each tensor that enters or leaves the group moves once, as do weights and sums.
    0 for a machine whose file states neither a peak nor a port."""
    return max(compute_cycles(planner.machine, planner.region), dram_cycles(planner.machine, planner.region))


def compute_cycles(machine: Machine, region: Region) -> float:
    """Cycles of the multiply-accumulates at the machine's peak; 0 without one."""
    macs = sum(bound.operation.macs for bound in region.operations)
    return macs / machine.timing.peak_macs if machine.timing.peak_macs else 0.0


def dram_cycles(machine: Machine, region: Region) -> float:
    """Cycles in which all ports move the region's inputs, outputs and constants once; 0 without ports."""
    moved = sum(prod(region.tensors[name]) for name in (*region.inputs, *region.outputs))
    moved += sum(array.nbytes for bound in region.operations for array in bound.operation.arrays.values())
    rate = sum(port.bytes_per_cycle / port.per for port in machine.timing.resources)
    return moved / rate if rate else 0.0


ORACLES: Mapping[str, Callable[[Planner], float]] = MappingProxyType({"estimate": estimate, "exact": exact, "analytic": analytic})


@dataclass(frozen=True)
class Prices:
    """Cycles of sets of a region's operations. known: by set, and by the facts that decide them: blocks of a network repeat."""

    space: Space
    oracle: Callable[[Planner], float] = estimate
    known: dict[Key, float | None] = field(default_factory=dict[Key, "float | None"])

    def of(self, members: Sequence[int]) -> float | None:
        """members: in the region's order. None where they cannot be a region of their own."""
        own = tuple(members)
        if own not in self.known:
            part = part_of_region(self.space.region, own)
            key = self._facts(own, part)
            if key not in self.known:
                self.known[key] = self._priced(part)
            self.known[own] = self.known[key]
        return self.known[own]

    def saved_bytes(self, members: Sequence[int]) -> int:
        """Bytes of stored tensors that stay on chip between the members, each counted once for its store and once for every load."""
        plan = untimed(self.planner(members)).first().plan
        found = 0
        for name, candidate in plan.residents.candidates.items():
            if candidate.writes:
                found += prod(plan.region.tensors[name]) * (len(candidate.reads) + (not candidate.stored))
        hidden = {name for group in plan.groups.values() if isinstance(group, TileGroup) for name in group.hidden}
        return found + sum(2 * prod(plan.region.tensors[name]) for name in hidden)

    def key(self, members: tuple[int, ...]) -> Key:
        """The facts that decide the program of a group: equal groups of a network have one."""
        return self._facts(members, part_of_region(self.space.region, members))

    def _priced(self, part: Region) -> float | None:
        try:
            return self.oracle(self._planner(part))
        except UserError:
            return None

    def planner(self, members: Sequence[int]) -> Planner:
        """A planner of some operations as a region, in the region's order."""
        return self._planner(part_of_region(self.space.region, members))

    def _planner(self, part: Region) -> Planner:
        return replace(self.space, region=part).planner(Draft(tuple(range(len(part.operations)))))

    def _facts(self, members: Sequence[int], part: Region) -> Key:
        """The facts that decide tiles, the tensors that operations have in common, and whether others read them."""
        names: dict[str, int] = {}
        found: list[Key] = []
        for index, bound in zip(members, part.operations, strict=True):
            hands = tuple((place, names.setdefault(tensor, len(names)), tensor in part.outputs) for place, tensor in bound.tensors.items())
            found.append((self.space.clock.choice.key(self.space.problems[index]), hands))
        slices = tuple((names.setdefault(n, len(names)), names.setdefault(s.parent, len(names)), s.channel, s.view) for n, s in part.slices.items())
        return (*found, slices)


def untimed(planner: Planner) -> Planner:
    """The planner that chooses groups by estimates."""
    return replace(planner, options=replace(planner.options, timed_groups=False))
