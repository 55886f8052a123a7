"""`tilewright extract`: a part of a model as a model of its own."""

import argparse
from pathlib import Path

import onnx

from toolchain.graph.files import constants, is_external, take_weights, write_proto
from toolchain.graph.importing.extract import extract_model
from toolchain.graph.nodes import shape_text
from toolchain.graph.session import open_session


def extract(arguments: argparse.Namespace) -> None:
    """Writes the part, opens it in ONNX Runtime, and says what it takes and gives. Raises UserError E0005, E0910 and all of extract_model."""
    source, path = Path(arguments.model), Path(arguments.output)
    proto = extract_model(source, arguments.inputs, arguments.outputs)
    ends = {"takes": [entry.name for entry in proto.graph.input], "gives": [entry.name for entry in proto.graph.output]}
    light = _light(proto)
    write_proto(proto, source, path)
    session = open_session(path if light is None else light, optimise=False, place=str(path))
    found = {entry.name: entry for entry in (*session.get_inputs(), *session.get_outputs())}
    nodes, held = len(proto.graph.node), len(proto.graph.initializer)
    print(f"{path}: {nodes} {'node' if nodes == 1 else 'nodes'}, {held} {'constant' if held == 1 else 'constants'}")
    for word, names in ends.items():
        for name in names:
            print(f"  {word}  {name}  {found[name].type} {shape_text(found[name].shape)}")


def _light(proto: onnx.ModelProto) -> bytes | None:
    """The model with inputs in place of its weights, which ONNX Runtime would read and copy; None where a graph inside reads some of them."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    take_weights(copy)
    return None if any(is_external(tensor) for _, tensor in constants(copy.graph)) else copy.SerializeToString()
