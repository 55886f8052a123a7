"""Conventions between software and the host: layouts, costs, numeric rules; and area, energy and power, term by term."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from toolchain.spec.errors import Span
from toolchain.spec.expr import Expr
from toolchain.spec.model.types import ScalarType
from toolchain.spec.typed_json import Tree
from toolchain.spec.yaml_nodes import Node

RUN_COUNTS = ("macs", "cycles")
"""Counts of a run that energy may be stated for, beside the bytes read from and written to each memory."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that a decision rests on, and where it comes from."""

    value: float
    source: str
    assumed: bool = False
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Copies:
    """An index of a layout's map that no host tensor has: elements are stored `count` times."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Layout:
    """How a host tensor is stored: the element at index `domain` stands at index `map` of an array of `shape`, once for each value of `copies`.

    domain: index names in the host's order; extents: the name of each one's extent, which `shape` may use. copies: further names in `map`, each
    with the number of its values; only where the machine does not write.
    Each stored element has at most one source; those without one hold zero. inverse: from names `stored` back to the
    host's index, given where the machine writes (`written`). gb_per_s: how fast the host rearranges, where declared.
    """

    name: str
    domain: tuple[str, ...]
    extents: tuple[str, ...]
    map: tuple[Expr, ...]
    shape: tuple[Expr, ...]
    stored: tuple[str, ...] = ()
    inverse: tuple[Expr, ...] = ()
    type: ScalarType | None = None
    written: bool = False
    gb_per_s: Quantity | None = None
    doc: str = ""
    copies: tuple[Copies, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    def chosen(self) -> Iterator[dict[str, int]]:
        """The names of `copies` with their values, for each place of an element; once without any."""
        for values in itertools.product(*(range(copies.count) for copies in self.copies)):
            yield {copies.name: value for copies, value in zip(self.copies, values, strict=True)}


@dataclass(frozen=True, slots=True)
class Host:
    """The declared speed of the host. gmac_per_s: by kind of operator, `default` for the rest; gb_per_s: operators without MACs.
    step_us: to start a step of a loop (Loop, Scan), beside its operators; None for no time.
    """

    gmac_per_s: Mapping[str, Quantity]
    gb_per_s: Quantity
    launch_us: Quantity
    transfer_us: Quantity
    transfer_gb_per_s: Quantity
    step_us: Quantity | None = None


@dataclass(frozen=True, slots=True)
class RegionLimits:
    """The most that one region may have, of one sample; None: as much as there is. parameter_bytes: of constants. result_bytes: of all results of its
    operations, as if none took the room of another."""

    operations: int | None = None
    macs: int | None = None
    parameter_bytes: int | None = None
    result_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may be from ONNX Runtime's: `absolute` + `relative` times its size. because: the reason that readers of verdicts see."""

    absolute: float
    relative: float
    because: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A vendor's own compiler, which makes code of regions, and the process in which it runs. compiler, device: names of programs, of which the
    user says where they are. arguments: for the compiler, after its files. seconds, megabytes: the most that a region's compilation may take, and
    its code be large."""

    compiler: str
    device: str
    arguments: tuple[str, ...]
    seconds: int
    megabytes: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A named numeric rule that semantics call: a rounding shift (`rounding`) or a narrowing (`type`, `overflow`)."""

    name: str
    rounding: str = ""
    type: ScalarType | None = None
    overflow: str = ""
    low: int | None = None
    high: int | None = None
    source: str = ""
    assumed: bool = False
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Outline:
    """A section that a layer above gives its meaning. data: plain lists and mappings; node: the same with every place in the file."""

    data: Tree
    node: Node = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CostTerm:
    """each: of one piece, in the unit of the list that it stands in. count: how many pieces the machine has. per: the counts of a run that it is
    spent for, added up: `macs` (the model's own on the machine), `cycles`, `MEMORY.read` and `MEMORY.written` (bytes of all instances)."""

    name: str
    each: float
    count: int
    source: str
    per: tuple[str, ...] = ()
    assumed: bool = False
    doc: str = ""

    @property
    def amount(self) -> float:
        """The total of the machine, or for one of the counts in `per`."""
        return self.each * self.count


@dataclass(frozen=True, slots=True)
class MachineCosts:
    """area_um2: square micrometres of the chip. energy_pj: picojoules that a run spends. static_uw: microwatts that flow at any time."""

    area_um2: tuple[CostTerm, ...] = ()
    energy_pj: tuple[CostTerm, ...] = ()
    static_uw: tuple[CostTerm, ...] = ()

    @property
    def area_mm2(self) -> float:
        """Square millimetres of all terms."""
        return sum(term.amount for term in self.area_um2) / 1e6

    def energy_uj(self, counts: Mapping[str, float], ms: float) -> float:
        """Microjoules of a run. counts: by the names that `per` lists. ms: of the run. Raises KeyError for a count that is not given."""
        spent = sum(term.amount * sum(counts[name] for name in term.per) for term in self.energy_pj)
        return spent / 1e6 + sum(term.amount for term in self.static_uw) * ms / 1e3
