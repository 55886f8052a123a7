"""From a Model to an ONNX file in a folder, with its weights in a file beside it."""

import hashlib
import json
import os
import threading
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx

from toolchain.models.model import Layered, Light, Model, Stored
from toolchain.spec.errors import fail
from toolchain.spec.files import write_atomic

if TYPE_CHECKING:
    from toolchain.models.shape_graph import ShapeGraph

WHOLE = int(onnx.TensorProto.INT64)


def model_shape_graph(model: Model) -> "ShapeGraph | None":
    """The graph without weights of a model whose weights are made up; None for a stored one."""
    match model.origin:
        case Layered(network=network):
            from toolchain.models.shape_graph import shape_graph

            return shape_graph(model.name, network, model.shapes, {name: WHOLE for name, entry in model.inputs.items() if entry.below})
        case Light():
            from toolchain.models.sources import light_shape_graph

            return light_shape_graph(model.origin)
        case Stored():
            return None


def build_model(model: Model, folder: Path) -> Path:
    """Writes NAME.onnx and its weights into `folder` unless they are there already; answers with the model's path.

    Raises UserError E0005 (cannot write) and those of a stored model that cannot be read.
    """
    path, stamp = folder / f"{model.name}.onnx", folder / f"{model.name}.stamp.json"
    key = _key(model)
    if _current(stamp, key):
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise fail("E0005", f"cannot make the folder: {error.strerror}", place=str(folder)) from None
    written = _stored(model.origin, path) if isinstance(model.origin, Stored) else _seeded(model, path)
    sizes = {file.name: file.stat().st_size for file in written}
    write_atomic(stamp, (json.dumps({"key": key, "files": sizes}, indent=1) + "\n").encode())
    return path


def _seeded(model: Model, path: Path) -> list[Path]:
    import threadpoolctl

    from toolchain.models.seeded_weights import seeded

    bare = model_shape_graph(model)
    assert bare is not None
    # Many small products: threads would wait for each other most of the time, on a busy machine for ten times as long.
    with threadpoolctl.threadpool_limits(1, "blas"):
        weights, tensors = write_parameters(path.parent, seeded(bare, model.seed))
    bare.proto.graph.initializer.extend(tensors)
    write_atomic(path, bare.proto.SerializeToString(deterministic=True))
    return [weights, path]


def _stored(origin: Stored, path: Path) -> list[Path]:
    from toolchain.models.sources import external_files

    targets = {path: origin.file} | {path.parent / file.name: file for file in external_files(origin.file)}
    for target, source in targets.items():
        write_atomic(target, source.read_bytes())
    return list(targets)


def _key(model: Model) -> str:
    """The hash of everything that the result depends on: the layers, the file or package it points to, and this code."""
    digest = hashlib.sha256(repr((model.name, model.seed, dict(model.inputs))).encode())
    match model.origin:
        case Layered(network=network):
            layers = [(layer.name, layer.operator, layer.inputs, layer.shape) for layer in network.layers]
            digest.update(repr((layers, network.outputs)).encode())
        case Light(name=name):
            digest.update(repr((name, version("onnx"))).encode())
        case Stored(file=file):
            from toolchain.models.sources import external_files

            for part in (file, *external_files(file)):
                digest.update(part.read_bytes())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _current(stamp: Path, key: str) -> bool:
    """Whether the stamp is of this key and every file it lists has the size that was written."""
    try:
        found = json.loads(stamp.read_text())
        return found["key"] == key and all((stamp.parent / name).stat().st_size == size for name, size in found["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


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
