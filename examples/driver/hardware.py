"""The hardware of the driver beside it: the emulator behind shared memory, a doorbell and an interrupt.

Usage: hardware.py MACHINE MEMORY DOORBELL INTERRUPT, where the last three are numbers of open files, as driver.c gives them.
"""

import mmap
import os
import struct
import sys
from collections.abc import Iterator

from toolchain.isa.check_machine import load_checked_machine
from toolchain.runtime.emulator_device import serve

PAGE = 4096
LOAD, RUN = 1, 2
HEAD, REGISTER = struct.Struct("<IIIIQQ"), struct.Struct("<QQ")
STATUS = 4
"""The byte of the page of registers at which the answer stands."""


def commands(memory: int, doorbell: int, control: memoryview) -> Iterator[str]:
    """Each command as a line of the emulator's own protocol, whenever the doorbell rings."""
    while True:
        os.eventfd_read(doorbell)
        command, _, count, _, memory_bytes, program_bytes = HEAD.unpack_from(control)
        pairs = [REGISTER.unpack_from(control, HEAD.size + k * REGISTER.size) for k in range(count)]
        words = [f"{index}={address}" for index, address in pairs]
        yield " ".join(["load", f"/proc/self/fd/{memory}", str(memory_bytes), str(program_bytes), *words]) if command == LOAD else "run"


def main() -> None:
    name, memory, doorbell, interrupt = sys.argv[1], *map(int, sys.argv[2:5])
    control = memoryview(mmap.mmap(memory, 0))[-PAGE:]
    for answer in serve(load_checked_machine(name), commands(memory, doorbell, control)):
        if answer != "done":
            print(answer, file=sys.stderr)
        control[STATUS : STATUS + 4] = struct.pack("<I", answer != "done")
        os.eventfd_write(interrupt, 1)


if __name__ == "__main__":
    main()
