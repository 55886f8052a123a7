"""The emulator behind the protocol: it answers each line, and refuses what is out of turn or damaged without ending."""

from pathlib import Path

import numpy as np

from tests.runtime.small import bundle, network
from toolchain.runtime.device import ByteRange
from toolchain.runtime.emulator_device import EmulatorDevice, serve
from toolchain.runtime.open_region import region_image
from toolchain.runtime.process_device import PAGE
from toolchain.runtime.transfers import buffer_of


def _answers(*lines: str) -> list[str]:
    return list(serve(network()[0], lines))


def test_lines_out_of_turn_are_refused() -> None:
    assert _answers("run") == ["failed E0713 'run' is no line of the protocol, or not its turn"]
    assert _answers("", "load", "walk on") == [
        "failed E0713 '' is no line of the protocol, or not its turn",
        "failed E0713 'load' is no line of the protocol, or not its turn",
        "failed E0713 'walk on' is no line of the protocol, or not its turn",
    ]


def test_what_cannot_be_mapped_or_is_no_program_is_refused(tmp_path: Path) -> None:
    (answer,) = _answers(f"load {tmp_path / 'none'} 0 10")
    assert answer.startswith("failed E0001 cannot map the file")
    (tmp_path / "memory").write_bytes(bytes(2 * PAGE))
    assert "no line of the protocol" in _answers(f"load {tmp_path / 'memory'} 4096 5000")[0]
    assert _answers(f"load {tmp_path / 'memory'} 4096 40")[0].startswith("failed E032")


def test_a_program_is_checked_when_it_is_loaded(tmp_path: Path) -> None:
    made, (machine, _, _) = bundle(), network()
    region = made.manifest.regions[0]
    assert region_image(made, region, machine).program
    program = made.members[region.binary]
    (tmp_path / "memory").write_bytes(bytes(PAGE) + program)
    (answer,) = _answers(f"load {tmp_path / 'memory'} 4096 {len(program)}")
    assert answer.startswith("failed E0601 race on acc")  # its micro-ops are among the constants, which are not there
    (answer,) = _answers(f"load {tmp_path / 'memory'} 4096 {len(program)} 99=5")
    assert answer.startswith("failed E1104")


def test_a_resident_program_has_a_memory_of_its_own_in_which_bytes_move() -> None:
    """Bytes that moved within it give the same result as bytes that were written."""
    made, (machine, _, _) = bundle(), network()
    region = made.manifest.regions[0]
    program = EmulatorDevice().load(region_image(made, region, machine))
    where, back = (buffer_of(region.map, ports[0].tensor) for ports in (region.inputs, region.outputs))
    data = np.random.default_rng(0).integers(0, 256, where.bytes).astype(np.uint8)
    (wanted,) = program.run({where: data}, [back]).data
    own = program.resident()
    assert own.read([where])[0].any() == np.False_
    own.step({}, {where: data}, [])
    size = min(where.bytes, back.bytes)
    part, ahead = ByteRange(where.segment, where.offset, size), ByteRange(back.segment, back.offset, size)
    own.step({ahead: part, part: ahead}, {}, [])
    assert np.array_equal(own.read([part])[0], wanted[:size])
    (again,) = own.step({}, {where: data}, [back]).data
    assert np.array_equal(again, wanted)
