"""Situations that a check brings about: how each condition, bound, division and loop of a kernel came out. Draws go where none has been, and a check
can say which conditions its shapes left out.

A slip in an expression shows where its parts come out in a certain way: a comparison near equality, a division with and without a rest, a sum of
which neither part is zero. DeMillo, Lipton and Sayward (1978) choose test data so; Myers (1979) calls the values beside a limit boundary values.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations

import numpy as np

from toolchain.isa.columns import Evaluation, Leaf, Value
from toolchain.operations.kind import OperationKind
from toolchain.schedule.kernels.frame import Frame, enter
from toolchain.schedule.kernels.kernel import Constant, Formula, Issue, Items, Kernel, KernelKey, Window, formulas
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.order import order_steps
from toolchain.schedule.tiling.step_cost import own_channels
from toolchain.schedule.tiling.tile_table import codes_of
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.schedule.writer import OperationPart, part_of, step_frame
from toolchain.spec.arrays import Ints
from toolchain.spec.errors import UserError
from toolchain.spec.evaluate import FUNCTIONS, constant
from toolchain.spec.expr import Compare, Const, Expr, Logic, Name, rewrite, walk

Key = tuple[object, ...]
"""Where, by identity, and how it came out. The parts of a kernel live as long as the kernel."""
Situations = set[Key]
Seen = Counter[Key]
"""How many programs brought each situation about."""
MARKS = (None, False, True)
"""Marks of the operation by itself, of tiles, and of tiles beside tensors that stay on chip."""
WRITTEN = "written"
"""The mark of comparisons in instructions that an operation's numbers decide."""
NEAR = 2
"""Differences of two sides that are told apart; further ones are alike."""
WORTH = 1 << 40
"""A situation that was never seen."""
RESIDUES = 16
"""Divisors up to which every rest is told apart."""
FEW = 4
"""Tilings whose situations are all looked at."""
MOST = 3
"""Numbers of an operation that are told apart, and of tiles; larger ones are alike."""


def worth(found: Situations, seen: Seen) -> int:
    """The gain of a further program: a situation counts half as much each time that it comes again. A whole number, the same in every order."""
    return sum(WORTH >> seen[key] for key in found)


class Watching(Evaluation):
    """An evaluation that notes how the parts of its expression come out, all rows together."""

    def __init__(self, leaf: Leaf, count: int, found: Situations, mark: object) -> None:
        super().__init__(leaf, count, str)
        self.found, self.mark = found, mark

    def note(self, expr: Expr, outcomes: Iterable[object]) -> None:
        """How a part came out."""
        self.found |= {(id(expr), self.mark, outcome) for outcome in outcomes}

    def compare(self, expr: Compare, a: Value, b: Value) -> Value:
        self.note(expr, differences(a, b))
        return super().compare(expr, a, b)

    def condition(self, expr: Expr, rows: Ints | None) -> Value:
        value = super().condition(expr, rows)
        if not isinstance(expr, Compare | Logic | Const):
            self.note(expr, (bool(each) for each in _different(value != 0)))
        return value

    def binary(self, expr: Expr, op: str, a: Value, b: Value, rows: Ints | None) -> Value:
        if op in ("//", "%"):
            self.note(expr, rests(a, b))
        elif op in ("+", "-") and (id(expr), self.mark, "both") not in self.found and np.any((a != 0) & (b != 0)):
            self.note(expr, ("both",))
        return super().binary(expr, op, a, b, rows)

    def call(self, expr: Expr, name: str, args: list[Value], rows: Ints | None) -> Value:
        if name in ("ceil_div", "align") and len(args) == 2:
            self.note(expr, rests(*args))
        elif name in ("min", "max"):
            for (one, a), (other, b) in combinations(enumerate(args), 2):
                self.note(expr, ((one, other, each) for each in _different(np.sign(_less(a, b)))))
        return super().call(expr, name, args, rows)


def differences(a: Value, b: Value) -> list[int]:
    """How far the one side is from the other, as far as that is told apart."""
    if isinstance(a, int) and isinstance(b, int):
        return [max(-NEAR, min(a - b, NEAR))]
    return _different(np.clip(_less(a, b), -NEAR, NEAR))


def rests(a: Value, b: Value) -> list[tuple[int, int]]:
    """By divisor, the rest, and 1 or 0 where the divisor is large."""
    if isinstance(a, int) and isinstance(b, int):
        return [_rest(a, b)] if b else []
    if np.asarray(a).dtype.hasobject or np.asarray(b).dtype.hasobject:
        return []
    both: Sequence[Ints] = np.broadcast_arrays(np.asarray(a, np.int64), np.asarray(b, np.int64))
    pairs = np.unique(np.stack(both).reshape(2, -1), axis=1).T.tolist()
    return sorted({_rest(int(left), int(right)) for left, right in pairs if right})


def _rest(left: int, right: int) -> tuple[int, int]:
    size = abs(right)
    return (size, left % right) if size <= RESIDUES else (RESIDUES + 1, min(left % right, 1))


def _less(a: Value, b: Value) -> Value:
    return np.asarray(a) - np.asarray(b)


def _different(values: Value) -> list[int]:
    return np.unique(values).tolist() if np.ndim(values) else [int(values)]


@dataclass(frozen=True)
class Watcher:
    """found: grows. mark: stands beside every place, so that situations of another kind are others."""

    found: Situations = field(default_factory=set[Key])
    mark: object = None

    def rows(self, expr: Expr, leaf: Leaf, count: int) -> Value:
        """As `evaluate_rows`."""
        return Watching(leaf, count, self.found, self.mark).value(expr, None)


def of_problem(problem: Problem) -> Situations:
    """Situations that an operation by itself brings about, whatever its tiles are."""
    watcher, names = Watcher(), problem.numbers
    frame = Frame(1, names.__getitem__, evaluate=watcher.rows)
    for expr in problem_expressions(problem.kernel):
        if names_in(expr) <= names.keys():
            frame.value(Formula(expr, frozenset()))
    watcher.found.update(_written(problem))
    attributes = [number for each in problem.operation.kind.attributes for number in each.numbers if number in names]
    numbers = [(name, max(-MOST, min(names[name], MOST))) for name in (*attributes, *problem.kernel.let)]
    several = ["", *(name for name, extent in problem.extents.items() if extent > 1)]
    watcher.found.update(("number", *each, dimension) for each in numbers for dimension in several)
    for each in problem.operation.kind.attributes:
        pairs = combinations([number for number in each.numbers if number in names], 2)
        watcher.found.update(("pair", one, other, _sign(names[one] - names[other])) for one, other in pairs)
    watcher.found.update((apart(other), None, sign) for other, sign in _apart(problem))
    watcher.found.update((beyond(window), None, _reached(window, problem)) for window in problem.kernel.windows)
    units = ((name, extent > 1) for name, extent in problem.extents.items())
    watcher.found.update(("units", *one, *other) for one, other in combinations(units, 2))
    return watcher.found


def beyond(window: Window) -> Key:
    """The place of a situation: how far the last position of a window reaches beyond the end of its operand, where zeros, or others, stand for it."""
    return "beyond", window.name


def _reached(window: Window, problem: Problem) -> int:
    stride, reach, before, extent = (constant(expr, problem.numbers) for expr in (window.stride, window.reach, window.before, window.extent))
    return max(-NEAR, min((problem.extents[window.of] - 1) * stride + reach - before - extent, NEAR))


def exchanged(problem: Problem) -> Iterator[tuple[Expr, Expr]]:
    """Every derived number, and the same with one name of the other axis in its place: a square picture, window or stride tells none apart."""
    return iter(_exchanged(KernelKey(problem.kernel), _twins(problem.operation.kind)))


@lru_cache(maxsize=64)
def _exchanged(key: KernelKey, twins: tuple[tuple[str, str], ...]) -> tuple[tuple[Expr, Expr], ...]:
    return tuple((expr, other) for expr in key.kernel.let.values() for other in _with_one(expr, dict(twins)))


def _twins(kind: OperationKind) -> tuple[tuple[str, str], ...]:
    """Neighbouring numbers of one attribute or operand, each for the other: the two of a stride, of a window, of a picture."""
    own = [each.numbers for each in kind.attributes] + [each.extents[-2:] for each in kind.operands if len(each.extents) > 2]
    pairs = [numbers[:2] for numbers in own if len(numbers) > 1]
    return tuple(pair for one, other in pairs for pair in ((one, other), (other, one)))


def _with_one(expr: Expr, twins: Mapping[str, str]) -> Iterator[Expr]:
    """The expression with one of its names exchanged, for each name that has a twin."""
    for name in (each for each in walk(expr) if isinstance(each, Name) and each.id in twins):
        yield rewrite(expr, lambda each, name=name: Name(twins[name.id], span=name.span) if each is name else None)


def apart(other: Expr) -> Key:
    """The place of a situation: whether a derived number is larger or smaller than it would be with a name of the other axis."""
    return "apart", id(other)


def _apart(problem: Problem) -> Iterator[tuple[Expr, int]]:
    """Of every derived number that the exchange of a name changes: which, and whether the number is larger or smaller than it would be; 0 where it
    would have no value. Where a number too large does no harm, one too small may."""
    for expr, other in exchanged(problem):
        own = constant(expr, problem.numbers)
        try:
            changed = constant(other, problem.numbers)
        except UserError:
            yield other, 0
            continue
        if own != changed:
            yield other, _sign(own - changed)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def names_in(expr: Expr) -> set[str]:
    """The names that an expression depends on, without those of functions."""
    return {each.id for each in walk(expr) if isinstance(each, Name)} - FUNCTIONS.keys()


def _written(problem: Problem) -> Situations:
    """Comparisons in instructions, so far as numbers of the operation decide them, whether or not a tile comes to them."""
    watcher, names = Watcher(mark=WRITTEN), {**problem.numbers, **own_channels(problem)}
    frame = Frame(1, names.__getitem__, evaluate=watcher.rows)
    for expr, named in _comparisons(KernelKey(problem.kernel)):
        if named <= names.keys():
            with suppress(UserError):  # it may stand behind a condition that does not hold
                frame.value(Formula(expr, frozenset()))
    return watcher.found


@lru_cache(maxsize=64)
def _comparisons(key: KernelKey) -> tuple[tuple[Expr, frozenset[str]], ...]:
    """The comparisons in instructions, each with its names."""
    found = (expr for code in codes_of(key.kernel) for formula in formulas(code) for expr in walk(formula.expr) if isinstance(expr, Compare))
    return tuple((expr, frozenset(names_in(expr))) for expr in found)


def problem_expressions(kernel: Kernel) -> Iterator[Expr]:
    """Expressions over an operation's numbers."""
    yield from kernel.let.values()
    yield from (require.that for require in kernel.requires)
    for window in kernel.windows:
        yield from _parts(window)
    for dimension in kernel.tile:
        yield from (each for each in (dimension.extent, dimension.most, dimension.multiple) if each is not None)
    yield from (step.when for step in kernel.steps if step.when is not None)
    for tensor in kernel.tensors:
        yield from tensor.extents


def _parts(window: Window) -> Sequence[Expr]:
    return window.stride, window.reach, window.before, window.extent, window.step


def of_tiling(problem: Problem, tiling: Tiling) -> Situations:
    """Situations of the steps of an operation in these tiles."""
    kept = bool(problem.kept)
    watcher = Watcher(mark=kept)
    part = part_of(problem, order_steps(problem, tiling))
    same: dict[int, list[int]] = {}
    for instance, item in enumerate(part.steps):
        same.setdefault(id(item.step), []).append(instance)
    for chosen in same.values():
        _watch_step(watcher, part, chosen)
    watcher.found.update(cuts_of(problem, tiling))
    cut = [name for name, size in tiling.sizes.items() if size < problem.extents[name]]
    watcher.found.update((apart(other), name, sign) for other, sign in (_apart(problem) if cut else ()) for name in cut)
    watcher.found.update(("edges", kept, *each) for each in _edges(part))
    return watcher.found


def _watch_step(watcher: Watcher, part: OperationPart, chosen: Sequence[int]) -> None:
    """Instances of one step."""
    problem, step = part.problem, part.steps[chosen[0]].step
    scope = {f"{tensor.name}_{end}": 0 for tensor in problem.kernel.tensors for end in ("base", "segment")} | own_channels(problem)
    frame = step_frame(part, scope, chosen, [[0] * len(item.step.constants) for item in part.steps])
    frame.evaluate = watcher.rows
    for place in (place for place in problem.kernel.places if place.name in part.steps[chosen[0]].slots and place.name not in problem.kept):
        for expr in place.names.values():
            frame.value(Formula(expr, frozenset()))
    for item in problem.kernel.constants:
        if item.name in step.constants:
            _watch_records(watcher, item, frame)
    if not isinstance(step.code, str):
        _watch_items(watcher, step.code, frame)


def _watch_items(watcher: Watcher, items: Items, frame: Frame) -> None:
    there = {id(item): item for item in items if item.when is not None}
    for inside in enter(items, frame):
        item = inside.item
        there.pop(id(item), None)
        ways = (True, False) if not item.loops and inside.frame.count < frame.count else (True,)
        watcher.found.update((id(item), watcher.mark, ("entered", way)) for way in ways)
        watcher.found.update((id(item), watcher.mark, (name, bool(np.any(np.asarray(inside.frame[name]) > 0)))) for name in item.loops)
        if isinstance(item.body, Issue):
            for formula in item.body.fields.values():
                inside.frame.value(formula)
        else:
            _watch_items(watcher, item.body, inside.frame)
    watcher.found.update((each, watcher.mark, ("entered", False)) for each in there)


def _watch_records(watcher: Watcher, item: Constant, frame: Frame) -> None:
    """Records of a control memory: how many of each loop, and the fields of the last one."""
    counts = {name: frame.column(Formula(expr, frozenset())) for name, expr in item.over.items()}
    watcher.found.update((id(item), name, int(each)) for name, count in counts.items() for each in _different(np.minimum(count, NEAR)))
    inner = frame.inner()
    inner.names |= {name: np.maximum(count - 1, 0) for name, count in counts.items()}
    for expr in item.fields.values():
        inner.value(Formula(expr, frozenset()))


def rarest_tiling(problem: Problem, tilings: Sequence[Tiling], seen: Seen) -> Tiling | None:
    """The tiling whose situations were seen least, of those few whose sizes were seen least; its situations are seen now. None of none."""
    few = sorted(tilings, key=lambda tiling: -worth(cuts_of(problem, tiling), seen))[:FEW]
    found = [(worth(situations, seen), situations, tiling) for tiling in few for situations in [of_tiling(problem, tiling)]]
    if not found:
        return None
    _, situations, tiling = max(found, key=lambda each: each[0])
    seen.update(situations)
    return tiling


def cuts_of(problem: Problem, tiling: Tiling) -> Situations:
    """Situations of tiles that their sizes alone decide, found in a hundredth of the time of all: see `_cuts`."""
    kept = bool(problem.kept)
    return {("tiles", kept, *each) for each in _cuts(problem, tiling)}


def _cuts(problem: Problem, tiling: Tiling) -> Iterator[Key]:
    """Each dimension in one, two or more tiles, of which the last one is as large as the others or not; any two dimensions, cut or whole, by units or
    by several together; places with several slots."""
    for name, size in tiling.sizes.items():
        yield name, min(-(-problem.extents[name] // size), MOST), problem.extents[name] % size > 0
    ways = [(name, size < problem.extents[name], size > 1) for name, size in tiling.sizes.items()]
    yield from (one + other for one, other in combinations(ways, 2))
    yield from ((name, len(slots) > 1) for name, slots in tiling.places.items())


def _edges(part: OperationPart) -> Iterator[Key]:
    """Windows that reach over one border of the picture, over both, or over none, at the first place and at others; all windows of a tile together: a
    corner is more than two borders."""
    for names in part.names:
        windows = [window.name for window in part.problem.kernel.windows if f"{window.name}_before" in names]
        yield tuple((name, *(names[f"{name}_{end}"] > 0 for end in ("first", "before", "after"))) for name in windows)
