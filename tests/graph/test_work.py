"""Multiply-accumulates and bytes of operators: what many do is what each does, added up."""

from collections.abc import Sequence

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.graph.onnx_builder import n
from toolchain.graph.work import UNCOUNTED, Work, bodies_of, host_work, node_macs

KINDS = ("MatMul", "Gemm", "Relu", "LSTM", "Conv")
FLOAT = ir.TensorType(ir.DataType.FLOAT)
info = helper.make_tensor_value_info


def value(name: str, shape: Sequence[int] | None) -> ir.Value:
    return ir.Value(name=name, shape=None if shape is None else ir.Shape(shape), type=FLOAT)


def node(kind: str, known: bool, size: int) -> ir.Node:
    shapes = {"LSTM": [(3, 1, size), (1, 4 * size, size)], "Conv": [(1, 2, size, size), (4, 2, 1, 1)]}.get(kind, [(size, size), (size, size)])
    made = ir.node(kind, [value(f"i{k}", shape if known else None) for k, shape in enumerate(shapes)], num_outputs=1)
    made.outputs[0].shape, made.outputs[0].type = ir.Shape((size, size)) if known else None, FLOAT
    return made


@given(st.lists(st.builds(node, st.sampled_from(KINDS), st.booleans(), st.integers(1, 9)), max_size=8))
def test_the_work_of_many_is_that_of_each(nodes: list[ir.Node]) -> None:
    alone = [work for each in nodes for work in host_work([each]).values()]
    together = host_work(nodes).values()
    assert sum(work.macs for work in together) == sum(work.macs for work in alone) == sum(node_macs(each) for each in nodes)
    assert sum(work.bytes for work in together) == sum(work.bytes for work in alone)
    assert sum(work.nodes for work in together) == len(nodes)


@given(st.lists(st.builds(node, st.sampled_from(KINDS), st.booleans(), st.integers(1, 9)), max_size=8))
def test_no_kind_mixes_what_is_counted_with_what_is_not(nodes: list[ir.Node]) -> None:
    for kind in host_work(nodes):
        own = [each for each in nodes if kind in host_work([each])]
        assert len({node_macs(each) > 0 for each in own}) == 1


def test_products_are_counted() -> None:
    assert host_work([node("MatMul", True, 4), node("MatMul", False, 4)]) == {"MatMul": Work(1, 64, 192), UNCOUNTED: Work(1, 0, 0)}
    assert node_macs(node("LSTM", True, 4)) == 3 * 1 * 16 * (4 + 4)


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
    assert work[kind].steps == {"If": 0, "Scan": 5}.get(kind, 1 if count is None or count > 2**31 else count)


def test_other_nodes_have_none() -> None:
    assert bodies_of(ir.node("Relu", [ir.val("x")], num_outputs=1)) == []


@pytest.mark.parametrize(("kind", "read"), [("Gather", 8 * 4), ("Slice", 8 * 4), ("Relu", 1000 * 4)])
def test_a_table_is_read_by_the_rows_that_are_taken(kind: str, read: int) -> None:
    made = ir.node(kind, [value("table", (250, 4))], num_outputs=1)
    made.outputs[0].shape, made.outputs[0].type = ir.Shape((2, 4)), FLOAT
    assert host_work([made])[kind].bytes == read + 8 * 4
