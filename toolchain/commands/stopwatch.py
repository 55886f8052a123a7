"""Seconds that each stage of a command took, with a sign of life on a terminal."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from toolchain.analysis.compile import LISTENER


@dataclass(frozen=True)
class Stopwatch:
    """seconds: wall time of each stage, in the order they ran; what the C compiler takes stands beside them, as it runs once.

    For reports only; no artefact holds it.
    """

    seconds: dict[str, float] = field(default_factory=lambda: {"compiling": 0.0})

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Times a stage; where standard error is a terminal, shows that it is running."""
        start, compiled = time.perf_counter(), self.seconds["compiling"]
        with sign(name) as say:
            listening = LISTENER.set(lambda: self._compiling(name, say))
            try:
                yield
            finally:
                LISTENER.reset(listening)
        self.seconds[name] = time.perf_counter() - start - (self.seconds["compiling"] - compiled)

    @contextmanager
    def _compiling(self, stage: str, say: Callable[[str], None]) -> Generator[None]:
        start = time.perf_counter()
        say(f"{stage}: compiling C for this machine, once ...")
        yield
        say(f"{stage} ...")
        self.seconds["compiling"] += time.perf_counter() - start


@contextmanager
def sign(name: str) -> Generator[Callable[[str], None]]:
    """Shows that `name` goes on where standard error is a terminal; the answer changes the words."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{name} ...") as status:
        yield status.update
