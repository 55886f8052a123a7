"""Costs of real instructions, by hand: fields, latched registers as they stand at issue, traffic, resource instances."""

from pathlib import Path

import numpy as np
import pytest

from tests.target_runs import load_golden, timed
from toolchain.isa.assembly.assembler import assemble
from toolchain.isa.binary.decode import decode
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import find_target, load_machine, load_text

GOLDEN = sorted((Path(__file__).parents[1] / "data" / "vta_golden").glob("*.npz"))
"""Programs whose fields are read here without the toolchain."""


def vta_columns(data: bytes) -> np.ndarray:
    """[n, 2] of uint64: the two halves of each instruction."""
    return np.frombuffer(data, "<u8").reshape(-1, 2)


@pytest.mark.parametrize("path", GOLDEN[:8], ids=lambda p: p.stem)
def test_vta_steps_are_those_of_its_fields(path: Path) -> None:
    low = vta_columns(np.load(path)["insns"].tobytes())[:, 0]
    opcode = low & np.uint64(7)
    steps = ((low >> np.uint64(35)) & np.uint64(0x3FFF)) * ((low >> np.uint64(49)) & np.uint64(0x3FFF))
    steps *= ((low >> np.uint64(21)) & np.uint64(0x3FFF)) - ((low >> np.uint64(8)) & np.uint64(0x1FFF))
    machine = load_machine("vta")
    costs = timed(decode(machine, [load_golden(path)])).costs
    assert costs.cycles.tolist() == np.where(opcode == 2, steps, np.where(opcode == 4, 2 * steps, 0)).tolist()
    assert (costs.latency == np.where((opcode == 2) | (opcode == 4), 4, 0)).all()


def test_a_load_takes_its_bytes_through_the_port() -> None:
    machine = load_machine("vta")
    program = assemble(machine, Source("t.asm", "LOAD memory_type=inp sram_base=0 dram_base=256 y_size=3 x_size=5 x_stride=9 x_pad_0=1\nFINISH\n"))
    costs = timed(program).costs
    assert (costs.bytes.tolist(), costs.work.tolist(), costs.first.tolist()) == ([240], [30], [0, 1, 1])
    assert costs.setup.tolist() == [32 + 3, 0]  # a cycle for each element of padding


INIT = "CONVINIT 0000 0000 kernel_h {k} kernel_w {k} channel_group_in {g} channel_group_out 2 stride_h 1 stride_w 1 jump_read 1 jump_write 2"
INIT += " jump_read_endl 64 jump_write_endl 64 wgt_jump_read_endl 64 stride_out 1 act_type 0 shift_cut 0 channel_offset 0 prelu_shift_p 0"
CONV = "CONV 0000 0000 length {n} valid_pixel_parallel 8 bank_id_out 8 pad_right 15 pad_bottom 15 bank_id_in 0 bank_addr_in 0 pad_left 0 pad_top 0"
CONV += " bank_addr_out 0 bank_addr_weights 0 bias_offset 0 bank_addr_bias 4000 stride_offset_out 0 prelu_offset 0 prelu_shift_n 0 bank_addr_prelu 0"


def test_registers_count_as_they_stand_at_issue() -> None:
    text = "\n".join([INIT.format(k=3, g=1), CONV.format(n=10), INIT.format(k=1, g=4), CONV.format(n=10), CONV.format(n=7), "END 0000 0000"])
    program = assemble(load_machine("dpuv3"), Source("t.asm", text + "\n"))
    assert timed(program).costs.cycles.tolist() == [1, 10 * 9 * 2, 1, 10 * 4 * 2, 7 * 4 * 2, 1]


def test_a_negative_cost_is_refused() -> None:
    text = find_target("vta").read_text().replace("max(uop_end - uop_bgn, 0)", "(uop_end - uop_bgn)")
    program = assemble(load_text(text, "vta.yaml"), Source("t.asm", "GEMM uop_bgn=4 uop_end=2 iter_out=1 iter_in=3 " + FACTORS + "\nFINISH\n"))
    with pytest.raises(UserError, match=r"E0510 timing class 'gemm' gives -6 for #0 GEMM at 0x0; a cost cannot be negative"):
        timed(program)


FACTORS = "dst_factor_out=0 dst_factor_in=0 src_factor_out=0 src_factor_in=0 wgt_factor_out=0 wgt_factor_in=0"


def test_each_cluster_has_its_own_port() -> None:
    machine = load_machine("stcp920", overrides={"LOG_DDR": "20", "LOG_LLB": "16", "CLUSTERS": "2", "CORES": "2"})
    ports = timed(assemble(machine, Source("t.asm", "".join(f".stream {k}\nEND\n" for k in range(4))))).costs.ports
    assert ports.names == ("ddr_port", "llb_port[0]", "llb_port[1]")
