"""`tilewright cosim` as a command: its files, what it says of a difference, and its exit codes.

`tilewright profile` as a command.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from bench.in_process import Target
from tests.c_networks import compiled, pictures, plain
from tests.compiled_network import compile_network
from tests.graph.onnx_builder import model
from tests.report.measured import text
from tests.runtime import small
from toolchain.cli import USAGE, main
from toolchain.runtime.bundle import write_bundle
from toolchain.runtime.contents import Bundle


def _host_only() -> Bundle:
    sine = model([helper.make_node("Sin", ["x"], ["y"])], {"x": [1, 3, 12, 10]}, {"y": None}, {})
    return compile_network(sine, "sine", Target("vta"), pictures(4)).bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "plain.bundle", plain("vta").bundle)
    return tmp_path / "plain.bundle"


def test_files_are_written_and_compared(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, sample = tmp_path / "bench", tmp_path / "sample.npz"
    np.savez(sample, x=pictures(2))
    assert main(["cosim", "write", str(bundle), "-o", str(folder), "--input", str(sample), "--word-bytes", "4"]) == 0
    assert f"{folder}/region0.json: " in capsys.readouterr().out
    names = ("dram.after", "dram.before", "stream0")
    assert sorted(path.name for path in folder.iterdir()) == sorted(["region0.json", *(f"region0.{n}.{s}" for n in names for s in ("bin", "hex"))])
    for suffix in ("bin", "hex"):
        assert main(["cosim", "compare", str(bundle), str(folder / f"region0.dram.after.{suffix}"), "--input", str(sample)]) == 0
        assert capsys.readouterr().out.startswith("region0: equal, ")
    assert main(["cosim", "compare", str(bundle), str(folder / "region0.dram.before.bin"), "--input", str(sample)]) == 1
    told = capsys.readouterr().out
    assert all(text in told for text in ("bytes differ", "  result     'y", "  written by #"))


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["write", "BUNDLE", "-o", "out", "--word-bytes", "3"], "E0002 --word-bytes 3 is no power of two"),
        (["compare", "BUNDLE", "BUNDLE", "--region", "region9"], "E0003 the bundle has no program 'region9'; known: region0"),
        (["compare", "BUNDLE", "short.bin"], "short.bin: E1119 the file has 3 bytes, the memory "),
        (["write", "BUNDLE", "-o", "out", "--input", "short.bin"], "E0808 short.bin is not an .npz file"),
        (["write", "kinds.bundle", "-o", "out"], "E1113 region 'region0' is C code"),
        (["write", "host.bundle", "-o", "out"], "host.bundle: E1119 no region of the bundle is a program of a machine"),
    ],
)  # fmt: skip
def test_mistakes_in_runs_are_one_line(
    words: list[str], error: str, bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(bundle.parent)
    Path("short.bin").write_bytes(b"abc")
    write_bundle(Path("kinds.bundle"), compiled().bundle)
    write_bundle(Path("host.bundle"), _host_only())
    assert main(["cosim", *(str(bundle) if word == "BUNDLE" else word for word in words)]) == (2 if error.startswith(USAGE) else 1)
    assert error in capsys.readouterr().err


@pytest.fixture
def timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    write_bundle(tmp_path / "small.bundle", small.bundle())
    return "small.bundle"


def test_a_profile_of_one_of_two_regions(timed: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.csv").write_text(text(3.0))
    assert main(["profile", timed, "p.csv", "--html", "p.html", "--json", "p.json"]) == 0
    assert capsys.readouterr().out.startswith("region0 on vta: ")
    (table,) = json.loads(Path("p.json").read_text())
    assert (table["region"], table["offset"], table["deviations"]) == ("region0", 3.0, [])
    assert "small on vta, region0, modelled and measured" in Path("p.html").read_text()


def test_both_regions(timed: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.csv").write_text("region,operation,start_ns\nregion1,conv3,5\nregion0,conv1,5\n")
    assert main(["profile", timed, "p.csv"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if " on vta: " in line] == ["region0", "region1"]
    assert main(["profile", timed, "p.csv", "--region", "region1", "--html", "p.html"]) == 0


@pytest.mark.parametrize(
    ("rows", "words", "error"),
    [
        ("region,instruction,start_ns\nregion7,0,1\n", [], "p.csv:2:1: E1128 the bundle has no program 'region7'; known: region0, region1"),
        ("instruction,start_ns\n0,1\n", [], "p.csv:2:1: E1128 the row does not say which region it is of; known: region0, region1"),
        ("region,instruction,start_ns\nregion0,0,1\n", ["--region", "region1"], "p.csv: E1128 the profile has no row of 'region1'"),
        ("region,instruction,start_ns\nregion0,0,1\n", ["--region", "region2"], "E0003 the bundle has no program 'region2'; known: region0, region1"),
        ("region,instruction,start_ns\nregion0,0,1\nregion1,0,1\n", ["--html", "p.html"], "E0002 a page is of one region; choose it with --region"),
    ],
)
def test_mistakes_in_profiles_are_one_line(rows: str, words: list[str], error: str, timed: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.csv").write_text(rows)
    assert main(["profile", timed, "p.csv", *words]) == (2 if error.startswith(USAGE) else 1)
    assert capsys.readouterr().err.startswith(error)
