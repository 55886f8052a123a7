"""Text, listing and images of a small program."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.schedule.convolutions import convolution
from tests.schedule.template_kernels import write_template_kernels
from toolchain.isa.assembly import disassemble
from toolchain.schedule.compile_operation import compile_operation
from toolchain.schedule.kernels.kernel_file import load_kernel, read_kernels
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine

MACHINE = load_machine("vta")
FOLDER = Path(__file__).resolve().parents[2] / "targets" / "vta"
OPERATION = convolution((1, 32, 6, 6), (16, 3, 3), pads=(1, 1, 1, 1))


def test_the_listing_says_what_every_instruction_is_for(golden: Callable[[str, str], None]) -> None:
    compiled = compile_operation(MACHINE, load_kernel(MACHINE, "conv2d"), OPERATION, timed=1).compiled
    golden("schedule/small_convolution.asm", disassemble(compiled.program))
    golden("schedule/small_convolution.txt", "".join(f"{line}\n" for line in compiled.listing))
    assert len(compiled.listing) == len(compiled.program)


def test_templates_say_nothing_about_synchronisation() -> None:
    fields = {f.name for i in MACHINE.instructions for f in i.fields if f.role == "sync"}
    assert fields
    for path in FOLDER.iterdir():
        assert not [name for name in fields if name in path.read_text()], path


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("STORE {{ q_slot }}", ":1: E1005 the template fails: 'q_slot' is undefined (for conv store y n=0:1"),
        ("STORE {% if %}", "E1005 cannot read the template"),
        ("{{ ().__class__.__bases__ }}", "E1005 the template fails"),
        ("STOR memory_type=out", "/store.asm.j2: E0301 unknown instruction 'STOR', in `STOR memory_type=out` for conv store y n=0:1"),
    ],
)
def test_a_broken_template_is_one_line(tmp_path: Path, template: str, message: str) -> None:
    text = write_template_kernels(tmp_path)
    (tmp_path / "vta" / "store.asm.j2").write_text(template)
    with pytest.raises(UserError) as caught:
        _compiled(text, tmp_path / "vta")
    assert message in str(caught.value)
    assert len(caught.value.diagnostics) == 1


def _compiled(text: str, folder: Path) -> None:
    compile_operation(MACHINE, read_kernels(MACHINE, Source("kernels.yaml", text), folder)["conv2d"], OPERATION, timed=1)
