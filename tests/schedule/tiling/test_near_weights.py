"""The room that weights take while they wait, and the time that it takes to bring them."""

import numpy as np
import pytest

from tests.schedule.test_near_choice import deep, slow
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import Problem, state_problem
from toolchain.schedule.tiling.near_weights import bringing_cycles, is_near, near_rooms, near_size, reloads, waiting, whole_size, with_room
from toolchain.schedule.tiling.tiles import Tiling
from toolchain.timing.class_cost import part_of_ports


def problem(copies: int = 1) -> Problem:
    """128 channels of 3x3 over 96: four blocks of three."""
    machine = part_of_ports(slow(), copies, 1) if copies > 1 else slow()
    return state_problem(machine, load_kernels(slow())["conv2d"], deep((96, 128, 3)).operations[0].operation)


def tiling(order: tuple[str, ...], **sizes: int) -> Tiling:
    whole = {"n": 1, "c": 4, "oh": 14, "ow": 14, "i": 3, "u": 3, "v": 3}
    return Tiling({**whole, **sizes}, order, {}, {})


def test_convolutions_say_where_their_weights_may_wait() -> None:
    (found,) = waiting(problem())
    assert (found[0].name, found[1].memory, found[1].by) == ("w", "llb", "c")
    assert not is_near(problem(), "w")
    assert near_rooms(with_room(problem(), "w", 5, 7)) == {"w": (5, 7)}


@pytest.mark.parametrize(
    ("order", "sizes", "again"),
    [
        (("oh", "c"), {"oh": 7, "c": 1}, True),
        (("c", "oh"), {"oh": 7, "c": 1}, False),
        (("c", "oh"), {"oh": 7, "c": 1, "i": 1}, True),
        (("c", "oh"), {"c": 1, "i": 1}, False),
    ],
)
def test_weights_are_loaded_again_where_another_loop_runs_around_theirs(order: tuple[str, ...], sizes: dict[str, int], again: bool) -> None:
    assert reloads(problem(), tiling(order, **sizes), "w") == again


def test_two_tiles_wait_where_their_dimension_is_the_outermost_loop_and_all_elsewhere() -> None:
    own, ((tensor, waits),) = problem(), waiting(problem())
    whole = whole_size(own, tensor, waits)
    assert whole == 128 * 96 * 9 // 32
    sizes = {"c": 1, "oh": 7, "i": 1}
    assert near_size(own, tiling(("c", "oh", "i"), **sizes), "c", whole, 1) == 2 * whole // 4
    assert near_size(own, tiling(("oh", "c", "i"), **sizes), "c", whole, 1) == whole
    assert near_size(own, tiling(("c", "oh", "i"), **sizes), "c", whole, 2) == whole
    assert near_size(own, tiling(("c", "oh", "i"), oh=7, i=1, c=3), "c", whole, 1) == whole


@pytest.mark.parametrize("copies", [1, 8])
def test_weights_take_the_time_of_drams_port_once(copies: int) -> None:
    own = with_room(problem(copies), "w", 0, 1)
    found = bringing_cycles(own, tiling(("c", "oh"), c=1, oh=7, i=1), "w")
    rate = next(each.bytes_per_cycle for each in slow().timing.resources if each.name == "ddr_port") / copies
    assert found == pytest.approx(128 * 96 * 9 / rate, rel=0.1)


def test_the_time_hardly_depends_on_tiles() -> None:
    own = with_room(problem(), "w", 0, 1)
    assert np.isclose(bringing_cycles(own, tiling(("c", "oh"), c=4, oh=7), "w"), bringing_cycles(own, tiling(("oh", "c"), c=1, oh=7), "w"), rtol=0.1)
