"""Interrupts (Ctrl-C) of the command: the handler remembers that one came.

Code that runs while a module of C is imported may turn KeyboardInterrupt into another exception, or lose it. So whoever handles a failure, or begins
a new piece of work, asks here whether there was an interrupt.
"""

import os
import signal
import sys
import threading
from dataclasses import dataclass
from types import FrameType
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
        later = threading.Timer(AGAIN_SECONDS, signal.raise_signal, (signal.SIGINT,))
        later.daemon = True
        later.start()
    else:
        sys.__unraisablehook__(lost)
