"""Nodes that are not as their operator set has them."""

import onnx
import pytest

from tests.graph.importing.opsets.oracle import n
from toolchain.graph.importing.opsets.form import changed, fault

TWICE = n("Squeeze", ["x"], ["y"], axes=[0])
TWICE.attribute.append(TWICE.attribute[0])


@pytest.mark.parametrize(
    ("node", "version", "text"),
    [
        (n("Squeeze", ["x"], ["y"], axes=[0]), 11, ""),
        (n("Squeeze", ["x", "axes"], ["y"]), 13, ""),
        (n("Squeeze", ["x", "axes"], ["y"]), 11, "2 inputs and 1 outputs do not fit"),
        (n("Squeeze", ["x"], []), 11, "1 inputs and 0 outputs do not fit"),
        (n("Squeeze", [""], ["y"]), 11, "an input that is needed has no name"),
        (n("Squeeze", ["x"], ["y"], axes=0.5), 11, "the attribute 'axes' is no INTS"),
        (n("Squeeze", ["x", "axes"], ["y"], axes=[0]), 13, "the attribute 'axes' does not belong there"),
        (TWICE, 11, "an attribute is given twice"),
        (n("Unsqueeze", ["x"], ["y"]), 11, "the attribute 'axes' is missing"),
        (n("Clip", ["x", "", "high"], ["y"]), 11, ""),
        (n("Concat", ["x"] * 50, ["y"], axis=0), 11, ""),
    ],
)
def test_faults(node: onnx.NodeProto, version: int, text: str) -> None:
    assert fault(node, version) == text


def test_changes() -> None:
    assert changed("Squeeze", 12, 13)
    assert changed("Relu", 13, 21)
    assert not changed("Relu", 14, 21)
    assert not changed("Constant", 1, 21)
