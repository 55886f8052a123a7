"""Joins that a machine's blocks would refuse: with filters of zeros before them every real channel is as it was, and the machine takes them."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from bench.in_process import Target
from tests.compiled_network import compile_network
from tests.graph.onnx_builder import model, n, save
from tests.passes.test_quantize import RULES
from toolchain.accuracy.errors import measure_errors
from toolchain.graph.importing.load import load_graph
from toolchain.graph.integers.calls import REAL_CHANNELS, integer_tensors, is_candidate, real_channels, run_oracle
from toolchain.graph.integers.functions import INTEGER, kind_of
from toolchain.graph.regions import region_calls
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store
from toolchain.passes.build import build_graph, calibration_table, default_pipeline
from toolchain.passes.context import Context, Device
from toolchain.passes.pipeline import Pipeline
from toolchain.spec.model.quantisation import Range

F = np.float32
SIZE = 6


class Net:
    """A network in the making; every operation takes one tensor, or several, and has a name of its own."""

    def __init__(self, seed: int) -> None:
        self.rng, self.nodes, self.constants = np.random.default_rng(seed), list[onnx.NodeProto](), dict[str, np.ndarray]()
        self.channels: dict[str, int] = {"x": 3}

    def add(self, op: str, inputs: list[str], channels: int, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(n(op, inputs, [name], f"{op.lower()}{len(self.nodes)}", **attributes))
        self.channels[name] = channels
        return name

    def conv(self, x: str, channels: int, kernel: int = 1, group: int = 1) -> str:
        shape = (channels, self.channels[x] // group, kernel, kernel)
        self.constants |= {f"w{len(self.nodes)}": self.rng.normal(size=shape).astype(F) / np.sqrt(np.prod(shape[1:])).astype(F)}
        self.constants |= {f"b{len(self.nodes)}": self.rng.normal(size=channels).astype(F)}
        inputs = [x, f"w{len(self.nodes)}", f"b{len(self.nodes)}"]
        return self.add("Conv", inputs, channels, pads=[kernel // 2] * 4, group=group)

    def relu(self, x: str) -> str:
        return self.add("Relu", [x], self.channels[x])

    def pool(self, x: str, op: str = "MaxPool") -> str:
        return self.add(op, [x], self.channels[x], kernel_shape=[3, 3], pads=[1, 1, 1, 1])

    def join(self, *parts: str) -> str:
        return self.add("Concat", [*parts], sum(self.channels[part] for part in parts), axis=1)

    def dense(self, x: str, pooled: bool) -> str:
        mean = self.add("GlobalAveragePool", [x], self.channels[x]) if pooled else x
        flat = self.add("Flatten", [mean], 0)
        self.constants["wd"] = self.rng.normal(size=(4, self.channels[x] * (1 if pooled else SIZE * SIZE))).astype(F)
        return self.add("Gemm", [flat, "wd"], 4, transB=1)

    def proto(self, *outputs: str) -> onnx.ModelProto:
        return model(self.nodes, {"x": [1, 3, SIZE, SIZE]}, dict.fromkeys(outputs, None), self.constants)


def random_joins(seed: int, sums: bool = False) -> onnx.ModelProto:
    """Blocks of branches of random widths: convolutions, depthwise ones and pools, joined, some joins inside others; a dense layer behind. sums: also
    sums with tensors without gaps, and averages that only the host takes."""
    net, rng = Net(seed), np.random.default_rng(seed)
    x = net.relu(net.conv("x", int(rng.integers(3, 12)), 3))
    for _ in range(int(rng.integers(1, 4))):
        parts = [branch(net, rng, x, sums) for _ in range(int(rng.integers(2, 5)))]
        x = net.join(*parts) if rng.random() < 0.7 or len(parts) < 3 else net.join(net.join(*parts[:2]), *parts[2:])
        if sums and rng.random() < 0.6:
            x = net.add("Add", [x, net.conv(x, net.channels[x])], net.channels[x])
    return net.proto(net.dense(net.relu(net.conv(x, 5)) if rng.random() < 0.5 else x, bool(rng.random() < 0.6)))


def branch(net: Net, rng: np.random.Generator, x: str, averages: bool) -> str:
    found = net.relu(net.conv(x, int(rng.integers(1, 20)), int(rng.choice([1, 3]))))
    match rng.integers(5):
        case 0:
            return net.pool(found, "AveragePool" if averages else "MaxPool")
        case 1:
            return net.pool(found)
        case 2:
            return net.relu(net.conv(found, net.channels[found], 3, net.channels[found]))
        case 3:
            return net.conv(net.pool(x), int(rng.integers(1, 9)))
        case _:
            return found


def samples(count: int = 4) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).normal(size=(count, 1, 3, SIZE, SIZE)).astype(F)}


def integers(proto: onnx.ModelProto, folder: Path, rule: str, block: int) -> ir.Model:
    """The network in integers for a machine that takes everything and has such blocks."""
    path, given = save(proto, folder), samples()
    device = Device("some", lambda _: (), block=block)
    table = calibration_table(path, {}, given)
    context = Context(str(path), numerics=RULES[rule], table=table, device=device, policy="all", samples=given, recorded=True)
    return build_graph(path, {}, context, Store(folder / f"stages{block}"), Pipeline(default_pipeline().passes[:-1]))


@settings(max_examples=12, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 2**32), st.sampled_from(sorted(RULES)), st.sampled_from([4, 6, 12, 16]), st.booleans())
def test_every_real_channel_is_as_it_was(tmp_path_factory: pytest.TempPathFactory, seed: int, rule: str, block: int, sums: bool) -> None:
    """Sums and averages of the host keep joins before them as they are; without those every join is aligned."""
    folder, proto = tmp_path_factory.mktemp("joins"), random_joins(seed, sums)
    plain, aligned = (integers(proto, folder, rule, size) for size in (1, block))
    one = {"x": samples()["x"][2]}
    wanted, found = run_oracle(plain, one), run_oracle(aligned, one)
    values = {value.name: value for value in integer_tensors(aligned)}
    assert wanted.keys() == found.keys()
    for name, array in found.items():
        np.testing.assert_array_equal(real_channels(values[name], array) if name in values else array, wanted[name])
    for node in aligned.graph if not sums else ():
        if kind_of(node) == "concat":
            sizes = [value.shape[1] for value in node.inputs if value is not None and value.shape is not None]
            assert all(size % block == 0 for size in sizes[:-1])
    assert [value.shape for value in aligned.graph.outputs] == [value.shape for value in plain.graph.outputs]


def test_errors_are_measured_on_real_channels(tmp_path: Path) -> None:
    proto = random_joins(5)
    aligned, plain = (integers(proto, tmp_path, "plain", block) for block in (16, 1))
    assert any(REAL_CHANNELS in value.metadata_props for value in integer_tensors(aligned))
    reference = load_graph(tmp_path / "net.onnx", {})
    both = [measure_errors(None, reference, each, samples(), Range(-128, 127)) for each in (aligned, plain)]
    assert {row.tensor: row.sqnr for row in both[0].tensors} == {row.tensor: row.sqnr for row in both[1].tensors}


def narrow(net: Net) -> tuple[str, str]:
    return net.relu(net.conv("x", 5)), net.relu(net.conv("x", 6))


def outputs_too(net: Net) -> list[str]:
    join = net.join(*narrow(net))
    return [net.conv(join, 3), join]


def to_the_host(net: Net) -> list[str]:
    join = net.join(*narrow(net))
    return [net.conv(join, 3), net.add("Softsign", [join], 11)]


def in_groups(net: Net) -> list[str]:
    first, second = net.relu(net.conv("x", 5)), net.relu(net.conv("x", 7))
    return [net.conv(net.join(first, second), 6, group=3)]


def beside_a_whole_one(net: Net) -> list[str]:
    join = net.join(*narrow(net))
    return [net.conv(net.add("Add", [join, net.conv("x", 11)], 11), 3)]


@pytest.mark.parametrize("shape", [outputs_too, to_the_host, in_groups, beside_a_whole_one])
def test_a_join_that_something_else_reads_stays_as_it_is(shape: Any, tmp_path: Path) -> None:
    net = Net(1)
    model = integers(net.proto(*shape(net)), tmp_path, "plain", 16)
    assert not any(REAL_CHANNELS in value.metadata_props for node in model.graph for value in node.outputs)
    assert not any(is_candidate(node) for node in model.graph)


def test_other_machines_calls_are_left_alone(tmp_path: Path) -> None:
    net = Net(2)
    model = integers(net.proto(net.conv(net.join(*narrow(net)), 4)), tmp_path, "plain", 16)
    assert {node.domain for node in model.graph if kind_of(node) == "concat"} == {INTEGER}
    assert sum(REAL_CHANNELS in value.metadata_props for node in model.graph for value in node.outputs) == 2


def test_a_machine_with_blocks_of_twelve_takes_the_whole_network() -> None:
    """dnnvm:zu2 stores twelve channels a word. Exact on the machine, and no join is left to the host."""
    proto = random_joins(11)
    found = compile_network(proto, "joins", Target("dnnvm:zu2"), samples()["x"])
    names = {node.op_type for node in found.partitioned.graph}
    assert "Concat" not in names
    assert len(region_calls(found.partitioned)) == 1
    session = open_session(found.integer, optimise=False)
    for sample in samples()["x"]:
        got = found.executor.run({"x": sample}).outputs
        for name, array in run_session(session, {"x": sample}).items():
            np.testing.assert_array_equal(got[name], array)
