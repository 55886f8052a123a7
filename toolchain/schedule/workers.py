"""Processes that compute results ahead of their use, beside this one. The results are those of one process, whichever computes them."""

import gc
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Generator, Hashable, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from toolchain.spec.errors import UserError

if TYPE_CHECKING:
    from loky import ProcessPoolExecutor

Facts = TypeVar("Facts")
Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")

PROCESSES = "TILEWRIGHT_PROCESSES"
"""The variable of the environment that says how many processes a command may use, itself among them; by default one for each processor."""
KEPT = {"LOKY_MAX_MEMORY_LEAK_SIZE": str(1 << 62)}
"""Bytes past which loky takes a worker's memory for a leak and starts another. It grows by results that are kept for other items."""
LONG_SECONDS = 1.0
"""Work of less time starts no process: starting one and importing the compiler takes about as long."""
LOOKS_SECONDS = 1.0
"""The time in which a worker sees that its command has ended."""
ROOM = 3 << 30
"""Bytes of memory that a process may need (measured: 2.1 GiB for half of ResNet-50 with 64 images on 32 cores)."""
MEMORY = Path("/proc/meminfo")


def processes() -> int:
    """How many this command may use: as PROCESSES says, else one for each processor that has the memory. A text that is no number counts as 1."""
    if given := os.environ.get(PROCESSES, ""):
        return max(int(given), 1) if given.isascii() and given.isdigit() else 1
    return max(min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, _available() // ROOM), 1)


def _available() -> int:
    """Bytes of memory that are free, or hold files that can be read again; ROOM where the system does not say."""
    lines = MEMORY.read_text().splitlines() if MEMORY.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), ROOM)


@dataclass
class Workers:
    """count: processes, this one among them. They start when work has taken `patience_seconds`, and end with the `with` of this object."""

    count: int = field(default_factory=processes)
    patience_seconds: float = LONG_SECONDS
    _pool: "ProcessPoolExecutor | None" = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None

    def __reduce__(self) -> tuple[type["Workers"], tuple[int]]:
        """A worker has no workers of its own."""
        return type(self), (1,)

    @contextmanager
    def ahead(self, function: Callable[[Facts, Item], Result], facts: Facts, items: Sequence[Item]) -> Generator[Callable[[Item], Result]]:
        """Gives a function that returns `function(facts, item)`, and raises as it does.

        items: in the order in which they are asked for, if at all. Those behind the first are computed meanwhile where that takes long. The function
        belongs to a module, and arguments and results can be pickled."""
        if self.count < 2 or len(items) < 2:
            yield partial(function, facts)
            return
        task = _Task(function, facts, [*items], pickle.dumps((function, facts)))
        timer = threading.Timer(0 if self._pool else self.patience_seconds, lambda: self._begin(task))
        timer.daemon = True
        timer.start()
        try:
            yield task.result
        finally:
            timer.cancel()
            timer.join()
            task.drop()

    def _begin(self, task: "_Task[Facts, Item, Result]") -> None:
        pool = self._started()
        for _ in range(self.count - 1):
            task.feed(pool)

    def _started(self) -> "ProcessPoolExecutor":
        from loky import ProcessPoolExecutor  # 0.1 s

        with self._lock:  # tasks inside one another may begin at once
            self._pool = self._pool or ProcessPoolExecutor(self.count - 1, initializer=_prepare, env=KEPT)
            return self._pool


@dataclass
class _Task(Generic[Facts, Item, Result]):
    """pickled: function and facts. waiting: items that no process has begun, in order. begun: those that were begun before they were asked for."""

    function: Callable[[Facts, Item], Result]
    facts: Facts
    waiting: list[Item]
    pickled: bytes
    begun: dict[Item, "Future[Result]"] = field(default_factory=dict[Item, "Future[Result]"])
    lock: threading.RLock = field(default_factory=threading.RLock)

    def feed(self, pool: "ProcessPoolExecutor") -> None:
        """Gives a worker its next item: one at a time, as what stands in a worker's queue cannot be taken back."""
        with self.lock:
            if self.waiting:
                try:
                    future = pool.submit(_run, self.pickled, self.waiting[0])
                except BrokenExecutor:  # the system has ended a worker: all that waits is computed here
                    return
                self.begun[self.waiting.pop(0)] = future

                def next_one(_: "Future[Result]") -> None:
                    self.feed(pool)

                future.add_done_callback(next_one)

    def result(self, item: Item) -> Result:
        future = self._future(item)
        while future and not future.done() and (other := self._next()) is not None:
            self.begun[other[0]] = self._computed(other[0])
        try:
            return future.result() if future else self.function(self.facts, item)
        except BrokenExecutor:  # the system has ended a worker, as it does where memory is short
            return self.function(self.facts, item)

    def _future(self, item: Item) -> "Future[Result] | None":
        with self.lock:
            if item in self.waiting:
                self.waiting.remove(item)
            return self.begun.get(item)

    def _next(self) -> tuple[Item] | None:
        """Takes the next item that waits, if any does."""
        with self.lock:
            return (self.waiting.pop(0),) if self.waiting else None

    def _computed(self, item: Item) -> "Future[Result]":
        """Done here, while a worker is at the item that was asked for."""
        found = Future[Result]()
        try:
            found.set_result(self.function(self.facts, item))
        except UserError as error:
            found.set_exception(error)
        return found

    def drop(self) -> None:
        """The rest is not asked for."""
        with self.lock:
            self.waiting.clear()


def _prepare() -> None:
    """In a worker: an interrupt ends the command, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ[PROCESSES] = "1"
    gc.disable()  # a build makes hardly a circle of objects, and looking for them takes a tenth of its time
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(command: int) -> None:
    """A command that was killed could not end its workers."""
    while os.getppid() == command:
        time.sleep(LOOKS_SECONDS)
    os._exit(1)


def _run(pickled: bytes, item: Hashable) -> object:
    function, facts = _unpickled(pickled)
    try:
        return function(facts, item)
    finally:
        gc.freeze()  # loky looks for circles after an item; what is kept for the next one is not looked through


@lru_cache(maxsize=1)
def _unpickled(pickled: bytes) -> tuple[Callable[[object, Hashable], object], object]:
    """Facts once for all items, with all that is found out about them on the way."""
    return pickle.loads(pickled)
