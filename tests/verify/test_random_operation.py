"""Random operations: the same for one seed, within the machine's arithmetic, with the numbers that are given."""

from itertools import islice

import numpy as np
import pytest

from toolchain.operations.library import kinds_of
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.load import load_machine
from toolchain.verify.kernel_check import operations_for
from toolchain.verify.random_operation import CORNERS, MOST_ELEMENTS, MOST_MACS, draw_operation, random_bounds, random_halves

MACHINES = {name: load_machine(name) for name in ("vta", "dpuv3", "stcp920")}


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("kind", ["conv2d", "add", "max_pool", "average_pool"])
def test_operations_are_the_machine_s_and_the_same_again(name: str, kind: str) -> None:
    machine = MACHINES[name]
    described, numerics = kinds_of(machine)[kind], machine.quantisation
    assert numerics is not None
    drawn = [[draw_operation(machine, described, rng) for _ in range(30)] for rng in (np.random.default_rng(1), np.random.default_rng(1))]
    made, again = ([operation for operation in each if operation is not None] for each in drawn)
    assert made
    assert [operation.numbers for operation in made] == [operation.numbers for operation in again]
    for one, other in zip(made, again, strict=True):
        assert one.macs <= MOST_MACS
        assert one.reach(numerics.reach) < 1 << (numerics.accumulator_bits - 1)
        assert one.arrays.keys() == other.arrays.keys()
        assert all(np.array_equal(one.arrays[key], other.arrays[key]) for key in one.arrays)


@pytest.mark.parametrize("kind", ["average_pool", "conv2d"])
def test_large_operations_fit_memories(kind: str) -> None:
    """The same size is drawn for several extents now and then, and one that is beyond fields for all of them is beyond memories."""
    rng, machine = np.random.default_rng(0), MACHINES["dpuv3"]
    drawn = [draw_operation(machine, kinds_of(machine)[kind], rng, large=True) for _ in range(600)]
    sizes = [np.prod(operation.input("x")) for operation in drawn if operation]
    assert 100_000 < max(sizes) <= MOST_ELEMENTS


@pytest.mark.parametrize("own", [False, True])
def test_channels_have_shifts_of_their_own_where_that_is_asked_for(own: bool) -> None:
    machine = MACHINES["vta"]
    assert machine.quantisation is not None
    for seed in range(20):
        made = draw_operation(machine, kinds_of(machine)["conv2d"], np.random.default_rng(seed), own_shifts=own)
        assert made is None or ("shifts" in made.arrays) == own
        if made is not None and own:
            assert 0 <= made.numbers["shift"] - made.numbers["shift_least"] <= machine.quantisation.shift_span


def test_windows_move_over_most_pictures_that_a_kernel_takes() -> None:
    """Of those drawn without a thought of the picture few fit: five of six convolutions that were left had a window of the whole picture."""
    machine = MACHINES["vta"]
    drawn = operations_for(machine, load_kernels(machine)["conv2d"], kinds_of(machine)["conv2d"], np.random.default_rng(0))
    taken = [problem.operation.numbers for problem in islice(drawn, 3000) if problem is not None]
    whole = [numbers for numbers in taken if (numbers["kh"], numbers["kw"]) == (numbers["height"], numbers["width"])]
    assert len(taken) > 100
    assert len(taken) / 4 < len(taken) - len(whole)
    assert len(taken) / 10 < len(whole) < len(taken) / 2


def test_numbers_that_are_given_are_not_drawn() -> None:
    machine, rng = MACHINES["vta"], np.random.default_rng(0)
    fixed = {"height": 5, "width": 9, "channels": 3}
    made = [draw_operation(machine, kinds_of(machine)["add"], rng, fixed) for _ in range(20)]
    assert {tuple(operation.output)[1:] for operation in made if operation is not None} == {(3, 5, 9)}


def test_corners_are_among_small_numbers() -> None:
    found = random_halves((4000,), np.random.default_rng(0), "f16", corner=True)
    assert found.dtype == np.float16
    assert set(CORNERS.astype(np.float16).view(np.int16)) <= set(found.view(np.int16))
    eighths = found.astype(np.float32) * 8
    assert np.count_nonzero(eighths == np.rint(eighths)) > 3600


def test_infinities_come_now_and_then_where_they_may() -> None:
    rng = np.random.default_rng(1)
    infinite = [np.isinf(random_halves((3,), rng, "f16", infinite=True)).any() for _ in range(500)]
    assert 0 < sum(infinite) < 50
    assert not any(np.isinf(random_halves((3,), rng, "f16")).any() for _ in range(500))


def test_bounds_of_all_activations() -> None:
    rng = np.random.default_rng(2)
    assert len({bounds.high for bounds in (random_bounds(rng) for _ in range(40))}) > 2
