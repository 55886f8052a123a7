"""The command line as scripts see it: exit codes, what is printed where, files written."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import toolchain
from toolchain.cli import USAGE, main
from toolchain.tasks.variables import VARIABLES

DATA = Path(__file__).resolve().parent / "data"
RIPPLE = str(DATA / "machines" / "ripple.yaml")


@pytest.fixture
def golden_program(tmp_path: Path) -> tuple[Path, Path, bytes]:
    """A VTA convolution of the golden set: program, memory image before, memory image after."""
    with np.load(DATA / "vta_golden" / "c02_conv1x1_s1.npz", allow_pickle=False) as held:
        program, before, after = (held[name].tobytes() for name in ("insns", "dram_before", "dram_after"))
    (tmp_path / "program.bin").write_bytes(program)
    (tmp_path / "before.bin").write_bytes(before)
    return tmp_path / "program.bin", tmp_path / "before.bin", after


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_emulate_writes_what_it_is_asked_for(golden_program: tuple[Path, Path, bytes], tmp_path: Path, engine: str) -> None:
    program, before, after = golden_program
    out, report, trace = tmp_path / "after.bin", tmp_path / "run.json", tmp_path / "trace.json"
    words = ["emulate", "vta", str(program), "--memory", f"dram={before}", "--out", f"dram={out}", "--engine", engine]
    assert main([*words, "--json", str(report), "--trace", str(trace)]) == 0
    assert out.read_bytes() == after
    data = json.loads(report.read_text())
    assert set(data["seconds"]) == {"compiling", "decoding", "checks", "execution", "timing", "trace"}
    assert data["cycles"] > 0
    assert data["instructions"] * 16 == program.stat().st_size
    assert {unit["name"] for unit in data["units"]} == {"load", "compute", "store"}
    assert data["ms"] == pytest.approx(data["cycles"] / 100_000)
    moved = {memory["name"]: (memory["read_bytes"], memory["written_bytes"]) for memory in data["memories"]}
    assert (moved["dram"], moved["inp"][1], moved["wgt"][1]) == ((5792, 1152), 2304, 12 * 256)
    assert json.loads(trace.read_text())["traceEvents"]
    assert main([*words, "--trace", str(tmp_path / "timeline.html")]) == 0
    assert (tmp_path / "timeline.html").read_text().startswith("<!doctype html>")


def test_a_parameter_of_the_machine_can_be_set_for_a_run(golden_program: tuple[Path, Path, bytes], tmp_path: Path) -> None:
    program, before, _ = golden_program
    report, found = tmp_path / "run.json", list[float]()
    for khz in (100_000, 200_000):
        words = ["emulate", "vta", str(program), "--memory", f"dram={before}", "--set", f"CLOCK_KHZ={khz}", "--json", str(report)]
        assert main(words) == 0
        found.append(json.loads(report.read_text())["ms"])
    assert found[0] == pytest.approx(2 * found[1])


def test_out_with_a_place_writes_just_that(golden_program: tuple[Path, Path, bytes], tmp_path: Path) -> None:
    program, before, after = golden_program
    out = tmp_path / "piece.bin"
    assert main(["emulate", "vta", str(program), "--memory", f"dram={before}", "--out", f"dram={out}@4096:64"]) == 0
    assert out.read_bytes() == after[4096:4160]


def test_check_says_that_all_is_well(golden_program: tuple[Path, Path, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    program, before, _ = golden_program
    assert main(["check", "vta", str(program), "--memory", f"dram={before}"]) == 0
    assert "no deadlock, no race" in capsys.readouterr().out


def test_a_missing_token_is_exit_code_1_and_no_output_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "stuck.asm", tmp_path / "after.bin"
    source.write_text("FINISH pop_prev=1\n")
    assert main(["emulate", "vta", str(source), "--out", f"dram={out}"]) == 1
    assert "E0501 deadlock" in capsys.readouterr().err
    assert not out.exists()


def test_assembly_there_and_back(golden_program: tuple[Path, Path, bytes], tmp_path: Path) -> None:
    program, _, _ = golden_program
    assert main(["disasm", "vta", str(program), "-o", str(tmp_path / "text.asm")]) == 0
    assert main(["asm", "vta", str(tmp_path / "text.asm"), "-o", str(tmp_path / "again.bin")]) == 0
    assert (tmp_path / "again.bin").read_bytes() == program.read_bytes()


def test_footprints_stand_beside_the_instructions(golden_program: tuple[Path, Path, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    program, _, _ = golden_program
    assert main(["disasm", "vta", str(program), "--footprints"]) == 0
    assert any("#" in line and "dram[" in line for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["target", "show", "vtaa"], "E0001 unknown target 'vtaa'; did you mean 'vta'?"),
        (["target", "show", "vta:pinq"], "E0104 unknown configuration 'pinq'; did you mean 'pynq'?"),
        (["target", "show", "vta", "--set", "LOG_BLOCK"], "E0002 'LOG_BLOCK' does not have the form --set PARAM=VALUE"),
        (["target", "show", "vta", "--set", "LOG_BLOK=3"], "E0104 unknown parameter 'LOG_BLOK'; did you mean 'LOG_BLOCK'?"),
        (["emulate", "vta", "no/such.bin"], "no/such.bin: E0001"),
        (["asm", "vta", "no.asm"], "no.asm: E0001"),
        (["target", "check", "targets/none.yaml"], "E0001 there is no machine file 'targets/none.yaml'"),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == (2 if message.startswith(USAGE) else 1)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize("option", ["--out", "--trace", "--json"])
def test_an_output_that_cannot_be_written_is_said_before_the_run(
    golden_program: tuple[Path, Path, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    program, before, _ = golden_program
    path = tmp_path / "none" / "file"
    words = ["emulate", "vta", str(program), "--memory", f"dram={before}", "--out", f"dram={tmp_path / 'after.bin'}"]
    assert main([*words, option, f"dram={path}" if option == "--out" else str(path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"{path}: E0005 cannot write the file: No such file or directory\n"
    assert not (tmp_path / "after.bin").exists()


def test_a_full_disk_under_standard_output_is_one_line() -> None:
    words = [sys.executable, "-m", "toolchain.cli", "target", "show", "vta"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, cwd=DATA.parents[1], check=False)
    assert (done.returncode, done.stderr) == (1, "standard output: E0005 the system refused: No space left on device\n")


def test_a_reader_that_has_gone_is_no_error() -> None:
    words = [sys.executable, "-m", "toolchain.cli", "target", "show", "vta"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=DATA.parents[1]) as run:
        assert run.stdout
        assert run.stderr
        run.stdout.close()
        assert run.stderr.read() == ""


def test_a_wrong_command_line_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["emulate", "vta"])
    assert stopped.value.code == 2
    assert "PROGRAM" in capsys.readouterr().err


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"tilewright {toolchain.__version__}\n"


def test_help_says_what_the_command_itself_says(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    for words in (["help", "build"], ["build", "--help"]):
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert all(f"  {name}=" in said[0] for name in VARIABLES)


def test_clean_and_info_take_the_variables_of_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["info", "target=vta", "model=digits"]) == 0
    assert "calibration digits: to be made after onnx" in capsys.readouterr().out
    assert main(["clean", "target=vta", "model=digits"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["clean", "tarrget=vta"]) == 2
    assert "did you mean 'target'?" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "near"), [(["emulat"], "emulate"), (["target", "shw"], "show"), (["completion", "bassh"], "bash")])
def test_a_misspelt_command_is_told_the_nearest(words: list[str], near: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert f"'{words[-1]}' is unknown; did you mean '{near}'?" in capsys.readouterr().err


def test_show_and_manual_say_what_each_parameter_may_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["target", "show", "vta", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["parameters"]
    assert found["LOG_BLOCK"] == {"values": "2 to 7", "doc": "log2 of both block sizes of the GEMM core"}
    assert found["OUT"]["values"] == "acc or buffer"
    assert main(["target", "manual", "vta"]) == 0
    assert "| LOG_BLOCK | 4 | 2 to 7 | log2 of both block sizes of the GEMM core |" in capsys.readouterr().out


def test_show_gives_json_that_reads_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["target", "show", RIPPLE, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["target"]["name"] == "ripple"


def test_diff_names_paths(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["target", "diff", "vta", "vta:ultra96"]) == 0
    assert "params.CLOCK_KHZ: 100000 -> 333000" in capsys.readouterr().out
    assert main(["target", "diff", RIPPLE, RIPPLE]) == 0
    assert capsys.readouterr().out == "no difference\n"


def test_list_names_every_machine_and_survives_a_broken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.yaml").write_text("target: [\n")
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    assert main(["target", "list"]) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("clib: ")
    assert "broken.yaml:2:1: E0101" in printed.err


def test_variables_stand_behind_options_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["studio", "--port", "70000", "--serve", "target=vta", "model=digits"]) == 2
    assert capsys.readouterr().err == "E0002 --port is 70000, it must be from 0 to 65535\n"
    assert main(["studio", "vta", "--port", "1", "digits", "tarrget=x"]) == 2
    assert capsys.readouterr().err == "E0002 --port is for --serve\n"
    with pytest.raises(SystemExit) as ended:
        main(["studio", "vta", "--port", "1", "digits", "--prot", "1"])
    assert ended.value.code == 2
    assert "error: unrecognized arguments: " in capsys.readouterr().err


@pytest.mark.parametrize(("words", "usage"), [(["explore", "vta", "digits"], "explore"), (["bundle", "show", "a", "b"], "bundle show")])
def test_a_word_too_many_is_told_with_the_usage_of_its_command(words: list[str], usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(f"usage: tilewright {usage} ")
    assert told.endswith(f"tilewright {usage}: error: unrecognized arguments: {words[-1]}\n")
