"""ONNX's backend interface over any machine, for tools that know no other: the ONNX project's own tests, converters, benchmarks."""

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import onnx
from numpy.typing import ArrayLike, DTypeLike
from onnx import NodeProto, helper
from onnx.backend.base import Backend, BackendRep

from toolchain.api.compile import compile_model
from toolchain.api.model import Loaded
from toolchain.graph.importing.shapes import open_axes
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail
from toolchain.spec.load import find_target

DEVICE = "CPU"
"""The only device: the emulator runs on this host, whatever the machine is."""

IR_VERSION, OPSET = 10, 21
"""Versions of a model around one node: ONNX Runtime lags behind the newest of the onnx package."""
Shaped = tuple[DTypeLike, tuple[int, ...]]
"""dtype and shape of a tensor."""


class PreparedModel(BackendRep):
    """A model for one machine. It is compiled when it first runs, for the sizes of these inputs, and again for other sizes of open dimensions."""

    def __init__(self, model: onnx.ModelProto, target: str, options: Mapping[str, Any]) -> None:
        self._model, self._target, self._options = model, target, options
        self._ready: dict[tuple[tuple[str, int], ...], Loaded] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="tilewright-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        constants = {tensor.name for tensor in model.graph.initializer}
        self.inputs = tuple(entry.name for entry in model.graph.input if entry.name not in constants)

    def run(self, inputs: object, **kwargs: object) -> tuple[Array, ...]:
        """Outputs in the model's order. inputs: in the model's order, or by name. Raises UserError as `compile_model` and `Loaded.run` do."""
        del kwargs
        given = cast("Mapping[str, ArrayLike]", inputs) if isinstance(inputs, Mapping) else _named(self.inputs, inputs)
        found = self.loaded(given).run(given)
        return tuple(found[entry.name] for entry in self._model.graph.output)

    def loaded(self, inputs: Mapping[str, ArrayLike]) -> Loaded:
        """The bundle for inputs of these sizes."""
        dims = tuple(sorted((axis.key, np.shape(inputs[axis.input])[axis.axis]) for axis in open_axes(self._model.graph) if axis.input in inputs))
        if dims not in self._ready:
            built = compile_model(self._model, self._target, dims=dict(dims), folder=self._folder, **self._options)
            self._ready[dims] = built.load()
        return self._ready[dims]


class MachineBackend(Backend):
    """A backend for one machine; `backend_for` makes one of it."""

    target: ClassVar[str] = ""
    options: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = DEVICE, **kwargs: Any) -> PreparedModel:
        """Checks the model. Raises ValidationError of onnx for one that is not valid."""
        del device
        super().prepare(model, DEVICE)
        return PreparedModel(model, cls.target, {**cls.options, **kwargs})

    @classmethod
    def run_node(
        cls, node: NodeProto, inputs: object, device: str = DEVICE, outputs_info: Sequence[Shaped] | None = None, **kwargs: Any
    ) -> tuple[Array, ...]:
        """Runs one node. inputs: in the node's order, without empty ones. outputs_info: dtype and shape of each output; inferred without it."""
        version = kwargs.pop("opset_version", OPSET)
        given = _named([name for name in node.input if name], inputs)
        entries = [_entry(name, np.asarray(value).dtype, np.shape(value)) for name, value in given.items()]
        ends = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        if outputs_info:
            ends = [_entry(name, np.dtype(dtype), shape) for name, (dtype, shape) in zip(node.output, outputs_info, strict=True) if name]
        graph = helper.make_graph([node], "node", entries, ends)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)], ir_version=IR_VERSION)
        model = onnx.shape_inference.infer_shapes(model)
        return cls.prepare(model, device, **kwargs).run(given)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.partition(":")[0] == DEVICE


def backend_for(target: str, **options: Any) -> type[MachineBackend]:
    """A backend whose models run on a machine and this host. options: as for `compile_model`. Raises UserError E0001 for an unknown machine."""
    find_target(target.partition(":")[0])
    return type(f"Backend_{target}", (MachineBackend,), {"target": target, "options": options})


def _named(names: Sequence[str], inputs: object) -> dict[str, ArrayLike]:
    """Inputs by name; one may come without a list around it, and one that is read twice comes twice. Raises UserError E1108 for another number."""
    several = cast("Sequence[ArrayLike]", inputs if isinstance(inputs, list | tuple) else [inputs])
    if len(several) != len(names):
        raise fail("E1108", f"the inputs are {', '.join(names) or 'none'}; given are {len(several)} arrays")
    return dict(zip(names, several, strict=True))


def _entry(name: str, dtype: np.dtype[np.generic], shape: Sequence[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)
