"""A bundle as one ELF file, read by pyelftools: a section for each part with the bundle's very bytes; it runs and gives the bundle's results."""

import io
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from bench.in_process import Compiled
from tests.c_networks import compiled, pictures, plain
from toolchain.cli import main
from toolchain.runtime import elf
from toolchain.runtime.bundle import manifest_text, write_bundle
from toolchain.runtime.elf import elf_program
from toolchain.spec.errors import UserError

DEVICE = [sys.executable, "-m", "toolchain", "device"]
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


def sections(data: bytes) -> dict[str, bytes]:
    """Those of ours and the host's code, by name."""
    found = {section.name: section.data() for section in ELFFile(io.BytesIO(data)).iter_sections()}
    return {name: content for name, content in found.items() if name.startswith(".tilewright") or name == ".text"}


@needs_compiler
@pytest.mark.parametrize("target", ["vta", "dpuv3"])
def test_code_and_parameters_stand_in_sections_and_run_on_a_device(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built, path, program = plain(target), tmp_path / "plain.bundle", tmp_path / "plain.elf"
    write_bundle(path, built.bundle)
    assert main(["export", "elf", str(path), "-o", str(program)]) == 0
    assert capsys.readouterr().out == f"{program}: the host's program, code and parameters of 1 region; readelf -SW {program}\n"
    found, (region,) = sections(program.read_bytes()), built.bundle.manifest.regions
    assert found[".tilewright.code.region0"] == built.bundle.members[region.binary]
    assert all(built.bundle.members[member] in found[".tilewright.parameters.region0"] for member in region.constants.values())
    assert found[".tilewright.manifest"] == manifest_text(built.bundle).encode()
    path.unlink()
    done = subprocess.run([program, *DEVICE], input=pictures(2).tobytes(), capture_output=True, check=True)
    assert (done.stderr, done.stdout) == (b"", built.executor.run({"x": pictures(2)[:, 0]}).outputs["y"].tobytes())


@needs_compiler
def test_a_region_in_c_is_machine_code_in_its_section_and_bytes_are_the_same_twice(tmp_path: Path) -> None:
    built, program = compiled(), tmp_path / "kinds.elf"
    data = elf_program(built.bundle, built.executor.machines)
    assert data == elf_program(built.bundle, built.executor.machines)
    code = next(section for section in ELFFile(io.BytesIO(data)).iter_sections() if section.name == ".tilewright.code.region0")
    assert code["sh_flags"] & 4, "it can be executed"
    assert sections(data)[".text"]
    program.write_bytes(data)
    program.chmod(0o755)
    done = subprocess.run([program], input=pictures(2).tobytes(), capture_output=True, check=True)
    assert (done.stderr, done.stdout) == (b"", built.executor.run({"x": pictures(2)[:, 0]}).outputs["y"].tobytes())


@pytest.mark.parametrize(("compiler", "code"), [("none", "E0711 there is no C compiler"), ("false", "E0710 .*refused generated code")])
def test_without_a_compiler_that_does_it_there_is_an_error(compiler: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    built: Compiled = plain("vta")
    monkeypatch.setenv("TILEWRIGHT_CC", compiler)
    with pytest.raises(UserError, match=code):
        elf_program(built.bundle, built.executor.machines)


def test_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(files: Mapping[str, bytes], flags: Sequence[str]) -> bytes:
        del files, flags
        return b"\xcf\xfa\xed\xfe"

    monkeypatch.setattr(elf, "link_program", link)
    with pytest.raises(UserError, match="E0710 the C compiler makes no ELF files"):
        elf_program(plain("vta").bundle, plain("vta").executor.machines)
