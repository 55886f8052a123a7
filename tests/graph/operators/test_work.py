"""Multiply-accumulates and bytes of operators: what many do is what each does, added up."""

from collections.abc import Sequence

import onnx_ir as ir
from hypothesis import given
from hypothesis import strategies as st

from toolchain.graph.operators.work import UNCOUNTED, Work, host_work, node_macs

KINDS = ("MatMul", "Gemm", "Relu", "LSTM", "Conv")
FLOAT = ir.TensorType(ir.DataType.FLOAT)


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
