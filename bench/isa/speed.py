"""How fast programs are decoded, encoded, disassembled and assembled.

Usage: bench/isa/speed.py [MACHINE ...] [--count N]   (every machine whose programs are instructions; 1,000,000 instructions)
One CPU's time, on legal random instructions, some thousand different ones repeated, as compiled programs repeat theirs.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.random_fields import random_program
from toolchain.isa.assembly import assemble, disassemble
from toolchain.isa.decode import decode
from toolchain.isa.encode import encode_program
from toolchain.spec.errors import Source
from toolchain.spec.evaluate import align
from toolchain.spec.load import list_targets, load_machine
from toolchain.spec.model import Machine

T = TypeVar("T")


def timed(what: str, count: int, act: Callable[[], T]) -> T:
    """Runs `act`, prints its rate, gives its result."""
    start = time.process_time()
    result = act()
    spent = time.process_time() - start
    print(f"  {what:12} {count:8} instructions {spent:7.3f} s {count / spent / 1e6:7.2f} M/s")
    return result


def long_program(machine: Machine, count: int) -> list[bytes]:
    """The streams of a program of about `count` instructions, the same ones over and over."""
    program = random_program(machine, 1, 3000)
    times = max(1, count // len(program))
    ends = program.offset[np.searchsorted(program.stream, np.arange(machine.streams), "right") - 1]
    found: list[bytes] = []
    for data, end in zip(program.streams, ends.tolist(), strict=True):
        body = data[:end] * times + data[end : end + machine.instruction[machine.program.ends].bytes]
        found.append(body + bytes(align(len(body), machine.encoding.pad_bytes) - len(body)) if data else b"")
    return found


def main(names: Sequence[str], count: int) -> None:
    """Prints the rates of each machine. Raises SystemExit for one whose programs are not instructions."""
    for name in names or [name for name in list_targets() if load_machine(name).program.ends]:
        print(name)
        machine = load_machine(name)
        if not machine.program.ends:
            raise SystemExit(f"{name}: its programs are no instructions that end with one of their own")
        streams = long_program(machine, count)
        length = len(decode(machine, streams))
        program = timed("decode", length, lambda m=machine, s=streams: decode(m, s))
        timed("encode", length, lambda p=program: encode_program(p))
        timed("disassemble", length, lambda p=program: disassemble(p))
        short = decode(machine, long_program(machine, count // 10))
        text = disassemble(short)
        timed("assemble", len(short), lambda m=machine, t=text: assemble(m, Source("bench", t)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machines", metavar="MACHINE", nargs="*")
    parser.add_argument("--count", type=int, default=1_000_000)
    given = parser.parse_args()
    main(given.machines, given.count)
