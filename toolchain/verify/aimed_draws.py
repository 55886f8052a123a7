"""Numbers of operations at the limits that a kernel's conditions name: of `groups > 256`, a picture with 255, 256 and 257 groups, whatever the
kernel derives groups from."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from toolchain.operations.kind import OperationKind
from toolchain.schedule.kernels.kernel import Kernel, KernelKey, formulas
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.tile_table import codes_of
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Call, Compare, Const, Expr, Name, walk
from toolchain.verify.situations import MARKS, WRITTEN, Seen, names_in, problem_expressions
from toolchain.verify.unmet import items_below

LARGEST = 1 << 14
"""The largest extent that is tried."""
LARGEST_ATTRIBUTE = 64
LARGEST_SHIFT = 30
WIDE = 64
"""Where one extent is larger, the others are small: a check takes seconds."""
SMALL = 3
AROUND = (0, 1, -1)


@dataclass(frozen=True)
class Limit:
    """Two sides of a comparison, two arguments of `min` or `max`, or the rounds of a loop and 1.

    wanted: by difference of the two sides, the situation without its mark. derived: numbers that the sides depend on, in the order in which they are
    known. names: all numbers that the sides depend on."""

    left: Expr
    right: Expr
    wanted: Mapping[int, tuple[object, object]]
    derived: tuple[tuple[str, Expr], ...] = ()
    names: frozenset[str] = frozenset()

    def is_seen(self, outcome: int, seen: Seen) -> bool:
        """outcome: the difference of the sides."""
        place, found = self.wanted[outcome]
        return any((place, mark, found) in seen for mark in (*MARKS, WRITTEN))


def limits_of(kernel: Kernel) -> Iterator[Limit]:
    """Every limit that a kernel's conditions and instructions name."""
    written = (formula.expr for code in codes_of(kernel) for formula in formulas(code))
    for whole in (*problem_expressions(kernel), *written):
        for expr in walk(whole):
            match expr:
                case Compare(left=left, right=right):
                    yield Limit(left, right, {each: (id(expr), each) for each in AROUND})
                case Call(function=Name(id="min" | "max"), args=(left, right)):
                    yield Limit(left, right, {each: (id(expr), (0, 1, each)) for each in AROUND})
                case _:
                    pass
    for code in codes_of(kernel):
        yield from (Limit(count.expr, Const(1), {1: (id(item), (name, True))}) for item in items_below(code) for name, count in item.loops.items())


@lru_cache(maxsize=64)
def _known_limits(key: KernelKey, shape: tuple[tuple[str, Expr], ...]) -> tuple[Limit, ...]:
    """Every limit of a kernel over an operation's numbers. shape: the extents that follow from others."""
    kernel = key.kernel
    known = (*shape, *kernel.let.items(), *((f"{each.name}_all", each.extent) for each in kernel.tile))
    found = list[Limit]()
    for limit in limits_of(kernel):
        names, derived = names_in(limit.left) | names_in(limit.right), list[tuple[str, Expr]]()
        for name, expr in reversed(known):
            if name in names:
                names |= names_in(expr)
                derived.insert(0, (name, expr))
        found.append(replace(limit, derived=tuple(derived), names=frozenset(names)))
    return tuple(found)


def free_numbers(kind: OperationKind) -> dict[str, int]:
    """The numbers that may be drawn, and the largest of each."""
    extents = {extent: LARGEST for each in kind.operands for extent in each.extents if extent not in kind.fixed and extent != "batch"}
    attributes = {number: LARGEST_ATTRIBUTE for each in kind.attributes for number in each.numbers}
    return {**extents, **attributes, **({"shift": LARGEST_SHIFT} if kind.scaled else {})}


def aimed(problem: Problem, seen: Seen, rng: np.random.Generator) -> Iterator[dict[str, int]]:
    """Numbers of operations like this one, with one of them changed so that a limit is met or just is not, where that was not seen."""
    kind, numbers = problem.operation.kind, problem.operation.numbers
    free = free_numbers(kind)
    limits = _known_limits(KernelKey(problem.kernel), tuple(kind.shape.items()))
    known = [limit for limit in limits if limit.names <= problem.numbers.keys()]
    turns: list[int] = rng.permutation(len(known)).tolist()
    for limit in (known[number] for number in turns):
        wanted = [each for each in limit.wanted if not limit.is_seen(each, seen)]
        for base in (dict(numbers), _small(kind, numbers)) if wanted else ():
            for name in (each for each in rng.permutation([*free]).tolist() if each in base and each in limit.names):
                yield from _around(limit, problem, base, name, free, wanted)


def _around(
    limit: Limit, problem: Problem, base: Mapping[str, int], name: str, free: Mapping[str, int], wanted: list[int]
) -> Iterator[dict[str, int]]:
    def gap(value: int) -> int | None:
        return difference(limit, {**base, name: value})

    met = crossing(gap, 0 if free[name] < LARGEST else 1, free[name])
    for value in () if met is None else (met - 1, met, met + 1):
        if gap(value) in wanted:
            own = {each: base[each] for each in free if each in base and each != "shift"} | {name: value}
            yield own | {large: max(own[large], own[small]) for small, large in windows_of(problem.operation.kind) if large in own and small == name}


def windows_of(kind: OperationKind) -> Iterator[tuple[str, str]]:
    """Extents of windows, and those of the picture that they move over."""
    return zip([*kind.meaning.over.values()][::-1], kind.operands[0].extents[::-1], strict=False)


def _small(kind: OperationKind, numbers: Mapping[str, int]) -> dict[str, int]:
    extents = {extent for each in kind.operands for extent in each.extents} - kind.fixed.keys()
    return {name: min(value, SMALL) if name in extents else value for name, value in numbers.items()}


def difference(limit: Limit, numbers: Mapping[str, int]) -> int | None:
    """The left side less the right one for an operation of these numbers; None where they have no value."""
    known = dict(numbers)
    try:
        for name, expr in limit.derived:
            known[name] = constant(expr, known)
        return constant(limit.left, known) - constant(limit.right, known)
    except UserError:
        return None


def crossing(gap: Callable[[int], int | None], least: int, most: int) -> int | None:
    """The first number at which a difference that only grows, or only falls, is no longer on its first side; None where it stays there."""
    first, last = gap(least), gap(most)
    if first is None or last is None or (first < 0) == (last < 0):
        return None
    while most - least > 1:
        middle = (least + most) // 2
        value = gap(middle)
        if value is None:
            return None
        least, most = (middle, most) if (value < 0) == (first < 0) else (least, middle)
    return most
