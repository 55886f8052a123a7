"""Which operator sets are taken, and what is said of the others; tests/graph/opsets has the upgrades themselves."""

import onnx
import pytest
from onnx import defs, helper

from tests.graph.onnx_builder import PATH, model, n
from toolchain.graph.importing.versions import IR_VERSION, OPSET, to_opset
from toolchain.spec.errors import UserError


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
