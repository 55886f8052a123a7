from collections.abc import Callable

from toolchain.isa.assembly.assembler import assemble
from toolchain.isa.assembly.disassembler import disassemble
from toolchain.report.footprint_comments import footprint_comments
from toolchain.spec.errors import Source
from toolchain.spec.load import load_machine

TEXT = """\
LOAD memory_type=uop sram_base=0 dram_base=1024 y_size=1 x_size=4 x_stride=4
LOAD memory_type=inp sram_base=0 dram_base=512 y_size=6 x_size=16 x_stride=32 y_pad_0=1 push_next=1
GEMM uop_bgn=0 uop_end=1 iter_out=1 iter_in=16 FACTORS pop_prev=1
STORE memory_type=out sram_base=0 dram_base=8192 y_size=1 x_size=16 x_stride=16
FINISH
""".replace("FACTORS", "dst_factor_out=0 dst_factor_in=1 src_factor_out=0 src_factor_in=1 wgt_factor_out=0 wgt_factor_in=0")


def test_listing_with_footprints(golden: Callable[[str, str], None]) -> None:
    machine = load_machine("vta")
    program = assemble(machine, Source("listing.asm", TEXT))
    text = disassemble(program, footprint_comments(program))
    assert assemble(machine, Source("again.asm", text)).streams == program.streams
    golden("checks/listing.txt", text)
