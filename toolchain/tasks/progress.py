"""The progress of a build: one line a stage; on a terminal, its present step."""

import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from toolchain.spec.errors import one_line
from toolchain.tasks.stage import Say

SHOWN = 3
QUIET = 2.0
"""Seconds between two signs of life where standard error is no terminal."""


@contextmanager
def tell(title: str, changes: Sequence[str]) -> Generator[Say]:
    """Says what runs and why, then how long it took. What the block says names its step itself, as `fulfil` does: it may be one before this.

    Everything goes to standard error: the answer alone is on standard output.
    """
    start, why = time.perf_counter(), _why(changes)
    if sys.stderr.isatty():
        with _status(f"{title} ({why})") as say:
            yield say
    else:
        print(one_line(f"{title} ({why}) ..."), file=sys.stderr, flush=True)
        yield _Paced().say
    print(f"{title}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)


def _why(changes: Sequence[str]) -> str:
    more = f" and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
    return ", ".join(changes[:SHOWN]) + more


@contextmanager
def _status(title: str) -> Generator[Say]:
    from rich.console import Console

    with Console(stderr=True).status(f"{title} ...") as status:
        yield lambda text: status.update(one_line(f"{text} ..."))


class _Paced:
    """Lines, but none within QUIET seconds of the one before."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def say(self, text: str) -> None:
        now = time.perf_counter()
        if now - self._last >= QUIET:
            print(one_line(f"{text} ..."), file=sys.stderr, flush=True)
            self._last = now
