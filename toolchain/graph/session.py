"""ONNX Runtime as this project uses it: exact integer products, no rewriting unless asked, results by name."""

import functools
import os
import re
import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnxruntime

from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail

_ORT: Any = onnxruntime


class RunOptions(Protocol):
    """Options of a run. terminate: ends it; may be set while it runs."""

    terminate: bool
    log_severity_level: int


@functools.cache
def run_options() -> RunOptions:
    """Options that all runs share: an interrupt sets `terminate`, which ends the run under way.

    A program that watches signals itself, or that runs its first model outside its main thread, hears of an interrupt when a run has ended.
    """
    options: RunOptions = _ORT.RunOptions()
    options.log_severity_level = 4
    if threading.current_thread() is threading.main_thread():
        _watch(options)
    return options


def _watch(options: RunOptions) -> None:
    """The system's handler writes a signal's number into a pipe, whatever the main thread is at; a thread reads it."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)
    else:
        threading.Thread(target=_listen, args=(reader, options), daemon=True).start()


def _listen(reader: int, options: RunOptions) -> None:
    while heard := os.read(reader, 64):
        if signal.SIGINT in heard:
            options.terminate = True


_ORT.set_default_logger_severity(4)
ALIGN = 64
"""Bytes; ONNX Runtime's own tensors start at a multiple of it."""
THREADS = 2
ONCE = 1
"""Threads of a model that runs once or a few times, as in checks of a build and in its quantisation. With two, a build of ResNet-50 takes a tenth
more of the processor's time, the runs of its quantisation a fifth more, and neither is sooner done (measured with two processors)."""
WRONG = ("Pad_Fusion",)
"""Rewriting of ONNX Runtime that changes results: zeros around a picture become padding of a max pool, which counts for nothing there."""


class Port(Protocol):
    """An input or output of a session. type: such as `tensor(float)`; shape: an open dimension is its name, or None."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def shape(self) -> Sequence[int | str | None]: ...


class Session(Protocol):
    """A model opened in ONNX Runtime; several threads may run it."""

    def get_inputs(self) -> Sequence[Port]: ...
    def get_outputs(self) -> Sequence[Port]: ...
    def run(self, output_names: Sequence[str], input_feed: Mapping[str, Array], run_options: RunOptions) -> Sequence[Array]: ...


def open_session(
    model: bytes | Path, optimise: bool = True, files: Mapping[str, bytes] | None = None, place: str | None = None, threads: int = THREADS
) -> Session:
    """A session on the processor. files: external data by location, for a model in memory. place: for messages, else the model's file.

    Raises UserError E0910 for a model that is refused.
    """
    options = _ORT.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 4  # what goes wrong comes as an exception, and is told once
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads sleep: spinning costs most of opening a small model
    level = _ORT.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
    if files:
        options.add_external_initializers_from_files_in_memory(list(files), list(files.values()), [len(data) for data in files.values()])
    given, file = (str(model), str(model)) if isinstance(model, Path) else (model, "")
    try:
        return _ORT.InferenceSession(given, options, providers=["CPUExecutionProvider"], disabled_optimizers=list(WRONG))
    except _refusals() as error:
        raise fail("E0910", f"ONNX Runtime refuses the model: {_line(error, file)}", place=file if place is None else place) from None


def run_session(session: Session, inputs: Mapping[str, Array], outputs: Sequence[str] | None = None, place: str = "") -> dict[str, Array]:
    """Output arrays by name, which do not depend on where inputs stand in memory. place: for messages.

    Raises UserError E0910 when ONNX Runtime stops, KeyboardInterrupt when the user stops it.
    """
    names = list(outputs or (entry.name for entry in session.get_outputs()))
    given = {name: aligned(value) for name, value in inputs.items()}
    options = run_options()
    options.terminate = False
    try:
        return dict(zip(names, session.run(names, given, options), strict=True))
    except _refusals() as error:
        if options.terminate:
            raise KeyboardInterrupt from None
        raise fail("E0910", f"ONNX Runtime could not run the model: {_line(error)}", place=place) from None


def aligned(value: Any) -> Any:
    """An array, or a copy of it, contiguous and from a multiple of ALIGN on, as ONNX Runtime's own tensors are; other values stay as they are.

    Sums (of ReduceMean, version 1.32) differ in the last bit by where their operand starts.
    """
    array: Array = np.asarray(value) if np.isscalar(value) else value  # an entry of a list of scalars is no array
    if not isinstance(value, np.ndarray | np.generic) or array.dtype.hasobject or not array.nbytes:
        return array
    if array.flags.c_contiguous and array.ctypes.data % ALIGN == 0:
        return array
    room = np.empty(array.nbytes + ALIGN, np.uint8)
    first = -room.ctypes.data % ALIGN
    made = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def _refusals() -> tuple[type[Exception], ...]:
    """ONNX Runtime's own exceptions have no base class but RuntimeError, some not even that."""
    state = _ORT.capi.onnxruntime_pybind11_state
    names = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NotImplemented", "RuntimeException", "NoSuchFile", "ModelLoadCanceled")
    return (*(getattr(state, name) for name in names if hasattr(state, name)), RuntimeError, ValueError)


SOURCES = re.compile(r"/onnxruntime_src/\S+:\d+\s+(?:[\w:*&<>~ ]+\([^()]*\)\s*(?:const\s*)?(?:\[with [^\]]*\]\s*)?)?")
"""A place in ONNX Runtime's own sources, with the signature of its function, which tells a user nothing."""


def _line(error: Exception, file: str = "") -> str:
    """Without the file's own path, which may be a temporary one: the message's place has the path that the user knows."""
    text = str(error)
    if file:
        text = text.replace(f"Load model from {file} failed:", "").replace(file, Path(file).name).replace(f"{Path(file).resolve().parent}/", "")
    return " ".join(SOURCES.sub("", text.partition("Stacktrace:")[0]).split())[:300]
