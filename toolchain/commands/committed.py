"""Files as a commit of git has them, written `COMMIT:PATH`, as git itself does."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from toolchain.spec.errors import Diagnostic, UserError, fail
from toolchain.spec.yaml_nodes import MAX_BYTES

FORM = re.compile(r"(?P<commit>[^:-][^:]*):(?P<path>.+\.(yaml|yml|json))\Z", re.DOTALL)
MOST_BYTES = 16 * MAX_BYTES
"""Of a file; reports are longer than descriptions."""


def is_committed(text: str) -> bool:
    """Whether it has the form, and is no file itself."""
    return FORM.match(text) is not None and not Path(text).exists()


@contextmanager
def committed(text: str) -> Generator[Path]:
    """The file for as long as it is read; mistakes in it are told with `text` as its name.

    Raises UserError E0001 where git has no such file there, or is not installed, E0330 for a file that is too long.
    """
    match = FORM.match(text)
    assert match
    name = f"{match['commit']}:./{match['path']}"  # from this folder, not from the repository's
    size = _git("-s", name, text)
    if int(size) > MOST_BYTES:
        raise fail("E0330", f"the file has {int(size):,} bytes, at most {MOST_BYTES:,} are read", place=text)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path = Path(folder) / Path(match["path"]).name
        path.write_bytes(_git("blob", name, text))
        try:
            yield path
        except UserError as error:
            raise UserError(*(_named(each, str(path), text) for each in error.diagnostics)) from None


def _git(kind: str, name: str, text: str) -> bytes:
    git = shutil.which("git")
    if git is None:
        raise fail("E0001", "git is not installed, so there are no commits", place=text)
    run = subprocess.run([git, "cat-file", kind, name], capture_output=True, check=False)
    if run.returncode:
        raise fail("E0001", "git has no such file at this commit", hint="COMMIT:PATH, the path from this folder", place=text)
    return run.stdout


def _named(found: Diagnostic, path: str, text: str) -> Diagnostic:
    """With the user's name of the file."""
    if found.span and found.span.source.path == path:
        return replace(found, span=replace(found.span, source=replace(found.span.source, path=text)))
    return replace(found, place=found.place.replace(path, text))
