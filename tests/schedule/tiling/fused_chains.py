"""Chains of operations whose tiles pass on chip, and schedules in which they do so wherever they can."""

from dataclasses import replace
from unittest import mock

from tests.operations import made
from tests.schedule.convolutions import convolution
from toolchain.abi.dram_map import Shape
from toolchain.operations.operation import Operation
from toolchain.schedule.compile_region import find_schedule
from toolchain.schedule.form.plan import Schedule
from toolchain.schedule.groups import members
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.tiling.tile_group import TileGroup
from toolchain.schedule.tiling.tile_search import Tiled, search_tiles
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

Shaped = tuple[int, int, int, int]
PICTURE: Shaped = (1, 32, 13, 11)


def chain(shape: Shaped, *steps: tuple[Operation, dict[str, str]], outputs: tuple[str, ...] = ()) -> Region:
    """Operations one after the other; their results are t0, t1 and so on, the pictures t and u."""
    pictures = sorted({name for _, sources in steps for name in sources.values()} & {"t", "u"})
    tensors, bound = {name: Shape(*shape) for name in pictures}, list[Bound]()
    for number, (operation, sources) in enumerate(steps):
        tensors[f"t{number}"] = Shape(*operation.output)
        bound.append(Bound(replace(operation, name=f"op{number}"), {**sources, "y": f"t{number}"}))
    return Region("chain", tensors, tuple(pictures), outputs or (f"t{len(steps) - 1}",), tuple(bound), {})


def conv(seed: int, shape: Shaped = PICTURE, low: int = 0) -> Operation:
    return convolution(shape, (32, 3, 3), seed, 50, pads=(1, 1, 1, 1), low=low, high=127)


def pool(kernel: int, stride: int, pad: int, shape: Shaped = PICTURE) -> Operation:
    return made.max_pool("pool", shape, made.Window((kernel, kernel), (stride, stride), (pad, pad, pad, pad)))


def add(factors: tuple[int, int] = (1, 1), shape: Shaped = PICTURE) -> Operation:
    return made.add("add", shape, *factors, made.Requantise(2, 0, 127))


EVEN: Shaped = (1, 32, 14, 12)
CHAINS = {
    "conv -> add, x passed": chain(PICTURE, (conv(0), {"x": "t"}), (add((4, 1)), {"x": "t0", "z": "u"})),
    "conv -> add, z passed": chain(PICTURE, (conv(1), {"x": "t"}), (add((4, 1)), {"x": "u", "z": "t0"})),
    "two convs -> add": chain(PICTURE, (conv(2), {"x": "t"}), (conv(3), {"x": "u"}), (add((1, 2)), {"x": "t0", "z": "t1"})),
    "conv -> pool": chain(EVEN, (conv(4, EVEN), {"x": "t"}), (pool(2, 2, 0, EVEN), {"x": "t0"})),
    "conv -> overlapping pool": chain(PICTURE, (conv(5, low=-128), {"x": "t"}), (pool(3, 2, 1), {"x": "t0"})),
    "conv -> add -> pool": chain(PICTURE, (conv(6), {"x": "t"}), (add(), {"x": "t0", "z": "u"}), (pool(3, 1, 1), {"x": "t1"})),
    "pool -> add": chain(PICTURE, (pool(3, 1, 1), {"x": "t"}), (add(), {"x": "t0", "z": "u"})),
    "also needed elsewhere": chain(PICTURE, (conv(7), {"x": "t"}), (add(), {"x": "t0", "z": "u"}), outputs=("t0", "t1")),
}


def free(group: TileGroup, contexts: int, streams: int = 1) -> Tiled | None:
    """A group's tiles, as if it took no time."""
    found = search_tiles(group, contexts, streams)
    return replace(found, cycles=0.0) if found else None


def scheduled(region: Region, machine: Machine | None = None) -> Schedule:
    """With every group over tiles that there can be, the longest first."""
    machine = machine or load_machine("vta")
    with mock.patch.object(members, "search_tiles", side_effect=free):
        return find_schedule(machine, load_kernels(machine), region, Options(timed_groups=False))
