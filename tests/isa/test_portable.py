"""Portable checks warn once each, name the first instruction and count the others."""

import pytest

from toolchain.isa.assembly.assembler import assemble
from toolchain.isa.portable import portability
from toolchain.spec.errors import Source
from toolchain.spec.load import load_machine

ALU = "ALU uop_bgn=0 uop_end=1 iter_out=1 iter_in=1 dst_factor_out=0 dst_factor_in=0 src_factor_out=0 src_factor_in=0"
LOAD = "LOAD sram_base=0 dram_base=0 x_stride=0"


@pytest.mark.parametrize(
    ("line", "check"),
    [
        (f"{ALU} alu_opcode=shr use_imm=1 imm=16", "shift_range"),
        (f"{ALU} alu_opcode=shr", "shift_by_vector"),
        (f"{ALU} alu_opcode=mul", "multiply"),
        (f"{LOAD} memory_type=acc8 y_size=1 x_size=1", "load_8_bit"),
        (f"{LOAD} memory_type=uop y_size=2 x_size=1", "uop_window"),
        (f"{LOAD} memory_type=uop y_size=1 x_size=1 x_pad_1=1", "uop_window"),
        (f"{LOAD} memory_type=wgt y_size=1 x_size=1 y_pad_0=1", "weight_pads"),
        (f"{LOAD} memory_type=inp y_size=1 x_size=0 x_pad_0=1", "empty_load"),
        (f"{ALU} alu_opcode=shr use_imm=1 imm=-16", ""),
        (f"{LOAD} memory_type=inp y_size=3 x_size=2 x_pad_0=1", ""),
    ],
)
def test_each_known_difference_warns(line: str, check: str) -> None:
    found = portability(assemble(load_machine("vta"), Source("a.asm", f"{line}\nFINISH\n")))
    assert [d.hint for d in found] == ([f"portable check '{check}'"] if check else [])


def test_a_warning_names_the_first_and_counts_the_rest() -> None:
    text = f"FINISH_LATER\n{ALU} alu_opcode=mul\n{ALU} alu_opcode=add\n{ALU} alu_opcode=mul\nFINISH\n".replace(
        "FINISH_LATER", f"{ALU} alu_opcode=min"
    )
    (warning,) = portability(assemble(load_machine("vta"), Source("a.asm", text)))
    assert warning.headline().startswith("E0412 warning: #1 ALU at 0x10, and 1 more: only the functional simulator")
    assert warning.severity == "warning"


def test_a_machine_without_portable_checks_has_nothing_to_say() -> None:
    assert portability(assemble(load_machine("dpuv3"), Source("a.asm", "END 0000 0000\n"))) == ()
