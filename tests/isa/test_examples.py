"""Examples are the first instruction of each kind, and assemble to their own bytes."""

from toolchain.isa.assembly.assembler import assemble
from toolchain.isa.examples import examples_of
from toolchain.spec.errors import Source
from toolchain.spec.load import load_machine

TEXT = """FLUSH
CONFIG_MVIN id=1 stride=64
CONFIG_MVIN id=0 stride=32
MVIN address=0x40 row=3 columns=16 rows=4 minor=2
"""


def test_the_first_of_each_kind() -> None:
    machine = load_machine("gemmini")
    found = examples_of(assemble(machine, Source("p.asm", TEXT)))
    assert list(found) == ["CONFIG_MVIN", "MVIN", "FLUSH"]
    assert found["CONFIG_MVIN"].line.startswith("CONFIG_MVIN id=1 stride=64")
    for example in found.values():
        assert assemble(machine, Source("one.asm", f"{example.line}\n")).streams == (example.data,)
