"""From a Model to an ONNX file in a folder, with its weights in a file beside it.

Parameters without values get made-up ones: two made-up pictures go through the network while it is given its weights, so that every
convolution's result has deviation 1 and every batch norm has statistics that fit, however deep the network is.
"""

import hashlib
import json
import math
import os
import threading
from collections.abc import Generator, Iterable, Iterator
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx

from toolchain.models import exact_ops
from toolchain.models.exact_ops import Taps, attribute, bell, dyadic, key_of, rounded, signed_bytes, taps_of
from toolchain.models.functions import DOMAIN
from toolchain.models.model import Layered, Light, Model, Stored
from toolchain.models.samples import seeded_samples
from toolchain.models.sequence_weights import Parameter, sequence_parameters
from toolchain.models.shape_graph import ShapeGraph
from toolchain.spec.arrays import Floats, Reals
from toolchain.spec.errors import fail
from toolchain.spec.files import write_atomic

if TYPE_CHECKING:
    from toolchain.models.shape_graph import ShapeGraph


_Steps = Generator[Parameter, None, Floats]
WHOLE = int(onnx.TensorProto.INT64)
_PICTURES = 2
_LEAST_VARIANCE = 1 / 256
WALKED = ("Conv", "Gemm", "BatchNormalization")
"""Operators with parameters that made-up pictures go through."""
SEQUENTIAL = ("Concat", "Add")
"""Operators whose parameters, where they have any, are those of sequences."""
_ONE_PLACE = Taps((1, 1), (1, 1), (0, 0, 0, 0), (1, 1), (1, 1))


def seeded(bare: ShapeGraph, seed: int) -> Iterator[Parameter]:
    """Every parameter's name and values, in the order in which the graph uses them. Raises UserError E0811 for sums that are too long."""
    walk = _Walk(bare, seed)
    for number, node in enumerate(bare.proto.graph.node):
        yield from walk.visit(number, node)


class _Walk:
    """tensors: intermediate results of the pictures, kept until their last reader. Results of sequences' operators have none."""

    def __init__(self, bare: ShapeGraph, seed: int) -> None:
        self._graph = bare
        self._seed = seed
        inputs = {value.name: bare.shapes[value.name] for value in bare.proto.graph.input}
        self._tensors = {name: seeded_samples(name, shape, _PICTURES, "probe") for name, shape in inputs.items()}
        self._aliases: dict[str, str] = {}
        self._constants = {constant.name for constant in bare.proto.graph.initializer}
        self._last_use = {name: number for number, node in enumerate(bare.proto.graph.node) for name in node.input}

    def visit(self, number: int, node: onnx.NodeProto) -> Iterator[Parameter]:
        """The node's own parameters."""
        name = node.output[0]
        match node.op_type:
            case _ if node.domain == DOMAIN:
                self._tensors[name] = self._called(node)
            case "Unsqueeze" | "Reshape" if node.input[0] in self._graph.parameters:
                self._aliases[name] = node.input[0]
            case _ if self._sequential(node):
                yield from sequence_parameters(node, self._graph.parameters, self._seed)
            case "Conv" | "Gemm":
                self._tensors[name] = yield from self._weighted(node)
            case "BatchNormalization":
                self._tensors[name] = yield from self._normalised(node)
            case "Mul" | "Add" if node.input[1] in self._aliases:
                self._tensors[name] = yield from self._by_channel(node)
            case _:
                inputs = [self._tensors[i] for i in node.input if i in self._tensors]
                self._tensors[name] = exact_ops.apply(node, inputs, self._graph.shapes[name])
        for used in chain(node.input, node.output):
            if self._last_use.get(used, number) <= number:
                self._tensors.pop(used, None)

    def _sequential(self, node: onnx.NodeProto) -> bool:
        """Whether its parameters are those of sequences, or no pictures reach or pass it."""
        own = self._graph.parameters.keys() | self._aliases
        given = [name for name in node.input if name and name not in own and name not in self._constants]
        if any(name not in self._tensors for name in given):
            return True
        if node.op_type in WALKED or not self._aliases.keys().isdisjoint(node.input):
            return False
        return not exact_ops.knows(node) or (node.op_type in SEQUENTIAL and not own.isdisjoint(node.input))

    def _called(self, node: onnx.NodeProto) -> Floats:
        """Made-up pictures, but parts of an image with as many channels are that image, enlarged or reduced."""
        shape, x = self._graph.shapes[node.output[0]], self._tensors[node.input[0]]
        if len(shape) == x.ndim == 4 and shape[1] == x.shape[1]:
            rows, columns = (np.arange(size) * old // size for size, old in zip(shape[2:], x.shape[2:], strict=True))
            return x[:, :, rows][..., columns]
        return seeded_samples(node.output[0], shape, _PICTURES, "probe")

    def _weighted(self, node: onnx.NodeProto) -> _Steps:
        """A convolution or dense layer: weights in eight-bit steps of a power of two, and a bias that centres each channel."""
        x, name = self._tensors[node.input[0]], self._aliases.get(node.input[1], node.input[1])
        shape = self._graph.shapes[node.input[1]] if node.input[1] in self._aliases else self._graph.parameters[name]
        turned = node.op_type == "Gemm" and not attribute(node, "transB", 0)
        rows = shape[::-1] if turned else shape
        if math.prod(rows[1:]) > exact_ops.DEEPEST:
            raise fail("E0811", f"'{name}' has sums of {math.prod(rows[1:])} products; made-up weights have at most {exact_ops.DEEPEST}")
        whole = bell(key_of(self._seed, name), math.prod(shape)).reshape(rows[0], rows[1], -1)
        coarse, unit = exact_ops.coarse_input(x.reshape(*x.shape[:2], *x.shape[2:] or (1, 1)), whole[0].size)
        taps = taps_of(node, shape[2:], self._graph.shapes[node.output[0]]) if node.op_type == "Conv" else _ONE_PLACE
        y = exact_ops.convolve(coarse, exact_ops.coarse_weights(whole), int(attribute(node, "group", 1)), taps)
        mean, variance = exact_ops.channel_moments(y)
        step = unit * (1 << exact_ops.WEIGHT_SHIFT)
        scale = dyadic(1 / (math.sqrt(float(np.rint(variance).sum()) / len(variance) + 1) * step))
        weights = np.multiply(whole, np.float32(scale), dtype=np.float32).reshape(rows)
        yield name, (weights.T if turned else weights).reshape(self._graph.parameters[name])
        y = (y * np.float32(step * scale)).reshape(len(x), *self._graph.shapes[node.output[0]][1:])
        if len(node.input) < 3:
            return y
        bias = rounded(self._around(node.input[2], 0, 0.25, len(mean)) - mean * (step * scale))
        yield node.input[2], bias
        return y + _along_channels(bias, y)

    def _normalised(self, node: onnx.NodeProto) -> _Steps:
        """A batch norm whose statistics are the pictures' own, nearly; random factors and offsets."""
        x = self._tensors[node.input[0]]
        channels = x.shape[1]
        mean, variance = exact_ops.channel_moments(np.rint(x * np.float32(256)))
        mean, variance = mean / 256, np.maximum(variance / 65536, _LEAST_VARIANCE)
        names = tuple(node.input[1:5])
        values = (
            self._around(names[0], 1, 0.25, channels),
            self._around(names[1], 0, 0.25, channels),
            mean + self._around(names[2], 0, 0.125, channels) * np.sqrt(variance),
            variance * self._around(names[3], 1, 0.25, channels),
        )
        scale, offset, centre, spread = map(rounded, values)
        yield from zip(names, (scale, offset, centre, spread), strict=True)
        factor = np.divide(scale, np.sqrt(spread), dtype=np.float32)
        return (x - _along_channels(centre, x)) * _along_channels(factor, x) + _along_channels(offset, x)

    def _by_channel(self, node: onnx.NodeProto) -> _Steps:
        """A product or sum with one parameter per channel, as old models spell the second half of a batch norm."""
        x, name = self._tensors[node.input[0]], self._aliases[node.input[1]]
        value = rounded(self._around(name, int(node.op_type == "Mul"), 0.25, x.shape[1]))
        yield name, value
        other = _along_channels(value, x)
        return x * other if node.op_type == "Mul" else x + other

    def _around(self, name: str, centre: float, reach: float, count: int) -> Reals:
        """Values spread evenly over centre - reach to centre + reach."""
        return centre + signed_bytes(key_of(self._seed, name), count).astype(np.float64) * (reach / 128)


def _along_channels(values: Floats, x: Floats) -> Floats:
    return values.reshape(-1, *(1,) * (x.ndim - 2))


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
