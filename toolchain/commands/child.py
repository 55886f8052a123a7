"""A command in a process of its own, with a deadline: how it ended, its answer, and the lines that it says meanwhile."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from toolchain.spec.errors import fail
from toolchain.spec.files import PACKAGE

MOST = 1 << 20
"""Bytes of an answer, and of its messages, that are kept."""
PART = 1 << 16
START = "import sys; sys.path.append(sys.argv.pop(1)); from toolchain.start import main; sys.exit(main())"
"""With Python's -P: no module of the folder that the command works in may take the place of one of ours."""
Say = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class Finished:
    """code: the exit code. answer: standard output. told: standard error; both as UTF-8, the first MOST bytes."""

    code: int
    answer: str
    told: str


async def run_command(words: Sequence[str], folder: Path, seconds: float, say: Say, variables: Mapping[str, str]) -> Finished:
    """`tilewright WORDS` in `folder`. say: awaited with the newest line of standard error. variables: of the environment, beside ours.

    The process ends with this call, also where its task is cancelled. Raises UserError E0011 where it takes longer than `seconds`.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", START, str(PACKAGE.parent), *words,
        cwd=folder, env=os.environ | variables, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stderr
    try:
        async with asyncio.timeout(seconds):
            answer, told, code = await asyncio.gather(_collected(process.stdout), _collected(process.stderr, say), process.wait())
    except TimeoutError:
        raise fail("E0011", f"'{' '.join(words[:2])}' was ended after {seconds:g} seconds", hint="a longer --deadline gives it more") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # compilers that it started are of the same group
        await process.wait()
    return Finished(code, answer, told)


async def _collected(stream: asyncio.StreamReader, say: Say | None = None) -> str:
    """All of a stream, of which the first MOST bytes are kept."""
    kept, dropped = bytearray(), 0
    while part := await stream.read(PART):
        room = MOST - len(kept)
        kept += part[:room]
        dropped += max(len(part) - room, 0)
        lines = part.decode(errors="replace").split("\n")
        if say and (line := next((line for line in reversed(lines) if line.strip()), "")):
            await say(line)
    return kept.decode(errors="replace") + (f"\n... {dropped} more bytes\n" if dropped else "")
