from dataclasses import replace

import pytest

from tests.tiny_machine import tiny
from toolchain.isa.semantics.instances import instance, places, replica_levels, replica_names, stream_levels
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.model import Level


def test_places_of_a_stream_and_its_replicas() -> None:
    machine = tiny("pass\n")
    assert [level.name for level in stream_levels(machine)] == ["core"]
    assert [level.name for level in replica_levels(machine)] == ["way"]
    assert places(machine, 1) == ({"core": 1, "way": 0}, {"core": 1, "way": 1})


def test_instances_count_with_the_outer_level_slowest() -> None:
    levels = (Level("cluster", 3), Level("core", 4, streams=True), Level("way", 2, lockstep=True))
    machine = replace(tiny("pass\n"), levels=levels)
    numbers = [[instance(machine, "way", place) for place in places(machine, stream)] for stream in range(12)]
    assert numbers == [[2 * stream, 2 * stream + 1] for stream in range(12)]
    assert [instance(machine, "cluster", places(machine, stream)[0]) for stream in (0, 3, 4, 11)] == [0, 0, 1, 2]
    assert instance(machine, "device", {}) == 0


def test_a_machine_without_levels_has_one_place() -> None:
    assert places(replace(tiny("pass\n"), levels=()), 0) == ({},)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x = way\ny = x + 1\nz = 3\nacc[y % 4][o] = z\n", {"x", "y"}),
        ("x = 0\nif way > 0:\n    x = 1\nacc[x][o] = 1\n", {"x"}),
        ("for i in range(way):\n    acc[i % 4][o] = 1\n", {"i"}),
        ("s[o]: i8 = sat[0][o]\nt[o]: i8 = loop[0][o]\nacc[0][o] = s[o] + t[o]\n", {"s"}),
        ("x = core + cfg[0].m + num[0]\nacc[x % 4][o] = 1\n", set[str]()),
    ],
)
def test_names_that_differ_between_replicas(text: str, names: set[str]) -> None:
    machine = tiny(text)
    assert replica_names(machine, machine_semantics(machine)["OP"]) == names
