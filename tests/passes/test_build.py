"""The whole graph side: every stage is a file that runs, twice the same; the digits network keeps its accuracy; QDQ models come in."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.graph.onnx_builder import conv_net, n, save
from tests.passes.test_quantize import NARROW, RULES, branchy, picture, samples
from toolchain.accuracy.errors import error_table
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.calls import run_oracle, run_reference
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store, open_model
from toolchain.passes.build import build_graph, calibration_table, declared_table, default_pipeline
from toolchain.passes.context import Context
from toolchain.passes.correct_bias import CorrectBias
from toolchain.passes.pipeline import Pipeline, print_pipeline, read_pipeline
from toolchain.spec.errors import Source
from toolchain.spec.model.quantisation import Numerics

STORED = Numerics().activation

DIGITS = Path(__file__).resolve().parents[2] / "models" / "digits"


def test_every_stage_runs_and_two_builds_are_equal(tmp_path: Path) -> None:
    path = save(branchy(), tmp_path)
    table = calibration_table(path, {}, samples())
    for name in ("one", "two"):
        build_graph(path, {}, Context(str(path), numerics=NARROW, table=table), Store(tmp_path / name))
    stages = sorted((tmp_path / "one").iterdir())
    assert [stage.read_bytes() for stage in stages] == [(tmp_path / "two" / stage.name).read_bytes() for stage in stages]
    names = [stage.stem for stage in stages if stage.suffix == ".onnx"]
    assert names == ["00-import", *(f"{number:02}-{step.name}" for number, step in enumerate(default_pipeline().passes, 1))]
    assert names[-3:] == ["11-fuse", "12-quantize", "13-partition"]
    results = [run_session(open_session(stage), picture())["y"] for stage in stages if stage.suffix == ".onnx"]
    for result in results[:-2]:
        np.testing.assert_allclose(result, results[0], rtol=1e-4, atol=1e-5)
    assert np.abs(results[-2] - results[0]).max() < 0.2
    np.testing.assert_array_equal(results[-1], results[-2])


def test_the_default_pipeline_prints_and_reads_back() -> None:
    assert read_pipeline(Source("p", print_pipeline(default_pipeline()))) == default_pipeline()


@pytest.mark.parametrize("rule", ["plain", "narrow", "channel"])
def test_digits_keep_their_accuracy(rule: str, tmp_path: Path) -> None:
    stored = np.load(DIGITS / "digits.npz")
    scale, numerics = np.float32(0.125), RULES[rule]
    table = calibration_table(DIGITS / "digits.onnx", {}, {"image": stored["calibration"][:, None] * scale})
    result = build_graph(DIGITS / "digits.onnx", {}, Context(numerics=numerics, table=table), Store(tmp_path))
    session, float_session = open_model(result), open_session(DIGITS / "digits.onnx")
    images = stored["test"] * scale
    right = [0, 0]
    for index, label in enumerate(stored["labels"]):
        for place, each in enumerate((session, float_session)):
            right[place] += run_session(each, {"image": images[index : index + 1]})["logits"].argmax() == label
    assert right[0] >= right[1] - 3
    assert right[0] >= 0.97 * len(images)
    x = {"image": images[:1]}
    oracle, reference = run_oracle(result, x), run_reference(result, x, numerics)
    assert all(np.array_equal(array, reference[name]) for name, array in oracle.items())


def quantised_elsewhere() -> onnx.ModelProto:
    """conv_net's first layers as other tools write them: int8 weights, and a pair on every activation."""
    proto = conv_net()
    graph = proto.graph
    del graph.node[5:]
    del graph.node[1]
    weights = numpy_helper.to_array(next(t for t in graph.initializer if t.name == "w1"))
    stored = np.clip(np.rint(weights * 64), -127, 127).astype(np.int8)
    extra = {"w1q": stored, "s64": np.float32(1 / 64), "z": np.int8(0), "sx": np.float32(1 / 32), "s1": np.float32(1 / 16)}
    graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in extra.items())
    nodes = [
        n("QuantizeLinear", ["x", "sx", "z"], ["xq"], "q1"),
        n("DequantizeLinear", ["xq", "sx", "z"], ["xd"], "d1"),
        n("DequantizeLinear", ["w1q", "s64", "z"], ["w1d"], "d2"),
        n("Conv", ["xd", "w1d", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        n("Relu", ["c1"], ["r1"], "relu1"),
        n("QuantizeLinear", ["r1", "s1", "z"], ["rq"], "q2"),
        n("DequantizeLinear", ["rq", "s1", "z"], ["rd"], "d3"),
        n("MaxPool", ["rd"], ["y"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    del graph.node[:]
    graph.node.extend(nodes)
    graph.output[0].type.tensor_type.shape.CopyFrom(helper.make_tensor_value_info("y", 1, ["batch", 8, 4, 4]).type.tensor_type.shape)
    return proto


def test_a_qdq_model_keeps_its_own_scales_and_results(tmp_path: Path) -> None:
    """Its scales are powers of two, so the integers are the model's own."""
    path = save(quantised_elsewhere(), tmp_path)
    table = declared_table(path, {"batch": 1})
    assert table is not None
    assert {name: seen.spread.maximum for name, seen in table.tensors.items()} == {"xd": 127 / 32, "rd": 127 / 16, "y": 127 / 16}
    result = build_graph(path, {"batch": 1}, Context(numerics=Numerics(rounding="half_even"), table=table), Store(tmp_path / "out"))
    assert [node.op_type for node in result.graph] == ["quantize", "conv2d", "max_pool", "dequantize"]
    weights = next(node for node in result.graph if node.op_type == "conv2d").inputs[1].const_value.numpy()
    wanted = next(numpy_helper.to_array(t) for t in quantised_elsewhere().graph.initializer if t.name == "w1q").astype(int)
    assert set(np.unique(weights - wanted * (int(weights.max()) // int(wanted.max())))) == {0}
    x = picture()
    found, expected = run_session(open_model(result), x)["y"], run_session(open_session(path), x)["y"]
    np.testing.assert_array_equal(found, expected)


def test_a_float_model_declares_no_table(tmp_path: Path) -> None:
    assert declared_table(save(conv_net(), tmp_path), {"batch": 1}) is None


@pytest.mark.parametrize("rule", ["plain", "narrow", "channel"])
def test_cross_layer_correction_moves_means_back(rule: str, tmp_path: Path) -> None:
    """Coarse weights, so that there is something to correct; the error of the last layer falls, and both evaluators still agree."""
    import dataclasses

    from toolchain.spec.model.quantisation import Range

    numerics = dataclasses.replace(RULES[rule], weight=Range(-7, 7), leaky=None)
    path = save(branchy(), tmp_path)
    inputs = samples(16)
    table = calibration_table(path, {}, inputs)
    context = Context(numerics=numerics, table=table, samples=inputs)
    plain = build_graph(path, {}, context, Store(tmp_path / "a"))
    corrected = build_graph(path, {}, context, Store(tmp_path / "b"), Pipeline((*default_pipeline().passes, CorrectBias(samples=16))))
    rows = [{row.tensor: row.sqnr for row in error_table(load_graph(path), model, inputs, STORED)} for model in (plain, corrected)]
    assert rows[1]["d1"] > rows[0]["d1"]
    x = picture(4)
    oracle, reference = run_oracle(corrected, x), run_reference(corrected, x, numerics)
    assert all(np.array_equal(array, reference[name]) for name, array in oracle.items() if array.dtype == np.int8)


def test_bytes_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    path = save(branchy(), tmp_path)
    code = (
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from toolchain.graph.calibration.table import write_table\n"
        "from toolchain.graph.integers.endings import Numerics\n"
        "from toolchain.graph.store import Store\n"
        "from toolchain.passes.build import build_graph, calibration_table\n"
        "from toolchain.passes.context import Context\n"
        "path, out = Path(sys.argv[1]), Path(sys.argv[2])\n"
        "table = calibration_table(path, {}, {'x': np.random.default_rng(0).normal(size=(4, 1, 3, 8, 8)).astype(np.float32)})\n"
        "build_graph(path, {}, Context(numerics=Numerics(), table=table), Store(out))\n"
        "write_table(table, out / 'table.json')\n"
    )
    found = []
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code, str(path), str(tmp_path / seed)]
        subprocess.run(command, check=True, cwd=Path(__file__).resolve().parents[2], env={**os.environ, "PYTHONHASHSEED": seed})
        found.append({file.name: file.read_bytes() for file in sorted((tmp_path / seed).iterdir())})
    assert found[0] == found[1]
