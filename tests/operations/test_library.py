"""Operations of the toolchain and those that a machine's folder adds.

Descriptions that contradict themselves, or name what is not there, are refused at their place.
"""

import shutil
from pathlib import Path

import pytest

from toolchain.operations.library import FOLDER, builtin_kinds, kind_named, kinds_of, kinds_with, read_folder, read_kind
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine

GOOD = """operation: double
tensors:
  x: {axes: {n: batch, c: channels}}
  y: {axes: {n: batch, c: channels}, role: result}
attributes: {factor: factor}
meaning: {value: "x[n, c] + x[n, c]"}
"""
OWN = """extends: gelu
arithmetic:
  constants: {half: "ratio(1, 2 * scale_x)"}
  requires: [{that: half < 100, message: too fine}]
  step: scale_x
  stages: [{name: y, axes: [n, c, h, w], value: "wrap(x[n, c, h, w] + half)"}]
onnx: {integer: "products = Identity (x)"}
"""
WRONG = [
    ("role: result", "role: data", "E1301 an operation has one tensor of the role 'result', not 0"),
    ("  y:", "  z:", "E1301 the result is called 'y', not 'z'"),
    ("factor: factor", "factor: batch", "E1301 'batch' names two things"),
    ("x[n, c] + x[n, c]", "x[n, c] + q[n, c]", "E0107 unknown tensor 'q'"),
    ("x[n, c] + x[n, c]", "x[n, c] + x[n]", "E1301 'x' has 2 axes, not 1"),
    ("x[n, c] + x[n, c]", "x[n, b]", "E0107 unknown name 'b'"),
    ("{value:", "{sum:", "E1301 'sum' has no 'over'"),
    ('{value: "x[n, c] + x[n, c]"}', "{join: z}", "E0107 unknown operand 'z'"),
    ('{value: "x[n, c] + x[n, c]"}', '{value: "x[n, c]", sum: "x[n, c]"}', "E1301 a meaning has one of"),
    ('{value: "x[n, c] + x[n, c]"}', '{sum: "x[n, i]", over: {i: many}}', "E0107 unknown extent 'many'"),
    ('{value: "x[n, c] + x[n, c]"}', '{value: "exp(x[n, c])"}', "E0107 unknown function 'exp'"),
    ('{value: "x[n, c] + x[n, c]"}', "{stages: [{name: y, axes: [n, c]}]}", "E1301 stage 'y' has neither a value nor a reduction"),
    ('{value: "x[n, c] + x[n, c]"}', '{stages: [{name: m, axes: [n], value: "n"}]}', "E1301 the last stage makes 'm'"),
    ("x[n, c] + x[n, c]", "x[n, c] >> 1", "E1301 no scale follows"),
    ("x[n, c] + x[n, c]", "x[n, c] * x[n, c] + x[n, c]", "E1301 a sum is one of elements"),
    ("x[n, c] + x[n, c]", "0 * 3", "E1301 no summand of the meaning reads an element"),
    ('{value: "x[n, c] + x[n, c]"}', '{max: "x[n, i] * x[n, i]", over: {i: channels}}', "E1301 a max is one of elements"),
    ("operation: double", "operation: do-uble", "E0116"),
    ("y: {axes: {n: batch, c: channels}", "y: {axes: {n: batch, c: min}", "E1301 nothing says how long 'min' of the result is"),
    ('{value: "x[n, c] + x[n, c]"}', '{stages: [{name: y, axes: [n, c], value: "exp(total[n, c])"}]}', "E0107 unknown tensor 'total'"),
    ("attributes:", "onnx: {float: 'r = Add (x, x'}\nattributes:", "double.yaml:5:8: E1301 the ONNX body cannot be read: Expected"),
    ("attributes:", "onnx:\n  float: |\n    a = Add (x, x)\n    r = Add x, a)\nattributes:", "double.yaml:8:13: E1301 the ONNX body cannot be read"),
    (
        "attributes:",
        "onnx:\n  float: |\n    r = Add (x, z)\nattributes:",
        "double.yaml:7:17: E1301 the ONNX body reads 'z', which is no",
    ),
    ("attributes:", "onnx: {float: 'xx = Neg (x) r = Neg (xy)'}\nattributes:", "double.yaml:5:38: E1301 the ONNX body reads 'xy'"),
    ("attributes:", "onnx: {float: 'y = Add (x, x)'}\nattributes:", "double.yaml:5:8: E1301 the ONNX body makes no 'r'"),
    ("attributes:", "onnx: {float: .nan}\nattributes:", "E1301 the ONNX body cannot be read"),
    (
        'attributes: {factor: factor}\nmeaning: {value: "x[n, c] + x[n, c]"}',
        'onnx: {integer: "total = Identity (x)"}\nmeaning: {stages: [{name: y, axes: [n, c], value: "x[n, c]"}]}',
        "E1301 stages are computed in floating point, so they have no integer body",
    ),
    ("axes: {n: batch, c: channels}}", "axis: [n]}", "E0108 unknown key 'axis'"),
]


def test_with_weights_a_product_has_one_of_each() -> None:
    text = GOOD.replace("  y:", "  w: {axes: {c: channels}, role: weights}\n  y:")
    assert read_kind(Source("double.yaml", text.replace("x[n, c] + x[n, c]", "x[n, c] * w[c]"))).form == "weighted"
    with pytest.raises(UserError, match="E1301 with weights, every product is one element of 'x' times one of 'w'"):
        read_kind(Source("double.yaml", text.replace("x[n, c] + x[n, c]", "x[n, c] * w[c] * w[c]")))


def test_a_description() -> None:
    kind = read_kind(Source("double.yaml", GOOD))
    assert (kind.name, kind.data, kind.form, [term.operand for term in kind.terms]) == ("double", ("x",), "aligned", ["x", "x"])


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_what_is_refused(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(UserError) as raised:
        read_kind(Source("double.yaml", GOOD.replace(old, new, 1)))
    first = raised.value.diagnostics[0]
    assert message in "\n".join(each.headline() for each in raised.value.diagnostics)
    assert first.span is not None


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_toolchain_s_own_obey_the_schema(path: Path) -> None:
    kind = read_kind(Source(str(path), path.read_text()))
    assert kind.name == path.stem
    assert kind.doc.endswith(".")


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "double.yaml").write_text(GOOD)
    assert list(read_folder(tmp_path)) == ["double"]


TARGETS = Path(__file__).resolve().parents[2] / "targets"


def test_a_folder_adds_operations_and_replaces_none(tmp_path: Path) -> None:
    (tmp_path / "double.yaml").write_text(GOOD)
    kinds = kinds_with(tmp_path)
    assert set(kinds) == {*builtin_kinds(), "double"}
    (tmp_path / "double.yaml").write_text(GOOD.replace("operation: double", "operation: add"))
    with pytest.raises(UserError, match="E1302 the toolchain has an operation 'add' already"):
        kinds_with(tmp_path)


def test_a_machine_brings_operations(tmp_path: Path) -> None:
    shutil.copy(TARGETS / "vta.yaml", tmp_path)
    shutil.copytree(TARGETS / "vta", tmp_path / "vta")
    (tmp_path / "vta" / "operations").mkdir()
    (tmp_path / "vta" / "operations" / "double.yaml").write_text(GOOD)
    assert "double" in kinds_of(load_machine(str(tmp_path / "vta.yaml")))
    assert kinds_of(load_machine("vta")) is builtin_kinds()


def test_an_unknown_name_gets_a_hint() -> None:
    with pytest.raises(UserError, match="E0107 unknown operation 'conv3d'; did you mean 'conv2d'"):
        kind_named(builtin_kinds(), "conv3d")


def test_a_machine_computes_an_operation_in_arithmetic_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "gelu.yaml").write_text(OWN)
    kind, plain = kinds_with(tmp_path)["gelu"], builtin_kinds()["gelu"]
    assert (kind.form, plain.form, kind.meaning, kind.doc) == ("own", "table", plain.meaning, plain.doc)
    assert "half" in kind.numbers
    assert kind.integers == "products = Identity (x)"
    floating = kinds_with(tmp_path, halves=True)
    assert (floating["gelu"].form, floating["gelu"].integers, floating is kinds_with(tmp_path, halves=True)) == ("table", "", True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("extends: gelu", "extends: gulu", "E0107 unknown operation 'gulu'"),
        ("extends: gelu", "extends: conv2d", "E1301 'conv2d' computes in whole numbers already"),
        ("extends: gelu", "extends: gelu\nactivates: true", "E1301 'activates' stands in the operation that this one extends"),
        ('onnx: {integer: "products = Identity (x)"}', 'onnx: {float: "r = Identity (x)"}', "E1301 arithmetic of its own needs an integer body"),
        ("2 * scale_x", "2 * scale_z", "E0107 unknown name 'scale_z'"),
        ("half < 100", "other < 100", "E0107 unknown name 'other'"),
        ("wrap(x", "nearby(x", "E0107 unknown function 'nearby'"),
        ("wrap(x", "exp(x", "E0107 unknown function 'exp'"),
        ("ratio(1, 2 * scale_x)", "ratio(scale_x)", "E0123 ratio takes 2 arguments, not 1"),
        ("{half:", "{batch:", "E1301 'batch' names two things"),
        ("name: y, axes: [n, c, h, w], value: ", "name: y, axes: [n, c, h], over: {w: width}, mean: ", "E1301 stage 'y' has a mean"),
    ],
)
def test_wrong_arithmetic_is_refused(old: str, new: str, message: str) -> None:
    assert old in OWN
    with pytest.raises(UserError) as error:
        read_kind(Source("own.yaml", OWN.replace(old, new)))
    assert message in str(error.value)
