"""Ranges of memories in words."""

import pytest

from tests.tiny_machine import tiny
from toolchain.isa.footprint.text import place_text, range_text
from toolchain.spec.load import load_machine

MACHINE = tiny("pass")


@pytest.mark.parametrize(
    ("memory", "start", "stop", "text"),
    [
        ("dram", 0, 256, "dram[0x0..0xff]"),
        ("dram", 16, 17, "dram[0x10]"),
        ("loop", 1, 3, "loop[1..2]"),
        ("par", 1, 2, "par[1] of core 0"),
        ("par", 4, 8, "par[0..3] of core 1"),
        ("feat", 7, 8, "feat[0, 7] of core 0 way 0"),
        ("feat", 12 + 8, 12 + 12, "feat[1, 0..3] of core 0 way 1"),
        ("feat", 6, 10, "feat[0, 6] to feat[1, 1] of core 0 way 0"),
    ],
)
def test_range(memory: str, start: int, stop: int, text: str) -> None:
    number = MACHINE.memories.index(MACHINE.memory[memory])
    assert range_text(MACHINE, number, start, stop) == text


def test_instances_that_are_used_alike_are_not_told_apart() -> None:
    assert range_text(MACHINE, MACHINE.memories.index(MACHINE.memory["feat"]), 0, 1, alike=True) == "feat[0, 0]"


def test_place() -> None:
    machine = load_machine("stcp920")
    assert place_text(machine, "core", 13) == "cluster 1 core 5"
    assert place_text(machine, "cluster", 3) == "cluster 3"
    assert place_text(machine, "device", 0) == ""
