"""`tilewright operation`: lists, shows and checks. `tilewright model check`: models of layers, ONNX files with open dimensions, and faults."""

import shutil
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from toolchain.cli import USAGE, main
from toolchain.operations.library import builtin_kinds
from toolchain.report.manual import operation_list
from toolchain.spec.load import list_targets

TARGETS = Path(__file__).resolve().parents[2] / "targets"
RIPPLE = str(Path(__file__).resolve().parents[1] / "data" / "machines" / "ripple.yaml")


def test_descriptions_are_asked_for_only_where_the_check_is_strict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["target", "check", RIPPLE]) == 0
    assert main(["target", "check", RIPPLE, "--strict"]) == 1
    assert "E0147 field 'opcode' of " in capsys.readouterr().err
    assert main(["target", "check", "vta", "--strict"]) == 0


@pytest.mark.parametrize("name", list_targets())
def test_shipped_machines_are_checked_and_described(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["target", "check", name, "--strict"]) == 0
    assert f"{name}: " in capsys.readouterr().out


def test_functions_for_operators_are_no_kernels_of_operations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["target", "check", "clib32"]) == 0
    assert "53 kernels, 0 templates: no errors" in capsys.readouterr().out
    assert main(["operation", "list", "--machine", "clib32"]) == 1
    assert (
        "E1001 machine 'clib32' has kernels for ONNX's operators, and none for operations; `tilewright kernel check clib32`"
        in capsys.readouterr().err
    )


def test_a_mistake_in_such_a_function_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(TARGETS / "clib32.yaml", tmp_path)
    shutil.copytree(TARGETS / "clib32", tmp_path / "clib32")
    kernels = tmp_path / "clib32" / "kernels.yaml"
    kernels.write_text(kernels.read_text().replace("  Conv: {", "  Konv: {"))
    assert main(["target", "check", str(tmp_path / "clib32.yaml")]) == 1
    assert "kernels.yaml:62:3: E0107 ONNX has no operator 'Konv'" in capsys.readouterr().err


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["operation", "list", "--machine", "dpuv3"]) == 0
    lines = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert lines["conv2d"].startswith("kernel ")
    assert lines["linear"].startswith("as conv2d ")
    assert lines["concat"].startswith("in place ")
    assert lines["pad"].startswith("in its neighbour ")
    assert lines["sigmoid"].startswith("host ")
    assert main(["operation", "list"]) == 0
    assert "The sum of two tensors of one shape" in capsys.readouterr().out


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["operation", "show", "add"]) == 0
    text = capsys.readouterr().out
    assert "y[n, c, h, w] = x[n, c, h, w] + z[n, c, h, w]" in text
    assert "in place  x, z" in text
    assert main(["operation", "show", "concat"]) == main(["operation", "show", "softmax"]) == main(["operation", "show", "conv2d"]) == 0
    text = capsys.readouterr().out
    assert "the tensors of x side by side" in text
    assert "largest[n, m] = max over c of x[n, m, c]" in text
    assert "zeros before it can become its own padding" in text


def test_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["operation", "check", "add", "linear", "--shapes", "3", "--seed", "7"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "add: 3 shapes; float body 3, integer body 3, other ways 0: all equal"
    assert second == "linear: 3 shapes; float body 3, integer body 3, other ways 6: all equal"


@pytest.mark.parametrize(
    ("words", "message"),
    [(["show", "conv3d"], "E0107 unknown operation 'conv3d'; did you mean 'conv2d'"), (["check", "add", "--shapes", "0"], "E0002 --shapes is 0")],
)
def test_what_is_refused(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["operation", *words]) == (2 if message.startswith(USAGE) else 1)
    assert message in capsys.readouterr().err


def test_the_list_says_what_is_computed_where() -> None:
    """An operation that no model holds by itself is done as those are that it is a way of."""
    kinds = builtin_kinds()

    def where(*made: str) -> dict[str, str]:
        lines = operation_list(kinds, frozenset(made))
        return {line.split()[0]: " ".join(line[max(map(len, kinds)) :].strip()[:22].split()) for line in lines}

    found = where("conv2d", "add")
    assert (found["conv2d"], found["depthwise"], found["dense"], found["subtract"]) == ("kernel", "as conv2d", "as conv2d", "as add")
    assert (found["concat"], found["pad"], found["softmax"], found["max_pool"]) == ("in place", "in its neighbour", "host", "host")
    assert where("depthwise")["conv2d"] == "as depthwise"
    assert where("add")["depthwise"] == "host"


def test_a_model_without_errors_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", ends[:1], ends[1:])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert main(["model", "check", str(path), "--dim", "n:2"]) == 0
    assert main(["model", "check", "mobilenet_v2"]) == 0
    assert capsys.readouterr().out == "net: 1 node, x 2x3: no errors\nmobilenet_v2: 153 nodes, image 1x3x224x224: no errors\n"


def test_errors_of_the_file_and_of_the_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.yaml").write_text("model: {name: net}\nbogus: 1\n")
    (tmp_path / "net.onnx").write_bytes(b"no model")
    assert main(["model", "check", str(tmp_path / "net.yaml")]) == 1
    assert "net.yaml:2:1: E0108 unknown key 'bogus'" in capsys.readouterr().err
    assert main(["model", "check", str(tmp_path / "net.onnx")]) == 1
    assert "net.onnx: E0807" in capsys.readouterr().err
