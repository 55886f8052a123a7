"""Proofs that a kernel with a slip makes the programs that it made, for bench/mutants: what no shape tells apart is no gap of the check.

Two kernels are the same where they differ in nothing but
- expressions that fold to the same number or form, as a field's code that is written as its name or as the number;
- values of a tensor that are known when compiling, which are the same for each index of constant extent;
- fields that an instruction does not read, given those of its fields that are constants, as the step between the pixels of a row of one pixel;
- tiles of which fewer are allowed: multiples of a constant that are multiples of the one before, too. Each of them is made as it was.
Constants that a kernel derives stand in place of their names.
Names that only say on which numbers a cost or a tile's size depends are left out.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass, replace
from itertools import product
from typing import cast

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.operations.library import builtin_kinds
from toolchain.schedule.kernels.kernel import Dimension, Formula, Issue, Item, Kernel, Step, Tensor, issues
from toolchain.schedule.tiling.tile_table import codes_of
from toolchain.spec.errors import Span, UserError
from toolchain.spec.evaluate import constant, fold, substitute
from toolchain.spec.expr import Binary, Choose, Const, Expr, Index, Logic, Member, Name, rewrite, walk
from toolchain.spec.model import Machine, View

MOST_POINTS = 1 << 12
"""Points of a tensor of constant extents that are compared."""


def same_programs(machine: Machine, one: object, other: object) -> bool:
    """Whether two parts of a kernel make the same instructions and the same contents of memories, as far as these rules prove it."""
    match one, other:
        case (Formula(), Formula()):
            return plain(one.expr) == plain(other.expr)
        case (Expr(), Expr()):
            return plain(one) == plain(other)
        case (Kernel(), Kernel()) if one.let != other.let and {*_constants(one), *_constants(other)}:
            return same_programs(machine, _inlined(one), _inlined(other))
        case (Dimension(), Dimension()) if one.multiple != other.multiple:
            step, new = (_number(each.multiple) if each.multiple else 1 for each in (one, other))
            return bool(step and new and new % step == 0) and same_programs(machine, replace(one, multiple=None), replace(other, multiple=None))
        case (Issue(), Issue()):
            return _same_issue(machine, one, other)
        case (Tensor(), Tensor()):
            return _same_tensor(machine, one, other)
        case _:
            own, others = members(one), members(other)
            if type(one) is not type(other) or len(own) != len(others):
                return False
            return all(same_programs(machine, *pair) for pair in zip(own, others, strict=True)) if own else one == other


def _constants(kernel: Kernel) -> dict[str, int]:
    """Names that a kernel gives to constants. A template may read any name, and so may the toolchain those of the operation's numbers."""
    if any(isinstance(step.code, str) for step in kernel.steps):
        return {}
    own = builtin_kinds().get(kernel.computes)
    return {name: value for name, expr in kernel.let.items() if own and name not in own.numbers and (value := _number(plain(expr))) is not None}


def _inlined(kernel: Kernel) -> Kernel:
    """The kernel with the constants that it derives in place of their names, and without these names."""
    known = _constants(kernel)

    def put(part: object) -> object:
        match part:
            case Expr():
                return substitute(part, known, {})
            case tuple():
                return tuple(map(put, cast("tuple[object, ...]", part)))
            case Mapping():
                return {name: put(value) for name, value in cast("Mapping[str, object]", part).items()}
            case _ if is_dataclass(part) and not isinstance(part, View | Span | type):
                return replace(part, **{each.name: put(getattr(part, each.name)) for each in fields(part)})
            case _:
                return part

    found = cast("Kernel", put(kernel))
    return replace(found, let={name: expr for name, expr in found.let.items() if name not in known})


def plain(expr: Expr) -> Expr:
    """Constants folded, and sides that are never taken left out."""

    def change(each: Expr) -> Expr | None:
        match each:
            case Choose(condition=condition, then=then, other=other) if (known := _number(condition)) is not None:
                return plain(then if known else other)
            case Logic() if (known := _number(each)) is not None:
                return Const(known)
            case _:
                return None

    return fold(rewrite(fold(expr), change))


def _number(expr: Expr) -> int | None:
    """The value of an expression without names; None for any other, and where it has none."""
    if any(isinstance(each, Name | Member | Index) for each in walk(expr)):
        return None
    try:
        return constant(expr, {})
    except UserError:  # none, such as 1 // 0
        return None


def _same_issue(machine: Machine, one: Issue, other: Issue) -> bool:
    if (one.instruction, one.unit, one.latches) != (other.instruction, other.unit, other.latches) or one.fields.keys() != other.fields.keys():
        return False
    apart = {name for name in one.fields if plain(one.fields[name].expr) != plain(other.fields[name].expr)}
    alike = {name: value for name, value in constants_of(one).items() if name not in apart}
    return not apart or not apart & read_fields(machine, one.instruction, alike)


def constants_of(issue: Issue) -> dict[str, int]:
    """The fields of an instruction whose values are constants."""
    return {name: value for name, formula in issue.fields.items() if (value := _number(plain(formula.expr))) is not None}


def read_fields(machine: Machine, instruction: str, known: Mapping[str, int]) -> set[str]:
    """The fields that an instruction's meaning, its conditions and its unit read, given the values of some."""
    own, body = machine.instruction[instruction], machine_semantics(machine)[instruction].body
    named = {name.id for part in (own.unit, *(each.that for each in own.constraints)) for name in walk(part) if isinstance(name, Name)}
    latched = {each.name for each in own.fields} if any(isinstance(each, ir.Latch) for each in parts(body)) else set[str]()
    return named | latched | {each.name for each in parts(specialised(body, known)) if isinstance(each, ir.FieldRef)}


def same_meaning(one: Machine, other: Machine, kernels: Iterable[Kernel]) -> bool:
    """Whether every instruction of these kernels means the same on two machines, given the fields that are constants where a kernel has it."""
    before, after = machine_semantics(one), machine_semantics(other)
    apart = {name for name in before if before[name].body != after[name].body}
    written = [(issue.instruction, constants_of(issue)) for kernel in kernels for issue in all_issues(kernel) if issue.instruction in apart]
    if apart - {name for name, _ in written}:
        return False
    return all(specialised(before[name].body, known) == specialised(after[name].body, known) for name, known in written)


def all_issues(kernel: Kernel) -> Iterator[Issue]:
    """Every instruction as a kernel writes it; of templates, which are programs themselves, none."""
    loading = (kernel.loading.code,) if kernel.loading else ()
    for code in (*codes_of(kernel), *loading, kernel.begin, kernel.end):
        yield from () if isinstance(code, str) else issues(code)


def specialised(part: object, known: Mapping[str, int], zero: AbstractSet[str] = frozenset()) -> object:
    """A part of an instruction's meaning where some of its fields are constants. zero: loop variables that are 0."""
    match part:
        case ir.FieldRef(name=name) if name in known:
            return Const(known[name])
        case ir.Var(name=name) if name in zero:
            return Const(0)
        case Binary(op=op, left=left, right=right):
            return _simple(op, specialised(left, known, zero), specialised(right, known, zero))
        case ir.For(var=var, start=start, stop=stop, body=body):
            first, last = specialised(start, known, zero), specialised(stop, known, zero)
            once = (first, last) == (Const(0), Const(1))
            return (ir.For, var, first, last, specialised(body, known, zero | {var} if once else zero))
        case ir.FieldRef() | ir.Var() | Const():
            return part
        case _:
            found = tuple(specialised(each, known, zero) for each in members(part))
            return found if isinstance(part, tuple) else (type(part), *found) if found else part


def _simple(op: str, left: object, right: object) -> object:
    """Zero makes a product zero, and adds nothing."""
    nothing = Const(0)
    if op == "*" and nothing in (left, right):
        return nothing
    if op in ("+", "-") and right == nothing:
        return left
    return right if op == "+" and left == nothing else (Binary, op, left, right)


def parts(part: object) -> Iterator[object]:
    """A part of a meaning and all inside it."""
    yield part
    for each in members(part):
        yield from parts(each)


def members(part: object) -> tuple[object, ...]:
    """Of a sequence or a part of a kernel or a meaning, its members but for its place in a file; none of anything else."""
    if isinstance(part, tuple):
        return cast("tuple[object, ...]", part)
    if isinstance(part, Mapping):
        return tuple(cast("Mapping[str, object]", part).items())
    if not is_dataclass(part) or isinstance(part, View | type):
        return ()
    return tuple(value for each in fields(part) if each.name not in _costs(part) and not isinstance(value := getattr(part, each.name), Span))


def _costs(part: object) -> AbstractSet[str]:
    """Members of a kernel's parts that decide no instruction, but tiles and their costs."""
    match part:
        case Kernel():
            return {"folder"}
        case Step():
            return {"names"}
        case Item():
            return {"limited", "varying"}
        case _:
            return frozenset()


def _same_tensor(machine: Machine, one: Tensor, other: Tensor) -> bool:
    rest = [each.name for each in fields(one) if each.name not in ("let", "values")]
    if not all(same_programs(machine, getattr(one, name), getattr(other, name)) for name in rest) or (one.values is None) != (other.values is None):
        return False
    if one.values is None or (one.let == other.let and one.values == other.values):
        return same_programs(machine, one.let, other.let)
    layout = next(each for each in machine.layouts if each.name == one.layout)
    extents = {name: known for name, expr in zip(layout.domain, one.extents, strict=False) if (known := _number(expr)) is not None}
    if math.prod(extents.values()) > MOST_POINTS:
        return False
    points = (dict(zip(extents, point, strict=True)) for point in product(*map(range, extents.values())))
    return all(_value(one, point) == _value(other, point) for point in points)


def _value(tensor: Tensor, point: Mapping[str, int]) -> Expr:
    """The tensor's value at a point, with its own names in place."""
    known = dict[str, Expr]()

    def named(expr: Expr) -> Expr:
        return plain(rewrite(substitute(expr, point, {}), lambda each: known.get(each.id) if isinstance(each, Name) else None))

    for name, expr in tensor.let.items():
        known[name] = named(expr)
    assert tensor.values is not None
    return named(tensor.values)
