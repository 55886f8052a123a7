"""Two forms of a network are equal where they are, and the first operator that computes otherwise is named."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.graph.imported import F, imported, node_of, normal
from tests.graph.onnx_builder import model, n, save
from toolchain.graph import equivalence
from toolchain.graph.equivalence import STEP, find_mismatch, same_operator
from toolchain.graph.importing.load import load_graph
from toolchain.graph.rewrite import add_constant
from toolchain.passes.build import default_pipeline, float_stages
from toolchain.passes.context import Context
from toolchain.passes.pipeline import run_passes

NODES = [
    n("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
    n("BatchNormalization", ["c", *"stmv"], ["d"], "norm"),
    n("Clip", ["d", "zero", "six"], ["e"], "clip"),
    n("Add", ["e", "x"], ["f"], "add"),
    n("Flatten", ["f"], ["g"], "flat"),
    n("Gemm", ["g", "m2", "n2"], ["y"], "dense"),
]


def network(folder: Path, nodes: Sequence[onnx.NodeProto] = NODES) -> ir.Model:
    vectors = {name: np.random.default_rng(k).uniform(0.5, 1.5, 3).astype(F) for k, name in enumerate("stmv")}
    constants = {"w": normal(1, 3, 3, 3, 3), "b": normal(2, 3), "m2": normal(3, 48, 5), "n2": normal(4, 5), "zero": F(0), "six": F(6)} | vectors
    return imported(folder, nodes, constants=constants)


def fused(folder: Path) -> ir.Model:
    steps = default_pipeline().passes
    return run_passes(network(folder), steps[: float_stages(steps) + 1], Context())


def test_a_network_equals_itself_and_its_last_float_stage(tmp_path: Path) -> None:
    assert find_mismatch(network(tmp_path), network(tmp_path), {}) is None
    after = fused(tmp_path)
    assert [node.op_type for node in after.graph] == ["conv2d__clip", "add", "flatten", "dense"]
    assert find_mismatch(network(tmp_path), after, {}) is None


def change_constant(kind: str, place: int, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[ir.Model], None]:
    """As a pass does it: under a name of its own."""

    def make(model: ir.Model) -> None:
        node = node_of(model, kind)
        value = node.inputs[place]
        assert value is not None
        assert value.const_value is not None
        node.replace_input_with(place, add_constant(model.graph, f"{value.name}.changed", change(value.const_value.numpy())))

    return make


def attribute(kind: str, changes: Mapping[str, object]) -> Callable[[ir.Model], None]:
    def make(model: ir.Model) -> None:
        node_of(model, kind).attributes.update({name: ir.convenience.convert_attribute(name, value) for name, value in changes.items()})  # type: ignore[arg-type]

    return make


def flip_last(array: np.ndarray) -> np.ndarray:
    changed = array.copy()
    changed.ravel()[-1] += 0.5
    return changed


WRONG = {
    "a weight": (change_constant("conv2d", 1, flip_last), "conv", "e"),
    "a bias": (change_constant("conv2d", 2, flip_last), "conv", "e"),
    "another limit": (attribute("conv2d", {"maximum": 5.0}), "conv", "e"),
    "padding elsewhere": (attribute("conv2d", {"pads": (0, 0, 2, 2)}), "conv", "e"),
    "rows of a dense layer": (change_constant("dense", 1, lambda array: array[::-1].copy()), "dense", "y"),
    "an operand twice": (lambda model: node_of(model, "add").replace_input_with(1, node_of(model, "add").inputs[0]), "add", "f"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_computes_otherwise_is_named(case: str, tmp_path: Path) -> None:
    change, node, tensor = WRONG[case]
    after = fused(tmp_path)
    change(after)
    found = find_mismatch(network(tmp_path), after, {})
    assert found is not None
    assert (found.node, found.tensor) == (node, tensor)
    assert found.difference > found.limit
    assert found.text().startswith(f"node '{node}' (")


def test_a_limit_that_no_sample_reaches_is_reached(tmp_path: Path) -> None:
    """Without a word about how large values are, made-up operands still go beyond 6 somewhere: a clip that is lost is seen."""
    after = fused(tmp_path)
    attribute("conv2d", {"maximum": 1e30})(after)
    assert find_mismatch(network(tmp_path), after, {"x": 1.0}) is not None


def test_rounding_that_a_model_does_itself_is_allowed_for_its_own_tensor(tmp_path: Path) -> None:
    quantised = [
        n("QuantizeLinear", ["x", "s", "z"], ["q"], "q"),
        n("DequantizeLinear", ["q", "s", "z"], ["d"], "d"),
        n("Conv", ["d", "w"], ["y"], "conv"),
    ]
    constants = {"s": F(0.125), "z": np.int8(0), "w": normal(0, 2, 3, 3, 3)}
    before = imported(tmp_path, quantised, constants=constants)
    limits = {"low": F(-16), "high": F(127 / 8)}
    after = imported(tmp_path, [n("Clip", ["x", "low", "high"], ["d"], "clip"), quantised[2]], constants=constants | limits)
    node_of(after, "Clip").outputs[0].metadata_props[STEP] = (0.125).hex()
    assert find_mismatch(before, after, {}) is None
    node_of(after, "Clip").outputs[0].metadata_props[STEP] = (0.0625).hex()
    found = find_mismatch(before, after, {})
    assert found is not None
    assert found.node == "clip"


def test_many_pieces_take_several_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equivalence, "MAX_BYTES", 100)
    after = fused(tmp_path)
    assert find_mismatch(network(tmp_path), after, {}) is None
    change_constant("dense", 2, flip_last)(after)
    found = find_mismatch(network(tmp_path), after, {})
    assert found is not None
    assert found.node == "dense"


def test_operators_are_the_same_by_operands_and_attributes(tmp_path: Path) -> None:
    one, other = network(tmp_path), network(tmp_path)
    for a, b in zip(one.graph, other.graph, strict=True):
        assert same_operator(a, b)
    nodes = list(one.graph)
    assert not any(same_operator(a, b) for k, a in enumerate(nodes) for b in nodes[:k])
    attribute("Conv", {"pads": (1, 1, 1, 0)})(other)
    assert not same_operator(node_of(one, "Conv"), node_of(other, "Conv"))


HEADS = {"past": [1, 4, 3], "new": [1, 2, 3]}
JOINED = n("Concat", ["past", "new"], ["joined"], "join", axis=1)


def loaded(nodes: list, outputs: dict, folder: Path) -> ir.Model:  # type: ignore[type-arg]
    return load_graph(save(model(nodes, HEADS, outputs), folder))


def test_a_value_that_is_handed_out_under_another_name(tmp_path: Path) -> None:
    """The later model reads the output `present` where the earlier one reads what it is a copy of."""
    ends = {"y": [1, 6, 3], "present": [1, 6, 3]}
    copied = n("Identity", ["joined"], ["present"], "copy")
    before = loaded([JOINED, copied, n("Relu", ["joined"], ["y"], "relu")], ends, tmp_path)
    after = loaded([n("Concat", ["past", "new"], ["present"], "join", axis=1), n("Relu", ["present"], ["y"], "relu")], ends, tmp_path)
    assert find_mismatch(before, after, {}) is None
    assert find_mismatch(after, before, {}) is None


def test_another_function_of_the_same_value_is_named(tmp_path: Path) -> None:
    ends = {"y": [1, 6, 3], "present": [1, 6, 3]}
    before = loaded([JOINED, n("Identity", ["joined"], ["present"], "copy"), n("Relu", ["joined"], ["y"], "relu")], ends, tmp_path)
    after = loaded([n("Concat", ["past", "new"], ["present"], "join", axis=1), n("Abs", ["present"], ["y"], "wrong")], ends, tmp_path)
    found = find_mismatch(before, after, {})
    assert found is not None
    assert (found.tensor, found.node, found.operator) == ("y", "wrong", "Abs")


@pytest.mark.parametrize(("factor", "differs"), [(1.0, False), (1.0 + 1e-6, False), (1.01, True)])
def test_rounding_is_no_difference(factor: float, differs: bool, tmp_path: Path) -> None:
    def scaled(factor: float) -> ir.Model:
        proto = model([n("Mul", ["past", "f"], ["y"], "scale")], {"past": [1, 4, 3]}, {"y": [1, 4, 3]}, {"f": np.float32(factor)})
        proto.graph.node[0].input[1] = proto.graph.initializer[0].name = f"f{factor}"
        return load_graph(save(proto, tmp_path))

    assert (find_mismatch(scaled(1.0), scaled(factor), {}) is not None) == differs
