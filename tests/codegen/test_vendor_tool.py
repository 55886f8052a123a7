"""A vendor's compiler: only one that the user names is started, and every way in which it fails is one error with its last words."""

from collections.abc import Callable
from pathlib import Path

import pytest

from toolchain.codegen.vendor_tool import VARIABLE, run_compiler, tool_path
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine, Tool

FILE = """
target: {name: npu, summary: a vendor's}
codegen: tool
tool: {compiler: npuc, device: npud, arguments: [-O, "2"], seconds: 1, megabytes: 1}
tolerance: {absolute: 0.5, relative: 0, because: it rounds}
timing: {clock_khz: {value: 1000, source: made up}}
operators: {Relu: []}
pipeline: [partition]
"""
Script = Callable[[str, str], Path]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    def write(name: str, body: str) -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "npu.yaml").write_text(FILE)
    return load_machine(str(tmp_path / "npu.yaml"))


def _tool(machine: Machine) -> Tool:
    assert machine.tool is not None
    return machine.tool


def test_the_file_says_all_of_a_tool(machine: Machine) -> None:
    tool = _tool(machine)
    assert (tool.compiler, tool.device, tool.arguments, tool.seconds, tool.megabytes) == ("npuc", "npud", ("-O", "2"), 1, 1)
    near = machine.tolerance
    assert near is not None
    assert (near.absolute, near.relative, near.because) == (0.5, 0.0, "it rounds")
    assert machine.takes_graphs


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("compiler: npuc", "compiler: ../npuc", "the name of a program, not a path"),
        ("seconds: 1, ", "", "E0109 missing key 'seconds'"),
        ("because: it rounds", "because: ''", "because"),
        ("relative: 0,", "relative: 2,", "relative"),
        ("tolerance:", "assumptions: [none]\n#", "E0109 missing key 'tolerance'"),
        ("codegen: tool", "codegen: binary", "E0109"),
    ],
)
def test_a_wrong_section_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "npu.yaml").write_text(FILE.replace(old, new))
    with pytest.raises(UserError) as caught:
        load_machine(str(tmp_path / "npu.yaml"))
    assert message in "\n".join(diagnostic.render() for diagnostic in caught.value.diagnostics)


def test_only_programs_that_the_user_names_are_started(machine: Machine, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, plain = script("npuc", "true"), tmp_path / "npud"
    plain.write_text("no program")
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=f"E1116 machine 'npu' needs its vendor's program 'npuc', which {VARIABLE} does not name"):
        tool_path(machine, "npuc")
    monkeypatch.setenv(VARIABLE, f"{path}:{plain}:{tmp_path}/gone/other")
    assert tool_path(machine, "npuc") == path
    for name in ("npud", "other"):
        with pytest.raises(UserError, match=r"E1116 .* is no program that can be started"):
            tool_path(machine, name)


def test_the_compiler_gets_the_model_and_its_arguments(machine: Machine, script: Script) -> None:
    path = script("npuc", 'echo "$1 $2 $3 $4" > "$2"; cat "$1" >> "$2"')
    assert run_compiler(path, _tool(machine), b"a model", "region0") == b"region.onnx region.bin -O 2\na model"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo first; echo; echo no code for Gelu >&2; exit 3", "ends with code 3, on region 'region0': no code for Gelu"),
        ("kill -9 $$", "ends with code -9, on region 'region0'"),
        ("true", "writes 0 bytes of code, and may write 1 to 1 MB"),
        ("ln -s /etc/passwd region.bin", "writes 0 bytes of code"),
        ("head -c 1000001 /dev/zero > region.bin", "writes 1000001 bytes of code, and may write 1 to 1 MB"),
        ("echo waiting; (sleep 30; echo late) & sleep 30", "takes longer than 1 s, on region 'region0': waiting"),
    ],
)
def test_a_compiler_that_fails_is_an_error(body: str, message: str, machine: Machine, script: Script) -> None:
    with pytest.raises(UserError, match=f"E1117 the vendor's compiler 'npuc' {message}"):
        run_compiler(script("npuc", body), _tool(machine), b"", "region0")


def test_a_file_that_is_no_program_is_an_error(machine: Machine, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="E1117 the vendor's compiler 'npuc' cannot be started: "):
        run_compiler(tmp_path / "gone", _tool(machine), b"", "region0")
