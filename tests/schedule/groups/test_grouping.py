"""A plan without groups stays what it was; one with groups has those that were chosen."""

from tests.schedule.groups.tall_regions import short_machine
from tests.schedule.groups.test_search import CHAINS
from toolchain.schedule.find_schedule import find_groups
from toolchain.schedule.groups.grouping import Grouping
from toolchain.schedule.options import Options
from toolchain.schedule.rows.row_group import RowGroup


def found() -> Grouping:
    return find_groups(*short_machine(), CHAINS["conv -> conv"], Options())


def test_the_plan_has_the_groups_that_were_chosen() -> None:
    grouping = found()
    assert [proposal.group.operations for proposal in grouping.chosen] == [range(2)]
    assert not grouping.base.groups
    assert [type(group) for group in grouping.plan.groups.values()] == [RowGroup]


def test_a_group_joins_the_others_in_the_order_of_operations() -> None:
    grouping = found()
    (proposal,) = grouping.chosen
    alone = Grouping(grouping.base, grouping.candidates, grouping.members)
    assert not alone.plan.groups
    assert alone.joined(proposal).plan.groups.keys() == grouping.plan.groups.keys()
