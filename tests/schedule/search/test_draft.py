"""The space of a region's drafts: the first is the region's own order, planners share what they learn."""

from dataclasses import replace

from tests.schedule.search.made_graphs import packed, space_on
from tests.schedule.test_compile_region import proven
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.form.files import read_schedule, write_schedule
from toolchain.schedule.form.plan import make_schedule
from toolchain.schedule.program import turned
from toolchain.schedule.rows.row_loop import row_dimension
from toolchain.schedule.search.draft import Draft
from toolchain.spec.errors import Source


def test_the_first_draft_has_pools_beside_the_longest_branch() -> None:
    assert space_on("vta").first.order == tuple(range(8))
    assert space_on("dpuv3").first.order == (0, 1, 2, 3, 4, 6, 5, 7)


def test_drafts_are_equal_whatever_made_them() -> None:
    assert Draft((0, 1), origin="one") == Draft((0, 1), origin="other")
    assert Draft((0, 1)) != Draft((1, 0))


def test_operations_run_backward_where_they_have_several_tiles_of_rows() -> None:
    space = space_on("dpuv3")
    plans = [space.planner(replace(space.first, backward=backward)).first().base for backward in ((), (1, 3), tuple(range(8)))]
    for plan, chosen in zip(plans, (set[int](), {1, 3}, set(range(8))), strict=True):
        for index, problem, tiling in zip(plan.order, plan.problems, plan.tilings, strict=True):
            rows = row_dimension(problem)
            several = rows is not None and tiling.sizes[rows] < problem.extents[rows]
            assert tiling.backward == ((rows,) if index in chosen and several else ())
    assert any(tiling.backward for tiling in plans[2].tilings)


def test_programs_with_the_last_rows_first_are_exact() -> None:
    own = packed()
    grouping = own.planner(replace(own.first, backward=(0, 1))).first()
    schedule = make_schedule(own.machine, turned(grouping.plan))
    assert [operation.backward for _, operation in schedule.entries()] == [("oh",), ("oh",), (), ()]
    again = read_schedule(Source("mine.yaml", write_schedule(schedule)))
    assert again == schedule
    assert proven(compile_region(own.machine, own.kernels, own.region, schedule=again), own.machine)


def test_planners_of_a_space_share_times() -> None:
    space = space_on("vta")
    one, other = space.planner(space.first), space.planner(Draft((0, 1, 2, 4, 6, 3, 5, 7)))
    assert one.clock is other.clock
    assert [bound.operation.name for bound in other.region.operations][:4] == ["stem", "one", "narrow3", "narrow5"]
