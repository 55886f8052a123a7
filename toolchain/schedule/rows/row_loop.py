"""The rows of a tensor in a loop: those that a slab of an operation makes, those of each operand that it reads, and those that its load, or one load
for all operations of a group, brings into a ring."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from toolchain.operations.operation import PICTURE_AXES
from toolchain.operations.reads import positions
from toolchain.schedule.kernels.frame import Frame
from toolchain.schedule.kernels.kernel import Place, Step, Window, formulas
from toolchain.schedule.kernels.kernel_names import OF_WINDOW
from toolchain.schedule.kernels.limits import Known, faults
from toolchain.schedule.kernels.pools import Slot
from toolchain.schedule.kernels.problem import Kept, Problem, loaded_names
from toolchain.schedule.kernels.sequence_file import formula_of
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.placement.on_chip_allocation import Candidate, Lines, Use, common_lines, find_use
from toolchain.schedule.regions.region import Region
from toolchain.spec.evaluate import constant

HEIGHT = 2
"""The axis of a picture [batch, channels, height, width] that counts rows."""


@dataclass(frozen=True)
class RowLoop:
    """The outermost loop of an operation: slabs of `size` units of the dimension that counts rows. A unit is one row of the result or several."""

    problem: Problem
    dimension: str
    size: int

    @cached_property
    def count(self) -> int:
        """Slabs."""
        return -(-self.problem.extents[self.dimension] // self.size)

    @cached_property
    def height(self) -> int:
        """Rows of the whole result."""
        return self.problem.operation.output[HEIGHT]

    def made(self, slab: int) -> range:
        """The rows of the result that a slab makes."""
        return range(slab * self._rows, min((slab + 1) * self._rows, self.height))

    @cached_property
    def _rows(self) -> int:
        """Rows of a full slab."""
        return self.size * -(-self.height // self.problem.extents[self.dimension])

    def read(self, slab: int) -> dict[str, range]:
        """By computed operand, the rows that a slab reads."""
        return {name: rows[slab] for name, rows in self._read.items()}

    def reads(self, place: str) -> list[range]:
        """By slab, the rows that it reads of a computed operand; empty for any other place."""
        return self._read.get(place, [])

    @cached_property
    def _read(self) -> dict[str, list[range]]:
        """By computed operand, the rows that each slab reads."""
        operation, starts = self.problem.operation, np.array([self.made(slab).start for slab in range(self.count)])
        kind, axes = operation.kind, list(operation.kind.result.axes)
        found = positions(kind, operation.numbers, axes[PICTURE_AXES[len(axes)].index(HEIGHT)])
        read = dict[str, list[range]]()
        for name in kind.data:
            own, form = found.get(name, ()), PICTURE_AXES.get(len(found.get(name, ())), ())
            if HEIGHT in form:
                rows = own[form.index(HEIGHT)]
                read[name] = list(map(range, np.minimum.reduceat(rows.first, starts).tolist(), np.maximum.reduceat(rows.stop, starts).tolist()))
            else:
                read[name] = [range(operation.input(name)[HEIGHT])] * self.count
        return read

    def touched(self, slab: int) -> dict[str, range]:
        """By place, the rows of all computed tensors that a slab reads or makes."""
        return {**self.read(slab), "y": self.made(slab)}

    def slab_of(self, row: int) -> int:
        """The slab that makes a row of the result."""
        return row // max(len(self.made(0)), 1)


def row_dimension(problem: Problem) -> str | None:
    """The dimension of the tile that counts rows of the result, one by one or so many at a time, as the kernel says for tensors that may be rings.

    None where it says nothing, or the result has no such rows.
    """
    axes = len(problem.operation.kind.result.axes)
    named = {place.whole.rows.of for place in problem.kernel.places if place.whole and place.whole.rows}
    if len(named) != 1 or HEIGHT not in PICTURE_AXES.get(axes, ()):
        return None
    name = named.pop()
    return name if problem.operation.output[HEIGHT] % problem.extents[name] == 0 else None


def row_step(problem: Problem, use: Use, count: int) -> Step | None:
    """The load of the use's place, where it brings any rows, each of them whole, `count` at a time; else None. problem: with nothing on chip.

    A load that leaves out rows or columns, that sees other rows than the tensor's (folded ones), or that names the part of the result which a tile
    makes, cannot do so. Windows that it does not see, as those of the result's own rows, do not matter.
    """
    dimension, step, place = row_dimension(problem), problem.loads(use.place.name), use.place
    if dimension is None or dimension not in place.by or step is None or isinstance(step.code, str) or step.uses or use.lines is None:
        return None
    told = frozenset[str]().union(*(formula.names for formula in (*formulas(step.code), *place.starts.values())))
    seen = told.union(*(formula_of(expr).names for expr in (place.size, *place.names.values())))
    windows = [window for window in problem.kernel.windows if window.of in place.by and seen & {f"{window.name}_{part}" for part in OF_WINDOW}]
    rows = [window for window in windows if window.of == dimension]
    height = problem.operation.input(place.name)[HEIGHT]
    whole = all(constant(window.step, problem.numbers) == 1 for window in windows)
    if not whole or not rows or any(constant(window.extent, problem.numbers) != height for window in rows):
        return None
    if told & set(_of_tiles(dimension, rows)):
        return None
    known = _names(problem, use, count) | {f"{place.name}_{name}": value for name, value in use.names.items()}
    frame = Frame(1, known.__getitem__)
    return None if any(faults(problem.machine, step.code, Known(frame, frozenset(known)), np.arange(1))) else step


def row_lines(problem: Problem, use: Use) -> Lines | None:
    """The lines in which the operation's own load brings whole rows: those of the tensor on chip, or closer ones where a word has several pixels.
    None where such rows differ from the tensor on chip in more than that."""
    assert use.lines is not None
    pitch, names = use.lines.pitch, _names(problem, use, use.lines.together)
    if not all(formula_of(expr).names <= names.keys() for expr in use.place.names.values()):
        return None
    own = {name: constant(expr, names) for name, expr in use.place.names.items()}
    if own[pitch] == use.lines.line:
        return use.lines
    return replace(use.lines, line=own[pitch]) if own == {**use.names, pitch: own[pitch]} else None


def _names(problem: Problem, use: Use, count: int) -> dict[str, int]:
    """Names that a load of the first rows sees."""
    height = problem.operation.input(use.place.name)[HEIGHT]
    return {**problem.numbers, **row_names(problem, use.place, range(min(count, height)))}


def row_names(problem: Problem, place: Place, rows: range) -> dict[str, int]:
    """The names that a load of these rows sees of its tile: all of every dimension but that of the rows."""
    dimension = row_dimension(problem)
    names = {name: extent for name, extent in problem.extents.items() if name in place.by and name != dimension}
    names |= {f"{name}_at": 0 for name in names}
    for window in (w for w in problem.kernel.windows if w.of in place.by):
        names |= loaded_names(window, rows if window.of == dimension else range(constant(window.extent, problem.numbers)))
    return names


def ring_names(problem: Problem, place: Place, kept: Kept, rows: range) -> dict[str, int]:
    """The names of a load's place, whose slot is that of its first row: those of the ring, moved as far as these rows move those of a tile."""
    here, first = ({**problem.numbers, **row_names(problem, place, part)} for part in (rows, range(len(rows))))
    return {key: kept.names[key] + constant(expr, here) - constant(expr, first) for key, expr in place.names.items()}


def _of_tiles(dimension: str, windows: list[Window]) -> Iterator[str]:
    """Names that say which rows of the result a tile makes, or the parts of its window beside rows."""
    yield from (dimension, f"{dimension}_at")
    yield from (f"{window.name}_{key}" for window in windows for key in ("before", "after", "window"))


def whole_tile(problem: Problem, place: Place) -> Mapping[str, tuple[int, int]]:
    """The tile of a load of rows: all of every dimension but that of the rows."""
    return {name: (0, problem.extents[name]) for name in place.by if name != row_dimension(problem)}


@dataclass(frozen=True)
class RowLoad:
    """A maker of slabs among the operations of a group. tensor: the buffer in DRAM. ring: its name on chip. member, place: the operation (by its
    number in the group) whose load brings the rows. height: rows of the tensor. size: how many are loaded at a time, whole
    lines."""

    tensor: str
    ring: str
    member: int
    place: str
    height: int
    size: int
    lines: Lines

    def slot(self, kept: Kept, slab: int, number: int) -> Slot:
        """The slot of a slab's first line in a round. kept: the ring, as the operation has it."""
        bank, begin = kept.slot_in(number)
        at = begin + self.made(slab).start // self.lines.together * kept.names[self.lines.pitch]
        return Slot(bank, at if kept.ring else at % kept.size)

    @property
    def count(self) -> int:
        """Slabs."""
        return -(-self.height // self.size)

    def made(self, slab: int) -> range:
        """The rows that a slab brings."""
        return range(slab * self.size, min((slab + 1) * self.size, self.height))

    def read(self, slab: int) -> dict[str, range]:  # noqa: ARG002 as operations have it
        """No operand of its own: it reads DRAM."""
        return {}

    def touched(self, slab: int) -> dict[str, range]:
        """By place, the rows that a slab brings."""
        return {self.place: self.made(slab)}

    def slab_of(self, row: int) -> int:
        """The slab that brings a row."""
        return row // self.size


@dataclass(frozen=True)
class Loadable:
    """tensor: the buffer in DRAM. candidate: the ring, read by operations of one group. loader: one of its readers, whose load can bring rows.
    height: rows of the tensor."""

    tensor: str
    candidate: Candidate
    loader: Use
    height: int
    lines: Lines

    def load(self, members: range, size: int) -> RowLoad:
        """The load, so many rows at a time."""
        return RowLoad(self.tensor, self.candidate.name, self.loader.operation - members[0], self.loader.place.name, self.height, size, self.lines)


def find_loadable(region: Region, problems: Sequence[Problem], storage: Storage, members: range, tensor: str) -> Loadable | None:
    """A buffer as a ring that operations load together; None where no load of theirs can bring its rows, or one of them makes a part of it.

    problems: of all operations, with nothing on chip. An operation that has the tensor in another form reads DRAM by itself.
    """
    bound = [
        (index, place, name) for index in members for place, name in region.operations[index].tensors.items() if storage.places[name][0] == tensor
    ]
    if any(place == "y" for _, place, _ in bound):
        return None
    uses = [(use, name) for index, place, name in bound if (use := find_use(problems[index], index, place, storage, name)) is not None]
    whole = [(use, name) for use, name in uses if region.tensors[name].channels == storage.buffers[tensor].channels]
    found = next(((use, name) for use, name in whole if _can_load(problems[use.operation], use)), None)
    ring = ring_name(tensor, members)
    if found is None or ring in storage.buffers:
        return None
    loader, name = found
    own = row_lines(problems[loader.operation], loader)
    reads = tuple(use for use, _ in uses if use.form == loader.form) if own == loader.lines else (loader,)
    lines = common_lines([use.lines for use in reads]) if own == loader.lines else own
    if lines is None:
        return None
    candidate = Candidate(ring, loader.form[0], loader.form[1], (), reads, members[0], members[-1], True, (), lines)
    return Loadable(tensor, candidate, loader, region.tensors[name].height, lines)


def _can_load(problem: Problem, use: Use) -> bool:
    return use.lines is not None and row_step(problem, use, use.lines.together) is not None and row_lines(problem, use) is not None


def ring_name(tensor: str, members: range) -> str:
    """A name for the ring among all buffers on chip: other groups may load the tensor too."""
    return f"{members[0]} {tensor}"
