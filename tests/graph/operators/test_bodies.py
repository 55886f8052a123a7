"""What is inside If, Loop and Scan counts as often as it runs."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from toolchain.graph.operators.bodies import bodies_of
from toolchain.graph.operators.work import host_work, node_macs

n = helper.make_node
info = helper.make_tensor_value_info


def product(name: str, size: int, times: int = 1) -> onnx.GraphProto:
    """`times` products of a square matrix with itself, m from the outer graph."""
    square = [size, size]
    nodes = [n("MatMul", ["m" if k == 0 else f"{name}{k - 1}", "m"], [f"{name}{k}"]) for k in range(times)]
    inner = [info(f"{name}{k}", TensorProto.FLOAT, square) for k in range(times)]
    return helper.make_graph(nodes, name, [], [info(f"{name}{times - 1}", TensorProto.FLOAT, square)], value_info=[info("m", 1, square), *inner[:-1]])


def control(kind: str, count: int | None = None) -> ir.Node:
    """One node of control flow around products of 4x4 matrices."""
    square, constants = [4, 4], []
    if kind == "If":
        node = n("If", ["c"], ["y"], then_branch=product("t", 4), else_branch=product("e", 4, 3))
    else:
        body = product("b", 4, 2)
        step = [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, [])] if kind == "Loop" else [info("s", TensorProto.FLOAT, square)]
        body.input.extend(step)
        if kind == "Loop":
            body.output.insert(0, info("go", TensorProto.BOOL, []))
            constants = [] if count is None else [numpy_helper.from_array(np.array(count), "trips")]
            node = n("Loop", ["trips", "c"], ["y"], body=body)
        else:
            node = n("Scan", ["x"], ["y"], body=body, num_scan_inputs=1)
    given = [info("m", 1, square), info("c", TensorProto.BOOL, []), info("x", 1, [5, *square])]
    given += [info("trips", TensorProto.INT64, [])] if kind == "Loop" and count is None else []
    graph = helper.make_graph([node], "g", given, [info("y", 1, None)], constants)
    (found,) = ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])).graph
    return found


@pytest.mark.parametrize(
    ("kind", "count", "products"), [("If", None, 3), ("Loop", 7, 14), ("Loop", 0, 0), ("Loop", None, 2), ("Loop", 2**40, 2), ("Scan", None, 10)]
)
def test_products_inside_count_as_often_as_they_run(kind: str, count: int | None, products: int) -> None:
    node = control(kind, count)
    assert node_macs(node) == products * 64
    work = host_work([node])
    assert work[kind].nodes == 1
    assert work[kind].macs == 0
    assert (work["MatMul"].nodes, work["MatMul"].macs) == (0, products * 64)


def test_other_nodes_have_none() -> None:
    assert bodies_of(ir.node("Relu", [ir.val("x")], num_outputs=1)) == []
