"""Entry point of the command: an interrupt while modules still load is one line, too."""

import gc
import os
import signal
import sys
from collections.abc import Sequence

from toolchain.process import INTERRUPTED, RARELY, leave_at_once, watch_interrupts

SHORT = ("asm", "check", "disasm", "emulate")
"""Commands on programs. Their products are small, and a thread of numpy's for each core would take an eighth of their time to start."""


def few_threads(words: Sequence[str]) -> None:
    """Before numpy is imported: one thread for its products where a short command follows, unless the user says how many. words: of the command."""
    if words and words[0] in SHORT:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> int:
    """Runs the command line and answers with the exit code."""
    gc.set_threshold(*RARELY)
    few_threads(sys.argv[1:2])
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
