"""Commands that a stranger asks for: no name or path leads out of a folder, and each command runs in a process of its own, with a deadline."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from toolchain.spec.errors import fail
from toolchain.spec.files import PACKAGE, is_file, is_folder

SUFFIXES = (".yaml", ".yml", ".onnx", ".npz")
"""The ends of names that the commands take for paths, as they do names with a slash."""
PATHS = ("calibration", "schedule")
"""Variables whose values are paths, whatever they look like."""

MOST = 1 << 20
"""Bytes of an answer, and of its messages, that are kept."""
PART = 1 << 16
START = "import sys; sys.path.append(sys.argv.pop(1)); from toolchain.start import main; sys.exit(main())"
"""With Python's -P: no module of the folder that the command works in may take the place of one of ours."""
Say = Callable[[str], Awaitable[None]]


@dataclass(frozen=True)
class Confined:
    """root: the folder, absolute and without links."""

    root: Path

    def word(self, text: str) -> str:
        """The text, which is a name, a path below the root, or NAME:CONFIG of these.

        Raises UserError E0002 for one that would be an option, E0010 for a path that leads out of the root, also by links.
        """
        if not text or text.startswith("-") or "\0" in text:
            raise fail("E0002", f"'{text[:80]}' is neither a name nor a path")
        for each in (text, text.partition(":")[0]):
            try:
                inside = (self.root / each).resolve().is_relative_to(self.root)
            except (OSError, RuntimeError):
                inside = False
            if not inside:
                raise fail("E0010", f"'{text[:200]}' is outside the folder that is served", hint="give a name, or a path below that folder")
        return text

    def variables(self, given: Mapping[str, str]) -> list[str]:
        """`NAME=VALUE` words. Raises as `word`, for each part of a value between commas."""
        return [f"{name}={','.join(map(self.word, value.split(',')))}" for name, value in given.items()]

    def absolute(self, given: Mapping[str, str]) -> dict[str, str]:
        """The same variables for a command that runs elsewhere: paths that exist below the root are whole."""
        return {name: ",".join(self._whole(part, name in PATHS) for part in value.split(",")) for name, value in given.items()}

    def _whole(self, text: str, path: bool) -> str:
        base, colon, config = text.partition(":")
        named = path or "/" in base or base.endswith(SUFFIXES)
        found = self.root / base
        return f"{found}{colon}{config}" if named and (is_file(found) or is_folder(found)) else text

    def search_paths(self) -> dict[str, str]:
        """Variables of the environment with which a command elsewhere finds the machines and models below the root."""
        found: dict[str, str] = {}
        for variable, kind in (("TILEWRIGHT_PATH", "targets"), ("TILEWRIGHT_MODELS", "models")):
            given = [part for part in os.environ.get(variable, "").split(os.pathsep) if part]
            found[variable] = os.pathsep.join([*map(os.path.abspath, given), str(self.root / kind)])
        return found


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
