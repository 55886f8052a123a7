"""Bundles of several lengths on the command line."""

from pathlib import Path

import numpy as np
import pytest

from tests.lengths_network import built, samples
from toolchain import cli
from toolchain.commands.lengths import picked
from toolchain.runtime.bundle import read_bundle, write_bundle
from toolchain.tasks.actions.paths import bundle_file


def test_show_tells_every_length(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bundle", "show", str(built().file)]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "encoder on dpuv3, 2 lengths"
    assert "takes      ids int64 [1, sequence]" in lines
    assert "gives      words float32 [1, sequence, 16]" in lines
    assert sum(line.startswith("length     sequence ") for line in lines) == 2
    assert "between    filled up with zeros to the next length" in lines
    assert cli.main(["bundle", "show", "--hashes", str(built().file)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(lines) + len(built().bundle.members) + 1


def test_samples_of_any_length_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.npz"
    assert cli.main(["bundle", "run", str(built().file), str(samples(tmp_path / "s.npz", 2, 11)), "-o", str(out)]) == 0
    assert "words: float32 [2, 11, 16]" in capsys.readouterr().out
    with np.load(out) as arrays:
        assert arrays["words"].shape == (2, 11, 16)


def test_one_length_is_taken_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "one.bundle"
    assert cli.main(["bundle", "pick", str(built().file), "sequence:8", "-o", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: sequence 8, ")
    assert read_bundle(out).manifest.inputs[0].shape == (1, 8)
    assert cli.main(["bundle", "run", str(out), str(samples(tmp_path / "s.npz", 2, 8))]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["show", "--operations", "BUNDLE"],
            "E1130 --operations is of one length, and this bundle has several; take one out: tilewright bundle pick ",
        ),
        (["disasm", "BUNDLE"], "E1130 this bundle has several lengths, and one is needed; take one out: tilewright bundle pick "),
        (["pick", "BUNDLE", "sequence:9", "-o", "x"], "E1131 the bundle has no length sequence 9; it has sequence 8; sequence 16"),
        (["pick", "BUNDLE", "9", "-o", "x"], "E1202 '9' in 'dim' does not have the form NAME:VALUE"),
        (["run", "BUNDLE", "SAMPLES"], "E1131 no length of the bundle holds sequence 17"),
    ],
)
def test_mistakes(words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = {"BUNDLE": str(built().file), "SAMPLES": str(samples(tmp_path / "s.npz", 1, 17))}
    assert cli.main(["bundle", *(named.get(word, word) for word in words)]) == 1
    assert message in capsys.readouterr().err


def test_a_length_that_is_taken_out_has_what_was_built_for_it(tmp_path: Path) -> None:
    for bucket, job in zip(built().bundle.lengths.buckets, built().plan.jobs, strict=True):
        path = tmp_path / "one.bundle"
        write_bundle(path, picked(built().bundle, bucket, ""))
        found, wanted = read_bundle(path), read_bundle(bundle_file(job))
        assert sorted(found.members.values()) == sorted(wanted.members.values())
        assert found.manifest.inputs == wanted.manifest.inputs
