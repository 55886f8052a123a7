"""Builds of `digits` in a folder of their own, as a user starts them."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

from toolchain import cli
from toolchain.tasks.stage import STAGES

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "toolchain.cli")
WORDS = ("build", "target=vta", "model=digits")
ORDER = [stage.name for stage in STAGES]
STATE = (".lock", ".owner", ".receipt.json")


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)} | more


def build(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """`tilewright build target=vta model=digits`, or other words, with further environment variables."""
    return subprocess.run([*COMMAND, *(words or WORDS)], cwd=folder, env=environment(**more), capture_output=True, text=True, check=False)


def build_here(folder: Path, *words: str) -> tuple[int, str]:
    """As `build`, in this process, whose caches it finds warm: the command's answer, and all that it says on its way."""
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as told:
        return cli.main(words or WORDS), told.getvalue()


def artefacts(folder: Path) -> dict[str, bytes]:
    """Everything below `build` that is no state of the build itself."""
    files = (path for path in (folder / "build").rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if not path.name.endswith(STATE)}


def stages_run(printed: str) -> list[str]:
    """Names of the stages that a build says it ran. Of one model in the order of STAGES: doit runs those that wait for the same one in any order."""
    found = [line.split()[0] for line in printed.splitlines() if line.endswith(" s")]
    return sorted(found, key=ORDER.index) if len({*found}) == len(found) and {*found} <= {*ORDER} else found
