"""Mistakes in a file of kernels that call a library are said where they stand."""

import shutil
from pathlib import Path

import pytest

from tests.schedule.kernels.test_kernel_file import PATH as VTA
from toolchain.schedule.kernels.kernel_file import load_kernels, read_kernels
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine

MACHINE = load_machine("clib")
FOLDER = Path(__file__).resolve().parents[3] / "targets" / "clib"
PATH = FOLDER / "kernels.yaml"
WRONG = [
    ("sources: [clib.c]", "sources: [lib.c]", "E1002 there is no file 'lib.c' in"),
    ("header: clib.h", "header: ../clib/clib.h", "E0116 '../clib/clib.h' is not allowed here"),
    ("arguments: {weight, channels}", "arguments: {weight, 'channels = 1, .x': 1}", "E0116 "),
    ("    call: clib_upsample\n", "", "E1002 a kernel needs 'call'"),
    ("    call: clib_upsample\n", "    call: clib_upsample\n    tile: {n: {of: 1}}\n", "E1002 a kernel that calls a library has no 'tile'"),
    ("arguments: {weight, channels}", "arguments: {channels}", "E1002 kernel 'depthwise' does not pass tensor 'weight'"),
    ("arguments: {weight, channels}", "arguments: {weight, chanels}", "E0107 unknown name 'chanels'; did you mean 'channels'?"),
    ("arguments: {weight, channels}", "arguments: {weight, channels: weight_chans}", "E0107 unknown name 'weight_chans'"),
    ("cycles: channels * height * width * 10 // 7", "cycles: chanels", "E0107 unknown name 'chanels'"),
    ("tensors: {weight: {layout: taps,", "tensors: {weight: {layout: taps, view: memory.byte,", "E1002 unknown view 'memory.byte'"),
    ("zero_x, zero_y, low, high}", "zero_y, low, high}", "E1009 kernel 'conv2d' does not use 'zero_x' or 'folded'"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_a_mistake_is_told(old: str, new: str, message: str) -> None:
    text = PATH.read_text()
    assert old in text
    with pytest.raises(UserError) as caught:
        read_kernels(MACHINE, Source("kernels.yaml", text.replace(old, new, 1)), FOLDER)
    assert any(message in diagnostic.render() for diagnostic in caught.value.diagnostics), caught.value


def test_a_library_and_a_generator_go_together(tmp_path: Path) -> None:
    message = "E1002 machine 'clib' has codegen: c99, and its kernels have no 'library'"
    with pytest.raises(UserError, match=message):
        read_kernels(MACHINE, Source("kernels.yaml", VTA.read_text()), VTA.parent)
    shutil.copy(FOLDER.parent / "vta.yaml", tmp_path)
    shutil.copytree(FOLDER, tmp_path / "vta")
    with pytest.raises(UserError, match="E1002 machine 'vta' has codegen: binary, and its kernels have a 'library'"):
        load_kernels(load_machine(str(tmp_path / "vta.yaml")))


def test_an_argument_without_a_value_is_what_is_called_so() -> None:
    kernel = load_kernels(MACHINE)["conv2d"]
    assert kernel.call is not None
    assert kernel.call.arguments["weight"] == "weight"
    assert {tensor.name: tensor.view for tensor in kernel.tensors} == {
        **dict.fromkeys(("bias", "multipliers", "shifts"), "memory.words"),
        **dict.fromkeys(("weight", "x", "y"), "memory.bytes"),
    }
