"""A model's parameters in one file beside it, named by what it holds."""

import hashlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx

from toolchain.spec.errors import fail

ALIGNMENT = 64
Place = tuple[int, int]


def write_parameters(folder: Path, parameters: Iterable[tuple[str, np.typing.NDArray[np.float32]]]) -> tuple[Path, list[onnx.TensorProto]]:
    """Writes the values one after the other, each at a multiple of ALIGNMENT; the file appears whole or not at all.

    Answers with the file and the tensors that point into it. Raises UserError E0005.
    """
    beside = folder / f".weights.{os.getpid()}.{threading.get_ident()}.part"
    try:
        with beside.open("wb") as file:
            digest, places = hashlib.sha256(), list[tuple[str, tuple[int, ...], Place]]()
            for name, values in parameters:
                data = np.ascontiguousarray(values, "<f4").data.cast("B")
                padded = [data, bytes(-len(data) % ALIGNMENT)]
                places.append((name, values.shape, (file.tell(), len(data))))
                for part in padded:
                    digest.update(part)
                    file.write(part)
        path = folder / f"weights-{digest.hexdigest()[:16]}.bin"
        beside.replace(path)
    except OSError as error:
        raise fail("E0005", f"cannot write the file: {error.strerror}", place=str(beside)) from None
    finally:
        beside.unlink(missing_ok=True)
    return path, [_tensor(path.name, name, shape, place) for name, shape, place in places]


def _tensor(file: str, name: str, shape: tuple[int, ...], place: Place) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name=name, dims=shape, data_type=onnx.TensorProto.FLOAT, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", file), ("offset", str(place[0])), ("length", str(place[1]))):
        tensor.external_data.add(key=key, value=value)
    return tensor
