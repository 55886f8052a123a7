"""The space of a region's drafts: the first is the region's own order, planners share what they learn."""

from tests.schedule.search.made_graphs import space_on
from toolchain.schedule.search.draft import Draft


def test_the_first_draft_has_pools_beside_the_longest_branch() -> None:
    assert space_on("vta").first.order == tuple(range(8))
    assert space_on("dpuv3").first.order == (0, 1, 2, 3, 4, 6, 5, 7)


def test_drafts_are_equal_whatever_made_them() -> None:
    assert Draft((0, 1), origin="one") == Draft((0, 1), origin="other")
    assert Draft((0, 1)) != Draft((1, 0))


def test_planners_of_a_space_share_times() -> None:
    space = space_on("vta")
    one, other = space.planner(space.first), space.planner(Draft((0, 1, 2, 4, 6, 3, 5, 7)))
    assert one.clock is other.clock
    assert [bound.operation.name for bound in other.region.operations][:4] == ["stem", "one", "narrow3", "narrow5"]
