"""Counting counters, and which instructions wait on them and post them."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolchain.spec.expr import Expr


@dataclass(frozen=True, slots=True)
class Counter:
    """A counting counter array. source and target: unit names, for drawings and messages; empty for events.

    scope: instances as for memories. mode: counting | flag | all_prior. depth None is unbounded. stops: whoever posts to it, or waits for it, stands
    still as a whole: all units of the stream are done before, and none goes on until it is done.
    """

    name: str
    source: str
    target: str
    depth: int | None = None
    initial: int = 0
    count: int = 1
    scope: str = "device"
    mode: str = "counting"
    doc: str = ""
    stops: bool = False


@dataclass(frozen=True, slots=True)
class SyncRule:
    """kind: wait (at issue) or post (at completion), for the named instructions when they run on the named units.

    over: for posts to other instances, (level, mask expression) pairs; bit i of the mask selects instance i.
    """

    kind: str
    counter: str
    when: Expr
    index: Expr
    amount: Expr
    units: tuple[str, ...]
    instructions: tuple[str, ...]
    over: tuple[tuple[str, Expr], ...] = ()

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything in it that names fields."""
        return (self.when, self.index, self.amount, *(mask for _, mask in self.over))


@dataclass(frozen=True, slots=True)
class Watch:
    """Accesses of unit `target` to these memories come after those of earlier instructions of `source`.

    lag: the two run coupled: results of `source` stream into `target`, which may start so many cycles after it started and ends no earlier
    than it does. None: it starts when those before it are done.
    """

    source: str
    target: str
    memories: tuple[str, ...]
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class Interlock:
    """Orders that the hardware keeps by itself in each stream, by issue order.

    window: the most instructions under way; the next one is not issued. None is unbounded. looks_back: the number of earlier instructions
    that an instruction is compared with; None is all. granularity: elements of a memory that are compared as one; 0 is all of them.
    fences: instructions that start when all before them are done, and before any after them starts.
    """

    watches: tuple[Watch, ...]
    window: int | None = None
    looks_back: int | None = None
    granularity: tuple[tuple[str, int], ...] = ()
    fences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Illegal:
    """A sync field that must be zero on a unit that has no counter for it."""

    field: str
    bit: int
    unit: str


@dataclass(frozen=True, slots=True)
class Nop:
    """An instruction of a unit without an effect. fields: the value of every field that does not identify it."""

    unit: str
    instruction: str
    fields: Mapping[str, int]
