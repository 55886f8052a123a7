"""The ONNX project's own tests of nodes, as the installed onnx package makes them, and which of them ONNX Runtime passes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from toolchain.verify.library_check import all_cases, cases_in

Value = Any
RTOL, ATOL = 1e-3, 1e-7
"""As the ONNX project compares."""


@dataclass(frozen=True)
class Case:
    """inputs, outputs: in the order of the model's; what is no tensor is a list or None."""

    name: str
    model: onnx.ModelProto
    inputs: Sequence[Value]
    outputs: Sequence[Value]

    @property
    def fed(self) -> dict[str, Value]:
        """Inputs by name."""
        constants = {tensor.name for tensor in self.model.graph.initializer}
        names = [entry.name for entry in self.model.graph.input if entry.name not in constants]
        return {name: np.asarray(value) if np.isscalar(value) else value for name, value in zip(names, self.inputs, strict=False)}


def collect_cases(modules: Sequence[str] | None = None) -> list[Case]:
    """By name. modules: those of some operators alone; all of them take ten seconds, as onnx computes every result."""
    made = all_cases() if modules is None else [case for name in modules for case in cases_in(name)]
    found = {case.name: Case(case.name, case.model, *_plain(case.data_sets[0])) for case in made}
    root = Path(onnx.__file__).parent / "backend" / "test" / "data"
    found |= {f"{path.parent.parent.name}/{path.parent.name}": _stored(path) for path in sorted(root.glob("*/*/model.onnx"))}
    return [found[name] for name in sorted(found)]


def _plain(data: tuple[Sequence[Value], Sequence[Value]]) -> tuple[Sequence[Value], Sequence[Value]]:
    return tuple([numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value for value in values] for values in data)  # type: ignore[return-value]


def _stored(path: Path) -> Case:
    model = onnx.load(path)
    data = path.parent / "test_data_set_0"
    ends = [[_read(file) for file in sorted(data.glob(f"{end}_*.pb"), key=lambda file: int(file.stem.split("_")[1]))] for end in ("input", "output")]
    return Case(f"{path.parent.parent.name}/{path.parent.name}", model, *ends)


def _read(file: Path) -> Value:
    tensor = onnx.TensorProto()
    tensor.ParseFromString(file.read_bytes())
    return numpy_helper.to_array(tensor)


def onnx_runtime(case: Case) -> dict[str, Value] | None:
    """Outputs by name where ONNX Runtime passes the test; None where it does not."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(case.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found = session.run(None, case.fed)
    except Exception:  # noqa: BLE001  ONNX Runtime's exceptions have no base class
        return None
    wanted = case.outputs
    passes = len(found) >= len(wanted) and all(close(one, other) for one, other in zip(wanted, found, strict=False))
    return {entry.name: value for entry, value in zip(session.get_outputs(), found, strict=True)} if passes else None


def close(wanted: Value, found: Value) -> bool:
    """Whether two results are the same as far as the ONNX project asks."""
    if isinstance(wanted, list | tuple):
        return isinstance(found, list | tuple) and len(wanted) == len(found) and all(map(close, wanted, found))
    if isinstance(wanted, dict):
        return isinstance(found, dict) and wanted.keys() == found.keys() and all(close(wanted[key], found[key]) for key in wanted)
    if wanted is None or found is None:
        return wanted is found
    one, other = np.asarray(wanted), np.asarray(found)
    if one.shape != other.shape or (one.dtype != other.dtype and not {one.dtype.kind, other.dtype.kind} <= set("OUS")):
        return False
    if one.dtype.kind in "OUSb" or one.size == 0:
        return bool(np.array_equal(one, other))
    with np.errstate(all="ignore"):
        return bool(np.allclose(*(array.astype(np.complex128 if one.dtype.kind == "c" else np.float64) for array in (other, one)), RTOL, ATOL, True))


def open_sizes(case: Case) -> Mapping[str, int]:
    """Sizes of the dimensions that a model leaves open, as `input.axis`, by its test's inputs."""
    from toolchain.graph.importing.shapes import open_axes

    fed = case.fed
    return {axis.key: np.shape(fed[axis.input])[axis.axis] for axis in open_axes(case.model.graph) if axis.input in fed}
