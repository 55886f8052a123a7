"""Kernel selection: the quickest kernel that can do an operation; for an integer call, in the first way of computing it that the machine takes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from toolchain.operations.library import Kinds, kinds_of
from toolchain.operations.operation import Operation
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.placement.dram_buffers import layout_of, stored_bytes
from toolchain.schedule.regions.lowering import Lowered, lower
from toolchain.schedule.tiling.tiles import crowded, rank_tilings, tile_fits
from toolchain.spec.context import Scope, problems
from toolchain.spec.errors import Diagnostic, UserError, fail, nearest
from toolchain.spec.evaluate import constant
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.reasons import Why, refuse
from toolchain.timing.cost import copy_ms

CONTEXTS = 2
"""Slots of each place, at least, in the tiles that kernels are compared by."""
CLOSE = 1.25
"""Estimates that differ by less decide nothing, as they know little of how steps overlap: the file's first kernel wins."""
REFUSED = ("E1003", "E1004", "E1008")
"""Codes that say no more than that no kernel does an operation so, or that it has no room."""
Key = tuple[str, tuple[tuple[str, int], ...], tuple[str, ...]]


def images_per_run(machine: Machine) -> int:
    """How many images one stream's program takes in a run: the instances of all levels that run in lockstep."""
    return machine.lockstep


@dataclass(frozen=True)
class Chosen:
    """way: which of the ways to compute the call, by number (`lower`). operation: the call, computed so. kernel: the one that does it, by name."""

    way: int
    operation: Operation
    kernel: str


@dataclass(frozen=True)
class Selection:
    """Chooses kernels for one machine; a kernel that was chosen is remembered by the operation's numbers.

    Raises UserError E0107 and E0121 where section `operators` names a part that operations do not have.
    """

    machine: Machine
    kernels: Mapping[str, Kernel]
    _done: dict[Key, str] = field(default_factory=dict[Key, str], compare=False, repr=False)

    def __post_init__(self) -> None:
        self._check_orders()
        for kind, conditions in self.machine.operators.items():
            if kind not in self.kinds:
                hint = nearest(kind, self.kinds) or f"known: {', '.join(self.kinds)}"
                raise fail("E0107", f"unknown kind of operation '{kind}' in operators", conditions[0].that.span if conditions else None, hint)
            wrong = [d for c in conditions for d in problems(c.that, Scope(frozenset(self.kinds[kind].numbers)))]
            if wrong:
                raise UserError(*wrong)

    def _check_orders(self) -> None:
        """Sums name operations that there are, and their reduced indices."""
        floats = self.machine.quantisation.floats if self.machine.quantisation else None
        for name, order in ((name, order) for name, orders in (floats.sums if floats else ()) for order in orders):
            if name not in self.kinds:
                hint = nearest(name, self.kinds) or f"known: {', '.join(self.kinds)}"
                raise fail("E0107", f"unknown operation '{name}' in the sums of a floating format", order.exprs[0].span, hint)
            reduced = self.kinds[name].meaning.over
            for index, (first, _) in order.over:
                if index not in reduced:
                    raise fail("E0107", f"unknown index '{index}' of {name}", first.span, f"its sum is over {', '.join(reduced)}")
            wrong = [d for expr in order.exprs for d in problems(expr, Scope(frozenset({*reduced, *self.kinds[name].numbers})))]
            if wrong:
                raise UserError(*wrong)

    @cached_property
    def kinds(self) -> Kinds:
        """The operations that there are."""
        return kinds_of(self.machine)

    def choose(self, lowered: Lowered, given: Collection[str] = ()) -> Chosen:
        """given: the kernel's tensors that the host writes. Raises UserError E1003, E1004 with the reasons of every way where none will do, and
        E1008 where no kernel computes any of them."""
        reasons: list[Diagnostic] = []
        for way, operation in enumerate(lower(lowered, self.kinds)):
            try:
                return Chosen(way, operation, self.kernel_of(operation, given))
            except UserError as error:
                reasons += [reason for reason in error.diagnostics if reason not in reasons]
        raise UserError(*([reason for reason in reasons if reason.code != "E1008"] or reasons))

    def confirm(self, lowered: Lowered, way: int, kernel: str, given: Collection[str] = ()) -> Chosen:
        """A choice that was made before, which may have been edited since; whether a tile fits, the search will see.

        Raises UserError E1010 where there is no such way or kernel, or they do not go together, E1003 where the kernel cannot do it.
        """
        if kernel not in self.kernels:
            text = f"the graph gives '{lowered.call.name}' to kernel '{kernel}', which machine '{self.machine.name}' does not have"
            raise fail("E1010", text, hint=nearest(kernel, self.kernels) or f"known: {', '.join(self.kernels)}")
        operation = next(islice(lower(lowered, self.kinds), max(way, 0), None), None)
        if operation is None:
            raise fail("E1010", f"the graph computes '{lowered.call.name}' in way {way}, which it does not have")
        own = self.kernels[kernel]
        if operation.kind.name != own.computes:
            text = f"the graph gives '{lowered.call.name}', computed as {operation.kind.name}, to kernel '{kernel}', which computes {own.computes}"
            raise fail("E1010", text)
        self._allow(operation)
        choose_kernel(self.machine, {kernel: own}, operation, given)
        return Chosen(way, operation, kernel)

    def kernel_of(self, operation: Operation, given: Collection[str]) -> str:
        """The quickest kernel that can do an operation as it stands, of those of which a tile fits. Raises UserError E1003, E1004, E1008."""
        self._allow(operation)
        key = operation.kind.name, tuple(operation.numbers.items()), tuple(given)
        if key not in self._done:
            self._done[key] = self._cheapest(operation, given)
        return self._done[key]

    def _cheapest(self, operation: Operation, given: Collection[str]) -> str:
        """The quickest of those of which a tile fits."""
        reasons: list[Diagnostic] = []
        fitting: list[Problem] = []
        for problem in able_kernels(self.machine, self.kernels, operation, reasons, given):
            if problem.kernel.call:
                return problem.kernel.name
            if tile_fits(problem):
                fitting.append(problem)
            else:
                reasons[:0] = refuse("E1004", crowded(problem), problem.kernel.span).diagnostics
        if not fitting:
            raise refused(self.machine, operation, reasons)
        return quickest(fitting, given).kernel.name

    def _allow(self, operation: Operation) -> None:
        """Raises UserError E1003 for an operation that the machine does not take, whatever its kernels."""
        numerics = self.machine.quantisation or Numerics()
        accumulator = numerics.accumulator_bits
        if numerics.floats is None and not operation.stays_below(1 << (accumulator - 1), numerics.reach):
            raise refuse("E1003", Why.REACH(node=operation.name, reach=operation.reach(numerics.reach), bits=accumulator))
        for condition in self.machine.operators.get(operation.kind.name, ()):
            if not constant(condition.that, operation.numbers):
                raise refuse("E1003", Why.RULE(note=condition.message), condition.that.span)


def choose_kernel(
    machine: Machine, kernels: Mapping[str, Kernel], operation: Operation, given: Collection[str] = (), passed: Collection[str] = ()
) -> Problem:
    """The operation for the quickest kernel that can do it. given: the kernel's tensors that the host writes, through any layout. passed: operands
    that other operations of its group leave on chip. Where no tile fits, the search for tiles will say so.

    Raises UserError E1003 with the reason of every kernel where none can, the most general first, E1008 where there is none for its kind.
    """
    reasons: list[Diagnostic] = []
    found = list(able_kernels(machine, kernels, operation, reasons, given, passed))
    if not found:
        raise refused(machine, operation, reasons)
    if len(found) == 1 or found[0].kernel.call:
        return found[0]
    return quickest([problem for problem in found if tile_fits(problem)] or found[:1], given)


def quickest(problems: Sequence[Problem], given: Collection[str] = ()) -> Problem:
    """An operation for the first kernel whose estimate, of its best tiles and alone, is close to the least, and for which the host works no longer
    than for that one. A tile of each fits. given: the tensors that the host writes, which counts as the machine's own time does."""
    if len(problems) == 1:
        return problems[0]
    written = [host_cycles(problem, given) for problem in problems]
    costs = [rank_tilings(problem, CONTEXTS, 1)[0].estimate + host for problem, host in zip(problems, written, strict=True)]
    least = min(range(len(problems)), key=lambda number: costs[number])
    return next(p for p, cost, host in zip(problems, costs, written, strict=True) if host <= written[least] and cost <= CLOSE * costs[least])


def host_cycles(problem: Problem, given: Collection[str]) -> float:
    """Cycles of the machine's clock that pass while the host rearranges and copies the given operands; none where no such cost is declared."""
    machine = problem.machine
    if machine.host is None:
        return 0.0
    written = [t for t in problem.kernel.tensors if t.values is None and t.name in given]
    ms = (copy_ms(stored_bytes(machine, t, problem.numbers), layout_of(machine, t), machine.host) for t in written)
    return machine.timing.clock_khz * sum(ms)


def refused(machine: Machine, operation: Operation, reasons: Sequence[Diagnostic]) -> UserError:
    """The error where no kernel can do an operation. reasons: of each that computes its kind."""
    lacking = f"machine '{machine.name}' has no kernel for '{operation.kind.name}'"
    return UserError(*(reasons or (Diagnostic("E1008", lacking, reason=Why.NO_KERNEL(operation=operation.kind.name)),)))


def able_kernels(
    machine: Machine,
    kernels: Mapping[str, Kernel],
    operation: Operation,
    reasons: list[Diagnostic],
    given: Collection[str] = (),
    passed: Collection[str] = (),
) -> Iterator[Problem]:
    """The operation for each kernel that can do it, in the file's order. reasons: where those of the others go, the most general first."""
    for kernel in kernels.values():
        if kernel.computes == operation.kind.name and set(kernel.passed) == set(passed):
            try:
                problem = state_problem(machine, kernel, operation)
            except UserError as error:
                reasons[:0] = error.diagnostics
                continue
            foreign = next((t.name for t in kernel.tensors if t.values is None and t.name not in given and not layout_of(machine, t).written), None)
            if foreign is None:
                yield problem
            else:
                reasons[:0] = refuse("E1003", Why.LAYOUT(kernel=kernel.name, operand=foreign), kernel.span).diagnostics
