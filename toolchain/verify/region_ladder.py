"""One region on the machine against the integer network, or in the floating arithmetic that its machine declares: every tensor, as soon as it is
complete."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import onnx_ir as ir

from toolchain.abi.dram_map import Shape
from toolchain.accuracy.errors import Energy
from toolchain.analysis.checks import Checked, check_program, prepare_program
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State
from toolchain.emulator import engine_named
from toolchain.graph.integers.calls import BOUNDARY, run_call
from toolchain.graph.integers.functions import is_integer, kind_of
from toolchain.graph.quantisation.table import sample_at, sample_count
from toolchain.graph.rewrite import constant
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.program import Ints, Program
from toolchain.operations.library import Kinds
from toolchain.operations.operation import to_picture
from toolchain.schedule.placement.shared_memory import copied_values
from toolchain.schedule.regions.region import Region
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError
from toolchain.spec.model.quantisation import Numerics
from toolchain.verify.built import Bytes, ProgramUnderTest
from toolchain.verify.compare import Comparison, FirstDifference, first_difference, unite
from toolchain.verify.on_chip import Beside, OnChipReader, Piece, TensorReader, describe_writer, last_writer
from toolchain.verify.reference_sample import SampleSize, sample_reference
from toolchain.verify.verdict import Compared, Difference, RegionVerdict

Tensors = Mapping[str, Array]


@dataclass(frozen=True)
class Declared:
    """tensors: by name, [samples, *shape]. furthest: the one that ONNX Runtime's are furthest from, and its signal to noise in dB; empty and
    infinite where all are equal."""

    tensors: Tensors
    furthest: str = ""
    decibels: float = float("inf")

    @property
    def text(self) -> str:
        """One line of a verdict."""
        if not self.furthest:
            return "ONNX Runtime computes the same bits, in float32 rounded once"
        return f"ONNX Runtime, which adds up in another order, is {self.decibels:.1f} dB near or nearer; furthest in {self.furthest}"


def _unsaid(_text: str) -> None:
    """No progress is shown."""


def declared_tensors(
    integer: ir.Model, region: Collection[str], expected: Tensors, numerics: Numerics, kinds: Kinds, say: Callable[[str], object] = _unsaid
) -> Declared:
    """integer: the rounded network. region: names of the region's tensors. expected: ONNX Runtime's; those that the region reads are taken."""
    found, furthest, least = dict(expected), "", float("inf")
    computed = [node for node in integer.graph if is_integer(node) and kind_of(node) not in BOUNDARY and node.outputs[0].name in region]
    for number, node in enumerate(computed):
        name = node.outputs[0].name or ""
        say(f"tensor {number + 1} of {len(computed)} in the machine's own arithmetic")
        found[name] = _computed(node, found, numerics, kinds)
        near = Energy()
        near.add(expected[name], found[name])
        if near.sqnr < least:
            furthest, least = name, near.sqnr
    return Declared(found, furthest, least)


def _computed(node: ir.Node, known: Tensors, numerics: Numerics, kinds: Kinds) -> Array:
    """Sample by sample."""
    given = [(value.name or "", constant(value)) for value in node.inputs if value is not None]
    count = sample_count({name: known[name] for name, array in given if array is None})
    runs = ([known[name][number] if array is None else array for name, array in given] for number in range(count))
    return np.stack([run_call(node, operands, numerics, kinds) for operands in runs])


@dataclass(frozen=True)
class Checkpoint:
    """After the first `stop` instructions, operation number `operation` is done (-1: before any), and so are these tensors."""

    operation: int
    stop: int
    tensors: tuple[str, ...]


def find_checkpoints(region: Region, owner: Ints) -> tuple[Checkpoint, ...]:
    """One cut for each operation, in the order in which they are done. owner: the operation of each instruction, in the order in which these run.

    Raises ValueError where an operation has no instruction.
    """
    stops = [_last(owner, number) + 1 for number in range(len(region.operations))]
    done = _completed(region, stops)
    first = Checkpoint(-1, 0, tuple(name for name, number in done.items() if number < 0))
    rest = [Checkpoint(k, stop, tuple(name for name, number in done.items() if number == k)) for k, stop in enumerate(stops)]
    return first, *sorted(rest, key=lambda cut: (cut.stop, cut.operation))


def _last(owner: Ints, operation: int) -> int:
    mine = np.flatnonzero(owner == operation)
    if not len(mine):
        raise ValueError(f"operation {operation} has no instruction")
    return int(mine[-1])


def _completed(region: Region, stops: Sequence[int]) -> Mapping[str, int]:
    """By tensor: the operation after which it is complete, -1 where the host writes it. Tensors put side by side wait for the last of them, one that
    is read out of another for that one.

    stops: how much of the program each operation takes to be done."""
    made = dict.fromkeys(region.inputs, -1) | {bound.tensors["y"]: number for number, bound in enumerate(region.operations)}

    def completed(name: str) -> Iterator[int]:
        if name in made:
            yield made[name]
        else:
            for part in region.parts.get(name, ()):
                yield from completed(part)

    found = {name: max(completed(region.viewed(name)), key=lambda number: (0, *stops)[number + 1], default=-2) for name in region.tensors}
    return {name: number for name, number in found.items() if number >= -1}


SEEDS = (1, 2)
"""The seeds of the orders in which streams may meet."""


def climb_region(tested: ProgramUnderTest, expected: Mapping[str, Array], size: SampleSize, peek: OnChipReader | None = None) -> RegionVerdict:
    """Runs the region on the inputs that `expected` holds and compares everything else that it holds.

    expected: int8 tensors of the integer network by name, [images, ...] for any whole number of runs; only the first of them is also run in the
    orders of the units and sampled by the reference engine. peek: for tensors on chip.
    Raises UserError E05xx for a deadlock and E07xx where an engine refuses the program; races and bad addresses are in the verdict.
    """
    wanted = split_runs(tested.region, expected)
    runs = [wanted[first : first + tested.map.rooms] for first in range(0, len(wanted), tested.map.rooms)]
    state = _state(tested, runs[0])
    start = tested.restarts(state)
    checked, hazards, warnings = _checked(tested, state)
    readings = [TensorReader(copy, peek.room(number) if peek else None) for number, copy in enumerate(tested.copies)]
    comparing = [_Comparing(readings[number % len(readings)], own, checked.footprints, number) for number, own in enumerate(wanted)]
    states = [state, *(_state(tested, run) for run in runs[1:])]
    together = [comparing[first : first + len(readings)] for first in range(0, len(comparing), len(readings))]
    compared = unite([each for copies, own in zip(together, states, strict=True) for each in _compared(copies, own)])
    seen = {item.tensor for item in compared}
    unseen = tuple((name, comparing[0].reason(name)) for name in tested.region.tensors if name not in seen)
    ordered = all(_ordered(tested, start(), state, order) for order in _orders(tested.program, checked))
    sampled = sample_reference(tested.program, tested.order, checked.footprints, tested.listing, start, size)
    return RegionVerdict(
        tested.region.name, len(tested.program), compared, unseen, hazards, warnings, ordered, sampled, sum(checked.tolerated.values())
    )


def split_runs(region: Region, expected: Mapping[str, Array]) -> list[dict[str, Array]]:
    """The tensors that each run should leave, in the host's shapes. Raises ValueError where tensors are not of the same whole number of runs."""
    known = copied_values(region, expected)
    shapes = {name: region.host_shape(name) for name in region.tensors if name in known}
    split = {name: _pictures(known[name], shape).reshape(-1, *shape) for name, shape in shapes.items()}
    (count,) = {len(array) for array in split.values()}
    return [sample_at(split, number) for number in range(count)]


def _pictures(array: Array, shape: Shape) -> Array:
    """Rows of a sequence, which have their channels behind, as the machine has them."""
    rows = shape.width == 1 and array.shape[-2:] == (shape.height, shape.channels)
    return to_picture(array.reshape(-1, shape.height, shape.channels)) if rows else array


def _state(tested: ProgramUnderTest, wanted: Sequence[Mapping[str, Array]]) -> State:
    """The state before a run. wanted: of each copy of the program."""
    return tested.state(*({name: own[name] for name in tested.region.inputs} for own in wanted))


def _checked(tested: ProgramUnderTest, state: State) -> tuple[Checked, tuple[str, ...], tuple[str, ...]]:
    """The checked program for the run, the hazards that forbid it, and the warnings."""
    try:
        checked = check_program(tested.program, state)
    except UserError as error:
        return prepare_program(tested.program, state), tuple(d.headline() for d in error.diagnostics), ()
    return checked, (), tuple(d.headline() for d in checked.warnings)


def _compared(copies: Sequence["_Comparing"], state: State) -> list[Comparison]:
    """One run of the program in the order of its schedule, stopped after each operation of each copy, and where a piece of a tensor is to be read."""
    engine, tested, done = engine_named("fast"), copies[0].tested, 0
    events = [(event, copy) for copy in copies for event in copy.events]
    for event, copy in sorted(events, key=lambda each: each[0].stop):
        engine(tested.program, state, tested.order[done : event.stop])
        done = event.stop
        copy.look(state, event)
    engine(tested.program, state, tested.order[done:])
    return [copy.finished(state) for copy in copies]


@dataclass
class _Comparing:
    """A copy of the program in a run. wanted: the expected tensors, in the host's shapes. number: how many copies ran before it, in all
    runs. compared: so far. right: the bytes of outputs that were right when they were done."""

    readings: TensorReader
    wanted: Mapping[str, Array]
    prints: Footprints
    number: int = 0
    compared: list[Compared] = field(default_factory=list[Compared])
    right: dict[str, Bytes] = field(default_factory=dict[str, Bytes])
    beside: Beside = field(default_factory=Beside)

    @property
    def tested(self) -> ProgramUnderTest:
        return self.readings.tested

    @cached_property
    def cuts(self) -> tuple[Checkpoint, ...]:
        return find_checkpoints(self.tested.region, self.tested.owner[self.tested.order])

    @property
    def events(self) -> list[Piece | Checkpoint]:
        """Where something is to be looked at, in the program's order."""
        pieces = self.readings.pieces(name for name in self.tested.region.tensors if self._readable(name))
        return sorted((*pieces, *self.cuts), key=lambda event: event.stop)

    def look(self, state: State, event: Piece | Checkpoint) -> None:
        """Reads a piece, or compares the tensors that are done."""
        if isinstance(event, Piece):
            self.readings.gather(state, event, self.beside)
            return
        found = [self._compare(state, name, event, self.beside) for name in event.tensors if self._readable(name)]
        self.right |= {item.tensor: self.tested.stored(state, item.tensor).copy() for item in found if self._is_right_output(item)}
        self.compared += found

    def finished(self, state: State) -> Comparison:
        """Outputs whose bytes changed since are looked at again."""
        tested = self.tested
        end = Checkpoint(self.cuts[-1].operation, len(tested.program), tested.region.outputs)
        changed = [name for name, held in self.right.items() if not np.array_equal(held, tested.stored(state, name))]
        again = [item for name in changed if (item := self._compare(state, name, end, self.beside)).difference]
        return Comparison(tuple(self.compared), tuple(again))

    def _is_right_output(self, item: Compared) -> bool:
        return item.difference is None and item.tensor in self.tested.region.outputs

    def _readable(self, name: str) -> bool:
        return name in self.wanted and bool(self.readings.where(name))

    def reason(self, name: str) -> str:
        """Why a tensor was not compared."""
        if name not in self.wanted:
            return "the integer network has no tensor of this name"
        return "no operation makes it" if self.readings.where(name) else "it never reaches DRAM, and nothing says how to read it on chip"

    def _compare(self, state: State, name: str, cut: Checkpoint, beside: Beside) -> Compared:
        found = first_difference(self.wanted[name], self.readings.read(state, name, beside))
        after = self.tested.region.operations[cut.operation].operation.name if cut.operation >= 0 else ""
        difference = self._difference(state, name, cut, found) if found else None
        return Compared(name, after, self.readings.where(name), self.wanted[name].size, difference)

    def _difference(self, state: State, name: str, cut: Checkpoint, found: FirstDifference) -> Difference:
        place = self.readings.locate(state, self.prints, name, found.coordinates)
        rank = self.tested.rank
        writer = last_writer(self.prints, rank, *place, self.readings.made(name, found.coordinates, cut.stop)) if place else None
        told = describe_writer(self.prints, rank, *place, writer, self.tested.listing) if place and writer is not None else None
        operation, nodes = _makers(self.tested, name, writer)
        image, *inside = found.coordinates
        coordinates = image + self.number * len(self.wanted[name]), *inside
        return Difference(name, coordinates, found.expected, found.found, found.differing, operation, nodes, told)


def _makers(tested: ProgramUnderTest, name: str, writer: int | None) -> tuple[str, tuple[str, ...]]:
    """The operation that should have made the element, and the nodes that it stands for: the writer's, else the tensor's own."""
    operations = tested.region.operations
    makers = [k for k, bound in enumerate(operations) if bound.tensors["y"] == name]
    if writer is not None and tested.owner[writer] >= 0:
        makers = [int(tested.owner[writer])]
    return (operations[makers[0]].operation.name, operations[makers[0]].nodes) if makers else ("", ())


def _orders(program: Program, checked: Checked) -> Iterator[Ints]:
    """Orders in which the units could issue: the earliest first; at random, too, where several streams run."""
    yield checked.order
    if len(np.unique(program.stream)) > 1:
        yield from (issue_order(program, seed, checked.tokens) for seed in SEEDS)


def _ordered(tested: ProgramUnderTest, state: State, finished: State, order: Ints) -> bool:
    """Whether an order in which units issue leaves the same outputs as the schedule's. state: before the program."""
    engine_named("fast")(tested.program, state, order)
    return all(np.array_equal(room.buffer(state, name), room.buffer(finished, name)) for room in tested.rooms for name in tested.region.outputs)
