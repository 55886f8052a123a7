"""Import: real models of an old operator set, open dimensions, and everything that is wrong with a file.

Local functions: what they compute stays, and what would never end is refused before anything is written out.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from tests.graph.imported import F, imported, normal, run
from tests.graph.onnx_builder import PATH, conv_net, model, n, save
from toolchain.graph.importing import load
from toolchain.graph.importing.load import inline_functions, load_graph
from toolchain.graph.importing.versions import OPSET
from toolchain.graph.rewrite import shape_of
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store, open_model
from toolchain.spec.errors import UserError


def function(name: str, *nodes: onnx.NodeProto) -> onnx.FunctionProto:
    """From `a` to `b`."""
    return helper.make_function("mine", name, ["a"], ["b"], nodes, [helper.make_opsetid("", 21), helper.make_opsetid("mine", 1)])


def call(name: str, source: str, result: str) -> onnx.NodeProto:
    return n(name, [source], [result], domain="mine")


def with_functions(*functions: onnx.FunctionProto) -> onnx.ModelProto:
    """Calls the last of them."""
    proto = model([call(functions[-1].name, "x", "y")], {"x": [4]}, {"y": None})
    proto.functions.extend(functions)
    proto.opset_import.add(domain="mine", version=1)
    return proto


def doubling(depth: int) -> onnx.ModelProto:
    """Each function calls the one before it twice."""
    first = function("f0", n("Neg", ["a"], ["b"]))
    return with_functions(first, *(function(f"f{k}", call(f"f{k - 1}", "a", "t"), call(f"f{k - 1}", "t", "b")) for k in range(1, depth)))


def test_functions_of_functions_compute_the_same() -> None:
    inner = function("inner", n("Exp", ["a"], ["t"]), n("Add", ["a", "t"], ["b"]))
    proto, x = (
        with_functions(inner, function("outer", call("inner", "a", "t"), n("Mul", ["a", "t"], ["u"]), call("inner", "u", "b"))),
        {"x": normal(0, 4)},
    )
    result = inline_functions(proto, PATH)
    assert not result.functions
    assert [node.op_type for node in result.graph.node] == ["Exp", "Add", "Mul", "Exp", "Add"]
    np.testing.assert_array_equal(run(result, x)["y"], run(proto, x)["y"])


def test_a_model_without_functions_is_left_alone() -> None:
    proto = model([n("Relu", ["x"], ["y"])], {"x": [4]}, {"y": None})
    assert inline_functions(proto, PATH) is proto


def test_the_bound_is_of_nodes_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_NODES", 128)
    assert len(inline_functions(doubling(8), PATH).graph.node) == 128
    with pytest.raises(UserError, match=r"^net.onnx: E0922 written out, the model's functions make more than 128 nodes"):
        inline_functions(doubling(9), PATH)


def test_a_bomb_is_refused_at_once() -> None:
    begin = time.monotonic()
    with pytest.raises(UserError, match="E0922"):
        inline_functions(doubling(60), PATH)
    assert time.monotonic() - begin < 1


@pytest.mark.parametrize("through", [0, 2])
def test_a_function_that_calls_itself_is_named(through: int) -> None:
    ring = [function(f"f{k}", call(f"f{(k + 1) % (through + 1)}", "a", "b")) for k in range(through + 1)]
    with pytest.raises(UserError, match=r"^net.onnx: E0903 the function 'f\d' calls itself, in node 'b' \(mine.f\d\)"):
        inline_functions(with_functions(*ring), PATH)


def test_a_call_inside_a_subgraph_counts() -> None:
    """A recursion through the body of an If."""
    body = helper.make_graph([call("f", "a", "r")], "g", [], [onnx.ValueInfoProto(name="r")])
    looping = function(
        "f", n("ReduceSum", ["a"], ["s"], keepdims=0), n("Greater", ["s", "s"], ["c"]), n("If", ["c"], ["b"], then_branch=body, else_branch=body)
    )
    with pytest.raises(UserError, match="E0903 the function 'f' calls itself"):
        inline_functions(with_functions(looping), PATH)


LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def refusal(path: Path, dims: dict[str, int] | None = None) -> str:
    with pytest.raises(UserError) as caught:
        load_graph(path, dims)
    text = str(caught.value)
    assert text.startswith(f"{path}: E09")
    assert "\n" not in text
    return text[len(f"{path}: ") :]


@pytest.mark.parametrize("name", ["bvlc_alexnet", "inception_v1", "resnet50", "shufflenet", "squeezenet", "vgg19", "zfnet512"])
def test_light_models_are_converted_with_every_shape_known(name: str) -> None:
    loaded = load_graph(LIGHT / f"light_{name}.onnx")
    assert loaded.opset_imports[""] == 21
    assert all(shape_of(value) is not None for node in loaded.graph for value in node.outputs if value.name)
    assert len({node.name for node in loaded.graph}) == len(loaded.graph)


@pytest.mark.parametrize("opset", [9, 11, 13, 17, 21, 22, 23])
def test_results_stay_over_conversion(opset: int, tmp_path: Path) -> None:
    path = save(conv_net(opset=opset), tmp_path)
    x = {"x": np.random.default_rng(1).normal(size=(2, 3, 8, 8)).astype(np.float32)}
    loaded = load_graph(path, {"batch": 2})
    assert loaded.opset_imports[""] == max(opset, OPSET)
    stage = Store(tmp_path / "out").save("import", loaded)
    np.testing.assert_allclose(run_session(open_session(stage), x)["y"], run_session(open_session(path), x)["y"], rtol=1e-5, atol=1e-5)


def test_external_data_is_mapped(tmp_path: Path) -> None:
    path = external(tmp_path)
    loaded = load_graph(path)
    assert loaded.graph.initializers["w"].const_value.numpy().sum() == 8 * 3 * 9 * 2


def external(folder: Path, **entries: str) -> Path:
    proto = model([n("Conv", ["x", "w"], ["y"], "conv1")], {"x": [1, 3, 8, 8]}, {"y": [1, 8, 6, 6]})
    data = np.full((8, 3, 3, 3), 2, np.float32)
    (folder / "w.bin").write_bytes(data.tobytes())
    tensor = onnx.TensorProto(name="w", dims=data.shape, data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in ({"location": "w.bin", "offset": "0", "length": str(data.nbytes)} | entries).items():
        tensor.external_data.add(key=key, value=value)
    proto.graph.initializer.append(tensor)
    return save(proto, folder)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"location": "../w.bin"}, "not a path inside"),
        ({"location": "/etc/passwd"}, "not a path inside"),
        ({"location": ""}, "not a path inside"),
        ({"location": "C:\\w.bin"}, "not a path inside"),
        ({"location": "gone.bin"}, "No such file"),
        ({"location": "folder"}, "not a regular file"),
        ({"location": "soft.bin"}, "symbolic link"),
        ({"location": "softfolder/w.bin"}, "symbolic link"),
        ({"location": "hard.bin"}, "hard link"),
        ({"offset": "4"}, "past the end"),
        ({"offset": "-4"}, "not a count"),
        ({"offset": "1000000000000"}, "past the end"),
        ({"offset": "9" * 40}, "not a count"),
        ({"length": "12"}, "need 864"),
        ({"length": "x"}, "not a count"),
    ],
)
def test_external_data_is_refused(entries: dict[str, str], words: str, tmp_path: Path) -> None:
    path = external(tmp_path, **entries)
    (tmp_path / "folder").mkdir()
    (tmp_path / "softfolder").symlink_to(tmp_path / "folder")
    (tmp_path / "soft.bin").symlink_to(tmp_path / "w.bin")
    if entries.get("location") == "hard.bin":
        os.link(tmp_path / "w.bin", tmp_path / "hard.bin")
    text = refusal(path)
    assert text.startswith("E0902 external data of tensor 'w'")
    assert words in text


def relu(**changes: object) -> onnx.ModelProto:
    return model([n("Relu", ["x"], ["y"], "r")], {"x": [1, 4]}, {"y": [1, 4]}, **changes)


def mangled(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    proto = relu()
    change(proto)
    return proto


CASES = {
    "nodes": (mangled(lambda m: m.graph.ClearField("node")), "E0901", "no nodes"),
    "inputs": (mangled(lambda m: m.graph.ClearField("input")), "E0903", "reads the tensor 'x'"),
    "opset": (mangled(lambda m: m.ClearField("opset_import")), "E0901", "no operator set"),
    "future": (relu(opset=999), "E0906", "operator set 999"),
    "operator": (model([n("Rleu", ["x"], ["y"], "r")], {"x": [1]}, {"y": [1]}), "E0906", "did you mean 'Relu'"),
    "domain": (
        model([helper.make_node("Frob", ["x"], ["y"], "r", domain="com.me")], {"x": [1]}, {"y": [1]}, opset=17),
        "E0906",
        "the model names no operator set of the domain 'com.me'",
    ),
    "undefined": (model([n("Relu", ["z"], ["y"], "r")], {"x": [1]}, {"y": [1]}), "E0903", "node 'r' (Relu) reads the tensor 'z'"),
    "twice": (model([n("Relu", ["x"], ["y"], "r"), n("Abs", ["x"], ["y"], "s")], {"x": [1]}, {"y": [1]}), "E0903", "node 's' (Abs) and by node 'r'"),
    "cycle": (
        model([n("Add", ["x", "b"], ["a"], "one"), n("Relu", ["a"], ["b"], "two"), n("Abs", ["b"], ["y"], "three")], {"x": [1]}, {"y": [1]}),
        "E0903",
        "cycle: node 'one' (Add) -> node 'two' (Relu) -> node 'one' (Add)",
    ),
    "no output": (model([n("Relu", ["x"], ["y"], "r")], {"x": [1]}, {"z": [1]}), "E0903", "output 'z'"),
    "two outputs of one name": (mangled(lambda m: m.graph.output.append(m.graph.output[0])), "E0903", "the output 'y' is listed 2 times"),
    "two inputs of one name": (mangled(lambda m: m.graph.input.append(m.graph.input[0])), "E0903", "the input 'x' is listed 2 times"),
    "open": (model([n("Relu", ["x"], ["y"], "r")], {"x": ["batch", 2]}, {"y": ["batch", 2]}), "E0904", "dim=batch:1"),
    "nameless": (model([n("Relu", ["x"], ["y"], "r")], {"x": [None, 2]}, {"y": [None, 2]}), "E0904", "dim=x.0:1"),
    "channels": (
        model([n("Conv", ["x", "w"], ["y"], "c")], {"x": [1, 3, 8, 8]}, {"y": [1, 8, 6, 6]}, {"w": np.ones((8, 4, 3, 3), np.float32)}),
        "E0907",
        "node 'c' (Conv): 3 input channels do not fit 8 filters of 4 in 1 groups (operands 'x' 1x3x8x8, 'w' 8x4x3x3)",
    ),
    "bias": (
        model([n("Conv", ["x", "w", "b"], ["y"], "c")], {"x": [1, 3, 8, 8]}, {"y": [1, 8, 6, 6]},
            {"w": np.ones((8, 3, 3, 3), F), "b": np.ones(7, F)}),
        "E0907",
        "bias of shape 7 does not fit 8 channels",
    ),
    "inner": (
        model([n("Gemm", ["x", "w"], ["y"], "g")], {"x": [1, 3]}, {"y": [1, 5]}, {"w": np.ones((4, 5), np.float32)}), "E0907", "node 'g' (Gemm)"),
    "broadcast": (model([n("Add", ["x", "z"], ["y"], "a")], {"x": [1, 3], "z": [1, 4]}, {"y": [1, 3]}), "E0907", "node 'a' (Add)"),
    "nan": (
        model([n("MatMul", ["x", "w"], ["y"], "a")], {"x": [1, 3]}, {"y": [1, 1]}, {"w": np.array([[0], [np.nan], [np.inf]], F)}),
        "E0909",
        "the constant 'w' holds nan at [1, 0] and 1 more such values; read by node 'a' (MatMul)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_said_in_one_line(case: str, tmp_path: Path) -> None:
    proto, code, words = CASES[case]
    text = refusal(save(proto, tmp_path))
    assert text.startswith(code)
    assert words in text


@pytest.mark.parametrize("share", [0, 1, 10, 50, 90, 99])
def test_no_part_of_a_file_is_a_model(share: int, tmp_path: Path) -> None:
    data = conv_net().SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[: len(data) * share // 100])
    assert refusal(path, {"batch": 1}).startswith("E0901")


@pytest.mark.parametrize("data", [b"hello", b"\0" * 100, b"PK\3\4" + b"x" * 50, bytes(range(256))])
def test_other_files_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other.onnx"
    path.write_bytes(data)
    assert refusal(path).startswith("E0901")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E0001 cannot read the model"):
        load_graph(tmp_path / "none.onnx")


def test_constant_with_too_few_bytes(tmp_path: Path) -> None:
    proto = conv_net()
    proto.graph.initializer[0].raw_data = proto.graph.initializer[0].raw_data[:-4]
    assert refusal(save(proto, tmp_path), {"batch": 1}).startswith("E0901 the constant 'w1' of shape 8x3x3x3")


def test_unknown_and_impossible_dimensions(tmp_path: Path) -> None:
    path = save(conv_net(), tmp_path)
    assert "E0905 no dimension of the inputs is called 'bach'; did you mean 'batch'?" in refusal(path, {"batch": 1, "bach": 2})
    assert refusal(path, {"batch": 0}).startswith("E0904")


def test_a_size_of_zero_is_one_axis_s_own_affair(tmp_path: Path) -> None:
    path = save(model([n("Relu", ["x"], ["y"], "r")], {"x": ["n", 2]}, {"y": None}), tmp_path)
    assert refusal(path, {"n": 0}).startswith("E0904 dimension 'x.0' cannot be 0")
    assert refusal(path, {"x.0": -1}).startswith("E0904")
    assert shape_of(load_graph(path, {"x.0": 0}).graph.inputs[0]) == (0, 2)


def test_a_model_without_inputs(tmp_path: Path) -> None:
    path = save(model([n("Constant", [], ["y"], "c", value_floats=[1.0, 2.0])], {}, {"y": [2]}), tmp_path)
    assert run_session(open_model(load_graph(path)), {})["y"].tolist() == [1, 2]


def test_a_model_of_another_domain_s_operators_alone(tmp_path: Path) -> None:
    proto = model([n("Binarizer", ["x"], ["y"], "b", domain="ai.onnx.ml", threshold=0.5)], {"x": [1, 3]}, {"y": [1, 3]})
    del proto.opset_import[:]
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    loaded = load_graph(save(proto, tmp_path))
    assert loaded.opset_imports[""] == OPSET
    assert run_session(open_model(loaded), {"x": np.array([[0, 0.5, 1]], np.float32)})["y"].tolist() == [[0, 0, 1]]


def test_a_branch_that_does_not_fit_the_given_sizes_leaves_them_open(tmp_path: Path) -> None:
    """Two networks in one file, one for each size; whichever runs decides what the input may be."""

    def branch(name: str, size: int) -> onnx.GraphProto:
        weights = numpy_helper.from_array(np.full((size, 2), size, np.float32), f"w{size}")
        output = helper.make_tensor_value_info(name, 1, None)
        return helper.make_graph([n("MatMul", ["x", f"w{size}"], [name], name)], name, [], [output], [weights])

    node = n("If", ["flag"], ["y"], "choose", then_branch=branch("small", 3), else_branch=branch("large", 5))
    proto = model([node], {"x": ["n", "size"]}, {"y": None})
    proto.graph.input.append(helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, []))
    session = open_model(load_graph(save(proto, tmp_path), {"n": 1, "size": 3}))
    for flag, size in ((True, 3), (False, 5)):
        assert run_session(session, {"x": np.ones((1, size), np.float32), "flag": np.array(flag)})["y"].tolist() == [[size * size] * 2]


def test_unsorted_nodes_are_sorted(tmp_path: Path) -> None:
    proto = conv_net()
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in reversed(proto.graph.node)]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    loaded = load_graph(save(proto, tmp_path), {"batch": 1})
    assert next(node.name for node in loaded.graph) == "conv1"


def test_node_names_are_lines_of_their_own(tmp_path: Path) -> None:
    names = ["a\nb", "a b", "", "c"]
    nodes = [n("Relu", [f"t{i}"], [f"t{i + 1}"], name) for i, name in enumerate(names)]
    found = load_graph(save(model(nodes, {"t0": [1, 4]}, {"t4": [1, 4]}), tmp_path))
    assert [node.name for node in found.graph] == ["a b", "a b.1", "t3", "c"]


def test_damaged_bytes_are_one_line_or_a_model(tmp_path: Path) -> None:
    """Random changes anywhere in the file; whatever is not refused has every shape known."""
    whole, messages = conv_net().SerializeToString(), list[str]()
    for seed in range(150):
        rng = np.random.default_rng(seed)
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            place = int(rng.choice([rng.integers(400), rng.integers(len(data) - 300, len(data))]))
            if rng.random() < 0.5:
                data[place] = rng.integers(256)
            else:
                del data[place : place + int(rng.integers(1, 5))]
        path = tmp_path / "damaged.onnx"
        path.write_bytes(data)
        try:
            load_graph(path, {"batch": 1})
        except UserError as error:
            messages.append(str(error))
    assert len(messages) > 50
    assert all(message.startswith(f"{tmp_path / 'damaged.onnx'}: E09") and "\n" not in message for message in messages)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2), st.integers(0, 3), st.sampled_from([np.nan, np.inf, -np.inf]), st.sampled_from(["MatMul", "Gemm"]))
def test_the_first_bad_weight(tmp_path_factory: pytest.TempPathFactory, row: int, column: int, bad: float, kind: str) -> None:
    w = np.ones((3, 4), F)
    w[row, column] = bad
    with pytest.raises(UserError) as caught:
        imported(tmp_path_factory.mktemp("v"), [n(kind, ["x", "w"], ["y"], "layer")], (2, 3), {"w": w})
    told = f"E0909 the constant 'w' holds {bad} at [{row}, {column}]; read by node 'layer' ({kind})"
    assert told in str(caught.value)


def test_a_sum_that_overflows_is_no_defect(tmp_path: Path) -> None:
    imported(tmp_path, [n("MatMul", ["x", "w"], ["y"])], (2, 3), {"w": np.full((3, 4), 3e38, F)})


def test_masks_may_be_infinite(tmp_path: Path) -> None:
    graph = imported(tmp_path, [n("Add", ["x", "mask"], ["a"]), n("Softmax", ["a"], ["y"])], (2, 3), {"mask": np.array([0, -np.inf, 0], F)})
    assert len(graph.graph) == 2
