"""Models and samples from Python, as the files that a build reads: named by content, so that equal things are built once."""

import hashlib
import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf.message import EncodeError
from numpy.typing import ArrayLike, NDArray

from toolchain.spec.errors import fail
from toolchain.spec.files import write_atomic

if TYPE_CHECKING:
    import onnx

Given = ArrayLike | Mapping[str, ArrayLike]
FOLDER = "given"
NAME_LENGTH = 60
DIGITS = 12


def model_file(model: "onnx.ModelProto", root: Path) -> Path:
    """An ONNX file of a model in memory, below `root`. Raises UserError E0005 (cannot write), E0807 for one of more than 2 GB."""
    try:
        data = model.SerializeToString(deterministic=True)
    except (ValueError, EncodeError) as error:
        text = f"the model cannot be written: {error}"
        raise fail("E0807", text, hint="save it with its weights as external data, and give the file's path") from None
    name = re.sub(r"[^\w.+-]", "_", model.graph.name)[:NAME_LENGTH].strip(".") or "model"
    return _written(root, f"{name}-{_digest(data)}.onnx", data)


def samples_file(calibration: Given, inputs: list[str], root: Path) -> Path:
    """An .npz file of recorded inputs, by the names of the inputs; a single array belongs to the only one.

    Raises UserError E0808 for arrays of other names, and for what is no array of numbers or texts.
    """
    named = calibration if isinstance(calibration, Mapping) else dict.fromkeys(inputs[:1], calibration)
    if sorted(named) != sorted(inputs):
        given = ", ".join(named) if isinstance(calibration, Mapping) else "one array without a name"
        raise fail("E0808", f"the model's inputs are {', '.join(inputs)}; calibration holds {given}", hint="give one array of samples by each name")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, values in sorted(named.items()):
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), _npy(name, values))
    return _written(root, f"samples-{_digest(buffer.getvalue())}.npz", buffer.getvalue())


def _npy(name: str, values: ArrayLike) -> bytes:
    array: NDArray[Any] = np.asarray(values)
    if array.dtype.kind == "O" and all(isinstance(part, str) for part in array.flat):
        array = array.astype(np.str_)
    if array.dtype.kind not in "biufU":
        raise fail("E0808", f"'{name}' is {array.dtype}, not numbers")
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGITS]


def _written(root: Path, name: str, data: bytes) -> Path:
    path = root / FOLDER / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise fail("E0005", f"cannot make the folder: {error.strerror}", place=str(path.parent)) from None
    write_atomic(path, data)
    return path
