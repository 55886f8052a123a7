"""Names of policies and the budget of a search: the defaults of a build, and no name twice."""

from toolchain.schedule.options import Options
from toolchain.spec.search_policies import EFFORT, POLICIES, SEARCH, check_policy, foreign_policies
from toolchain.tasks.variables import read_variables


def test_a_build_without_variables_searches_as_the_options_say() -> None:
    plain = read_variables({"target": "vta"})
    assert (plain.search, plain.effort) == (Options().search, Options().effort) == (SEARCH, EFFORT)
    assert check_policy(SEARCH) == SEARCH


def test_no_package_takes_the_name_of_a_policy_of_the_toolchain() -> None:
    assert not set(POLICIES) & foreign_policies().keys()
