"""A device in another process: the host and it share the device's memory, and talk by lines of text.

The first line says `load FILE MEMORY PROGRAM REGISTER=VALUE ...`: FILE, which both map, holds MEMORY bytes of device memory, constants in place,
and from the next multiple of 4096 on the PROGRAM bytes of the program. Every line `run` runs it once. The answer to each is one line: `done`,
or `failed` with the reason. The process ends when its input does.
"""

import mmap
import os
import selectors
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import numpy as np

from toolchain.abi.dram_map import DramMap
from toolchain.isa.binary.container import write_container
from toolchain.runtime.device import ByteRange, Bytes, Image, Ran
from toolchain.runtime.flat_memory import run_in
from toolchain.spec.errors import UserError, fail

PAGE = 4096
"""Bytes; what the program starts on a multiple of, behind the memory."""
SHARED = Path("/dev/shm")
"""A folder in memory, where the system has one."""
LONGEST = 4096
"""Bytes of an answer."""


@dataclass(frozen=True)
class ProcessDevice:
    """command: starts the process; the machine's name becomes its last word. seconds: at most, for each answer."""

    command: tuple[str, ...]
    seconds: float = 600.0

    def load(self, image: Image) -> "ProcessProgram":
        """Raises UserError E0713 where the process does not start, answers otherwise or too late, or refuses the program."""
        return self.start(image.program.machine.name, write_container(image.program), image.map, image.constants)

    def start(self, machine: str, program: bytes, held: DramMap, constants: Mapping[str, bytes]) -> "ProcessProgram":
        """program: bytes as the process expects them. held: its segments are in one memory. constants: by segment. Raises UserError as `load`."""
        segments = {name: segment for name, segment in held.segments.items() if not segment.memory}
        if held.registers and held.rooms > 1:
            hint = "build without 'images=', or run it on the emulator"
            raise fail("E0713", "a device in another process gets one address for each register, and copies of a program need their own", hint=hint)
        size = -(-held.bytes // PAGE) * PAGE
        name, shared = _shared_file(size + max(len(program), 1))
        try:
            memory = np.frombuffer(shared, np.uint8)
            for part, data in constants.items():
                first = segments[part].address
                memory[first : first + len(data)] = np.frombuffer(data, np.uint8)
            memory[size : size + len(program)] = np.frombuffer(program, np.uint8)
            registers = [f"{segment.register}={segment.address}" for segment in segments.values() if segment.register >= 0]
            talk = _Conversation.start((*self.command, machine), self.seconds)
            talk.ask(" ".join(["load", name, str(size), str(len(program)), *registers]))
        finally:
            Path(name).unlink(missing_ok=True)
        return ProcessProgram(held, memory, talk)


def _shared_file(size: int) -> tuple[str, mmap.mmap]:
    """A file of zeros that other processes can map, by its path. Raises UserError E0713 where there is no room."""
    try:
        number, name = tempfile.mkstemp(prefix="tilewright-", dir=SHARED if SHARED.is_dir() else None)
        try:
            os.truncate(number, size)
            return name, mmap.mmap(number, size)
        finally:
            os.close(number)
    except OSError as error:
        raise fail("E0713", f"no memory of {size} bytes can be shared with a device: {error.strerror}") from None


@dataclass(frozen=True)
class ProcessProgram:
    """A program that the process holds, and the memory that it shares."""

    map: DramMap
    memory: Bytes
    _talk: "_Conversation"
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, writes: Mapping[ByteRange, Bytes], reads: Sequence[ByteRange]) -> Ran:
        """Raises UserError E0713 where the process fails."""
        with self._lock:
            return run_in(self.memory, self.map, writes, reads, lambda: self._talk.ask("run"))


class _Conversation:
    """A process that answers each line with a line. It is stopped when this object goes."""

    def __init__(self, process: subprocess.Popen[bytes], name: str, seconds: float) -> None:
        self.process, self.name, self.seconds = process, name, seconds
        weakref.finalize(self, _stop, process)

    @classmethod
    def start(cls, command: Sequence[str], seconds: float) -> "_Conversation":
        """Raises UserError E0713 where the command cannot be started."""
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        except OSError as error:
            raise fail("E0713", f"the device's process '{command[0]}' does not start: {error.strerror}") from None
        return cls(process, command[0], seconds)

    def ask(self, line: str) -> None:
        """Raises UserError E0713 for any answer but `done`."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{line}\n".encode())
        except BrokenPipeError:
            raise self._failed("has ended") from None
        answer = self._answer()
        if answer != "done":
            failed = answer.startswith("failed ")
            raise self._failed(f"says: {answer.removeprefix('failed ')[:300]}" if failed else f"answers {answer[:80]!a}, not 'done' or 'failed'")

    def _answer(self) -> str:
        assert self.process.stdout is not None
        held, end = b"", monotonic() + self.seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in held:
                if len(held) > LONGEST:
                    raise self._failed(f"answers more than {LONGEST} bytes without the end of a line")
                if not selector.select(max(end - monotonic(), 0.0)):
                    raise self._failed(f"does not answer within {self.seconds:g} s")
                part = os.read(self.process.stdout.fileno(), LONGEST)
                if not part:
                    raise self._failed(f"has ended with code {self.process.wait()}")
                held += part
        return held.decode("utf-8", "replace").split("\n", 1)[0].strip()

    def _failed(self, text: str) -> UserError:
        _stop(self.process)
        return fail("E0713", f"the device's process '{self.name}' {text}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that may have ended already."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.kill()
    process.wait()
