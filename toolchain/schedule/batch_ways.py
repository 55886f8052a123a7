"""The ways to share a batch among streams: copies of a region side by side, each on some streams and of some images; with their estimated cycles."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from toolchain.abi.dram_map import MAX_IMAGES
from toolchain.schedule.compile_region import estimated_plan
from toolchain.schedule.copies import Copies
from toolchain.schedule.groups.timed import Clocks
from toolchain.schedule.kernel_selection import REFUSED, images_per_run
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.options import Options
from toolchain.schedule.placement.shared_memory import is_fetch
from toolchain.schedule.regions.region import Bound, Region, part_of_region, stackable
from toolchain.schedule.workers import Workers
from toolchain.spec.errors import UserError
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics


def batch_options(workers: Workers | None = None) -> Options:
    """Options of the programs of a batch. workers: processes that estimate and time them beside this one."""
    return Options(effort=0, clocks=Clocks(), workers=workers or Workers(1))


@dataclass(frozen=True)
class Batch:
    """images: to share among the streams. options: of the programs, which estimates alone choose; all of them share tiles."""

    machine: Machine
    kernels: Mapping[str, Kernel]
    images: int
    options: Options = field(default_factory=batch_options)


def copies_for(machine: Machine, batch: int) -> tuple[Copies, ...]:
    """The numbers of copies and of streams each that are tried for a batch: as many copies as there are images and as streams are left for, most
    first."""
    images = -(-batch // images_per_run(machine))
    found = (Copies(min(images, machine.streams // streams), streams) for streams in range(1, machine.streams + 1) if machine.streams % streams == 0)
    return tuple(sorted(dict.fromkeys(found), key=lambda copies: (-copies.times, copies.streams)))


def batch_cycles(batch: Batch, region: Region, copies: Copies) -> list[float]:
    """By operation, the cycles of all runs of a batch. Raises UserError E1004 where there is no room on chip."""
    plan = estimated_plan(batch.machine, batch.kernels, region, batch.options.taking(copies))
    cycles, runs = [0.0] * len(region.operations), runs_of_batch(batch.machine, copies, batch.images)
    fetches = sum(map(is_fetch, plan.region.operations))
    for index, bound, tiling in zip(plan.order, plan.region.operations, plan.tilings, strict=True):
        cycles[_first_reader(region, bound) if is_fetch(bound) else index - fetches] += runs * tiling.estimate
    return cycles


def stacked_cycles(batch: Batch, region: Region, copies: Copies, alone: Sequence[float], parts: Sequence[range]) -> dict[Copies, list[float]]:
    """By copies with several images as rows: the cycles by operation of the parts that gain by them, infinite for all others. Of each part the most
    images that gain count. alone: cycles where each copy has one image."""
    found: dict[Copies, list[float]] = {}
    for part in parts:
        own, least = part_of_region(region, part), sum(alone[part.start : part.stop])
        tried = _with_several(batch, own, copies)
        if better := next(((way, cycles) for way, cycles in tried if sum(cycles) < least), None):
            way, cycles = better
            found.setdefault(way, [math.inf] * len(alone))[part.start : part.stop] = cycles
    return found


def several_cycles(batch: Batch, region: Region, copies: Copies, alone: Sequence[float]) -> dict[Copies, list[float]]:
    """By copies with several images, along the axis of images of each tensor: the cycles by operation, where one takes fewer so. Of these the most
    images count. alone: the least cycles where each copy has one image."""
    if all(map(stackable, region.operations)):
        return {}  # the images are rows
    tried = _with_several(batch, region, copies)
    better = ((way, cycles) for way, cycles in tried if any(own < least for own, least in zip(cycles, alone, strict=True)))
    return dict(itertools.islice(better, 1))


def _with_several(batch: Batch, region: Region, copies: Copies) -> Iterator[tuple[Copies, list[float]]]:
    """The copies with as many images as DRAM has room for, most first, and their cycles by operation."""
    most = _most_images(batch.machine, region) // copies.times
    for images in images_of_copies(batch.machine, copies, batch.images):
        if images <= most:
            way = copies._replace(images=images)
            yield way, part_cycles(batch, region, way)


def images_of_copies(machine: Machine, copies: Copies, batch: int) -> Iterator[int]:
    """How many images each copy may have, more than one: so many that one run is enough for the batch, 2, 4, 8 ..."""
    runs = 1
    while (images := -(-batch // (copies.times * images_per_run(machine) * runs))) > 1:
        yield images
        runs *= 2


def _most_images(machine: Machine, part: Region) -> int:
    """How many images DRAM has room for, by the region's inputs and results."""
    size = element_bytes(machine) * sum(math.prod(part.tensors[name]) for name in (*part.inputs, *part.outputs))
    return min(MAX_IMAGES, sum(memory.bytes for memory in machine.memories if memory.kind == "dram") // max(size, 1))


def part_cycles(batch: Batch, part: Region, copies: Copies) -> list[float]:
    """As `batch_cycles`; infinite where there is no room, or no kernel takes so many rows."""
    try:
        return batch_cycles(batch, part, copies)
    except UserError as error:
        if not error.only(REFUSED):
            raise
        return [math.inf] * len(part.operations)


def promising(region: Region, alone: Iterable[Sequence[float]], crossing: Mapping[int, float]) -> tuple[range, ...]:
    """The stretches that could gain by several images as rows: their cycles are more than it costs to cut them out.

    alone: cycles by operation, for each way in which copies have one image. crossing: cycles by the operation behind which there may be a cut."""
    ways = [*alone]

    def least(part: range) -> float:
        return min(sum(cycles[part.start : part.stop]) for cycles in ways)

    return tuple(part for part in stretches(region) if crossing.get(part.start - 1, 0.0) + crossing.get(part.stop - 1, 0.0) < least(part))


def stretches(region: Region) -> tuple[range, ...]:
    """The longest stretches of operations that compute row by row, as far as the region can be cut around them."""
    ends, found, first = {-1, *cuts(region), len(region.operations) - 1}, list[range](), 0
    for able, run in itertools.groupby(map(stackable, region.operations)):
        own = range(first, first := first + len(list(run)))
        start = next((index for index in own if index - 1 in ends), own.stop)
        stop = next((index + 1 for index in reversed(own) if index in ends), own.start)
        if able and start < stop:
            found.append(range(start, stop))
    return tuple(found)


def _first_reader(region: Region, fetch: Bound) -> int:
    """The operation that pays for a fetch."""
    return next(index for index, bound in enumerate(region.operations) if fetch.tensors["x"] in bound.tensors.values())


def runs_of_batch(machine: Machine, copies: Copies, batch: int) -> int:
    """How often the host starts a program of so many copies for all images of a batch."""
    return -(-batch // (copies.together * images_per_run(machine)))


def launch_cycles(machine: Machine, copies: Copies, batch: int) -> float:
    """Cycles in which the host starts the runs of a batch."""
    return runs_of_batch(machine, copies, batch) * machine.host.launch_us.value * machine.timing.clock_khz / 1e3 if machine.host else 0.0


def crossing_cycles(machine: Machine, elements: int) -> float:
    """Cycles that so many elements take to DRAM and back, through the slowest of the ports that the whole device shares."""
    rates = [each.bytes_per_cycle / each.per for each in machine.timing.resources if each.scope == "device"]
    return 2 * elements * element_bytes(machine) / min(rates, default=math.inf)


def element_bytes(machine: Machine) -> int:
    return (machine.quantisation or Numerics()).bytes


def cuts(region: Region) -> dict[int, int]:
    """Operations behind which a region can be cut, with the elements of an image that are in DRAM then. Tensors that stand in others are never
    apart."""
    inside = dict.fromkeys(region.stands_in(name)[0] for name in region.slices)
    made = {bound.tensors["y"]: index for index, bound in enumerate(region.operations)}
    touched = [{region.stands_in(tensor)[0] for tensor in bound.tensors.values()} for bound in region.operations]
    spans = [[index for index, roots in enumerate(touched) if root in roots] for root in inside]
    last = {tensor: index for index, bound in enumerate(region.operations) for name, tensor in bound.tensors.items() if name != "y"}
    found: dict[int, int] = {}
    for cut in range(len(region.operations) - 1):
        if any(span and span[0] <= cut < span[-1] for span in spans):
            continue
        crossing = [tensor for tensor, index in made.items() if index <= cut < last.get(tensor, index)]
        found[cut] = sum(math.prod(region.tensors[tensor][1:]) for tensor in crossing)
    return found
