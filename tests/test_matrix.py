"""bench/matrix: a row from what the tasks leave, the table, and what it says of rows that are wrong."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.bench_script import run_script

GOOD = {"model": "digits", "machine": "vta", "nodes": 100.0, "macs": 100.0, "regions": 1, "images": 1, "ms": 0.1, "utilisation": 20.4,
        "tensors": 12, "exact": True, "races": 0, "bundle": "a", "same": "a", "wrong": "", "seconds": 1.0}  # fmt: skip


def matrix(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_script("matrix", "--folder", str(folder), *words)


def with_row(folder: Path, **changes: object) -> str:
    """The table of one row, as it prints it."""
    row = GOOD | changes
    (folder / "rows").mkdir()
    (folder / "rows" / f"{row['machine']}-{row['model']}.json").write_text(json.dumps(row))
    done = matrix(folder, "--table")
    assert done.returncode == 1  # all the others are missing
    return done.stdout


def test_digits_is_built_verified_and_built_again(tmp_path: Path) -> None:
    done = matrix(tmp_path, "--only", "digits", "--machines", "vta", "--again", "--write", str(tmp_path / "page.md"))
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("digits")]
    assert line.split()[-4:] == ["12", "yes", "0", "yes"], done.stderr
    assert "digits on vta: exact" in done.stderr
    assert line in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"wrong": "verify: E1204 it differs", "exact": False}, "digits on vta: verify: E1204 it differs"),
        ({"same": "b"}, "digits on vta: two builds differ"),
        ({"races": 2, "wrong": "verify: E1204 races"}, "digits on vta: verify: E1204 races"),
        ({"tensors": 0, "exact": None, "wrong": "build: E1003 no"}, "digits on vta: build: E1003 no"),
    ],
)
def test_whatever_is_wrong_is_told(changes: dict[str, object], line: str, tmp_path: Path) -> None:
    printed = with_row(tmp_path, **changes)
    assert line in printed.splitlines()
    assert "\n0 of " in printed


def test_what_is_right_counts(tmp_path: Path) -> None:
    assert "\n1 of " in with_row(tmp_path)
