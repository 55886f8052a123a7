"""What control memories hold, and the ones that cannot be followed."""

from dataclasses import replace

import numpy as np
import pytest

from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.state import new_state
from toolchain.isa.binary.decode import decode
from toolchain.isa.footprint.control import ControlContents, little_endian, sign_extended
from toolchain.isa.footprint.provenance import Provenance
from toolchain.spec.errors import UserError
from toolchain.spec.model import ElementType, Memory, ScalarType


def contents() -> ControlContents:
    machine = tiny("num[a] = 3\nnum[a] = -2")
    program = decode(machine, streams([word(0, a=1), word(0, a=2)]))
    return ControlContents(Provenance(program, new_state(machine), np.arange(len(program))))


def test_the_last_fill_of_an_instruction_counts() -> None:
    controls = contents()
    fills = controls.fills(controls.program.machine.memory["num"])
    slots, positions = np.array([0, 1, 2, 1, 2, 2]), np.array([3, 3, 3, 0, 1, 2])
    found = fills.when.before(slots, positions)
    values = np.where(found >= 0, fills.value[found], 0)
    assert values.tolist() == [0, 0xFFFE, 0xFFFE, 0, 0, 0xFFFE]


@pytest.mark.parametrize("change", [{"depths": (1 << 31,)}, {"depths": (4, 4)}, {"element": ElementType(ScalarType(True, 64), (2,))}])
def test_what_cannot_be_followed_is_refused(change: dict[str, object]) -> None:
    controls = contents()
    wide: Memory = replace(controls.program.machine.memory["num"], **change)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match="E0608 the control memory 'num' has"):
        controls.fills(wide)


def test_bits_as_numbers() -> None:
    data = np.array([[0xFE, 0xFF], [1, 2]], np.uint8)
    raw = little_endian(data)
    assert raw.tolist() == [0xFFFE, 0x201]
    assert sign_extended(raw, ScalarType(True, 16)).tolist() == [-2, 0x201]
    assert sign_extended(raw, ScalarType(False, 4)).tolist() == [14, 1]
    assert sign_extended(np.array([-1]), ScalarType(False, 64)).tolist() == [-1]
