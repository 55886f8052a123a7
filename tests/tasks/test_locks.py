import subprocess
import sys
from pathlib import Path

import pytest

from tests.tasks.builds import ROOT, environment
from toolchain.spec.errors import UserError
from toolchain.tasks.locks import locked

HOLD = """
import sys
from pathlib import Path
from toolchain.tasks.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def _holder(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=ROOT,
    )


def test_the_second_waits_and_says_so(tmp_path: Path) -> None:
    with _holder(tmp_path) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with _holder(tmp_path) as second:
            assert second.stderr is not None
            assert second.stdout is not None
            assert second.stderr.readline() == f"{tmp_path}: another build is at work here; waiting for it\n"
            first.communicate("\n")
            assert second.stdout.readline() == "held\n"
            second.communicate("\n")
            assert second.returncode == 0


def test_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    with _holder(tmp_path) as first:
        assert first.stdout is not None
        first.stdout.readline()
        first.kill()
        first.communicate()
    with locked(tmp_path):
        pass


def test_a_folder_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="E0005 cannot write into the folder"), locked(tmp_path / "file" / "inner"):
        pass
