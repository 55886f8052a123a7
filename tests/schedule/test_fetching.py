"""The choice of inputs to fetch: never dearer by the estimate, exact on one core and many, and a step of the schedule that a user may edit."""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operations import made
from tests.schedule.convolutions import convolution
from tests.schedule.form.edits import Edit, edited, read
from tests.schedule.form.test_shares import refused
from tests.schedule.many_cores import chip
from tests.schedule.test_compile_region import proven, random_region
from toolchain.abi.dram_map import Shape
from toolchain.schedule import compile_region as compiling
from toolchain.schedule.alike import renamed
from toolchain.schedule.compile_region import compile_region, estimated_plan, find_schedule, plan_region
from toolchain.schedule.fetching import WORTH, cheapest_fetches, estimated, possible_fetches
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.form.plan import Plan, Schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.placement.shared_memory import Fetch, fetches_of, is_fetch
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.errors import UserError, fail
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

MACHINE = chip(1, 2)
KERNELS = load_kernels(MACHINE)


@cache
def two_dense(rows: int = 64, width: int = 256, inner: int = 512, prefix: str = "") -> Region:
    """Two dense layers of every row, whose weights are many times as large as a core's memory."""
    given, between = Shape(1, width, rows, 1), Shape(1, inner, rows, 1)
    first = replace(convolution(given, (inner, 1, 1), 1, 500), name=f"{prefix}first")
    second = replace(convolution(between, (width, 1, 1), 2, 500), name=f"{prefix}second")
    x, t, y = (prefix + name for name in "xty")
    bound = Bound(first, {"x": x, "y": t}), Bound(second, {"x": t, "y": y})
    return Region(f"{prefix}dense", {x: given, t: between, y: given}, (x,), (y,), bound, {})


def fetching_schedule(machine: Machine, streams: int, copies: int = 1, prefix: str = "") -> Schedule:
    """Of a search that fetches all it can."""
    options = Options(streams=streams, copies=copies, effort=0, timed_streams=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "WORTH", math.inf)
        return find_schedule(machine, load_kernels(machine), two_dense(prefix=prefix), options)


@cache
def text_of(streams: int) -> str:
    return write_schedule(fetching_schedule(MACHINE, streams))


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("streams", "copies"), [(1, 1), *(pytest.param(*way, marks=pytest.mark.nightly) for way in ((2, 1), (1, 2))), (2, 2), (1, 4)]
)
def test_tiles_read_the_copy_and_every_element_is_right(streams: int, copies: int) -> None:
    machine = chip(2, 2)
    compiled = compile_region(machine, load_kernels(machine), two_dense(), None, fetching_schedule(machine, streams, copies))
    assert fetches_of(compiled.region) == (Fetch("x", "fetch"),)
    assert compiled.map.memory_of("x.fetched")[0] == "llb"
    for room in range(copies):
        own = replace(compiled, map=compiled.map.room(room)) if copies > 1 else compiled
        assert all(proven(own, machine, seed) for seed in (None, 1, 2))


def test_the_input_is_read_from_dram_once() -> None:
    """Four tiles of channels read all rows each, from the copy or from DRAM; weights are the same."""

    def four(held: dict[str, list[dict[str, Any]]]) -> None:
        held["groups"][1]["operations"][0].update(tile={"n": 1, "c": 4, "oh": 32, "ow": 1, "i": 4, "u": 1, "v": 1}, slots={})

    fetched = edited(text_of(1), four)
    ways = [compile_region(MACHINE, KERNELS, two_dense(), None, read(text)) for text in (fetched, edited(fetched, taken_out))]
    once, again = (int(way.timeline.footprints.traffic_read[:, 0].sum()) for way in ways)
    assert again - once == 3 * math.prod(two_dense().tensors["x"])


def test_layers_of_a_transformer_are_worth_it_on_all_cores() -> None:
    machine = load_machine("stcp920")
    kernels, region = load_kernels(machine), two_dense(128, 768, 2304)
    found = estimated_plan(machine, kernels, region, Options(copies=16, streams=2, effort=0))
    assert fetches_of(found.region) == (Fetch("x", "fetch"),)


def without_copies() -> dict[str, Any]:
    return {name: kernel for name, kernel in KERNELS.items() if kernel.computes != "copy"}


def test_programs_decide_where_they_are_timed() -> None:
    """A search that times programs is never slower than without a kernel that copies."""
    for region in (two_dense(), two_dense(16, 64, 96)):
        options = Options(effort=1)
        ways = [compile_region(MACHINE, kernels, region, options).cycles for kernels in (KERNELS, without_copies())]
        assert ways[0] <= ways[1]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 5), st.sampled_from([(1, 1), (2, 1), (1, 2)]))
def test_fetches_never_raise_the_estimate(seed: int, steps: int, way: tuple[int, int]) -> None:
    region = random_region(KERNELS, seed, steps, 1)
    if region is None:
        return
    streams, copies = way
    options = Options(streams=streams, copies=copies, effort=0)
    try:
        plain = estimated_plan(MACHINE, without_copies(), region, options)
    except UserError:
        return
    found = estimated_plan(MACHINE, KERNELS, region, options)
    assert estimated(found) < WORTH * estimated(plain) if fetches_of(found.region) else estimated(found) == estimated(plain)


def test_each_fetch_that_lowers_the_estimate_is_taken_and_no_other() -> None:
    """Estimates as a table has them, by the inputs that are fetched."""
    region = additions()
    costs: dict[tuple[str, ...], float] = {(): 9.0, ("a",): 8.0, ("a", "b"): 8.0, ("a", "c"): 7.0}
    plan = plan_region(MACHINE, KERNELS, region)

    def planned(own: Region) -> Plan:
        names = tuple(each.tensor for each in fetches_of(own))
        shared = dict.fromkeys((f"{name}.fetched" for name in names), None)
        one, *others = plan.tilings
        tilings = [replace(one, estimate=costs[names]), *(replace(each, estimate=0.0) for each in others)]
        return replace(plan, region=own, tilings=tilings, shared=shared)

    found = cheapest_fetches(region, tuple(Fetch(name, "fetch") for name in "abc"), planned)
    assert [each.tensor for each in fetches_of(found.region)] == ["a", "c"]


def additions() -> Region:
    shape = Shape(1, 32, 4, 4)
    bound = Bound(made.add("t", shape), {"x": "a", "z": "b", "y": "t"}), Bound(made.add("y", shape), {"x": "t", "z": "c", "y": "y"})
    return Region("sums", dict.fromkeys("abcty", shape), ("a", "b", "c"), ("y",), bound, {})


def test_an_input_without_room_is_read_from_dram() -> None:
    """Another error is the caller's to see."""
    plain = plan_region(MACHINE, KERNELS, additions())

    def refusing(code: str) -> Callable[[Region], Plan]:
        def planned(own: Region) -> Plan:
            if fetches_of(own):
                raise fail(code, "no")
            return plain

        return planned

    fetches = (Fetch("a", "fetch"),)
    assert cheapest_fetches(additions(), fetches, refusing("E1004")) is plain
    with pytest.raises(UserError, match="E1005"):
        cheapest_fetches(additions(), fetches, refusing("E1005"))


def test_a_copy_that_finds_no_room_in_the_shared_memory_is_no_choice() -> None:
    plain = plan_region(MACHINE, KERNELS, additions())
    better = replace(plain, tilings=[replace(each, estimate=0.0) for each in plain.tilings])
    found = cheapest_fetches(additions(), (Fetch("a", "fetch"),), lambda own: replace(better, region=own) if fetches_of(own) else plain)
    assert found is plain


def test_a_machine_without_such_a_kernel_fetches_nothing() -> None:
    assert possible_fetches(MACHINE, without_copies(), two_dense()) == ()
    assert possible_fetches(MACHINE, KERNELS, two_dense()) == (Fetch("x", "fetch"),)
    assert not estimated_plan(MACHINE, KERNELS, two_dense(), Options(effort=0, resident=False)).shared


def test_an_input_that_the_kernel_cannot_copy_is_left() -> None:
    """A row of more lines than the instruction says."""
    wide = Shape(1, 32, 1, (1 << 16) + 1)
    region = Region("wide", {"x": wide, "y": wide}, ("x",), ("y",), (Bound(made.add("y", wide), {"x": "x", "z": "x", "y": "y"}),), {})
    assert possible_fetches(MACHINE, KERNELS, region) == ()


def test_the_fetch_is_a_step_of_the_schedule(golden: Callable[[str, str], None]) -> None:
    golden("schedule/fetch.yaml", text_of(2))
    schedule = read(text_of(2))
    assert write_schedule(schedule) == text_of(2)
    assert schedule.fetches == (Fetch("x", "fetch"),)
    assert [operation.operation for _, operation in schedule.entries()] == [0, 1, 2]
    assert schedule == fetching_schedule(MACHINE, 2)


def taken_out(held: dict[str, list[dict[str, Any]]]) -> None:
    del held["groups"][0]
    held["buffers"] = [entry for entry in held["buffers"] if entry["tensor"] != "x.fetched"]


def test_a_user_may_take_it_out_and_write_it_otherwise() -> None:
    found: list[int] = []
    edits: list[Edit] = [taken_out, lambda held: held["groups"][0]["operations"][0].update(tile={"n": 1, "oh": 64}, slots={}), lambda _: None]
    for edit in edits:
        text = edited(text_of(1), edit)
        compiled = compile_region(MACHINE, KERNELS, two_dense(), None, read(text))
        assert all(proven(compiled, MACHINE, seed) for seed in (None, 1))
        found.append(sum(map(is_fetch, compiled.region.operations)))
    assert found == [0, 1, 1]


FAULTS: dict[str, Edit] = {
    "of no input": lambda held: held["groups"][0]["operations"][0].update(fetches="t"),
    "twice": lambda held: held["groups"].insert(1, deepcopy(held["groups"][0])),
    "to DRAM": lambda held: held.update(buffers=[entry for entry in held["buffers"] if entry["tensor"] != "x.fetched"]),
    "behind a reader": lambda held: held["groups"].insert(1, held["groups"].pop(0)),
    "with an index": lambda held: held["groups"][0]["operations"][0].update(operation=0),
    "by no kernel": lambda held: held["groups"][0]["operations"][0].update(kernel="add"),
    "beside a missing operation": lambda held: held["groups"].pop(2),
    "beside a strange operation": lambda held: held["groups"][1]["operations"][0].update(operation=2),
    "without a name": lambda held: held["groups"][1]["operations"][0].pop("name"),
}


def test_every_fault_in_its_line(golden: Callable[[str, str], None]) -> None:
    told = {name: refused(MACHINE, two_dense(), lambda edit=edit: read(edited(text_of(1), edit))) for name, edit in FAULTS.items()}
    golden("schedule/fetch_faults.txt", "".join(f"## {name}\n{text}\n" for name, text in told.items()))


def test_a_region_of_the_same_form_takes_the_schedule() -> None:
    schedule, other = read(text_of(1)), two_dense(prefix="other.")
    assert renamed(schedule, two_dense(), other) == fetching_schedule(MACHINE, 1, prefix="other.")
