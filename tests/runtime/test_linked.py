"""A bundle as a library in C: the bytes of Python's runtime, from C++, from Python, from two threads, with sanitizers that find nothing. A
bundle as one ELF file, read by pyelftools: a section for each part with the bundle's very bytes; it runs and gives the bundle's results."""

import ctypes
import io
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

import toolchain
from bench.in_process import Compiled
from tests import float_networks, steps_network
from tests.c_networks import compiled, pictures, plain
from toolchain.cli import main
from toolchain.runtime import linked
from toolchain.runtime.bundle import manifest_text, write_bundle
from toolchain.runtime.linked import c_library, elf_program
from toolchain.runtime.stand_alone import stand_alone
from toolchain.spec.errors import UserError

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O0", "-g", "-fPIC", "-fvisibility=hidden")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")
needs_cpp = pytest.mark.skipif(shutil.which("c++") is None or shutil.which("cc") is None, reason="no C++ compiler on this machine")
USER = """
#include <cstdio>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>
#include "{name}.h"
static void work(const std::vector<char> *bundle, const std::vector<float> *x, std::vector<float> *y, int *code)
{{
    {name}_model *model;
    *code = {name}_open(&model, bundle->data(), bundle->size());
    if (!*code) *code = {name}_run(model, 3, x->data(), y->data());
    {name}_close(model);
}}
int main(int, char **words)
{{
    std::ifstream file(words[1], std::ios::binary), given(words[2], std::ios::binary);
    const std::vector<char> bundle((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::vector<float> x(3 * {upper}_IN_X), y[2];
    given.read(reinterpret_cast<char *>(x.data()), static_cast<std::streamsize>(x.size() * sizeof(float)));
    int codes[2];
    for (auto &each : y) each.resize(3 * {upper}_OUT_Y);
    std::thread one(work, &bundle, &x, y, codes), two(work, &bundle, &x, y + 1, codes + 1);
    one.join(), two.join();
    for (int k = 0; k < 2; k++) {{
        if (codes[k]) return std::fprintf(stderr, "%s\\n", {name}_error(codes[k])), 1;
        std::fwrite(y[k].data(), sizeof(float), y[k].size(), stdout);
    }}
    return 0;
}}
"""

DEVICE = [sys.executable, "-m", "toolchain", "device"]


def _exported(built: Compiled, folder: Path, *words: str) -> str:
    """Writes bundle and library; the library's name."""
    folder.mkdir()
    write_bundle(folder / "model.bundle", built.bundle)
    assert main(["export", "c", "--library", *words, str(folder / "model.bundle"), "-o", str(folder / "c")]) == 0
    return c_library(built.bundle, built.executor.machines).name


def _shared(folder: Path, name: str) -> ctypes.CDLL:
    sources = sorted((folder / "c").glob("*.c"))
    subprocess.run(["cc", *STRICT, "-shared", *sources, "-lm", "-o", folder / f"lib{name}.so"], check=True)
    return ctypes.CDLL(str(folder / f"lib{name}.so"))


def _text(library: ctypes.CDLL, name: str, code: int) -> str:
    function = library[f"{name}_error"]
    function.restype = ctypes.c_char_p
    return function(code).decode()


@needs_cpp
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_two_threads_of_a_program_in_cpp_get_the_bytes_of_the_runtime(sanitizer: str, tmp_path: Path) -> None:
    name, samples = _exported(compiled(), tmp_path / "kinds"), pictures(3)
    folder, flags = tmp_path / "kinds", [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"]
    (folder / "user.cpp").write_text(USER.format(name=name, upper=name.upper()))
    samples.tofile(folder / "x.bin")
    subprocess.run(["cc", *STRICT, *flags, "-c", *sorted((folder / "c").glob("*.c"))], cwd=folder, check=True)
    words = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Ic", "user.cpp", *sorted(path.name for path in folder.glob("*.o"))]
    subprocess.run(["c++", *flags, *words, "-lm", "-pthread", "-o", "user"], cwd=folder, check=True)
    done = subprocess.run([folder / "user", folder / "model.bundle", folder / "x.bin"], capture_output=True, check=False)
    assert (done.stderr, done.returncode) == (b"", 0)
    assert done.stdout == compiled().executor.run({"x": samples[:, 0]}).outputs["y"].tobytes() * 2


@needs_compiler
def test_two_models_in_one_python_process(tmp_path: Path) -> None:
    """Both have a function region0, and neither meets the other's."""
    found: dict[str, tuple[ctypes.CDLL, str, ctypes.c_void_p]] = {}
    for folder, built in (("kinds", compiled()), ("floats", float_networks.built())):
        name = _exported(built, tmp_path / folder)
        library, model, data = _shared(tmp_path / folder, name), ctypes.c_void_p(), (tmp_path / folder / "model.bundle").read_bytes()
        assert library[f"{name}_open"](ctypes.byref(model), data, ctypes.c_size_t(len(data))) == 0
        found[folder] = (library, name, model)
    samples, y = pictures(3), np.zeros((3, 5), np.float32)
    library, name, model = found["kinds"]
    assert library[f"{name}_run"](model, ctypes.c_size_t(3), samples.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p)) == 0
    assert y.tobytes() == compiled().executor.run({"x": samples[:, 0]}).outputs["y"].tobytes()
    library, name, model = found["floats"]
    x, run = float_networks.samples(1), float_networks.built().executor.run({"x": float_networks.samples(1)[0]}).outputs
    made = [np.zeros_like(run["y"]), np.zeros_like(run["y2"])]
    places = [each.ctypes.data_as(ctypes.c_void_p) for each in (x, *made)]
    assert library[f"{name}_run"](model, ctypes.c_size_t(1), *places) == 0
    assert [each.tobytes() for each in made] == [run["y"].tobytes(), run["y2"].tobytes()]
    for library, name, model in found.values():
        library[f"{name}_close"](model)


SOFT = """
model: {name: soft, summary: a convolution and a softmax, sources: [made up]}
inputs: {x: [1, 3, 8, 8]}
layers: [{conv: {out: 8, kernel: 3, pad: half, act: relu}}, flatten, {dense: {out: 10}}, {softmax: {name: share}}]
"""


@needs_compiler
def test_operators_of_the_host_are_functions_of_a_second_library(tmp_path: Path) -> None:
    (tmp_path / "soft.yaml").write_text(SOFT)
    for machines, code in ((["clib"], 1), (["clib", "clib32"], 0)):
        built = toolchain.compile(tmp_path / "soft.yaml", machines, place="all", effort=0, folder=tmp_path / "built")
        assert main(["export", "c", "--library", str(built.bundle), "-o", str(tmp_path / "c")]) == code
    samples, y, model, data = (
        np.random.default_rng(3).normal(size=(3, 3, 8, 8)),
        np.zeros((3, 10), np.float32),
        ctypes.c_void_p(),
        built.bundle.read_bytes(),
    )
    x, library = samples.astype(np.float32), _shared(tmp_path, "soft")
    assert library.soft_open(ctypes.byref(model), data, ctypes.c_size_t(len(data))) == 0
    assert library.soft_run(model, ctypes.c_size_t(3), *(each.ctypes.data_as(ctypes.c_void_p) for each in (x, y))) == 0
    library.soft_close(model)
    (wanted,) = toolchain.load(built.bundle, native=True).run({"x": x}).values()
    assert y.tobytes() == wanted.tobytes()
    assert np.allclose(y.sum(axis=1), 1)


@needs_compiler
def test_handles_are_sequences_of_a_model_with_states(tmp_path: Path) -> None:
    """Two of them take turns; one begins anew in the middle."""
    network, folder, name = steps_network.built("clib", steps_network.ALONE), tmp_path / "steps", "steps"
    folder.mkdir()
    write_bundle(folder / "model.bundle", network.bundle)
    assert main(["export", "c", "--library", str(folder / "model.bundle"), "-o", str(folder / "c")]) == 0
    library, data = _shared(folder, name), (folder / "model.bundle").read_bytes()
    handles = [ctypes.c_void_p(), ctypes.c_void_p()]
    assert [library.steps_open(ctypes.byref(handle), data, ctypes.c_size_t(len(data))) for handle in handles] == [0, 0]

    def check(handle: ctypes.c_void_p, number: int, steps: slice) -> None:
        x, wanted = (np.concatenate([each[side][key] for each in network.oracle(number)[steps]]) for side, key in ((0, "x"), (1, "y")))
        y = np.zeros_like(wanted)
        assert library.steps_run(handle, ctypes.c_size_t(len(x)), x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p)) == 0
        assert np.array_equal(y, wanted)

    check(handles[0], 0, slice(0, 2))
    check(handles[1], 1, slice(0, 3))
    check(handles[0], 0, slice(2, 5))
    assert library.steps_reset(handles[1]) == 0
    check(handles[1], 2, slice(0, 5))
    assert _text(library, name, library.steps_reset(None)) == "an argument is NULL"
    for handle in handles:
        library.steps_close(handle)


@needs_compiler
def test_a_library_with_its_bundle_inside_needs_no_file(tmp_path: Path) -> None:
    name = _exported(compiled(), tmp_path / "kinds", "--embed")
    library, model, samples, y = _shared(tmp_path / "kinds", name), ctypes.c_void_p(), pictures(3), np.zeros((3, 5), np.float32)
    (tmp_path / "kinds" / "model.bundle").unlink()
    assert library[f"{name}_open"](ctypes.byref(model)) == 0
    assert library[f"{name}_run"](model, ctypes.c_size_t(3), samples.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p)) == 0
    library[f"{name}_close"](model)
    assert y.tobytes() == compiled().executor.run({"x": samples[:, 0]}).outputs["y"].tobytes()
    assert _text(library, name, library[f"{name}_open"](None)) == "an argument is NULL"
    assert not hasattr(library, f"{name}_bundle")


def test_the_array_is_the_bundle(tmp_path: Path) -> None:
    name = _exported(compiled(), tmp_path / "kinds", "--embed")
    text, data = (tmp_path / "kinds" / "c" / f"{name}_bundle.c").read_text(), (tmp_path / "kinds" / "model.bundle").read_bytes()
    assert bytes(map(int, text.partition("= {")[2].partition("}")[0].split(","))) == data
    assert f"{name}_bundle.c" in (tmp_path / "kinds" / "c" / "CMakeLists.txt").read_text()


def test_only_a_library_has_its_bundle_inside(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "c", "--embed", "model.bundle", "-o", "c"]) == 2
    assert (
        capsys.readouterr().err == "E0002 --embed is for a library; add --library; `tilewright export elf` makes a program with its bundle inside\n"
    )


@needs_compiler
def test_errors_are_codes_with_a_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Other bundles, short ones and a changed constant; no message is written."""
    name = _exported(compiled(), tmp_path / "kinds")
    capfd.readouterr()
    library, model, data = _shared(tmp_path / "kinds", name), ctypes.c_void_p(), (tmp_path / "kinds/model.bundle").read_bytes()
    member = next(iter(compiled().bundle.manifest.regions[0].constants.values()))
    constant = compiled().bundle.members[member]
    changed = data.replace(constant, bytes([constant[0] ^ 1]) + constant[1:])
    texts = []
    for given in (b"", data[:-9], data[:30], changed):
        code = library[f"{name}_open"](ctypes.byref(model), given, ctypes.c_size_t(len(given)))
        assert model.value is None
        texts.append(_text(library, name, code))
    other = "not the bundle that this library was made of"
    assert texts == [other, other, other, "the bundle's constants are damaged"]
    assert _text(library, name, library[f"{name}_run"](None, ctypes.c_size_t(0), None, None)) == "an argument is NULL"
    model.value = 1
    assert _text(library, name, library[f"{name}_open"](ctypes.byref(model), None, ctypes.c_size_t(0))) == "an argument is NULL"
    assert model.value is None
    assert _text(library, name, 99) == "no code of this library"
    assert capfd.readouterr() == ("", "")


def test_a_model_of_any_name_writes_no_code() -> None:
    held = compiled().bundle
    other = replace(held, manifest=replace(held.manifest, model="x */ int evil; /*"))
    files = c_library(other, compiled().executor.machines).files
    program = stand_alone(other, compiled().executor.machines)["program.c"]
    assert b"/* x____int_evil____ as a program" in program
    assert not [name for name, data in {**files, "program.c": program}.items() if b"int evil" in data]


@needs_compiler
def test_a_sample_with_nan_is_refused_before_the_first_is_computed(tmp_path: Path) -> None:
    name, samples, wrong = _exported(compiled(), tmp_path / "kinds"), pictures(2).astype(np.float32), ctypes.c_void_p()
    library, data = _shared(tmp_path / "kinds", name), (tmp_path / "kinds/model.bundle").read_bytes()
    assert library[f"{name}_open"](ctypes.byref(wrong), data, ctypes.c_size_t(len(data))) == 0
    found = np.full((2, 5), 7, np.float32)
    samples.reshape(2, -1)[1, 9] = np.nan
    run, given, made = library[f"{name}_run"], samples.ctypes.data_as(ctypes.c_void_p), found.ctypes.data_as(ctypes.c_void_p)
    assert _text(library, name, run(wrong, ctypes.c_size_t(2), given, made)) == "an input that becomes integers holds NaN"
    assert (found == 7).all()
    assert run(wrong, ctypes.c_size_t(1), given, made) == 0
    assert np.array_equal(found[0], compiled().executor.run({"x": samples[0]}).outputs["y"][0])
    library[f"{name}_close"](wrong)


@pytest.mark.skipif(not all(map(shutil.which, ("cc", "cmake", "pkg-config"))), reason="no C compiler, CMake or pkg-config on this machine")
def test_cmake_installs_a_library_that_pkg_config_finds(tmp_path: Path) -> None:
    name = _exported(compiled(), tmp_path / "kinds")
    folder, place = tmp_path / "kinds", tmp_path / "installed"
    words = ["-S", folder / "c", "-B", folder / "b", f"-DCMAKE_INSTALL_PREFIX={place}", "-DCMAKE_INSTALL_LIBDIR=lib"]
    subprocess.run(["cmake", *words], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder / "b", "--target", "install"], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(
        ["pkg-config", "--cflags", "--libs", name], env={"PKG_CONFIG_PATH": f"{place}/lib/pkgconfig"}, capture_output=True, text=True, check=True
    )
    (folder / "use.c").write_text(f"#include <{name}.h>\nint main(void) {{ return {name}_run(0, 0, 0, 0) != {name.upper()}_ARGUMENT; }}\n")
    subprocess.run(["cc", folder / "use.c", *done.stdout.split(), f"-Wl,-rpath,{place}/lib", "-o", folder / "use"], check=True)
    subprocess.run([folder / "use"], check=True)


def test_a_region_on_a_device_is_refused() -> None:
    with pytest.raises(UserError, match=r"E1114 region 'region0' runs on a device, vta, and a library has regions in C"):
        c_library(plain("vta").bundle, plain("vta").executor.machines)


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


@needs_compiler
def test_the_start_of_a_state_is_a_parameter_of_the_program(tmp_path: Path) -> None:
    network, program = steps_network.built("clib", steps_network.ALONE), tmp_path / "steps.elf"
    write_bundle(tmp_path / "steps.bundle", network.bundle)
    assert main(["export", "elf", str(tmp_path / "steps.bundle"), "-o", str(program)]) == 0
    (state,), steps = network.bundle.manifest.states, network.oracle()
    assert sections(program.read_bytes())[".tilewright.parameters.states"] == network.bundle.members[state.start]
    given, wanted = (b"".join(each[side][name].tobytes() for each in steps) for side, name in ((0, "x"), (1, "y")))
    assert subprocess.run([program], input=given, capture_output=True, check=True).stdout == wanted


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

    monkeypatch.setattr(linked, "link_program", link)
    with pytest.raises(UserError, match="E0710 the C compiler makes no ELF files"):
        elf_program(plain("vta").bundle, plain("vta").executor.machines)
