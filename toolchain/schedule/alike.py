"""Regions that differ in names and values alone, as layers of a transformer do, are searched once: the others take the schedule found."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from toolchain.schedule.compile_region import compile_schedule, search_schedule
from toolchain.schedule.form.plan import ChipBuffer, Schedule, ScheduledOperation
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.options import Options
from toolchain.schedule.placement.shared_memory import Fetch, with_fetches
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.search.contest import Trial
from toolchain.schedule.workers import Workers
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine

Searched = tuple[Schedule, tuple[Trial, ...]]


@dataclass
class _Found:
    """A region that was searched. cycles: of its program, once a region like it has asked for them."""

    machine: Machine
    kernels: Mapping[str, Kernel]
    options: Options
    region: Region
    searched: Searched
    cycles: float | None = None

    def program_cycles(self, region: Region, schedule: Schedule) -> float:
        return compile_schedule(self.machine, self.kernels, region, schedule, replace(self.options, check=False)).cycles

    def lent(self, region: Region) -> Searched | None:
        """For a region of the same form; None where its values make another time of the schedule, or none."""
        schedule, trials = self.searched
        if self.cycles is None:
            self.cycles = self.program_cycles(self.region, schedule)
        other = renamed(schedule, self.region, region)
        try:
            return (other, trials) if self.program_cycles(region, other) == self.cycles else None
        except UserError:
            return None


@dataclass
class Searches:
    """All searches of a build so far."""

    found: dict[Hashable, _Found] = field(default_factory=dict[Hashable, _Found])

    def search(
        self, machine: Machine, kernels: Mapping[str, Kernel], region: Region, options: Options, first: Callable[[], Searched] | None = None
    ) -> Searched:
        """As `search_schedule`, which is only asked for the first region of each form. first: does that search. Raises as it does."""
        own = replace(options, progress=None)
        key = _key(machine, region, options)
        if key in self.found or first:
            _tell(region, options)
        if key in self.found and (lent := self.found[key].lent(region)):
            return lent
        searched = first() if first else search_schedule(machine, kernels, region, options)
        self.found.setdefault(key, _Found(machine, kernels, own, region, searched))
        return searched


@dataclass(frozen=True)
class Asked:
    """A region that needs a schedule, with the arguments of its search."""

    machine: Machine
    kernels: Mapping[str, Kernel]
    region: Region
    options: Options


def search_all(asked: Sequence[Asked], workers: Workers) -> Iterator[Searched]:
    """The schedule of each, in order, as they are asked for. workers: search regions of other forms meanwhile. Raises as `search_schedule`."""
    searches, forms = Searches(), dict[Hashable, int]()
    for number, each in enumerate(asked):
        forms.setdefault(_key(each.machine, each.region, each.options), number)
    facts = [replace(each, options=replace(each.options, progress=None)) for each in asked]
    with workers.ahead(_searched, facts, [*forms.values()]) as found:
        for number, each in enumerate(asked):
            here = workers.count < 2 or len(forms) < 2  # then operations are told as they are searched
            first = None if here else partial(found, number)
            yield searches.search(each.machine, each.kernels, each.region, each.options, first)


def _searched(asked: Sequence[Asked], number: int) -> Searched:
    each = asked[number]
    return search_schedule(each.machine, each.kernels, each.region, each.options)


def _key(machine: Machine, region: Region, options: Options) -> Hashable:
    """Equal for regions that one search serves. The machine is kept, so its id is its own."""
    return id(machine), replace(options, progress=None), form_of(region)


def _tell(region: Region, options: Options) -> None:
    """Counts the operations as a search does."""
    if options.progress:
        for number, bound in enumerate(region.operations):
            options.progress(number, len(region.operations), bound.operation.name)


def form_of(region: Region) -> Hashable:
    """All that a schedule can follow from but names and values: shapes, kernels, attributes, and which operation reads of which."""
    return region.wiring, tuple(map(_operation_form, region.operations))


def _operation_form(bound: Bound) -> Hashable:
    operation = bound.operation
    return (
        operation.kind.name,
        bound.kernel,
        tuple((name, operation.numbers[name]) for name in operation.kind.loose_numbers if name in operation.numbers),
        tuple(sorted(operation.numbers)),
        tuple((name, array.shape, array.dtype.str) for name, array in operation.arrays.items()),
    )


def renamed(schedule: Schedule, region: Region, other: Region) -> Schedule:
    """A schedule of the region as one of another region of the same form."""
    named = dict(zip(region.tensors, other.tensors, strict=True))
    fetches = [Fetch(named[each.tensor], each.kernel) for each in schedule.fetches]
    region, other = with_fetches(region, schedule.fetches), with_fetches(other, fetches)
    tensors = dict(zip(region.tensors, other.tensors, strict=True))

    def buffer(own: ChipBuffer) -> ChipBuffer:
        return replace(own, tensor=tensors[own.tensor])

    groups = tuple(
        replace(
            group,
            operations=tuple(_renamed(each, other) for each in group.operations),
            loads=tuple(replace(load, buffer=buffer(load.buffer)) for load in group.loads),
        )
        for group in schedule.groups
    )
    return replace(schedule, region=other.name, buffers=tuple(map(buffer, schedule.buffers)), groups=groups)


def _renamed(operation: ScheduledOperation, other: Region) -> ScheduledOperation:
    bound = other.operations[operation.operation]
    return replace(operation, name=bound.operation.name, fetches=bound.tensors["x"] if operation.fetches else "")
