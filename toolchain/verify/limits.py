"""The limits that a kernel's conditions name: numbers of operations drawn at them, and conditions that no program of a check met both ways."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np

from toolchain.operations.kind import OperationKind
from toolchain.schedule.kernels.kernel import Formula, Issue, Item, Items, Kernel, KernelKey
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.step_cost import channel_extents
from toolchain.schedule.tiling.tile_table import codes_of
from toolchain.spec.errors import Span, UserError
from toolchain.spec.evaluate import OPERATORS, constant
from toolchain.spec.expr import Binary, Call, Choose, Compare, Const, Expr, Logic, Name, rewrite, walk
from toolchain.spec.render import unparse
from toolchain.verify.random_operation import windows_of
from toolchain.verify.situations import MARKS, NEAR, WRITTEN, Seen, apart, beyond, exchanged, names_in, problem_expressions


@dataclass(frozen=True)
class Unmet:
    """A condition as it is written. never: `held`, `failed` or `looked at`."""

    text: str
    never: str
    span: Span | None


def unmet_conditions(kernel: Kernel, seen: Seen) -> tuple[Unmet, ...]:
    """Conditions in derived numbers, windows, tiles, steps, places and instructions that did not come out both ways, in the order of the file; those
    of `requires` always hold. A condition that several steps share is met where it is in one of them."""
    ways = dict[tuple[str, Span | None], set[bool]]()
    for expr, found in (*_written(kernel, seen), *_entered(kernel, seen)):
        ways.setdefault((unparse(expr), expr.span), set()).update(found)
    listed = sorted(ways.items(), key=lambda each: (each[0][1].line, each[0][1].column) if each[0][1] else (0, 0))
    return tuple(Unmet(text, _never(found), span) for (text, span), found in listed if len(found) < 2)


def _never(found: set[bool]) -> str:
    return "looked at" if not found else "failed" if True in found else "held"


def _written(kernel: Kernel, seen: Seen) -> Iterator[tuple[Expr, set[bool]]]:
    """Every condition inside an expression, with the ways in which it came out."""
    required = {id(require.that) for require in kernel.requires}
    for whole in _expressions(kernel):
        for expr in _conditions(whole) if id(whole) not in required else ():
            yield expr, _ways(expr, seen)


def _expressions(kernel: Kernel) -> Iterator[Expr]:
    yield from problem_expressions(kernel)
    for place in kernel.places:
        yield from (*place.names.values(), *(formula.expr for formula in place.starts.values()))
    for item in kernel.constants:
        yield from (*item.over.values(), *item.fields.values())
    for item in (item for code in codes_of(kernel) for item in items_below(code)):
        own = (*item.loops.values(), *item.let.values(), *([item.when] if item.when else []))
        yield from (formula.expr for formula in (*own, *_fields(item)))


def _fields(item: Item) -> tuple[Formula, ...]:
    return tuple(item.body.fields.values()) if isinstance(item.body, Issue) else ()


def items_below(items: Items) -> Iterator[Item]:
    """These items and all inside them."""
    for item in items:
        yield item
        yield from () if isinstance(item.body, Issue) else items_below(item.body)


def _conditions(whole: Expr) -> Iterator[Expr]:
    """Comparisons, and other numbers that a choice, `and` or `or` depends on."""
    for expr in walk(whole):
        if isinstance(expr, Compare) and names_in(expr):
            yield expr
        parts = (expr.condition,) if isinstance(expr, Choose) else expr.values if isinstance(expr, Logic) else ()
        yield from (part for part in parts if not isinstance(part, Compare | Logic | Const) and names_in(part))


def _ways(expr: Expr, seen: Seen) -> set[bool]:
    if isinstance(expr, Compare):
        near = [each for each in range(-NEAR, NEAR + 1) if any((id(expr), mark, each) in seen for mark in MARKS)]
        return {bool(OPERATORS[expr.op](each, 0)) for each in near}
    return {way for way in (False, True) if any((id(expr), mark, way) in seen for mark in MARKS)}


def _entered(kernel: Kernel, seen: Seen) -> Iterator[tuple[Expr, set[bool]]]:
    """Conditions of instructions that are a name by itself."""
    for item in (item for code in codes_of(kernel) for item in items_below(code)):
        if item.when is not None and not _has_parts(item.when.expr) and names_in(item.when.expr):
            yield item.when.expr, {way for way in (False, True) if any((id(item), mark, ("entered", way)) in seen for mark in MARKS)}


def _has_parts(expr: Expr) -> bool:
    return any(True for _ in _conditions(expr))


LARGEST = 1 << 14
"""The largest extent that is tried."""
LARGEST_ATTRIBUTE = 64
LARGEST_SHIFT = 30
WIDE = 64
"""Where one extent is larger, the others are small: a check takes seconds."""
SMALL = 3
AROUND = (0, 1, -1)


Derived = tuple[tuple[str, Expr], ...]
"""Numbers by name, each from those before it."""


@dataclass(frozen=True)
class Limit:
    """Two sides of a comparison, two arguments of `min` or `max`, or the rounds of a loop and 1.

    wanted: by difference of the two sides, the situation without its mark. derived: numbers that the sides depend on, in the order in which they are
    known. names: all numbers that the sides depend on."""

    left: Expr
    right: Expr
    wanted: Mapping[int, tuple[object, object]]
    derived: Derived = ()
    names: frozenset[str] = frozenset()

    def is_seen(self, outcome: int, seen: Seen) -> bool:
        """outcome: the difference of the sides."""
        place, found = self.wanted[outcome]
        return any((place, mark, found) in seen for mark in (*MARKS, WRITTEN))


def limits_of(kernel: Kernel) -> Iterator[Limit]:
    """Every limit that a kernel's conditions and instructions name, and the ends of the operands that its windows move over."""
    written = (each for code in codes_of(kernel) for each in _with_names(code, {}))
    for whole, names in (*((expr, dict[str, Expr]()) for expr in problem_expressions(kernel)), *written):
        for expr in walk(whole):
            match expr:
                case Compare(left=left, right=right):
                    yield Limit(_put(left, names), _put(right, names), {each: (id(expr), each) for each in AROUND})
                case Call(function=Name(id="min" | "max"), args=(left, right)):
                    yield Limit(_put(left, names), _put(right, names), {each: (id(expr), (0, 1, each)) for each in AROUND})
                case _:
                    pass
    for window in kernel.windows:
        last = Binary("*", Binary("-", Name(f"{window.of}_all"), Const(1)), window.stride)
        reached = Binary("-", Binary("+", last, window.reach), window.before)
        yield Limit(reached, window.extent, {each: (beyond(window), each) for each in AROUND})
    for code in codes_of(kernel):
        yield from (Limit(count.expr, Const(1), {1: (id(item), (name, True))}) for item in items_below(code) for name, count in item.loops.items())


def _with_names(items: Items, names: Mapping[str, Expr]) -> Iterator[tuple[Expr, Mapping[str, Expr]]]:
    """Every expression of the items, each with the names that `let` gives around it, over those outside of all items."""
    for item in items:
        inner = {name: expr for name, expr in names.items() if name not in item.loops}
        for name, formula in item.let.items():
            yield formula.expr, dict(names if item.call else inner)
            inner[name] = _put(formula.expr, names if item.call else inner)
        yield from ((count.expr, names) for count in item.loops.values())
        yield from ((formula.expr, inner) for formula in (*([item.when] if item.when else []), *_fields(item)))
        yield from () if isinstance(item.body, Issue) else _with_names(item.body, inner)


def _put(expr: Expr, names: Mapping[str, Expr]) -> Expr:
    return rewrite(expr, lambda each: names.get(each.id) if isinstance(each, Name) else None) if names else expr


@lru_cache(maxsize=64)
def _known_limits(key: KernelKey, shape: Derived, channels: Derived) -> tuple[Limit, ...]:
    """Every limit of a kernel over an operation's numbers. shape: the extents that follow from others. channels: those of tensors."""
    known = _derived(key, shape, channels)
    return tuple(_with_derived(limit, known) for limit in limits_of(key.kernel))


def _derived(key: KernelKey, shape: Derived, channels: Derived) -> Derived:
    return (*shape, *key.kernel.let.items(), *((f"{each.name}_all", each.extent) for each in key.kernel.tile), *channels)


def _with_derived(limit: Limit, known: Derived) -> Limit:
    """The limit with the numbers that its sides depend on."""
    names, derived = names_in(limit.left) | names_in(limit.right), list[tuple[str, Expr]]()
    for name, expr in reversed(known):
        if name in names:
            names |= names_in(expr)
            derived.insert(0, (name, expr))
    return replace(limit, derived=tuple(derived), names=frozenset(names))


def free_numbers(kind: OperationKind) -> dict[str, int]:
    """The numbers that may be drawn, and the largest of each."""
    extents = {extent: LARGEST for each in kind.operands for extent in each.extents if extent not in kind.fixed and extent != "batch"}
    attributes = {number: LARGEST_ATTRIBUTE for each in kind.attributes for number in each.numbers}
    return {**extents, **attributes, **({"shift": LARGEST_SHIFT} if kind.scaled else {})}


def aimed(problem: Problem, seen: Seen, rng: np.random.Generator) -> Iterator[dict[str, int]]:
    """Numbers of operations like this one, with one of them changed so that a limit is met or just is not, where that was not seen."""
    kind, numbers = problem.operation.kind, problem.operation.numbers
    free = free_numbers(kind)
    channels = channel_extents(problem.machine, problem.kernel)
    limits = _known_limits(KernelKey(problem.kernel), tuple(kind.shape.items()), tuple(channels.items()))
    known = [limit for limit in (*limits, *_exchanges(problem)) if limit.names <= problem.numbers.keys() | channels.keys()]
    turns: list[int] = rng.permutation(len(known)).tolist()
    for limit in (known[number] for number in turns):
        wanted = [each for each in limit.wanted if not limit.is_seen(each, seen)]
        for base in (dict(numbers), _small(kind, numbers), _some_small(kind, numbers, rng)) if wanted else ():
            for name in (each for each in rng.permutation([*free]).tolist() if each in base and each in limit.names):
                yield from _around(limit, problem, base, name, free, wanted)


def _exchanges(problem: Problem) -> Iterator[Limit]:
    """A derived number that is larger, and one that is smaller, than the same of the other axis."""
    known = _derived(KernelKey(problem.kernel), tuple(problem.operation.kind.shape.items()), ())
    for expr, other in exchanged(problem):
        yield _with_derived(Limit(expr, other, {sign: (apart(other), sign) for sign in (1, -1)}), known)


def several_together(problem: Problem, seen: Seen, rng: np.random.Generator) -> Iterator[dict[str, int]]:
    """Numbers of operations like this one, in which two dimensions of the tile have several units together, where that was not seen: a part of the
    input's channels and two blocks of the output's, say."""
    kind, names = problem.operation.kind, [*problem.extents]
    pairs = [pair for pair in combinations(names, 2) if ("units", pair[0], True, pair[1], True) not in seen]
    free = free_numbers(kind)
    known = _derived(KernelKey(problem.kernel), tuple(kind.shape.items()), tuple(channel_extents(problem.machine, problem.kernel).items()))
    turns: list[int] = rng.permutation(len(pairs)).tolist()
    for pair in (pairs[number] for number in turns):
        numbers: dict[str, int] | None = _small(kind, problem.operation.numbers)
        for dimension in pair:
            limit = _with_derived(Limit(Name(f"{dimension}_all"), Const(1), {1: ("", 1)}), known)
            if numbers is not None and difference(limit, numbers) == 0:
                numbers = _two_units(limit, problem, numbers, free, rng)
        if numbers is not None:
            yield {each: numbers[each] for each in free if each in numbers and each != "shift"}


def _two_units(limit: Limit, problem: Problem, numbers: dict[str, int], free: Mapping[str, int], rng: np.random.Generator) -> dict[str, int] | None:
    """The numbers with one of them changed so that a dimension has two units; None where none does that."""
    for name in rng.permutation([each for each in free if each in numbers and each in limit.names]).tolist():
        found = next(_around(limit, problem, numbers, name, free, [1]), None)
        if found is not None:
            return {**numbers, **found}
    return None


def _some_small(kind: OperationKind, numbers: Mapping[str, int], rng: np.random.Generator) -> dict[str, int]:
    """About half of the extents are small, windows with their pictures: a condition may want one of the others as it is."""
    small, twins = _small(kind, numbers), dict(windows_of(kind))
    chosen = {name: bool(rng.integers(2)) for name in numbers if name not in twins}
    return {name: small[name] if chosen.get(twins.get(name, name)) else value for name, value in numbers.items()}


def _around(
    limit: Limit, problem: Problem, base: Mapping[str, int], name: str, free: Mapping[str, int], wanted: list[int]
) -> Iterator[dict[str, int]]:
    """The first and the last numbers at which the sides differ by each outcome that is wanted: a division keeps them alike for many in turn."""
    least = 0 if free[name] < LARGEST else 1

    def gap(value: int) -> int | None:
        return difference(limit, {**base, name: value})

    def first(outcome: int) -> int:
        """The first number on the other side of an outcome, where there is one."""
        met = crossing(lambda value: None if (found := gap(value)) is None else found - outcome, least, free[name])
        return least if met is None else met

    for outcome in wanted:
        for value in dict.fromkeys((first(outcome), first(outcome) - 1, first(outcome + 1) - 1, first(outcome + 1))):
            if gap(value) == outcome:
                own = {each: base[each] for each in free if each in base and each != "shift"} | {name: value}
                yield own | dict(_moved_along(problem.operation.kind, name, base, own))


def _moved_along(kind: OperationKind, name: str, base: Mapping[str, int], own: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Numbers that change with one of them: a picture has room for its window, and a window of the whole picture stays one, as the channels that
    a convolution adds up."""
    for small, large in windows_of(kind):
        if small == name and large in own:
            yield large, max(own[large], own[small])
        elif large == name and small in own and base[small] == base[large]:
            yield small, own[large]


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
