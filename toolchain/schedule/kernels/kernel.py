"""Kernels of a machine: the places that a fused operation needs on chip, and the instructions of its steps as data, field by field, with loops and
conditions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolchain.spec.errors import Span
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Const, Expr
from toolchain.spec.reasons import Why, refuse


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression and the names in it."""

    expr: Expr
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Issue:
    """One instruction. fields: those that are said; all of them where registers hold them, `latches`. unit: the queue that it goes to.

    limited: fields whose values follow from sizes alone, so that they limit the size of a tile.
    """

    instruction: str
    fields: Mapping[str, Formula]
    unit: str
    latches: tuple[str, ...]
    limited: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Item:
    """An instruction or items, once for each point of `loops` (counts by variable, the first one slowest) at which `when` holds.

    let: names for the items below, each from those before it; of a call, its arguments, all from the names outside.
    varying: the loop variables on which the cost of one round depends. limited: all names that limited fields below depend on.
    """

    loops: Mapping[str, Formula]
    let: Mapping[str, Formula]
    when: Formula | None
    body: "Issue | tuple[Item, ...]"
    call: bool
    varying: frozenset[str]
    limited: frozenset[str]


Items = tuple[Item, ...]
Code = str | Items
"""How instructions are written: a template's name, or items."""


def issues(items: Items) -> tuple[Issue, ...]:
    """Every instruction that the items can issue, as written."""
    return tuple(issue for item in items for issue in ((item.body,) if isinstance(item.body, Issue) else issues(item.body)))


def formulas(items: Items) -> Iterator[Formula]:
    """Every expression of the items."""
    for item in items:
        yield from (*item.loops.values(), *item.let.values(), *((item.when,) if item.when else ()))
        yield from item.body.fields.values() if isinstance(item.body, Issue) else formulas(item.body)


@dataclass(frozen=True, slots=True)
class Require:
    """A condition on the operation, and the reason that a user reads when it does not hold."""

    that: Expr
    message: str


@dataclass(frozen=True, slots=True)
class Dimension:
    """extent: how many units there are; a tile takes up to `most` of them, a multiple of `multiple` or all that are left.

    reduces: its tiles add up in one accumulator.
    """

    name: str
    extent: Expr
    most: Expr | None
    multiple: Expr | None
    reduces: bool


@dataclass(frozen=True, slots=True)
class Window:
    """Input rows that a range of output rows (the dimension `of`) reads: of `extent`, of which `before` stand padded in front.

    An output row starts `stride` further than the last and reaches over `reach` rows; only every `step`-th row is kept.
    """

    name: str
    of: str
    stride: Expr
    reach: Expr
    before: Expr
    extent: Expr
    step: Expr


@dataclass(frozen=True, slots=True)
class Rows:
    """How a tensor that stays on chip goes on from row to row, so that it may be a ring of rows in a memory that wraps.

    of: the dimension of the tile that counts its rows. together: rows that share a line, at the same addresses of the banks of a pool. pitch: the
    name of the place that says how many elements there are from one line to the next, which may be up to `most`.
    """

    of: str
    together: Expr
    pitch: str
    most: Expr


@dataclass(frozen=True, slots=True)
class Whole:
    """How the whole tensor lies in a place, so that it can stay on chip between operations: its `size`, and `names` as in Place.

    Two operations can hand a tensor over if all of these have the same values for both. over: places whose tensor this one may
    overwrite, as each element is read before its result is written. when: whether it applies to an operation. rows: None for a tensor that is no
    ring.
    """

    size: Expr
    names: Mapping[str, Expr]
    over: tuple[str, ...]
    when: Expr | None
    rows: Rows | None = None


@dataclass(frozen=True, slots=True)
class Element:
    """Where one element of a place stands, or another number of it: an expression over the names that it `takes`, such as a row and a column."""

    takes: tuple[str, ...]
    expr: Expr


@dataclass(frozen=True, slots=True)
class Place:
    """On-chip room: `size` elements of a memory for each slot, in a memory with pools of each bank of one.

    by: the dimensions that tell its tiles apart. names: numbers of a tile that others see as PLACE_NAME. starts: where a tile starts, also as
    PLACE_NAME, from the place's names and its slot and bank. elements: the same for one element, called as PLACE_NAME(row, ...). whole: of the tensor
    of the place's name. onto: the operand on whose tile this one is made, where another operation has left it; empty for a place of its own.
    """

    name: str
    memory: str
    by: tuple[str, ...]
    size: Expr
    names: Mapping[str, Expr]
    whole: Whole | None = None
    starts: Mapping[str, Formula] = field(default_factory=dict[str, Formula])
    onto: str = ""
    elements: Mapping[str, Element] = field(default_factory=dict[str, Element])


def place_named(places: Iterable[Place], name: str) -> Place:
    """The one of this name, which is there: readers of files have looked."""
    return next(place for place in places if place.name == name)


@dataclass(frozen=True, slots=True)
class Waits:
    """A memory that streams share, in which values that are known when compiling may wait for loads: each tile is brought there once. All of them
    wait, or two tiles at a time where the dimension `by`, the first of their layout, is the outermost loop."""

    memory: str
    by: str


NEAR = {"near": 0, "near_base": 0, "near_size": 1, "near_brings": 0}
"""Names of such a tensor, and their values where nothing waits: whether it does, the first element of its room there, how many elements that has, and
whether a step only brings its tile there."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in DRAM, stored through a layout, addressed in elements of a view.

    values: each scalar, from the layout's index names, `let` and the operation's arrays; None for values that are known only when running.
    shared: the view of a memory on chip in which it may stand instead; empty where it may not. waits: where its tiles may wait; None for nowhere.
    """

    name: str
    view: str
    layout: str
    extents: tuple[Expr, ...]
    let: Mapping[str, Expr]
    values: Expr | None
    written: bool
    shared: str = ""
    waits: Waits | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """Records of a control memory, one for each point of the loops `over` (first one slowest): content that steps refer to."""

    name: str
    memory: str
    over: Mapping[str, Expr]
    fields: Mapping[str, Expr]


@dataclass(frozen=True, slots=True)
class Loading:
    """How constants get on chip: the instructions, the view that they stand behind in DRAM, and the cost of `count` records to a unit.

    cycles: None where the instructions say it.
    """

    code: Code
    view: str
    unit: str
    cycles: Expr | None


@dataclass(frozen=True, slots=True)
class Step:
    """kind: load | start | compute | finish | store. uses: other places that its instructions or its constants name. units: those that its
    instructions go to.

    cycles: how long a template's instructions keep its unit, for ranking tiles; None where the instructions themselves say it. multicast: a load
    that several streams can take at once, as PLACE_receivers says. names: those that its instructions depend on.
    """

    kind: str
    place: str
    code: Code
    uses: tuple[str, ...]
    constants: tuple[str, ...]
    units: tuple[str, ...]
    cycles: Expr | None
    when: Expr | None
    span: Span
    multicast: bool = False
    names: tuple[str, ...] = ()


COMPUTING = ("start", "compute", "finish")
"""Steps that do an operation's work; whether others are needed is not known before tensors have their places."""


def working_units(steps: Iterable[Step]) -> set[str]:
    """The units that do the work of these steps."""
    return {unit for step in steps if step.kind in COMPUTING for unit in step.units}


@dataclass(frozen=True, slots=True)
class Library:
    """The C library of a machine, files beside its kernels. header: declares the functions and the structures that hold their arguments."""

    folder: Path
    header: str
    sources: tuple[str, ...]

    def files(self) -> dict[str, bytes]:
        """Its files by name, which a region's code is compiled with."""
        return {name: (self.folder / name).read_bytes() for name in (self.header, *self.sources)}


@dataclass(frozen=True, slots=True)
class Call:
    """A function that does the whole operation on tensors in memory. arguments: by member of its structure, the tensor whose address it takes, or a
    number. cycles: None where the file does not say them."""

    library: Library
    function: str
    arguments: Mapping[str, Expr | str]
    cycles: Expr | None


@dataclass(frozen=True, slots=True)
class Kernel:
    """computes: the kind of operation. folder: where its templates stand. loading: for its constants, where it has any.

    pools: by memory, how many neighbouring banks one slot takes part of. registers: the memory of the host's base registers, empty
    where addresses are absolute; segments: by name, the register that holds its address. begin, end: a program's first and last
    instructions. axes: by axis of the result (n, c, h, w), the dimension that cuts it; none for a kernel that shares its tiles with no other.
    passed: operands that it does not load, as another operation of its group has left them on chip. call: of a machine whose code is C; its kernels
    have no tiles, places and steps.
    """

    name: str
    computes: str
    folder: Path
    let: Mapping[str, Expr]
    requires: tuple[Require, ...]
    tile: tuple[Dimension, ...]
    where: tuple[Expr, ...]
    windows: tuple[Window, ...]
    places: tuple[Place, ...]
    tensors: tuple[Tensor, ...]
    constants: tuple[Constant, ...]
    steps: tuple[Step, ...]
    loading: Loading | None
    end: Code
    span: Span
    pools: Mapping[str, int] = field(default_factory=dict[str, int])
    registers: str = ""
    segments: Mapping[str, int] = field(default_factory=dict[str, int])
    begin: Code = ()
    axes: Mapping[str, str] = field(default_factory=dict[str, str])
    passed: tuple[str, ...] = ()
    call: Call | None = None

    def place(self, name: str) -> Place:
        """The place of this name."""
        return place_named(self.places, name)

    @property
    def shut(self) -> str:
        """Why it takes no operation at all in this configuration of its machine; empty where it may take some."""
        return next((require.message for require in self.requires if isinstance(require.that, Const) and not require.that.value), "")

    @property
    def handed(self) -> dict[str, str]:
        """Places without slots of their own, and the passed operand that stands there."""
        found = {place.name: place.onto or place.name for place in self.places}
        return {place: operand for place, operand in found.items() if operand in self.passed}

    @property
    def in_place(self) -> bool:
        """Whether the result is made upon a tile that another operation of the group has left."""
        return any(place.onto in self.passed for place in self.places)

    @property
    def loops(self) -> tuple[Dimension, ...]:
        """Dimensions that do not reduce."""
        return tuple(d for d in self.tile if not d.reduces)

    @property
    def reductions(self) -> tuple[Dimension, ...]:
        return tuple(d for d in self.tile if d.reduces)


@dataclass(frozen=True, slots=True, eq=False)
class KernelKey:
    """A kernel compared by identity, for caches: its mappings have no hash, and one Kernel object never changes."""

    kernel: Kernel

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelKey) and self.kernel is other.kernel

    def __hash__(self) -> int:
        return id(self.kernel)


def numbers_of(kernel: Kernel, numbers: Mapping[str, int]) -> dict[str, int]:
    """The operation's numbers and those that the kernel derives from them. Raises UserError E1003 with the reason why it cannot do it."""
    known = dict(numbers)
    for name, expr in kernel.let.items():
        known[name] = constant(expr, known)
    for require in kernel.requires:
        if not constant(require.that, known):
            raise refuse("E1003", Why.REQUIRES(kernel=kernel.name, note=require.message), require.that.span)
    return known
