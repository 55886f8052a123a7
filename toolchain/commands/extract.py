"""`tilewright extract`: a part of a model as a model of its own."""

import argparse
from pathlib import Path

from toolchain.graph.extract import extract_model
from toolchain.graph.node_text import shape_text
from toolchain.graph.session import open_session
from toolchain.graph.write_proto import write_proto


def extract(arguments: argparse.Namespace) -> None:
    """Writes the part, opens it in ONNX Runtime, and says what it takes and gives. Raises UserError E0005, E0910 and all of extract_model."""
    source, path = Path(arguments.model), Path(arguments.output)
    proto = extract_model(source, arguments.inputs, arguments.outputs)
    write_proto(proto, source, path)
    session = open_session(path, optimise=False)
    print(f"{path}: {len(proto.graph.node)} nodes, {len(proto.graph.initializer)} constants")
    for word, entries in (("takes", session.get_inputs()), ("gives", session.get_outputs())):
        for entry in entries:
            print(f"  {word}  {entry.name}  {entry.type} {shape_text(entry.shape)}")
