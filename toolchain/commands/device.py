"""`tilewright device`: the emulator as a device of another process."""

import argparse
import sys

from toolchain.commands.machine import machine_of
from toolchain.runtime.device_server import serve


def serve_lines(arguments: argparse.Namespace) -> None:
    """Answers each line of standard input, until it ends."""
    for answer in serve(machine_of(arguments), (line.rstrip("\n") for line in sys.stdin)):
        print(answer, flush=True)
