"""The process of a command: interrupts (Ctrl-C), Python's search for circles of objects, and modules that load at their first use.

Code that runs while a module of C is imported may turn KeyboardInterrupt into another exception, or lose it. So whoever handles a failure, or begins
a new piece of work, asks here whether there was an interrupt.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import FrameType, ModuleType
from typing import NoReturn

INTERRUPTED = 130
"""The exit code, as shells have it."""
AGAIN_SECONDS = 0.05


@dataclass
class Interrupts:
    """A handler of SIGINT. seen: whether one came."""

    seen: bool = False

    def __call__(self, _number: int, _frame: FrameType | None) -> NoReturn:
        self.seen = True
        raise KeyboardInterrupt


def leave_at_once(_number: int, _frame: FrameType | None) -> NoReturn:
    """A handler for the time before any work that needs an orderly end."""
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def watch_interrupts() -> None:
    """From now on interrupts are remembered, and one that comes where Python cannot pass it on (in a finalizer) comes again a moment later."""
    signal.signal(signal.SIGINT, Interrupts())
    sys.unraisablehook = _again


def was_interrupted() -> bool:
    """Whether there was an interrupt since `watch_interrupts`."""
    handler = signal.getsignal(signal.SIGINT)
    return isinstance(handler, Interrupts) and handler.seen


def stop_if_interrupted() -> None:
    """Raises KeyboardInterrupt for an interrupt that something has swallowed or turned into another exception."""
    if was_interrupted():
        raise KeyboardInterrupt


def _again(lost: "sys.UnraisableHookArgs") -> None:
    if issubclass(lost.exc_type, KeyboardInterrupt):
        main = threading.main_thread().ident
        assert main is not None
        later = threading.Timer(AGAIN_SECONDS, signal.pthread_kill, (main, signal.SIGINT))  # a wait of the main thread ends only by a signal to it
        later.daemon = True
        later.start()
    else:
        sys.__unraisablehook__(lost)


RARELY = (1_000_000, 50, 100)
"""Thresholds: a build makes millions of objects and hardly a circle, and looking for those at the usual pace takes a tenth of its time."""


@contextmanager
def rare_collections() -> Generator[None]:
    """Looks rarely meanwhile. Going back looks through all that was made at once, so the command itself looks rarely from start to end."""
    before = gc.get_threshold()
    gc.set_threshold(*RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def circles_collected() -> Generator[None]:
    """Collects at the end the circles of objects that were made inside. It does not look at those that were there before: in a process that has built
    much, or holds much else, that would take longer than a build."""
    frozen = gc.get_freeze_count() > 0  # by somebody else, whose objects are not ours to thaw
    if not frozen:
        gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        if not frozen:
            gc.unfreeze()


RARE = ("sympy", "onnx_ir._symbolic_shapes", "onnx.compose", "google.protobuf.json_format", "google.protobuf.text_format")
"""Arithmetic with open sizes: onnx_ir imports it whole, which takes longer than the rest of it, and a network whose sizes are fixed has none. Other
forms of a model's file, and models put together: onnx imports them, and no stage of a build needs any."""


class _Deferring(MetaPathFinder):
    """Finds modules as Python does, and leaves their reading for later."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        found = PathFinder.find_spec(fullname, path, target) if fullname in RARE else None
        if found and found.loader:
            found.loader = LazyLoader(found.loader)
        return found


@contextmanager
def rare_modules_deferred() -> Generator[None]:
    """Modules of RARE that are imported meanwhile are read at their first use; those that are there already stay as they are."""
    finder = _Deferring()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
