"""Faults of instructions, told of the place that wrote them."""

from pathlib import Path

import pytest

from tests.schedule.convolutions import convolution
from tests.schedule.template_kernels import STORE, write_template_kernels
from toolchain.schedule.compile import compile_operation
from toolchain.schedule.emission_errors import SHOWN, once, told, told_for
from toolchain.schedule.kernels.kernel_file import read_kernels
from toolchain.spec.errors import Diagnostic, Source, Span, UserError
from toolchain.spec.load import load_machine

MACHINE = load_machine("vta")
OPERATION = convolution((1, 32, 6, 6), (16, 3, 3), pads=(1, 1, 1, 1))
FAULT = Diagnostic("E0404", "a store cannot pad")


def test_a_template_is_named_by_its_path() -> None:
    found = told(FAULT, "STORE " + "x" * SHOWN, "conv store y", Path("store.asm.j2"))
    assert str(UserError(found)) == f"store.asm.j2: E0404 a store cannot pad, in `STORE {'x' * (SHOWN - 6)}...` for conv store y"


def test_a_kernel_file_is_named_by_its_line() -> None:
    place = Span(Source("kernels.yaml", "steps:\n  - STORE\n"), 2, 5)
    text = str(UserError(told(FAULT, "STORE", "conv store y", place)))
    assert text.startswith("kernels.yaml:2:5: E0404 a store cannot pad, in `STORE` for conv store y")


def test_each_place_has_a_fault_once() -> None:
    other = Diagnostic("E0405", "no counter")
    assert once([(FAULT, "a"), (FAULT, "a"), (FAULT, "b"), (other, "a")]).diagnostics == (FAULT, FAULT, other)


def test_what_a_template_was_rendered_for() -> None:
    assert "E0404 a store cannot pad (for conv)" in str(told_for(UserError(FAULT), "conv"))


@pytest.mark.parametrize(
    ("store", "message"),
    [
        (STORE.replace("STORE", "STORE y_pad_0=1"), "store.asm.j2: E0404 "),
        (STORE.replace("x_stride=1", "x_stride=1 x_stride=1"), "store.asm.j2: E0306 the field x_stride is given twice, in `STORE "),
        (STORE + ".stream 0\n", "E1005 "),
        (STORE + "# a word\n", "writes lines that are no instructions, for conv store y"),
        (STORE + "FINISH\n", "E0309 "),
    ],
)
def test_a_template_that_writes_what_the_machine_refuses(store: str, message: str, tmp_path: Path) -> None:
    text = write_template_kernels(tmp_path)
    (tmp_path / "vta" / "store.asm.j2").write_text(store)
    kernel = read_kernels(MACHINE, Source("kernels.yaml", text), tmp_path / "vta")["conv2d"]
    with pytest.raises(UserError) as caught:
        compile_operation(MACHINE, kernel, OPERATION, timed=1)
    assert message in str(caught.value)
    assert len(caught.value.diagnostics) == 1
