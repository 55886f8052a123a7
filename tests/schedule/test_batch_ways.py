"""The ways to share a batch fill the machine, and images stand as rows only where operations compute row by row."""

import numpy as np
import pytest

from tests.operations import made
from tests.schedule.regions.test_region import rows_region
from tests.schedule.test_batch_cut import TARGET, copy_of_model, region_of
from toolchain.abi.dram_map import Shape
from toolchain.schedule import batch_ways
from toolchain.schedule.batch_ways import Batch, batch_cycles, copies_for, cuts, images_of_copies, promising, runs_of_batch, stacked_cycles, stretches
from toolchain.schedule.copies import Copies
from toolchain.schedule.regions.region import Bound, Region, stackable
from toolchain.spec.errors import UserError, fail
from toolchain.spec.load import load_machine


@pytest.mark.parametrize(("target", "batch", "expected"), [("stcp920", 32, 6), ("stcp920", 1, 6), ("dnnvm:zu9", 3, 2), ("vta", 5, 1)])
def test_images_and_streams_fill_the_machine(target: str, batch: int, expected: int) -> None:
    machine = load_machine(target)
    found = copies_for(machine, batch)
    assert len(found) == expected
    assert all(1 <= each.times * each.streams <= machine.streams and each.times <= batch for each in found)
    assert all(each.times == min(batch, machine.streams // each.streams) for each in found)


def test_stretches_compute_row_by_row_and_can_be_cut_out() -> None:
    region = region_of(copy_of_model())
    ends, found = {-1, *cuts(region), len(region.operations) - 1}, stretches(region)
    assert found
    assert all(part.start - 1 in ends and part[-1] in ends for part in found)
    assert all(stackable(region.operations[index]) for part in found for index in part)
    assert stretches(rows_region(3, 4, 32)) == (range(len(rows_region(3, 4, 32).operations)),)


def test_images_of_copies_are_halved_from_those_of_one_run() -> None:
    assert [*images_of_copies(TARGET.machine, Copies(4, 1), 32)] == [8, 4, 2]
    assert [*images_of_copies(TARGET.machine, Copies(4, 1), 12)] == [3, 2]
    assert [*images_of_copies(TARGET.machine, Copies(4, 1), 4)] == []


def test_stretches_that_cost_more_to_cut_out_than_they_take_are_left() -> None:
    region = region_of(copy_of_model())
    (part,) = stretches(region)
    cycles, ends = [10.0] * len(region.operations), (part.start - 1, part.stop - 1)
    assert promising(region, [cycles], dict.fromkeys(ends, 10.0 * len(part) / 2 - 1)) == (part,)
    assert promising(region, [cycles], dict.fromkeys(ends, 10.0 * len(part) / 2)) == ()
    assert promising(region, [cycles, [1.0] * len(cycles)], dict.fromkeys(ends, 1.0)) == ()  # the quickest way counts


def test_more_images_than_dram_has_room_for_are_not_tried() -> None:
    """As many as fit are: two megabytes of DRAM hold a thousand inputs and results of a kilobyte each."""
    shape = Shape(1, 1024, 1, 1)
    weight, bias = np.ones((1024, 1024, 1, 1), np.int8), np.zeros(1024, np.int32)
    layer = Bound(made.conv2d("layer", shape, weight, bias, shift=6), {"x": "x", "y": "y"})
    region = Region("r", {"x": shape, "y": shape}, ("x",), ("y",), (layer,), {})
    found = stacked_cycles(Batch(TARGET.machine, TARGET.kernels, 1 << 14), region, Copies(4, 1), [1e12], (range(1),))
    room = TARGET.machine.memory["ddr"].bytes // 2048
    assert all(4 * each.images <= room for each in found)


def test_a_part_that_no_kernel_takes_with_so_many_rows_is_no_way(monkeypatch: pytest.MonkeyPatch) -> None:
    region = region_of(copy_of_model())

    def refused(*_: object) -> list[float]:
        raise fail("E1003", "no kernel can do it")

    monkeypatch.setattr(batch_ways, "batch_cycles", refused)
    assert stacked_cycles(Batch(TARGET.machine, TARGET.kernels, 64), region, Copies(4, 1), [1e9] * len(region.operations), stretches(region)) == {}
    monkeypatch.setattr(batch_ways, "batch_cycles", lambda *_: (_ for _ in ()).throw(fail("E1007", "something else")))
    with pytest.raises(UserError, match="E1007"):
        stacked_cycles(Batch(TARGET.machine, TARGET.kernels, 64), region, Copies(4, 1), [1e9] * len(region.operations), stretches(region))


def test_parts_without_rows_have_no_cycles_of_several_images() -> None:
    region, copies = region_of(copy_of_model()), Copies(4, 1)
    alone = batch_cycles(Batch(TARGET.machine, TARGET.kernels, 64), region, copies)
    (part,) = stretches(region)
    found = stacked_cycles(Batch(TARGET.machine, TARGET.kernels, 64), region, copies, [1e9] * len(alone), (part,))
    assert found
    assert {each.images for each in found} <= {16, 8, 4, 2}
    for own, cycles in found.items():
        assert [index for index, each in enumerate(cycles) if each < float("inf")] == [*part]
        assert runs_of_batch(TARGET.machine, own, 64) == 16 // own.images
    assert not stacked_cycles(Batch(TARGET.machine, TARGET.kernels, 64), region, copies, [0.0] * len(alone), (part,))
