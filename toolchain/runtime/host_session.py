"""Host segments in ONNX Runtime: opened once, from memory alone, weights handed over by name."""

from collections.abc import Iterable, Iterator, Mapping

import onnx
from google.protobuf.message import DecodeError

from toolchain.graph.session import Session, open_session
from toolchain.spec.errors import fail


def open_segment(model: bytes, members: Mapping[str, bytes], place: str, optimise: bool = True) -> Session:
    """A session of a segment. optimise: with ONNX Runtime's own rewriting, which rounds a part of a model otherwise than the whole.

    Raises UserError E1107 for a model that is none or points outside the bundle, E0910 where ONNX Runtime refuses.
    """
    wanted = dict.fromkeys(_location(tensor, members, place) for tensor in _external(_parsed(model, place)))
    return open_session(model, optimise, files={name: members[name] for name in wanted})


def whole_segment(model: bytes, members: Mapping[str, bytes], place: str) -> onnx.ModelProto:
    """A segment with all its constants inside. Raises UserError E1107 as `open_segment` does."""
    proto = _parsed(model, place)
    for tensor in _external(proto):
        data = members[_location(tensor, members, place)]
        del tensor.external_data[:]
        tensor.ClearField("data_location")
        tensor.raw_data = data
    return proto


def _parsed(model: bytes, place: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(model)
    except DecodeError:
        raise fail("E1107", "a host segment of the bundle is no ONNX model", place=place) from None
    return proto


def _location(tensor: onnx.TensorProto, members: Mapping[str, bytes], place: str) -> str:
    """The member that has an external constant's bytes."""
    found = [entry.value for entry in tensor.external_data if entry.key == "location"]
    if len(found) != 1:
        raise fail("E1107", f"the constant '{tensor.name[:80]}' of a host segment names no single place", place=place)
    if found[0] not in members:
        raise fail("E1107", f"a host segment reads '{found[0][:80]}', which is not in the bundle", place=place)
    return found[0]


def _external(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All constants whose bytes are elsewhere, tensors within attributes and subgraphs included."""
    bodies = [proto.graph.node, *(function.node for function in proto.functions)]
    tensors = [*proto.graph.initializer, *(t for s in proto.graph.sparse_initializer for t in (s.values, s.indices))]
    tensors += [tensor for body in bodies for tensor in _tensors(body)]
    yield from (tensor for tensor in tensors if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data)


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
