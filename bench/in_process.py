"""A model for a machine without files of a build: many small ones in one process."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from toolchain.codegen.generators import GENERATORS
from toolchain.graph.quantisation.table import Table
from toolchain.graph.regions import region_calls
from toolchain.graph.store import Store
from toolchain.operations.library import kinds_of
from toolchain.passes.build import build_graph, calibration_table, declared_table, default_pipeline, united_table
from toolchain.passes.context import Context, Device
from toolchain.passes.pipeline import Pipeline, pipeline_of
from toolchain.passes.templates import templates_for
from toolchain.runtime.assemble import assemble_bundle
from toolchain.runtime.contents import Bundle
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import Executor, open_bundle
from toolchain.schedule.backend import Backend, load_backends
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

Array = np.typing.NDArray[Any]


@dataclass(frozen=True)
class Target:
    """A machine with everything that is read once."""

    name: str

    @cached_property
    def machine(self) -> Machine:
        return load_machine(self.name)

    @cached_property
    def kernels(self) -> Mapping[str, Kernel]:
        return self.backend.kernels

    @cached_property
    def backend(self) -> Backend:
        (backend,) = load_backends([self.machine])
        return backend

    @cached_property
    def device(self) -> Device:
        return self.backend.device()

    @cached_property
    def pipeline(self) -> Pipeline:
        return pipeline_of(self.machine.pipeline) if self.machine.pipeline else default_pipeline()


@dataclass(frozen=True)
class Compiled:
    """folder: of the stages, the last of which is the integer model. regions: on the machine. imported: nodes of the first stage."""

    executor: Executor
    folder: Path
    regions: int
    imported: ir.Model
    partitioned: ir.Model
    bundle: Bundle

    @property
    def integer(self) -> Path:
        return sorted(self.folder.glob("[0-9][0-9]-*.onnx"))[-1]


def compile_file(
    path: Path, target: Target, folder: Path, dims: Mapping[str, int], samples: Mapping[str, Array] | None, recorded: bool = True
) -> Compiled:
    """samples: [count, *shape] by input, None where the inputs are no tensors. recorded: they are real ones.

    Every region is made that the machine takes. Raises UserError.
    """
    table = _table(path, dims, samples, recorded)
    templates, kinds = templates_for(target.machine), kinds_of(target.machine)
    known = None if table.failure else samples
    real = recorded and known is not None
    context = Context(str(path), templates, target.machine.quantisation, table, known, target.device, policy="all", recorded=real, kinds=kinds)
    store = Store(folder)
    model = build_graph(path, dims, context, store, target.pipeline)
    calls = region_calls(model)
    generator, backend = GENERATORS[target.machine.codegen], target.backend
    compiled = {call.op_type: generator.generate(backend, backend.read(model, call)) for call in calls}
    bundle = assemble_bundle(path.stem, [target.machine], model, compiled)
    imported = ir.load(folder / "00-import.onnx")
    return Compiled(open_bundle(bundle, target.machine, EmulatorDevice(), str(path), optimise=False), folder, len(calls), imported, model, bundle)


def _table(path: Path, dims: Mapping[str, int], samples: Mapping[str, Array] | None, recorded: bool) -> Table:
    """As the stage `calibration` makes it."""
    declared = None if recorded else declared_table(path, dims)
    try:
        seen = calibration_table(path, dims, samples) if samples is not None else Table(0, {}, failure="the inputs are no tensors")
    except UserError as error:
        if error.diagnostics[0].code not in ("E0910", "E0916", "E0921"):
            raise
        seen = Table(0, {}, failure=error.diagnostics[0].message)
    return united_table(seen, declared) if declared else seen
