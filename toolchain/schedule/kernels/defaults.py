"""Everything that a kernel need not state: the numbers of its pictures, tensors in the machine's one layout and the views that reach them,
windows read off the index expression, and the dimensions of a place."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.traverse import addresses, expressions, partial
from toolchain.operations.kind import Operand, OperationKind
from toolchain.operations.operation import PICTURE_AXES
from toolchain.schedule.kernels.kernel import Dimension, Issue, Items, Step, Tensor, Window
from toolchain.schedule.kernels.kernel_names import OF_WINDOW, mentioned
from toolchain.schedule.kernels.kernel_parts import STEPS
from toolchain.schedule.kernels.looped_issue import ONE, ZERO, minus, plus, times
from toolchain.schedule.kernels.sequence_file import unsaid
from toolchain.spec.errors import fail
from toolchain.spec.expr import Binary, Call, Choose, Const, Expr, Index, Name, children, walk
from toolchain.spec.model import Layout, Machine
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.yaml_nodes import Node

PICTURE = "nchw"
"""The axes of a tensor that operations pass on."""
GIVEN = {"batch": "n", "in_channels": "c", "height": "h", "width": "w"}
MADE = {"out_channels": "c", "out_height": "h", "out_width": "w"}

WORD = re.compile(r"[A-Za-z_]\w*")
TILE = ("size", "names", "starts", "load")
"""The keys of a shape that concern a tile that is loaded."""


def picture_extents(operand: Operand) -> dict[str, Expr]:
    """By axis of a picture, the number that says its extent; 1 for an axis that the tensor lacks, none where it has other axes."""
    axes = PICTURE_AXES.get(len(operand.axes))
    if axes is None or operand.many:
        return {}
    named: dict[str, Expr] = {PICTURE[axis]: Name(extent) for axis, extent in zip(axes, operand.extents, strict=True)}
    return {axis: named.get(axis, Const(1)) for axis in PICTURE}


def picture_numbers(kind: OperationKind) -> dict[str, Expr]:
    """The numbers by name, without those that the operation has itself."""
    given = picture_extents(kind.operand[kind.data[0]]) if kind.data else {}
    made = picture_extents(kind.result)
    found: Mapping[str, Expr] = {name: extents[axis] for names, extents in ((GIVEN, given), (MADE, made)) if extents for name, axis in names.items()}
    return {name: expr for name, expr in found.items() if name not in kind.numbers}


def sum_numbers(kind: OperationKind, numerics: Numerics | None) -> dict[str, Expr]:
    """`sum_least` and `sum_most`: between them are all sums of stored elements by the operation's multipliers. None for other operations, and where
    zero is not stored as zero."""
    if numerics is None or numerics.zero_points or kind.form not in ("average", "aligned"):
        return {}
    low, high = (-128, 127) if numerics.stored == "int8" else (0, 255)
    size: Expr = Const(1)
    for extent in kind.meaning.over.values():
        size = times(size, Name(extent))
    ends = {"sum_least": "min", "sum_most": "max"}
    sums: dict[str, Expr] = dict.fromkeys(ends, ZERO)
    for name in kind.multipliers:
        for end, choose in ends.items():
            reached = Call(Name(choose), (times(Const(low), Name(name)), times(Const(high), Name(name))))
            sums[end] = plus(sums[end], times(size, reached))
    return sums


@dataclass
class _Sum:
    """An index as a sum: the factor of each loop, and the rest."""

    factors: dict[str, Expr] = field(default_factory=dict[str, Expr])
    rest: Expr = ZERO


def derived_window(kind: OperationKind, axis: str) -> dict[str, Expr]:
    """`stride`, `reach`, `before` and `extent` of the first operand's axis h or w, as numbers of the operation.

    None where its index is no sum of loops times numbers.
    """
    if not kind.data or kind.meaning.of is None or axis not in PICTURE:
        return {}
    name, extents = kind.data[0], picture_extents(kind.operand[kind.data[0]])
    reads = [e for e in walk(kind.meaning.of) if isinstance(e, Index) and isinstance(e.base, Name) and e.base.id == name]
    places = [number for number, extent in enumerate(kind.operand[name].extents) if extents.get(axis) == Name(extent)]
    indices = [read.index[places[0]] for read in reads] if len(places) == 1 else []
    if not indices or any(index != indices[0] for index in indices):
        return {}
    found = _sum_of(indices[0], {*kind.result.axes, *kind.meaning.over})
    moved = [factor for loop, factor in found.factors.items() if loop in kind.result.axes] if found else []
    if found is None or len(moved) != 1:
        return {}
    reach: Expr = ONE
    for loop, factor in found.factors.items():
        if loop in kind.meaning.over:
            reach = plus(reach, times(Binary("-", Name(kind.meaning.over[loop]), ONE), factor))
    return {"stride": moved[0], "reach": reach, "before": minus(ZERO, found.rest), "extent": extents[axis]}


def folded(window: Mapping[str, Expr], fold: Expr) -> dict[str, Expr]:
    """The window where the layout of the operand puts `fold` rows into one, of which the stride is a multiple: zeros make the first row whole."""
    if fold == ONE or not window:
        return dict(window)

    def up(expr: Expr) -> Expr:
        return Call(Name("ceil_div"), (expr, fold))

    begun = plus(window["reach"], Binary("%", minus(ZERO, window["before"]), fold))
    return {"stride": Binary("//", window["stride"], fold), "reach": up(begun), "before": up(window["before"]), "extent": up(window["extent"])}


def _sum_of(expr: Expr, loops: Iterable[str]) -> _Sum | None:
    """None for anything but sums of loops times numbers."""
    loops = frozenset(loops)
    if not any(isinstance(e, Name) and e.id in loops for e in walk(expr)):
        return _Sum({}, expr)
    match expr:
        case Name(id=name):
            return _Sum({name: ONE})
        case Binary(op="*", left=left, right=right):
            a, b = _sum_of(left, loops), _sum_of(right, loops)
            if a is None or b is None or (a.factors and b.factors):
                return None
            scaled, by = (a, b.rest) if a.factors else (b, a.rest)
            return _Sum({loop: times(factor, by) for loop, factor in scaled.factors.items()}, times(scaled.rest, by))
        case Binary(op="+" | "-" as op, left=left, right=right):
            a, b = _sum_of(left, loops), _sum_of(right, loops)
            if a is None or b is None or a.factors.keys() & b.factors.keys() or (op == "-" and b.factors):
                return None
            return _Sum({**a.factors, **b.factors}, plus(a.rest, b.rest) if op == "+" else minus(a.rest, b.rest))
        case _:
            return None


def told_apart(name: str, node: Node, kernel: Node, shapes: Mapping[str, Node], result: str, folder: Path) -> frozenset[str] | None:
    """The names that the load of a place depends on. None for a place that no step of the kernel or of its shape loads.

    node: the place, as written. result: the tensor that the operation makes, which is not loaded.
    """
    own = [step for step in kernel.entries("steps") if _loads(step, name)]
    shape = shapes.get(str(called.value)) if (called := node.get("shape")) else None
    if own:
        codes = [code for step in own for key in ("do", "template") if (code := step.get(key))]
        texts = [(*mentioned(folder, str(code.value)),) if isinstance(code.value, str) else tuple(_words(code)) for code in codes]
        return frozenset(word for words in texts for word in words)
    if shape is None or shape.get("load") is None or node.get("onto") or name == result:
        return None
    found = {word for key in TILE if (said := shape.get(key)) for word in _words(said)}
    for key, value in reversed(shape.members("arguments")):  # a default may name what is taken before it
        if key in found:
            found = found - {key} | set(_words(node.get(key) or value))
    return frozenset(found)


def dimensions_named(words: frozenset[str] | None, dims: Iterable[Dimension], windows: Iterable[Window]) -> tuple[str, ...]:
    """Dimensions whose range, or whose window, is named; those that do not reduce for a place that is not loaded."""
    if words is None:
        return tuple(d.name for d in dims if not d.reduces)
    read = {window.of for window in windows if words & {f"{window.name}_{part}" for part in OF_WINDOW}}
    return tuple(d.name for d in dims if d.name in read or words & {d.name, f"{d.name}_at"})


def _loads(step: Node, place: str) -> bool:
    """A step of two kinds is for the reader of steps to refuse."""
    return [step.value[kind].value for kind in STEPS if step.get(kind)] == [place] and step.get("load") is not None


def _words(node: Node) -> Iterator[str]:
    """Every word in the scalars below a node."""
    if isinstance(node.value, dict | list):
        for child in node.children():
            yield from _words(child)
    else:
        yield from WORD.findall(str(node.value))


def views_reached(machine: Machine, items: Items, assumed: Mapping[str, int] | None = None) -> tuple[str, ...]:
    """Views of all memories that some instruction reads or writes, as far as its fields and conditions tell, each once. assumed: values of names in
    these."""
    return tuple(dict.fromkeys(view for issue in _issued(items, assumed or {}) for view in _of_issue(machine, issue, assumed or {})))


def _issued(items: Items, assumed: Mapping[str, int]) -> Iterator[Issue]:
    """Instructions whose conditions may hold."""
    for item in items:
        if item.when is None or partial(item.when.expr, assumed) != 0:
            yield from (item.body,) if isinstance(item.body, Issue) else _issued(item.body, assumed)


def dram_views(machine: Machine, items: Items, assumed: Mapping[str, int] | None = None) -> tuple[str, ...]:
    """Views of DRAM alone, as `views_reached`."""
    return tuple(view for view in views_reached(machine, items, assumed) if machine.memory[machine.view[view].memory].kind == "dram")


def _of_issue(machine: Machine, issue: Issue, assumed: Mapping[str, int]) -> Iterator[str]:
    instruction = machine.instruction[issue.instruction]
    given = {f.name: unsaid(instruction, f.name) for f in instruction.fields if f.name not in issue.fields}
    known = {name: partial(formula.expr, assumed) for name, formula in issue.fields.items()}
    given |= {name: value for name, value in known.items() if value is not None}
    for access in _accesses(machine_semantics(machine)[issue.instruction].body, given):
        yield access.view.name


def _accesses(body: Iterable[ir.Stmt], given: Mapping[str, int]) -> Iterator[ir.Access]:
    """Accesses of statements that may be reached with these fields."""
    for stmt in body:
        if isinstance(stmt, ir.Store):
            yield stmt.access
        yield from (access for expr in expressions(stmt) for access in _reads(expr, given))
        match stmt:
            case ir.For(body=inner):
                yield from _accesses(inner, given)
            case ir.If(condition=condition, then=then, other=other):
                met = partial(condition, given)
                yield from _accesses((*then, *other) if met is None else then if met else other, given)
            case _:
                pass


def _reads(expr: Expr, given: Mapping[str, int]) -> Iterator[ir.Access]:
    """Accesses of an expression, not those on the side of a choice that these fields leave out."""
    met = partial(expr.condition, given) if isinstance(expr, Choose) else None
    if isinstance(expr, Choose) and met is not None:
        yield from _reads(expr.then if met else expr.other, given)
        return
    if isinstance(expr, ir.Load | ir.ControlRead):
        yield expr.access
    for child in addresses(expr.access) if isinstance(expr, ir.Load | ir.ControlRead) else children(expr):
        yield from _reads(child, given)


def default_tensors(machine: Machine, kind: OperationKind, stated: Iterable[str], node: Node) -> Iterator[Tensor]:
    """Computed operands and the result. Raises UserError E1002 where it is not clear in which layout the result stands."""
    written = [layout for layout in machine.layouts if layout.written]
    layouts = [layout for layout in written if sorted(layout.domain) == sorted(PICTURE)]
    if len(layouts) != 1:
        if kind.result.name in stated:
            return
        told = [f"layout '{layout.name}' has the indices {' '.join(layout.domain)}" for layout in written] or ["the machine writes no layout"]
        text = f"{' and '.join(told)}; those of a tensor that operations read or write are n, c, h and w"
        raise fail("E1002", text, node.where(), f"without one such layout, '{kind.result.name}' needs an entry in 'tensors'")
    for operand in (*(kind.operand[name] for name in kind.data), kind.result):
        extents = picture_extents(operand)
        if extents and operand.name not in stated:
            ordered = tuple(extents[index] for index in layouts[0].domain)
            yield Tensor(operand.name, "", layouts[0].name, ordered, {}, None, operand is kind.result)


def array_indices(operand: Operand, layout: Layout) -> dict[str, str]:
    """By index of the layout, that of an array which is stored as it is: the one of the same name; the others stand in the same order.

    Empty where the array has another number of indices.
    """
    if len(operand.axes) != len(layout.domain):
        return {}
    others = iter(axis for axis in operand.axes if axis not in layout.domain)
    return {index: index if index in operand.axes else next(others) for index in layout.domain}


def reached(steps: Iterable[Step], tensor: Tensor) -> bool:
    """Whether some step loads or stores it: an operand that none reaches has been left on chip."""
    return tensor.written or any(f"{tensor.name}_base" in step.names for step in steps)


def with_views(machine: Machine, tensors: Iterable[Tensor], steps: Iterable[Step], node: Node) -> tuple[Tensor, ...]:
    """Tensors whose views are not stated get those of the instructions that reach them. Raises UserError E1002 where these do not tell."""
    codes = [(step.code, step.names) for step in steps if not isinstance(step.code, str)]
    return tuple(_viewed(machine, tensor, codes, node) for tensor in tensors)


def _viewed(machine: Machine, tensor: Tensor, codes: Iterable[tuple[Items, tuple[str, ...]]], node: Node) -> Tensor:
    found = [code for code, names in codes if f"{tensor.name}_base" in names]
    if not tensor.view:
        stated = dict(node.members("tensors")).get(tensor.name, node)
        tensor = replace(tensor, view=only_view(machine, found, f"tensor '{tensor.name}'", stated, {f"{tensor.name}_shared": 0}))
    if tensor.shared or not any(f"{tensor.name}_shared" in names for _, names in codes):
        return tensor
    apart, shared = ({v for code in found for v in views_reached(machine, code, {f"{tensor.name}_shared": value})} for value in (0, 1))
    if len(shared - apart) != 1:
        raise fail("E1002", f"where '{tensor.name}_shared' is 1, the instructions of '{tensor.name}' do not reach one other view", node.where())
    return replace(tensor, shared=(shared - apart).pop())


def only_view(machine: Machine, codes: Iterable[Items], what: str, node: Node, assumed: Mapping[str, int] | None = None) -> str:
    """The one view of DRAM that all these instructions reach. Raises UserError E1002."""
    views = tuple(dict.fromkeys(view for code in codes for view in dram_views(machine, code, assumed)))
    if len(views) != 1:
        reach = f"its instructions reach {' and '.join(views)}" if views else "no instruction with its address reaches DRAM"
        raise fail("E1002", f"{what} needs a 'view': {reach}", node.where())
    return views[0]
