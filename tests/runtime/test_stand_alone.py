"""A bundle of C regions as a program of its own: the same bytes, with sanitizers that find nothing; other bundles are refused with the reason."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.c_networks import clib, compiled, pictures
from tests.runtime.small import bundle as small_bundle
from tests.runtime.small import network
from toolchain.cli import main
from toolchain.runtime.bundle import write_bundle
from toolchain.runtime.stand_alone import CONSTANTS, affine, stand_alone
from toolchain.spec.errors import UserError

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-O1"]
SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


@needs_compiler
def test_the_program_gives_the_same_bytes_and_sanitizers_find_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(tmp_path / "kinds.bundle", compiled().bundle)
    assert main(["export", "c", str(tmp_path / "kinds.bundle"), "-o", str(tmp_path / "c")]) == 0
    assert "5 files; cc -std=c99 -O3 program.c clib.c region0.c -lm -o model" in capsys.readouterr().out
    sources = sorted(str(path) for path in (tmp_path / "c").glob("*.c"))
    subprocess.run(["cc", *STRICT, *SANITIZED, *sources, "-lm", "-o", str(tmp_path / "model")], check=True)
    for sample in pictures(3):
        done = subprocess.run([tmp_path / "model", tmp_path / "c" / CONSTANTS], input=sample.tobytes(), capture_output=True, check=True)
        assert not done.stderr
        assert done.stdout == compiled().executor.run({"x": sample}).outputs["y"].tobytes()
    short = subprocess.run([tmp_path / "model", tmp_path / "c" / CONSTANTS], input=b"1234", capture_output=True, check=False)
    assert (short.returncode, short.stderr) == (1, b"the inputs end too early\n")
    assert subprocess.run([tmp_path / "model"], capture_output=True, check=False).returncode == 2


def test_an_operator_of_the_host_is_named() -> None:
    with pytest.raises(UserError, match=r"E1114 node 'softmax' \(Softmax\) is computed by the host"):
        stand_alone(compiled(softmax=True).bundle, {"clib": clib().machine})


def test_a_region_of_another_machine_is_named() -> None:
    with pytest.raises(UserError, match=r"E1114 .*vta"):
        stand_alone(small_bundle("vta"), {"vta": network("vta")[0]})


def test_an_input_of_another_type_is_named() -> None:
    bundle = compiled().bundle
    (entry,) = bundle.manifest.inputs
    odd = replace(bundle, manifest=replace(bundle.manifest, inputs=(replace(entry, dtype="int64"),)))
    with pytest.raises(UserError, match="E1114 'x' is no float32 tensor of a known size"):
        stand_alone(odd, {"clib": clib().machine})


def test_regular_places_are_loops() -> None:
    places = np.arange(24, dtype=np.int64).reshape(2, 3, 4).transpose(2, 0, 1)
    assert affine(places) == ("4, 2, 3", "1, 12, 4")
    assert affine(places[0]) == ("1, 2, 3", "0, 12, 4")
    with pytest.raises(ValueError, match="regular"):
        affine(np.array([0, 1, 3], np.int64))
