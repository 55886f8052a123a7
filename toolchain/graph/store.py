"""All stages of a model in one folder: small ONNX files that share their weights, which are written once and named by content.

ONNX Runtime opens a model in memory through such a folder.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from toolchain.graph.files import INLINE_BYTES
from toolchain.graph.regions import region_calls, region_function
from toolchain.graph.session import THREADS, Session, open_session
from toolchain.spec.errors import fail
from toolchain.spec.files import write_atomic

ALIGNMENT = 64
Place = tuple[str, int, int]


@dataclass
class Store:
    """folder: where everything goes; written: all that went there. Tensors that an earlier stage wrote are pointed to, never written again.

    digests: SHA-256 in hex of the files of weights, known from writing them. lent: the same of files in other folders of the build that tensors may
    stand in: those are copied as they are, which takes a third of the time. passing: the name of files that soon go again; weights are not hashed.
    """

    folder: Path
    written: list[Path] = field(default_factory=list[Path])
    digests: dict[Path, str] = field(default_factory=dict[Path, str])
    lent: Mapping[Path, str] = field(default_factory=dict[Path, str])
    passing: str = ""
    _places: dict[int, tuple[ir.TensorProtocol, Place]] = field(default_factory=dict[int, tuple[ir.TensorProtocol, Place]])
    _pointers: dict[tuple[int, str], ir.ExternalTensor] = field(default_factory=dict[tuple[int, str], ir.ExternalTensor])

    def save(self, name: str, model: ir.Model) -> Path:
        """Writes NAME.onnx and the weights that no stage before it had; same model, same bytes. Raises UserError E0005."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise fail("E0005", f"cannot make the folder: {error.strerror}", place=str(self.folder)) from None
        large = [value.const_value for value in model.graph.initializers.values() if value.const_value is not None]
        large = [tensor for tensor in large if tensor.nbytes > INLINE_BYTES]
        self._copy([tensor for tensor in large if id(tensor) not in self._places and isinstance(tensor, ir.ExternalTensor)])
        self._write([tensor for tensor in large if id(tensor) not in self._places])
        path = self.folder / f"{name}.onnx"
        write_atomic(path, self._proto(model).SerializeToString(deterministic=True))
        self.written.append(path)
        return path

    @contextmanager
    def borrowed(self, model: ir.Model) -> Generator[Path]:
        """A file of a model for the moment: it points to weights that stages left, and whatever it adds goes again. Raises UserError E0005."""
        name = f".lent.{os.getpid()}"
        own = Store(self.folder, passing=name, _places={**self._places})
        try:
            yield own.save(name, model)
        finally:
            for path in sorted({*own.written} - {*self.written}):
                path.unlink(missing_ok=True)

    def _copy(self, tensors: list[ir.ExternalTensor]) -> None:
        """Tensors that stand in lent files stay where they are; the files come into the folder, named by content too."""
        for tensor in tensors:
            source = Path(tensor.path)
            if source in self.lent:
                path = self.folder / f"weights-{self.lent[source][:16]}.bin"
                if path not in self.digests:
                    _copy_file(source, path)
                    self.written.append(path)
                    self.digests[path] = self.lent[source]
                self._places[id(tensor)] = (tensor, (path.name, tensor.offset or 0, tensor.length or tensor.nbytes))

    def _write(self, tensors: list[ir.TensorProtocol]) -> None:
        """One file for the new tensors of a stage; equal files have equal names, so a rebuild finds its own."""
        if not tensors:
            return
        digest, offset, places = hashlib.sha256(), 0, list[tuple[int, int]]()
        beside = self.folder / f".weights.{os.getpid()}.part"
        try:
            with beside.open("wb") as file:
                for tensor in tensors:
                    data = _bytes(tensor)
                    padding = bytes(-len(data) % ALIGNMENT)
                    places.append((offset, len(data)))
                    for part in (data, padding):
                        if not self.passing:
                            digest.update(part)
                        file.write(part)
                    offset += len(data) + len(padding)
            path = self.folder / f"{self.passing or f'weights-{digest.hexdigest()[:16]}'}.bin"
            beside.replace(path)
            self.written.append(path)
            if not self.passing:
                self.digests[path] = digest.hexdigest()
        except OSError as error:
            raise fail("E0005", f"cannot write the file: {error.strerror}", place=str(beside)) from None
        finally:
            beside.unlink(missing_ok=True)
        for tensor, (start, length) in zip(tensors, places, strict=True):
            self._places[id(tensor)] = (tensor, (path.name, start, length))

    def _proto(self, model: ir.Model) -> onnx.ModelProto:
        """Serialises with pointers in place of the weights, then puts the weights back."""
        kept = {value: value.const_value for value in model.graph.initializers.values()}
        try:
            for value, tensor in kept.items():
                if tensor is not None and id(tensor) in self._places:
                    value.const_value = self._pointer(tensor, value.name or "")
                elif isinstance(tensor, ir.ExternalTensor):
                    value.const_value = ir.Tensor(tensor.numpy(), name=value.name)
            return ir.to_proto(model)
        finally:
            for value, tensor in kept.items():
                value.const_value = tensor

    def _pointer(self, tensor: ir.TensorProtocol, name: str) -> ir.ExternalTensor:
        """Made once for all stages."""
        found = self._pointers.get((id(tensor), name))
        if found is None:
            file, offset, length = self._places[id(tensor)][1]
            found = ir.ExternalTensor(file, offset, length, tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), name=name, base_dir="")
            self._pointers[id(tensor), name] = found
        return found


def _copy_file(source: Path, path: Path) -> None:
    """Whole or not at all. Raises UserError E0005."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        shutil.copyfile(source, beside)
        beside.replace(path)
    except OSError as error:
        raise fail("E0005", f"cannot write the file: {error.strerror}", place=str(path)) from None
    finally:
        beside.unlink(missing_ok=True)


def _bytes(tensor: ir.TensorProtocol) -> memoryview:
    """Little-endian, in C order, without a copy where the tensor is stored so."""
    array = np.ascontiguousarray(tensor.numpy())
    return array.reshape(-1).view(np.uint8).data


def read_stage(path: Path) -> ir.Model:
    """The model with shapes and types of everything in it, weights read when they are used. Raises UserError E0001."""
    try:
        model = ir.load(path)
    except OSError as error:
        raise fail("E0001", f"cannot read the model: {error.strerror}", place=str(path)) from None
    for call in region_calls(model):
        for inner, outer in zip(region_function(model, call).inputs, call.inputs, strict=True):
            if outer is not None:  # onnx_ir reads the types of a function's results, and leaves out those of its inputs
                inner.shape, inner.type = outer.shape, outer.type
                inner.metadata_props.update(outer.metadata_props)
    return model


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
