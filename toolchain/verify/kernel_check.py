"""Runs a machine's kernels on random operations with random tiles, small ones among them, and compares with the operation's own meaning."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from toolchain.abi.dram_map import host_axes
from toolchain.analysis.checks import check_program
from toolchain.emulator import engine_named
from toolchain.operations.floating import computable
from toolchain.operations.kind import OperationKind
from toolchain.operations.library import Kinds
from toolchain.operations.numbers import stated as stated_by
from toolchain.operations.operation import Operation
from toolchain.operations.ways import stands
from toolchain.schedule.compile_operation import CompiledOperation, emit_alone, pack_tensors
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.placement.dram_buffers import layout_of
from toolchain.schedule.stray_accesses import check_buffers
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, described, fail
from toolchain.spec.expr import Binary, Compare, Const, Expr, Name, conjuncts
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics
from toolchain.verify.compare import differing_bits, distant, told_difference
from toolchain.verify.group_check import all_tiles, check_in_chain, check_in_group
from toolchain.verify.limits import Unmet, aimed, free_numbers, several_together, unmet_conditions
from toolchain.verify.random_operation import SIZES, draw_operation, drawn_attribute, one_of, random_halves
from toolchain.verify.situations import Seen, of_problem, of_tiling, rarest_tiling, worth

TRIES = 20000
"""Random operations that are drawn for each that a kernel shall compute."""
BLOCKS = 4
"""The most whole blocks of a number that are drawn where a kernel takes whole ones alone."""
ASKED = 200
"""Random operations that are drawn to tell why a kernel took none."""
POOL, DRAWS, VARIED = 6, 240, 24
"""Random operations of which one is chosen, as far as the kernel takes them; those that it may refuse meanwhile; operations with another number that
are tried beside the random ones."""
PAIRS, AIMED = 3, 40
"""Pairs of dimensions with several units that are tried, and numbers at limits."""
TILINGS = 64
"""Random tilings of which one is chosen."""
LARGER = 500
"""Random operations after which every second one is large: a kernel has taken too few of the small ones."""
FEW = 3
"""The most that small inputs are away from zero."""
MOST_STEPS = 300
"""Tiles of one program; tilings of more are passed over, so that a check takes seconds."""


@dataclass(frozen=True)
class KernelChecked:
    """computed: operations that ran and were equal. refused: those that the kernel's conditions do not admit, or that no tile fits.

    tilings: programs of one operation that were run. chains: programs of it behind and before others. unmet: conditions that no program brought about
    both ways.
    """

    kernel: str
    operation: str
    computed: int
    refused: int
    tilings: int
    chains: int = 0
    unmet: tuple[Unmet, ...] = ()


def check_kernel(machine: Machine, kernel: Kernel, kinds: Kinds, count: int = 6, seed: int = 0) -> KernelChecked:
    """Raises UserError E1305 for a result that differs, with the numbers and the tile, E1306 where no random operation passes the kernel's
    conditions, E1308 where the kernel cannot be carried out, and all that a program that breaks the machine's rules raises."""
    with described(kernel.span, f"the check of kernel '{kernel.name}'"):
        return _checked(machine, kernel, kinds, count, seed)


def closed_reason(machine: Machine, kernel: Kernel, kinds: Kinds) -> str:
    """Why a kernel takes no operation at all in this configuration of its machine; empty where it may take some."""
    unsaid = machine.floats and not computable(kinds[kernel.computes])
    return kernel.shut or (f"the machine's floating format says nothing of {kernel.computes}" if unsaid else "")


def _checked(machine: Machine, kernel: Kernel, kinds: Kinds, count: int, seed: int) -> KernelChecked:
    rng, computed, refused, tilings, chains = np.random.default_rng(seed), 0, 0, 0, 0
    seen = Seen()
    for problem in chosen_operations(machine, kernel, kinds[kernel.computes], rng, seen):
        ran = _run(problem, kinds, rng, seen) if problem else 0
        if problem is None or not ran:
            refused += 1
            if refused > TRIES * (computed + 1):
                break
            continue
        tilings += ran
        chains += 0 if kernel.passed else check_in_chain(problem, kinds, np.random.default_rng((seed, computed)), seen)
        computed += 1
        if computed == count:
            break
    if not computed:
        raise none_passes(machine, kernel, kinds, refused)
    return KernelChecked(kernel.name, kernel.computes, computed, refused, tilings, chains, unmet_conditions(kernel, seen))


def none_passes(machine: Machine, kernel: Kernel, kinds: Kinds, refused: int) -> UserError:
    """The error for a kernel that took no operation, with the commonest refusal of some that are drawn anew."""
    told, rng = Counter[str](), np.random.default_rng(0)
    for _ in range(ASKED):
        operation = draw_operation(machine, kinds[kernel.computes], rng)
        try:
            if operation is not None:
                state_problem(machine, kernel, operation)
        except UserError as error:
            told[re.sub(r"-?\d+", "N", error.diagnostics[0].message)] += 1
    often = next(iter(told.most_common(1)), None)
    hint = f"most often, with numbers in place of N: {often[0]}" if often else "loosen `requires`, or draw more with --shapes"
    return fail("E1306", f"none of {refused} random operations passes the conditions of kernel '{kernel.name}'", kernel.span, hint)


def _run(problem: Problem, kinds: Kinds, rng: np.random.Generator, seen: Seen) -> int:
    """How many programs were run. seen: grows by the situations of all."""
    if problem.kernel.passed:
        ran = check_in_group(problem, kinds, rng)
        seen.update(of_problem(problem) if ran else ())
        return ran
    tilings = _tilings(problem, rng, seen)
    for tiling in tilings:
        compare_tiling(problem, tiling, rng)
    seen.update(of_problem(problem) if tilings else ())
    return len(tilings)


def chosen_operations(machine: Machine, kernel: Kernel, kind: OperationKind, rng: np.random.Generator, seen: Seen) -> Iterator[Problem | None]:
    """The one of several random operations in turn whose situations were seen least; every second time of those at the limits that the kernel names,
    and every sixth time of large ones, where it takes any. None as `operations_for` has it."""
    drawn = operations_for(machine, kernel, kind, rng)
    for turn in itertools.count():
        pool, refused = list[Problem](), 0
        for problem in drawn:
            if problem is None:
                refused += 1
                yield None
            else:
                pool.append(problem)
            if len(pool) == POOL or (pool and refused >= DRAWS):
                break
        aims, large = turn % 6 in (1, 3, 4), turn % 6 == 5
        more = _at_limits(machine, kernel, pool[-1], rng, seen) if aims else _large(machine, kernel, kind, rng) if large else ()
        others = list(itertools.islice((problem for problem in more if max(problem.extents.values(), default=0) <= MOST_STEPS), POOL))
        pool = others or [*pool, *_varied(machine, kernel, pool, rng)]
        yield max(pool, key=lambda problem: worth(of_problem(problem), seen))


def _varied(machine: Machine, kernel: Kernel, pool: Sequence[Problem], rng: np.random.Generator) -> Iterator[Problem]:
    """Operations like those of a pool, each with one other number: where a kernel takes one operation in a hundred, it takes many of these."""
    kind = pool[0].operation.kind
    free = [name for name in free_numbers(kind) if name in pool[0].operation.numbers and name != "shift"]
    attributes = {number for each in kind.attributes for number in each.numbers}
    for turn in range(VARIED if free else 0):
        numbers, name = pool[turn % len(pool)].operation.numbers, one_of(rng, free)
        value = drawn_attribute(kind, name, rng) if name in attributes else one_of(rng, SIZES)
        own = {each: numbers[each] for each in free} | {name: value}
        problem = _stated(machine, kernel, draw_operation(machine, kind, rng, own, corner=bool(rng.integers(2))))
        if problem is not None:
            yield problem


def _large(machine: Machine, kernel: Kernel, kind: OperationKind, rng: np.random.Generator) -> Iterator[Problem]:
    """Operations with an extent beyond the fields of many instructions."""
    for _ in range(AIMED):
        problem = _stated(machine, kernel, draw_operation(machine, kind, rng, large=True))
        if problem is not None:
            yield problem


def _at_limits(machine: Machine, kernel: Kernel, like: Problem, rng: np.random.Generator, seen: Seen) -> Iterator[Problem]:
    """Operations like this one, with dimensions of several units that were not seen together, or a number at a limit that was not seen."""
    pairs = itertools.islice(several_together(like, seen, rng), PAIRS)
    for numbers in (*pairs, *itertools.islice(aimed(like, seen, rng), AIMED)):
        shifted = "shift" in numbers
        corner = not shifted and bool(rng.integers(2))
        operation = draw_operation(machine, like.operation.kind, rng, numbers, own_shifts=False if shifted else None, corner=corner)
        problem = _stated(machine, kernel, operation)
        if problem is not None:
            yield problem


def _stated(machine: Machine, kernel: Kernel, operation: Operation | None) -> Problem | None:
    """None where there is no operation, or one that the kernel does not compute or is never asked for."""
    try:
        return None if operation is None or not stands(operation) else state_problem(machine, kernel, operation)
    except UserError:
        return None


def operations_for(machine: Machine, kernel: Kernel, kind: OperationKind, rng: np.random.Generator) -> Iterator[Problem | None]:
    """Random operations for the kernel without end, None for one that it does not compute or is never asked for. Every third one of those that are
    not large has the numbers that the kernel's conditions state; every second one is drawn for ties and limits."""
    stated = {name: value for require in kernel.requires for name, value in stated_by(require.that) if name in kind.defaults}
    blocks = [each for require in kernel.requires for each in whole_blocks(require.that) if {*each.names} <= {*kind.numbers}]
    for number in itertools.count():
        large = number >= LARGER and number % 2 == 1 and not blocks
        drawn = {name: value for each in blocks for name, value in each.drawn(rng).items()}
        fixed = drawn | ({} if large or number % 3 else stated)
        yield _stated(machine, kernel, draw_operation(machine, kind, rng, fixed, large=large, corner=number % 4 in (1, 2)))


@dataclass(frozen=True)
class WholeBlocks:
    """names: the numbers whose sum comes in blocks of `size`."""

    names: tuple[str, ...]
    size: int

    def drawn(self, rng: np.random.Generator) -> dict[str, int]:
        """Numbers that make whole blocks together; as often the first one does by itself."""
        whole, (first, *others) = self.size * int(rng.integers(1, BLOCKS + 1)), self.names
        parts = {name: int(rng.integers(self.size // len(others))) if rng.integers(2) else 0 for name in others}
        return {first: whole - sum(parts.values()), **parts}


def whole_blocks(condition: Expr) -> Iterator[WholeBlocks]:
    """The sums that come in whole blocks: of `(keys + spare) % 32 == 0 and ...`, that keys and spare come in 32 together."""
    for part in conjuncts(condition):
        match part:
            case Compare(op="==", left=Binary(op="%", left=left, right=Const(value=size)), right=Const(value=0)) if names := _added(left):
                yield WholeBlocks(names, size)
            case _:
                pass


def _added(expr: Expr) -> tuple[str, ...]:
    """The names of which an expression is the sum; none of any other."""
    match expr:
        case Name(id=name):
            return (name,)
        case Binary(op="+", left=left, right=right) if (one := _added(left)) and (other := _added(right)):
            return (*one, *other)
        case _:
            return ()


def _tilings(problem: Problem, rng: np.random.Generator, seen: Seen) -> list[Tiling]:
    """The best, those with the fewest tiles and with the most that are not too many, and the one of some random ones that brings about the most
    situations that were not seen; with one slot of each place and with two."""
    found: list[Tiling] = []
    for contexts in (1, 2):
        try:
            ranked = [tiling for tiling in rank_tilings(problem, contexts, 1 << 30) if all_tiles(problem, tiling) <= MOST_STEPS]
        except UserError:
            continue
        if ranked:
            counts = [all_tiles(problem, tiling) for tiling in ranked]
            corners = (0, counts.index(min(counts)), counts.index(max(counts)))
            own = [ranked[number] for number in dict.fromkeys(corners)]
            for tiling in own:
                seen.update(of_tiling(problem, tiling))
            drawn: list[int] = rng.permutation(len(ranked))[: TILINGS + len(own)].tolist()
            rarest = rarest_tiling(problem, [ranked[number] for number in drawn if number not in corners], seen)
            found += own if rarest is None else [*own, rarest]
    return found


def compare_tiling(problem: Problem, tiling: Tiling, rng: np.random.Generator, meant: Operation | None = None) -> None:
    """Runs one program. meant: the operation that the problem's is a way to compute; left out: that one itself.

    Raises UserError E1305 for another result, and all that a program that breaks the machine's rules raises."""
    operation, machine = meant or problem.operation, problem.machine
    numerics = machine.quantisation or Numerics()
    inputs = draw_inputs(operation, numerics, rng)
    compiled = emit_alone(problem, tiling, pack_tensors(problem))
    state = compiled.state(**{name: array.transpose(_axes(compiled, name)) for name, array in inputs.items()})
    checked = check_program(compiled.program, state)
    check_buffers(machine, [compiled.rooms], compiled.origins, checked.footprints)
    engine_named("fast")(compiled.program, state, checked.order)
    found = compiled.result(state, "y").transpose(np.argsort(_axes(compiled, "y")))
    wanted = operation.run(inputs, numerics)
    if differing_bits(wanted, found):
        raise _differs(problem, tiling, found, wanted)


def draw_inputs(operation: Operation, numerics: Numerics, rng: np.random.Generator) -> dict[str, Array]:
    """Stored integers of every size; as often, those near the one that stands for zero, whose sums stay between the limits."""
    low, high, near = numerics.activation.low, numerics.activation.high, bool(rng.integers(2))
    if numerics.floats is not None:
        return {name: random_halves(operation.input(name), rng, numerics.floats.format, near, infinite=True) for name in operation.kind.data}
    found: dict[str, Array] = {}
    for name in operation.kind.data:
        zero = operation.numbers.get(f"zero_{name}", 0)
        least, most = (max(low, zero - FEW), min(high, zero + FEW)) if near else (low, high)
        found[name] = rng.integers(least, most + 1, operation.input(name)).astype(numerics.stored)
    return found


def _axes(compiled: CompiledOperation, name: str) -> tuple[int, ...]:
    """The order in which a tensor's layout has the axes of a picture."""
    tensor = next(each for each in compiled.problem.kernel.tensors if each.name == name)
    return host_axes(layout_of(compiled.problem.machine, tensor))


def _differs(problem: Problem, tiling: Tiling, found: Array, wanted: Array) -> UserError:
    numbers = ", ".join(f"{name} {problem.operation.numbers[name]}" for name in problem.operation.kind.numbers)
    tile = ", ".join(f"{name} {size}" for name, size in tiling.sizes.items())
    told = told_difference(wanted, found, distant(wanted, found, None))
    return fail("E1305", f"kernel '{problem.kernel.name}' {told}, in tiles of {tile}, for {numbers}", problem.kernel.span)
