"""Scan of operator set 8: it scanned a batch of sequences at once."""

import onnx
from onnx import helper

from toolchain.graph.importing.opsets.site import Site


def batched_scan(site: Site) -> None:
    """Scans over the batch, and in its body over the sequence, which is axis 0 there."""
    node = site.node
    if site.given(0):
        raise site.refuse("it has sequences of different lengths")
    operands, scanned = list(node.input[1:]), site.take_int("num_scan_inputs", 0)
    entries = [_element(site, name, f"{name}.element") for name in operands]
    results = [site.names.fresh(f"{name or node.name}.element") for name in node.output]
    each = helper.make_node("Scan", [entry.name for entry in entries], results, site.names.fresh(f"{node.name}.each"), num_scan_inputs=scanned)
    body, directions = site.take("body"), site.take_ints("directions")
    each.attribute.extend([] if body is None else [body])
    each.attribute.extend([] if directions is None else [helper.make_attribute("scan_input_directions", directions)])
    outer = helper.make_graph([each], f"{node.name}.batch", entries, [helper.make_empty_tensor_value_info(name) for name in results])
    site.wire(*operands)
    site.put(body=outer, num_scan_inputs=len(operands))


def _element(site: Site, name: str, wanted: str) -> onnx.ValueInfoProto:
    """One element of the batch, as an input of the body."""
    kind, shape = site.known.type_of(name), site.known.shape(name)
    if not kind or not shape:
        raise site.refuse(f"the type or rank of '{name}' is not known")
    return helper.make_tensor_value_info(site.names.fresh(wanted), kind, shape[1:])
