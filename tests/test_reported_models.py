"""Models that users and attackers brought, which once came out wrong, hung, or ended in a traceback: each as it has to be."""

import logging
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import toolchain
from tests.graph.imported import F, normal, run
from tests.graph.onnx_builder import model, save
from toolchain.cli import main
from toolchain.graph.importing.load import load_graph
from toolchain.graph.quantisation.table import Table
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store, open_model
from toolchain.models.load import load_model
from toolchain.models.samples import labelled_samples
from toolchain.models.sources import stored_inputs
from toolchain.passes.build import build_graph, calibration_table, declared_table, united_table
from toolchain.passes.context import Context, Device
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.offload import device_of
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

n = helper.make_node
ROOT = Path(__file__).resolve().parents[1]
Array = np.ndarray


@cache
def dpuv3() -> tuple[Machine, Device]:
    machine = load_machine("dpuv3")
    return machine, device_of(machine, load_kernels(machine))


def built(path: Path, samples: Array, folder: Path) -> ir.Model:
    """The integer model, with everything on the machine that it takes."""
    machine, device = dpuv3()
    name = next(iter(stored_inputs(path)))
    seen, declared = calibration_table(path, {}, {name: samples}), declared_table(path, {})
    table = united_table(seen, declared) if declared else seen
    context = Context(str(path), numerics=machine.quantisation, table=table, samples={name: samples}, device=device, policy="all")
    return build_graph(path, {}, context, Store(folder / "stages"))


def loss(proto: onnx.ModelProto, folder: Path, seed: int = 0) -> tuple[ir.Model, float]:
    """The integer model of a network of one input and output, and its signal to noise on new inputs, dB."""
    path, shape = save(proto, folder), tuple(dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim)
    result = built(path, normal(seed, 8, *shape), folder)
    x = {"x": normal(seed + 1, *shape)}
    wanted, found = (next(iter(run_session(session, x).values())) for session in (open_session(path), open_model(result)))
    noise = float(((wanted - found) ** 2).sum())
    return result, 10 * np.log10(float((wanted**2).sum()) / noise) if noise else np.inf


class Images(CalibrationDataReader):
    def __init__(self, name: str, images: Array) -> None:
        self.left: Iterator[dict[str, Array]] = iter([{name: image} for image in images])

    def get_next(self) -> dict[str, Array] | None:
        return next(self.left, None)


@pytest.mark.parametrize("kind", [QuantType.QUInt8, QuantType.QInt8])
def test_a_network_quantised_by_onnx_runtime_keeps_its_relus(kind: QuantType, tmp_path: Path) -> None:
    """Digits by the quantiser's defaults: its ReLUs are zero points only. It fell from 99.8 % to 21 %, and was called exact."""
    logging.getLogger().setLevel(logging.ERROR)
    given, path = ROOT / "models" / "digits" / "digits.onnx", tmp_path / "digits.onnx"
    test = labelled_samples(load_model(str(ROOT / "models" / "digits.yaml")))
    assert test is not None
    samples, labels = test
    ((name, images),) = samples.items()
    assert labels is not None
    quantize_static(given, path, Images(name, images[:20]), quant_format=QuantFormat.QDQ, activation_type=kind, weight_type=QuantType.QInt8)
    assert not any(node.op_type == "Relu" for node in onnx.load(path).graph.node)
    session = open_model(built(path, images[:8], tmp_path))
    right = sum(int(next(iter(run_session(session, {name: images[k]}).values())).argmax() == labels[k]) for k in range(100))
    assert right >= 97


@pytest.mark.parametrize("after", ["Mul", "Add", "Sub", "Div", "BatchNormalization", ""])
@pytest.mark.parametrize("bias", [(), (1,), (1, 4), (4, 1), (4, 4)])
def test_any_bias_of_a_dense_layer(bias: tuple[int, ...], after: str, tmp_path: Path) -> None:
    """One number a row was taken for one a column; a matrix and a scalar were a traceback."""
    constants = {"w": normal(0, 8, 4), "b": normal(1, *bias) * F(3), "k": np.array([1, 2, 3, 4], F)} | {p: np.full(4, 0.7, F) for p in "stmv"}
    nodes = [n("Flatten", ["x"], ["f"], "flat", axis=2), n("Gemm", ["f", "w", "b"], ["g"], "dense")]
    if after:
        nodes.append(n(after, ["g", *("stmv" if after == "BatchNormalization" else "k")], ["y"], "after"))
    _, sqnr = loss(model(nodes, {"x": [1, 4, 2, 4]}, {nodes[-1].output[0]: None}, constants, 18), tmp_path)
    assert sqnr > 20


OLD = {
    "upsample linear": (n("Upsample", ["x", "s"], ["y"], mode="linear"), 9),
    "upsample by a fraction": (n("Upsample", ["x", "t"], ["y"], mode="nearest"), 9),
    "upsample of set 7": (n("Upsample", ["x"], ["y"], mode="linear", scales=[1.0, 1.0, 2.0, 2.0]), 7),
    "resize linear": (n("Resize", ["x", "s"], ["y"], mode="linear"), 10),
    "hardmax": (n("Hardmax", ["x"], ["y"]), 12),
    "softmax": (n("Softmax", ["x"], ["y"]), 12),
}


@pytest.mark.parametrize("case", OLD)
def test_old_operator_sets_mean_what_they_meant(case: str, tmp_path: Path) -> None:
    node, opset = OLD[case]
    constants = {name: np.array([1, 1, factor, factor], F) for name, factor in (("s", 2), ("t", 1.5)) if name in node.input}
    path, x = save(model([node], {"x": [1, 3, 4, 4]}, {"y": None}, constants, opset), tmp_path), {"x": normal(0, 1, 3, 4, 4)}
    np.testing.assert_allclose(run(load_graph(path), x)["y"], run(path, x)["y"], rtol=1e-6)


@pytest.mark.parametrize("factor", [2.1, 2.4, 3.3, 2.0])
@pytest.mark.parametrize("form", ["asymmetric", "half_pixel"])
def test_a_resize_by_nearly_a_whole_factor_is_no_repetition(factor: float, form: str, tmp_path: Path) -> None:
    nodes = [
        n("Conv", ["x", "w"], ["c"], "conv"),
        n("Resize", ["c", "", "s"], ["y"], "resize", mode="nearest", nearest_mode="floor", coordinate_transformation_mode=form),
    ]
    constants = {"w": np.eye(16, dtype=F).reshape(16, 16, 1, 1), "s": np.array([1, 1, factor, factor], F)}
    result, sqnr = loss(model(nodes, {"x": [1, 16, 3, 3]}, {"y": None}, constants, 18), tmp_path)
    assert sqnr > 30
    assert any(node.op_type == "Resize" for node in result.graph) == (factor != 2.0 or form == "half_pixel")


def test_a_clip_behind_a_host_operator_keeps_its_range(tmp_path: Path) -> None:
    """The operand reaches far beyond the limit: one step of it was larger than the limit, and everything became zero."""
    nodes = [n("Mul", ["x", "four"], ["m"]), n("Exp", ["m"], ["e"]), n("Clip", ["e", "", "two"], ["c"]), n("Conv", ["c", "w"], ["y"])]
    constants = {"four": F(4), "two": F(2), "w": normal(0, 16, 16, 1, 1)}
    _, sqnr = loss(model(nodes, {"x": [1, 16, 8, 8]}, {"y": None}, constants, 18), tmp_path)
    assert sqnr > 25
    result, sqnr = loss(model(nodes[:3], {"x": [1, 16, 8, 8]}, {"c": None}, constants, 18), tmp_path)
    assert sqnr > 25
    assert any(node.op_type == "Clip" for node in result.graph)


def test_a_concat_does_not_coarsen_an_input_of_the_network(tmp_path: Path) -> None:
    """Its other part is a hundred times larger, and made from it by weights too large for any shift: to look for one hung for ever."""
    nodes = [n("Conv", ["x", "w"], ["a"], "one"), n("Conv", ["x", "big"], ["b"], "two"), n("Concat", ["x", "b"], ["c"], "concat", axis=1)]
    proto = model(nodes, {"x": [1, 16, 6, 6]}, {"a": None, "c": None}, {"w": normal(0, 16, 16, 1, 1), "big": normal(1, 16, 16, 1, 1) * F(100)}, 18)
    path = save(proto, tmp_path)
    result, x = built(path, normal(0, 8, 1, 16, 6, 6), tmp_path), {"x": normal(1, 1, 16, 6, 6)}
    wanted, found = (run_session(session, x)["a"] for session in (open_session(path), open_model(result)))
    assert 10 * np.log10(float((wanted**2).sum() / ((wanted - found) ** 2).sum())) > 25


def test_an_average_whose_padding_counts_runs_on_the_machine(tmp_path: Path) -> None:
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    nodes = [n("Conv", ["x", "w"], ["c"], "conv"), n("AveragePool", ["c"], ["y"], "pool", **window)]
    result, sqnr = loss(model(nodes, {"x": [1, 16, 14, 14]}, {"y": None}, {"w": normal(0, 16, 16, 1, 1)}, 18), tmp_path)
    assert sqnr > 25
    assert {node.op_type for node in result.graph} == {"quantize", "region0", "dequantize"}


def test_pools_that_round_up_are_imported_where_onnx_and_onnx_runtime_disagree(tmp_path: Path) -> None:
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 2, 2], "ceil_mode": 1}
    nodes = [n("MaxPool", ["x"], ["p"], "pool", **window), n("Conv", ["p", "w"], ["y"], "conv")]
    _, sqnr = loss(model(nodes, {"x": [1, 16, 5, 5]}, {"y": None}, {"w": normal(0, 16, 16, 1, 1)}, 18), tmp_path)
    assert sqnr > 25


def test_an_output_may_be_called_like_a_tensor_of_ours(tmp_path: Path) -> None:
    nodes = [n("Conv", ["x", "w"], ["a"], pads=[1] * 4), n("Relu", ["a"], ["a.int8"]), n("Conv", ["a", "w"], ["y"])]
    path = save(model(nodes, {"x": [1, 4, 8, 8]}, {"y": None, "a.int8": None}, {"w": normal(0, 4, 4, 3, 3)}, 13), tmp_path)
    result, x = built(path, normal(0, 8, 1, 4, 8, 8), tmp_path), {"x": normal(1, 1, 4, 8, 8)}
    wanted, found = (run_session(session, x) for session in (open_session(path), open_model(result)))
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        assert float(((array - found[name]) ** 2).sum()) < 1e-2 * float((array**2).sum())


def test_several_inputs_with_recorded_samples_and_an_lstm_whose_first_result_is_left_out(tmp_path: Path) -> None:
    """From the model's file to the bundle's answer."""
    nodes = [n("Add", ["a", "b"], ["s"]), n("LSTM", ["s", "w", "r"], ["", "h"], "lstm", hidden_size=2), n("Neg", ["h"], ["y"])]
    proto = model(nodes, {"a": [5, 1, 3], "b": [5, 1, 3]}, {"y": None}, {"w": normal(0, 1, 8, 3), "r": normal(1, 1, 8, 2)}, 17)
    save(proto, tmp_path)
    samples = {"a": normal(2, 4, 5, 1, 3), "b": normal(3, 4, 5, 1, 3)}
    np.savez(tmp_path / "seen.npz", one=samples["a"], two=samples["b"])
    (tmp_path / "net.yaml").write_text("model: {name: net, summary: s}\nonnx: net.onnx\ncalibration: {file: seen.npz, arrays: {a: one, b: two}}\n")
    made = toolchain.compile(tmp_path / "net.yaml", "vta", folder=tmp_path / "build")
    assert made.calibration == "recorded"
    x = {name: array[0] for name, array in samples.items()}
    np.testing.assert_allclose(toolchain.load(made.bundle).run(x)["y"], run(tmp_path / "net.onnx", x)["y"], rtol=1e-5, atol=1e-6)


def _taken(path: Path, dims: dict[str, int] | None) -> None:
    stored_inputs(path, dims)
    load_graph(path, dims)


def one_line(path: Path, dims: dict[str, int] | None = None) -> str:
    """What a build says of a file that it does not take."""
    with pytest.raises(UserError) as caught:
        _taken(path, dims)
    text = str(caught.value)
    assert text.startswith(f"{path}: E0")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")[:200]


def test_an_input_of_absurd_size(tmp_path: Path) -> None:
    path = save(model([n("Relu", ["x"], ["y"])], {"x": [1, 3, 1 << 31, 1 << 31]}, {"y": None}), tmp_path)
    assert one_line(path).startswith("E0904 the input 'x' of shape 1x3x2147483648x2147483648 has more than")


@pytest.mark.parametrize("size", ["9" * 5000, "", "-1", "0x10", "1e3"])
def test_a_size_that_is_no_count(size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(model([n("Relu", ["x"], ["y"])], {"x": ["n", 3]}, {"y": None}), tmp_path)
    assert main(["build", "target=vta", f"model={path}", f"dim=n:{size}"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("E1202 ")
    assert len(told) < 200


def test_a_type_that_onnx_does_not_know(tmp_path: Path) -> None:
    proto = model([n("Relu", ["x"], ["y"])], {"x": [1, 3]}, {"y": None})
    proto.graph.input[0].type.tensor_type.elem_type = 65
    assert one_line(save(proto, tmp_path)) == "E0807 the input 'x' has a type that ONNX does not know: 65"


def test_a_fill_of_forty_gigabytes_is_left_to_whoever_runs_it(tmp_path: Path) -> None:
    nodes = [n("ConstantOfShape", ["s"], ["z"]), n("ReduceSum", ["z"], ["q"]), n("Add", ["x", "q"], ["y"])]
    path = save(model(nodes, {"x": [1, 3]}, {"y": None}, {"s": np.array([100000, 100000])}, 18), tmp_path)
    context = Context(str(path), numerics=dpuv3()[0].quantisation, table=Table(0, {}, failure="nothing was run"), device=dpuv3()[1])
    result = build_graph(path, {}, context, Store(tmp_path / "stages"))
    assert [node.op_type for node in result.graph] == ["ConstantOfShape", "ReduceSum", "Add"]
    assert sum(file.stat().st_size for file in (tmp_path / "stages").iterdir()) < 1 << 20


@pytest.mark.parametrize("ring", [1, 3])
def test_functions_that_call_themselves(ring: int, tmp_path: Path) -> None:
    proto = model([n("f0", ["x"], ["y"], domain="mine")], {"x": [1]}, {"y": None})
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)]
    proto.functions.extend(
        helper.make_function("mine", f"f{k}", ["a"], ["b"], [n(f"f{(k + 1) % ring}", ["a"], ["b"], domain="mine")], opsets) for k in range(ring)
    )
    proto.opset_import.add(domain="mine", version=1)
    assert one_line(save(proto, tmp_path)).startswith("E0903 the function 'f0' calls itself")


def test_constants_of_one_name(tmp_path: Path) -> None:
    proto = model([n("Add", ["x", "w"], ["y"])], {"x": [3]}, {"y": None}, {"w": np.ones(3, F)})
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros(3, F), "w"))
    assert one_line(save(proto, tmp_path)).startswith("E0903 the constant 'w' is stored twice, with different values")


@pytest.mark.parametrize("name", ["\x1b[31mred\x07", "a\nb"], ids=["control characters", "line break"])
def test_names_reach_no_terminal_as_they_are(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither from the network that runs on the machine, nor from a mistake in it."""
    monkeypatch.chdir(tmp_path)
    nodes = [n("Conv", [f"x{name}", f"w{name}"], [f"t{name}"], f"c{name}"), n("Conv", [f"t{name}", f"w{name}"], [name], name)]
    path = save(model(nodes, {f"x{name}": [1, 16, 6, 6]}, {name: None}, {f"w{name}": normal(0, 16, 16, 1, 1)}, 18), tmp_path)
    words = ["target=vta", f"model={path}", "place=all"]
    assert main(["verify", *words]) == 0
    assert main(["explain", *words]) == 0
    told = capsys.readouterr()
    assert ": exact;" in told.out
    assert not [sign for sign in told.out + told.err if sign < " " and sign != "\n"]
    assert all(line.isprintable() and not line.startswith("b:") for line in told.out.splitlines())


def test_an_average_pool_whose_border_counts_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Behind grouped and dilated convolutions; the window leaves the picture on two sides."""
    monkeypatch.chdir(tmp_path)
    layers = (
        "{conv: {out: 32, kernel: 3, groups: 2, pad: half, act: relu}}, {conv: {out: 32, kernel: 3, dilation: 2, pad: 2, act: relu}}, "
        "{avgpool: {kernel: 3, stride: 2, pad: 1, include_pad: true}}, {conv: {out: 32, kernel: [1, 3], stride: [1, 2], pad: [0, 1]}}"
    )
    Path("border.yaml").write_text(f"model: {{name: border, summary: of a pool}}\ninputs: {{image: [1, 32, 7, 7]}}\nlayers: [{layers}]\n")
    assert main(["verify", "target=vta", "model=border.yaml", "place=all"]) == 0
    assert ": exact;" in capsys.readouterr().out
