"""A script of bench/ run in this process, where all that it imports is there already: for tests whose subject is not the process."""

import contextlib
import io
import os
import runpy
import subprocess
import sys
from pathlib import Path
from unittest import mock

BENCH = Path(__file__).resolve().parents[1] / "bench"


def run_script(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What it prints and its exit code. Arguments, module path and environment are as before when it ends."""
    told, wrong, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", [name, *words]),
        mock.patch.object(sys, "path", [str(BENCH), *sys.path]),
        mock.patch.dict(os.environ),
        contextlib.redirect_stdout(told),
        contextlib.redirect_stderr(wrong),
    ):
        try:
            runpy.run_path(str(BENCH / name), run_name="__main__")
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess([name, *words], code, told.getvalue(), wrong.getvalue())
