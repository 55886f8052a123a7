"""Find neighbouring operations that could share a loop of tiles: their kernels take a tile as another one leaves it on chip."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from toolchain.isa.footprint.loop_nest import pipelined_steps
from toolchain.schedule.compile_operation import Key as ProblemKey
from toolchain.schedule.compile_operation import TileChoice
from toolchain.schedule.form.plan import Plan
from toolchain.schedule.fusion.tile_group import Pass, TileGroup, make_tile_group
from toolchain.schedule.fusion.tile_search import Tiled, search_tiles
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.problem import Problem, keep_on_chip
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine

Key = tuple[tuple[ProblemKey, ...], tuple[Pass, ...]]
LONGEST = 8
"""Operations of a group."""


@dataclass(frozen=True)
class TileGroups:
    """kernels: of the machine. plan: of operations one by one. choice: of its tiles. found: tiles of groups by the facts that decide them."""

    machine: Machine
    kernels: Mapping[str, Kernel]
    plan: Plan
    choice: TileChoice
    found: dict[Key, Tiled | None] = field(default_factory=dict[Key, "Tiled | None"])

    def proposals(self) -> Iterator[tuple[TileGroup, Tiled]]:
        """Every group whose tiles fit. None where pipelines have rules: no order of several operations' instructions is checked against those."""
        if pipelined_steps(self.machine):
            return
        takers = {kernel.computes for kernel in self.kernels.values() if kernel.passed}
        for last in (index for index, bound in enumerate(self.plan.region.operations) if bound.operation.kind.name in takers):
            for members in (range(first, last + 1) for first in range(last - 1, max(last - LONGEST, -1), -1)):
                problems = self._problems(members)
                if problems is None:
                    break
                group = make_tile_group(self.plan.region, members, problems)
                if isinstance(group, TileGroup) and (found := self._tiles(group)) is not None:
                    yield group, found

    def _tiles(self, group: TileGroup) -> Tiled | None:
        """Groups of the same operations, each storing its result or not, share one search."""
        key = tuple(self.choice.key(problem) for problem in group.problems), tuple(group.passes)
        if key not in self.found:
            self.found[key] = search_tiles(group, self.choice.contexts)
        return self.found[key]

    def _problems(self, operations: range) -> list[Problem] | None:
        """Each for a kernel that takes the others' results, with the same room; None where there is none, or where tensors stay on chip."""
        found: list[Problem] = []
        for index in operations:
            own, bound = self.plan.problems[index], self.plan.region.operations[index]
            made = {self.plan.region.operations[other].tensors["y"] for other in operations if other < index}
            passed = [name for name, tensor in bound.tensors.items() if name != "y" and tensor in made]
            if own.kept or own.pools != self.plan.problems[operations[0]].pools:
                return None
            if passed:
                try:
                    own = choose_kernel(self.machine, self.kernels, bound.operation, self.plan.region.alone(bound), passed)
                except UserError:
                    return None
                own = keep_on_chip(own, {}, True, self.plan.problems[index].pools)
            found.append(own)
        return found
