"""Functions for operators of ONNX: read from the file, with each mistake told."""

from pathlib import Path

import pytest

from toolchain.schedule.kernels.operator_calls import load_operator_calls, read_operator_calls
from toolchain.spec.errors import Source, UserError
from toolchain.spec.expr import Const
from toolchain.spec.load import load_machine

MACHINE = load_machine("clib32")
FOLDER = Path(MACHINE.path).parent / "clib32"
START = "library: {header: clib32.h, sources: [clib32.c]}\nkernels:\n"
RELU = "  Relu: {call: clib32_relu, arguments: {x: x0, y, count: elements}}\n"


def test_the_library_of_clib32() -> None:
    found = load_operator_calls(MACHINE)
    assert len(found) > 50
    assert found["Concat"].addressed == (0, 1, 2, 3, 4, 5)
    assert found["Resize"].addressed == (0,)
    assert found["Clip"].addressed == (0, 1, 2)
    assert found["LeakyRelu"].arguments["alpha"] == "alpha"
    assert read_operator_calls(MACHINE, Source("k.yaml", START + RELU), FOLDER)["Relu"].cycles == Const(0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RELU.replace("Relu", "Rellu"), "E0107 ONNX has no operator 'Rellu'"),
        (RELU.replace("elements", "element"), "E0107 unknown name 'element'"),
        (RELU.replace("elements", "[elements, size]"), "E0107 unknown name 'size'"),
        (RELU.replace("elements", "kernel_0"), "E0107 unknown name 'kernel_0'"),
        (RELU.replace("}}", "}, requires: [{that: alpha > 0, message: no}]}"), "E0107 unknown name 'alpha'"),
        (RELU.replace("}}", "}, tile: {rows: {of: 1}}}"), "E1002 a function for an operator of ONNX has no 'tile'"),
        ("  Relu: {call: clib32_relu}\n", "E1002 a kernel needs 'arguments'"),
    ],
)
def test_a_mistake_is_told(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_operator_calls(MACHINE, Source("k.yaml", START + text), FOLDER)
    assert caught.value.diagnostics[0].headline().endswith(message) or message in caught.value.diagnostics[0].headline()


def test_a_file_without_its_library_is_refused() -> None:
    with pytest.raises(UserError, match="E1002 machine 'clib32' has codegen: c99, and its kernels have no 'library'"):
        read_operator_calls(MACHINE, Source("k.yaml", "kernels:\n" + RELU), FOLDER)
