"""`tilewright model`: checks of a network's file and graph."""

import argparse
from typing import TYPE_CHECKING

from toolchain.commands.machine import sign

if TYPE_CHECKING:
    from toolchain.models.model import Model


def check_model(arguments: argparse.Namespace) -> None:
    """Says that there are no errors, how many nodes, and the inputs. Raises UserError E0001, E08xx for the file, E09xx for its graph."""
    from toolchain.graph.nodes import shape_text
    from toolchain.models.load import load_model
    from toolchain.tasks.variables import read_variables

    dims = dict(read_variables({"dim": ",".join(arguments.dim)} if arguments.dim else {}).dims)
    with sign("reading the model"):
        model = load_model(arguments.model, dims)
        nodes = _nodes(model)
    inputs = ", ".join(f"{name} {shape_text(shape)}" for name, shape in model.shapes.items())
    print(f"{model.name}: {nodes} nodes, {inputs}: no errors")


def _nodes(model: "Model") -> int:
    from toolchain.graph.importing.load import load_graph
    from toolchain.models.build import model_shape_graph
    from toolchain.models.model import Stored
    from toolchain.models.sources import open_sizes

    if isinstance(model.origin, Stored):
        return len(load_graph(model.origin.file, open_sizes(model.origin.file, model.shapes)).graph)
    bare = model_shape_graph(model)
    assert bare is not None
    return len(bare.proto.graph.node)
