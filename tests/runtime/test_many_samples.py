"""One sample alone gives what it gives among others, whatever a model does along its first axis."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from bench.in_process import Target, compile_file
from tests.compiled_network import compile_network
from tests.graph.onnx_builder import model
from tests.runtime.axis_networks import axis_network
from toolchain.graph.importing.load import load_graph
from toolchain.graph.session import open_session, run_session
from toolchain.runtime.assemble import assemble_bundle
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import Executor, open_bundle
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.verify.ladder import mixed_samples

Array = NDArray[Any]
SAMPLES = 3
NETWORKS = 80
MACHINES = {"vta": Target("vta"), "dpuv3": Target("dpuv3")}
node = helper.make_node


def host_only(proto: onnx.ModelProto, folder: Path) -> Executor:
    onnx.save(proto, folder / "axes.onnx")
    machine = load_machine("vta")
    return open_bundle(assemble_bundle("axes", [machine], load_graph(folder / "axes.onnx"), {}), machine, EmulatorDevice(), optimise=False)


def samples(proto: onnx.ModelProto, seed: int = 0) -> Array:
    shape = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(seed).normal(size=(SAMPLES, *shape)).astype(np.float32)


def assert_apart(executor: Executor, given: Array) -> None:
    """Several samples in one call, as one array, give each sample's own results one behind the other."""
    found = executor.run_samples({"x": given})
    assert not any(mixed_samples(executor, {"x": given}, found).values())
    together = executor.run({"x": given.reshape(-1, *given.shape[2:])})
    assert together.samples == SAMPLES
    for name, array in together.outputs.items():
        assert np.array_equal(array, np.concatenate([np.atleast_1d(each[name]) for each in found]))


def test_the_host_keeps_samples_apart_along_the_first_axis(tmp_path: Path) -> None:
    through = 0
    for seed in range(NETWORKS):
        proto = axis_network(seed)
        executor, given = host_only(proto, tmp_path), samples(proto, seed)
        assert_apart(executor, given)
        session = open_session(proto.SerializeToString(), optimise=False)
        for each, one in zip(executor.run_samples({"x": given}), given, strict=True):
            assert all(np.array_equal(each[name], array) for name, array in run_session(session, {"x": one}).items())
        through += "x" in [entry.name for entry in proto.graph.output]
    print(f"{NETWORKS} networks of {SAMPLES} samples, {through} with an input that is an output")
    assert through > NETWORKS // 8


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("seed", [1, 4])
def test_a_machine_keeps_samples_apart_along_the_first_axis(seed: int, target: str) -> None:
    proto = axis_network(seed, convolution=True)
    compiled = compile_network(proto, "axes", MACHINES[target], samples(proto))
    assert compiled.regions
    assert_apart(compiled.executor, samples(proto))


JOINING = [
    node("ReduceSum", ["x", "first"], ["y"], keepdims=1),
    node("Concat", ["x", "x"], ["y"], axis=0),
    node("Flatten", ["x"], ["y"], axis=0),
]


@pytest.mark.parametrize("joining", JOINING, ids=lambda joining: joining.op_type)
def test_an_input_that_is_an_output_keeps_its_shape(joining: onnx.NodeProto, tmp_path: Path) -> None:
    executor = host_only(model([joining], {"x": [1, 4]}, {"y": None, "x": [1, 4]}, {"first": np.array([0, 1])}), tmp_path)
    assert [entry.shape for entry in executor.manifest.inputs] == [(1, 4)]
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    outcome = executor.run({"x": rows})
    assert outcome.samples == 3
    assert np.array_equal(outcome.outputs["x"], rows)
    if joining.op_type == "ReduceSum":
        assert outcome.outputs["y"].tolist() == [[6], [22], [38]]


def test_results_of_samples_may_differ_in_shape(tmp_path: Path) -> None:
    """Each sample has its own; in one array they cannot stand."""
    executor = host_only(model([node("NonZero", ["x"], ["n"]), node("Cast", ["n"], ["y"], to=1)], {"x": [1, 3]}, {"y": None}), tmp_path)
    given = np.array([[[1, 0, 0]], [[1, 0, 2]]], np.float32)
    assert [each["y"].shape for each in executor.run_samples({"x": given})] == [(2, 1), (2, 2)]
    with pytest.raises(UserError, match="E1108 the results of these samples have different shapes"):
        executor.run({"x": given[:, 0]})
    assert mixed_samples(executor, {"x": given}, executor.run_samples({"x": given})) == {"y": 0}


@pytest.mark.parametrize("target", MACHINES)
def test_inputs_of_different_batches_stay_apart(target: str, tmp_path: Path) -> None:
    """Two pictures, one and three in each sample, joined along the first axis and broadcast over it, in regions of one, two, three and five."""
    draw, shapes = np.random.default_rng(0), {"x": (2, 4, 5, 5), "z": (1, 4, 5, 5), "v": (3, 4, 5, 5)}
    nodes = [node("Conv", [name, "w"], [f"{name}c"]) for name in shapes]
    nodes += [node("Add", ["xc", "zc"], ["sum"]), node("Concat", ["sum", "vc"], ["all"], axis=0), node("Conv", ["all", "w"], ["y"])]
    proto = model(nodes, {name: list(shape) for name, shape in shapes.items()}, {"y": None}, {"w": draw.normal(size=(4, 4, 1, 1)).astype(np.float32)})
    onnx.save(proto, tmp_path / "batches.onnx")
    given = {name: draw.normal(size=(SAMPLES, *shape)).astype(np.float32) for name, shape in shapes.items()}
    compiled = compile_file(tmp_path / "batches.onnx", MACHINES[target], tmp_path / "stages", {}, given)
    assert sorted({region.batch for region in compiled.bundle.manifest.regions}) == [1, 2, 3, 5]
    found = compiled.executor.run_samples(given)
    session = open_session(compiled.integer, optimise=False)
    for number, each in enumerate(found):
        expected = run_session(session, {name: array[number] for name, array in given.items()})
        assert np.array_equal(each["y"], expected["y"])
    assert mixed_samples(compiled.executor, given, found) == {"y": 0}


def test_results_without_axes_of_a_machine_of_several_images() -> None:
    """A run takes four samples; each has a number of its own, with no axis more than the model says, and the verification sees the same."""
    draw = np.random.default_rng(0)
    nodes = [node("Conv", ["x", "w"], ["c"]), node("ReduceMax", ["c"], ["y"], keepdims=0)]
    constants = {"w": draw.normal(size=(8, 8, 3, 3)).astype(np.float32)}
    given = draw.normal(size=(SAMPLES, 1, 8, 8, 8)).astype(np.float32)
    compiled = compile_network(model(nodes, {"x": [1, 8, 8, 8]}, {"y": [], "c": None}, constants), "scalar", MACHINES["dpuv3"], given)
    assert (compiled.regions, compiled.executor.group) == (1, 4)
    session = open_session(compiled.integer, optimise=False)
    found = compiled.executor.run_samples({"x": given})
    for each, one in zip(found, given, strict=True):
        assert each["y"].shape == ()
        assert all(np.array_equal(each[name], array) for name, array in run_session(session, {"x": one}).items())
    assert_apart(compiled.executor, given)


def test_an_output_may_be_called_like_a_stored_tensor() -> None:
    """'a.int8' is what the quantiser would call the stored form of 'a'."""
    draw = np.random.default_rng(0)
    nodes = [node("Conv", ["x", "w"], ["a"]), node("Relu", ["a"], ["a.int8"]), node("Conv", ["a", "w"], ["y"])]
    constants, given = {"w": draw.normal(size=(4, 4, 1, 1)).astype(np.float32)}, draw.normal(size=(SAMPLES, 1, 4, 5, 5)).astype(np.float32)
    compiled = compile_network(model(nodes, {"x": [1, 4, 5, 5]}, {"y": None, "a.int8": None}, constants), "clash", MACHINES["vta"], given)
    session = open_session(compiled.integer, optimise=False)
    for each, one in zip(compiled.executor.run_samples({"x": given}), given, strict=True):
        assert all(np.array_equal(each[name], array) for name, array in run_session(session, {"x": one}).items())
        assert each["a.int8"].dtype == np.float32


def test_results_that_are_no_tensors(tmp_path: Path) -> None:
    """A list of tensors is one sample's own; texts are elements like others."""
    proto = model([node("SequenceConstruct", ["x", "x"], ["s"])], {"x": [1, 3]}, {"s": None})
    proto.graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("s", 1, None))
    executor, given = host_only(proto, tmp_path), np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    found = executor.run_samples({"x": given})
    assert [len(each["s"]) for each in found] == [2, 2]
    assert mixed_samples(executor, {"x": given}, found) == {"s": 0}
    with pytest.raises(UserError, match="E1108 's' is no tensor"):
        executor.run({"x": given[:, 0]})


def test_texts(tmp_path: Path) -> None:
    proto = model([node("Identity", ["x"], ["y"])], {"x": [1, 2]}, {"y": [1, 2]})
    for entry in (proto.graph.input[0], proto.graph.output[0]):
        entry.type.tensor_type.elem_type = TensorProto.STRING
    executor, given = host_only(proto, tmp_path), np.array([[["a", "b"]], [["c", "d"]]], object)
    assert mixed_samples(executor, {"x": given}, executor.run_samples({"x": given})) == {"y": 0}
    assert executor.run({"x": given[:, 0]}).outputs["y"].tolist() == [["a", "b"], ["c", "d"]]


def test_results_without_axes_stay_so(tmp_path: Path) -> None:
    executor = host_only(model([node("ReduceMax", ["x"], ["y"], keepdims=0)], {"x": [1, 3]}, {"y": []}), tmp_path)
    given = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    assert [each["y"].shape for each in executor.run_samples({"x": given})] == [(), ()]
    assert executor.run({"x": given[:, 0]}).outputs["y"].tolist() == [2, 5]


def test_several_samples_in_place_of_one_are_refused(tmp_path: Path) -> None:
    executor = host_only(model([node("Abs", ["x"], ["y"])], {"x": [1, 3]}, {"y": [1, 3]}), tmp_path)
    with pytest.raises(UserError, match="E1108 one sample is expected; given are 2"):
        executor.run_samples({"x": np.zeros((1, 2, 3), np.float32)})


def test_mixed_samples_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = host_only(model([node("Abs", ["x"], ["y"])], {"x": [1, 3]}, {"y": [1, 3]}), tmp_path)
    given = {"x": np.arange(6, dtype=np.float32).reshape(2, 1, 3)}
    right = executor.run_samples(given)
    assert mixed_samples(executor, given, right) == {"y": 0}
    apart = getattr(Executor, "_run")  # noqa: B009

    def mixing(self: Executor, samples: Any, names: Any) -> Any:
        """Each sample gets the results of its neighbour."""
        ran = apart(self, samples, names)
        return replace(ran, found=[*ran.found[1:], ran.found[0]])

    monkeypatch.setattr(Executor, "_run", mixing)
    assert mixed_samples(executor, given, executor.run_samples(given)) == {"y": 12}
