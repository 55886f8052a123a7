"""A schedule is carried out as it stands, whoever wrote it."""

from dataclasses import replace

import pytest

from tests.schedule.search.test_contest import space_on
from tests.schedule.test_compile_region import proven
from toolchain.schedule.compile_schedule import compile_schedule
from toolchain.schedule.find_schedule import find_schedule
from toolchain.schedule.options import Options
from toolchain.spec.errors import UserError


def test_the_program_follows_the_schedule_and_is_exact() -> None:
    space = space_on("vta")
    schedule = find_schedule(space.machine, space.kernels, space.region)
    found = compile_schedule(space.machine, space.kernels, space.region, schedule, Options())
    assert found.schedule is schedule
    assert proven(found, space.machine, seed=1)


def test_a_schedule_without_an_operation_is_refused() -> None:
    space = space_on("vta")
    schedule = find_schedule(space.machine, space.kernels, space.region)
    with pytest.raises(UserError, match="E14"):
        compile_schedule(space.machine, space.kernels, space.region, replace(schedule, groups=schedule.groups[1:]), Options())
