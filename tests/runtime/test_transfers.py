"""Samples come back from the buffers that they were packed into; those that are missing are zeros; neighbours share a buffer."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from toolchain.abi.dram_map import DramMap, Segment, Shape, StoredTensor, host_axes
from toolchain.abi.packing import view_packing
from toolchain.runtime.contents import Port, RegionProgram
from toolchain.runtime.transfers import buffer_of, join_images, pack, split_images, unpack
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine

MACHINES = {name: load_machine(name) for name in ("vta", "dpuv3")}
STORED = {"vta": ("dram", "dram.inp"), "dpuv3": ("ddr", "ddr.word")}


def region(target: str, batch: int, shape: Shape, channels: tuple[int, ...]) -> RegionProgram:
    """Tensors t0, t1, ... side by side in one buffer, each of them an input and an output. batch: of the graph. shape: of the whole buffer."""
    machine, (memory, view) = MACHINES[target], STORED[target]
    layout = next(item for item in machine.layouts if item.name == "activations")
    extents = tuple(shape[axis] for axis in host_axes(layout))
    size = view_packing(machine, view, layout.name, extents).bytes
    tensors: dict[str, StoredTensor] = {}
    ports: list[Port] = []
    first = 0
    for number, count in enumerate(channels):
        own = Shape(shape.batch, count, shape.height, shape.width)
        tensors[f"t{number}"] = StoredTensor(own, "s", 4096, size, view, layout.name, extents, first)
        ports.append(Port(f"graph{number}", f"t{number}", (batch, *own[1:])))
        first += count
    held = DramMap(memory, "", {"s": Segment(8192, 4096 + size)}, tensors, tuple(tensors), tuple(tensors))
    return RegionProgram("r", "vta", shape.batch, "", "", "", held, tuple(ports), tuple(ports), {}, 0.0, {}, "")


def tensors(program: RegionProgram, count: int, seed: int = 0) -> list[dict[str, NDArray[Any]]]:
    rng = np.random.default_rng(seed)
    return [{port.name: rng.integers(-128, 128, port.shape, np.int8) for port in program.inputs} for _ in range(count)]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_what_is_packed_is_unpacked(data: st.DataObject) -> None:
    target = data.draw(st.sampled_from(sorted(MACHINES)))
    images, batch, height, width = (data.draw(st.integers(1, most)) for most in (4, 3, 5, 5))
    parts = data.draw(st.sampled_from([(16, 16), (16, 32, 3), (5,), (33,)]))
    program = region(target, batch, Shape(images, sum(parts), height, width), parts)
    given_ = tensors(program, data.draw(st.integers(1, 3)))
    every = split_images(program, given_)
    made = []
    for first in range(0, len(every), images):
        part = every[first : first + images]
        buffers = pack(MACHINES[target], program, part)
        assert list(buffers) == [buffer_of(program.map, "t0")]
        found = unpack(MACHINES[target], program, buffers, images)
        made += found[: len(part)]
        assert not any(array.any() for image in found[len(part) :] for array in image.values())
    joined = join_images(program, made)
    assert len(joined) == len(given_)
    assert all(np.array_equal(joined[k][name], array) for k, sample in enumerate(given_) for name, array in sample.items())


def test_a_flat_tensor_is_a_picture_to_the_region() -> None:
    program = region("vta", 1, Shape(1, 10, 1, 1), (10,))
    flat = RegionProgram(**{**vars(program), "inputs": (Port("graph0", "t0", (1, 10)),), "outputs": (Port("graph0", "t0", (1, 10)),)})
    values = np.arange(10, dtype=np.int8).reshape(1, 10)
    (found,) = unpack(MACHINES["vta"], flat, pack(MACHINES["vta"], flat, [{"graph0": values}]), 1)
    assert np.array_equal(found["graph0"], values)
    assert found["graph0"].shape == (1, 10)


@pytest.mark.parametrize("values", [np.zeros((1, 11), np.int8), np.full((1, 10, 1, 1), 200, np.int16), np.full((1, 10, 1, 1), 0.5, np.float32)])
def test_what_does_not_fit_is_one_line(values: NDArray[Any]) -> None:
    program = region("vta", 1, Shape(1, 10, 1, 1), (10,))
    with pytest.raises(UserError, match="E1104 the tensor 'graph0' does not fit region 'r'"):
        pack(MACHINES["vta"], program, [{"graph0": values}])
