"""Opens a graph that is in memory in ONNX Runtime, with any tensors inside as further outputs."""

import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import onnx_ir as ir

from toolchain.graph.files.store import Store
from toolchain.graph.running.session import THREADS, Session, open_session


def open_model(
    model: ir.Model, watched: Sequence[ir.Value] = (), place: str = "", optimise: bool = True, store: Store | None = None, threads: int = THREADS
) -> Session:
    """A session whose outputs are the model's own and those watched; the model is left as it was. place: the file that messages name.

    optimise: whether ONNX Runtime may rewrite the model. It may not where tensors inside are watched: it loses some of these, and refuses quantised
    models (version 1.32: "Attempt to replace the existing tensor"). store: has the weights of most tensors in its files already.

    Raises UserError E0005, E0910.
    """
    graph, outputs = model.graph, list(model.graph.outputs)
    inside = [value for value in dict.fromkeys(watched) if not value.is_graph_output() and not value.is_graph_input()]
    with _store(store) as files:
        try:
            graph.outputs.extend(inside)
            with files.borrowed(model) as path:
                return open_session(path, optimise and not inside, place=place, threads=threads)
        finally:
            graph.outputs.clear()
            graph.outputs.extend(outputs)


@contextmanager
def _store(given: Store | None) -> Generator[Store]:
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        yield Store(Path(folder))
