"""Replicas below a stream share out what a transfer moves, and the last byte takes a cycle of its own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.spec.errors import UserError
from toolchain.spec.fingerprint import MachineKey
from toolchain.spec.load import load_machine, load_text
from toolchain.spec.model import Resource
from toolchain.timing.class_cost import cycles_alone, part_of_ports, ports_at_once, ports_of_stream, require_counted, through_one_port

ROOT = Path(__file__).resolve().parents[2]
MACHINE = load_machine("dpuv3")
PORT = MACHINE.timing.resources[0]


@pytest.mark.parametrize("name", ["vta", "dpuv3", "dnnvm"])
def test_a_resource_of_the_device_has_one_port(name: str) -> None:
    machine = load_machine(name)
    assert {ports_of_stream(machine, r) for r in machine.timing.resources if r.scope == "device"} == {1}


def test_replicas_have_ports_of_their_own() -> None:
    own = replace(PORT, scope=next(level.name for level in MACHINE.levels if level.count > 1))
    assert ports_of_stream(MACHINE, own) == MACHINE.instances(own.scope) // MACHINE.streams > 1


@given(st.integers(0, 1 << 40), st.integers(1, 512), st.integers(1, 9))
def test_bytes_and_cycles_are_rounded_up(moved: int, width: int, per: int) -> None:
    resource = Resource("r", width, "fifo", next(level.name for level in MACHINE.levels if level.count > 1), per=per)
    share, ports = through_one_port(MACHINE, resource, moved), ports_of_stream(MACHINE, resource)
    assert share * ports >= moved > (share - 1) * ports or moved == share == 0
    cycles = cycles_alone(resource, share)
    assert cycles * width >= share * per > (cycles - 1) * width or share == cycles == 0
    assert cycles_alone(resource, np.array([share, share])).tolist() == [cycles, cycles]


def test_bytes_that_fields_alone_do_not_count_are_refused_before_any_build() -> None:
    """A move whose inner loop ends where an outer one is: kernels need its bytes for all tiles at once."""
    text = (ROOT / "targets" / "gemmini.yaml").read_text()
    counted = load_text(text, "gemmini.yaml")
    require_counted(counted, counted.instruction["MVIN"])
    other = load_text(text.replace('bus: "rows * columns * (4 if to_acc else ELEM)"', "bus: reads(dram)"), "gemmini.yaml")
    with pytest.raises(UserError, match=r"gemmini.yaml:\d+:\d+: E1002 the bytes that it moves of 'dram' are not counted by its fields alone"):
        require_counted(other, other.instruction["MVIN"])


def test_copies_have_their_part_of_a_port_and_of_what_they_take_at_once_each_pays_a_part() -> None:
    machine = load_machine("stcp920")
    ports = {r.name: r for r in machine.timing.resources}
    mine = {r.name: r for r in part_of_ports(machine, 32, 1, 8).timing.resources}
    assert {name: cycles_alone(mine[name], 136 * 512) for name in ports} == {"ddr_port": 512 * 32, "llb_port": 136 * 8}
    once = {r.name: r for r in ports_at_once(MachineKey(part_of_ports(machine, 32, 1, 8))).timing.resources}
    assert {name: cycles_alone(once[name], 136 * 512) for name in ports} == {"ddr_port": 512 * 4, "llb_port": 136}
    assert ports_at_once(MachineKey(machine)) is machine
