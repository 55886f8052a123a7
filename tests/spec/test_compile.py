"""The compile helper: a cache that a broken or missing compiler cannot poison."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from toolchain.isa.c_source import HELPERS
from toolchain.spec import compile as native
from toolchain.spec.errors import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_: str(tmp_path))
    return tmp_path / "native"


needs_compiler = pytest.mark.skipif(not native.compiler(), reason="no C compiler")


@needs_compiler
def test_the_same_source_is_compiled_once(cache: Path) -> None:
    source = "int once(void) { return 41; }"
    library = native.load_library("once", source)
    assert library is not None
    assert library.once() == 41
    made = {p.name: p.stat().st_mtime_ns for p in cache.glob("*.so")}
    assert native.load_library("once", source) is library
    native.load_library("once", source + "\nint other(void) { return 1; }")
    assert len(list(cache.glob("*.so"))) == 2
    assert all((cache / name).stat().st_mtime_ns == time for name, time in made.items())


@needs_compiler
def test_the_text_is_written_only_where_its_library_is_not_known(cache: Path) -> None:
    def made(text: str, digest: str = "a digest") -> tuple[int, bool]:
        """What the library answers, and whether its text was asked for."""
        native._known.cache_clear()
        native._note.cache_clear()  # as in another process
        asked: list[str] = []
        library = native.load_known("known", digest, lambda: asked.append(text) or text)
        assert library is not None
        return library.known(), bool(asked)

    assert made("int known(void) { return 3; }") == (3, True)
    assert made("int known(void) { return 4; }") == (3, False)
    assert made("int known(void) { return 4; }", "another") == (4, True)
    for damaged in (b"../../known.so", b"\xff", b"known-00000000000000000000000000000000.so"):
        for note in cache.glob("*.known"):
            note.write_bytes(damaged)
        assert made("int known(void) { return 5; }") == (5, True)
        assert made("int known(void) { return 6; }") == (5, False)
    for seal in cache.glob("*.sha256"):
        seal.unlink()
    assert made("int known(void) { return 7; }") == (7, True)


@needs_compiler
def test_flags_are_part_of_the_key(cache: Path) -> None:
    source = "int flag(void) { return FLAG; }"
    one, two = (native.load_library("flag", source, (f"-DFLAG={n}",)) for n in (1, 2))
    assert one is not None
    assert two is not None
    assert (one.flag(), two.flag()) == (1, 2)
    assert len(list(cache.glob("*.so"))) == 2


@needs_compiler
def test_files_beside_a_source_are_compiled_once_for_all(cache: Path) -> None:
    files = (("add.c", '#include "add.h"\nint add(int a) { return a + STEP; }'), ("add.h", "#define STEP 40\nint add(int a);"))
    one, two = (native.load_library("lib", f'#include "add.h"\nint f(void) {{ return add({k}); }}', (), files) for k in (1, 2))
    assert one is not None
    assert two is not None
    assert (one.f(), two.f()) == (41, 42)
    assert len(list(cache.glob("*.o"))) == 1
    other = native.load_library(
        "lib", '#include "add.h"\nint f(void) { return add(1); }', (), (files[0], ("add.h", "#define STEP 9\nint add(int a);"))
    )
    assert other is not None
    assert other.f() == 10
    with pytest.raises(UserError, match="E0710"):
        native.load_library("lib", "int f(void) { return 0; }", (), (("add.c", "int add(void) { return }"),))


@needs_compiler
def test_refused_source_leaves_nothing_behind(cache: Path) -> None:
    with pytest.raises(UserError, match=r"E0710 .* refused generated code"):
        native.load_library("bad", "int bad(void) { return }")
    assert not [p for p in cache.iterdir() if p.suffix != ".lock"]


def test_without_a_compiler_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CC", "none")
    assert native.load_library("none", "int x;") is None


@needs_compiler
def test_a_cache_that_cannot_be_made_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_: str(tmp_path / "file"))
    library = native.load_library("homeless", "int homeless(void) { return 7; }")
    assert library is not None
    assert library.homeless() == 7


class FullDisk(type(Path())):
    """A path that nothing can be written to, as on a full disk."""

    def write_text(self, *_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@needs_compiler
def test_a_disk_that_is_full_is_told_in_one_line(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "Path", FullDisk)
    with pytest.raises(UserError, match=f"^E0712 no library can be kept in {cache}: No space left on device; make room there, or set [^\n]*$"):
        native.load_library("full", "int full(void) { return 1; }")


@needs_compiler
def test_what_cannot_be_loaded_is_told_in_one_line(cache: Path) -> None:
    with pytest.raises(UserError, match=f"^E0712 no library can be kept in {cache}: [^\n]*missing_symbol[^\n]*$"):
        native.load_library("unbound", "int missing_symbol(void); int unbound(void) { return missing_symbol(); }", ("-Wl,-z,now",))


def test_a_compiler_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CC", "no-such-compiler")
    with pytest.raises(UserError, match="E0720 TILEWRIGHT_CC names a compiler that is not there: 'no-such-compiler'"):
        native.load_library("none", "int x;")


@needs_compiler
def test_a_process_may_load_hundreds_of_engines(tmp_path: Path) -> None:
    """The fault's place must not use up the room that a process has for thread-local data of libraries."""
    library = tmp_path / "engine.so"
    source = "#include <stdint.h>\n#include <string.h>\n" + HELPERS + "\nint64_t use(int64_t a) { tw_fault = 0; tw_floordiv(1, a); return tw_fault; }"
    (tmp_path / "engine.c").write_text(source)
    subprocess.run([native.compiler(), "-O1", "-fPIC", "-shared", "-o", str(library), str(tmp_path / "engine.c")], check=True)
    for number in range(600):
        (tmp_path / f"{number}.so").write_bytes(library.read_bytes())
    program = f"import ctypes\nassert all(ctypes.CDLL(f'{tmp_path}/{{n}}.so').use(0) == 4 for n in range(600))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def fresh_answer(cache: Path, source: str) -> int:
    """What a new process gets from `int answer(void)`."""
    program = "import sys, platformdirs\nplatformdirs.user_cache_dir = lambda *_: sys.argv[1]\nfrom toolchain.spec.compile import load_library\n"
    program += "print(load_library('answer', sys.argv[2]).answer())"
    command = [sys.executable, "-c", program, str(cache.parent), source]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).resolve().parents[2]).stdout)


@needs_compiler
@pytest.mark.parametrize("kept", [0, 200, 5000])
def test_a_damaged_library_is_made_again(cache: Path, kept: int) -> None:
    source = "int answer(void) { return 42; }"
    assert fresh_answer(cache, source) == 42
    (library,) = cache.glob("*.so")
    whole = library.read_bytes()
    library.write_bytes(whole[:kept])
    assert fresh_answer(cache, source) == 42
    assert library.read_bytes() == whole


@needs_compiler
def test_a_compiler_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "slow-cc"
    slow.write_text('#!/bin/sh\n[ "$1" = --version ] || exec sleep 60\n')
    slow.chmod(0o755)
    monkeypatch.setenv("TILEWRIGHT_CC", str(slow))
    monkeypatch.setattr(native, "PATIENCE", 0.2)
    with pytest.raises(UserError, match=r"E0710 .*slow-cc refused generated code.*\nno end after 0.2 seconds"):
        native.load_library("slow", "int x;")


def test_a_compiler_that_makes_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CC", "true")
    with pytest.raises(UserError, match=r"E0710 .*true refused generated code.*\nit made no library"):
        native.load_library("nothing", "int x;")
