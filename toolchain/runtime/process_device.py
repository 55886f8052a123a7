"""A device in another process: the host and it share the device's memory, and talk by lines of text.

The first line says `load FILE MEMORY PROGRAM REGISTER=VALUE ...`: FILE, which both map, holds MEMORY bytes of device memory, constants in place,
and from the next multiple of 4096 on the PROGRAM bytes of the program. Every line `run` runs it once. The answer to each is one line: `done`,
or `failed` with the reason. The process ends when its input does. Nothing here waits for it without a limit, and its file keeps its size.

The memory is sealed where the system can do it: Linux lets the maker of a file in memory forbid that it shrinks or grows, and a page behind the end
of a mapped file is a signal that ends the process (SIGBUS). Elsewhere a file in a temporary folder stands in for it, whose size is checked first.
"""

import fcntl
import mmap
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from time import monotonic
from typing import IO

import numpy as np

from toolchain.abi.dram_map import DramMap
from toolchain.isa.program_file import write_container
from toolchain.runtime.device import ByteRange, Bytes, Image, Ran, read_from, run_in
from toolchain.spec.errors import UserError, fail

SHARED = Path("/dev/shm")
"""A folder in memory, where the system has one."""
OPEN_FILES = Path("/proc/self/fd")
"""A folder of the files that a process has open, where the system has one."""


@dataclass(frozen=True)
class SharedMemory:
    """path: another process opens it, while `sharing` lasts. memory: zeros at first. size: bytes. sealed: neither process can change the size."""

    path: str
    memory: mmap.mmap
    size: int
    sealed: bool
    _file: FileIO

    def is_whole(self) -> bool:
        """Whether all of the memory may still be read."""
        return self.sealed or os.fstat(self._file.fileno()).st_size >= self.size

    def close(self) -> None:
        """Lets go of the file, once or again; a mapping stays as long as something refers to it."""
        self._file.close()


@contextmanager
def sharing(size: int) -> Generator[SharedMemory]:
    """New memory of so many bytes, which other processes can open until the end. Raises UserError E0713 where there is no room."""
    try:
        shared = _sealed(size) or _plain(size)
    except OSError as error:
        raise fail("E0713", f"no memory of {size} bytes can be shared with a device: {error.strerror}") from None
    try:
        yield shared
    except BaseException:
        shared.close()
        raise
    finally:
        if not shared.sealed:
            Path(shared.path).unlink(missing_ok=True)


def _sealed(size: int) -> SharedMemory | None:
    """None where the system has no such files, or shows them nowhere."""
    if sys.platform != "linux" or not OPEN_FILES.is_dir():
        return None
    file = FileIO(os.memfd_create("tilewright", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "r+")
    try:
        file.truncate(size)
        memory = mmap.mmap(file.fileno(), size)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except OSError:
        file.close()
        raise
    return SharedMemory(f"/proc/{os.getpid()}/fd/{file.fileno()}", memory, size, True, file)


def _plain(size: int) -> SharedMemory:
    number, path = tempfile.mkstemp(prefix="tilewright-", dir=SHARED if SHARED.is_dir() else None)
    file = FileIO(number, "r+")
    try:
        file.truncate(size)
        return SharedMemory(path, mmap.mmap(number, size), size, False, file)
    except OSError:
        file.close()
        Path(path).unlink()
        raise


PAGE = 4096
"""Bytes; the program starts on a multiple of it, behind the memory."""
LONGEST = 4096
"""Bytes of an answer."""
SECONDS = 600.0
"""The default limit for each answer."""
END_SECONDS = 2.0
"""How long a process that has closed its output, or that was killed, may take to end."""


@dataclass(frozen=True)
class ProcessDevice:
    """command: starts the process; the machine's name becomes its last word. seconds: at most, for each answer."""

    command: tuple[str, ...]
    seconds: float = SECONDS

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
        with sharing(size + max(len(program), 1)) as shared:
            memory = np.frombuffer(shared.memory, np.uint8)
            for part, data in constants.items():
                first = segments[part].address
                memory[first : first + len(data)] = np.frombuffer(data, np.uint8)
            memory[size : size + len(program)] = np.frombuffer(program, np.uint8)
            registers = [f"{segment.register}={segment.address}" for segment in segments.values() if segment.register >= 0]
            talk = _Conversation.start((*self.command, machine), self.seconds, shared)
            talk.ask(" ".join(["load", shared.path, str(size), str(len(program)), *registers]))
        return ProcessProgram(held, memory, talk, lambda: self.start(machine, program, held, constants))


@dataclass(frozen=True)
class ProcessProgram:
    """A program that the process holds, and the memory that it shares."""

    map: DramMap
    memory: Bytes
    _talk: "_Conversation"
    _again: "Callable[[], ProcessProgram]"
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, writes: Mapping[ByteRange, Bytes], reads: Sequence[ByteRange]) -> Ran:
        """Raises UserError E0713 where the process fails."""
        return self.step({}, writes, reads)

    def resident(self) -> "ProcessProgram":
        """In a process of its own. Raises UserError E0713 as `ProcessDevice.start`."""
        return self._again()

    def step(self, moves: Mapping[ByteRange, ByteRange], writes: Mapping[ByteRange, Bytes], reads: Sequence[ByteRange]) -> Ran:
        """As `run`, after copies within the shared memory: by destination the source."""
        with self._lock:
            self._talk.check_memory()
            return run_in(self.memory, self.map, writes, reads, lambda: self._talk.ask("run"), moves=moves)

    def read(self, reads: Sequence[ByteRange]) -> tuple[Bytes, ...]:
        """Bytes as the last run left them. Raises UserError E0713 where the process has spoiled the memory."""
        with self._lock:
            self._talk.check_memory()
            return read_from(self.memory, self.map, reads)


class _Conversation:
    """A process that answers each line with a line, about memory that it shares. It is stopped when this object goes."""

    def __init__(self, process: subprocess.Popen[bytes], name: str, seconds: float, shared: SharedMemory) -> None:
        self.process, self.name, self.seconds, self.shared = process, name, seconds, shared
        weakref.finalize(self, _end, process, shared)

    @classmethod
    def start(cls, command: Sequence[str], seconds: float, shared: SharedMemory) -> "_Conversation":
        """Raises UserError E0713 where the command cannot be started."""
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        except OSError as error:
            raise fail("E0713", f"the device's process '{command[0]}' does not start: {error.strerror}") from None
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        return cls(process, command[0], seconds, shared)

    def ask(self, line: str) -> None:
        """Raises UserError E0713 for any answer but `done`, and for shared memory that has become shorter."""
        end = monotonic() + self.seconds
        self._say(f"{line}\n".encode(), end)
        answer = self._answer(end)
        if answer != "done":
            failed = answer.startswith("failed ")
            raise self._failed(f"says: {answer.removeprefix('failed ')[:300]}" if failed else f"answers {answer[:80]!a}, not 'done' or 'failed'")
        self.check_memory()

    def check_memory(self) -> None:
        """Raises UserError E0713 where the file of the shared memory has become shorter, so that nothing behind its end is touched."""
        if not self.shared.is_whole():
            raise self._failed("has made the file of the shared memory shorter")

    def _say(self, data: bytes, end: float) -> None:
        try:
            for pipe in self._ready(self.process.stdin, selectors.EVENT_WRITE, end):
                data = data[os.write(pipe, data) :]
                if not data:
                    return
        except BrokenPipeError:
            raise self._failed("has ended") from None

    def _answer(self, end: float) -> str:
        held = b""
        for pipe in self._ready(self.process.stdout, selectors.EVENT_READ, end):
            part = os.read(pipe, LONGEST)
            if not part:
                raise self._failed(self._how_it_ended())
            held += part
            if b"\n" in held:
                break
            if len(held) > LONGEST:
                raise self._failed(f"answers more than {LONGEST} bytes without the end of a line")
        return held.decode("utf-8", "replace").split("\n", 1)[0].strip()

    def _ready(self, pipe: IO[bytes] | None, event: int, end: float) -> Iterator[int]:
        """The pipe each time that it can be written or read, until `end` at most."""
        assert pipe is not None
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, event)
            while selector.select(max(end - monotonic(), 0.0)):
                yield pipe.fileno()
        raise self._failed(f"does not answer within {self.seconds:g} s")

    def _how_it_ended(self) -> str:
        try:
            return f"has ended with code {self.process.wait(END_SECONDS)}"
        except subprocess.TimeoutExpired:
            return "has closed its output without an answer"

    def _failed(self, text: str) -> UserError:
        _stop(self.process)
        return fail("E0713", f"the device's process '{self.name}' {text}")


def _end(process: subprocess.Popen[bytes], shared: SharedMemory) -> None:
    _stop(process)
    shared.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that may have ended already. One that the system cannot end is left to it."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(END_SECONDS)
