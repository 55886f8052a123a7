"""Types that ONNX's inference does not know, such as results of operators outside its standard: ONNX Runtime is asked."""

import re

import onnx
from onnx import helper

from toolchain.graph.running.session import ONCE, open_session
from toolchain.spec.errors import UserError

_TENSOR = re.compile(r"tensor\((\w+)\)\Z")
_KINDS = {"float": "FLOAT", "double": "DOUBLE"}


def declare_types(proto: onnx.ModelProto) -> bool:
    """Adds type and shape of tensors that have none yet; whether there were any. A model that ONNX Runtime refuses stays: running it tells why."""
    known = {entry.name for entry in (*proto.graph.value_info, *proto.graph.input, *proto.graph.output) if entry.type.WhichOneof("value")}
    known |= {tensor.name for tensor in proto.graph.initializer}
    missing = [name for node in proto.graph.node for name in node.output if name and name not in known]
    if not missing:
        return False
    watched = onnx.ModelProto()
    watched.CopyFrom(proto)
    outputs = {entry.name for entry in proto.graph.output}
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in missing if name not in outputs)
    try:
        session = open_session(watched.SerializeToString(), optimise=False, threads=ONCE)
    except UserError:
        return False
    found = {entry.name: info for entry in session.get_outputs() if (info := _info(entry.name, entry.type, list(entry.shape))) is not None}
    for entry in proto.graph.output:
        if entry.name in found and entry.name in missing:
            entry.CopyFrom(found[entry.name])
    proto.graph.value_info.extend(found[name] for name in missing if name in found and name not in outputs)
    return bool(found)


def _info(name: str, text: str, shape: list[int | str | None]) -> onnx.ValueInfoProto | None:
    """None for what is no tensor. ONNX Runtime shows a tensor of unknown rank as one without axes, so that one stays unknown."""
    match = _TENSOR.match(text)
    if match is None:
        return None
    kind = onnx.TensorProto.DataType.Value(_KINDS.get(match[1], match[1].upper()))
    return helper.make_tensor_value_info(name, kind, shape or None)
