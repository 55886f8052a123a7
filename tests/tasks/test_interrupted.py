"""Builds that are killed, that meet another one, or may not write: the next one finds nothing that is half true."""

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.tasks.builds import COMMAND, WORDS, artefacts, build, environment

KILLS = int(os.environ.get("TILEWRIGHT_KILLS", "3"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], float]:
    """What a build leaves, and how many seconds it takes."""
    folder, start = tmp_path_factory.mktemp("undisturbed"), time.perf_counter()
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return artefacts(folder), time.perf_counter() - start


def _started(folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([*COMMAND, *WORDS], cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_killed_at_random_moments_the_next_build_is_an_undisturbed_one(undisturbed: tuple[dict[str, bytes], float], tmp_path: Path) -> None:
    """Each build goes on where the last one was killed, so the moments are spread over what is left."""
    whole, seconds = undisturbed
    draw, killed = random.Random(10), 0
    for _ in range(KILLS):
        if draw.random() < 0.3:
            shutil.rmtree(tmp_path / "build", ignore_errors=True)
        process = _started(tmp_path)
        time.sleep(draw.uniform(0.1, 1.0) * seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        assert {name: data for name, data in artefacts(tmp_path).items() if name in whole and data != whole[name]} == {}
    assert killed
    done = build(tmp_path)
    assert done.returncode == 0, done.stderr
    assert artefacts(tmp_path) == whole


def test_two_builds_at_once_both_succeed(undisturbed: tuple[dict[str, bytes], float], tmp_path: Path) -> None:
    processes = [_started(tmp_path) for _ in range(2)]
    printed = [process.communicate()[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], printed
    assert artefacts(tmp_path) == undisturbed[0]
    assert sum(text.count("bundle digits for vta: ") for text in printed) >= 1


UNPRIVILEGED = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search")
"""Takes from root what lets it write where it may not."""


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tool = shutil.which(UNPRIVILEGED[0])
    if os.geteuid() == 0 and tool is None:
        pytest.skip("root may write everywhere, and there is no setpriv")
    tmp_path.chmod(0o555)
    command = [*(UNPRIVILEGED if os.geteuid() == 0 else ()), *COMMAND, *WORDS]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if not line.endswith(" ..."))
    assert line.startswith("build")
    assert "E0005 cannot write" in line
