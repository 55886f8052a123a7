"""Common to commands: the machine that a command line names, and the seconds of each stage with a sign of life on a terminal."""

import argparse
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from toolchain.spec.compile import LISTENER
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine


def machine_of(arguments: argparse.Namespace) -> Machine:
    """Loads and checks MACHINE with its --set overrides. Raises UserError E0002 for a --set without '='."""
    from toolchain.isa.check_machine import load_checked_machine  # the semantics language, which a list of machines does not need

    return load_checked_machine(arguments.machine, overrides=pairs(arguments.set, "--set PARAM=VALUE"))


def pairs(texts: list[str], form: str) -> dict[str, str]:
    """`NAME=VALUE` texts as a mapping; a later one wins."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise fail("E0002", f"'{text}' does not have the form {form}")
        found[name] = value
    return found


@dataclass(frozen=True)
class Stopwatch:
    """seconds: wall time of each stage, in the order they ran; the C compiler's stand beside them, as it runs once.

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
