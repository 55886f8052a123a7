"""Tensors in DRAM through a map, rooms of copies side by side, and the map as data."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operations.made import load_machine
from toolchain.abi.dram_map import DramMap, Segment, Shape, StoredTensor, get_tensor, host_axes, packing_of, put_tensor, rows_of_images, stacked_place
from toolchain.spec.model import Layout

MACHINE = load_machine("vta")
CHANNELS, SIDE = 40, 3
EXTENTS = (1, CHANNELS, SIDE, SIDE)
BYTES = 3 * 16 * SIDE * SIDE
"""Three blocks of sixteen channels."""
VIEW = next(view.name for view in MACHINE.views if view.memory == "dram" and view.element.scalar.bits == 8)


def stored(channel: int = 0, channels: int = CHANNELS, offset: int = 0) -> StoredTensor:
    return StoredTensor(Shape(1, channels, SIDE, SIDE), "data", offset, BYTES, VIEW, "activations", EXTENTS, channel)


def map_of(**tensors: StoredTensor) -> DramMap:
    segments = {"constants": Segment(64, 32), "data": Segment(4096, 2 * BYTES, pitch=8192)}
    return DramMap("dram", "", segments, tensors, tuple(tensors), (), rooms=2)


@settings(max_examples=20)
@given(st.integers(0, 1 << 32), st.integers(1, CHANNELS), st.data())
def test_a_tensor_is_read_as_it_was_written(seed: int, channels: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, CHANNELS - channels))
    held = map_of(x=stored(first, channels, 16))
    state = held.state(MACHINE, {"constants": b"\x07" * 32})
    values = np.random.default_rng(seed).integers(-128, 128, (1, channels, SIDE, SIDE), np.int8)
    held.write(MACHINE, state, {"x": values})
    assert np.array_equal(held.read(MACHINE, state, "x"), values)
    assert state.memories["dram"][0, 64:96].tolist() == [7] * 32
    assert np.count_nonzero(state.memories["dram"][0]) == 32 + np.count_nonzero(values)


def test_a_concat_leaves_its_neighbours_as_they_are() -> None:
    held = map_of(a=stored(0, 17), b=stored(17, 23))
    state = held.state(MACHINE, {})
    held.write(MACHINE, state, {"a": np.full((1, 17, SIDE, SIDE), 3, np.int8), "b": np.full((1, 23, SIDE, SIDE), 5, np.int8)})
    assert set(held.read(MACHINE, state, "a").ravel().tolist()) == {3}
    assert set(held.read(MACHINE, state, "b").ravel().tolist()) == {5}
    assert held.buffer(state, "a").size == BYTES


@given(st.integers(0, 1 << 32), st.integers(2, 4))
def test_images_may_stand_behind_each_other_as_rows(seed: int, images: int) -> None:
    """The host has them one by one; the buffer is that of one picture of all rows."""
    tall = replace(stored(), extents=(1, CHANNELS, images * SIDE, SIDE), bytes=images * BYTES)
    rows = replace(tall, shape=Shape(images, CHANNELS, SIDE, SIDE))
    one = replace(tall, shape=Shape(1, CHANNELS, images * SIDE, SIDE))
    values = np.random.default_rng(seed).integers(-128, 128, rows.shape, np.int8)
    data, together = np.zeros((2, images * BYTES), np.uint8)
    put_tensor(MACHINE, rows, data, values)
    put_tensor(MACHINE, one, together, np.concatenate([*values], axis=1)[None])
    assert np.array_equal(data, together)
    assert np.array_equal(get_tensor(MACHINE, rows, data), values)
    with pytest.raises(ValueError, match=f"{images} images do not stand as"):
        get_tensor(MACHINE, replace(rows, extents=(images + 1, *rows.extents[1:])), np.zeros((images + 1) * images * BYTES, np.uint8))
    layout = packing_of(MACHINE, rows).layout
    assert rows_of_images(rows, layout) == images
    assert rows_of_images(one, layout) == 1
    assert stacked_place(rows, layout, (images - 1, 5, 2, 1)) == (0, 5, images * SIDE - 1, 1)


def test_another_shape_is_refused() -> None:
    held = map_of(x=stored())
    with pytest.raises(ValueError, match=r"the tensor is \(1, 4, 3, 3\), not \(1, 40, 3, 3\)"):
        held.write(MACHINE, held.state(MACHINE, {}), {"x": np.zeros((1, 4, SIDE, SIDE), np.int8)})


def test_each_copy_has_a_room_of_its_own_and_shares_what_has_no_pitch() -> None:
    held = map_of(x=stored(offset=16))
    second = held.room(1)
    assert (second.rooms, second.address_of("x"), held.address_of("x")) == (1, 4096 + 8192 + 16, 4096 + 16)
    assert second.segments["constants"] == held.segments["constants"]
    on_chip = Segment(5, 10, memory="fm", instance=2, pitch=4)
    assert on_chip.room(3) == Segment(5, 10, memory="fm", instance=14)
    assert replace(held, segments={**held.segments, "data": on_chip}).memory_of("x") == ("fm", 2)
    assert held.memory_of("x") == ("dram", 0)
    assert replace(held, segments={**held.segments, "data": on_chip}).bytes == 96
    assert held.bytes == 4096 + 2 * BYTES


def test_registers_say_where_the_segments_of_a_stream_begin() -> None:
    machine = load_machine("dpuv3")
    registers = next(memory.name for memory in machine.memories if memory.host)
    held = DramMap("ddr", registers, {"x": Segment(64, 8, 0), "y": Segment(128, 8, 1), "z": Segment(256, 8)}, {}, (), ())
    state = held.state(machine, {})
    assert state.host[registers][0, :2].tolist() == [64, 128]
    assert not state.host[registers][0, 2:].any()


def test_it_is_the_same_after_json() -> None:
    held = map_of(x=stored(3, 4, 5))
    assert DramMap.from_plain(json.loads(json.dumps(held.plain()))) == held
    with pytest.raises(KeyError):
        DramMap.from_plain({"memory": "dram"})


def test_axes_of_the_host_by_index_names() -> None:
    layout = next(layout for layout in MACHINE.layouts if layout.name == "activations")
    assert host_axes(layout) == (0, 1, 2, 3)
    other: Layout = replace(layout, domain=dict.fromkeys("hwcn", "N"))
    assert host_axes(other) == (2, 3, 1, 0)
    with pytest.raises(KeyError):
        host_axes(replace(layout, domain=dict.fromkeys("nco", "N")))
