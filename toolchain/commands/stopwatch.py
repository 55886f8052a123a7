"""Seconds that each stage of a command took, with a sign of life on a terminal."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stopwatch:
    """seconds: wall time of each stage, in the order they ran. For reports only; no artefact holds it."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def stage(self, name: str) -> Generator[None, None, None]:
        """Times a stage; where standard error is a terminal, shows that it is running."""
        start = time.perf_counter()
        with _sign(name):
            yield
        self.seconds[name] = time.perf_counter() - start


@contextmanager
def _sign(name: str) -> Generator[None, None, None]:
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{name} ..."):
        yield
