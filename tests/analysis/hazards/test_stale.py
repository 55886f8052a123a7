"""A latched register keeps what an earlier program left there."""

import numpy as np
import pytest

from toolchain.analysis.checks import check_program
from toolchain.analysis.state import new_state
from toolchain.emulator.engines import engine_named
from toolchain.isa.assembly.assembler import assemble
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine

MACHINE = load_machine("dpuv3", overrides={"LOG_DDR": "20"})
FIRST = "ELEWINIT 0000 0000 bank_id_in 0 shift_read 0 jump_read 1 jump_read_endl 4 id 0 bank_addr_in 0"
SECOND = """ELEW 0000 0000 stride_out 1 stride_offset_out 0 num 1 nonlinear_type 0 jump_write 1 jump_write_endl 4 bank_id_out 8 bank_addr_out 0
width 4 bank_id_prelu 0 bank_addr_prelu 0 valid_pixel_parallel 1 channel_group 1 shift_write 0 shift_write_prelu_n 0""".replace("\n", " ")


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_what_was_latched_before_is_there(engine: str) -> None:
    first, second = (assemble(MACHINE, Source("test.asm", f"{line}\nEND 0000 0000\n")) for line in (FIRST, SECOND))
    state = new_state(MACHINE)
    with pytest.raises(UserError, match=r"E0606 #0 ELEW at 0x0 uses ei\[0\], which no instruction has set"):
        check_program(second, state, ["fm"])
    engine_named(engine)(first, state, check_program(first, state).order)
    state.memories["fm"][:, :64] = np.arange(64)
    engine_named(engine)(second, state, check_program(second, state, ["fm"]).order)
    assert np.array_equal(state.memories["fm"][:, 8 * 8192 * 16 : 8 * 8192 * 16 + 64], np.tile(np.arange(64, dtype=np.uint8), (4, 1)))
