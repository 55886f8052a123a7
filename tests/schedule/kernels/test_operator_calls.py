"""Numbers of ONNX's operators against ONNX's own shapes and numpy's strides. Functions for operators of ONNX: read from the file, with each
mistake told."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from tests.schedule.test_graph_offload import node
from toolchain.schedule.kernels.operator_calls import (
    float_attribute,
    float_names,
    known_inputs,
    load_operator_calls,
    number_names,
    operator_numbers,
    read_operator_calls,
)
from toolchain.spec.errors import Source, UserError
from toolchain.spec.expr import Const
from toolchain.spec.load import load_machine

F = np.float32

MACHINE = load_machine("clib32")
FOLDER = Path(MACHINE.path).parent / "clib32"
START = "library: {header: clib32.h, sources: [clib32.c]}\nkernels:\n"
RELU = "  Relu: {call: clib32_relu, arguments: {x: x0, y, count: elements}}\n"


def numbers(one: ir.Node) -> Mapping[str, int]:
    return operator_numbers(one, known_inputs([one]))


def test_every_name_has_a_number() -> None:
    for operator in ("Conv", "Slice", "Concat", "Softmax", "Resize"):
        given = {"x": [1, 4, 8, 8], "w": np.zeros((2, 4, 3, 3), F)} if operator == "Conv" else {"x": [1, 4, 8, 8]}
        assert numbers(node(operator, given, [1, 4, 8, 8])).keys() == number_names(operator)


@pytest.mark.parametrize(
    ("padding", "wanted"),
    [
        ({"pads": [2, 1, 2, 0]}, (2, 1, 2, 0)),
        ({"auto_pad": "VALID"}, (0, 0, 0, 0)),
        ({"auto_pad": "SAME_UPPER"}, (1, 0, 1, 1)),
        ({"auto_pad": "SAME_LOWER"}, (1, 1, 1, 0)),
    ],
)
def test_windows_and_their_padding(padding: dict[str, object], wanted: tuple[int, int, int, int]) -> None:
    """7 rows in steps of 2 become 4: the last window ends one row outside, as does the first; 8 columns in steps of 2 lack one in all."""
    one = node("Conv", {"x": [1, 4, 7, 8], "w": np.zeros((2, 4, 3, 3), F)}, [1, 2, 4, 4], strides=[2, 2], **padding)
    found = numbers(one)
    assert (found["kernel_0"], found["kernel_1"], found["stride_0"], found["dilation_1"]) == (3, 3, 2, 1)
    assert (found["before_0"], found["before_1"], found["after_0"], found["after_1"]) == wanted


def test_steps_are_those_of_broadcasting() -> None:
    shapes = {"x": [2, 1, 4, 5], "z": [3, 1, 5]}
    found = numbers(node("Add", shapes, [2, 3, 4, 5]))
    assert [found[f"extent_{k}"] for k in range(6)] == [1, 1, 2, 3, 4, 5]
    for place, shape in enumerate(shapes.values()):
        wide = np.broadcast_to(np.zeros(shape, F), (1, 1, 2, 3, 4, 5))
        assert [found[f"step_{place}_{k}"] for k in range(6)] == [
            step // 4 if size > 1 else 0 for step, size in zip(wide.strides, wide.shape, strict=True)
        ]


def test_an_axis_cuts_the_elements_in_three() -> None:
    found = numbers(node("Softmax", {"x": [2, 3, 4, 5]}, [2, 3, 4, 5], axis=-2))
    assert (found["before_axis"], found["at_axis"], found["after_axis"]) == (6, 4, 5)


def test_known_whole_numbers_can_be_named_and_no_others() -> None:
    found = numbers(node("Slice", {"x": [9], "starts": np.array([-3]), "ends": np.array([2**63 - 1])}, [3]))
    assert (found["whole_1"], found["value_1_0"], found["whole_2"], found["value_2_0"]) == (1, -3, 0, 0)
    scales = numbers(node("Resize", {"x": [1, 1, 2, 2], "roi": np.zeros(0, F), "s": np.array([1, 1, 1.5, 2], F)}, [1, 1, 3, 4]))
    assert (scales["whole_2"], scales["known_2"], scales["mode_nearest"], scales["mode_linear"]) == (0, 1, 1, 0)


def test_constants_of_a_region_are_inputs_of_its_nodes() -> None:
    one = node("Slice", {"x": [9], "starts": [1], "ends": [1]}, [3])
    found = operator_numbers(one, {"starts": np.array([4])})
    assert (found["known_1"], found["value_1_0"], found["known_2"]) == (1, 4, 0)


def test_attributes_left_out_have_the_defaults_of_onnx() -> None:
    assert float_names("LeakyRelu") == {"alpha"}
    assert float_attribute(node("LeakyRelu", {"x": [4]}, [4]), "alpha") == pytest.approx(0.01)
    assert float_attribute(node("LeakyRelu", {"x": [4]}, [4], alpha=0.5), "alpha") == 0.5
    assert numbers(node("Gemm", {"x": [2, 3], "w": [4, 3]}, [2, 4], transB=1))["transB"] == 1


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
