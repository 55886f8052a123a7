"""The graph side in two calls: calibrate a model, and build it into integers with every stage kept."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx_ir as ir

from toolchain.graph.calibration import Samples, Table, calibrate
from toolchain.graph.load import load_graph
from toolchain.graph.store import Store
from toolchain.passes.base import Pass
from toolchain.passes.context import Context
from toolchain.passes.pipeline import Pipeline, read_pipeline
from toolchain.passes.remove_qdq import RANGE, qdq_table
from toolchain.passes.runner import run_passes
from toolchain.spec.errors import Source
from toolchain.spec.resources import PACKAGE

DEFAULT = PACKAGE / "passes" / "pipeline.yaml"


def default_pipeline() -> Pipeline:
    """The one that comes with the toolchain."""
    return read_pipeline(Source(str(DEFAULT), DEFAULT.read_text()))


def float_passes(pipeline: Pipeline) -> Sequence[Pass]:
    """Those before the first that needs a calibration table or hides tensors from it."""
    names = [step.name for step in pipeline.passes]
    ends = [names.index(name) for name in ("fuse", "quantize") if name in names]
    return pipeline.passes[: min(ends, default=len(names))]


def calibration_table(path: Path, dims: Mapping[str, int], samples: Samples, pipeline: Pipeline | None = None) -> Table:
    """What `samples` ([count, ...] by input) do in the float network. Raises UserError E09xx."""
    steps = pipeline or default_pipeline()
    return calibrate(run_passes(load_graph(path, dims), float_passes(steps), Context(str(path))), samples, str(path))


def declared_table(path: Path, dims: Mapping[str, int], pipeline: Pipeline | None = None) -> Table | None:
    """The ranges of a model that is quantised already (QDQ), None for any other. Raises UserError E09xx."""
    steps = pipeline or default_pipeline()
    model = run_passes(load_graph(path, dims), float_passes(steps), Context(str(path)))
    values = (*model.graph.inputs, *(value for node in model.graph for value in node.outputs))
    return qdq_table(model) if any(RANGE in value.metadata_props for value in values) else None


def build_graph(path: Path, dims: Mapping[str, int], context: Context, folder: Path, pipeline: Pipeline | None = None) -> ir.Model:
    """Runs all passes; stage NN-PASS.onnx of each is in `folder`, 00-import.onnx first. Raises UserError E09xx."""
    store, model = Store(folder), load_graph(path, dims)
    store.save("00-import", model)
    steps = (pipeline or default_pipeline()).passes
    return run_passes(model, steps, context, lambda number, name, left: store.save(f"{number + 1:02}-{name}", left))
