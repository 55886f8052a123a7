"""Entry point of the command: an interrupt while modules still load is one line, too."""

import gc
import os
import signal
import sys

from toolchain.process import INTERRUPTED, RARELY, leave_at_once, watch_interrupts


def main() -> int:
    """Runs the command line and answers with the exit code."""
    gc.set_threshold(*RARELY)
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as a shell has it for what runs in the background
    if not ignored:
        signal.signal(signal.SIGINT, leave_at_once)
    from toolchain.cli import main as run

    if not ignored:
        watch_interrupts()  # from here on there may be something to put in order
    code = run()
    if code == INTERRUPTED:
        sys.stdout.flush()
        os._exit(code)  # Python itself would end with another code where the interrupt passed through an `exec`
    return code
