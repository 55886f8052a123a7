"""What is printed is read back and gives the same program; edits build, are exact, and cost something else."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.form.edits import compiled, edited, operation, read, text_of
from tests.schedule.test_compile_region import KERNELS, MACHINES, block, proven, random_region, two_convolutions
from tests.schedule.test_side_by_side import large
from toolchain.schedule.compile_region import compile_region, find_schedule
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import UserError

QUICK = Options(check=False)


def same(one: CompiledRegion, two: CompiledRegion) -> bool:
    """The same program, data and owners."""
    return (
        one.program.streams == two.program.streams
        and one.constants == two.constants
        and one.map == two.map
        and one.listing == two.listing
        and np.array_equal(one.owner, two.owner)
    )


def assert_survives(name: str, region: Region) -> None:
    found = compile_region(MACHINES[name], KERNELS[name], region, QUICK)
    text = write_schedule(found.schedule)
    again = read(text)
    assert again == found.schedule
    assert write_schedule(again) == text
    assert same(compile_region(MACHINES[name], KERNELS[name], region, QUICK, again), found)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("name", "region"), [("dpuv3", block(20)), ("dpuv3", block(260)), ("dpuv3", large(196)), ("vta", two_convolutions())])
def test_printed_and_read_it_gives_the_same_program(name: str, region: Region) -> None:
    assert_survives(name, region)


@pytest.mark.parametrize(("name", "batch"), [("vta", 1), ("dpuv3", 4)])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_any_region_survives(name: str, batch: int, seed: int) -> None:
    region = random_region(KERNELS[name], seed, 5, batch)
    if region is not None:
        try:
            find_schedule(MACHINES[name], KERNELS[name], region)
        except UserError:
            return
        assert_survives(name, region)


def test_another_tile_is_exact_and_takes_another_time() -> None:
    def smaller(data: dict[str, Any]) -> None:
        operation(data, 3)["tile"] |= {"ow": 2}

    before, after = compiled("dpuv3", text_of("dpuv3")), compiled("dpuv3", edited(text_of("dpuv3"), smaller))
    assert proven(after, MACHINES["dpuv3"])
    assert after.cycles > before.cycles


def test_a_spill_is_an_entry_less() -> None:
    after = compiled("dpuv3", edited(text_of("dpuv3"), lambda data: data["buffers"].pop(1)))
    assert set(after.map.tensors) == {"x", "b", "out"}
    assert proven(after, MACHINES["dpuv3"])
    assert after.cycles > compiled("dpuv3", text_of("dpuv3")).cycles


def test_a_buffer_can_be_stored_as_well() -> None:
    after = compiled("dpuv3", edited(text_of("dpuv3"), lambda data: data["buffers"][0].update(stored=True)))
    assert set(after.map.tensors) == {"x", "a", "out"}
    assert proven(after, MACHINES["dpuv3"])


def two_chains() -> Region:
    """The first operations of both read the input, so that they can run in several orders."""
    region = block(12)
    first, second, total, last = region.operations
    swapped = type(second)(second.operation, {"x": "x", "y": "b"})
    return Region("block", region.tensors, region.inputs, region.outputs, (first, swapped, total, last), {})


def test_another_order_is_exact_and_owners_stay_indices_of_the_region() -> None:
    region = two_chains()
    text = write_schedule(find_schedule(MACHINES["dpuv3"], KERNELS["dpuv3"], region, Options(grouped=False)))

    def swap(data: dict[str, Any]) -> None:
        data["groups"][:2] = data["groups"][1::-1]

    before, after = (compiled("dpuv3", t, region) for t in (text, edited(text, swap)))
    assert proven(after, MACHINES["dpuv3"])
    starts = [int(np.flatnonzero(after.owner[after.order] == index)[0]) for index in range(4)]
    assert starts[1] < starts[0] < starts[2] < starts[3]
    assert next(before.listing[k] for k in np.flatnonzero(before.owner == 1)).split()[0] == after.listing[after.order[starts[1]]].split()[0] == "c1"


def test_every_tensor_can_be_stored_whatever_the_schedule() -> None:
    found = compiled("dpuv3", edited(text_of("dpuv3"), lambda data: data["buffers"].pop(1)), stored=True)
    assert set(found.map.tensors) == {"x", "a", "b", "y", "out"}
    assert [buffer.stored for buffer in found.schedule.buffers] == [False, False]
