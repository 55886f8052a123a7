"""How fast programs are decoded, encoded, disassembled and assembled: `python bench/isa/speed.py [MACHINE ...]`.

One CPU's time, on legal random instructions, some thousand different ones repeated, as compiled programs repeat theirs.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.random_fields import random_program
from toolchain.isa.assembly.assembler import assemble
from toolchain.isa.assembly.disassembler import disassemble
from toolchain.isa.binary.decode import decode
from toolchain.isa.binary.encode import encode_program
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


def main() -> None:
    for name in sys.argv[1:] or list_targets():
        print(name)
        machine = load_machine(name)
        streams = long_program(machine, 1_000_000)
        count = len(decode(machine, streams))
        program = timed("decode", count, lambda m=machine, s=streams: decode(m, s))
        timed("encode", count, lambda p=program: encode_program(p))
        timed("disassemble", count, lambda p=program: disassemble(p))
        short = decode(machine, long_program(machine, 100_000))
        text = disassemble(short)
        timed("assemble", len(short), lambda m=machine, t=text: assemble(m, Source("bench", t)))


if __name__ == "__main__":
    main()
