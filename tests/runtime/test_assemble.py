"""Plans cut into as few turns of host and regions as possible, which compute the same as the model."""

from collections.abc import Sequence
from itertools import pairwise, permutations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.runtime.small import images, network
from tests.steps_network import built
from toolchain.graph.integers.calls import SCALE, ZERO
from toolchain.graph.regions import REGION
from toolchain.graph.session import run_session
from toolchain.graph.store import open_model, read_stage
from toolchain.runtime.assemble import HostModel, Item, RegionCall, cut_model, find_rounds, turns
from toolchain.runtime.bundle import data_name
from toolchain.runtime.executor import open_segment
from toolchain.spec.errors import UserError
from toolchain.tasks.actions.paths import graph_file


def items(kinds: Sequence[bool], edges: Sequence[Sequence[int]]) -> list[Item]:
    """Node k makes tensor k and reads those of `edges[k]`, all smaller; one without any reads the input."""
    reads = [frozenset(str(e) for e in each) or frozenset({"x"}) for each in edges]
    return [Item(f"node{k}", region, reads[k], (str(k),)) for k, region in enumerate(kinds)]


@st.composite
def graphs(draw: st.DrawFn) -> list[Item]:
    kinds = draw(st.lists(st.booleans(), max_size=6))
    return items(kinds, [draw(st.lists(st.integers(0, k - 1), unique=True, max_size=3)) if k else [] for k in range(len(kinds))])


def fewest(graph: Sequence[Item]) -> int:
    """Turns of the best of all legal orders."""
    best = len(graph)
    for order in permutations(range(len(graph))):
        place = {str(number): at for at, number in enumerate(order)}
        if all(place[name] < place[str(number)] for number in order for name in graph[number].reads - {"x"}):
            best = min(best, sum(graph[a].region != graph[b].region for a, b in pairwise(order)) + 1 if order else 0)
    return best


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_no_order_has_fewer_turns(graph: list[Item]) -> None:
    found = turns(graph, ["x"])
    known = {"x"}
    for turn in found:
        for number in turn.items:
            assert graph[number].region == turn.region
            assert graph[number].reads <= known
            known.update(graph[number].writes)
    assert sorted(number for turn in found for number in turn.items) == list(range(len(graph)))
    assert len(found) == fewest(graph)


def test_a_tensor_that_nobody_makes() -> None:
    with pytest.raises(ValueError, match="'node0' reads a tensor that nothing before it makes"):
        turns([Item("node0", False, frozenset({"y"}), ("z",))], ["x"])


FLOAT = TensorProto.FLOAT


def info(name: str, shape: tuple[int, ...] = (1, 300)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, shape)


def partitioned(nodes: list[onnx.NodeProto], outputs: list[str], **constants: np.ndarray) -> ir.Model:
    """A model over x [1, 300] where every tensor has that shape; regions double their input."""
    regions = sorted({node.op_type for node in nodes if node.domain == REGION})
    opset = helper.make_opsetid("", 21)
    functions = [helper.make_function(REGION, name, ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [opset]) for name in regions]
    held = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    inner = [info(name) for node in nodes for name in node.output if name not in outputs]
    graph = helper.make_graph(nodes, "test", [info("x")], [info(name) for name in outputs], held, value_info=inner)
    proto = helper.make_model(graph, functions=functions, opset_imports=[opset, helper.make_opsetid(REGION, 1)], ir_version=8)
    return ir.from_proto(proto)


def node(kind: str, inputs: list[str], output: str, domain: str = "") -> onnx.NodeProto:
    return helper.make_node(kind, inputs, [output], output, domain=domain)


def region(number: int, source: str, output: str) -> onnx.NodeProto:
    return node(f"region{number}", [source], output, REGION)


def run(model: ir.Model) -> dict[str, np.ndarray]:
    """The plan by hand: segments in ONNX Runtime, regions doubled."""
    known = {"x": np.random.default_rng(0).normal(size=(1, 300)).astype(np.float32)}
    for step in cut_model(model):
        if isinstance(step, RegionCall):
            known |= {out.name or "": 2 * known[given.name or ""] for given, out in zip(step.inputs, step.outputs, strict=True)}
        else:
            check(step)
            session = open_segment(step.model, step.constants, "")
            known |= run_session(session, {name: known[name] for name in step.inputs}, step.outputs)
    return known


def check(step: HostModel) -> None:
    """As it is once the bundle is unpacked."""
    with TemporaryDirectory() as folder:
        for name, data in {"host.onnx": step.model, **step.constants}.items():
            (Path(folder) / name).write_bytes(data)
        onnx.checker.check_model(f"{folder}/host.onnx")


def kinds(model: ir.Model) -> str:
    return "".join("r" if isinstance(step, RegionCall) else "h" for step in cut_model(model))


def agrees(model: ir.Model) -> bool:
    known = run(model)
    return all(np.array_equal(known[name], array) for name, array in run_session(open_model(model), {"x": known["x"]}).items())


W = np.linspace(-1, 1, 300, dtype=np.float32)


@pytest.mark.parametrize(
    ("nodes", "outputs", "plan"),
    [
        ([node("Relu", ["x"], "y")], ["y"], "h"),
        ([region(0, "x", "y")], ["y"], "r"),
        ([node("Relu", ["x"], "a"), region(0, "a", "b"), node("Exp", ["b"], "y")], ["y"], "hrh"),
        ([region(0, "x", "a"), node("Relu", ["x"], "b"), region(1, "b", "c"), node("Add", ["a", "c"], "y")], ["y"], "hrrh"),
        ([region(0, "x", "a"), node("Relu", ["a"], "b"), region(1, "b", "y")], ["y", "a", "b"], "rhr"),
        ([node("Add", ["x", "w"], "a"), region(0, "a", "b"), node("Mul", ["b", "w"], "y")], ["y"], "hrh"),
    ],
)
def test_plans_compute_what_the_model_does(nodes: list[onnx.NodeProto], outputs: list[str], plan: str) -> None:
    model = partitioned(nodes, outputs, w=W)
    assert kinds(model) == plan
    assert agrees(model)


def test_constants_are_handed_over_by_what_they_hold() -> None:
    model = partitioned([node("Add", ["x", "w"], "a"), region(0, "a", "b"), node("Mul", ["b", "v"], "y")], ["y"], w=W, v=W.copy())
    first, _, last = cut_model(model)
    assert isinstance(first, HostModel)
    assert isinstance(last, HostModel)
    assert first.constants == last.constants == {data_name(W.tobytes()): W.tobytes()}
    assert W.tobytes() not in first.model


def test_what_only_passes_through_makes_no_segment() -> None:
    model = partitioned([region(0, "x", "y")], ["y"])
    model.graph.outputs.append(model.graph.inputs[0])
    assert kinds(model) == "r"


def test_an_output_that_is_a_constant_has_a_segment() -> None:
    model = partitioned([region(0, "x", "y")], ["y", "w"], w=W.reshape(1, 300))
    assert kinds(model) == "hr"
    assert agrees(model)


def test_subgraphs_read_what_stands_around_them() -> None:
    branches = [helper.make_graph([node(kind, ["b", "w"], f"{kind}.y")], kind, [], [info(f"{kind}.y")]) for kind in ("Add", "Sub")]
    choice = helper.make_node("If", ["c"], ["y"], "y", then_branch=branches[0], else_branch=branches[1])
    model = partitioned([region(0, "x", "b"), choice], ["y"], w=W, c=np.array(False))
    assert agrees(model)
    assert kinds(model) == "rh"
    last = cut_model(model)[-1]
    assert isinstance(last, HostModel)
    assert last.inputs == ("b",)


def test_functions_come_along() -> None:
    _, model, _ = network()
    steps = cut_model(model)
    assert [isinstance(step, RegionCall) for step in steps] == [False, True, False, True, False]
    first = steps[0]
    assert isinstance(first, HostModel)
    found = run_session(open_segment(first.model, first.constants, ""), {"x": images(1)}, first.outputs)
    assert np.array_equal(found["q.y"], run_session(open_model(model, [v for n in model.graph for v in n.outputs]), {"x": images(1)}, ["q.y"])["q.y"])


def test_work_is_counted_by_kind() -> None:
    _, model, _ = network()
    host = [step for step in cut_model(model) if isinstance(step, HostModel)]
    assert [sorted(step.work) for step in host] == [["quantize"], ["Sigmoid", "dequantize", "quantize"], ["dequantize"]]
    assert host[1].work["Sigmoid"].bytes == 2 * 4 * 16 * 64
    weights = {"w": np.ones((7, 300), np.float32), "b": np.ones(7, np.float32)}
    model = partitioned([helper.make_node("Gemm", ["x", "w", "b"], ["y"], "y", transB=1)], [], **weights)
    gemm = next(iter(model.graph))
    gemm.outputs[0].shape = ir.Shape((1, 7))
    model.graph.outputs.append(gemm.outputs[0])
    (step,) = cut_model(model)
    assert isinstance(step, HostModel)
    assert step.work["Gemm"].macs == 2100


@pytest.mark.parametrize(("group", "kind", "macs"), [(1, "Conv", 4 * 25 * 36), (2, "Conv", 4 * 25 * 18), (4, "depthwise", 4 * 25 * 9)])
def test_convolutions_with_a_group_a_channel_are_told_apart(group: int, kind: str, macs: int) -> None:
    weights = numpy_helper.from_array(np.ones((4, 4 // group, 3, 3), np.float32), "w")
    conv = helper.make_node("Conv", ["x", "w"], ["y"], "y", group=group, pads=[1, 1, 1, 1])
    graph = helper.make_graph([conv], "g", [info("x", (1, 4, 5, 5))], [info("y", (1, 4, 5, 5))], [weights])
    (step,) = cut_model(ir.from_proto(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 21)])))
    assert isinstance(step, HostModel)
    assert {name: work.macs for name, work in step.work.items()} == {kind: macs}


def test_segments_that_reach_outside_are_refused() -> None:
    outside = helper.make_tensor("w", FLOAT, [4], np.zeros(4, np.float32).tobytes(), raw=True)
    outside.ClearField("raw_data")
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="/etc/hostname")
    value = helper.make_node("Constant", [], ["c"], value=outside)
    body = helper.make_graph([value], "body", [], [info("c", (4,))])
    hidden = helper.make_node("If", ["t"], ["y"], then_branch=body, else_branch=body)
    plain = helper.make_graph([node("Add", ["x", "w"], "y")], "g", [info("x", (4,))], [info("y", (4,))], [outside])
    deep = helper.make_graph([hidden], "g", [helper.make_tensor_value_info("t", TensorProto.BOOL, [])], [info("y", (4,))])
    for graph in (plain, deep):
        with pytest.raises(UserError, match="E1107 a host segment reads '/etc/hostname', which is not in the bundle"):
            open_segment(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString(), {}, "")
    with pytest.raises(UserError, match="E1107"):
        open_segment(b"\xff\xff\xff", {}, "")
    with pytest.raises(UserError, match="E0910"):
        open_segment(b"", {}, "")


def steps_model() -> ir.Model:
    return read_stage(graph_file(built("vta").job))


PAIRS = {"h": "next_h", "count": "next_count"}


def test_a_state_goes_round_between_its_conversions() -> None:
    found = find_rounds(steps_model(), PAIRS)
    assert [*found] == ["h"]
    assert (found["h"].taken.name, found["h"].made.name) == ("h.int8", "next_h.int8")
    first, *inner, last = cut_model(steps_model(), PAIRS)
    assert isinstance(first, HostModel)
    assert isinstance(last, HostModel)
    assert (first.inputs, first.outputs, last.inputs, last.outputs) == (("h",), ("h.int8",), ("next_h.int8",), ("next_h",))
    assert not any({"h", "next_h"} & {*step.inputs, *step.outputs} for step in inner if isinstance(step, HostModel))


def test_a_model_without_states_is_cut_as_before() -> None:
    assert len(cut_model(steps_model())) == len(cut_model(steps_model(), PAIRS)) - 2


@pytest.mark.parametrize("prop", [SCALE, ZERO])
def test_integers_of_two_scales_do_not_go_round(prop: str) -> None:
    model = steps_model()
    found = find_rounds(model, PAIRS)["h"]
    found.taken.metadata_props[prop] = "7"
    assert find_rounds(model, PAIRS) == {}


def test_two_states_do_not_share_a_tensor() -> None:
    """The second is handed on in the model's own type."""
    model = steps_model()
    found = find_rounds(model, PAIRS)["h"]
    (entering,), (leaving,) = found.enter, found.leave
    other = ir.Value(name="g", shape=entering.inputs[0].shape, type=entering.inputs[0].type) if entering.inputs[0] else None
    assert other is not None
    enter = ir.Node(entering.domain, entering.op_type, [other], entering.attributes.values(), num_outputs=1, name="enter_g")
    leave = ir.Node(leaving.domain, leaving.op_type, [found.made], leaving.attributes.values(), num_outputs=1, name="leave_g")
    for new, old in ((enter.outputs[0], found.taken), (leave.outputs[0], leaving.outputs[0])):
        new.name, new.shape, new.type = f"{old.name}.g", old.shape, old.type
        new.metadata_props.update(old.metadata_props)
    model.graph.inputs.append(other)
    model.graph.insert_after(leaving, [enter, leave])
    model.graph.outputs.append(leave.outputs[0])
    assert [*find_rounds(model, {**PAIRS, "g": "next_h.g"})] == ["h"]
