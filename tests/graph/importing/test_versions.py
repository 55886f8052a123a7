"""Which operator sets are taken, and what is said of the others; tests/graph/opsets has the upgrades themselves.

Every change of an operator up to the operator set used here is decided: by a rule, or because it only added something.

Whole models: the cases of the onnx project at every old operator set, subgraphs, names, and time.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper, numpy_helper

from tests.graph.importing.opset_oracle import Array, assert_same, build, check, kinds, normal, refusal, run, upgraded
from tests.graph.onnx_builder import PATH, model, n, save
from toolchain.graph.importing.load import load_graph
from toolchain.graph.importing.versions import IR_VERSION, OPSET, RULES, due, to_opset
from toolchain.graph.session import open_session, run_session
from toolchain.graph.store import Store
from toolchain.spec.errors import UserError
from toolchain.verify.library_check import case_modules, cases_in

MEANING = {
    "Dropout": 12, "GroupNormalization": 21, "Hardmax": 13, "LogSoftmax": 13, "PRelu": 7, "Resize": 13, "RoiAlign": 16, "Scan": 9, "Softmax": 13,
}  # fmt: skip
"""Operators whose results changed though the form may be the same."""


def histories() -> dict[str, list[defs.OpSchema]]:
    found = defaultdict[str, list[defs.OpSchema]](list)
    for schema in defs.get_all_schemas_with_history():
        if not schema.domain and schema.since_version <= OPSET:
            found[schema.name].append(schema)
    return {name: sorted(schemas, key=lambda schema: schema.since_version) for name, schemas in found.items()}


def default(attribute: defs.OpSchema.Attribute) -> Any:
    return helper.get_attribute_value(attribute.default_value) if attribute.default_value.type else None


def breaks(old: defs.OpSchema, new: defs.OpSchema) -> bool:
    """Whether a node of the old form may be none of the new one, or one with other attributes."""
    before = {name: attribute for name, attribute in old.attributes.items() if name != "consumed_inputs"}
    after = new.attributes
    required = [str(operand.option) for operand in new.inputs].count("FormalParameterOption.Single")
    return (
        new.deprecated
        or any(name not in after or str(after[name].type) != str(attribute.type) for name, attribute in before.items())
        or any(default(after[name]) != default(attribute) for name, attribute in before.items())
        or any(attribute.required and not (name in before and before[name].required) for name, attribute in after.items())
        or required > old.min_input
        or new.max_input < old.max_input
        or new.max_output < old.max_output
    )


STEPS = [(name, old, new) for name, schemas in histories().items() for old, new in pairwise(schemas)]


@pytest.mark.parametrize(("name", "new"), [(name, new.since_version) for name, old, new in STEPS if breaks(old, new)])
def test_every_change_of_form_has_a_rule(name: str, new: int) -> None:
    assert any(before >= new for before, _ in RULES[name])


def test_every_change_of_meaning_has_a_rule() -> None:
    assert {name: max(before for before, _ in RULES[name]) for name in MEANING} == MEANING


def test_rules_are_for_operators_that_changed_then() -> None:
    known = {(name, new.since_version) for name, _, new in STEPS} | {("GroupNormalization", 21)}
    for name, rules in RULES.items():
        assert [before for before, _ in rules] == sorted(before for before, _ in rules)
        assert {(name, before) for before, _ in rules} <= known


def test_rules_that_are_due() -> None:
    assert len(due("Split", 1, 6)) == 2
    assert len(due("Split", 6, 21)) == 2
    assert len(due("Split", 13, 21)) == 1
    assert due("Split", 18, 21) == due("Relu", 7, 21) == []


DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


POOLS = ("averagepool", "lppool", "maxpool")
"""Whose results onnx computes element by element when their cases are made: three quarters of the time that all of them take."""
QUICK = tuple(module for module in case_modules() if module not in POOLS)


@cache
def cases(modules: tuple[str, ...] = QUICK) -> list[tuple[str, onnx.ModelProto, list[Any]]]:
    """The onnx project's tests of operators: name, model, inputs."""
    found = [(case.name, case.model, list(case.data_sets[0][0])) for module in modules for case in cases_in(module)]
    return [(name, proto, inputs) for name, proto, inputs in found if any(not entry.domain for entry in proto.opset_import)]


def version(proto: onnx.ModelProto) -> int:
    return next(entry.version for entry in proto.opset_import if not entry.domain)


def outcome(proto: onnx.ModelProto, inputs: list[Any]) -> str:
    """`refused` where ONNX Runtime does not run the model as it is; otherwise how the upgraded model compares."""
    arrays = [value if isinstance(value, list | dict) else np.asarray(value) for value in inputs]
    fed = dict(zip([entry.name for entry in proto.graph.input], arrays, strict=False))
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    try:
        before = run(proto, fed)
    except UserError:
        return "refused"
    try:
        upgraded = to_opset(copy, PATH)
        after = run(upgraded, fed)
    except UserError as error:
        return f"stopped: {error}"
    try:
        assert_same(before, after, exact=upgraded.graph != proto.graph)  # the same nodes: ONNX Runtime's own kernels of two versions may round
    except AssertionError:
        return "different"
    return "equal"


@pytest.mark.parametrize(("modules", "equal"), [(QUICK, 700), pytest.param(POOLS, 8, marks=pytest.mark.nightly)], ids=["all others", "pools"])
def test_every_case_of_an_old_operator_set_means_the_same(modules: tuple[str, ...], equal: int) -> None:
    found = {name: outcome(proto, inputs) for name, proto, inputs in cases(modules) if version(proto) < OPSET}
    assert {name: text for name, text in found.items() if text not in ("equal", "refused")} == {}
    assert sum(text == "equal" for text in found.values()) > equal


def test_a_sample_of_cases_means_the_same_at_older_operator_sets() -> None:
    """Says of operators whose form did not change that they can stay as they are."""
    older = [(proto, before, inputs) for _, proto, inputs in cases() for before in _older(proto)]
    found = []
    for number in np.random.default_rng(1).permutation(len(older))[:250]:
        proto, before, inputs = older[number]
        copy = onnx.ModelProto()
        copy.CopyFrom(proto)
        copy.opset_import[0].version, copy.ir_version = before, 8
        found.append((outcome(copy, inputs), before, proto.graph.name))
    assert [entry for entry in found if entry[0] not in ("equal", "refused")] == []
    assert sum(entry[0] == "equal" for entry in found) > 100


def _older(proto: onnx.ModelProto) -> list[int]:
    """The last operator set before each change of the model's operators."""
    versions = {tuple(_since(node.op_type, before) for node in proto.graph.node): before for before in range(7, OPSET)}
    alone = len(proto.opset_import) == 1 and not proto.functions
    return [before for since, before in versions.items() if alone and all(since) and before != version(proto)]


@cache
def _since(kind: str, before: int) -> int:
    return defs.get_schema(kind, before, "").since_version if defs.has(kind, before, "") else 0


def stored(folder: Path, kind: str) -> Iterator[Array]:
    for path in sorted(folder.glob(f"{kind}_*.pb")):
        yield numpy_helper.to_array(TensorProto.FromString(path.read_bytes()))


@pytest.mark.parametrize("group", ["pytorch-converted", "pytorch-operator"])
def test_models_of_operator_set_6_compute_what_was_stored_with_them(group: str) -> None:
    """ONNX Runtime does not run most of these as they are."""
    count = 0
    for path in sorted((DATA / group).glob("*/model.onnx")):
        proto = onnx.load(path)
        if version(proto) == 6:
            inputs = dict(zip([entry.name for entry in proto.graph.input], stored(path.parent / "test_data_set_0", "input"), strict=False))
            for got, want in zip(run(upgraded(proto), inputs), stored(path.parent / "test_data_set_0", "output"), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5, err_msg=path.parent.name)
            count += 1
    assert count > 25


X = np.random.default_rng(0).standard_normal((1, 3, 4, 4)).astype(np.float32)
DOUBLE = {"s": np.array([1, 1, 2, 2], np.float32)}


@pytest.mark.parametrize(
    ("node", "opset", "constants"),
    [
        (n("Upsample", ["x", "s"], ["y"], mode="linear"), 9, DOUBLE),
        (n("Resize", ["x", "s"], ["y"], mode="linear"), 10, DOUBLE),
        (n("Hardmax", ["x"], ["y"]), 12, {}),
    ],
)
def test_models_that_onnx_itself_converts_to_another_meaning(node: onnx.NodeProto, opset: int, constants: dict[str, Array], tmp_path: Path) -> None:
    proto = build([node], {"x": X}, opset, constants)
    stage = Store(tmp_path / "out").save("import", load_graph(save(proto, tmp_path)))
    np.testing.assert_array_equal(run_session(open_session(stage), {"x": X})["y"], run(proto, {"x": X})[0])


def branches(condition: bool) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Both branches have a tensor `p`, of different rank, and read x from outside."""
    entry = helper.make_empty_tensor_value_info
    one = [n("Squeeze", ["x"], ["p"], "one", axes=[0]), n("Softmax", ["p"], ["q"], "two"), n("Unsqueeze", ["q"], ["a"], "three", axes=[0])]
    other = [n("Clip", ["x"], ["p"], "one", max=0.5), n("Softmax", ["p"], ["b"], "two")]
    graphs = {"then_branch": helper.make_graph(one, "then", [], [entry("a")]), "else_branch": helper.make_graph(other, "else", [], [entry("b")])}
    x = {"x": normal(1, 1, 3, 4), "c": np.array(condition)}
    return build([n("If", ["c"], ["y"], "if", **graphs)], x, 9), x


@pytest.mark.parametrize("condition", [False, True])
def test_branches(condition: bool) -> None:
    proto, x = branches(condition)
    result = check(proto, x, exact=False)
    inner = {attribute.name: [node.op_type for node in attribute.g.node] for attribute in result.graph.node[0].attribute}
    assert inner == {"then_branch": ["Squeeze", "Softmax", "Unsqueeze"], "else_branch": ["Clip", "Flatten", "Shape", "Softmax", "Reshape"]}


@pytest.mark.parametrize("opset", [7, 10, 11, 12])
def test_loops(opset: int) -> None:
    """The rank of what a loop carries is not known inside."""
    body = helper.make_graph(
        [n("Identity", ["go"], ["on"], "on"), n("Softmax", ["s"], ["t"], "t"), n("ReduceSum", ["t"], ["r"], "r", axes=[1], keepdims=0)],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []), _carried("s")],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), _carried("t"), _carried("r")],
    )
    x = {"x": normal(1, 2, 3, 4), "n": np.array(3), "c": np.array(True)}
    check(build([n("Loop", ["n", "c", "x"], ["y", "each"], "loop", body=body)], x, opset), x, exact=False)


def _carried(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def test_operators_of_other_domains_stay() -> None:
    x = {"x": normal(1, 2, 3, 4)}
    proto = build([n("FusedGemm", ["x"], ["y"], "g", domain="com.me", axes=[1]), n("Relu", ["x"], ["z"], "r")], x, 9, outputs=["y", "z"])
    proto.opset_import.add(domain="com.me", version=3)
    result = to_opset(proto, PATH)
    assert result.graph.node[0] == proto.graph.node[0]
    assert [(entry.domain, entry.version) for entry in result.opset_import] == [("", 21), ("com.me", 3)]


def test_onnx_under_its_long_name() -> None:
    x = {"x": normal(1, 2, 3, 4)}
    proto = build([n("Softmax", ["x"], ["y"], "s", domain="ai.onnx")], x, 9)
    proto.opset_import[0].domain = "ai.onnx"
    assert kinds(check(proto, x, exact=False)) == ["Flatten", "Shape", "Softmax", "Reshape"]


def test_names_are_new_ones() -> None:
    """Every name that an adapter would like is taken."""
    x = {"x": normal(1, 2, 3, 4), "s.flatten": normal(2, 2, 3, 4)}
    nodes = [n("Softmax", ["x"], ["s.inner"], "s"), n("Softmax", ["s.flatten"], ["t"], "s"), n("Add", ["t", "s.inner"], ["y"], "s.shape")]
    result = upgraded(build(nodes, x, 9))
    names = [node.name for node in result.graph.node]
    assert names == ["s.flatten.1", "s.shape.1", "s", "s.reshape", "s.flatten.2", "s.shape.2", "s", "s.reshape.1", "s.shape"]
    ends = [entry.name for entry in (*result.graph.input, *result.graph.initializer)]
    made = [*ends, *(output for node in result.graph.node for output in node.output)]
    assert len({*made}) == len(made)


def test_models_of_a_newer_operator_set_stay() -> None:
    x = {"x": normal(1, 2, 3)}
    proto = build([n("Relu", ["x"], ["y"], "r")], x, 23)
    result = check(proto, x)
    assert (result.opset_import[0].version, result.ir_version, result.graph) == (23, 11, proto.graph)


def test_what_the_operator_set_has_not_is_refused() -> None:
    x = {"x": normal(1, 1, 4, 2, 2)}
    assert refusal(build([n("DepthToSpace", ["x"], ["y"], "d", blocksize=2, mode="CRD")], x, 9)) == (
        "node 'd' (DepthToSpace): not as operator set 9 has it: the attribute 'mode' does not belong there"
    )
    assert refusal(build([n("Upsample", ["x", "s"], ["y"], "u")], x, 11, DOUBLE)).endswith("no such operator; operator set 9 was the last to have it")
    assert refusal(build([n("Gelu", ["x"], ["y"], "g")], x, 17)).endswith("operator set 17 has no such operator; it came with operator set 20")
    inner = helper.make_graph([n("Rleu", ["x"], ["a"], "r")], "inner", [], [helper.make_empty_tensor_value_info("a")])
    twice = build([n("If", ["c"], ["y"], "if", then_branch=inner, else_branch=inner)], x, 13, {"c": np.array(True)})
    assert "did you mean 'Relu'" in refusal(twice)
    twice.opset_import.add(domain="ai.onnx", version=9)
    assert refusal(twice) == "the model names several operator sets of ONNX: 9, 13"


def test_large_constants_are_upgraded_without_being_there(tmp_path: Path) -> None:
    """They are inputs while the model is converted."""
    rng = np.random.default_rng(1)
    constants = {name: rng.uniform(1, 2, (3, 12, 12)).astype(np.float32) for name in "stmv"} | {"w": rng.normal(size=(1, 400)).astype(np.float32)}
    nodes = [
        n("BatchNormalization", ["x", "s", "t", "m", "v"], ["b"], "b", spatial=0),
        n("Flatten", ["b"], ["f"], "f"),
        n("Slice", ["w"], ["p"], "p", starts=[0], ends=[432 - 200], axes=[1]),
        n("Slice", ["f"], ["q"], "q", starts=[0], ends=[232], axes=[1]),
        n("Add", ["q", "p"], ["y"], "a"),
    ]
    proto = model(nodes, {"x": [1, 3, 12, 12]}, {"y": [1, 232]}, constants, opset=8)
    x = {"x": rng.normal(size=(1, 3, 12, 12)).astype(np.float32)}
    stage = Store(tmp_path / "out").save("import", load_graph(save(proto, tmp_path)))
    np.testing.assert_allclose(run_session(open_session(stage), x)["y"], run(proto, x)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [9, 12])
def test_a_thousand_nodes_take_no_time(opset: int) -> None:
    kinds_ = [
        ("Conv", ["w"], {}),
        ("BatchNormalization", ["c"] * 4, {}),
        ("Clip", [], {"max": 6.0} if opset < 11 else {}),
        ("Softmax", [], {"axis": 1}),
    ]
    chain = [(number, *kinds_[number % 4]) for number in range(1000)]
    nodes = [n(kind, [f"t{number}", *more], [f"t{number + 1}"], f"n{number}", **attributes) for number, kind, more, attributes in chain]
    x = {"t0": normal(0, 1, 8, 4, 4), "w": normal(1, 8, 8, 1, 1), "c": np.ones(8, np.float32)}
    proto = build(nodes, x, opset)
    start = time.perf_counter()
    to_opset(proto, PATH)
    assert time.perf_counter() - start < 1


def network(opset: int, kind: str = "Relu", domain: str = "") -> onnx.ModelProto:
    return model([n(kind, ["x"], ["y"], "node", domain=domain)], {"x": [1]}, {"y": None}, opset=opset)


def version_refusal(proto: onnx.ModelProto) -> str:
    with pytest.raises(UserError) as caught:
        to_opset(proto, PATH)
    return str(caught.value).removeprefix("net.onnx: ")


@pytest.mark.parametrize("opset", [7, OPSET, defs.onnx_opset_version()])
def test_older_ones_come_up_newer_ones_stay(opset: int) -> None:
    result = to_opset(network(opset), PATH)
    assert [entry.version for entry in result.opset_import] == [max(opset, OPSET)]
    assert result.ir_version >= IR_VERSION


@pytest.mark.parametrize(
    ("proto", "words"),
    [
        (
            network(defs.onnx_opset_version() + 1),
            f"E0906 operator set {defs.onnx_opset_version() + 1} is not known; the installed onnx package knows 1 to",
        ),
        (network(0), "E0906 operator set 0 is not known"),
        (network(21, "Rleu"), "E0906 node 'node' (Rleu): operator set 21 has no such operator; did you mean 'Relu'?"),
        (network(13, "Gelu"), "E0906 node 'node' (Gelu): operator set 13 has no such operator; it came with operator set 20"),
        (network(21, "Upsample"), "E0906 node 'node' (Upsample): operator set 21 has no such operator; operator set 9 was the last to have it"),
        (network(21, "Gelu", "mine"), "E0906 node 'node' (mine.Gelu): the model names no operator set of the domain 'mine'"),
    ],
)
def test_what_is_not_known(proto: onnx.ModelProto, words: str) -> None:
    assert version_refusal(proto).startswith(words)


def test_two_operator_sets_at_once() -> None:
    proto = network(13)
    proto.opset_import.add(domain="ai.onnx", version=14)
    assert version_refusal(proto) == "E0906 the model names several operator sets of ONNX: 13, 14"


def test_the_long_name_of_the_standard() -> None:
    body = helper.make_graph([n("Neg", ["x"], ["r"], domain="ai.onnx")], "g", [], [onnx.ValueInfoProto(name="r")])
    proto = model([n("If", ["c"], ["y"], "node", domain="ai.onnx", then_branch=body, else_branch=body)], {"x": [1]}, {"y": None}, {"c": True})
    proto.opset_import[0].domain = "ai.onnx"
    result = to_opset(proto, PATH)
    (node,) = result.graph.node
    assert {node.domain, node.attribute[0].g.node[0].domain, result.opset_import[0].domain} == {""}
