"""Host segments in ONNX Runtime: opened once, from memory alone, weights handed over by name."""

from collections.abc import Iterable, Iterator, Mapping

import onnx
from google.protobuf.message import DecodeError

from toolchain.graph.running.session import Session, open_session
from toolchain.spec.errors import fail


def open_segment(model: bytes, members: Mapping[str, bytes], place: str, optimise: bool = True) -> Session:
    """A session of a segment. optimise: with ONNX Runtime's own rewriting, which rounds a part of a model otherwise than the whole.

    Raises UserError E1107 for a model that is none or points outside the bundle, E0910 where ONNX Runtime refuses.
    """
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(model)
    except DecodeError:
        raise fail("E1107", "a host segment of the bundle is no ONNX model", place=place) from None
    wanted = dict.fromkeys(_locations(proto, place))
    for name in wanted:
        if name not in members:
            raise fail("E1107", f"a host segment reads '{name[:80]}', which is not in the bundle", place=place)
    return open_session(model, optimise, files={name: members[name] for name in wanted})


def _locations(proto: onnx.ModelProto, place: str) -> Iterator[str]:
    """The locations of all external data, tensors within attributes and subgraphs included."""
    bodies = [proto.graph.node, *(function.node for function in proto.functions)]
    tensors = [*proto.graph.initializer, *(t for s in proto.graph.sparse_initializer for t in (s.values, s.indices))]
    tensors += [tensor for body in bodies for tensor in _tensors(body)]
    for tensor in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            found = [entry.value for entry in tensor.external_data if entry.key == "location"]
            if len(found) != 1:
                raise fail("E1107", f"the constant '{tensor.name[:80]}' of a host segment names no single place", place=place)
            yield found[0]


def _tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            for graph in (attribute.g, *attribute.graphs):
                yield from graph.initializer
                yield from (tensor for sparse in graph.sparse_initializer for tensor in (sparse.values, sparse.indices))
                yield from _tensors(graph.node)
