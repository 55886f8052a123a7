"""Ranges of tensors that a pass for one machine makes by moves alone, behind the calibration that all machines share: those of the tensors whose
elements they are."""

from dataclasses import replace

import onnx_ir as ir

from toolchain.graph.quantisation.table import SeenTensor, Table
from toolchain.graph.rewrite import is_operator
from toolchain.graph.state_moves import MOVES


def with_moved(graph: ir.Graph, table: Table) -> Table:
    """The table with tensors that were not seen, but whose elements are all those of one that was: before moves, or behind them. Means of their
    channels are left out, as channels may be others. graph: sorted."""
    seen, unusable = dict(table.tensors), {*table.unusable}
    moves = [(node.inputs[0].name or "", node.outputs[0].name or "") for node in graph if is_operator(node, *MOVES) and node.inputs[0] is not None]
    for known, other in (*moves, *((after, before) for before, after in reversed(moves))):
        if known in unusable:
            unusable.add(other)
        elif known in seen and other not in seen:
            seen[other] = SeenTensor(seen[known].spread, ())
    return table if len(seen) == len(table.tensors) else replace(table, tensors=seen, unusable=tuple(sorted(unusable)))
