"""Which operation computes an integer call: the first way to compute it that the machine takes and a kernel can do."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from toolchain.operations.library import Kinds, kinds_of
from toolchain.operations.operation import Operation
from toolchain.schedule.choice import choose_kernel
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.regions.lowering import Lowered, lower
from toolchain.schedule.tiling.tiles import crowded, tile_fits
from toolchain.spec.checks.scope import Scope, problems
from toolchain.spec.errors import Diagnostic, UserError, fail
from toolchain.spec.evaluate import constant
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.suggest import nearest

Key = tuple[str, tuple[tuple[str, int], ...]]


def images_per_run(machine: Machine) -> int:
    """How many images one run of a program takes: the instances of all levels that run in lockstep."""
    return math.prod(level.count for level in machine.levels if level.lockstep)


@dataclass(frozen=True)
class Selection:
    """Chooses operations for one machine; answers are remembered by the operation's numbers.

    Raises UserError E0107 and E0121 where section `operators` names what operations do not have.
    """

    machine: Machine
    kernels: Mapping[str, Kernel]
    _fits: dict[Key, bool] = field(default_factory=dict[Key, bool], compare=False, repr=False)

    def __post_init__(self) -> None:
        for kind, conditions in self.machine.operators.items():
            if kind not in self.kinds:
                hint = nearest(kind, self.kinds) or f"known: {', '.join(self.kinds)}"
                raise fail("E0107", f"unknown kind of operation '{kind}' in operators", conditions[0].that.span if conditions else None, hint)
            wrong = [d for c in conditions for d in problems(c.that, Scope(frozenset(self.kinds[kind].numbers)))]
            if wrong:
                raise UserError(*wrong)

    @cached_property
    def kinds(self) -> Kinds:
        """The operations that there are."""
        return kinds_of(self.machine)

    def choose(self, lowered: Lowered, given: Collection[str] = ()) -> Operation:
        """given: the kernel's tensors that the host writes. Raises UserError E1003, E1004 with the reasons of every way where none will do, and
        E1008 where no kernel computes any of them."""
        reasons: list[Diagnostic] = []
        for operation in lower(lowered, self.kinds):
            try:
                self._check(operation, given)
                return operation
            except UserError as error:
                reasons += [reason for reason in error.diagnostics if reason not in reasons]
        raise UserError(*([reason for reason in reasons if reason.code != "E1008"] or reasons))

    def _check(self, operation: Operation, given: Collection[str]) -> None:
        numerics = self.machine.quantisation or Numerics()
        reach, accumulator = operation.reach(numerics.reach), numerics.accumulator_bits
        if reach >= 1 << (accumulator - 1):
            raise fail("E1003", f"a sum of '{operation.name}' may reach {reach}, which {accumulator} bits do not hold")
        for condition in self.machine.operators.get(operation.kind.name, ()):
            if not constant(condition.that, operation.numbers):
                raise fail("E1003", condition.message, condition.that.span)
        problem = choose_kernel(self.machine, self.kernels, operation, given)
        key = problem.kernel.name, tuple(problem.numbers.items())
        if key not in self._fits:
            self._fits[key] = tile_fits(problem)
        if not self._fits[key]:
            raise fail("E1004", f"no tile of it fits {crowded(problem)}", problem.kernel.span)
