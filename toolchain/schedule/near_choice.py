"""Which operations have weights that wait in a memory that streams share, in which rooms, and with which tiles."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from toolchain.schedule.compile_operation import TileChoice
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Need, share_room
from toolchain.schedule.tiling.near_weights import bringing_cycles, near_size, reloads, waiting, whole_size, with_room
from toolchain.schedule.tiling.tile_table import sizes_along
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.spec.errors import UserError

Planned = tuple[Problem, Tiling]


@dataclass(frozen=True)
class Offer:
    """An operation with weights that wait. size: of their room. gain: cycles by the estimates, with those that bringing the weights takes."""

    tensor: str
    problem: Problem
    tiling: Tiling
    size: int
    gain: float


def best_offer(choice: TileChoice, planned: Planned, streams: int, weights: int) -> Offer | None:
    """The quickest way for an operation alone, if there is one that is quicker than without. streams: that share its tiles. weights: elements of the
    room for the weights of all operations."""
    return max(_offers(choice, planned, streams, weights), key=lambda offer: offer.gain, default=None)


def _offers(choice: TileChoice, planned: Planned, streams: int, weights: int) -> Iterator[Offer]:
    problem, tiling = planned
    for tensor, waits in waiting(problem):
        if not reloads(problem, tiling, tensor.name):
            continue
        near, whole = with_room(problem, tensor.name, 0, 1), whole_size(problem, tensor, waits)
        for other in [*_ranked(choice, near, streams), *(_outermost(choice, near, waits.by) if streams == 1 else ())]:
            size = near_size(near, other, waits.by, whole, streams)
            cycles = other.estimate + bringing_cycles(near, other, tensor.name)
            if size <= weights and cycles < tiling.estimate:
                yield Offer(tensor.name, problem, replace(other, estimate=cycles), size, tiling.estimate - cycles)


def _outermost(choice: TileChoice, problem: Problem, by: str) -> Iterator[Tiling]:
    """The best tiles for each size of a dimension that is the outermost loop."""
    dimension = next(d for d in problem.kernel.tile if d.name == by)
    for size in sizes_along(problem, dimension) if problem.slab is None else ():
        yield from _ranked(choice, replace(problem, slab=(by, size)), 1)


def _ranked(choice: TileChoice, problem: Problem, streams: int) -> Sequence[Tiling]:
    """The best tiles, if there are any."""
    try:
        return rank_tilings(problem, choice.contexts, 1, streams)
    except UserError as error:
        if error.diagnostics[0].code != "E1004":
            raise
        return ()


def accepted(offers: Mapping[int, Offer], start: int, weights: int) -> dict[int, Planned]:
    """By operation, those offers that have room beside the ones that gain more. start: the first element of the room for all of them, which has
    `weights`."""
    taken, places = dict[str, Need](), dict[str, int]()
    for index in sorted(offers, key=lambda index: (-offers[index].gain, index)):
        needs = {**taken, str(index): Need(offers[index].size, index, index + 1)}
        offsets, top = share_room(needs, 1)
        if top <= weights:
            taken, places = needs, offsets
    found = {int(name): offset for name, offset in places.items()}
    return {
        index: (with_room(own.problem, own.tensor, start + found[index], own.size), own.tiling) for index, own in offers.items() if index in found
    }
