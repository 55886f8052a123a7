"""The block diagram: every memory and unit of every machine once, an arrow for every access, no block over another."""

from itertools import combinations

import pytest

from toolchain.report.machine_picture import BLOCK_TALL, BLOCK_WIDE, machine_picture, rate_text
from toolchain.spec.load import load_machine
from toolchain.spec.model.instructions import Resource

MACHINES = ("vta", "dpuv3", "dnnvm", "stcp920", "gemmini", "clib", "graphengine")


@pytest.mark.parametrize("name", MACHINES)
def test_every_part_is_drawn_once_and_within_the_picture(name: str) -> None:
    machine = load_machine(name)
    picture = machine_picture(machine)
    assert sorted(b.name for b in picture.blocks if b.role == "memory") == sorted(m.name for m in machine.memories)
    assert [b.name for b in picture.blocks if b.role == "unit"] == [u.name for u in machine.units]
    for one, other in combinations(picture.blocks, 2):
        assert abs(one.x - other.x) >= BLOCK_WIDE or abs(one.y - other.y) >= BLOCK_TALL
    assert all(0 <= b.x <= picture.width - BLOCK_WIDE and 0 <= b.y <= picture.height - BLOCK_TALL for b in picture.blocks)


@pytest.mark.parametrize("name", MACHINES)
def test_an_arrow_is_an_access(name: str) -> None:
    machine = load_machine(name)
    drawn = {(a.unit, a.memory, a.write) for a in machine_picture(machine).arrows}
    said = {(u.name, machine.view[m].memory, False) for u in machine.units for m in u.reads}
    said |= {(u.name, machine.view[m].memory, True) for u in machine.units for m in u.writes}
    assert drawn == said


def test_a_core_is_drawn_once_with_its_count() -> None:
    picture = machine_picture(load_machine("stcp920"))
    assert any("core, 8 in each of 4 clusters" in frame.title for frame in picture.frames)
    assert "units, in each of 32 streams" in [frame.title for frame in picture.frames]


def test_a_rate_counts_bytes_of_a_cycle_and_a_second() -> None:
    assert rate_text(Resource("port", 64, "fifo"), 300_000) == "64 bytes a cycle, 19.2 GB/s"
    assert rate_text(Resource("port", 3, "fifo", per=2), 1000) == "3 bytes in 2 cycles, 1.5 MB/s"
