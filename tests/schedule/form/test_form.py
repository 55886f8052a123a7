"""The parts of a schedule: its entries and their places in the file, the order, tiles, slots and buffers that follow, and the way back to a text."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.operations import made
from tests.schedule.form.edits import FREE, REGIONS, edited, operation, read, text_of
from tests.schedule.groups.tall_regions import short_machine
from tests.schedule.groups.test_search import CHAINS, schedule_of
from tests.schedule.test_compile_region import KERNELS, MACHINES
from toolchain.abi.dram_map import Shape
from toolchain.schedule.form.buffers import entry_of, read_buffers
from toolchain.schedule.form.files import check_regions, read_schedule_file, read_schedules, schedule_files, write_schedule
from toolchain.schedule.form.groups import read_groups, read_loads
from toolchain.schedule.form.plan import ChipBuffer, Group, Plan, Schedule, ScheduledOperation, make_schedule
from toolchain.schedule.form.realise import check_head, ordered_region, realise
from toolchain.schedule.form.tiles import SlotReader, check_tile, narrowed
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.pools import Pool, Slot
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import plan_storage
from toolchain.schedule.placement.on_chip_allocation import Candidate
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.tiling.tile_table import TileSize
from toolchain.spec.errors import UserError

SHAPE = Shape(1, 16, 4, 4)


def realised(text: str) -> Plan:
    return realise(FREE, load_kernels(FREE), REGIONS["free"](), read(text))


def entry(number: int, name: str) -> ScheduledOperation:
    return ScheduledOperation(number, name, "add", (), {}, {})


def scheduled(*groups: tuple[ScheduledOperation, ...]) -> Schedule:
    return Schedule("r", "m", "", "f", (), tuple(Group(group) for group in groups))


def additions() -> Region:
    """c = a + b, d = b + b, e = c + d."""
    steps = {"c": ("a", "b"), "d": ("b", "b"), "e": ("c", "d")}
    bound = tuple(Bound(made.add(y, SHAPE), {"x": x, "z": z, "y": y}) for y, (x, z) in steps.items())
    return Region("r", dict.fromkeys("abcde", SHAPE), ("a", "b"), ("e",), bound, {})


def test_operations_are_counted_through_all_groups() -> None:
    first, second, third = (entry(k, name) for k, name in enumerate("cde"))
    schedule = scheduled((first, second), (third,))
    assert (schedule.members, schedule.numbers) == ((range(2), range(2, 3)), (0, 0, 1))
    assert [path for path, _ in schedule.entries()] == [
        ("groups", 0, "operations", 0),
        ("groups", 0, "operations", 1),
        ("groups", 1, "operations", 0),
    ]
    assert schedule.span(("groups", 1)) is None


def test_a_fault_stands_at_its_entry_or_the_nearest_above() -> None:
    schedule = read(text_of("free"))
    line = 1 + next(k for k, text in enumerate(text_of("free").splitlines()) if "tensor: b" in text)
    found = schedule.span(("buffers", 1, "nothing"))
    assert found is not None
    assert found.line == line
    assert str(schedule.error("E1404", "no", ("buffers", 1))).startswith(f"mine.yaml:{line}:")


def test_any_order_that_makes_operands_first_is_taken() -> None:
    region, (c, d, e) = additions(), (entry(k, name) for k, name in enumerate("cde"))
    assert ordered_region(region, scheduled((c,), (d,), (e,))) == (region, (0, 1, 2))
    ordered, order = ordered_region(region, scheduled((d, c), (e,)))
    assert order == (1, 0, 2)
    assert [bound.operation.name for bound in ordered.operations] == ["d", "c", "e"]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ("ced", "E1403 'e' reads 'd' before it is made"),
        ("cd", "E1402 operation 2, 'e', is missing"),
        ("ccd", "E1402 operation 0 is there twice"),
        ("cdef", "E1402 there is no operation 3: the region has 3, from 0 on"),
    ],
)
def test_each_operation_runs_once_after_its_operands(names: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        ordered_region(additions(), scheduled(*((entry("cdef".index(name), name),) for name in names)))


@pytest.mark.parametrize(("key", "told"), [("region", "'block'"), ("machine", "'dpuv3'"), ("fingerprint", "'[0-9a-f]{64}'")])
def test_a_head_of_another_build_is_refused(key: str, told: str) -> None:
    schedule, region = read(text_of("free")), REGIONS["free"]()
    check_head(FREE, region, schedule)
    with pytest.raises(UserError, match=f"E1401 the schedule's {key} is 'other', this is {told}"):
        check_head(FREE, region, replace(schedule, **{key: "other"}))


@pytest.mark.parametrize("name", ["vta", "free"])
def test_a_plan_is_the_schedule_that_it_came_from(name: str) -> None:
    machine = FREE if name == "free" else MACHINES[name]
    kernels = load_kernels(machine)
    plan = realise(machine, kernels, REGIONS[name](), read(text_of(name)))
    assert write_schedule(make_schedule(machine, plan)) == text_of(name)


def test_parts_of_a_plan_are_its_runs() -> None:
    plan = realised(text_of("free"))
    assert list(plan.runs()) == [(range(k, k + 1), None) for k in range(4)]
    parts = [plan.part(members) for members, _ in plan.runs()]
    assert [problem for part in parts for problem in part.problems] == plan.problems
    memories = {name for part in parts for name in part.peak}
    assert plan.peak == {name: max(part.peak.get(name, 0) for part in parts) for name in memories}


def candidates_of(plan: Plan) -> dict[str, Candidate]:
    return dict(plan.residents.candidates)


def test_buffers_stand_where_the_schedule_has_them() -> None:
    plan, schedule = realised(text_of("free")), read(text_of("free"))
    found = read_buffers(FREE, schedule, candidates_of(plan), plan.problems[0].pools)
    assert found.slots == {"a": Slot(16, 0), "b": Slot(16, 60), "y": Slot(16, 0)}
    assert entry_of(schedule, "b")[:2] == (("buffers", 1), "b")
    lower = replace(schedule, buffers=tuple(replace(b, slot=Slot(16, 59)) if b.tensor == "b" else b for b in schedule.buffers))
    with pytest.raises(UserError, match=r"E1404 '[ab]' takes the room of '[ab]' while both are needed"):
        read_buffers(FREE, lower, candidates_of(plan), plan.problems[0].pools)
    stray = replace(schedule, buffers=(ChipBuffer("q", "fm", Slot(16, 0), False),))
    with pytest.raises(UserError, match="E1404 'q' cannot stay on chip"):
        read_buffers(FREE, stray, candidates_of(plan), plan.problems[0].pools)


def test_files_of_a_folder_are_schedules_of_different_regions(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"E0001 there is no \.yaml file in this folder"):
        schedule_files(tmp_path)
    for name in ("b", "a"):
        (tmp_path / f"{name}.yaml").write_text(text_of("free").replace("region: block", f"region: {name}"))
    (tmp_path / "notes.txt").write_text("none")
    assert schedule_files(tmp_path) == [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    assert list(read_schedules(tmp_path)) == ["a", "b"]
    with pytest.raises(UserError, match="E1409 the model has no region 'b'; known: a, c"):
        check_regions(read_schedules(tmp_path), ["a", "c"])
    (tmp_path / "c.yaml").write_text((tmp_path / "a.yaml").read_text())
    with pytest.raises(UserError, match=r"c.yaml:2:\d+: E1409 another file of this folder is the schedule of 'a' too"):
        read_schedules(tmp_path)
    (tmp_path / "c.yaml").write_bytes(b"a\xff")
    with pytest.raises(UserError, match="E0001 the schedule is not UTF-8 text at byte 0x1"):
        read_schedule_file(tmp_path / "c.yaml")


def grouped() -> tuple[Region, Schedule, Plan]:
    region = CHAINS["conv -> conv"]
    schedule = read(write_schedule(schedule_of("conv -> conv")))
    return region, schedule, realise(*short_machine(), region, schedule)


def test_a_group_reads_its_loops_and_loads() -> None:
    region, schedule, plan = grouped()
    machine, kernels = short_machine()
    problems = [choose_kernel(machine, kernels, bound.operation, region.alone(bound)) for bound in region.operations]
    storage = plan_storage(machine, region, [p.kernel for p in problems], [p.numbers for p in problems])
    loads = read_loads(schedule, region, problems, storage)
    assert [(number, [load.tensor for load in found]) for number, found in loads.items()] == [(0, ["t"])]
    group = read_groups(schedule, plan, storage, loads)[0]
    assert (group.operations, [loop.dimension for loop in group.loops]) == (range(2), ["oh", "oh"])
    assert [load.size for load in group.loads] == [schedule.groups[0].loads[0].rows]
    together = loads[0][0].lines.together
    (own,) = schedule.groups
    half = replace(schedule, groups=(replace(own, loads=(replace(own.loads[0], rows=together // 2),)),))
    with pytest.raises(UserError, match=f"E1412 {together // 2} rows of 't' are no whole lines: {together} of them share a line"):
        read_loads(half, region, problems, storage)


def first_of(text: str) -> tuple[Schedule, ScheduledOperation, Problem]:
    """The first operation of the machine with memories without pools."""
    schedule, region = read(text), REGIONS["vta"]()
    bound = region.operations[0]
    return schedule, schedule.groups[0].operations[0], choose_kernel(MACHINES["vta"], KERNELS["vta"], bound.operation, region.alone(bound))


def test_a_tile_has_all_dimensions_and_none_too_many() -> None:
    schedule, own, problem = first_of(text_of("vta"))
    assert check_tile(schedule, (), own, problem).sizes == {"n": 1, "oh": 9, "ow": 9, "oc": 1, "ic": 1}
    for cuts, told in (
        (own.tile[:-1], "E1405 the tile of 'first' lacks ic; the whole is ic: 2"),
        ((*own.tile[:-1], own.tile[-1]._replace(size=3)), "E1405 a tile of 'first' cannot have 3 units of ic: the whole is 2"),
        ((*own.tile, own.tile[0]._replace(dimension="kh")), "E1405 kernel 'conv2d' has no dimension 'kh'"),
    ):
        with pytest.raises(UserError, match=told):
            check_tile(schedule, (), replace(own, tile=cuts), problem)


def test_slots_without_addresses_stand_beside_those_with_them() -> None:
    schedule, own, problem = first_of(edited(text_of("vta"), lambda data: operation(data, 0).update(slots={"x": [[0, 0]], "w": 3})))
    size = TileSize(problem, dict(own.tile))
    found = SlotReader(schedule, (), own, size, ()).read()
    assert (found["x"], len(found["w"])) == ((Slot(0, 0),), 3)
    for memory in ("inp", "wgt", "acc"):
        names = [name for name in found if problem.memories[name] == memory]
        taken = sorted((slot.address, slot.address + size.rooms[name]) for name in names for slot in found[name])
        assert all(stop <= start for (_, stop), (start, _) in pairwise(taken))
    with pytest.raises(UserError, match="E1406 'first' has no slots of 'v'"):
        SlotReader(schedule, (), replace(own, slots={"v": 1}), size, ()).read()


def test_slots_keep_to_a_stretch_that_is_free() -> None:
    schedule, own, problem = first_of(text_of("vta"))
    stretch = Pool(0, 100, 200)
    found = narrowed(schedule, (), replace(own, within={"acc": (stretch,)}), problem)
    assert found.pools == {**problem.pools, "acc": (stretch,)}
    with pytest.raises(UserError, match=r"E1406 2000\.\.2099 of bank 0 is not all free in 'acc'"):
        narrowed(schedule, (), replace(own, within={"acc": (Pool(0, 100, 2000),)}), problem)
    with pytest.raises(UserError, match="E1406 'first' has no tiles in 'uop' that could keep to a part of it"):
        narrowed(schedule, (), replace(own, within={"uop": (stretch,)}), problem)
