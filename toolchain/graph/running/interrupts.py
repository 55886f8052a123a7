"""Interrupts of ONNX Runtime: Python hears a signal when a call returns, and a loop in a model may take for ever."""

import functools
import os
import signal
import threading
from typing import Any, Protocol

import onnxruntime

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
