"""Performs a page of the documentation: writes its files, runs its commands, compares what they print.

A block ```LANGUAGE FILE is (the next piece of) a file. In a ```console block a line after `$ ` is a command, and what follows is
all that it prints, but for what a build says while it works. A line `<!-- continues: PAGE -->` begins with the files of another page, and
`<!-- copies: FOLDER -->` with those of a folder of the repository.
"""

import contextlib
import gc
import io
import os
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from unittest import mock

from toolchain import cli
from toolchain.models.files import cache_folder

NEEDS = re.compile(r"^<!-- needs: (.*) -->$", re.M)
VARIES = re.compile(r"\b[0-9a-f]{64}$|(difference is|the furthest) [\d.e-]+", re.M)
"""Fingerprints, and differences of floating point between processors."""
PROGRESS = re.compile(r"^.*(?: \.\.\.|: \d+\.\d s)\n", re.M)
CONTINUES = re.compile(r"^<!-- continues: (\S+) -->$", re.M)
COPIES = re.compile(r"^<!-- copies: (\S+) -->$", re.M)
ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)


def lacking(page: Path) -> str:
    """What a page's commands need and this machine does not have, of a line `<!-- needs: PACKAGE, real/FILE -->`; a name with a slash is a file that
    models/real/prepare.py makes, others are packages or programs."""
    words = [word for line in NEEDS.findall(page.read_text()) for word in line.split(", ")]
    return next((word for word in words if not (cache_folder() / word).is_file() and not _installed(word)), "")


def _installed(word: str) -> bool:
    """Whether there is a package or a program of this name."""
    return "/" not in word and (find_spec(word) is not None or shutil.which(word) is not None)


def has_commands(page: Path) -> bool:
    return any(language == "console" for language, _, _ in BLOCK.findall(page.read_text()))


def run_command(line: str) -> str:
    """What a command of the page prints, errors included. Only `tilewright` and `python FILE` are known, and variables before them."""
    words = shlex.split(line)
    printed = io.StringIO()
    given = {name: value for name, _, value in (word.partition("=") for word in takewhile(lambda word: "=" in word, words))}
    words = words[len(given) :]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    with mock.patch.dict(os.environ, {"PATH": path, **given}), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        if words[0] == "tilewright":
            cli.main(words[1:])
        else:
            assert words[0] == "python"
            _run_script(words[1:])
    gc.collect()  # graphs in circles keep the files of their weights open, hundreds for a page
    gc.freeze()  # what is still there are caches; the next command need not look through them
    return PROGRESS.sub("", printed.getvalue())


def _run_script(words: list[str]) -> None:
    """As Python does: the script's folder is the first one of modules, and its exit code says no more than what it prints."""
    folder = str(Path(words[0]).parent.resolve())
    with mock.patch.object(sys, "argv", words), mock.patch.object(sys, "path", [folder, *sys.path]), contextlib.suppress(SystemExit):
        runpy.run_path(words[0], run_name="__main__")


def files_of(text: str) -> dict[str, str]:
    """The files of a page as they stand at its end, by name."""
    found: dict[str, str] = {}
    for language, name, body in BLOCK.findall(text):
        if name and language != "console":
            found[name] = found.get(name, "") + body
    return found


def performed(text: str, folder: Path, given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Writes the files of a page and runs its commands, in order; every console block as it stands and as it should.

    given: files that stand there before.
    """
    files = dict(given)
    for name in files:
        _write(folder / name, files[name])
    for language, name, body in BLOCK.findall(text):
        if language == "console":
            commands = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
            yield body, "".join(f"$ {command}\n{run_command(command)}" for command in commands)
        elif name:
            files[name] = files.get(name, "") + body
            _write(folder / name, files[name])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if text.startswith("#!"):
        path.chmod(0o755)


def check_page(page: Path, folder: Path, update: bool) -> None:
    """Compares every block of a page, or with `update` writes what should stand there. `folder` is the current one."""
    text = page.read_text()
    before = CONTINUES.search(text)
    given = files_of(page.with_name(before[1]).read_text()) if before else {}
    for copied in COPIES.findall(text):
        shutil.copytree(ROOT / copied, folder, ignore=shutil.ignore_patterns("build", "cosim", "__pycache__"), dirs_exist_ok=True)
    pairs = list(performed(text, folder, given))
    if update:
        for stands, should in pairs:
            text = text.replace(f"```console\n{stands}```", f"```console\n{should}```", 1)
        page.write_text(text)
        return
    for stands, should in pairs:
        assert VARIES.sub("", should) == VARIES.sub("", stands)
