"""The model as it was imported, with the placement of every node in its metadata: for viewers of ONNX files."""

import onnx

from toolchain.report.costs import CostRow
from toolchain.report.explain import Explanation
from toolchain.report.placement import Placed
from toolchain.spec.reason import reasons_json
from toolchain.spec.reasons import texts_of

PREFIX = "tilewright."


def annotated(imported: onnx.ModelProto, found: Explanation) -> onnx.ModelProto:
    """imported: the first stage of the graph; its weights need not be loaded, and become inputs, so that the file is small and complete.

    Times are of a run, in milliseconds. A region's stand at each of its nodes, beside those of the same nodes on the host.
    """
    model = onnx.ModelProto()
    model.CopyFrom(imported)
    placed, rows = {node.node: node for node in found.placement.nodes}, {row.name: row for row in found.costs.rows}
    for node in model.graph.node:
        if node.name in placed:
            _note(node, placed[node.name], rows)
    _without_weights(model.graph)
    model.graph.doc_string = f"{found.model} on {found.machine}: {found.costs.total_ms:.6g} ms for a run, estimated"
    return model


def _note(node: onnx.NodeProto, placed: Placed, rows: dict[str, CostRow]) -> None:
    row = rows.get(placed.region or placed.node)
    facts = {"where": placed.where, "target": placed.target, "region": placed.region, "operation": placed.operation, "computes": placed.kind}
    facts |= {"reason": placed.reason, "reasons": reasons_json(placed.reasons) if placed.reasons else "", "macs": str(placed.macs)}
    facts |= {f"refusal.{machine}": texts_of(reasons) for machine, reasons in placed.refusals.items()}
    if row is not None:
        part = "region_" if placed.region else ""
        facts |= {f"{part}ms": f"{row.compute_ms:.6g}", f"{part}border_ms": f"{row.border_ms:.6g}"}
        facts |= {"region_host_ms": f"{row.host_ms:.6g}"} if placed.region else {}
    for key, text in facts.items():
        if text:
            node.metadata_props.add(key=PREFIX + key, value=text)


def _without_weights(graph: onnx.GraphProto) -> None:
    """Stored tensors beside the file become inputs of their types."""
    known = {value.name for value in graph.input}
    outside = [tensor for tensor in graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL]
    for tensor in outside:
        graph.initializer.remove(tensor)
        if tensor.name not in known:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
