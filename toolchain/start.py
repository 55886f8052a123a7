"""Entry point of the command: an interrupt while modules still load is one line, too."""

import gc
import os
import signal
import sys
from types import FrameType

from toolchain.tasks.garbage import RARELY

INTERRUPTED = 130
"""The exit code, as shells have it."""


def main() -> int:
    """Runs the command line and answers with the exit code."""
    gc.set_threshold(*RARELY)
    before = signal.signal(signal.SIGINT, _leave)
    from toolchain.cli import main as run

    signal.signal(signal.SIGINT, before)  # from here on there may be something to put in order
    code = run()
    if code == INTERRUPTED:
        sys.stdout.flush()
        os._exit(code)  # Python itself would end with another code where the interrupt passed through an `exec`
    return code


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Exit at once: no work has begun that needs an orderly end."""
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
